"""hyperslab.diff: planted differences are found, exactly those, whatever the files, blocks, threads
and memory.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyperslab
from hyperslab.apps.difference import traversal
from hyperslab.apps.difference.found import ValueDifference
from hyperslab.apps.difference.side import side
from hyperslab.apps.difference.traversal import peak, traverse
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.blocks.gathering import gather
from hyperslab.blocks.reading import gzipindex
from hyperslab.errors import DoesNotFit, FormatError, SourceChanged, UsageError
from tests.examples import examples
from tests.repetitions import few

AFFINE = np.array([[-0.7, 0.1, 0, 31], [0, 0.9, -0.2, -12.5], [0.05, 0, 1.3, 7], [0, 0, 0, 1]])
SHAPE = (37, 30, 41)
MIB = 2**20


def save(path: Path, values: Array, affine: Array = AFFINE, slope: float | None = None) -> Path:
    """Write a NIfTI image of these stored values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image: Any = nib.Nifti1Image(values, affine)  # type: ignore[no-untyped-call]
    nib.save(image, path)
    if slope is not None:
        with path.open("r+b") as file:
            file.seek(112)
            file.write(np.array([slope, 1], image.header["scl_slope"].dtype).tobytes())
    return path


def save_h5(path: Path, values: Array, affine: Array | None = AFFINE, **storage: Any) -> Path:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("data", data=values, **storage)
        if affine is not None:
            dataset.attrs["affine"] = affine
    return path


def split(folder: Path, values: Array, parts: int, suffix: str = ".nii") -> list[Path]:
    """Blocks of an image, each a file in its place."""
    cuts = [np.array_split(np.arange(n), parts) for n in values.shape]
    paths = []
    for number, box in enumerate(itertools.product(*cuts)):
        corner, path = [int(axis[0]) for axis in box], folder / f"block_{number}{suffix}"
        moved = AFFINE.copy()
        moved[:3, 3] += AFFINE[:3, :3] @ corner
        block = values[tuple(slice(int(axis[0]), int(axis[-1]) + 1) for axis in box)]
        path.parent.mkdir(parents=True, exist_ok=True)
        paths.append(save_h5(path, block, moved) if suffix == ".h5" else save(path, block, moved))
    return paths


def diff(a: object, b: object, **how: Any) -> ValueDifference:
    """The difference in values of one pair."""
    (pair,) = hyperslab.diff(a, b, **how).pairs  # type: ignore[arg-type]
    assert pair.values is not None
    return pair.values


def check(found: ValueDifference, a: Array, b: Array) -> None:
    """Compare what was found with what NumPy finds."""
    wrong = (a != b) & ~((a != a) & (b != b))
    assert (found.compared, found.differing) == (a.size, int(wrong.sum()))
    if not wrong.any():
        assert found == ValueDifference(a.size)
        return
    places = np.argwhere(wrong)
    assert found.first is not None
    assert found.first.index == tuple(places[0])
    np.testing.assert_equal(
        [found.first.a, found.first.b], [a[tuple(places[0])], b[tuple(places[0])]]
    )
    assert found.box == Hyperslab(
        tuple(places.min(0).tolist()), tuple((np.ptp(places, axis=0) + 1).tolist())
    )
    x, y = a[wrong].astype(np.float64), b[wrong].astype(np.float64)
    with np.errstate(all="ignore"):
        largest = np.fmax.reduce(np.abs(x - y)), np.fmax.reduce(np.abs(x - y) / np.abs(y))
    assert (found.absolute, found.relative) == tuple(None if np.isnan(n) else n for n in largest)
    assert found.one_nan == int((np.isnan(x) != np.isnan(y)).sum())


STORED: dict[str, Any] = {
    "a.nii": {},
    "b.nii.gz": {},
    "c.h5": {},
    "d.h5": {"chunks": (16, 7, 11), "compression": "gzip", "shuffle": True},
    "e.h5": {"chunks": (5, 30, 2)},
}


@pytest.mark.parametrize(
    ("left", "right"), [*itertools.combinations(STORED, 2), ("a.nii", "a.nii"), ("d.h5", "d.h5")]
)
def test_planted_differences_in_all_kinds_of_files(left: str, right: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(1)
    a = noise.integers(-500, 500, SHAPE).astype(np.int16)
    b = a.astype(np.float32)
    planted = [tuple(noise.integers(0, SHAPE).tolist()) for _ in range(12)]
    for number, place in enumerate(planted):
        b[place] = [np.nan, np.inf, a[place] + 0.5, -0.0][number % 4]
    paths = []
    for folder, name, values in (("a", left, a), ("b", right, b)):
        path = tmp_path / folder / name
        path.parent.mkdir()
        paths.append(
            save_h5(path, values, **STORED[name]) if path.suffix == ".h5" else save(path, values)
        )
    for how in (
        {},
        {"memory_bytes": 20 * MIB, "threads": 3},
        {"memory_bytes": 18 * MIB, "threads": 1},
    ):
        check(diff(*paths, **how), a, b)
        check(diff(*reversed(paths), **how), b, a)


@given(data=st.data())
@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_arrays_in_any_blocks(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=0, max_size=4)))
    a = (
        np.random.default_rng(data.draw(st.integers(0, 99)))
        .integers(-3, 3, shape)
        .astype(np.float64)
    )
    b = a.astype(data.draw(st.sampled_from(["f8", "f4", "i1", ">i4"])))
    if b.size:
        places = data.draw(st.lists(st.integers(0, b.size - 1), max_size=9))
        b.ravel()[places] += 1
        b = b.copy(order=data.draw(st.sampled_from("CF")))
    with monkeypatch.context() as patch:
        patch.setattr(traversal, "TILE_ELEMENTS", data.draw(st.sampled_from([1, 7, 100, 2**15])))
        for name in ("LARGEST_NBYTES", "LEAST_NBYTES", "FLOOR_NBYTES"):
            patch.setattr(traversal, name, data.draw(st.sampled_from([64, 500, 2**16])))
        check(diff(a, b, threads=data.draw(st.integers(1, 4))), a, b)


def test_arrays_without_elements() -> None:
    assert hyperslab.diff(np.zeros((3, 0, 2)), np.zeros((3, 0, 2))).same
    assert not hyperslab.diff(np.zeros((3, 0, 2)), np.zeros((3, 0, 3))).same


def test_integers_are_not_rounded(tmp_path: Path) -> None:
    a = np.full((4, 5), 2**53, np.int64)
    a[1, 2] += 1
    b = np.full((4, 5), 2.0**53)
    found = diff(save_h5(tmp_path / "a.h5", a), save_h5(tmp_path / "b.h5", b))
    assert (found.differing, found.absolute) == (1, 1)
    assert found.first is not None
    assert (found.first.index, found.first.a, found.first.b) == ((1, 2), 2**53 + 1, 2.0**53)


def test_real_and_stored_values(tmp_path: Path) -> None:
    stored = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    scaled, plain = (
        save(tmp_path / "a.nii", stored, slope=0.5),
        save(tmp_path / "b.nii", stored * 0.5 + 1),
    )
    assert diff(scaled, plain).differing == 0
    assert diff(scaled, plain, values="stored").differing == 59
    (pair,) = hyperslab.diff(scaled, plain).pairs
    assert [(d.what, d.a, d.b) for d in pair.headers] == [
        ("stored dtype", "int16", "float64"),
        ("scaling", "x 0.5 + 1", "none"),
    ]


def test_a_tolerance(tmp_path: Path) -> None:
    a = np.linspace(1, 2, 1000).reshape(10, 10, 10)
    b = a * (1 + 1e-6)
    b[3, 4, 5] *= 1.01
    assert diff(a, b).differing == 1000
    found = diff(a, b, rtol=1e-5)
    assert found.first is not None
    assert (found.differing, found.first.index, found.box) == (
        1,
        (3, 4, 5),
        Hyperslab((3, 4, 5), (1, 1, 1)),
    )
    assert diff(a, b, atol=0.1).differing == 0
    for wrong in ({"atol": -1}, {"rtol": float("nan")}, {"rtol": float("inf")}):
        with pytest.raises(UsageError, match="give a number of 0 or more"):
            hyperslab.diff(a, b, **wrong)


SUFFIXES = [".nii", ".nii.gz", ".h5"]


@pytest.mark.parametrize("suffix", few(SUFFIXES[1:2], SUFFIXES, "a volume against its blocks"))
def test_a_volume_against_its_blocks(tmp_path: Path, suffix: str) -> None:
    values = np.random.default_rng(2).integers(0, 60000, SHAPE).astype(np.uint16)
    whole = save(tmp_path / "whole.nii", values)
    split(tmp_path / "blocks", values, 3, suffix)
    (pair,) = hyperslab.diff(whole, tmp_path / "blocks").pairs
    assert (pair.headers, pair.same) == ((), True)
    assert pair.b == f"27 files of {tmp_path}/blocks, mosaic"
    other = values.copy()
    other[12, 9, 13:29] += 1
    split(tmp_path / "wrong", other, 3, suffix)
    for how in ({}, {"memory_bytes": 20 * MIB, "threads": 4}):
        found = diff(whole, tmp_path / "wrong", **how)
        check(found, values, other)
        dataset = "::/data" if suffix == ".h5" else ""
        names = [f"{tmp_path}/wrong/block_{n}{suffix}{dataset}" for n in (0, 1, 2)]
        assert dict(found.files_b) == dict(zip(names, [1, 14, 1], strict=True))
        assert dict(found.files_a) == {str(whole): 16}


def test_two_sets_of_blocks(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 9, SHAPE).astype(np.int32)
    split(tmp_path / "a", values, 2)
    split(tmp_path / "b", values, 3)
    assert hyperslab.diff(tmp_path / "a", tmp_path / "b").same
    other = values.copy()
    other[36, 29, 40] = -1
    split(tmp_path / "b", other, 3)
    found = diff(tmp_path / "a", tmp_path / "b")
    check(found, values, other)
    assert (len(found.files_a), len(found.files_b)) == (1, 1)


def test_concatenated_files(tmp_path: Path) -> None:
    values = np.arange(7 * 4 * 3).reshape(7, 4, 3)
    whole = save_h5(tmp_path / "whole.h5", values)
    (tmp_path / "parts").mkdir()
    for number in range(7):
        save_h5(tmp_path / "parts" / f"p{number}.h5", values[number : number + 1], None)
    how: dict[str, Any] = {"sources": "concatenated", "headers": False}
    assert hyperslab.diff(whole, tmp_path / "parts", **how).same
    assert not hyperslab.diff(whole, tmp_path / "parts", axis=1, **how).same
    with pytest.raises(
        UsageError,
        match=r"files of .*parts are taken for blocks of one array, .* do not say where they lie",
    ):
        hyperslab.diff(whole, tmp_path / "parts")


def test_files_of_equal_names_are_compared_with_each_other(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    for folder, suffix in (("a", ".nii"), ("b", ".nii.gz")):
        for name in ("s1", "s2", "s10"):
            save(tmp_path / folder / f"sub-{name}" / f"T1w{suffix}", values + len(name))
    found = hyperslab.diff(f"{tmp_path}/a/*/*.nii", f"{tmp_path}/b/*/*.gz")
    assert found.same
    assert [Path(pair.b).parent.name for pair in found.pairs] == ["sub-s1", "sub-s2", "sub-s10"]
    save(tmp_path / "b" / "sub-s2" / "T1w.nii.gz", values)
    found = hyperslab.diff(f"{tmp_path}/a/*/*.nii", f"{tmp_path}/b/*/*.gz")
    assert [pair.same for pair in found.pairs] == [True, False, True]
    found = hyperslab.diff(f"{tmp_path}/a/*/*.nii", f"{tmp_path}/b/*/*.gz", first=True)
    assert [pair.same for pair in found.pairs] == [True, False]


def test_a_pair_that_cannot_be_read_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    values = np.zeros((3, 4, 5), np.int16)
    for folder, name in itertools.product("ab", ("one.nii", "three.nii", "two.nii")):
        save(tmp_path / folder / name, values)
    (tmp_path / "b" / "three.nii").write_bytes((tmp_path / "b" / "one.nii").read_bytes()[:-1])
    save(tmp_path / "b" / "two.nii", values[None])
    found = hyperslab.diff(tmp_path / "a", tmp_path / "b")
    assert [(pair.same, bool(pair.trouble)) for pair in found.pairs] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert "three.nii: truncated: 1 byte missing" in found.pairs[1].trouble
    assert [d.what for d in found.pairs[2].headers] == ["shape"]
    (tmp_path / "b" / "two.nii").unlink()
    with pytest.raises(
        UsageError, match=r"the 3 files of .*a are taken for blocks of one array, but .* overlap"
    ):
        hyperslab.diff(tmp_path / "a", tmp_path / "b")
    found = hyperslab.diff(tmp_path / "a", tmp_path / "b", sources="independent")
    assert (found.only_a, found.only_b) == ((f"{tmp_path}/a/two.nii",), ())
    assert not found.same


def test_what_makes_no_pair(tmp_path: Path) -> None:
    values = np.zeros((3, 4, 5), np.int16)
    one = save(tmp_path / "one.nii", values)
    split(tmp_path / "blocks", np.zeros(SHAPE), 2)
    save_h5(tmp_path / "text.h5", np.array([b"a", b"b"]), None)
    save_h5(tmp_path / "record.h5", np.zeros(3, [("a", "i4")]), None)
    with h5py.File(tmp_path / "any.h5", "w") as file:
        file.create_dataset("data", data=["a", "b"], dtype=h5py.string_dtype())
    with pytest.raises(UsageError, match="have no file name in common: say --sources mosaic"):
        hyperslab.diff(one, tmp_path / "blocks", sources="independent")
    with pytest.raises(UsageError, match="no fixed size"):
        hyperslab.diff(f"{tmp_path}/any.h5::data", f"{tmp_path}/any.h5::data")
    with pytest.raises(UsageError, match="choose one of auto, independent"):
        hyperslab.diff(one, one, sources="tiled")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="choose one of real, stored"):
        hyperslab.diff(one, one, values="raw")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there is no such file"):
        hyperslab.diff(one, tmp_path / "missing.nii")
    (tmp_path / "blocks" / "block_3.nii").unlink()
    with pytest.raises(
        UsageError, match=r"7 files of .* blocks of one array, but the blocks leave 5,700 voxels"
    ):
        hyperslab.diff(save(tmp_path / "whole.nii", np.zeros(SHAPE)), tmp_path / "blocks")
    save(tmp_path / "blocks" / "block_0.nii", np.zeros((19, 15, 21), np.int16))
    split(tmp_path / "mixed", np.zeros(SHAPE), 2)
    save(tmp_path / "mixed" / "block_0.nii", np.zeros((19, 15, 21), np.int16))
    with pytest.raises(
        UsageError, match=r"have different dtypes \(.*int16.*float64\): compare them one by one"
    ):
        hyperslab.diff(save(tmp_path / "whole.nii", np.zeros(SHAPE)), tmp_path / "mixed")
    (pair,) = hyperslab.diff(f"{tmp_path}/record.h5::data", np.zeros(3)).pairs
    assert (pair.values, pair.headers[0].what) == (None, "kind of values")
    (pair,) = hyperslab.diff(f"{tmp_path}/text.h5::data", np.array([b"a", b"bc"])).pairs
    assert pair.values is not None
    assert pair.values.first is not None
    assert (pair.values.differing, pair.values.first.b) == (1, b"bc")


def test_views_and_arrays_in_memory_are_arrays_not_lists_of_rows(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.int16).reshape(3, 4, 5)
    other = np.where(values == 31, 0, values)
    a, b = (
        hyperslab.open(save(tmp_path / f"{n}.nii", v)) for n, v in (("a", values), ("b", other))
    )
    check(diff(a, b), values, other)
    check(diff([a], tmp_path / "b.nii"), values, other)
    assert not hyperslab.diff(hyperslab.gather(a), hyperslab.gather(b)).same
    found = hyperslab.diff([values, a, tmp_path / "a.nii"], [values, b, other])
    assert [pair.same for pair in found.pairs] == [True, False, False]
    with pytest.raises(UsageError, match="memory: has no affine"):
        hyperslab.diff([values, values], a)
    with (
        h5py.File(save_h5(tmp_path / "c.h5", values)) as file,
        pytest.raises(UsageError, match="'PATH::DATASET'"),
    ):
        hyperslab.diff(file["data"], a)


def test_sets_of_several_datasets_are_compared_one_by_one(tmp_path: Path) -> None:
    for name, last in (("a.h5", 3), ("b.h5", 4)):
        with h5py.File(tmp_path / name, "w") as file:
            file["x"], file["y"] = [1, 2, 3], [1, 2, last]
    sets = (
        hyperslab.gather([f"{tmp_path}/{name}::{n}" for n in "xy"]) for name in ("a.h5", "b.h5")
    )
    assert [pair.same for pair in hyperslab.diff(*sets).pairs] == [True, False]


def test_first_stops_at_a_block_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traversal, "FLOOR_NBYTES", 2**16)
    monkeypatch.setattr(traversal, "LARGEST_NBYTES", 2**16)
    monkeypatch.setattr(traversal, "HARDLY_LONGER", 1e9)
    a = np.zeros((64, 64, 64), np.int16)
    b = a.copy()
    b[:, :, 20:40] = 1
    paths = save(tmp_path / "a.nii", a), save(tmp_path / "b.nii", b)
    check(diff(*paths), a, b)
    for threads in (1, 4):
        found = diff(*paths, first=True, threads=threads)
        assert found.first is not None
        assert found.first.index == (0, 0, 20)
        assert found.compared <= a.size * 3 // 8
        assert 0 < found.differing <= a.size // 8


def test_a_large_gzip_file_is_indexed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = (np.arange(4 * MIB) % 251).astype(np.uint16).reshape(256, 128, 128)
    packed = save(tmp_path / "a.nii.gz", values)
    other = values.copy()
    other[200, 100, 120] += 1
    plain = save(tmp_path / "b.nii", other)
    index, made = gzipindex.index, []

    def counted(*arguments: Any) -> Any:
        made.append(arguments[1].parent)
        return index(*arguments)

    monkeypatch.setattr(gzipindex, "index", counted)
    check(diff(packed, plain, memory_bytes=24 * MIB, threads=2), values, other)
    assert len(made) == 1
    assert not made[0].exists()
    check(diff(packed, packed, memory_bytes=30 * MIB, threads=2), values, values)
    packed.write_bytes(packed.read_bytes()[:-9] + b"x" + packed.read_bytes()[-8:])
    with pytest.raises(FormatError, match=r"a\.nii\.gz"):
        hyperslab.diff(packed, plain, memory_bytes=24 * MIB)


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.nii", np.zeros((4, 4, 4)))
    found = gather(path)
    changed = replace(found, sources=(replace(found.sources[0], mtime_ns=1),))
    with pytest.raises(
        SourceChanged, match=r"a\.nii: was written to, or removed, while it was compared"
    ):
        hyperslab.diff(path, changed)


def test_too_little_memory(tmp_path: Path) -> None:
    path = save_h5(tmp_path / "a.h5", np.zeros((512, 512)), chunks=(512, 512), compression="gzip")
    with pytest.raises(DoesNotFit, match=r"--memory 1\.00 MB: one block takes \d.* MB; give more"):
        hyperslab.diff(path, path, memory_bytes=10**6)
    for wrong in ({"memory_bytes": 0}, {"threads": 0}):
        with pytest.raises(UsageError, match="give 1 or more"):
            hyperslab.diff(path, path, **wrong)  # type: ignore[arg-type]


CHUNKED: dict[str, Any] = {"compression": "gzip", "compression_opts": 1}


@pytest.mark.parametrize(
    ("left", "right", "memory", "most"),
    [
        ("a.nii", "c.h5", 24, 1.01),  # x fastest against z fastest
        ("a.nii", "k.h5", 24, 1.01),
        ("c.h5", "k.h5", 24, 1.01),
        ("k.h5", "k.h5", 24, 1.01),
        ("a.nii", "k.h5", 100, 1.01),
        ("k.h5", "l.h5", 100, 1.5),  # chunks of 32 and of 30
    ],
)
def test_the_walk_reads_every_byte_about_once(
    left: str, right: str, memory: int, most: float, tmp_path: Path
) -> None:
    values = np.random.default_rng(0).integers(0, 9, (128, 120, 150)).astype(np.uint16)
    chunks = {
        "c.h5": {},
        "k.h5": {"chunks": (32, 32, 32), **CHUNKED},
        "l.h5": {"chunks": (30, 30, 30), **CHUNKED},
    }
    for name in {left, right}:
        (
            save(tmp_path / name, values)
            if name == "a.nii"
            else save_h5(tmp_path / name, values, **chunks[name])
        )
    a, b = (side(gather(tmp_path / name), "real") for name in (left, right))
    way = traverse(a, b, memory * MIB, 2)
    for each in (a, b):
        source = each.sources[0]
        taken = sum(reading.read_nbytes(source, slab) for slab in way.partition)
        assert taken <= most * source.nbytes_stored
    assert way.slots * max(peak(a, b, slab) for slab in way.partition) <= memory * MIB
