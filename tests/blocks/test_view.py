"""ArrayView behaves as NumPy's arrays do for every basic index."""

from __future__ import annotations

import multiprocessing
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

import hyperslab
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling
from hyperslab.blocks import view, writing
from hyperslab.errors import UsageError
from hyperslab.formats import nifti
from tests.formats.zarr_made import make, values

VALUES = np.arange(6 * 5 * 4, dtype="u2").reshape(6, 5, 4)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("view") / "image.nii"
    header = Header(base_affine=np.diag([2.0, 3.0, 4.0, 1.0]))
    writing.write(nifti.sink(str(path), VALUES.shape, VALUES.dtype, header, Scaling(2, 1)), VALUES)
    return path


@given(index=basic_indices(VALUES.shape))
def test_every_basic_index_selects_what_numpy_selects(image: Path, index: Any) -> None:
    np.testing.assert_array_equal(view.open(str(image))[index], (VALUES * 2.0 + 1)[index])
    np.testing.assert_array_equal(view.open(str(image), values="stored")[index], VALUES[index])
    np.testing.assert_array_equal(view.open(VALUES)[index], VALUES[index])


@given(index=basic_indices(VALUES.shape))
def test_every_basic_index_reads_into_an_array(image: Path, index: Any) -> None:
    expected = (VALUES * 2.0 + 1)[index]
    for room in (
        np.zeros(expected.shape),
        np.zeros((*expected.shape, 2))[..., 1],
        np.zeros(expected.shape, order="F"),
    ):
        assert view.open(str(image)).read(index, room) is room
        np.testing.assert_array_equal(room, expected)


def test_an_array_without_axes_reads_into_an_array_and_is_a_scalar() -> None:
    array, room = view.open(np.array(5, "u2")), np.zeros((), "u2")
    assert array.read((), room) is room
    assert room == 5
    assert isinstance(array[()], np.uint16)


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_array_without_axes_is_read(tmp_path: Path, version: int) -> None:
    found = view.open(make(tmp_path / "a.zarr", version=version, shape=(), chunks=()))
    assert np.asarray(found) == found[()] == values(())
    with pytest.raises(UsageError, match=r"a\.zarr is a single number, not an array"):
        hyperslab.convert(found, tmp_path / "b.h5")
    with pytest.raises(UsageError, match="numbers cannot be concatenated"):
        hyperslab.gather([found, found], "concatenated")


def test_a_list_reads_into_an_array(image: Path) -> None:
    array, room = view.open(str(image), values="stored"), np.zeros((3, 5), VALUES.dtype).T
    array.read((0, slice(None), [3, 1, 1]), room)
    np.testing.assert_array_equal(room, VALUES[0][:, [3, 1, 1]])
    for wrong in (room.T, room.astype("i4"), np.broadcast_to(room[:, :1], room.shape)):
        with pytest.raises(UsageError, match=r"writable array of shape \(5, 3\) and dtype uint16"):
            array.read((0, slice(None), [3, 1, 1]), wrong)


@given(data=st.data(), axis=st.integers(0, 2), back=st.booleans())
def test_a_list_selects_along_one_axis(
    image: Path, data: st.DataObject, axis: int, back: bool
) -> None:
    extent = VALUES.shape[axis]
    chosen: Any = data.draw(
        st.lists(st.integers(-extent, extent - 1), max_size=9)
        | st.lists(st.booleans(), min_size=extent, max_size=extent)
    )
    others = [
        data.draw(st.sampled_from([slice(None), slice(None, None, -2), slice(1, 3)]))
        for _ in range(2)
    ]
    index = [
        *others[:axis],
        chosen if data.draw(st.booleans()) else np.array(chosen, type((chosen or [1])[0])),
    ]
    index = [*index, *others[axis:]] if not back else [..., index[-1], *[slice(None)] * (2 - axis)]
    expected = VALUES[
        tuple(part if isinstance(part, slice) or part is ... else slice(None) for part in index)
    ]
    positions = (
        np.flatnonzero(chosen) if chosen and isinstance(chosen[0], bool) else np.array(chosen, int)
    )
    expected = expected.take(positions, axis)
    np.testing.assert_array_equal(view.open(str(image), values="stored")[tuple(index)], expected)
    np.testing.assert_array_equal(view.open(VALUES)[tuple(index)], expected)


def test_a_list_beside_an_integer_keeps_its_place(image: Path) -> None:
    array = view.open(str(image), values="stored")
    np.testing.assert_array_equal(array[0, :, [3, 1, 1]], VALUES[0][:, [3, 1, 1]])
    np.testing.assert_array_equal(array[[5, 0], 2], VALUES[[5, 0], 2])
    np.testing.assert_array_equal(array[range(2, 4)], VALUES[2:4])


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        (([0], [1]), "one axis at a time"),
        ([6], "axis 0: index 6 is out of range for 6"),
        ((0, [-6]), "axis 1: index -6 is out of range"),
        ([[0, 1]], "a list selects by integers"),
        ([0.5], "a list selects by integers"),
        ([True, False], "one truth value for each of 6 elements"),
        ((0, 0, 0, [0]), "too many indices"),
    ],
)
def test_wrong_lists_get_a_sentence(image: Path, index: Any, sentence: str) -> None:
    with pytest.raises(IndexError, match=sentence):
        view.open(str(image))[index]


def test_a_view_has_the_attributes_of_an_array(image: Path) -> None:
    array = view.open(str(image))
    assert (array.shape, array.dtype, array.ndim) == ((6, 5, 4), np.dtype("f8"), 3)
    assert (array.size, array.nbytes, len(array), array.dims) == (120, 960, 6, ("x", "y", "z"))
    assert array.affine is not None
    np.testing.assert_array_equal(array.affine, np.diag([2.0, 3.0, 4.0, 1.0]))
    np.testing.assert_array_equal(np.asarray(array), VALUES * 2.0 + 1)
    assert np.asarray(array, dtype="f4").dtype == np.dtype("f4")
    assert repr(array) == f"<ArrayView {image} (6, 5, 4) float64 real, 960 bytes>"


def test_a_region_is_read_into_an_array(image: Path) -> None:
    out = np.zeros((2, 2, 2))
    view.open(str(image)).read(Hyperslab((1, 1, 1), (2, 2, 2)), out)
    np.testing.assert_array_equal(out, VALUES[1:3, 1:3, 1:3] * 2.0 + 1)


def test_wrong_arguments_get_a_sentence(image: Path) -> None:
    with pytest.raises(UsageError, match="'real' or 'stored'"):
        view.open(str(image), values="raw")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="no such file"):
        view.open("/nowhere/image.nii")
    with pytest.raises(IndexError):
        view.open(str(image))[6]
    with pytest.raises(TypeError, match="no length"):
        len(view.open(np.array(1)))
    with pytest.raises(ValueError, match="without a copy"):
        np.array(view.open(str(image)), copy=False)


def _indexed(found: view.ArrayView) -> None:
    found._index()
    assert found.source.gzip is not None


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork"
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_indexes_a_file_while_a_thread_of_its_parent_does() -> None:
    held, done = threading.Event(), threading.Event()
    shared = view.open(Path(__file__).parents[1] / "data" / "mri" / "example4d.nii.gz")

    def hold() -> None:
        with shared._indexing:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=_indexed, args=(shared,))
    child.start()
    child.join(100)
    done.set()
    thread.join()
    if child.is_alive():
        child.kill()
    assert child.exitcode == 0
