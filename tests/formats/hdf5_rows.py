"""The feature matrix of HDF5: every kind of dataset, how to make one, and how it is read.
docs/formats.md shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t, h5z

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.formats.hdf5_made import DONT_FILTER_PARTIAL_CHUNKS, NAME, create, make, make_masked
from tests.formats.matrix import Matrix, Row, Way


def rows() -> list[Row]:
    """Every row; those of a group follow one another."""
    return [
        *layouts(),
        *indexes(),
        *filters(),
        *masks(),
        *fills(),
        *numbers(),
        *others(),
        *shapes(),
        *blocks(),
    ]


def by_h5py(url: str, values: Values) -> Array:
    """All of a dataset, which h5py does not scale; the elements of an array datatype are axes, as
    in NumPy.
    """
    path, name = formats.split_url(url)
    with h5py.File(path, "r", locking=False) as file:
        return np.asarray(file[name][...])


def layouts() -> Iterator[Row]:
    yield Row("Layout", "contiguous", make)
    yield Row("Layout", "contiguous, never written", partial(make, parts=()))
    yield Row("Layout", "contiguous, space reserved in paged files", _paged_file)
    yield Row("Layout", "chunked", partial(make, chunks=(5, 4)), index="v1 B-tree")
    yield Row("Layout", "chunked, never written", partial(make, chunks=(5, 4), parts=()))
    yield Row(
        "Layout",
        "compact",
        partial(make, layout=h5d.COMPACT),
        "h5py",
        "its values lie in the metadata",
    )
    yield Row("Layout", "external", _external, "h5py", "its values lie in an external file")
    yield Row("Layout", "virtual", _virtual, "h5py", "it is virtual")
    yield Row("Layout", "virtual, a part missing", _virtual_without_part, "refused", "its part")
    yield Row("Layout", "reached by an external link", _linked)


def indexes() -> Iterator[Row]:
    """Chunks of (2, 3) in (12, 10), so that those at the far edge of the second axis reach beyond
    it.
    """
    small: dict[str, Any] = {"chunks": (2, 3)}
    late = {"libver": "latest", **small}
    large: dict[str, Any] = {"shape": (3000, 3), "chunks": (1, 2), "libver": "latest"}
    holes: dict[str, Any] = {"parts": (np.s_[3:5, 4:9], np.s_[11:, :1]), "fill": 7}
    early = {"alloc_time": h5d.ALLOC_TIME_EARLY}
    kinds: dict[str, tuple[str, dict[str, Any]]] = {
        "v1 B-tree": ("v1 B-tree", small),
        "v1 B-tree of several levels": ("v1 B-tree", {**large, "libver": "earliest"}),
        "single chunk": ("single chunk", {**late, "chunks": (12, 10)}),
        "implicit": ("implicit", {**late, **early}),
        "fixed array": ("fixed array", late),
        "fixed array of a dataset that may grow": ("fixed array", {**late, "maxshape": (30, 11)}),
        "fixed array in pages": ("fixed array", large),
        "extensible array": ("extensible array", {**late, "maxshape": (None, 10)}),
        "extensible array in pages": ("extensible array", {**large, "maxshape": (None, 5)}),
        "v2 B-tree": ("v2 B-tree", {**late, "maxshape": (None, None)}),
        "v2 B-tree of several levels": ("v2 B-tree", {**large, "maxshape": (None, None)}),
    }
    for name, (index, options) in kinds.items():
        yield Row("Chunk index", name, partial(make, **options), index=index)
        if name != "implicit":
            yield Row(
                "Chunk index",
                f"{name}, filtered",
                partial(make, filters=["deflate"], **options),
                index=index,
            )
        if "shape" not in options:
            yield Row(
                "Chunk index", f"{name}, with holes", partial(make, **options, **holes), index=index
            )
    grows = {**small, "maxshape": (12, None)}
    yield Row(
        "Chunk index",
        "v1 B-tree, growing along its last axis",
        partial(make, **grows),
        index="v1 B-tree",
    )
    later = "HDF5 may list chunks at wrong places"
    growing = partial(make, libver="latest", **grows)
    yield Row(
        "Chunk index",
        "extensible array along its last axis",
        growing,
        "h5py",
        later,
        "extensible array",
    )


def filters() -> Iterator[Row]:
    """Whole chunks first; chunks at the edge are stored like the others unless a flag says
    otherwise.
    """
    chains = (
        "deflate",
        "shuffle",
        "fletcher32",
        "lzf",
        "lz4",
        "zstd",
        "shuffle deflate",
        "shuffle deflate fletcher32",
        "fletcher32 shuffle deflate",
        "shuffle lzf fletcher32",
        "shuffle lz4",
        "shuffle zstd",
        "deflate shuffle",
        "deflate deflate",
        "zstd lzf deflate shuffle lz4 fletcher32",
    )
    for chain in chains:
        options: dict[str, Any] = {"chunks": (4, 5), "filters": chain.split(), "kind": "<i8"}
        yield Row("Filters", chain.replace(" ", ", "), partial(make, **options))
    edges: dict[str, Any] = {"chunks": (5, 4)}
    for name in ("deflate", "fletcher32", "lzf", "lz4", "zstd"):
        yield Row(
            "Filters",
            f"{name}, chunks beyond the edge",
            partial(make, filters=[name], noise=0.2, **edges),
        )
    flagged = partial(make, filters=["deflate"], chunk_opts=DONT_FILTER_PARTIAL_CHUNKS, **edges)
    at_edge = "chunks at its edge may be stored without the filters"
    yield Row("Filters", "deflate, but not of chunks beyond the edge", flagged, "h5py", at_edge)
    yield Row(
        "Filters",
        "shuffle alone, chunks beyond the edge",
        partial(make, filters=["shuffle"], **edges),
        "h5py",
        at_edge,
    )
    for name in ("blosc", "bitshuffle", "fletcher32 blosc", "shuffle bitshuffle fletcher32"):
        packed = partial(make, shape=(60, 50), chunks=(16, 20), filters=name.split(), noise=0.2)
        yield Row("Filters", name.replace(" ", ", "), packed)
    twice = "packs what another has cut into blocks"
    yield Row("Filters", "lz4 in blocks of 8 bytes, deflate", _packed_twice, "h5py", twice)
    yield Row(
        "Filters",
        "blosc with snappy",
        _snappy,
        "h5py",
        "blosc with codec 3 inside is not decoded here",
    )
    for name in ("szip", "nbit", "scaleoffset", "bzip2"):
        options = {"chunks": (4, 5), "filters": [name], "kind": "<i4"}
        yield Row("Filters", name, partial(make, **options), "h5py", "is not decoded here")


def masks() -> Iterator[Row]:
    chain = ["shuffle", "deflate", "fletcher32"]
    yield Row(
        "Skipped filters", "every combination", partial(make_masked, filters=chain, masks=range(8))
    )
    for name in ("lzf", "lz4", "zstd"):
        noise = partial(make, chunks=(4, 5), filters=[name], noise=1)
        yield Row("Skipped filters", f"{name} of noise", noise)
        yield Row(
            "Skipped filters",
            f"shuffle, {name} skipped",
            partial(make_masked, filters=["shuffle", name], masks=[0, 2, 1]),
        )


def fills() -> Iterator[Row]:
    """A chunked dataset of which one part was written."""
    part: dict[str, Any] = {"chunks": (5, 4), "parts": (np.s_[2:7, 3:5],)}
    quiet = np.frombuffer(b"\x01\x02\xc0\x7f", "<f4")[0]
    kinds: dict[str, tuple[Any, Any]] = {
        "int32": ("<i4", -3),
        "big-endian uint16": (">u2", 4660),
        "uint64": ("<u8", 2**64 - 1),
        "float16": ("<f2", -1.5),
        "big-endian float64": (">f8", 0.1),
        "NaN with a payload": ("<f4", quiet),
        "bool": ("?", True),
        "enumeration": (h5py.enum_dtype({"a": 1, "b": -2}, ">i2"), -2),
        "complex": ("<c8", 1 - 2j),
        "big-endian complex": (">c16", 3 + 4j),
    }
    yield Row("Fill values", "none given: 0", partial(make, **part))
    for name, (kind, fill) in kinds.items():
        yield Row("Fill values", name, partial(make, kind=kind, fill=fill, **part))
        yield Row(
            "Fill values", f"{name}, never written", partial(make, kind=kind, fill=fill, parts=())
        )
    unwritten = "its fill value is not used"
    never = partial(make, fill=5, fill_time=h5d.FILL_TIME_NEVER, **part)
    yield Row("Fill values", "never used, with holes", never, "h5py", unwritten)
    whole = partial(make, fill=5, fill_time=h5d.FILL_TIME_NEVER, chunks=(5, 4))
    yield Row("Fill values", "never used, without holes", whole)
    yield Row(
        "Fill values",
        "undefined, with holes",
        partial(make, undefined_fill=True, **part),
        "h5py",
        unwritten,
    )
    yield Row(
        "Fill values", "undefined, without holes", partial(make, undefined_fill=True, chunks=(5, 4))
    )
    for name in ("alloc", "ifset"):
        options = {**part, "fill": 5, "fill_time": getattr(h5d, f"FILL_TIME_{name.upper()}")}
        yield Row(
            "Fill values", f"written when space is reserved ({name})", partial(make, **options)
        )


def numbers() -> Iterator[Row]:
    words = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
    packed: dict[str, Any] = {"chunks": (4, 5), "filters": ["shuffle", "deflate"]}
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"):
        for order, word in (("<", "little-endian"), (">", "big-endian"))[
            : 1 if kind[1:] == "1" else 2
        ]:
            name = f"{words[kind[0]]}{8 * int(kind[1:])}"
            contiguous = partial(make, kind=order + kind)
            yield Row("Numbers", f"{name}, {word}" if kind[1:] != "1" else name, contiguous)
            yield Row(
                "Numbers", f"{name}, {word}, packed", partial(make, kind=order + kind, **packed)
            )
    yield Row("Numbers", "bool", partial(make, kind="?"))
    for base in ("i1", "<u2", ">i4", "<i8"):
        enum = h5py.enum_dtype({"RED": 1, "GREEN": 2, "BLUE": 99}, base)
        yield Row(
            "Numbers", f"enumeration of {np.dtype(base).name} ({base})", partial(make, kind=enum)
        )
    for name in ("F32LE", "F32BE", "F64LE", "F64BE"):
        yield Row(
            "Numbers",
            f"complex type of HDF5 2.0, {name}",
            partial(_complex, f"COMPLEX_IEEE_{name}"),
        )
    for odd in _odd_numbers():
        yield Row("Numbers", *odd)


def _odd_numbers() -> Iterator[tuple[str, Callable[[Path], None], Way, str]]:
    few, half, biased = h5t.STD_I32LE.copy(), h5t.IEEE_F32LE.copy(), h5t.IEEE_F32LE.copy()
    few.set_precision(17)
    half.set_fields(15, 7, 8, 0, 7)
    half.set_precision(16)
    half.set_size(2)
    biased.set_ebias(100)
    short, wide = h5t.STD_I32LE.copy(), h5t.enum_create(h5t.STD_I32LE)
    short.set_precision(24)
    short.set_size(3)
    for number, name in enumerate((b"FALSE", b"TRUE")):
        wide.enum_insert(name, number)
    values = np.arange(120).reshape(12, 10)
    yield (
        "17 of 32 bits",
        partial(make, kind=few, values=values),
        "h5py",
        "its whole numbers use 17 of 32 bits",
    )
    yield (
        "bfloat16",
        partial(make, kind=half, values=values / 4),
        "h5py",
        "floats of a layout that NumPy has not",
    )
    yield (
        "float32 of another bias",
        partial(make, kind=biased, values=values / 4),
        "h5py",
        "floats of a layout that",
    )
    yield (
        "extended precision",
        partial(make, kind="g", values=values / 7),
        "h5py",
        "floats of 128 bits",
    )
    yield (
        "complex of extended precision",
        partial(make, kind="G", values=(values / 7).astype("G")),
        "h5py",
        "complex numbers are not",
    )
    yield (
        "bool in 4 bytes",
        partial(make, kind=wide, values=values % 3 == 0),
        "h5py",
        "truth values are not stored as",
    )
    yield (
        "complex, imaginary part first",
        partial(_pair, (4, 0), 8),
        "h5py",
        "complex numbers are not stored as NumPy's",
    )
    yield (
        "complex with a gap",
        partial(_pair, (0, 8), 16),
        "h5py",
        "complex numbers are not stored as NumPy's",
    )
    yield (
        "integers of 3 bytes",
        partial(make, kind=short, parts=()),
        "refused",
        "h5py does not read",
    )
    yield (
        "IEEE float128",
        partial(make, kind=h5t.IEEE_F128LE, parts=()),
        "refused",
        "h5py does not read",
    )


def others() -> Iterator[Row]:
    text, lists = h5py.string_dtype(), h5py.vlen_dtype("<i4")
    words = np.array([f"wört {n}" * (n % 3) for n in range(30)], object).reshape(6, 5)
    ragged = np.empty((6, 5), object)
    ragged.ravel()[:] = [np.arange(n % 4, dtype="i4") for n in range(30)]
    pair = np.dtype([("a", "<i2"), ("b", ">f8")])
    mixed = np.dtype([("name", text), ("list", lists), ("n", "<i4")])
    block: dict[str, Any] = {"shape": (6, 5)}
    table: tuple[tuple[str, dict[str, Any], str], ...] = (
        (
            "text of fixed length",
            {"kind": h5py.string_dtype("ascii", 7), "values": np.char.encode(words.astype("U"))},
            "text",
        ),
        ("text of any length", {"kind": text, "values": words}, "text"),
        (
            "text of any length, filtered",
            {"kind": text, "values": words, "chunks": (2, 3), "filters": ["deflate"]},
            "text",
        ),
        ("lists of any length", {"kind": lists, "values": ragged}, "lists of any length"),
        ("compound", {"kind": pair}, "compound"),
        ("compound with text and lists", {"kind": mixed, "parts": ()}, "compound"),
        ("array", {"kind": h5t.array_create(h5t.STD_I16LE, (2, 3)), "parts": ()}, "arrays"),
        ("bit field", {"kind": h5t.STD_B16BE}, "bit fields"),
        ("opaque", {"kind": "V5"}, "opaque"),
        ("time as h5py stores it", {"kind": h5py.opaque_dtype(np.dtype("M8[s]"))}, "opaque"),
    )
    for name, options, reason in table:
        yield Row(
            "Other elements",
            name,
            partial(make, **block, **options),
            "h5py",
            f"its elements are {reason}",
        )
    yield Row("Other elements", "array with values", _arrays, "h5py", "its elements are arrays")
    references = partial(make, **block, kind=h5py.ref_dtype, parts=())
    yield Row("Other elements", "references", references, "refused", "references to other objects")
    no_type = partial(make, **block, kind=h5t.UNIX_D32LE, parts=())
    yield Row("Other elements", "the time type of HDF5", no_type, "refused", "h5py does not read")


def shapes() -> Iterator[Row]:
    yield Row("Shapes", "a single value", partial(make, shape=()), "h5py", "it is a single value")
    yield Row("Shapes", "a single text", _single_text, "h5py", "it is a single value")
    yield Row("Shapes", "no elements, contiguous", partial(make, shape=(0, 5)))
    yield Row(
        "Shapes",
        "no elements yet, chunked",
        partial(make, shape=(0, 5), chunks=(2, 3), maxshape=(None, None)),
    )
    yield Row("Shapes", "null dataspace", _null, "refused", "has no elements")
    for ndim in range(1, 33):
        shape = (2, 1, 1, 3)[:ndim] + (1,) * (ndim - 5) + (5,) * (ndim > 4)
        chunks = tuple(-(-n // 2) for n in shape)
        packed: dict[str, Any] = {"chunks": chunks, "filters": ["deflate"], "libver": "latest"}
        yield Row(
            "Shapes", f"{ndim} dimensions", partial(make, shape=shape), shown="1 to 32 dimensions"
        )
        chunked = partial(make, shape=shape, **packed)
        yield Row(
            "Shapes", f"{ndim} dimensions, chunked", chunked, shown="1 to 32 dimensions, chunked"
        )


def blocks() -> Iterator[Row]:
    """A user block before the file's own bytes, with every version of the superblock and every
    index.
    """
    for libver in ("earliest", "v108", "latest"):
        options: dict[str, Any] = {"libver": libver, "user_block": 2048}
        yield Row("User block", f"contiguous ({libver})", partial(make, **options))
        yield Row("User block", f"chunked ({libver})", partial(make, chunks=(5, 4), **options))
        yield Row(
            "User block", f"single chunk ({libver})", partial(make, chunks=(12, 10), **options)
        )
        grows: dict[str, Any] = {"chunks": (5, 4), "filters": ["deflate"], **options}
        yield Row("User block", f"growing ({libver})", partial(make, maxshape=(None, 10), **grows))
        yield Row(
            "User block", f"growing twice ({libver})", partial(make, maxshape=(None, None), **grows)
        )
    yield Row("User block", "put before a finished file", _prefixed)


def _paged_file(path: Path) -> None:
    with h5py.File(
        path, "w", libver="latest", fs_strategy="page", fs_page_size=4096, fs_persist=True
    ) as file:
        create(file, (12, 10), "<i4", alloc_time=h5d.ALLOC_TIME_EARLY)[...] = np.arange(
            120
        ).reshape(12, 10)


def _external(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset(
            NAME, (12, 10), "<i4", external=[(str(path.with_suffix(".raw")), 0, 480)]
        )
        file[NAME][...] = np.arange(120).reshape(12, 10)


def _virtual(path: Path) -> None:
    part = path.with_name("part.h5")
    make(part, (6, 10))
    layout = h5py.VirtualLayout((12, 10), "<i4")
    layout[:6] = layout[6:] = h5py.VirtualSource(part, NAME, (6, 10))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset(NAME, layout, fillvalue=1)


def _virtual_without_part(path: Path) -> None:
    """HDF5 would give the fill value for what is missing."""
    _virtual(path)
    path.with_name("part.h5").unlink()


def _linked(path: Path) -> None:
    other = path.with_name("other.h5")
    make(other, chunks=(5, 4), filters=["deflate"])
    with h5py.File(path, "w") as file:
        file["more"] = np.arange(3)
        file[NAME] = h5py.ExternalLink(other.name, NAME)


def _complex(name: str, path: Path) -> None:
    if not hasattr(h5t, name):
        pytest.skip("this version of h5py has no complex type; install h5py 3.16 with HDF5 2.0")
    make(path, kind=getattr(h5t, name), libver="latest")


def _pair(offsets: tuple[int, int], size: int, path: Path) -> None:
    kind = h5t.create(h5t.COMPOUND, size)
    for name, offset in zip((b"r", b"i"), offsets, strict=True):
        kind.insert(name, offset, h5t.IEEE_F32LE)
    make(path, kind=kind, values=np.arange(120).reshape(12, 10) * (1 - 2j))


def _arrays(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset(NAME, (6, 5), np.dtype((">i2", (2, 3))))
        file[NAME][...] = np.arange(180, dtype=">i2").reshape(6, 5, 2, 3)


def _packed_twice(path: Path) -> None:
    """Noise, of which lz4 makes half as much again."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((2000,))
    creation.set_filter(32004, h5z.FLAG_OPTIONAL, (8,))
    creation.set_deflate(1)
    values = np.random.default_rng(3).integers(0, 256, 5000).astype("u1")
    with h5py.File(path, "w") as file:
        h5d.create(file.id, NAME.encode(), h5t.NATIVE_UINT8, h5s.create_simple((5000,)), creation)
        file[NAME][...] = values


def _snappy(path: Path) -> None:
    with h5py.File(path, "w") as file:
        values = np.arange(3000, dtype="<i4").reshape(60, 50) // 9
        file.create_dataset(NAME, data=values, chunks=(16, 20), **hdf5plugin.Blosc("snappy"))


def _single_text(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file[NAME] = "text"


def _null(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file[NAME] = h5py.Empty("<f4")


def _prefixed(path: Path) -> None:
    make(path, chunks=(5, 4))
    path.write_bytes(bytes(range(256)) * 4 + path.read_bytes())


HDF5 = Matrix("HDF5", rows, ".h5", NAME, by_h5py)
