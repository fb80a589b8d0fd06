"""The feature matrix of netCDF: netCDF-4 and classic files of every kind. docs/formats.md shows
it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.formats.hdf5_rows import by_h5py
from tests.formats.matrix import Matrix, Row
from tests.formats.netcdf_made import (
    RECORDS,
    SMALL_TYPES,
    TYPES,
    Variable,
    add,
    make,
    typical,
    write,
)
from tests.formats.packing_rows import combined, special
from tests.formats.reference import netcdf_dims, netcdf_whole

FILLED = "default fill values are NaN"


def rows() -> list[Row]:
    """Every row; those of a group follow one another."""
    netcdf4 = [*dimensions(), *storage(), *elements(), *groups()]
    return [
        *combined(),
        *special(),
        *netcdf4,
        *classic_types(),
        *classic_records(),
        *classic_files(),
    ]


def one(kind: str = "netCDF-4", **options: Any) -> Callable[[Path], None]:
    """A file with one variable 'v'."""
    return partial(make, [Variable(**options)], kind=kind)


def dimensions() -> Iterator[Row]:
    group, floats = "netCDF-4: dimensions and variables", {"dtype": "f4"}
    coordinate = Variable("x", "f8", ("x",))
    yield Row(group, "a variable over dimensions", one())
    yield Row(group, "coordinate variable", partial(make, [coordinate]), real=FILLED, arrays=("x",))
    with_one = partial(make, [Variable("v", "f4"), coordinate, Variable("y", "i4", ("y",))])
    yield Row(group, "variable with coordinates", with_one, real=FILLED, arrays=("v", "x"))
    other = partial(make, [Variable("x", "f4", ("t",)), Variable("v", "f4", ("t", "x"))])
    yield Row(
        group,
        "variable named as a dimension that it does not have",
        other,
        real=FILLED,
        arrays=("x", "v"),
    )
    flat = partial(make, [Variable("y", "f4", ("y", "x")), Variable("v", "f4")])
    yield Row(group, "coordinate variable of two dimensions", flat, real=FILLED, arrays=("y", "v"))
    late = partial(make, [Variable("v", "f4"), Variable("y", "f4", ("y", "x"))])
    yield Row(
        group,
        "coordinate variable of two dimensions, made last",
        late,
        real=FILLED,
        arrays=("y", "v"),
    )
    yield Row(group, "one dimension twice", one(dims=("x", "x")))
    yield Row(group, "unlimited dimension", one(dims=("t", "y", "x"), **floats), real=FILLED)
    for dims in (("t", "u"), ("t", "u", "x")):
        several = partial(make, [Variable("v", "f4", dims)], sizes={"t": None, "u": None, "x": 7})
        yield Row(group, f"several unlimited dimensions of {len(dims)}", several, real=FILLED)
    both = partial(make, [Variable("v", "f4", ("x", "t"))])
    yield Row(group, "unlimited dimension that is not the first", both, real=FILLED)
    yield Row(
        group,
        "unlimited dimension without records",
        one(dims=("t", "x"), records=0, **floats),
        real=FILLED,
    )
    shorter = [Variable("v", "f4", ("t", "x"), records=2), Variable("w", "i2", ("t",), records=5)]
    own = "its own records only (netCDF4-python adds fill values); " + FILLED
    yield Row(
        group,
        "fewer records than others have",
        partial(make, shorter),
        real=own,
        expected=partial(first, 2),
    )
    yield Row(group, "a single value", one(dims=()), "h5py", "it is a single value")
    model = one("netCDF-4 classic", dims=("t", "x"), options={"zlib": True})
    yield Row(group, "netCDF-4 classic model", model)
    nine = {f"d{axis}": 2 + axis % 2 for axis in range(9)}
    yield Row(
        group,
        "nine dimensions",
        partial(make, [Variable("v", "f4", tuple(nine))], sizes=nine),
        real=FILLED,
    )


def by_netcdf4(url: str, values: Values) -> Array:
    """All of a variable; texts of any length are the bytes in the file."""
    found = netcdf_whole(url, values)
    if found.dtype.hasobject and isinstance(found.flat[0], str):
        return np.array([text.encode() for text in found.flat], object).reshape(found.shape)
    return found


def first(count: int, url: str, values: Values) -> Array:
    return netcdf_whole(url, values)[:count]


def storage() -> Iterator[Row]:
    group, opaque = "netCDF-4: storage", "is not decoded here"
    chunks: dict[str, Any] = {"chunksizes": (4, 5, 7)}
    block: dict[str, Any] = {"dtype": "f4", "dims": ("n", "y", "x")}
    for name, options in {
        "contiguous": {"contiguous": True},
        "chunked": chunks,
        "deflate": {"compression": "zlib", "shuffle": False, **chunks},
        "shuffle and deflate": {"compression": "zlib", **chunks},
        "shuffle, deflate and fletcher32": {"compression": "zlib", "fletcher32": True, **chunks},
        "fletcher32": {"fletcher32": True, **chunks},
        "zstd": {"compression": "zstd", "complevel": 5, **chunks},
        "big-endian": {"endian": "big", **chunks},
        "big-endian, shuffle and deflate": {"endian": "big", "compression": "zlib", **chunks},
        "one chunk": {"compression": "zlib", "chunksizes": (6, 5, 7)},
    }.items():
        yield Row(group, name, one(**block, options=options), real=FILLED)
        yield Row(
            group, f"{name}, never written", one(**block, values=(), options=options), real=FILLED
        )
    yield Row(
        group, "bzip2", one(**block, options={"compression": "bzip2"}), "h5py", opaque, real=FILLED
    )
    for codec in ("blosc_lz", "blosc_lz4", "blosc_lz4hc", "blosc_zlib", "blosc_zstd"):
        large: dict[str, Any] = {
            "dims": ("t", "x"),
            "records": 400,
            "options": {"compression": codec, "chunksizes": (300, 7)},
        }
        yield Row(group, codec, one(dtype="f4", **large), real=FILLED)
    for coding in ("nn", "ec"):
        packed: dict[str, Any] = {
            "compression": "szip",
            "szip_coding": coding,
            "szip_pixels_per_block": 4,
            **chunks,
        }
        yield Row(
            group,
            f"szip ({coding})",
            one(dtype="i2", dims=block["dims"], options=packed),
            "h5py",
            opaque,
        )
    for mode in ("BitGroom", "BitRound", "GranularBitRound"):
        rounded = {"compression": "zlib", "significant_digits": 3, "quantize_mode": mode, **chunks}
        yield Row(
            group, f"quantize ({mode}) and deflate", one(**block, options=rounded), real=FILLED
        )
    yield Row(group, "compact", _compact, "h5py", "its values lie in the metadata")
    yield Row(group, "partly written", _partly, real=FILLED)
    yield Row(group, "fill mode off", partial(make, [Variable("v", "f4")], fill=False), real=FILLED)
    unwritten = partial(make, [Variable("v", values=(), options=chunks, **block)], fill=False)
    undefined = "undefined (here zeros, in netCDF4-python what was in memory)"
    off = "fill mode off, never written"
    yield Row(
        group,
        off,
        unwritten,
        "h5py",
        "its fill value is not used",
        real=undefined,
        expected=by_h5py,
    )
    yield Row(group, "cut short", _cut_short, "refused", "truncated file")


def elements() -> Iterator[Row]:
    group = "netCDF-4: elements"
    for dtype in TYPES:
        yield Row(
            group, np.dtype(dtype).name, one(dtype=dtype), real=FILLED if dtype[0] == "f" else ""
        )
        grown = one(dtype=dtype, dims=("t", "x"), options={"endian": "big", "zlib": True})
        name = f"{np.dtype(dtype).name}, big-endian, in records"
        yield Row(group, name, grown, real=FILLED if dtype[0] == "f" else "")
    yield Row(group, "characters", one(dtype="S1"), "h5py", "its elements are text")
    words = np.resize(np.array(["", "wört", "two words"], object), (5, 7))
    yield Row(group, "strings", one(dtype=str, values=words), "h5py", "its elements are text")
    yield Row(group, "compound", _compound, "h5py", "its elements are compound")
    yield Row(group, "lists of any length", _lists, "h5py", "its elements are lists of any length")
    for base in ("i1", "u2", "i8"):
        yield Row(group, f"enumeration of {np.dtype(base).name}", partial(_enum, base))
    packed = partial(_enum, "i2", said={"scale_factor": 0.5})
    yield Row(
        group,
        "enumeration with a scale_factor",
        packed,
        unscalable="its elements are names of an enumeration",
    )


def groups() -> Iterator[Row]:
    group = "netCDF-4: groups"
    names = ("v", "a/v", "a/b/v")
    yield Row(group, "variables of one name in groups", _nested, real=FILLED, arrays=names)
    yield Row(group, "dimension of an outer group", _nested, arrays=("a/outer",))
    yield Row(group, "dimension that hides an outer one", _nested, arrays=("a/b/hidden",))


def classic_types() -> Iterator[Row]:
    group = "netCDF classic: types"
    for kind, types in (("CDF-1", SMALL_TYPES), ("CDF-2", SMALL_TYPES), ("CDF-5", TYPES)):
        for dtype in (*types, "S1"):
            said: dict[str, Any] = {"real": FILLED if dtype[0] == "f" else ""}
            name = "characters" if dtype == "S1" else np.dtype(dtype).name
            shown = (
                f"{name} ({'CDF-1, CDF-2, CDF-5' if dtype in (*SMALL_TYPES, 'S1') else 'CDF-5'})"
            )
            yield Row(group, f"{name}, {kind}", one(kind, dtype=dtype), **said, shown=shown)
            grown = partial(
                make, [Variable("v", dtype, ("t", "x")), Variable("w", "i1", ("t",))], kind=kind
            )
            yield Row(
                group, f"{name}, {kind}, in records", grown, **said, shown=f"{shown}, in records"
            )


def classic_records() -> Iterator[Row]:
    group = "netCDF classic: records"
    odd = [
        Variable("a", "i1", ("t", "y")),
        Variable("b", "i2", ("t", "x")),
        Variable("c", "f8", ("t",)),
    ]
    odd += [Variable("d", "i1", ("t",)), Variable("e", "i4"), Variable("f", "S1", ("t", "z"))]
    lone = "one variable of an odd size alone: no padding"
    for kind in ("CDF-1", "CDF-2", "CDF-5"):
        shared: dict[str, Any] = {"real": FILLED, "arrays": tuple("abcdef")}
        name = "interleaved variables of odd sizes"
        for records in (RECORDS, 1):
            made = partial(make, [_with_records(variable, records) for variable in odd], kind=kind)
            yield Row(group, f"{name}, {kind}, {records}", made, shown=name, **shared)
        for dtype in ("i1", "i2", "S1"):
            alone = one(kind, dtype=dtype, dims=("t", "y"))
            yield Row(group, f"{lone}, {kind}, {dtype}", alone, shown=lone)
        single = partial(make, [Variable("v", "i1", ("t", "y")), Variable("w", "i4")], kind=kind)
        yield Row(
            group,
            f"alone beside fixed ones, {kind}",
            single,
            shown="alone beside fixed ones",
            arrays=("v", "w"),
        )
        none = partial(make, [_with_records(variable, 0) for variable in odd], kind=kind)
        yield Row(group, f"no records, {kind}", none, shown="no records", **shared)
        for values in ((), None):
            written = "never written" if values == () else "written later"
            made = partial(make, [Variable("v", "f4", ("t", "x"), values=values), *odd], kind=kind)
            yield Row(group, f"{written}, {kind}", made, shown=written, real=FILLED)
        many = partial(make, [Variable("v", "i1", ("t", "z"), records=70_000), odd[3]], kind=kind)
        yield Row(
            group,
            f"70,000 records, {kind}",
            many,
            "spans",
            "70000 short records",
            shown="70,000 records",
        )
        streamed = partial(_streamed, kind)
        uncounted = "records whose number was never written"
        yield Row(
            group,
            f"{uncounted}, {kind}",
            streamed,
            shown=uncounted,
            real=FILLED,
            arrays=tuple("abcd"),
            expected=known,
        )


def known(url: str, values: Values) -> Array:
    """Of a file whose number of records was taken away: netCDF-C does not count them."""
    path, name = formats.split_url(url)
    return netcdf_whole(f"{path}.known::{name}", values)


def classic_files() -> Iterator[Row]:
    group = "netCDF classic: other"
    names = [
        Variable("größe", "f4", ("x",)),
        Variable("x", "i4", ("x",), said={"units": "µm", "n": np.arange(3)}),
    ]
    for kind in ("CDF-1", "CDF-2", "CDF-5"):
        scalar = partial(make, [Variable("v", "f4", ())], kind=kind)
        yield Row(
            group,
            f"a single value, {kind}",
            scalar,
            "spans",
            "single value",
            shown="a single value",
            real=FILLED,
        )
        unicode = partial(make, names, kind=kind)
        shown = "names in Unicode"
        yield Row(
            group, f"{shown}, {kind}", unicode, real=FILLED, arrays=("größe", "x"), shown=shown
        )
        off = partial(make, [Variable("v", "f4")], kind=kind, fill=False)
        yield Row(group, f"fill mode off, {kind}", off, shown="fill mode off", real=FILLED)
        for nbytes, place in ((2, "its values"), (150, "its header")):
            shown = f"cut short within {place}"
            cut, why = (
                partial(_cut, kind, nbytes),
                "truncated: 2 bytes missing" if nbytes == 2 else "bytes are to follow",
            )
            yield Row(group, f"{shown}, {kind}", cut, "refused", why, shown=shown)
    for kind in ("CDF-2", "CDF-5"):
        shown = "values beyond 4 GiB (CDF-2, CDF-5)"
        yield Row(group, f"{shown}, {kind}", partial(_far, kind), shown=shown, arrays=("v",))


def _with_records(variable: Variable, records: int) -> Variable:
    return Variable(variable.name, variable.dtype, variable.dims, records=records)


def _compact(path: Path) -> None:
    """netCDF4-python does not make compact variables; the netCDF library reads those of h5py."""
    import h5py

    with h5py.File(path, "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((5, 7)), creation)
        for name, size in (("y", 5), ("x", 7)):
            file[name] = np.arange(size, dtype="i4")
            file[name].make_scale(name)
        for axis, name in enumerate(("y", "x")):
            file["v"].dims[axis].attach_scale(file[name])
        file["v"][...] = typical("i2", (5, 7))


def _partly(path: Path) -> None:
    make(
        [Variable("v", "f4", ("t", "x"), values=(), options={"chunksizes": (2, 7), "zlib": True})],
        path,
    )
    with netCDF4.Dataset(path, "a") as file:
        file["v"][5, 2:4] = [1, 2]


def _cut_short(path: Path) -> None:
    one(values=np.arange(35).reshape(5, 7), options={"contiguous": True})(path)
    path.write_bytes(path.read_bytes()[:-20])


def _compound(path: Path) -> None:
    kind = np.dtype([("a", "i2"), ("b", "f8"), ("c", "u1", (3,))])
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 7)
        stored = file.createVariable("v", file.createCompoundType(kind, "pair"), ("x",))
        stored[:] = np.frombuffer(np.arange(7 * kind.itemsize, dtype="u1").tobytes(), kind)


def _lists(path: Path) -> None:
    values = np.empty(7, object)
    values[:] = [np.arange(n % 3, dtype="i4") for n in range(7)]
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 7)
        file.createVariable("v", file.createVLType(np.int32, "list"), ("x",))[:] = values


def _enum(base: str, path: Path, said: dict[str, Any] | None = None) -> None:
    values = np.resize(np.array([0, 3, 7, 3], base), (5, 7))
    with warnings.catch_warnings(), netCDF4.Dataset(path, "w") as file:
        warnings.simplefilter("ignore")
        file.createDimension("y", 5)
        file.createDimension("x", 7)
        kind = file.createEnumType(np.dtype(base), "colour", {"none": 0, "red": 3, "blue": 7})
        variable = Variable("v", kind, values=values, said=said or {})
        write(variable, add(file, variable))


def _nested(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as file:
        outer, inner = file.createGroup("a"), file.createGroup("a/b")
        for group, size in ((file, 7), (inner, 4)):
            group.createDimension("x", size)
        file.createDimension("y", 5)
        plain = [Variable("v", "f4"), Variable("v", "f4", ("x",)), Variable("v", "f4")]
        hidden = [Variable("outer"), Variable("hidden", dims=("x",))]
        for group, variable in zip(
            (file, outer, inner, outer, inner), (*plain, *hidden), strict=True
        ):
            write(variable, add(group, variable))


def _streamed(kind: str, path: Path) -> None:
    """As written to a pipe: all bits of the number of records are set."""
    dims = {"a": ("t", "x"), "b": ("t",), "c": ("t", "x"), "d": ("x",)}
    types = {"a": "i2", "b": "i1", "c": "f8", "d": "i4"}
    make([Variable(name, types[name], dims[name]) for name in dims], path, kind=kind)
    raw, width = path.read_bytes(), 8 if kind == "CDF-5" else 4
    path.with_name(f"{path.name}.known").write_bytes(raw)
    path.write_bytes(raw[:4] + b"\xff" * width + raw[4 + width :])


def _cut(kind: str, nbytes: int, path: Path) -> None:
    """A file without its last bytes, of which padding takes two."""
    make([Variable("v", "i2")], path, kind=kind)
    path.write_bytes(path.read_bytes()[: -nbytes - 2])


def _far(kind: str, path: Path) -> None:
    """The place of the values is the last number of the header; before them is a hole, which takes
    no space.
    """
    make([Variable("v", "i2")], path, kind=kind)
    raw, nbytes, far = path.read_bytes(), 5 * 7 * 2, 5 * 2**30
    begin = len(raw) - nbytes - 2
    with path.open("wb") as file:
        file.write(raw[: begin - 8] + far.to_bytes(8, "big"))
        file.seek(far)
        file.write(raw[begin:])


NETCDF = Matrix("netCDF", rows, ".nc", "v", by_netcdf4, netcdf_dims)
