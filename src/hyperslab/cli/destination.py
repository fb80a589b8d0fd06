"""Destination: what -o names, and what goes there."""

from __future__ import annotations

import os
from pathlib import Path

from hyperslab import formats
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline, Reduce
from hyperslab.storage.location import local_folder


def refusal_of(given: str) -> str:
    """Why the output directory, or file, could not be made; '' where it could."""
    out = Path(local_folder(given))
    folder = out.absolute()
    if formats.is_file_name(given):
        folder = folder.parent
    place = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not place.is_dir():
        return f"-o {out}: {place} is a file: give a directory"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"-o {out}: no permission to write to {place}; choose another directory"
    return ""


def with_end(
    pipeline: Pipeline, out: str, format: str | None, keep: str | None, encoding: Encoding
) -> Pipeline:
    """The pipeline that writes its blocks, unless its function reduces them to one value."""
    if not isinstance(pipeline.end, Reduce):
        # checked above
        return pipeline.write(out, format or "", keep, encoding)  # type: ignore[arg-type]
    if formats.is_file_name(out):
        raise UsageError(
            f"-o {out}: the function reduces all blocks to one value and writes no array: name a"
            " directory"
        )
    formats.require_known_suffix(out)
    stored = "" if encoding == DEFAULT_ENCODING else "given"
    for flag, given in (
        ("--format", format),
        ("--keep", keep),
        ("--chunks or --compression", stored or None),
    ):
        if given is not None:
            raise UsageError(
                f"{flag} {given}: the function reduces all blocks to one value and writes no arrays"
            )
    return pipeline
