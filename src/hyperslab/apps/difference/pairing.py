"""What is compared with what: two arrays, or files of equal names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from hyperslab import formats
from hyperslab.arrays.sets import Kind, SourceSet, in_order_of_space
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.gathering import Named, expand, gather, several
from hyperslab.blocks.view import ArrayView
from hyperslab.errors import UsageError
from hyperslab.plan.task import label_of
from hyperslab.units import show_count

Together = Literal["auto", "independent", "concatenated", "mosaic"]
Source = Named | Sequence[Named] | SourceSet
_Files = Mapping[str, Named | SourceSet]
"What a source names, by what tells it from the others."


class Pair(NamedTuple):
    """Two arrays to compare; opened when they are asked for."""

    a: Source
    b: Source
    kind: Kind
    axis: int
    storage_options: Mapping[str, Any] | None

    def open(self) -> tuple[SourceSet, SourceSet]:
        """Both, each as one array, with their axes of space first where one has them first. Raises
        UsageError or FormatError where one is not.
        """
        ours = self._whole(self.a)
        theirs = self._whole(self.b)
        if ours.sources[0].header.space == theirs.sources[0].header.space:
            return ours, theirs
        return in_order_of_space(ours), in_order_of_space(theirs)

    def _whole(self, source: Source) -> SourceSet:
        """Everything that a source names as one array."""
        files = _files(source)
        if len(files) > 1:
            found = self._joined(source, files)
        else:
            found = gather(source, storage_options=self.storage_options)
        if len(found.wholes) > 1:
            raise UsageError(
                f"{show_count(len(found.wholes), 'array')} cannot be compared at once: compare them"
                " in turn"
            )
        return found

    def _joined(self, source: Source, files: _Files) -> SourceSet:
        try:
            return gather(source, self.kind, self.axis, storage_options=self.storage_options)
        except UsageError as error:
            if self.kind != "mosaic":
                raise
            raise UsageError(
                f"{_say_several(source, files)} are taken for blocks of one array, but {error}; or"
                " say --sources concatenated, or independent to compare files of equal names"
            ) from error


class Pairing(NamedTuple):
    """Everything that is to be compared."""

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()


def pair(
    a: Source,
    b: Source,
    together: Together,
    axis: int,
    storage_options: Mapping[str, Any] | None = None,
) -> Pairing:
    """See two sources as one pair of arrays, or as pairs of files of equal names.

    Raises UsageError for what is not there, or cannot belong together as `together` says.
    """
    if together not in get_args(Together):
        raise UsageError(f"--sources {together}: choose one of {', '.join(get_args(Together))}")
    ours = _files(a)
    theirs = _files(b)
    several = (len(ours) > 1, len(theirs) > 1)
    if together == "auto":
        together = "mosaic"
        if all(several) and set(ours) == set(theirs):
            together = "independent"
    if together == "independent" and any(several):
        return _by_name(a, b, ours, theirs, storage_options)
    return Pairing((Pair(a, b, together, axis, storage_options),))


def say(source: Source, found: SourceSet) -> str:
    """What an array is called: its path and dataset, or how many files where."""
    if len(found.sources) == 1:
        return label_of(found.sources[0])
    if isinstance(source, str | os.PathLike):
        where = os.fspath(source)
    else:
        where = os.path.commonpath([each.url for each in found.sources])
    return f"{show_count(len(found.sources), 'file')} of {where}, {found.kind}"


def name_of(source: Source) -> str:
    """What a source is called that may not be there: its path and dataset, or what it is."""
    if isinstance(source, ArrayView):
        source = source.source
    if isinstance(source, ArraySource):
        return label_of(source)
    if isinstance(source, np.ndarray):
        return "an array in memory"
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return show_count(len(_files(source)), "file")


def _by_name(
    a: Source, b: Source, ours: _Files, theirs: _Files, options: Mapping[str, Any] | None
) -> Pairing:
    common = [name for name in ours if name in theirs]
    if not common:
        raise UsageError(
            f"{_say_several(a, ours)} and {_say_several(b, theirs)} have no file name in common:"
            " say --sources mosaic or concatenated if the files of each make one array"
        )
    return Pairing(
        tuple(Pair(ours[name], theirs[name], "independent", 0, options) for name in common),
        tuple(name_of(path) for name, path in ours.items() if name not in theirs),
        tuple(name_of(path) for name, path in theirs.items() if name not in ours),
    )


def _files(source: Source) -> dict[str, Named | SourceSet]:
    """The files that a source names, by what tells them apart: their paths below their common
    folder, without suffix.

    Arrays and descriptions of arrays, which have no paths, are numbered.
    """
    if isinstance(source, SourceSet):
        if len(source.wholes) == 1:
            return {"0": source}
        return {str(n): found for n, found in enumerate(source.sources)}
    items = [found for item in several(source) for found in _expanded(item)]
    urls = [item for item in items if isinstance(item, str)]
    if len(urls) < len(items):
        return {str(n): item for n, item in enumerate(items)}
    return dict(_named(urls))


def _named(urls: Sequence[str]) -> dict[str, str]:
    """Files by the shortest names that tell them apart."""
    split = [formats.split_url(url) for url in urls]
    names = _below_their_folder([path for path, _ in split])
    for tried in ([_without_suffix(name) for name in names], names):
        keys = []
        for name, (_, dataset) in zip(tried, split, strict=True):
            keys.append(f"{name}::{dataset}" if dataset else name)
        if len(set(keys)) == len(keys):
            return dict(zip(keys, urls, strict=True))
    return {str(number): url for number, url in enumerate(urls)}


def _below_their_folder(paths: Sequence[str]) -> Sequence[str]:
    """Paths from the folder on that all of them lie in; as they are where there is none."""
    folders = [os.path.dirname(path) for path in paths]
    if not folders or not all(folders):
        return paths
    root = os.path.commonpath(folders)
    if not root:
        return paths
    return [os.path.relpath(path, root) for path in paths]


def _expanded(item: Named) -> Iterator[Named]:
    if not isinstance(item, str | os.PathLike):
        yield item
        return
    for url in expand(os.fspath(item)):
        if "://" in url:
            yield url
        else:
            yield os.path.abspath(url)


def _without_suffix(name: str) -> str:
    for suffix in sorted(formats.suffixes(), key=len, reverse=True):
        name = name.removesuffix(suffix)
    return name


def _say_several(source: Source, files: _Files) -> str:
    where: Source = next(iter(files.values()), "")
    if isinstance(source, str | os.PathLike):
        where = source
    return f"the {show_count(len(files), 'file')} of {name_of(where)}"
