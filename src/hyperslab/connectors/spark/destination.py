"""Destination: the file that Spark's tasks write together, as far as it can be known before any of
them runs.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab import formats
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.connectors.spark.exactness import NUMBERS
from hyperslab.errors import FormatError, UsageError
from hyperslab.plan.sinks import require_short
from hyperslab.storage.location import local_folder

DATASET = "data"
"Name of the dataset, unless another is chosen."
_HADOOP = re.compile(r"(?i)file:(?=/(?!/))")
"How Hadoop, and so Spark, begins the URL of a path on this machine."


@dataclass(frozen=True, slots=True)
class Destination:
    """A file to be written."""

    path: str
    "Absolute."
    dtype: np.dtype[Any] | None
    "None: that of the data."
    shape: tuple[int, ...] | None
    "Shape of the whole array; None: what the data reach."
    encoding: Encoding
    overwrite: bool

    def sink(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ArraySink:
        """The file for an array of this shape and dtype. Raises UsageError for what the format
        cannot hold.
        """
        if not shape:
            raise UsageError(
                f"{self.path}: the data are a single number, not an array: write one axis or more"
            )
        written = formats.module(formats.format_of_name(self.path))
        return written.sink(self.path, shape, dtype, Header(), None, self.encoding)


def destination(
    path: str | os.PathLike[str],
    dataset: str = DATASET,
    overwrite: bool = False,
    dtype: Any = None,
    shape: int | Iterable[int] | None = None,
    chunks: int | tuple[int, ...] = (),
    compression: str | None = None,
) -> Destination:
    """What `h5write` is asked for. Raises UsageError for all that can be seen to be wrong before
    there are data.
    """
    place = os.path.abspath(local_folder(_plain(path)))
    facts = formats.facts_of(formats.format_of_name(place))
    suffix = formats.suffix_of(place)
    if suffix is not None and not suffix.word:
        raise UsageError(
            f"{place}: {suffix.title or facts.title} files are not written: give a name that ends"
            " in .h5, .nc, .nii or .zarr"
        )
    if not dataset.strip("/"):
        raise UsageError(
            f"{place}: dataset={dataset!r} names no dataset: give a text such as 'data'"
        )
    require_short([os.path.basename(place)])
    _require_room(place, dataset, overwrite)
    name = dataset
    if facts.is_one_array and dataset == DATASET:
        name = ""
    encoding = Encoding(chunks, compression, name=name)  # type: ignore[arg-type]
    found = Destination(place, _dtype(dtype), _shape(shape), encoding, overwrite)
    axes = found.shape or (1,) * max(1, len(encoding.chunks))
    found.sink(axes, found.dtype or np.dtype(np.uint8))
    return found


def _plain(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """A path without the scheme that Hadoop writes; %-signs in what is left are the name's own, as
    Hadoop has them.
    """
    match = None
    if isinstance(path, str):
        match = _HADOOP.match(path)
    if match is None or not isinstance(path, str):
        return path
    return path[match.end() :]


def _require_room(path: str, dataset: str, overwrite: bool) -> None:
    """Raise UsageError where no file of this name can appear."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise UsageError(f"{path}: there is no folder {folder}: make it first")
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise UsageError(
            f"{path} exists, and a file is written as a whole: choose another name, or"
            " overwrite=True"
            " (mode 'overwrite')"
        )
    # A folder without one of the documents is not replaced, whatever its name.
    documents = formats.facts_of(formats.format_of_name(path)).documents
    is_store = not set(documents).isdisjoint(_names(path))
    if os.path.isdir(path) and not is_store:
        raise UsageError(f"{path} is a folder, which a file cannot replace: choose another name")
    if others := _others(path, dataset):
        more = ""
        if others[3:]:
            more = " and more"
        raise UsageError(
            f"{path}: also holds {', '.join(others[:3])}{more}, and a"
            " file is written as a whole: choose another name, or remove the file first"
        )


def _others(path: str, dataset: str) -> list[str]:
    """What would be lost with a file: all that is in it but the array of this name, text, tables
    and coordinates, too.

    Raises UsageError for a file of a known format that cannot be looked at.
    """
    try:
        known = formats.detect(path)
    except FormatError:  # no file of arrays: whoever says overwrite means it
        return []
    try:
        names = [info.name.strip("/") for info in formats.module(known).arrays(path)]
    except (FormatError, OSError) as error:
        raise UsageError(
            f"{path}: the file that would be replaced cannot be read: {error}; remove the file"
            " first"
        ) from error
    return [name for name in names if name not in ("", dataset.strip("/"))]


def _names(path: str) -> list[str]:
    if os.path.isdir(path):
        return os.listdir(path)
    return []


def _dtype(given: Any) -> np.dtype[Any] | None:
    if given is None:
        return None
    try:
        dtype: np.dtype[Any] = np.dtype(given).newbyteorder("=")
    except TypeError:
        dtype = np.dtype(np.object_)
    if dtype.kind not in NUMBERS:
        raise UsageError(
            f"dtype={given}: not a NumPy dtype of numbers such as uint8, int16 or float32"
        )
    return dtype


def _shape(given: int | Iterable[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    try:
        if isinstance(given, Iterable):
            shape = tuple(map(operator.index, given))
        else:
            shape = (operator.index(given),)
    except TypeError:
        shape = (-1,)
    if not shape or min(shape) < 0:
        raise UsageError(f"shape={given}: give one whole number of at least 0 for every axis")
    return shape


def from_options(
    options: Mapping[str, str], overwrite: bool, dtype: np.dtype[Any] | None
) -> Destination:
    """What a data source is asked for, with names of options in any case; `dtype` is that of the
    columns.

    Raises UsageError.
    """
    given = {name.lower(): text for name, text in options.items()}
    known = ("path", "dataset", "dtype", "shape", "chunks", "compression")
    if unknown := sorted(given.keys() - set(known)):
        raise UsageError(
            f'option("{unknown[0]}") is not known where hyperslab writes: choose among'
            f" {', '.join(known)}"
        )
    if not given.get("path"):
        raise UsageError("hyperslab writes to a path: give one to save()")
    chunks = _wholes("chunks", given.get("chunks"))
    shape = _wholes("shape", given.get("shape"))
    return destination(
        given["path"],
        given.get("dataset", DATASET),
        overwrite,
        given.get("dtype") or dtype,
        shape,
        chunks or (),
        given.get("compression"),
    )


def _wholes(name: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.strip("()[] ").rstrip(",").split(","))
    except ValueError:
        raise UsageError(
            f'option("{name}", "{text}"): give whole numbers such as "100,20"'
        ) from None
