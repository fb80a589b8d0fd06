"""What links of an HDF5 file lead to is read by xarray's engine from where it is, not from what has
its name here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

import hyperslab
from hyperslab.connectors.xarray import HyperslabBackend
from tests.connectors.opened import ours

LINKS = ["external", "to_soft", "onwards", "soft", "hard", "soft_to_external"]


@pytest.fixture
def linking(tmp_path: Path) -> Path:
    """A file with links of all kinds into others, which have the same names for other values."""
    path = tmp_path / "here.h5"
    _write(tmp_path / "third.h5", 200)
    with _write(tmp_path / "there.h5", 100) as there:
        there["soft"] = h5py.SoftLink("/group/data")
        there["soft_to_external"] = np.arange(5) - 1
        there["away"] = h5py.ExternalLink("third.h5", "/group/data")
        there["group/back"] = h5py.ExternalLink("here.h5", "/")
    with _write(path, 0) as here:
        here["external"] = h5py.ExternalLink("there.h5", "/group/data")
        here["to_soft"] = h5py.ExternalLink("there.h5", "/soft")
        here["onwards"] = h5py.ExternalLink("there.h5", "/away")
        here["only_there"] = h5py.ExternalLink("there.h5", "/group/only_100")
        here["soft"] = h5py.SoftLink("/group/data")
        here["hard"] = here["group/data"]
        here["soft_to_external"] = h5py.SoftLink("/external")
        here["linked"] = h5py.ExternalLink("there.h5", "/group")
        here["soft_to_linked"] = h5py.SoftLink("/linked")
    return path


def _write(path: Path, first: int) -> Any:
    file = h5py.File(path, "w")
    file["x"] = np.arange(first, first + 5.0)
    file["x"].make_scale("x")
    file["group/data"] = np.arange(first, first + 5)
    file["group/data"].dims[0].attach_scale(file["x"])
    file[f"group/only_{first}"] = np.arange(first, first + 7)
    return file


def test_links_to_datasets_give_the_values_behind_them(linking: Path) -> None:
    with h5py.File(linking) as file, ours(linking) as found:
        assert set(found.data_vars) == {*LINKS, "only_there"}
        for name, variable in found.data_vars.items():
            np.testing.assert_array_equal(variable, file[str(name)][()])


@pytest.mark.parametrize(
    "name", [*LINKS, "linked/data", "soft_to_linked/data", "linked/back/group/data"]
)
def test_every_way_to_a_dataset_opens_it(linking: Path, name: str) -> None:
    with h5py.File(linking) as file:
        np.testing.assert_array_equal(hyperslab.open(f"{linking}::{name}")[:], file[name][()])


@pytest.mark.parametrize("group", ["linked", "soft_to_linked", "linked/back/linked"])
def test_linked_groups_give_the_values_behind_them(linking: Path, group: str) -> None:
    with h5py.File(linking) as file, ours(linking, group=group) as found:
        assert set(found.data_vars) == {"data", "only_100"}
        np.testing.assert_array_equal(found["data"], file[f"{group}/data"][()])


def test_trees_go_through_links_and_come_to_an_end(linking: Path) -> None:
    with xarray.open_datatree(linking, engine=HyperslabBackend) as tree:
        assert {group.path for group in tree.subtree} == {
            "/",
            "/group",
            "/linked",
            "/soft_to_linked",
        }
        np.testing.assert_array_equal(tree["/linked/data"], np.arange(100, 105))
        np.testing.assert_array_equal(tree["/group/data"], np.arange(5))


def test_a_scale_of_another_file_does_not_take_the_place_of_one_here(linking: Path) -> None:
    with ours(linking) as found:
        assert found["hard"].dims == found["soft"].dims == ("x",)
        assert found["external"].dims == found["to_soft"].dims == found["soft_to_external"].dims
        assert len({found[name].dims for name in ("hard", "external", "onwards")}) == 3
        assert "x" not in found["external"].coords


def test_a_linked_scale_is_known_by_the_name_of_its_link(linking: Path) -> None:
    with h5py.File(linking, "a") as file:
        file["place"] = h5py.ExternalLink("there.h5", "/x")
    with ours(linking) as found:
        assert found["external"].dims == found["place"].dims == ("place",)
        np.testing.assert_array_equal(found["external"].coords["place"], np.arange(100, 105.0))


def test_records_of_a_dimension_that_is_not_here_are_as_many_in_all_datasets(
    tmp_path: Path,
) -> None:
    with h5py.File(tmp_path / "there.h5", "w") as there:
        there.create_dataset("time", data=np.arange(5.0), maxshape=(None,)).make_scale("time")
        for name, records in (("long", 5), ("short", 3)):
            there.create_dataset(name, data=np.arange(records), maxshape=(None,), fillvalue=-9)
            there[name].dims[0].attach_scale(there["time"])
    with h5py.File(tmp_path / "here.h5", "w") as here:
        here["long"], here["short"] = (
            h5py.ExternalLink("there.h5", name) for name in ("long", "short")
        )
    with ours(tmp_path / "here.h5") as found:
        assert found["long"].dims == found["short"].dims == ("time",)
        assert found["short"].values.tolist() == [0, 1, 2, -9, -9]


def test_what_links_lead_nowhere_is_left_out_with_the_reason(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "here.h5", "w") as here:
        here["data"], here["gone"] = np.arange(3), h5py.ExternalLink("gone.h5", "/data")
    with pytest.warns(UserWarning, match="gone is left out"), ours(tmp_path / "here.h5") as found:
        assert found["data"].values.tolist() == [0, 1, 2]
