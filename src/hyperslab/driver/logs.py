"""Logs: what commands have printed, by the records of the slots that ran them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.tried import found_done
from hyperslab.errors import UsageError
from hyperslab.plan.command import LOGS, Ran
from hyperslab.plan.journal import Tail


@dataclass(frozen=True, slots=True)
class Logged:
    """One attempt at a command."""

    label: str
    attempt: int
    "Number of the attempt in its submission, from 0 on."
    failure: str
    "Why it failed; '' where it did not."
    ran: Ran
    path: Path
    "File with what the commands of its slot have printed."

    def printed(self) -> bytes:
        """What it has printed. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.ran.offset)
            return file.read(self.ran.nbytes)


def logged(directory: RunDirectory) -> list[Logged]:
    """The attempts at all commands of a run directory, those of earlier submissions first, but
    behind those that have failed the one whose results a later submission has found there. Raises
    UsageError for a run of something else.
    """
    directory.latest()
    found: list[Logged] = []
    for folder, plan in directory.plans():
        found = _each_once([*found, *_of(folder, plan)])
        found = _in_force(found, found_done(plan))
    if not found and not any("command" in plan["summary"] for _, plan in directory.plans()):
        raise UsageError(
            f"{directory.place}: no commands were run there: what functions print is in"
            " worker.log of the run's records"
        )
    return found


def _each_once(attempts: Iterable[Logged]) -> list[Logged]:
    """What a later submission has taken over is told by both, last by that one."""
    found = {(one.path, one.ran.offset, one.label, one.attempt): one for one in attempts}
    return list(found.values())


def _in_force(attempts: list[Logged], labels: Collection[str]) -> list[Logged]:
    """The same attempts; where the last one of these labels has failed, the newest one that has not
    is last.
    """
    newest = {one.label: one for one in attempts if one.label in labels}
    failed = {label for label, one in newest.items() if one.failure}
    if not failed:
        return attempts
    done = {one.label: one for one in attempts if one.label in failed and not one.failure}
    moved = set(map(id, done.values()))
    return [*(one for one in attempts if id(one) not in moved), *done.values()]


def _of(folder: Path, plan: Mapping[str, Any]) -> Iterator[Logged]:
    labels = {whole["first"]: whole["name"] for whole in plan["wholes"]}
    labels |= dict(enumerate(plan.get("then", ()), plan["tasks"]))
    attempts: dict[tuple[int, int], Logged] = {}
    for outcome in Tail(folder).poll():
        if outcome.ran is None:
            continue
        failure = ""
        if outcome.failure is not None:
            failure = outcome.failure.message
        path = Path(os.path.normpath(folder / LOGS / outcome.ran.log))
        label = labels[outcome.task]
        attempts[outcome.task, outcome.attempt] = Logged(
            label, outcome.attempt, failure, outcome.ran, path
        )
    yield from (attempts[key] for key in sorted(attempts))
