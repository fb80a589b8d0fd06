"""What h5py cannot read beside a dataset does not keep the dataset from being read, and is
named.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5a, h5s, h5t

import hyperslab
from hyperslab import formats
from tests.connectors.opened import ours

VALUES = np.arange(4.0)


def _with_unreadable_attributes(path: Path) -> None:
    """Opaque elements with a tag, which h5py has no conversion for."""
    kind = h5t.create(h5t.OPAQUE, 1)
    kind.set_tag(b"1-byte opaque type")
    with h5py.File(path, "w") as file:
        file["data"] = VALUES
        for item in (file, file["data"]):
            item.attrs["name"] = "kept"
            attribute = h5a.create(item.id, b"opaque", kind, h5s.create_simple((2,)))
            attribute.write(np.array([b"a", b"b"], "V1"), kind)
        with pytest.raises(OSError, match="no appropriate function"):
            file["data"].attrs["opaque"]


def test_an_attribute_that_h5py_does_not_convert_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "opaque.h5"
    _with_unreadable_attributes(path)
    view = hyperslab.open(f"{path}::data")
    np.testing.assert_array_equal(view[:], VALUES)
    assert view.source.header.attributes["name"] == "kept"
    assert (
        view.source.header.attributes["opaque"] == "left out: of a type that h5py does not convert"
    )


def test_the_engine_of_xarray_names_the_attributes_that_it_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "opaque.h5"
    _with_unreadable_attributes(path)
    with pytest.warns(UserWarning, match="the attribute opaque") as warned:
        found = ours(path)
    assert [str(one.message).partition(" is left out")[0] for one in warned] == [
        "the attribute opaque",
        "the attribute opaque of data",
    ]
    assert found.attrs == found["data"].attrs == {"name": "kept"}
    np.testing.assert_array_equal(found["data"], VALUES)
    found.close()


def test_a_fill_value_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "opaque.h5"
    _with_unreadable_attributes(path)
    with h5py.File(path, "a") as file:
        h5a.rename(file["data"].id, b"opaque", b"_FillValue")
    source = formats.open_source(f"{path}::data")
    assert "_FillValue is not" in source.unscalable


def test_references_among_attributes_are_not_read(tmp_path: Path) -> None:
    """libhdf5 2.0.0 ends the process that reads a list of references to regions for the second
    time.
    """
    path = tmp_path / "references.h5"
    with h5py.File(path, "w") as file:
        file["data"] = VALUES
        file["data"].attrs["object"] = file.ref
        lists = np.empty(1, object)
        lists[0] = np.array([file["data"].regionref[:2]], h5py.regionref_dtype)
        file["data"].attrs.create("regions", lists, dtype=h5py.vlen_dtype(h5py.regionref_dtype))
    script = f"""
import hyperslab
for _ in range(3):
    view = hyperslab.open({f"{path}::data"!r})
    assert view[:].tolist() == [0, 1, 2, 3]
    said = view.source.header.attributes
    assert {{said["object"], said["regions"]}} == {{"references to other objects of the file"}}
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=200)


def test_a_user_defined_link_beside_a_dataset_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["data"], file["strange"] = VALUES, h5py.ExternalLink("nowhere.h5", "/data")
    raw = bytearray(path.read_bytes())
    kind = raw.rindex(bytes([h5py.h5l.TYPE_EXTERNAL]), 0, raw.index(b"strange"))
    raw[kind] = h5py.h5l.TYPE_EXTERNAL + 1
    path.write_bytes(raw)
    with h5py.File(path) as file, pytest.raises(TypeError, match="Unknown link type"):
        file.get("strange", getlink=True)
    np.testing.assert_array_equal(hyperslab.open(f"{path}::data")[:], VALUES)
    with pytest.warns(UserWarning, match="strange is left out"), ours(path) as found:
        np.testing.assert_array_equal(found["data"], VALUES)


def test_scales_that_are_named_by_references_of_a_later_kind_are_read(tmp_path: Path) -> None:
    """HDF5 1.12 has references that h5py does not know; scales may have them in the attribute of
    their users.
    """
    path, reference = tmp_path / "later.h5", h5t.decode(b"\x03\x00G\x12\x00\x00@\x00\x00\x00")
    user = h5t.create(h5t.COMPOUND, reference.get_size() + 4)
    user.insert(b"dataset", 0, reference)
    user.insert(b"dimension", reference.get_size(), h5t.NATIVE_INT32)
    with h5py.File(path, "w", libver="latest") as file:
        scale = file.create_dataset("x", data=VALUES, maxshape=(None,))
        scale.make_scale("x")
        h5a.create(scale.id, b"REFERENCE_LIST", user, h5s.create_simple((1,)))
        with pytest.raises(TypeError, match="reference"):
            scale.attrs["REFERENCE_LIST"]
    np.testing.assert_array_equal(hyperslab.open(f"{path}::x")[:], VALUES)
    with ours(path) as found:
        np.testing.assert_array_equal(found["x"], VALUES)
