"""What paths are made of, here and on every host of a cluster."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Sequence
from typing import Any, Unpack

from hyperslab.driver.hosts import Answers, ask_hosts, reaches_hosts
from hyperslab.driver.options import Options, chosen, spelled_out
from hyperslab.errors import UsageError, told_in_python
from hyperslab.plan.settings import Settings
from hyperslab.storage.location import is_remote, local_path, text_of
from hyperslab.storage.tiers.looking import look
from hyperslab.storage.tiers.tier import Tier

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@spelled_out
@told_in_python
def tiers(paths: Paths, options: Options | None = None, **settings: Unpack[Settings]) -> list[Tier]:
    """What paths are made of: one Tier for each path, or with a cluster one for each of its hosts,
    after that of this host; those of a path follow each other.

    `settings` are those of Options that name a cluster: `tiers("/scratch", engine="dask-futures",
    connect="tcp://10.0.0.1:8786")`. The current directory has to be one that all hosts see then. No
    error is raised for a path that cannot be looked at: its Tier says why. Raises UsageError, and
    RunStopped where the cluster cannot do the job.
    """
    options = chosen("tiers", options, settings)
    asked = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not asked or "" in map(str, asked):
        raise UsageError("give the paths that are to be looked at")
    names = [text_of(path) for path in asked]
    if not reaches_hosts(options):
        return [look(name) for name in names]
    names = [_absolute(name) for name in names]
    here = [look(name) for name in names]
    answers = ask_hosts(functools.partial(_looked, names), options)
    return [
        tier for number in range(len(names)) for tier in _of_hosts(here[number], number, answers)
    ]


def _absolute(name: str) -> str:
    """A path as every host takes it for the same."""
    if is_remote(name):
        return name
    return os.path.abspath(local_path(name))


def _looked(names: Sequence[str]) -> list[dict[str, Any]]:
    """What a host says of paths."""
    return [look(name).as_json() for name in names]


def _of_hosts(here: Tier, number: int, answers: Answers) -> list[Tier]:
    """The tiers of one path: this host's, then those of the others."""
    own = socket.gethostname()
    found = [here]
    for host, said in answers.by_host.items():
        if host != own:
            found.append(Tier.from_json(said[number]))
    why = "no task of the engine has come to this host"
    reasons = {"kind": why, "exists": why}
    return found + [Tier(here.path, host, reasons=reasons) for host in answers.silent]
