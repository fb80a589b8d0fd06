"""App: what runs over every participant, as commands over its files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.apps.bids.dataset import File
from hyperslab.apps.bids.description import names_of
from hyperslab.apps.bids.unit import Unit
from hyperslab.plan.command import CommandTask
from hyperslab.plan.placeholders import literal

OUT = "{out}"
"Folder of a task, by the placeholder that commands have for it."
_REFUSE = ("sh", "-c", 'echo "$1" >&2; exit 1', "sh")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a unit."""

    argv: tuple[str, ...]
    "The words of the command, with placeholders of CommandTask."
    folder: str
    "Folder below the output directory that is made for what the command writes."
    outputs: tuple[str, ...] = ()
    "Files, or folders, below the output directory that it makes for certain."
    expected: tuple[str, ...] = ()
    "Such that follow from its words and inputs, as CommandTask has them."


@dataclass(frozen=True, slots=True)
class App:
    """What runs over every participant, and how its dataset describes it."""

    title: str
    commands: Callable[[Unit, str], list[Command]]
    "Commands for a unit of the dataset, or collection, in a folder."
    identity: str
    "What it is, in words by which a run that is resumed tells it from any other app."
    generated_by: tuple[Mapping[str, Any], ...] = ()
    "What a dataset says of what made it, beside hyperslab (BIDS 1.11, GeneratedBy)."
    needs_images: bool = True
    "Whether there is nothing to do for a unit without images."
    files: tuple[str, ...] = ()
    "Further files whose change makes what was done outdated, such as the source of a function."
    after: tuple[str, ...] = ()
    "A command that removes what others leave outside of their processes, as CommandTask has it."
    limits: tuple[str, ...] = ()
    "Words of its commands that limit what they may use, as CommandTask has them."
    writes_of_dataset: bool = False
    """Whether it also writes files that are of no unit, such as a citation of all, or the page of a
    participant of whom it sees a session: those of the first task stay.
    """
    notes: tuple[str, ...] = ()
    "Lines that people read beforehand, of what is not done as somebody might expect."
    mounted: str = ""
    "Path by which it knows the folder for what it makes, where it sees other files than tasks do."


def task_of(app: App, unit: Unit, root: str, is_kept: bool = False) -> CommandTask:
    """The task that runs the commands of an app over a unit, one after the other; the first one
    that fails is the last one. `is_kept` says that what it made stays, whatever has changed. Of a
    unit with a fault the task fails, and says why.
    """
    if unit.fault:
        return CommandTask(unit.label, refusing(unit.fault), is_kept=is_kept)
    commands = app.commands(unit, root)
    outputs = tuple(name for command in commands for name in command.outputs)
    inputs: tuple[str, ...] = (os.path.join(root, unit.folder),)
    if app.needs_images:
        inputs = tuple(image.path for image in unit.images)
    stem = ""
    if app.writes_of_dataset:
        stem = unit.stem
    return CommandTask(
        unit.label,
        in_turn(commands),
        (*inputs, *app.files),
        outputs,
        stem=stem,
        after=app.after,
        limits=app.limits,
        expected=tuple(name for command in commands for name in command.expected),
        is_kept=is_kept,
        mounted=(app.mounted, unit.participant.site),
        statements=names_of(unit.participant.site),
        folders=tuple(dict.fromkeys(f"{OUT}/{command.folder}" for command in commands)),
    )


def refusing(why: str) -> tuple[str, ...]:
    """The words of a command that fails, and says why."""
    return (*_REFUSE, literal(why))


def in_turn(commands: Sequence[Command]) -> tuple[str, ...]:
    """One command for several ones: a shell that is given all their words as arguments, so that no
    word is quoted, and takes the place of the last command.
    """
    if len(commands) == 1:
        return commands[0].argv
    words = [word for command in commands for word in command.argv]
    number = iter(range(1, len(words) + 1))
    quoted = [" ".join(f'"${{{next(number)}}}"' for _ in command.argv) for command in commands]
    script = " && ".join((*quoted[:-1], f"exec {quoted[-1]}"))
    return ("sh", "-c", script, "sh", *words)


def place_of(image: File, root: str) -> str:
    """Path of an image in its dataset, or collection."""
    return os.path.relpath(image.path, root)
