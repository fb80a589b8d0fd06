"""The global heap of an HDF5 file, looked at before libhdf5 reads it: an object of it that is
damaged ends no call.

Text and lists of any length, and references to regions, lie in collections of the heap (HDF5 File
Format Specification, III.E). libhdf5 walks through the objects of a collection, and for ever where
one with index 0 (free space) has the size 0: seen in H5HG__cache_heap_deserialize of 2.0.0, where a
step over free space is its size. So what lies in the heap is read through a second handle first,
whose file is this module's: it looks for collections in all bytes that libhdf5 reads, in bytes of
the file itself because libhdf5 reads in pieces, and gives out zeros once one of them is wrong.

The second handle follows no links, which would lead it to the same file whatever their names are.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from hyperslab.errors import FormatError
from hyperslab.formats.hdf5.tree import is_written_here
from hyperslab.formats.hdf5.types import is_numpy, refers
from hyperslab.storage.location import Remote
from hyperslab.storage.remote.file import open_binary

_SIGNATURE = b"GCOL"
_VERSION = 1
_SMALLEST = 4096
"Bytes of the smallest collection; libhdf5 refuses smaller ones."
_READ_REFERENCES = (b"DIMENSION_LIST", b"REFERENCE_LIST")
"Attributes of references that are followed (HDF5 Dimension Scale Specification)."
_KIND_OF_LIST = 3
"""Number of the byte of an encoded datatype that has in its lower half what a list is (IV.A.2.d of
the specification): two bytes of H5Tencode and the class come before it.
"""


def check_attributes(items: Iterable[Any], path: str) -> None:
    """Raise FormatError if an attribute of these h5py objects of a file lies in a collection that
    is wrong.

    Raises what h5py does for one that cannot be read: a wrong length takes time and memory, once is
    enough.
    """
    waiting = [(item, names) for item in items if (names := _in_heap(item))]
    for _, together in itertools.groupby(waiting, lambda pair: pair[0].file.id.name):
        pairs = list(together)
        with _second_handle(pairs[0][0], path) as by_it:
            for item, names in pairs:
                found = by_it(item)
                for name in names:
                    found.attrs[name]


def readable(dataset: Any, path: str) -> AbstractContextManager[Any]:
    """An h5py dataset to read elements from: where they lie in the heap, a collection that is wrong
    is FormatError.

    Those that lie in other files, of a virtual dataset or of external storage, are left to libhdf5:
    the second handle cannot open those files.
    """
    from h5py import h5d

    if not _lies_in_heap(dataset.id.get_type(), dataset):
        return contextlib.nullcontext(dataset)
    creation = dataset.id.get_create_plist()
    if creation.get_layout() == h5d.VIRTUAL or creation.get_external_count() > 0:
        return contextlib.nullcontext(dataset)
    return _watched(dataset, path)


def _in_heap(item: Any) -> list[bytes]:
    """Names of the attributes of an object that lie in the heap, but for those that nobody
    reads.
    """
    from h5py import h5a

    attributes = [h5a.open(item.id, index=number) for number in range(h5a.get_num_attrs(item.id))]
    return [
        found.name
        for found in attributes
        if _lies_in_heap(found.get_type(), item) and _is_read(found)
    ]


def _is_read(attribute_id: Any) -> bool:
    """Whether an attribute is read, here or elsewhere: what h5py has no dtype for is not, nor are
    most references.
    """
    if refers(attribute_id.get_type()) and attribute_id.name not in _READ_REFERENCES:
        return False
    return is_numpy(attribute_id)


def _lies_in_heap(kind: Any, item: Any) -> bool:
    """Whether elements of an h5py datatype, that of `item` or of an attribute, or parts of them are
    in the global heap.

    Raises FormatError for lists that are neither sequences nor text: libhdf5 2.0.0 takes their
    bytes for addresses in memory (H5T__conv_vlen calls H5T__vlen_disk_write to read).
    """
    from h5py import h5t

    found = kind.get_class()
    if found == h5t.COMPOUND:
        return bool(max((_lies_in_heap(member, item) for member in _members(kind)), default=False))
    if found == h5t.ARRAY:
        return _lies_in_heap(kind.get_super(), item)
    if found == h5t.STRING:
        return bool(kind.is_variable_str())
    if found == h5t.VLEN:
        if kind.encode()[_KIND_OF_LIST] & 15:
            raise FormatError(
                f"{_where(item)}: corrupt: a datatype of lists of any length is of an unknown kind;"
                " copy it again"
            )
        return _lies_in_heap(kind.get_super(), item) or True
    return found == h5t.REFERENCE and not kind.equal(h5t.STD_REF_OBJ)


def _members(kind: Any) -> list[Any]:
    return [kind.get_member_type(number) for number in range(kind.get_nmembers())]


def _where(item: Any) -> str:
    from h5py import h5f

    return f"{os.fsdecode(h5f.get_name(item.id))}::{item.name}"


@contextlib.contextmanager
def _watched(item: Any, path: str) -> Iterator[Any]:
    """An h5py object by a handle through which libhdf5 reads no wrong collection; FormatError if it
    wanted to.
    """
    with _second_handle(item, path) as by_it:
        yield by_it(item)


@contextlib.contextmanager
def _second_handle(first: Any, path: str) -> Iterator[Callable[[Any], Any]]:
    """What gives h5py objects of one file, `first` and others, by such a handle.

    A file that this process has open for writing is in libhdf5's own memory: its objects are given
    back as they are.
    """
    import h5py
    from h5py import h5i, h5r

    own = h5i.get_file_id(first.id)
    if is_written_here(own):
        yield lambda item: item
        return
    length = own.get_create_plist().get_sizes()[1]
    last = first

    def again(item: Any) -> Any:
        nonlocal last
        last = item
        return type(item)(h5r.dereference(h5r.create(item.id, b".", h5r.OBJECT), other.id))

    with open_binary(path if isinstance(path, Remote) else os.fsdecode(own.name)) as file:
        watched = _Watched(file, length)
        try:
            with h5py.File(watched, "r") as other:
                yield again
        finally:
            if watched.wrong:
                raise FormatError(f"{_where(last)}: {watched.wrong}; copy it again") from None


class _Watched:
    """A file as h5py's driver for Python's files reads it."""

    def __init__(self, file: BinaryIO, length_nbytes: int) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        self._length_nbytes = length_nbytes
        self._position = 0
        self._seen: set[int] = set()
        self.wrong = ""
        "What is wrong with a collection that libhdf5 wanted to read; '' if nothing is."

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset if whence == os.SEEK_SET else self._size + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing was written."""

    def readinto(self, room: memoryview) -> int:
        raw = self.read(len(room))
        room[: len(raw)] = raw
        return len(raw)

    def read(self, nbytes: int) -> bytes:
        start = self._position
        self._position += nbytes
        if start + nbytes > self._size:
            return b""
        before = min(start, len(_SIGNATURE) - 1)
        around = self._pread(before + nbytes + len(_SIGNATURE) - 1, start - before)
        self._look(around, start - before)
        found = around[before : before + nbytes]
        if self.wrong:
            return bytes(len(found))
        return found

    def _pread(self, nbytes: int, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(nbytes)

    def _look(self, raw: bytes, start: int) -> None:
        """Check every collection of which a part of the signature may be in these bytes of the
        file.
        """
        at = raw.find(_SIGNATURE)
        while at >= 0 and not self.wrong:
            if start + at not in self._seen:
                self._seen.add(start + at)
                self.wrong = self._wrong(start + at)
            at = raw.find(_SIGNATURE, at + 1)

    def _wrong(self, place: int) -> str:
        """What libhdf5 must not see; what it refuses itself, and what only looks like a signature,
        is not wrong.
        """
        head = self._pread(8 + self._length_nbytes, place)
        nbytes = int.from_bytes(head[8:], "little")
        if head[4:5] != bytes([_VERSION]) or not _SMALLEST <= nbytes <= self._size - place:
            return ""
        at = _broken_object(self._pread(nbytes, place), self._length_nbytes)
        if at:
            return f"corrupt: the global heap at byte {place} is wrong at byte {place + at}"
        return ""


def _broken_object(collection: bytes, length_nbytes: int) -> int:
    """Where an object of a collection does not end behind its beginning and within the collection;
    0 if nowhere.

    Headers and objects take multiples of 8 bytes, but for free space, whose size counts its header.
    """
    head = _padded(8 + length_nbytes)
    place = head
    while place + head <= len(collection):
        (number,) = struct.unpack_from("<H", collection, place)
        size = int.from_bytes(collection[place + 8 : place + 8 + length_nbytes], "little")
        step = size
        if number:
            step = head + _padded(size)
        if not 0 < step <= len(collection) - place:
            return place
        place += step
    return 0


def _padded(nbytes: int) -> int:
    return -(-nbytes // 8) * 8
