"""Agreed: what was prepared is what is to be run, and with the same settings."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

from hyperslab.driver.options import Options, chosen
from hyperslab.driver.prepare import Prepared
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline, Write
from hyperslab.plan.settings import Settings
from hyperslab.storage.location import local_folder

_SETTINGS = {
    "memory_bytes": "memory",
    "task_timeout_s": "task_timeout",
    "rule": "blocks, block_shape, partition or axes_whole",
}
"Settings that make a field of Options which has another name."


def agreed(
    verb: str,
    pipeline: Pipeline,
    prepared: Prepared | None,
    options: Options | None,
    settings: Settings,
    out: str | os.PathLike[str] | None,
) -> Options:
    """The options of a call: those that it names, or else those that it was prepared with. Raises
    UsageError where another run was prepared than is asked for.
    """
    if prepared is None:
        return chosen(verb, options, settings)
    assert prepared.made_of is not None
    given, before = prepared.made_of
    if given is not pipeline:
        raise UsageError(
            f"{verb}(): the pipeline is not the one that was prepared ({prepared.plan.title}):"
            " prepare this one, or run that one"
        )
    _require_place(verb, pipeline, prepared, out)
    if options is None and not settings:
        return before
    wanted = chosen(verb, options, settings)
    differing = _differing(before, wanted)
    if differing:
        raise UsageError(
            f"{verb}(): its settings are not those that it was prepared with"
            f" ({'; '.join(differing)}): give them to prepare() alone"
        )
    return wanted


def _differing(before: Options, wanted: Options) -> list[str]:
    """The settings that differ, and how where that is one value."""
    found = []
    for field in fields(Options):
        name = _SETTINGS.get(field.name, field.name)
        pair = getattr(before, field.name), getattr(wanted, field.name)
        if pair[0] == pair[1]:
            continue
        how = ""
        if field.name != "rule":
            how = f": {pair[0]!r} prepared, {pair[1]!r} given"
        found.append(f"{name}{how}")
    return found


def _require_place(
    verb: str, pipeline: Pipeline, prepared: Prepared, out: str | os.PathLike[str] | None
) -> None:
    """Raise UsageError for a reduction that was prepared for no place, or for another one."""
    if isinstance(pipeline.end, Write):
        return
    if prepared.directory is None:
        raise UsageError(
            f"{verb}(): it was prepared without `out`, where its result is to be kept: give it to"
            " prepare()"
        )
    place = prepared.directory.out
    if out is not None and Path(local_folder(out)).absolute() != Path(place).absolute():
        raise UsageError(f"{verb}(): out={os.fspath(out)!r}, but it was prepared for {place}")
