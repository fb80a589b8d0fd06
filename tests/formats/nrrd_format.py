"""NRRD, a format of another package: one array in a file, with an attached or a detached header.

The whole of what such a package writes: this file, and the line `nrrd = "nrrd_format:FACTS"` under
its entry points of the group 'hyperslab.formats'. Source: "Definition of NRRD File Format"
(https://teem.sourceforge.net/nrrd/format.html).

- read: raw and gzip data in one file, attached (.nrrd) or detached (.nhdr), of either byte order
- written: attached, raw in place by any number of writers, or with `--compression gzip`
- all values equal pynrrd's (`tests/formats/test_added_format.py`)
"""

from __future__ import annotations

import builtins
import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink, Encoded
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArrayInfo, ArraySource, ChunkTable, Codec, Scaling
from hyperslab.errors import AGAIN, FormatError, SourceChanged, UsageError
from hyperslab.formats import deflating
from hyperslab.formats.facts import Facts, Magic, Suffix
from hyperslab.formats.identity import identify_path

FACTS = Facts(
    name="nrrd",
    module=__name__,
    title="NRRD",
    supported="NRRD (.nrrd, .nhdr)",
    suffixes=(Suffix(".nrrd", "nrrd"), Suffix(".nhdr")),
    magic=tuple(Magic(f"NRRD000{version}".encode()) for version in range(1, 6)),
    is_one_array=True,
    has_named_axes=False,
)

_DTYPES = {
    "i1": "int8|int8_t|signed char",
    "u1": "uint8|uint8_t|uchar|unsigned char",
    "i2": "int16|int16_t|short|short int|signed short|signed short int",
    "u2": "uint16|uint16_t|ushort|unsigned short|unsigned short int",
    "i4": "int32|int32_t|int|signed int",
    "u4": "uint32|uint32_t|uint|unsigned int",
    "i8": "int64|int64_t|longlong|long long|long long int|signed long long|signed long long int",
    "u8": "uint64|uint64_t|ulonglong|unsigned long long|unsigned long long int",
    "f4": "float",
    "f8": "double",
}
_TYPES = {word: dtype for dtype, words in _DTYPES.items() for word in words.split("|")}
"Words of the field 'type'."
_GZIP = ("gzip", "gz")
_TURNS = {
    "right-anterior-superior": (1, 1, 1),
    "ras": (1, 1, 1),
    "left-anterior-superior": (-1, 1, 1),
    "las": (-1, 1, 1),
    "left-posterior-superior": (-1, -1, 1),
    "lps": (-1, -1, 1),
}
"Signs of the axes of a space, from the right, front and top."
_LARGEST_HEAD_NBYTES = 2**20
_PIECE_NBYTES = 2**20


@dataclass(frozen=True)
class _Head:
    """What a header says."""

    path: str
    raw: bytes
    "The header up to its last line."
    fields: dict[str, str]
    keys: dict[str, str]
    "What is written as 'key:=value'."

    def field(self, name: str, otherwise: str | None = None) -> str:
        found = self.fields.get(name, otherwise)
        if found is None:
            raise FormatError(f"{self.path}: has no field '{name}'; have it written again")
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        shape = tuple(int(word) for word in self.field("sizes").split())
        if len(shape) != int(self.field("dimension")) or min(shape, default=0) < 1:
            raise FormatError(f"{self.path}: its sizes {shape} are not those of an array")
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        word = self.field("type").lower()
        if word not in _TYPES:
            raise FormatError(f"{self.path}: elements of type '{word}' are not read; convert it")
        plain: np.dtype[Any] = np.dtype(_TYPES[word])
        if plain.itemsize == 1:
            return plain
        if self.field("endian").lower() == "big":
            return plain.newbyteorder(">")
        return plain.newbyteorder("<")

    @property
    def is_compressed(self) -> bool:
        word = self.field("encoding").lower()
        if word != "raw" and word not in _GZIP:
            raise FormatError(f"{self.path}: data as '{word}' are not read; save it raw or by gzip")
        return word in _GZIP

    @property
    def data_path(self) -> str:
        """The file in which the values are."""
        named = self.fields.get("datafile")
        if named is None:
            return self.path
        if named.startswith("LIST") or "%" in named:
            raise FormatError(f"{self.path}: data in several files are not read; save it as one")
        return os.path.join(os.path.dirname(self.path), named)


def arrays(path: str) -> list[ArrayInfo]:
    """The one array of the file."""
    source = open(path, "")
    return [ArrayInfo("", source.shape, str(source.stored))]


def candidates(path: str) -> list[str]:
    """The name of the one array."""
    return [""]


def open(path: str, name: str) -> ArraySource:  # noqa: A001  # the formats share this name
    """Describe the array. Raises FormatError for a header that is wrong, or too few data."""
    before = os.stat(path)
    head = _read_head(path)
    shape = head.shape
    axes = tuple(reversed(range(len(shape))))
    is_compressed = head.is_compressed
    stored = head.dtype
    nbytes = math.prod(shape) * stored.itemsize
    offset = _data_start(head, nbytes)
    data = os.stat(head.data_path)
    if not is_compressed and data.st_size < offset + nbytes:
        missing = offset + nbytes - data.st_size
        raise FormatError(f"{head.data_path}: truncated: {missing} bytes missing; copy it again")
    is_attached = head.data_path == path
    is_read_in_place = is_attached and not is_compressed
    return ArraySource(
        url=path,
        name="",
        format=FACTS.name,
        shape=shape,
        dims=tuple(f"dim_{axis}" for axis in range(len(shape))),
        axes=axes,
        stored=stored,
        real=stored.newbyteorder("="),
        chunks=_one_chunk(shape[::-1], offset, nbytes) if is_read_in_place else None,
        reason=_reason(is_attached, is_compressed),
        codecs=(Codec("gzip"),) if is_compressed else (),
        header=Header(base_affine=_affine(head), attributes=head.keys),
        nbytes_stored=data.st_size - offset if is_compressed else nbytes,
        file_size=before.st_size,
        mtime_ns=before.st_mtime_ns,
        version=identify_path(head.data_path, head.raw, offset).version,
        metadata=json.dumps([head.data_path, offset, data.st_size, data.st_mtime_ns]).encode(),
    )


def read_reference(source: ArraySource, slab: Hyperslab, threads: int = 1) -> Array:
    """Stored values of a region, of a detached file or a gzip stream."""
    path, offset, *state = json.loads(source.metadata)
    now = os.stat(path)
    if path != source.url and [now.st_size, now.st_mtime_ns] != state:
        raise SourceChanged(
            f"{path}: was written to after {source.url} had been described: restore it", AGAIN
        )
    stored = slab.permute(source.axes)
    if source.codecs:
        block = _inflated(path, offset, source, stored)
    else:
        mapped: Array = np.memmap(path, source.stored, "r", offset, source.stored_shape)
        block = mapped[stored.slices()]
    return np.array(block, source.dtype("stored")).transpose(source.axes)


def sink(
    path: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    header: Header,
    scaling: Scaling | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
) -> ArraySink:
    """Describe a file with an attached header. Raises UsageError for what NRRD cannot hold."""
    little = np.dtype(dtype).newbyteorder("<")
    if little.newbyteorder("=") not in map(np.dtype, _DTYPES) or 0 in shape:
        raise UsageError(f"{path}: NRRD cannot hold {dtype} of shape {shape}; write .h5 instead")
    if scaling is not None:
        raise UsageError(f"{path}: NRRD has no slope and intercept; use --values real")
    if encoding.chunks or encoding.shards or encoding.version or encoding.name or encoding.virtual:
        raise UsageError(f"{path}: NRRD has neither chunks nor names; write .h5 for that")
    axes = tuple(reversed(range(len(shape))))
    about = (path, FACTS.name, tuple(shape), axes, little)
    if encoding.compression in (None, "none"):
        head = _head_of(shape, little, header, "raw")
        return ArraySink(*about, head, header, encoding=encoding)
    level = deflating.level_of(encoding)
    if encoding.compression != "gzip" or not deflating.FASTEST <= level <= deflating.SMALLEST:
        raise UsageError(f"{path}: NRRD is compressed by gzip:1 to gzip:9")
    codecs = (Codec("gzip", (level,)),)
    return ArraySink(*about, None, header, None, "pieces", (), codecs, encoding)


def encode(sink: ArraySink, slab: Hyperslab, block: Array) -> Iterator[Encoded]:
    """The runs of a compressed file that a region is, with the numbers of their first elements."""
    return deflating.runs(sink, slab, block)


def assemble(sink: ArraySink, pieces: Iterable[Encoded]) -> Iterator[bytes | memoryview]:
    """The header, and behind it one gzip member of all runs in their order."""
    member = deflating.Member()
    yield _head_of(sink.shape, sink.dtype, sink.header, "gzip") + member.head
    for first, stream in pieces:
        if first * sink.dtype.itemsize != member.length:
            break
        yield member.add(stream)
    if member.length != math.prod(sink.shape) * sink.dtype.itemsize:
        raise FormatError(f"{sink.path}: not all of it was written; run again with --resume")
    yield member.tail()


def _read_head(path: str) -> _Head:
    lines: list[bytes] = []
    with builtins.open(path, "rb") as file:
        while sum(map(len, lines)) < _LARGEST_HEAD_NBYTES:
            line = file.readline(_LARGEST_HEAD_NBYTES)
            lines.append(line)
            if not line.strip(b"\r\n"):
                break
    fields: dict[str, str] = {}
    keys: dict[str, str] = {}
    for line in lines[1:]:
        text = line.decode("utf-8", "replace").strip()
        entry = re.match(r"([^:]+?)(:=|:\s)\s*(.*)", text)
        if text.startswith("#") or entry is None:
            continue
        if entry[2] == ":=":
            keys[entry[1]] = entry[3]
        else:
            fields[entry[1].lower().replace(" ", "")] = entry[3]
    return _Head(path, b"".join(lines), fields, keys)


def _data_start(head: _Head, nbytes: int) -> int:
    """Position of the first stored byte: after the header, the lines and bytes to be skipped."""
    offset = len(head.raw) if head.data_path == head.path else 0
    try:
        with builtins.open(head.data_path, "rb") as file:
            file.seek(offset)
            for _ in range(int(head.field("lineskip", "0"))):
                file.readline()
            offset = file.tell()
            size = file.seek(0, os.SEEK_END)
    except FileNotFoundError as error:
        raise FormatError(f"{head.path}: its data are not in {head.data_path}") from error
    skipped = int(head.field("byteskip", "0"))
    if skipped and head.is_compressed:
        raise FormatError(f"{head.path}: compressed bytes are not skipped; save it raw")
    return size - nbytes if skipped == -1 else offset + skipped


def _one_chunk(shape: tuple[int, ...], offset: int, nbytes: int) -> ChunkTable:
    return ChunkTable(
        chunk_shape=shape,
        start=np.zeros((1, len(shape)), np.int64),
        offset=np.array([offset], np.int64),
        nbytes=np.array([nbytes], np.int64),
        mask=np.zeros(1, np.int64),
    )


def _reason(is_attached: bool, is_compressed: bool) -> str:
    if is_compressed:
        return "one gzip stream: every task inflates what lies before its region"
    if is_attached:
        return "contiguous: a task reads its byte ranges directly"
    return "its values are in a file of their own, which is mapped into memory"


def _inflated(path: str, offset: int, source: ArraySource, stored: Hyperslab) -> Array:
    """A region of a gzip stream, plane by plane along its slowest axis; all of it is inflated, as
    its checksum is at its end.
    """
    shape = source.stored_shape
    block = np.empty(stored.count, source.stored)
    steps = range(shape[0])[stored.slices()[0]]
    nbytes = math.prod(shape[1:]) * source.stored.itemsize
    try:
        with builtins.open(path, "rb") as file:
            file.seek(offset)
            stream = gzip.GzipFile(fileobj=file)
            for step in range(shape[0]):
                plane = np.frombuffer(_exactly(stream, nbytes), source.stored).reshape(shape[1:])
                if step in steps:
                    block[steps.index(step)] = plane[stored.slices()[1:]]
            while stream.read(_PIECE_NBYTES):
                pass
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}: its gzip data are corrupt ({error}); copy it again") from error
    return block


def _exactly(stream: BinaryIO | gzip.GzipFile, nbytes: int) -> bytes:
    data = stream.read(nbytes)
    if len(data) < nbytes:
        raise EOFError("they end too early")
    return data


def _affine(head: _Head) -> Array:
    """Voxels to millimetres (RAS+); the identity where the header places nothing."""
    affine = np.eye(4)
    columns = [_vector(word) for word in head.field("spacedirections", "").split()[:3]]
    spacings = head.field("spacings", "").split()
    if len(columns) == 3 and all(len(column) == 3 for column in columns):
        affine[:3, :3] = np.transpose(columns)
        affine[:3, 3] = _vector(head.field("spaceorigin", "(0,0,0)"))
    elif len(spacings) >= 3 and np.isfinite(list(map(float, spacings[:3]))).all():
        affine[:3, :3] = np.diag(list(map(float, spacings[:3])))
    turn = _TURNS.get(head.field("space", "").lower(), (1, 1, 1))
    return np.diag([*turn, 1.0]) @ affine


def _vector(word: str) -> list[float]:
    return [float(number) for number in word.strip("()").split(",") if number not in ("none", "")]


def _head_of(shape: Iterable[int], dtype: np.dtype[Any], header: Header, encoding: str) -> bytes:
    sizes = list(shape)
    lines = [
        "NRRD0004",
        f"type: {_DTYPES[dtype.str[1:]].partition('|')[0]}",
        f"dimension: {len(sizes)}",
        f"sizes: {' '.join(map(str, sizes))}",
        f"encoding: {encoding}",
        "endian: little",
    ]
    affine = header.affine
    if affine is not None and len(sizes) >= 3 and not np.array_equal(affine, np.eye(4)):
        columns = [_said(affine[:3, axis]) for axis in range(3)] + ["none"] * (len(sizes) - 3)
        lines += [
            "space: right-anterior-superior",
            f"space directions: {' '.join(columns)}",
            f"space origin: {_said(affine[:3, 3])}",
        ]
    own = {} if header.native else header.attributes  # not those of another format's header
    for name, given in own.items():
        value = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
        if isinstance(value, str) and value.isprintable() and ":" not in name:
            lines.append(f"{name}:={value}")
    return ("\n".join(lines) + "\n\n").encode()


def _said(vector: Array) -> str:
    return "(" + ",".join(repr(float(number)) for number in vector) + ")"
