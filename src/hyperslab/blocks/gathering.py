"""Gathering: what a user names (files, directories, globs, lists, arrays) becomes a SourceSet."""

from __future__ import annotations

import glob
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from hyperslab import formats
from hyperslab.arrays.header import Header
from hyperslab.arrays.sets import Kind, SourceSet, concatenated, independent, mosaic
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.view import ArrayView, no_source
from hyperslab.errors import FormatError, Missing, UsageError, suggest
from hyperslab.redaction import redact
from hyperslab.storage.location import is_remote
from hyperslab.storage.replacement import require_ended
from hyperslab.units import show_count, show_seconds

LIST_SUFFIXES = (".txt", ".csv", ".lst")
MOST_COMPARED = 1_000
"Files of a directory whose names are compared with that of one that is missing."
FIRST_TOLD_S = 1.0
"Time after which it is told how far the opening of files has come; then after twice as long, ..."
Tell = Callable[[str], None]
"Shows a line to whoever waits."
Named = str | os.PathLike[str] | np.ndarray[Any, Any] | ArraySource | ArrayView


def unheard(_text: str) -> None:
    """Nobody is told."""


def gather(
    named: Named | Sequence[Named] | SourceSet,
    kind: Kind = "independent",
    axis: int = 0,
    origins: Sequence[Sequence[int]] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    tell: Tell = unheard,
) -> SourceSet:
    """Open everything that is named and see it as independent arrays, one concatenated array or one
    mosaic.

    A directory stands for its array files and Zarr stores (not those in folders below), a glob for
    its matches, both in natural order (block_2 before block_10); a text file holds lines of `path`,
    `path,dataset` or `path,dataset,origin`. The blocks of a mosaic lie at `origins`, one per
    source, at those of the list ("0 64 0"), or where their affines say. A view stands for its
    array, whatever kind of values it gives. Among independent files, one that cannot be understood
    becomes a broken source: the task that reads it fails, the others continue. A URL
    (s3://bucket/key::dataset, https://...) stands for that one object; `storage_options` are what
    fsspec is given with URLs. While many files take long to open, it is told how far that has come.
    Raises UsageError when nothing is found or something is named that is
    no source, FormatError when all files are broken or when they are to make one array and one is,
    Unavailable for a store that does not answer.
    """
    if isinstance(named, SourceSet):
        return named
    if kind not in get_args(Kind):
        raise UsageError(f"--sources {kind}: choose one of {', '.join(get_args(Kind))}")
    items = several(named)
    every = [one for item in items for one in _expanded(item)]
    opened = [_open(one, storage_options) for one in _counted(every, tell)]
    sound = [found for found in opened if isinstance(found, ArraySource)]
    if kind == "independent" and (sound or not opened):
        return independent([_source_for(found, sound[0]) for found in opened], formats.stem_of)
    for found in opened:
        if isinstance(found, _Broken):
            raise found.error
    if kind == "concatenated":
        return concatenated(sound, axis, formats.stem_of)
    if origins is None:
        origins = _listed_origins(items, sound[0].ndim)
    return mosaic(sound, origins, formats.stem_of)


def several(named: Named | Sequence[Named]) -> list[Named]:
    """What is named, one by one: only lists and tuples are several, arrays and views are one
    each.
    """
    if isinstance(named, list | tuple):
        return list(named)
    return [cast(Named, named)]


class _Broken(NamedTuple):
    """A file that cannot be understood."""

    url: str
    error: FormatError


def _source_for(found: ArraySource | _Broken, like: ArraySource) -> ArraySource:
    """A source; in place of a broken file one of one voxel, whose every read says what is wrong
    with it.
    """
    if isinstance(found, ArraySource):
        return found
    path, name = formats.split_url(found.url)
    where = os.path.abspath(path)
    if is_remote(path):
        where = redact(path)
    why = str(found.error)
    one = replace(like, url=where, name=name, shape=(1,) * like.ndim, chunks=None, chunk_shape=())
    return replace(
        one, codecs=(), header=Header(), nbytes_stored=0, reason=why, version=why, broken=why
    )


def _expanded(item: Named) -> Sequence[Named]:
    """The files that a path stands for; anything else as it is."""
    if isinstance(item, str | os.PathLike):
        return expand(os.fspath(item))
    return [item]


def _counted(every: Sequence[Named], tell: Tell) -> Iterator[Named]:
    """One after the other, which are to be opened, and told now and then how many are."""
    began = time.monotonic()
    due_s = FIRST_TOLD_S
    for number, one in enumerate(every):
        yield one
        took_s = time.monotonic() - began
        left = len(every) - number - 1
        if took_s >= due_s and left:
            due_s = 2 * took_s
            tell(
                f"opened {number + 1:,} of {show_count(len(every), 'file')} in"
                f" {show_seconds(took_s)}; the others take about"
                f" {show_seconds(left * took_s / (number + 1))}"
            )


def _open(item: Named, storage_options: Mapping[str, Any] | None) -> ArraySource | _Broken:
    if isinstance(item, ArraySource):
        return item
    if isinstance(item, ArrayView):
        return item.source
    if isinstance(item, np.ndarray):
        return formats.open_array(item)
    if not isinstance(item, str | os.PathLike):
        raise no_source(item)
    url = os.fspath(item)
    try:
        return formats.open_source(url, storage_options)
    except FormatError as error:
        return _Broken(url, error)


def expand(text: str, are_there: bool = True) -> list[str]:
    """The files, or PATH::DATASET, that one argument stands for, in natural order; of a URL itself.

    Raises UsageError when nothing is there; without `are_there`, files that a list names need not
    be.
    """
    if is_remote(text):
        return [text]
    path, dataset = formats.split_url(os.path.expanduser(text))
    try:
        if os.path.isdir(path) and not formats.is_store(path):
            return _files_of(path)
        if path.endswith(LIST_SUFFIXES) and os.path.isfile(path):
            return _lines_of(Path(path), are_there)
    except Missing:
        raise
    except OSError as error:
        raise UsageError(f"SOURCE '{text}' cannot be read: {error.strerror}") from error
    if os.path.lexists(path):
        return [_joined(path, dataset)]
    matches = sorted(glob.glob(path, recursive=True), key=natural)
    if not matches:
        why = f"there is no such file{similar(path)}"
        if glob.has_magic(path):
            why = "no file matches this pattern"
        raise Missing(f"SOURCE '{text}': {why}")
    return [_joined(match, dataset) for match in matches]


def _joined(path: str, dataset: str) -> str:
    """PATH or PATH::DATASET."""
    if not dataset:
        return path
    return f"{path}::{dataset}"


def _listed_origins(items: Sequence[Named], ndim: int) -> list[tuple[int, ...]] | None:
    """The origins that lists of files give, or None where they give none."""
    lists = [
        Path(os.fspath(i))
        for i in items
        if isinstance(i, (str, os.PathLike)) and str(i).endswith(LIST_SUFFIXES)
    ]
    found = [entry.origin for listing in lists for entry in _entries_of(listing) if entry.origin]
    if found and (len(lists) < len(items) or any(len(origin) != ndim for origin in found)):
        raise UsageError(
            f"SOURCE '{lists[0]}': give every block an origin of {ndim} whole numbers, as in"
            " 'a.h5,data,0 64 0'"
        )
    return found or None


def natural(text: str) -> list[tuple[bool, int, str]]:
    """Sort key under which block_2 comes before block_10."""
    return [_natural_part(part) for part in re.split(r"(\d+)", text)]


def _natural_part(part: str) -> tuple[bool, int, str]:
    if part.isdigit():
        return True, int(part), part
    return False, 0, part


def _files_of(folder: str) -> list[str]:
    require_ended(folder)
    names = (
        entry.path
        for entry in os.scandir(folder)
        if not entry.is_dir() or formats.is_store(entry.path)
    )
    files = sorted((name for name in names if formats.is_array_file(name)), key=natural)
    if not files:
        raise UsageError(
            f"SOURCE '{folder}': the directory holds no array file ({' '.join(formats.suffixes())})"
        )
    return files


def similar(path: str) -> str:
    """Words that name a file of a similar name in the same directory; '' for none."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or os.curdir) as entries:
            names = [entry.name for entry in itertools.islice(entries, MOST_COMPARED)]
    except OSError:
        return ""
    return suggest(name, names)


def _lines_of(listing: Path, are_there: bool) -> list[str]:
    """The sources that a list names; relative paths start at the list's folder; '#' begins a
    comment.
    """
    urls = []
    for entry in _entries_of(listing):
        if are_there and not is_remote(entry.path) and not os.path.lexists(entry.path):
            raise Missing(
                f"SOURCE '{listing}', line {entry.line}: there is no file {entry.path}; a file that"
                f" ends in {listing.suffix} is read as a list of sources"
            )
        urls.append(_joined(entry.path, entry.dataset))
    if not urls:
        raise UsageError(
            f"SOURCE '{listing}': the list names no file; write one 'path' or 'path,dataset' a line"
        )
    return urls


class _Entry(NamedTuple):
    """A line of a list."""

    line: int
    path: str
    dataset: str
    origin: tuple[int, ...]


def _entries_of(listing: Path) -> Iterator[_Entry]:
    try:
        lines = [line.strip() for line in listing.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError:
        raise UsageError(
            f"SOURCE '{listing}' is not a text file of one 'path' or 'path,dataset' a line"
        ) from None
    for number, text in enumerate(lines, 1):
        if text and not text.startswith("#"):
            yield _entry(listing.parent, number, text)


def _entry(folder: Path, number: int, text: str) -> _Entry:
    """`path`, `path,dataset` or `path,dataset,origin`; a path that exists with commas in it is a
    path.

    The dataset of a URL, in which commas may be anything, is written behind '::'.
    """
    rest = text
    origin: tuple[int, ...] = ()
    placed = re.fullmatch(r"(.*),\s*(\d+(?:\s+\d+)*)", text)
    if placed is not None and not os.path.lexists(folder / text):
        rest = placed[1]
        origin = tuple(map(int, placed[2].split()))
    named = rest
    if not is_remote(rest):
        named = str(folder / os.path.expanduser(rest))
    path, dataset = formats.split_url(named)
    if not dataset and not is_remote(path) and not os.path.lexists(path) and "," in rest:
        path, _, dataset = path.rpartition(",")
    return _Entry(number, path, dataset.strip(), origin)
