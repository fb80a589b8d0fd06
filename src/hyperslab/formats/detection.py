"""What a file or directory is: by its first bytes or what is in it; its suffix says what a new one
shall be.
"""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from hyperslab.errors import FormatError, Missing
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.file import open_binary
from hyperslab.storage.suffixes import suffix_of

SUPPORTED = (
    "NIfTI-1 and NIfTI-2 (.nii, .nii.gz), HDF5 (.h5, .hdf5), netCDF (classic, 64-bit, netCDF-4),"
    " MINC (1, 2) and Zarr (2, 3; directories)"
)
_STORE_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup")
"""Of these, one is in every directory that is a Zarr array or group (Zarr 3 core specification;
Zarr 2, 'Storage').
"""
_CLASSIC_MAGIC = (b"CDF\x01", b"CDF\x02", b"CDF\x05")
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_ANNEX_POINTER = b"/annex/objects/"
_ZIP_MAGIC = b"PK\x03\x04"
_HEAD_NBYTES = 544
_GZIP_HEAD_NBYTES = 2**16
"Stored bytes in which the head of a compressed file has to begin."


def is_store(path: str) -> bool:
    """True for a directory that is a source itself, not a folder of sources: a Zarr store, or named
    like one.
    """
    return os.path.isdir(path) and (suffix_of(path.rstrip("/")) == ".zarr" or _holds_document(path))


def detect(path: str) -> str:
    """Name of the format of a file, by its first bytes, or of a directory, by what is in it.

    Raises FormatError that says what is there instead.
    """
    if isinstance(path, RemoteFolder):
        return "zarr"
    if not isinstance(path, Remote):
        if _holds_document(path):
            return "zarr"
        _check_is_file(path)
    try:
        with open_binary(path) as file:
            kind = _by_magic(path, file)
    except OSError as error:
        remedy = (
            "raise the limit of ulimit -n"
            if error.errno == errno.EMFILE
            else "check its permissions"
        )
        raise FormatError(f"{path}: cannot be read: {error.strerror}; {remedy}") from error
    return kind


def _holds_document(folder: str) -> bool:
    return os.path.isdir(folder) and any(
        os.path.isfile(os.path.join(folder, name)) for name in _STORE_DOCUMENTS
    )


def _check_is_file(path: str) -> None:
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if file.is_symlink():
            raise Missing(_dangling(file)) from None
        raise Missing(f"{path}: there is no such file") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        if is_store(path):
            documents = ", ".join(_STORE_DOCUMENTS[:-1]) + f" or {_STORE_DOCUMENTS[-1]}"
            raise FormatError(
                f"{path}: is named like a Zarr store but holds no {documents}; fetch or copy it"
                " again"
            )
        raise FormatError(f"{path}: is a directory, not an array file; name a file in it")
    if not stat.S_ISREG(mode):
        raise FormatError(
            f"{path}: is not a regular file; arrays are read at positions, which a pipe or device"
            " lacks"
        )


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
        raise FormatError(
            f"{path}: its content is not here but in a git-annex; run: datalad get {path}"
        )
    if head[:2] == b"\x1f\x8b":
        return _by_magic_gzip(path, head, file)
    if head[:4] in _CLASSIC_MAGIC:
        return "netcdf"
    if _is_nifti(path, head):
        return "nifti"
    if _is_hdf5(head, file):
        return "hdf5"
    if head.startswith(_ZIP_MAGIC):
        raise FormatError(
            f"{path}: is a ZIP file, which is not read; unpack it first, also if it is a Zarr store"
        )
    if suffix_of(path) in {".nii", ".nii.gz"}:
        raise FormatError(
            f"{path}: is not a NIfTI file although its name says so; supported are {SUPPORTED}"
        )
    raise FormatError(f"{path}: its format is unknown; supported are {SUPPORTED}")


def _by_magic_gzip(path: str, head: bytes, file: BinaryIO) -> str:
    """The format of what a gzip file holds, whose head may be spread over several members, some of
    them empty.
    """
    stored, early = head + file.read(_GZIP_HEAD_NBYTES), None
    try:
        plain = gzip.GzipFile(fileobj=BytesIO(stored)).read(_HEAD_NBYTES)
    except (gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(
            f"{path}: its gzip data are corrupt ({error}); fetch or copy it again"
        ) from error
    except EOFError as error:
        plain, early = b"", error
    if _is_nifti(path, plain):
        return "nifti"
    what = "not NIfTI"
    if len(plain) < _HEAD_NBYTES and file.read(1):
        what = f"its first {_GZIP_HEAD_NBYTES >> 10} KiB inflate to no NIfTI header"
    elif early:
        raise FormatError(f"{path}: its gzip data end too early; fetch or copy it again") from early
    raise FormatError(
        f"{path}: is compressed, but {what}; unpack it first (supported are {SUPPORTED})"
    )


def _is_nifti(path: str, head: bytes) -> bool:
    if head[344:348] == b"ni1\0" or head[4:8] == b"ni2\0":
        raise FormatError(
            f"{path}: is the header of a .hdr/.img pair, which is not supported; convert it to one"
            " .nii file"
        )
    return head[344:348] == b"n+1\0" or head[4:8] == b"n+2\0"


def _is_hdf5(head: bytes, file: BinaryIO) -> bool:
    """HDF5 File Format Specification, section II.A: the signature is at byte 0, 512, 1024, 2048,
    ...
    """
    if head.startswith(_HDF5_MAGIC):
        return True
    size, offset = file.seek(0, os.SEEK_END), 512
    while offset < size:
        file.seek(offset)
        if file.read(8) == _HDF5_MAGIC:
            return True
        offset *= 2
    return False
