"""What is compared with what: two arrays, or files of equal names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from hyperslab import formats
from hyperslab.errors import UsageError
from hyperslab.gathering import Named, expand, gather
from hyperslab.sources import Kind, SourceSet
from hyperslab.units import show_count

Together = Literal["auto", "independent", "concatenated", "mosaic"]
Source = Named | Sequence[Named] | SourceSet


class Pair(NamedTuple):
    """Two arrays to compare; opened when they are asked for."""

    a: Source
    b: Source
    kind: Kind
    axis: int
    storage_options: Mapping[str, Any] | None

    def open(self) -> tuple[SourceSet, SourceSet]:
        """Both, each as one array. Raises UsageError or FormatError where one is not."""
        return self._whole(self.a), self._whole(self.b)

    def _whole(self, source: Source) -> SourceSet:
        """Everything that a source names as one array."""
        files = _files(source)
        if len(files) <= 1 and not isinstance(source, SourceSet):
            return gather(source, storage_options=self.storage_options)
        try:
            found = gather(source, self.kind, self.axis, storage_options=self.storage_options)
        except UsageError as error:
            if self.kind != "mosaic":
                raise
            raise UsageError(
                f"{_say_several(source, files)} are taken for blocks of one array, but {error}; or say --sources "
                "concatenated, or independent to compare files of equal names"
            ) from error
        if len(found.wholes) > 1:
            raise UsageError(
                f"{show_count(len(found.wholes), 'array')} cannot be compared at once: compare them in turn"
            )
        return found


class Pairing(NamedTuple):
    """Everything that is to be compared."""

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()


def pair(
    a: Source, b: Source, together: Together, axis: int, storage_options: Mapping[str, Any] | None = None
) -> Pairing:
    """See two sources as one pair of arrays, or as pairs of files of equal names.

    Raises UsageError for what is not there, or cannot belong together as `together` says.
    """
    if together not in get_args(Together):
        raise UsageError(f"--sources {together}: choose one of {', '.join(get_args(Together))}")
    ours, theirs = _files(a), _files(b)
    several = len(ours) > 1, len(theirs) > 1
    if together == "auto":
        together = "independent" if all(several) and set(ours) == set(theirs) else "mosaic"
    if together == "independent" and any(several):
        return _by_name(a, b, ours, theirs, storage_options)
    return Pairing((Pair(a, b, together, axis, storage_options),))


def say(source: Source, found: SourceSet) -> str:
    """What an array is called: its path and dataset, or how many files where."""
    if len(found.sources) > 1:
        where = source if isinstance(source, str | os.PathLike) else os.path.commonpath([s.url for s in found.sources])
        return f"{show_count(len(found.sources), 'file')} of {os.fspath(where)}, {found.kind}"
    (one,) = found.sources
    return f"{one.url}::{one.name}" if one.name else one.url


def _by_name(
    a: Source, b: Source, ours: Mapping[str, str], theirs: Mapping[str, str], options: Mapping[str, Any] | None
) -> Pairing:
    common = [name for name in ours if name in theirs]
    if not common:
        raise UsageError(
            f"{_say_several(a, ours)} and {_say_several(b, theirs)} have no file name in common: say --sources "
            "mosaic or concatenated if the files of each make one array"
        )
    return Pairing(
        tuple(Pair(ours[name], theirs[name], "independent", 0, options) for name in common),
        tuple(path for name, path in ours.items() if name not in theirs),
        tuple(path for name, path in theirs.items() if name not in ours),
    )


def _files(source: Source) -> dict[str, str]:
    """The files that a source names, by what tells them apart: their paths below their common folder, without suffix.

    Arrays and descriptions of arrays, which have no paths, are numbered.
    """
    if isinstance(source, SourceSet):
        return {str(number): found.url for number, found in enumerate(source.sources)}
    items = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    urls = [url for item in items for url in _urls(item)]
    paths, datasets = zip(*map(formats.split_url, urls), strict=True) if urls else ((), ())
    root = os.path.commonpath(folders) if all(folders := [os.path.dirname(path) for path in paths]) and paths else ""
    names = [os.path.relpath(path, root) if root else path for path in paths]
    for tried in (map(_without_suffix, names), names):
        keys = [f"{name}::{dataset}" if dataset else name for name, dataset in zip(tried, datasets, strict=True)]
        if len(set(keys)) == len(keys):
            return dict(zip(keys, urls, strict=True))
    return {str(number): url for number, url in enumerate(urls)}


def _urls(item: Named) -> Iterator[str]:
    if isinstance(item, str | os.PathLike):
        for url in expand(os.fspath(item)):
            yield url if "://" in url else os.path.abspath(url)
    else:
        yield ""


def _without_suffix(name: str) -> str:
    for suffix in sorted(formats.SUFFIXES, key=len, reverse=True):
        name = name.removesuffix(suffix)
    return name


def _say_several(source: Source, files: Mapping[str, str]) -> str:
    where = os.fspath(source) if isinstance(source, str | os.PathLike) else next(iter(files.values()), "")
    return f"the {show_count(len(files), 'file')} of {where}"
