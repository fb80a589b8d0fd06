"""Pictures of a run's data for its page: of its first input, and of the first file it wrote,
with the edge of its mask; and pictures that its commands have made.

What cannot be read now has none, and a page is written all the same; what cannot be read quickly
has a note that says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hyperslab.arrays.source import ArraySource
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.manifest import load_manifest
from hyperslab.errors import DamagedRecord, HyperslabError
from hyperslab.formats import open_source
from hyperslab.report.pictures import Made
from hyperslab.report.slices import Pictured, left_out, slices
from hyperslab.storage.location import is_remote

PICTURES = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")
"Ends of the names of pictures that browsers show."
_ABOVE = "mask_above"
"Parameter of functions that says above which number a mask is inside."
MOST_MADE = 5000
"Pictures on a page at most."


def pictured(
    folder: Path, plan: Mapping[str, Any], drawn: Sequence[Pictured] | None = None
) -> list[Pictured]:
    """Pictures of the images among a submission's first input and first output, in this order.

    `folder` is the submission's, `plan` what its plan.json holds, `drawn` that of `of_input`.
    """
    if drawn is None:
        drawn = of_input(plan)
    return [*drawn, *_of_output(folder, plan)]


def of_input(plan: Mapping[str, Any]) -> list[Pictured]:
    """The picture of the first input, which is there before the run; none where it is no image."""
    first = _first(plan, "source")
    if not first:
        return []
    return _drawn("input", first, plan)


def _of_output(folder: Path, plan: Mapping[str, Any]) -> list[Pictured]:
    """The picture of the first output of a submission; none where it is no image."""
    written = _written(folder)
    if not written:
        return []
    return _drawn("output", written, plan)


def _drawn(what: str, url: str, plan: Mapping[str, Any]) -> list[Pictured]:
    try:
        source = open_source(url)
        shown = slices(source, _mask(plan), _above(plan))
    except (HyperslabError, OSError):
        return []
    note = left_out(source, shown)
    if shown or note:
        return [Pictured(what, url, shown, note)]
    return []


def made_by_tasks(folder: Path, plan: Mapping[str, Any], beside: Path) -> list[Made]:
    """The pictures among what commands have made, the first of them; `folder` is the
    submission's, and `beside` that of the page.
    """
    directory = RunDirectory.of_submission(folder.absolute())
    if directory is None or "command" not in plan.get("summary", {}):
        return []
    try:
        entries = load_manifest(directory).get("outputs", [])
    except DamagedRecord:
        return []
    found = [one for one in entries if os.path.splitext(one["path"])[1].lower() in PICTURES]
    return [
        Made(
            str(one["block"]),
            _in_letters(one["path"]),
            _seen_from(beside, directory.out / one["path"]),
        )
        for one in found[:MOST_MADE]
    ]


def _seen_from(folder: Path, path: Path) -> str:
    """The address of a file for a page in a folder, whatever bytes its name has."""
    return quote(os.fsencode(os.path.relpath(path.absolute(), folder.absolute())))


def _in_letters(name: str) -> str:
    """A name as people read it, whose bytes may be no letters."""
    return os.fsencode(name).decode(errors="replace")


def _mask(plan: Mapping[str, Any]) -> ArraySource | None:
    """The first file of the run's mask; None where it has none, or it cannot be read now."""
    url = _first(plan, "mask")
    if not url:
        return None
    try:
        return open_source(url)
    except (HyperslabError, OSError):
        return None


def _above(plan: Mapping[str, Any]) -> float | None:
    """The number above which the mask is inside, where a function of the run has one."""
    asked = plan.get("summary", {})
    for function in (*asked.get("steps", ()), asked.get("end", {})):
        said = function.get("params", {}).get(_ABOVE)
        if said is not None:
            with suppress(ValueError):  # a parameter of another meaning
                return float(said)
    return None


def _first(plan: Mapping[str, Any], name: str) -> str:
    """The first file of an input; '' where there is none on this machine."""
    url = str(plan.get("summary", {}).get("sources", {}).get(name, {}).get("first", ""))
    if url and is_remote(url):
        return ""
    return url


def _written(folder: Path) -> str:
    """The first volume that the run wrote, the first array of one that holds several, or else the
    file of its first block; '' as long as another run's is in its place.
    """
    directory = RunDirectory.of_submission(folder.absolute())
    if directory is None or directory.replaced.is_file():
        return ""
    try:
        entries = load_manifest(directory).get("outputs", [])
    except DamagedRecord:
        return ""
    volumes = [entry for entry in entries if "frame" in entry]
    first = next(iter((*volumes, *entries)), None)
    if first is None:
        return ""
    path = first["path"]
    arrays = [entry["array"] for entry in entries if entry["path"] == path and "array" in entry]
    url = str(directory.out / path)
    if arrays:
        url = f"{url}::{arrays[0]}"
    return url
