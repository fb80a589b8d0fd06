"""The participant level of an app in a container: a container for every participant."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from hyperslab.apps.bids import app as apps
from hyperslab.apps.bids.app import App, Command
from hyperslab.apps.bids.containers import runtimes
from hyperslab.apps.bids.containers.images import is_file, remove_left
from hyperslab.apps.bids.containers.runtimes import Container, Mount, require_mountable
from hyperslab.apps.bids.dataset import SUBJECT
from hyperslab.apps.bids.unit import Unit
from hyperslab.apps.commands.running import run_here
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.plan.placeholders import literal


def container_app(asked: Container, out: str) -> App:
    """The app of a container; `out` is the directory that the run writes to. Raises UsageError."""
    require_mountable(os.path.abspath(out))

    def commands(unit: Unit, root: str) -> list[Command]:
        words = runtimes.app_words("participant", [unit.participant.label])
        argv = asked.run_words(_mounts(unit, root), os.path.abspath(out), words)
        return [Command(argv, literal(unit.participant.site))]

    files: tuple[str, ...] = ()
    if asked.facts.takes_files:
        files = (asked.image,)
    return App(
        name_of(asked.image),
        commands,
        _identity(asked),
        (generated_by(asked),),
        needs_images=False,
        files=files,
        after=asked.remove_words(),
        limits=asked.limit_words(),
        writes_of_dataset=True,
    )


def remove_left_containers(asked: Container, out: str | os.PathLike[str], options: Options) -> None:
    """Remove containers that an earlier run into the same directory has left, all of whose
    processes were killed. Raises UsageError where the runtime does not answer.
    """
    folder = os.path.abspath(out)
    if run_here(options) and not RunDirectory(Path(folder)).is_owned():
        remove_left(asked, folder)


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
    """The image, also by what the runtime knows it by, and the words for the app."""
    image = (asked.runtime, asked.image, asked.identity)
    return shlex.join((*filter(None, image), *asked.arguments))


def _version_of(image: str) -> str:
    if is_file(image):
        return ""
    return os.path.basename(image).partition("@")[0].partition(":")[2]


def _mounts(unit: Unit, root: str) -> list[Mount]:
    """The dataset, the participant, which may be a copy on a fast tier, and two folders of the
    task.
    """
    site = unit.participant.site
    home = os.path.join(root, site).rstrip(os.sep)
    require_mountable(home)
    made = f"{apps.OUT}/{literal(site)}".rstrip("/")
    participant = {SUBJECT + unit.participant.label: "{input}"}
    return runtimes.folders(literal(home), made, "{work}", in_data=participant)
