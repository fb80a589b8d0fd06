"""A block's own file puts its voxels at the parent's millimetres, by nibabel's reading of sform and
of qform.

Bound: 0.001 mm, or 8 roundings of float32 (in which NIfTI stores affines) of the largest coordinate
if that is more.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import nibabel
import nibabel.eulerangles
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading, writing
from hyperslab.formats import nifti
from hyperslab.formats.nifti.header import build_head
from hyperslab.testing.formats import slabs
from tests.examples import examples
from tests.formats.files import DATA

nib: Any = nibabel
"Its functions carry no types."

SHAPE = (21, 17, 13)
CODES = [(0, 0), (1, 0), (0, 1), (2, 1), (4, 3)]


def parent_image(
    path: Path, affine: Array, sform_code: int, qform_code: int, shape: tuple[int, ...] = SHAPE
) -> Path:
    image: Any = nib.Nifti1Image(np.zeros(shape, "u1"), None)
    image.header.set_zooms((*nib.affines.voxel_sizes(affine), *(2.5,) * (len(shape) - 3)))
    image.header.set_sform(affine if sform_code else None, sform_code)
    image.header.set_qform(affine if qform_code else None, qform_code)
    image.to_filename(path)
    return path


def block_header(path: Path, slab: Hyperslab) -> Any:
    """The header of the file in which a block of the image would be written."""
    source = formats.open_source(str(path))
    head = build_head("block.nii", slab.count, np.dtype("u1"), source.header.for_slab(slab), None)
    return nib.Nifti1Header(head[:348])


def worlds(affine: Array, indices: Array) -> Array:
    return np.asarray(nib.affines.apply_affine(affine, indices))


def assert_same_place(block_affine: Array, parent_affine: Array, slab: Hyperslab) -> None:
    voxels = np.array(list(itertools.product(*((0, n // 2, n - 1) for n in slab.count[:3]))))
    expected = worlds(parent_affine, np.array(slab.start[:3]) + voxels * np.array(slab.stride[:3]))
    bound = max(1e-3, 8 * float(np.finfo(np.float32).eps) * float(np.abs(expected).max()))
    np.testing.assert_allclose(worlds(block_affine, voxels), expected, rtol=0, atol=bound)


@st.composite
def affines(draw: st.DrawFn) -> Array:
    """Rotated, anisotropic, perhaps mirrored, up to metres away: what a qform can say."""
    angles = [
        draw(st.sampled_from([0.0, np.pi / 2, np.pi]) | st.floats(-3.2, 3.2)) for _ in range(3)
    ]
    zooms = [
        draw(st.sampled_from([0.02, 0.8, 1.0, 2.75])) * draw(st.sampled_from([1, -1]))
        for _ in range(3)
    ]
    affine = np.eye(4)
    affine[:3, :3] = nib.eulerangles.euler2mat(*angles) @ np.diag(zooms)
    affine[:3, 3] = [draw(st.floats(-1500, 1500)) for _ in range(3)]
    return affine


@given(
    affine=affines(),
    codes=st.sampled_from(CODES),
    slab=slabs(SHAPE).filter(lambda slab: slab.size > 0),
)
@settings(max_examples=examples(300), deadline=None)
def test_blocks_lie_where_they_lay(
    tmp_path_factory: pytest.TempPathFactory, affine: Array, codes: tuple[int, int], slab: Hyperslab
) -> None:
    path = parent_image(tmp_path_factory.mktemp("geometry") / "parent.nii", affine, *codes)
    parent: Any = nib.load(path).header
    header = block_header(path, slab)
    assert_same_place(header.get_best_affine(), parent.get_best_affine(), slab)
    if parent["sform_code"]:
        assert int(header["sform_code"]) == codes[0]
        assert_same_place(header.get_sform(), parent.get_sform(), slab)
    if header["qform_code"]:
        assert int(header["qform_code"]) == codes[1]
        assert_same_place(header.get_qform(), parent.get_qform(), slab)
    if codes[1] and not header["qform_code"]:
        assert header["sform_code"], (
            "a quaternion that float32 cannot hold has to be said by the sform"
        )
    if codes == (0, 0):
        assert int(header["sform_code"]) == 2
    np.testing.assert_allclose(
        np.array(header.get_zooms()), np.array(parent.get_zooms()) * np.abs(slab.stride), rtol=1e-5
    )


@pytest.mark.parametrize("sizes", [(1.0, 1.0, 1.0), (2.0, 0.5, 3.0)])
@pytest.mark.parametrize("flips", list(itertools.product([1, -1], repeat=3)))
def test_qforms_survive_every_flip_of_a_straight_image(
    tmp_path: Path, sizes: tuple[float, ...], flips: tuple[int, ...]
) -> None:
    path = parent_image(tmp_path / "parent.nii", np.diag([*sizes, 1.0]), 0, 1)
    slab = Hyperslab(
        tuple(9 if s < 0 else 2 for s in flips), (4, 4, 4), tuple(2 * s for s in flips)
    )
    header = block_header(path, slab)
    assert int(header["qform_code"]) == 1
    assert_same_place(header.get_qform(), nib.load(path).header.get_qform(), slab)


@pytest.mark.parametrize(
    "name",
    ["anatomical.nii", "functional.nii", "example4d.nii.gz", "icbm152_sym09a_brain_T1w.nii.gz"],
)
def test_blocks_of_real_images_lie_where_they_lay(tmp_path: Path, name: str) -> None:
    path = DATA / "mri" / name
    source = formats.open_source(str(path))
    parent: Any = nib.load(path).header
    last = source.shape[1] - 1
    slab = Hyperslab((3, last, 1), (4, 5, 2), (2, -3, 1))
    slab = Hyperslab(
        slab.start + (0,) * (source.ndim - 3),
        slab.count + source.shape[3:],
        slab.stride + (1,) * (source.ndim - 3),
    )
    block = reading.read(source, slab, values="stored")
    sink = nifti.sink(
        str(tmp_path / "block.nii"),
        block.shape,
        block.dtype,
        source.header.for_slab(slab),
        source.scaling,
    )
    writing.write(sink, block)
    image: Any = nib.load(sink.path)
    assert_same_place(image.affine, parent.get_best_affine(), slab)
    for form in ("sform", "qform"):
        assert int(image.header[f"{form}_code"]) == int(parent[f"{form}_code"])
        if parent[f"{form}_code"]:
            assert_same_place(
                getattr(image.header, f"get_{form}")(), getattr(parent, f"get_{form}")(), slab
            )
    np.testing.assert_array_equal(
        np.asanyarray(image.dataobj),
        np.asanyarray(nib.load(path).dataobj)[slab.slices()],
    )


def test_a_block_of_a_block_still_lies_where_it_lay(tmp_path: Path) -> None:
    path = parent_image(tmp_path / "parent.nii", np.diag([2.0, 3.0, 4.0, 1.0]), 1, 0)
    source = formats.open_source(str(path))
    outer, inner = (
        Hyperslab((20, 2, 1), (8, 6, 5), (-2, 2, 2)),
        Hyperslab((1, 5, 0), (3, 3, 2), (2, -1, 2)),
    )
    header = source.header.for_slab(outer).for_slab(inner)
    built: Any = nib.Nifti1Header(
        build_head("b.nii", inner.count, np.dtype("u1"), header, None)[:348]
    )
    parent: Any = nib.load(path)
    assert_same_place(built.get_best_affine(), parent.affine, outer.compose(inner))


def test_time_moves_with_the_block(tmp_path: Path) -> None:
    path = parent_image(tmp_path / "parent.nii", np.eye(4), 1, 0, (*SHAPE, 10))
    header = block_header(path, Hyperslab((0, 0, 0, 3), (*SHAPE, 3), (1, 1, 1, 2)))
    assert header.get_zooms()[3] == 5.0
    assert float(header["toffset"]) == 7.5


@pytest.mark.parametrize(
    ("start", "count", "kept"), [((2, 2, 0), (5, 5, 13), True), ((0, 0, 1), (21, 17, 12), False)]
)
def test_slice_times_are_kept_only_with_all_slices(
    tmp_path: Path, start: tuple[int, ...], count: tuple[int, ...], kept: bool
) -> None:
    path = parent_image(tmp_path / "parent.nii", np.eye(4), 1, 0)
    image: Any = nib.load(path)
    image.header.set_dim_info(slice=2)
    image.header["slice_code"], image.header["slice_end"], image.header["slice_duration"] = (
        3,
        12,
        0.1,
    )
    timed = tmp_path / "timed.nii"
    image.to_filename(timed)
    header = block_header(timed, Hyperslab(start, count))
    assert (int(header["slice_code"]), int(header["slice_end"])) == ((3, 12) if kept else (0, 0))
    assert (float(header["slice_duration"]) > 0) == kept


def test_blocks_without_a_parent_header_get_an_sform() -> None:
    header = Header(base_affine=np.diag([2.0, 2.0, 5.0, 1.0])).for_slab(
        Hyperslab((4, 0, 3), (2, 2, 2), (1, 2, -1))
    )
    built: Any = nib.Nifti1Header(
        build_head("b.nii", (2, 2, 2), np.dtype("u1"), header, None)[:348]
    )
    assert header.affine is not None
    np.testing.assert_allclose(built.get_best_affine(), header.affine)
    assert int(built["sform_code"]) == 2
    assert built.get_zooms() == (2.0, 4.0, 5.0)


@pytest.mark.parametrize(
    ("codes", "shape", "dims"),
    [
        ("RAS", SHAPE, "xyz"),
        ("LAS", SHAPE, "xyz"),
        ("PSR", SHAPE, "yzx"),
        ("SAL", (21, 17, 13, 2), "zyxt"),
    ],
)
def test_axes_are_named_by_where_they_run(
    tmp_path: Path, codes: str, shape: tuple[int, ...], dims: str
) -> None:
    affine = np.diag([0.0, 0, 0, 1])
    for axis, (along, sign) in enumerate(nib.orientations.axcodes2ornt(codes)):
        affine[int(along), axis] = sign * (2.0 + axis)
    path = parent_image(tmp_path / "a.nii", affine, 1, 0, shape)
    assert nib.aff2axcodes(nib.load(path).affine) == tuple(codes)
    source = formats.open_source(str(path))
    assert "".join(source.dims) == dims
