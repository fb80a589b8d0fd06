"""Datatypes of HDF5: NumPy's numbers in both byte orders, and those that only h5py reads."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5t

from hyperslab.arrays import Array
from tests.comparison import draws

NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?")


class Kind(NamedTuple):
    """A datatype, the dtype that h5py reads it as, and whether values survive it."""

    name: str
    file_type: Any
    "What `hdf5_made.file_type` takes."
    dtype: np.dtype[Any]
    keeps: bool = True
    is_number: bool = True


def number(rng: Random, names: tuple[str, ...] = NUMBERS) -> Kind:
    """One of NumPy's numbers, big-endian as often as not."""
    dtype = np.dtype(rng.choice("<>") + rng.choice(names))
    return Kind(dtype.str, dtype, dtype)


def any_kind(rng: Random) -> Kind:
    """Mostly numbers."""
    if draws.chance(rng, 0.84):
        return number(rng)
    return rng.choice(
        (_enum, _compound, _array, _text, _opaque, _few_bits, _brain_float, _longdouble, _nested)
    )(rng)


def _enum(rng: Random) -> Kind:
    base = number(rng, ("i1", "u1", "i2", "u2", "i4", "i8")).dtype
    dtype = h5py.enum_dtype({"none": 0, "one": 1, "five": 5}, base)
    return Kind(f"enumeration of {base.str}", dtype, dtype)


def _fields(rng: Random) -> np.dtype[Any]:
    count = rng.randint(1, 4)
    return np.dtype(
        [(f"f{place}", number(rng).dtype) for place in range(count)], align=draws.chance(rng, 0.3)
    )


def _compound(rng: Random) -> Kind:
    dtype = _fields(rng)
    return Kind(f"compound {dtype.descr}", dtype, dtype, is_number=False)


def _nested(rng: Random) -> Kind:
    dtype = np.dtype([("inner", _fields(rng)), ("axes", number(rng, ("i2", "f4")).dtype, (2, 3))])
    return Kind(f"compound {dtype.descr}", dtype, dtype, is_number=False)


def _array(rng: Random) -> Kind:
    base = number(rng, ("i1", "i2", "u4", "f4", "f8"))
    inner = rng.choice(((2,), (3, 2), (1,)))
    made = h5t.array_create(h5t.py_create(base.dtype), inner)
    return Kind(f"array {inner} of {base.name}", made, np.dtype((base.dtype, inner)))


def _text(rng: Random) -> Kind:
    length = rng.randint(1, 9)
    dtype = h5py.string_dtype(rng.choice(("ascii", "utf-8")), length)
    return Kind(f"text of {length}", dtype, np.dtype(f"S{length}"), is_number=False)


def _opaque(rng: Random) -> Kind:
    dtype = np.dtype(f"V{rng.randint(1, 9)}")
    return Kind("opaque", dtype, dtype, is_number=False)


def _few_bits(rng: Random) -> Kind:
    signed = draws.chance(rng, 0.5)
    nbytes = rng.choice((2, 4, 8))
    big = draws.chance(rng, 0.5)
    made = getattr(h5t, f"STD_{'I' if signed else 'U'}{8 * nbytes}{'BE' if big else 'LE'}").copy()
    made.set_precision(rng.randint(2, 8 * nbytes - 1))
    made.set_offset(0)
    return Kind(f"{made.get_precision()} of {8 * nbytes} bits", made, made.dtype, keeps=False)


def _brain_float(rng: Random) -> Kind:
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(15, 7, 8, 0, 7)
    made.set_size(2)
    made.set_ebias(127)
    return Kind("bfloat16", made, made.dtype, keeps=False)


def _longdouble(rng: Random) -> Kind:
    dtype = np.dtype("g")
    return Kind("float of extended precision", dtype, dtype, keeps=False)


def values(rng: Random, shape: tuple[int, ...], kind: Kind) -> Array:
    """Values to be written: of odd numbers small ones, of text letters, of all else any bits."""
    if kind.dtype.kind == "S":
        raw = draws.numbers(rng).integers(97, 103, (*shape, kind.dtype.itemsize), dtype="u1")
        return raw.view(kind.dtype)[..., 0]
    if kind.keeps:
        return plain_values(rng, shape, kind.dtype)
    return draws.numbers(rng).integers(0, 60, shape).astype(kind.dtype)


def plain_values(rng: Random, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Any bits, also of records and of arrays; truth values are 0 or 1."""
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        return plain_values(rng, (*shape, *inner), base)
    if not dtype.names:
        return draws.values(rng, shape, dtype)
    found = np.zeros(shape, dtype)
    for name in dtype.names:
        found[name] = plain_values(rng, shape, dtype[name])
    return found
