"""The header of a netCDF classic file (CDF-1, CDF-2 and CDF-5), parsed strictly.

Source: NetCDF User's Guide, "The NetCDF Classic Format Specification", and the CDF-5 specification
of PnetCDF. Every length is checked against the file before anything is made of it, so that no
header takes long or much memory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from hyperslab.arrays.header import Omitted
from hyperslab.errors import FormatError
from hyperslab.storage.remote.file import open_binary

TYPES = {
    1: "i1",
    2: "S1",
    3: ">i2",
    4: ">i4",
    5: ">f4",
    6: ">f8",
    7: "u1",
    8: ">u2",
    9: ">u4",
    10: ">i8",
    11: ">u8",
}
"dtype of each nc_type; those above 6 exist in CDF-5 only."
LARGEST_NDIM = 32
"Axes that every supported NumPy can hold."
_LARGEST_NDIM = 1024
LARGEST_NBYTES = 2**62
"Bytes of an array beyond which NumPy cannot count."
_LARGEST_HEADER = 2**26
_LARGEST_LIST = 2**19
_LARGEST_NAME = 256
_SHOWN_NBYTES = 2**13
_PIECE_NBYTES = 2**16
_DIMENSION = 10
_VARIABLE = 11
_ATTRIBUTE = 12
_STREAMING = {4: 2**32 - 1, 8: 2**64 - 1}


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable and where its values begin."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    "Shape, with the number of records where the first dimension is the record dimension."
    is_record: bool
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any]
    begin: int
    "First byte of the values in the file."

    @property
    def row_nbytes(self) -> int:
        """Bytes of one record, or of the whole variable where there are none; without padding."""
        shape = self.shape
        if self.is_record:
            shape = shape[1:]
        return math.prod(shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class ClassicHeader:
    """The header of a file."""

    version: int
    variables: Mapping[str, Variable]
    attributes: Mapping[str, Any]
    record_nbytes: int
    "Bytes from one record to the next."
    raw: bytes
    "The header itself."
    file_size: int
    record_dimension: str = ""
    "Name of the dimension that may grow; '' where there is none."

    def missing_nbytes(self, variable: Variable) -> int:
        """Bytes that the file lacks to hold all values of a variable."""
        if math.prod(variable.shape) == 0:
            return 0
        records = 0
        if variable.is_record:
            records = variable.shape[0] - 1
        return max(
            0, variable.begin + records * self.record_nbytes + variable.row_nbytes - self.file_size
        )


def read_header(path: str, longest_nbytes: int = _SHOWN_NBYTES) -> ClassicHeader:
    """Parse the header of a file. Raises FormatError that says at which byte it goes wrong.

    Of an attribute of more numbers than so many bytes hold only their count is kept, in words.
    """
    with open_binary(path) as file:
        return _Parser(path, file, longest_nbytes).header()


class _Parser:
    """A position in the header, and what has been read of it."""

    def __init__(self, path: str, file: BinaryIO, longest_nbytes: int) -> None:
        self.path = path
        self.file = file
        self.size = file.seek(0, os.SEEK_END)
        self.longest_nbytes = longest_nbytes
        file.seek(0)
        self.raw = bytearray()
        self.position = 0
        self.listed = 0
        self.wide = 4
        "Bytes of counts: 8 in CDF-5."

    def header(self) -> ClassicHeader:
        magic = self.take(4)
        version = magic[3]
        if magic[:3] != b"CDF" or version not in (1, 2, 5):
            raise self.wrong(f"it begins with {magic!r} instead of CDF and a version of 1, 2 or 5")
        self.wide = 8 if version == 5 else 4
        records = self.number(self.wide)
        dims = [self.dimension() for _ in range(self.list_length(_DIMENSION))]
        if sum(length == 0 for _, length in dims) > 1:
            raise self.wrong("it has more than one record dimension")
        attributes = self.attributes()
        found = [self.variable(dims, version) for _ in range(self.list_length(_VARIABLE))]
        stride = _record_nbytes(found)
        if records == _STREAMING[self.wide]:
            records = self.count_records(found, stride)
        variables = {variable.name: _with_records(variable, records) for variable in found}
        if len(variables) < len(found):
            raise self.wrong("two of its variables have the same name")
        self.check_places(found)
        raw = bytes(self.raw[: self.position])
        growing = next((name for name, length in dims if length == 0), "")
        return ClassicHeader(version, variables, attributes, stride, raw, self.size, growing)

    def dimension(self) -> tuple[str, int]:
        return self.name(), self.count()

    def variable(self, dims: list[tuple[str, int]], version: int) -> Variable:
        """A variable as the header has it: zero stands for the number of records."""
        name = self.name()
        ndim = self.count()
        if ndim > _LARGEST_NDIM:
            raise self.wrong(f"variable {name} has {ndim} dimensions; it can have {_LARGEST_NDIM}")
        self.check_list(ndim)
        ids = [self.count() for _ in range(ndim)]
        if any(i >= len(dims) for i in ids):
            raise self.wrong(f"variable {name} has dimension {max(ids)} of {len(dims)}")
        lengths = [dims[i][1] for i in ids]
        if 0 in lengths[1:]:
            raise self.wrong(
                f"variable {name} has the record dimension in another place than the first"
            )
        attributes = self.attributes()
        dtype = self.type()
        self.number(
            self.wide
        )  # vsize says nothing that the shape does not, and is wrong where it would overflow
        begin = self.number(4 if version == 1 else 8)
        is_record = bool(lengths) and lengths[0] == 0
        names = tuple(dims[i][0] for i in ids)
        return Variable(name, names, tuple(lengths), is_record, dtype, attributes, begin)

    def attributes(self) -> dict[str, Any]:
        return dict(self.attribute() for _ in range(self.list_length(_ATTRIBUTE)))

    def attribute(self) -> tuple[str, Any]:
        name = self.name()
        dtype = self.type()
        count = self.count()
        nbytes = count * dtype.itemsize
        data = self.take(nbytes + -nbytes % 4)[:nbytes]
        if dtype.kind == "S":
            return name, data.rstrip(b"\0").decode("utf-8", "replace")
        if nbytes > self.longest_nbytes:
            return name, Omitted(f"{count} numbers")
        numbers = np.frombuffer(data, dtype).astype(dtype.newbyteorder("="))
        if count == 1:
            return name, numbers[0]
        return name, numbers

    def type(self) -> np.dtype[Any]:
        code = self.number(4)
        if code not in TYPES or (self.wide == 4 and code > 6):
            raise self.wrong(f"{code} is no type of values")
        return np.dtype(TYPES[code])

    def name(self) -> str:
        nbytes = self.count()
        if not 0 < nbytes <= _LARGEST_NAME:
            raise self.wrong(f"a name of {nbytes} bytes; names have 1 to {_LARGEST_NAME}")
        name = self.take(nbytes + -nbytes % 4)[:nbytes].partition(b"\0")[
            0
        ]  # NetCDF-C ends names there
        if not name:
            raise self.wrong("a name that begins with a zero byte")
        return name.decode("utf-8", "backslashreplace")

    def list_length(self, tag: int) -> int:
        found = self.number(4)
        length = self.count()
        if found != tag and (found, length) != (0, 0):
            raise self.wrong(f"the tag of a list is {found} instead of {tag}")
        self.check_list(length)
        return length

    def check_list(self, length: int) -> None:
        """Each element takes 4 bytes or more, so that a longer list than the file has bytes is a
        lie.
        """
        self.listed += length
        if 4 * length > self.size - self.position or self.listed > _LARGEST_LIST:
            raise self.wrong(f"a list of {length} elements; the file has {self.size} bytes")

    def count(self) -> int:
        number = self.number(self.wide)
        if number >= 1 << (8 * self.wide - 1):
            raise self.wrong("a negative count")
        return number

    def number(self, nbytes: int) -> int:
        return int.from_bytes(self.take(nbytes), "big")

    def take(self, nbytes: int) -> bytes:
        end = self.position + nbytes
        if end > min(self.size, _LARGEST_HEADER):
            raise self.wrong(f"{nbytes} bytes are to follow; the file has {self.size}")
        while len(self.raw) < end:
            piece = self.file.read(max(_PIECE_NBYTES, end - len(self.raw)))
            if not piece:
                raise self.wrong("the file ends within the header")
            self.raw += piece
        self.position = end
        return bytes(self.raw[end - nbytes : end])

    def count_records(self, variables: list[Variable], stride: int) -> int:
        """The records that a file holds whose writer did not know their number."""
        recorded = [v for v in variables if v.is_record]
        if not recorded or stride == 0:
            return 0
        return max(0, min((self.size - v.begin - v.row_nbytes) // stride + 1 for v in recorded))

    def check_places(self, variables: list[Variable]) -> None:
        """Values lie after the header, one variable after the other: first the fixed ones, then
        those in records.
        """
        end = self.position
        for variable in sorted(variables, key=lambda v: v.is_record):
            if variable.begin < end:
                raise self.wrong(
                    f"the values of {variable.name} begin at byte {variable.begin}, before {end}"
                )
            end = variable.begin + variable.row_nbytes

    def wrong(self, what: str) -> FormatError:
        return FormatError(
            f"{self.path}: its netCDF header is corrupt at byte {self.position}: {what}; fetch or"
            " copy the file again"
        )


def _record_nbytes(variables: list[Variable]) -> int:
    """Bytes of a record: each variable's padded to 4 bytes, but for a variable that is alone in
    it.
    """
    sizes = [variable.row_nbytes for variable in variables if variable.is_record]
    if len(sizes) == 1:
        return sizes[0]
    return sum(size + -size % 4 for size in sizes)


def _with_records(variable: Variable, records: int) -> Variable:
    shape = variable.shape
    if variable.is_record:
        shape = (records, *shape[1:])
    return Variable(
        variable.name,
        variable.dims,
        shape,
        variable.is_record,
        variable.dtype,
        variable.attributes,
        variable.begin,
    )
