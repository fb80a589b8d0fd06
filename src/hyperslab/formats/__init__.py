"""The file formats: which module reads a file, and what every such module offers.

A format says where the bytes of an array are, as an `ArraySource`, and is the reference reader for what cannot be said
that way. Formats are told apart by their first bytes, never by suffix alone; suffixes choose the format of new files
and the files of a directory.
"""

from __future__ import annotations

import errno
import gzip
import importlib
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np

from hyperslab.array import Array, ArrayInfo, ArraySink, ArraySource, Encoding, Header, Scaling
from hyperslab.errors import FormatError, UsageError
from hyperslab.slab import Hyperslab

FORMATS: dict[str, str] = {
    "nifti": "hyperslab.formats.nifti",
    "hdf5": "hyperslab.formats.hdf5",
    "netcdf": "hyperslab.formats.netcdf_classic",
}
"Name of every file format and the module that holds it, imported at first use."

SUFFIXES: dict[str, str] = {
    ".nii": "nifti",
    ".nii.gz": "nifti",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".he5": "hdf5",
    ".nc": "hdf5",
    ".nc4": "hdf5",
    ".mnc": "hdf5",
}
"Suffixes of array files and the format in which such a file is written; a longer one wins."

SUPPORTED = "NIfTI-1 and NIfTI-2 (.nii, .nii.gz), HDF5 (.h5, .hdf5), netCDF (classic, 64-bit, netCDF-4) and MINC (1, 2)"
_CLASSIC_MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_ANNEX_POINTER = b"/annex/objects/"
_HEAD_NBYTES = 544
_GZIP_HEAD_NBYTES = 2**16
"Stored bytes in which the head of a compressed file has to begin."
_LISTED = 20


class Format(Protocol):
    """What a module of `hyperslab.formats` offers."""

    def arrays(self, path: str) -> list[ArrayInfo]:
        """Everything array-like in the file."""

    def candidates(self, path: str) -> list[str]:
        """Names of the arrays of which the only one is meant where none is named."""

    def open(self, path: str, name: str) -> ArraySource:
        """Describe one array; `name` is '' where a file is one array."""

    def read_reference(self, source: ArraySource, slab: Hyperslab) -> Array:
        """Read stored values through the format's own library: native byte order, the array's own axis order."""

    def sink(
        self, path: str, shape: tuple[int, ...], dtype: np.dtype, header: Header, scaling: Scaling | None = None,
        encoding: Encoding = ...,
    ) -> ArraySink:  # fmt: skip
        """Describe a file to be written; touches no disk. Raises UsageError for what the format cannot hold."""

    def encode(self, sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[tuple[int, bytes]]:
        """Of a sink in pieces: those of a region, each with its number in the file."""

    def assemble(self, sink: ArraySink, pieces: Iterable[tuple[int, bytes]], path: str) -> None:
        """Of a sink in pieces: write the file of all of them, which come in the order of their numbers."""

    def part_sink(self, whole: ArraySink, slab: Hyperslab, folder: str) -> ArraySink:
        """Of a sink in parts: the file of a region."""

    def write_index(self, whole: ArraySink, parts: Iterable[str], folder: str, path: str) -> None:
        """Of a sink in parts: write the file that says where they are; they will be in `folder`, a name beside it."""

    def parts_folder(self, path: str) -> str:
        """Of a format that has sinks in parts: name of the folder beside a file in which its parts are, '' for none."""

    def create(self, sink: ArraySink, path: str) -> None:
        """Of a store: make it, without values."""

    def write_region(self, sink: ArraySink, path: str, slab: Hyperslab, block: Array) -> int:
        """Of a store: write the chunks of a region; bytes stored."""

    def read_region(self, sink: ArraySink, path: str, slab: Hyperslab) -> Array:
        """Of a store: the stored values of a region as they are now."""


def module(name: str) -> Format:
    """The module of a format, imported now if it was not."""
    if name not in FORMATS:
        raise UsageError(f"'{name}' is not a format; the formats are {', '.join(FORMATS)}")
    return cast(Format, importlib.import_module(FORMATS[name]))


def format_of_name(path: str) -> str:
    """The format in which a file of this name is written. Raises UsageError for an unknown suffix."""
    suffix = _suffix(path)
    if suffix is None:
        raise UsageError(f"{path}: the suffix names no format that can be written; use one of {', '.join(SUFFIXES)}")
    return SUFFIXES[suffix]


def is_array_file(path: str) -> bool:
    """True when a file of this name in a directory is an array: a known suffix, and not hidden."""
    return not Path(path).name.startswith(".") and _suffix(path) is not None


def split_url(url: str) -> tuple[str, str]:
    """Split 'PATH::DATASET' into (path, dataset); a path that exists with '::' in it is a path."""
    if "::" not in url or os.path.lexists(url):
        return url, ""
    parts = url.split("::")
    splits = [("::".join(parts[:i]), "::".join(parts[i:])) for i in range(1, len(parts))]
    return next((split for split in splits if Path(split[0]).exists()), splits[0])


def arrays(url: str) -> list[ArrayInfo]:
    """The table of contents of a file; of 'PATH::DATASET' the one entry. Raises FormatError."""
    path, name = split_url(url)
    found = module(detect(path)).arrays(path)
    return [info for info in found if not name or info.name.strip("/") == name.strip("/")]


def open_source(url: str) -> ArraySource:
    """Describe the array at PATH or PATH::DATASET.

    Raises FormatError for a file that cannot be read, UsageError for a dataset that is not there or not chosen.
    """
    path, name = split_url(url)
    kind = detect(path)
    if kind == "nifti" and name:
        raise UsageError(f"{path}: a NIfTI file holds one array; leave out '::{name}'")
    if kind != "nifti" and not name:
        name = _only_dataset(path, kind)
    return module(kind).open(str(Path(path).absolute()), name)


def open_array(data: Array) -> ArraySource:
    """Describe an array in memory. Raises UsageError for an array of Python objects."""
    from hyperslab.formats import memory

    return memory.open(data)


def detect(path: str) -> str:
    """Name of the format of a file, by its first bytes. Raises FormatError that says what is there instead."""
    _check_is_file(path)
    try:
        with Path(path).open("rb") as file:
            kind = _by_magic(path, file)
    except OSError as error:
        remedy = "raise the limit of ulimit -n" if error.errno == errno.EMFILE else "check its permissions"
        raise FormatError(f"{path}: cannot be read: {error.strerror}; {remedy}") from error
    return kind


def _only_dataset(path: str, kind: str) -> str:
    names = module(kind).candidates(path)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{path}: holds no numeric dataset of one or more dimensions")
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    listed = ", ".join(names[:_LISTED]) + more
    raise UsageError(f"{path}: holds {len(names)} arrays; choose one as '{path}::NAME' from: {listed}")


def _suffix(path: str) -> str | None:
    matches = [suffix for suffix in SUFFIXES if path.lower().endswith(suffix)]
    return max(matches, key=len, default=None)


def _check_is_file(path: str) -> None:
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if file.is_symlink():
            raise FormatError(_dangling(file)) from None
        raise FormatError(f"{path}: there is no such file") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise FormatError(f"{path}: is a directory, not an array file; name a file in it")
    if not stat.S_ISREG(mode):
        raise FormatError(f"{path}: is not a regular file; arrays are read at positions, which a pipe or device lacks")


def _dangling(file: Path) -> str:
    target = str(file.readlink())
    if ".git/annex/objects" in target:
        return f"{file}: its content is not here but in a git-annex; run: datalad get {file}"
    return f"{file}: is a symbolic link to {target}, which does not exist"


def _by_magic(path: str, file: BinaryIO) -> str:
    head = file.read(_HEAD_NBYTES)
    if not head:
        raise FormatError(f"{path}: is empty (0 bytes); fetch or copy it again")
    if head.startswith(_ANNEX_POINTER):
        raise FormatError(f"{path}: its content is not here but in a git-annex; run: datalad get {path}")
    if head[:2] == b"\x1f\x8b":
        return _by_magic_gzip(path, head, file)
    if head[:4] in _CLASSIC_MAGIC:
        return "netcdf"
    if _is_nifti(path, head):
        return "nifti"
    if _is_hdf5(head, file):
        return "hdf5"
    if _suffix(path) in {".nii", ".nii.gz"}:
        raise FormatError(f"{path}: is not a NIfTI file although its name says so; supported are {SUPPORTED}")
    raise FormatError(f"{path}: its format is unknown; supported are {SUPPORTED}")


def _by_magic_gzip(path: str, head: bytes, file: BinaryIO) -> str:
    """The format of what a gzip file holds, whose head may be spread over several members, some of them empty."""
    stored, early = head + file.read(_GZIP_HEAD_NBYTES), None
    try:
        plain = gzip.GzipFile(fileobj=BytesIO(stored)).read(_HEAD_NBYTES)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}: its gzip data are corrupt ({error}); fetch or copy it again") from error
    except EOFError as error:
        plain, early = b"", error
    if _is_nifti(path, plain):
        return "nifti"
    what = "not NIfTI"
    if len(plain) < _HEAD_NBYTES and file.read(1):
        what = f"its first {_GZIP_HEAD_NBYTES >> 10} KiB inflate to no NIfTI header"
    elif early:
        raise FormatError(f"{path}: its gzip data end too early; fetch or copy it again") from early
    raise FormatError(f"{path}: is compressed, but {what}; unpack it first (supported are {SUPPORTED})")


def _is_nifti(path: str, head: bytes) -> bool:
    if head[344:348] == b"ni1\0" or head[4:8] == b"ni2\0":
        raise FormatError(
            f"{path}: is the header of a .hdr/.img pair, which is not supported; convert it to one .nii file"
        )
    return head[344:348] == b"n+1\0" or head[4:8] == b"n+2\0"


def _is_hdf5(head: bytes, file: BinaryIO) -> bool:
    """HDF5 File Format Specification, section II.A: the signature is at byte 0, 512, 1024, 2048, ..."""
    if head.startswith(_HDF5_MAGIC):
        return True
    size, offset = file.seek(0, os.SEEK_END), 512
    while offset < size:
        file.seek(offset)
        if file.read(8) == _HDF5_MAGIC:
            return True
        offset *= 2
    return False
