"""The participant level of an app in a container: a container for every participant, or for every
session of one.

- a container sees no session but those that its task is of
- what has the participant and the session in its name is the task's own; other files, such as
  sub-01.html, are of all sessions, and the first of them stays

Held by tests/apps/bids/containers.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperslab.apps.bids import app as apps
from hyperslab.apps.bids.app import App, Command
from hyperslab.apps.bids.containers import runtimes
from hyperslab.apps.bids.containers.images import is_file, remove_left
from hyperslab.apps.bids.containers.runtimes import Container, Mount, require_mountable
from hyperslab.apps.bids.dataset import SESSION, SUBJECT
from hyperslab.apps.bids.unit import Per, Unit
from hyperslab.apps.commands.running import run_here
from hyperslab.driver.options import Options
from hyperslab.plan.placeholders import literal

_PART = "{work}/.participant"
"Folder that takes the place of a participant of whom some sessions are shown."
_IN_SCRATCH = ("cd", "{work}")
"""Where a runtime is started: conmon, of Podman, leaves an empty file `oom` in its directory when
the kernel has killed a container (`write_oom_files` of its src/cgroup.c).
"""
_SHOWN = 12
"Characters of a checksum that tell files apart."


def container_app(asked: Container, out: str, per: Per = "participant") -> App:
    """The app of a container; `out` is the directory that the run writes to. Where a task is a
    session, it sees that one, whichever are asked for. Raises UsageError.
    """
    require_mountable(os.path.abspath(out))
    if per == "session":
        asked = replace(asked, sessions=())

    def commands(unit: Unit, root: str) -> list[Command]:
        words = runtimes.app_words("participant", [unit.participant.label])
        shown = _shown(unit, asked.sessions)
        mounts = _mounts(unit, root, bool(shown))
        found = []
        home = literal(unit.participant.site)
        if not asked.facts.takes_files:
            found.append(Command(_IN_SCRATCH, home))
        if shown:
            mounts += _mounts_of_sessions(unit, shown)
            found.append(Command(("mkdir", "-p", "--", *_places_of(shown)), home))
        if asked.filter_file:
            require_mountable(asked.filter_file)
            mounts.append(Mount(literal(asked.filter_file), runtimes.FILTERS))
            words += ("--bids-filter-file", runtimes.FILTERS)
        argv = asked.run_words(mounts, os.path.abspath(out), words)
        return [*found, Command(argv, home)]

    files = tuple(filter(None, (asked.filter_file,)))
    if asked.facts.takes_files:
        files = (asked.image, *files)
    return App(
        name_of(asked.image),
        commands,
        _identity(asked),
        (generated_by(asked),),
        needs_images=False,
        files=files,
        after=asked.remove_words(),
        limits=(*asked.limit_words(), *asked.telling_words()),
        writes_of_dataset=True,
        mounted=runtimes.OUT,
    )


def remove_left_containers(
    asked: Container, out: str | os.PathLike[str], options: Options, call: str = ""
) -> None:
    """Remove containers that earlier runs into the same directory have left, all of whose
    processes were killed: those of one submission, which is known to have ended, or of all, while
    nobody runs, or can begin. Raises UsageError where the runtime does not answer.
    """
    folder = os.path.abspath(out)
    if run_here(options):
        remove_left(asked, folder, call)


def generated_by(asked: Container) -> dict[str, Any]:
    """What a dataset says of the container that has made it (BIDS 1.11, GeneratedBy)."""
    described: dict[str, Any] = {"Name": name_of(asked.image)}
    version = _version_of(asked.image)
    if version:
        described["Version"] = version
    described["Container"] = {"Type": asked.runtime, "Tag": asked.image}
    return described


def name_of(image: str) -> str:
    """The name of an app, by that of its image, such as mriqc of nipreps/mriqc:24.0.2."""
    last = os.path.basename(image)
    if is_file(image):
        return os.path.splitext(last)[0]
    return last.partition("@")[0].partition(":")[0]


def _identity(asked: Container) -> str:
    """The image, also by what the runtime knows it by, the words for the app, and what it is
    shown.
    """
    image = (asked.runtime, asked.image, asked.identity)
    words = [*filter(None, image), *asked.arguments]
    for label in asked.sessions:
        words += ["--session-label", label]
    if asked.filter_file:
        content = hashlib.sha256(Path(asked.filter_file).read_bytes()).hexdigest()
        words += ["--bids-filter-file", content[:_SHOWN]]
    return shlex.join(words)


def _version_of(image: str) -> str:
    if is_file(image):
        return ""
    return os.path.basename(image).partition("@")[0].partition(":")[2]


def _shown(unit: Unit, wanted: Sequence[str]) -> dict[str, str]:
    """Where the sessions are that are to be seen of a participant, by the names of their folders;
    none where all of the participant is.
    """
    if unit.session:
        require_mountable(unit.session)
        return {SESSION + unit.session: "{input}"}
    names = [SESSION + label.removeprefix(SESSION) for label in wanted]
    there = [name for name in names if os.path.isdir(os.path.join(unit.participant.folder, name))]
    return {name: f"{{input}}/{name}" for name in there}


def _places_of(shown: Iterable[str]) -> list[str]:
    """Empty folders that sessions are mounted on, in a folder that takes the participant's
    place.
    """
    return [f"{_PART}/{name}" for name in shown]


def _mounts_of_sessions(unit: Unit, shown: Mapping[str, str]) -> list[Mount]:
    """A participant of whom some sessions are there, and nothing else."""
    there = f"{runtimes.DATA}/{SUBJECT}{unit.participant.label}"
    of_sessions = [Mount(here, f"{there}/{name}") for name, here in shown.items()]
    return [Mount(_PART, there), *of_sessions]


def _mounts(unit: Unit, root: str, is_part: bool) -> list[Mount]:
    """The dataset, the participant, which may be a copy on a fast tier, unless a part of it is to
    be shown alone, and two folders of the task.
    """
    site = unit.participant.site
    home = os.path.join(root, site).rstrip(os.sep)
    require_mountable(home)
    made = f"{apps.OUT}/{literal(site)}".rstrip("/")
    participant = {SUBJECT + unit.participant.label: "{input}"}
    if is_part:
        participant = {}
    return runtimes.folders(literal(home), made, "{work}", in_data=participant)
