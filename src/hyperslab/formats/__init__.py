"""The file formats: which module reads a file, and what every such module offers.

A format says where the bytes of an array are, as an `ArraySource`, and is the reference reader for
what cannot be said that way. What else is to be known of it is in the table (`formats.table`).
Formats are recognised by their first bytes, never by suffix alone; suffixes choose the format of
new files and the files of a directory.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArrayInfo, ArraySource, Scaling
from hyperslab.errors import FormatError, MissingExtra, UsageError, suggest
from hyperslab.formats.detection import detect, is_store
from hyperslab.formats.table import (
    HOLDS_ANY,
    facts_of,
    facts_of_file_name,
    is_store_name,
    say_words,
    stem_of,
    store_of,
    suffix_of,
    suffixes,
    written,
    written_as,
)
from hyperslab.storage.location import Remote, RemoteFolder, is_remote, local_path, split_dataset
from hyperslab.storage.remote.file import describe

__all__ = [
    "HOLDS_ANY",
    "Format",
    "arrays",
    "detect",
    "facts_of",
    "facts_of_file_name",
    "find",
    "format_of_name",
    "is_array_file",
    "is_file_name",
    "is_plain_directory",
    "is_store",
    "is_store_name",
    "module",
    "only_array",
    "open_array",
    "open_source",
    "require_known_suffix",
    "say_words",
    "split_url",
    "stem_of",
    "suffix_of",
    "suffixes",
    "word_of",
    "written",
    "written_as",
]

_LISTED = 20
_FILE_SUFFIX = r"\.[A-Za-z][A-Za-z0-9]{0,4}"
"Ends of names that read as those of files."


class Format(Protocol):
    """What a module of `hyperslab.formats` offers, beside the `hooks` of the forms in which it
    writes. A path may be a hyperslab.storage.location.Remote.
    """

    def arrays(self, path: str) -> list[ArrayInfo]:
        """Everything array-like in the file."""

    def candidates(self, path: str) -> list[str]:
        """Names of the arrays of which the only one is meant where none is named."""

    def open(self, path: str, name: str) -> ArraySource:
        """Describe one array; `name` is '' where a file is one array."""

    def read_reference(self, source: ArraySource, slab: Hyperslab, threads: int = 1) -> Array:
        """Read stored values through the format's own library: native byte order, the array's own
        axis order.

        A library that can decodes with up to `threads` threads. An array that can be written to is
        the caller's from then on; one that the module keeps is given back read-only, and copied.
        """

    def sink(
        self,
        path: str,
        shape: tuple[int, ...],
        dtype: np.dtype,
        header: Header,
        scaling: Scaling | None = None,
        encoding: Encoding = ...,
    ) -> ArraySink:
        """Describe a file to be written; touches no disk. Raises UsageError for what the format
        cannot hold.
        """


def module(name: str) -> Format:
    """The module of a format, imported now if it was not. Raises UsageError for an unknown name,
    MissingExtra where a library that it needs is not there.
    """
    facts = facts_of(name)
    try:
        return cast(Format, importlib.import_module(facts.module))
    except ModuleNotFoundError as error:
        requirement = dict(facts.libraries).get(error.name or "")
        if requirement is None:
            raise
        raise MissingExtra(
            f"{facts.title} files need {error.name}: pip install '{requirement}'"
        ) from error


def format_of_name(path: str) -> str:
    """The format in which a file of this name is written. Raises UsageError for an unknown
    suffix.
    """
    found = facts_of_file_name(path)
    if found is None:
        raise UsageError(
            f"{path}: the suffix names no format that can be written; use one of"
            f" {', '.join(suffixes())}"
        )
    return found.name


def is_array_file(path: str) -> bool:
    """True when a file of this name in a directory is an array: a known suffix, and not hidden."""
    return not Path(path).name.startswith(".") and suffix_of(path) is not None


def is_file_name(path: str) -> bool:
    """True when a new array of this name is one file, or store, not a directory of files."""
    return not path.endswith(os.sep) and is_array_file(path) and not is_plain_directory(path)


def require_known_suffix(path: str) -> None:
    """Raise UsageError for the name of a new directory that reads as that of a file: a slip. One
    that is there, or ends with a slash, is meant.
    """
    name = Path(path).name
    if path.endswith(os.sep) or os.path.lexists(path) or suffix_of(name) is not None:
        return
    if not re.fullmatch(_FILE_SUFFIX, Path(name).suffix):
        return
    ends = (Path(name).suffix, "".join(Path(name).suffixes[-2:]))
    known = [suffix.text for suffix, _ in suffixes().values() if suffix.word]
    meant = next(filter(None, (suggest(end, known) for end in ends)), "")
    raise UsageError(
        f"{path}: no format has names that end so{meant}: give a name that ends in"
        f" {', '.join(written().values())}, or {path}/ for a directory"
    )


def is_plain_directory(path: str) -> bool:
    """True for a directory that is no store by its name."""
    return os.path.isdir(path) and not is_store_name(path)


def word_of(name: str) -> str:
    """The word for the format in which a file of this name is written; '' for none."""
    suffix = suffix_of(name)
    return "" if suffix is None else suffix.word


def split_url(url: str) -> tuple[str, str]:
    """Split 'PATH::DATASET' into (path, dataset); a path that exists with '::' in it is a path."""
    if is_remote(url):
        return split_dataset(url)
    url = local_path(url)
    if "::" not in url or os.path.lexists(url):
        return url, ""
    parts = url.split("::")
    splits = [("::".join(parts[:i]), "::".join(parts[i:])) for i in range(1, len(parts))]
    return next((split for split in splits if Path(split[0]).exists()), splits[0])


def find(url: str, storage_options: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """Split 'PATH::DATASET' or 'URL::DATASET' into (path, or a Remote as it is now, dataset).

    Of a store it is a RemoteFolder, which has not been looked at where its name says what it
    is. `storage_options` are fsspec's, for URLs. Raises FormatError, UsageError, Unavailable for
    what cannot be looked at.
    """
    path, name = split_url(url)
    if not is_remote(path):
        return path, name
    folder = RemoteFolder(path if "?" in path else path.rstrip("/"), storage_options)
    if store_of(path) is not None:
        return folder, name
    try:
        return describe(path, storage_options), name
    except FormatError:
        from hyperslab.formats.zarr import remote

        if suffix_of(path.partition("?")[0]) is not None or not remote.is_node(folder):
            raise
    return folder, name


def arrays(url: str, storage_options: Mapping[str, Any] | None = None) -> list[ArrayInfo]:
    """The table of contents of a file; of 'PATH::DATASET' the one entry. Raises FormatError."""
    path, name = find(url, storage_options)
    found = module(detect(path)).arrays(path)
    return [info for info in found if not name or info.name.strip("/") == name.strip("/")]


def open_source(url: str, storage_options: Mapping[str, Any] | None = None) -> ArraySource:
    """Describe the array at PATH, PATH::DATASET or URL::DATASET.

    Raises FormatError for a file that cannot be read, UsageError for a dataset that is not there or
    not chosen, Unavailable for a store that does not answer.
    """
    path, name = find(url, storage_options)
    facts = facts_of(detect(path))
    if facts.is_one_array and name:
        raise UsageError(f"{path}: a {facts.title} file holds one array; leave out '::{name}'")
    if not facts.is_one_array and not name:
        name = _only_dataset(path, facts.name)
    if not isinstance(path, Remote):
        path = str(Path(path).absolute())
    return module(facts.name).open(path, name)


def open_array(data: Array) -> ArraySource:
    """Describe an array in memory. Raises UsageError for one of Python objects, or with masked
    elements.
    """
    from hyperslab.formats import memory

    return memory.open(data)


def only_array(url: str, storage_options: Mapping[str, Any] | None = None) -> str:
    """The name of the array that is meant where none is named: of a MINC file its image; '' where
    that cannot be told.
    """
    path, _ = find(url, storage_options)
    names = module(detect(path)).candidates(path)
    if len(names) == 1:
        return names[0]
    return ""


def _only_dataset(path: str, kind: str) -> str:
    names = module(kind).candidates(path)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{path} holds no numeric array")
    more = ""
    if len(names) > _LISTED:
        more = f" and {len(names) - _LISTED} more"
    listed = ", ".join(names[:_LISTED]) + more
    raise UsageError(
        f"{path} holds {len(names)} arrays; choose one as '{path}::NAME' from: {listed}"
    )
