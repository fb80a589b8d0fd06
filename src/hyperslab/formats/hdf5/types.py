"""The datatypes of HDF5: which are NumPy's byte by byte, which h5py makes into NumPy's, and what
the others are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.arrays.header import Omitted
from hyperslab.errors import FormatError

_WIDEST = 8
_NOT_NUMPY = (TypeError, ValueError, KeyError, NotImplementedError)
"What h5py raises for a datatype that NumPy has not."
_NO_CONVERSION = "no appropriate function for conversion path"
"""How libhdf5 says that it cannot make a datatype of the file into the one in memory: opaque ones
with a tag.
"""


def element(dataset: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype that h5py reads, without its notes, and the shape of one element: () but for an
    array datatype.

    Text and lists of any length are dtype object. Raises FormatError for what NumPy has not, and
    for references.
    """
    where = f"{dataset.file.filename}::{dataset.name}"
    try:
        dtype, shape = _unfolded(dataset.dtype)
    except _NOT_NUMPY as error:
        raise FormatError(
            f"{where}: its elements are of a type that h5py does not read ({error})"
        ) from error
    if _holds_references(dtype):
        what = "references to other objects of the file, which mean nothing outside of it"
        raise FormatError(f"{where}: its elements are {what}; name those objects instead")
    if not dtype.fields:
        dtype = np.dtype(dtype.str)
    return dtype, shape


def description(dataset: Any) -> tuple[str, tuple[int, ...]]:
    """The dtype of a dataset for a table of contents, and the shape of one element."""
    from h5py import h5t

    words = {h5t.STRING: "text", h5t.VLEN: "lists", h5t.REFERENCE: "references"}
    try:
        dtype, shape = _unfolded(dataset.dtype)
    except _NOT_NUMPY:
        return "unknown", ()
    word = None
    if dtype.hasobject:
        word = words.get(dataset.id.get_type().get_class())
    return word or str(dtype), shape


def attribute(item: Any, name: str | bytes) -> Any:
    """An attribute of an h5py object, or in words what it is, of what h5py does not convert and of
    references.

    References are not looked at: libhdf5 2.0.0 does not survive that lists of references to regions
    are read twice. Raises what h5py does for an attribute that is damaged.
    """
    from h5py import h5a

    if isinstance(name, str):
        name = name.encode("utf-8", "surrogateescape")
    attribute_id = h5a.open(item.id, name)
    if refers(attribute_id.get_type()):
        return Omitted("references to other objects of the file")
    if not is_numpy(attribute_id):
        return Omitted("left out: of a type that h5py does not read")
    try:
        return item.attrs[name]
    except OSError as error:
        if _NO_CONVERSION not in str(error):
            raise
        return Omitted("left out: of a type that h5py does not convert")


def is_numpy(attribute_id: Any) -> bool:
    """Whether h5py has a dtype for an attribute, of which this is its identifier."""
    try:
        return attribute_id.dtype is not None
    except _NOT_NUMPY:
        return False


def refers(kind: Any) -> bool:
    """Whether an h5py datatype is one of references, or holds some."""
    from h5py import h5t

    while kind.get_class() in (h5t.ARRAY, h5t.VLEN):
        kind = kind.get_super()
    if kind.get_class() == h5t.COMPOUND:
        return any(refers(kind.get_member_type(number)) for number in range(kind.get_nmembers()))
    return bool(kind.get_class() == h5t.REFERENCE)


def is_number(dataset: Any) -> bool:
    """Whether h5py reads its elements as NumPy's numbers or truth values."""
    try:
        return bool(dataset.dtype.kind in "biufc")
    except _NOT_NUMPY:
        return False


def is_record(dataset: Any) -> bool:
    """Whether each of its elements is several numbers with names."""
    try:
        fields = [dataset.dtype[name] for name in dataset.dtype.names or ()]
    except _NOT_NUMPY:
        return False
    return bool(fields) and all(field.kind in "biufc" for field in fields)


def _unfolded(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """An array datatype as the dtype of its numbers and its shape."""
    shape: tuple[int, ...] = ()
    while (inner := dtype.subdtype) is not None:
        dtype = inner[0]
        shape = (*shape, *inner[1])
    return dtype, shape


def _holds_references(dtype: np.dtype[Any]) -> bool:
    """True also where a field, or what a list is made of, is a reference."""
    import h5py

    held = h5py.check_vlen_dtype(dtype)
    inner = [dtype[name] for name in dtype.names or ()]
    if isinstance(held, np.dtype):
        inner = [held]
    if dtype.subdtype is not None:
        inner.append(dtype.subdtype[0])
    return h5py.check_ref_dtype(dtype) is not None or any(map(_holds_references, inner))


def odd_type(kind: Any) -> str:
    """What keeps the stored elements of an h5py datatype from being NumPy's, in words; '' if
    nothing does.
    """
    from h5py import h5t

    checks = {
        h5t.INTEGER: _odd_integer,
        h5t.FLOAT: _odd_float,
        h5t.ENUM: _odd_enum,
        h5t.COMPOUND: _odd_compound,
        getattr(h5t, "COMPLEX", None): _odd_complex,
    }
    words = {
        h5t.STRING: "its elements are text",
        h5t.BITFIELD: "its elements are bit fields",
        h5t.OPAQUE: "its elements are opaque",
        h5t.REFERENCE: "its elements are references",
        h5t.VLEN: "its elements are lists of any length",
        h5t.ARRAY: "its elements are arrays",
        h5t.TIME: "its elements are times",
    }
    check = checks.get(kind.get_class())
    if check:
        return check(kind)
    return words.get(kind.get_class(), "its elements are of an unknown type")


def _odd_integer(kind: Any) -> str:
    from h5py import h5t

    if kind.get_size() not in (1, 2, 4, 8):
        return f"its whole numbers take {kind.get_size()} bytes"
    if kind.get_precision() != 8 * kind.get_size() or kind.get_offset() != 0:
        return f"its whole numbers use {kind.get_precision()} of {8 * kind.get_size()} bits"
    if kind.get_order() in (h5t.ORDER_LE, h5t.ORDER_BE):
        return ""
    return "its byte order is neither little nor big"


def _odd_float(kind: Any) -> str:
    from h5py import h5t

    if kind.get_size() > _WIDEST:
        return f"its numbers are floats of {8 * kind.get_size()} bits"
    try:
        same = h5t.py_create(kind.dtype).equal(kind)
    except _NOT_NUMPY:
        same = False
    if same:
        return ""
    return "its numbers are floats of a layout that NumPy has not"


def _odd_enum(kind: Any) -> str:
    """A boolean is stored as h5py stores its own (an enumeration in one signed byte); others are
    their integers.
    """
    from h5py import h5t

    if kind.dtype == np.bool_:
        exact = h5t.py_create(np.dtype(np.bool_), logical=True).equal(kind)
        if exact:
            return ""
        return "its truth values are not stored as NumPy's"
    base = _odd_integer(kind.get_super())
    return base and f"it is an enumeration: {base}"


def _odd_compound(kind: Any) -> str:
    """A complex number is a compound of r and i, two floats one after the other."""
    from h5py import h5t

    if kind.dtype.kind != "c":
        return "its elements are compound"
    exact = kind.get_size() <= 2 * _WIDEST and h5t.py_create(kind.dtype).equal(kind)
    if exact:
        return ""
    return "its complex numbers are not stored as NumPy's"


def _odd_complex(kind: Any) -> str:
    """The complex type of HDF5 2.0: the real part first."""
    from h5py import h5t

    names = [f"COMPLEX_IEEE_F{bits}{order}" for bits in (32, 64) for order in ("LE", "BE")]
    exact = any(kind.equal(getattr(h5t, name)) for name in names)
    if exact:
        return ""
    return "its complex numbers are not stored as NumPy's"
