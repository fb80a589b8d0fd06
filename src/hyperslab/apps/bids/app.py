"""App: what runs over every participant, as commands over its files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hyperslab.apps.bids import brain
from hyperslab.apps.bids.dataset import File
from hyperslab.apps.bids.description import RAW
from hyperslab.apps.bids.unit import Unit
from hyperslab.errors import UsageError, suggest
from hyperslab.plan.command import CommandTask

OUT = "{out}"
"Folder of a task, by the placeholder that commands have for it."
IMAGE, PREFIX = "t1w", "prefix"
OF_UNIT = ("participant", "session", "site", "bids_dir")
OF_COMMAND = ("out", "work", "index", "slot")
PLACEHOLDERS = (IMAGE, PREFIX, *OF_UNIT, *OF_COMMAND)
_OF_PATHS = ("bids_dir", "site")
_PLACEHOLDER = re.compile(r"\{\{\w+\}\}|\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a unit."""

    argv: tuple[str, ...]
    "The words of the command, with placeholders of CommandTask."
    folder: str
    "Folder below the output directory that is made for what the command writes."
    outputs: tuple[str, ...] = ()
    "Files below the output directory that it makes for certain."


@dataclass(frozen=True, slots=True)
class App:
    """What runs over every participant, and how its dataset describes it."""

    title: str
    commands: Callable[[Unit, str], list[Command]]
    "Commands for a unit of the dataset, or collection, in a folder."
    generated_by: tuple[Mapping[str, str], ...] = field(default=())
    needs_images: bool = True
    "Whether there is nothing to do for a unit without images."


def task_of(app: App, unit: Unit, root: str) -> CommandTask:
    """The task that runs the commands of an app over a unit, one after the other; the first one
    that fails is the last one.
    """
    commands = app.commands(unit, root)
    outputs = tuple(name for command in commands for name in command.outputs)
    inputs = tuple(image.path for image in unit.images)
    return CommandTask(unit.label, in_turn(commands), inputs or (unit.participant.folder,), outputs)


def in_turn(commands: Sequence[Command]) -> tuple[str, ...]:
    """One command for several ones: a shell that is given all their words as arguments, so that no
    word is quoted, and takes the place of the last command.
    """
    folders = dict.fromkeys(f"{OUT}/{command.folder}" for command in commands)
    lines = [("mkdir", "-p", "--", *folders), *(command.argv for command in commands)]
    words = [word for line in lines for word in line]
    number = iter(range(1, len(words) + 1))
    quoted = [" ".join(f'"${{{next(number)}}}"' for _ in line) for line in lines]
    script = " && ".join((*quoted[:-1], f"exec {quoted[-1]}"))
    return ("sh", "-c", script, "sh", *words)


def brain_app(extractor: str = brain.AUTO, fraction: float = brain.FRACTION) -> App:
    """Extraction of the brain of every image, by a process each."""
    which = brain.chosen(extractor)

    def commands(unit: Unit, root: str) -> list[Command]:
        return [
            _brain_command(place, image, root, which, fraction)
            for place, image in enumerate(unit.images)
        ]

    return App("Brain extraction", commands, brain.generated_by(which))


def template_app(template: str) -> App:
    """A command as users write it: for every image where it names {t1w}, else for every unit.

    Raises UsageError for a command that cannot be read, and for placeholders that are unknown.
    """
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"--app '{template}': {error}; check its quotes") from error
    if not words:
        raise UsageError("--app: give a command, such as 'bet {t1w} {out}/{prefix}_brain.nii.gz'")
    _require_program(words[0])
    named = {found[1] for word in words for found in _PLACEHOLDER.finditer(word) if found[1]}
    for name in sorted(named - {*PLACEHOLDERS}):
        known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
        raise UsageError(
            f"--app: {{{name}}} is unknown{suggest(name, PLACEHOLDERS)}; known are {known}, and"
            f" {{{{{name}}}}} stands for {{{name}}} itself"
        )

    def commands(unit: Unit, root: str) -> list[Command]:
        if IMAGE not in named:
            return [_filled(words, unit, root)]
        return [_filled(words, unit, root, place) for place in range(len(unit.images))]

    about = {"Name": os.path.basename(words[0]), "Description": template}
    return App(about["Name"], commands, (about,), needs_images=IMAGE in named)


def _require_program(name: str) -> None:
    if shutil.which(name) is None and not _PLACEHOLDER.search(name):
        raise UsageError(f"--app: {name} is not on PATH: install it, or give its path")


def place_of(image: File, root: str) -> str:
    """Path of an image in its dataset, or collection."""
    return os.path.relpath(image.path, root)


def brain_names(image: File, root: str) -> tuple[str, str]:
    """Names of the brain and of its mask below the output directory."""
    folder = os.path.dirname(place_of(image, root))
    brain_of = image.name.derived(image.name.suffix, ".nii.gz", desc="brain")
    mask = image.name.derived("mask", ".nii.gz", desc="brain")
    return os.path.join(folder, str(brain_of)), os.path.join(folder, str(mask))


def _brain_command(place: int, image: File, root: str, which: str, fraction: float) -> Command:
    found, mask = brain_names(image, root)
    site = image.session.participant.site
    origin = f"bids:{RAW}:{os.path.relpath(place_of(image, root), site or os.curdir)}"
    argv = (
        *(sys.executable, "-m", "hyperslab.apps.bids.brain"),
        *(f"{{input[{place}]}}", f"{OUT}/{found}", "--mask", f"{OUT}/{mask}"),
        *("--brain-extractor", which, "--fraction", f"{fraction:g}", "--origin", origin),
    )
    sidecars = (brain.sidecar_of(found), brain.sidecar_of(mask))
    return Command(argv, os.path.dirname(found), (found, mask, *sidecars))


def _filled(words: Sequence[str], unit: Unit, root: str, place: int | None = None) -> Command:
    """The command of a template for a unit, or for one of its images."""
    folder = unit.folder
    prefix = unit.stem
    if place is not None:
        image = unit.images[place]
        folder = os.path.dirname(place_of(image, root))
        prefix = os.path.basename(image.path).removesuffix(
            f"_{image.name.suffix}{image.name.extension}"
        )
    values = {
        IMAGE: f"{{input[{place}]}}",
        PREFIX: prefix,
        "participant": unit.participant.label,
        "session": unit.session,
        "site": unit.participant.site,
        "bids_dir": os.path.join(root, unit.participant.site).rstrip("/"),
        "out": f"{OUT}/{folder}",
    }
    argv = tuple(_PLACEHOLDER.sub(lambda found: _value(found, values), word) for word in words)
    return Command(argv, folder)


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    """What stands for a placeholder; those of commands stay for where the command runs."""
    value = values.get(found[1] or "", found[0])
    if found[1] in _OF_PATHS:  # which may look like placeholders
        return _PLACEHOLDER.sub(lambda inner: f"{{{inner[0]}}}", value)
    return value
