"""Synthetic arrays: the same voxels however they are cut, and files that say where they belong."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.blocks.gathering import gather
from hyperslab.errors import DoesNotFit, HyperslabError, RunStopped, UsageError
from hyperslab.workloads import synth as files
from hyperslab.workloads.synth import synth
from hyperslab.workloads.volume import KINDS, block, shape_of
from tests.examples import examples
from tests.repetitions import few

MIB = 2**20
SHAPE = (37, 21, 26)
BRAIN_CRC = 0x52845ED3
CLIMATE_CRC = 0x57D0F7E7


def whole(kind: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    return block(kind, shape, Hyperslab.full(shape), seed)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_any_region_is_that_of_the_whole(kind: str, data: st.DataObject) -> None:
    index = tuple(slice(*sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))) for n in SHAPE)
    steps = data.draw(st.tuples(*[st.sampled_from([1, 1, 2, 3, -1, -2])] * 3))
    start = tuple(
        s.start if t > 0 else max(s.stop - 1, s.start) for s, t in zip(index, steps, strict=True)
    )
    count = tuple(-((s.start - s.stop) // abs(t)) for s, t in zip(index, steps, strict=True))
    slab = Hyperslab(start, count, steps)
    np.testing.assert_array_equal(block(kind, SHAPE, slab), whole(kind, SHAPE)[slab.slices()])


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_any_size_give_the_same(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = whole(kind, SHAPE)
    for elements in (1, 100, 10**6):
        monkeypatch.setattr("hyperslab.workloads.volume.PIECE_ELEMENTS", elements)
        np.testing.assert_array_equal(whole(kind, SHAPE), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind: str) -> None:
    assert whole(kind, SHAPE).dtype == KINDS[kind].dtype
    assert (whole(kind, SHAPE) != whole(kind, SHAPE, 1)).mean() > 0.5
    np.testing.assert_array_equal(whole(kind, SHAPE, 2**64 + 1), whole(kind, SHAPE, 2**64 + 1))


def test_voxels_stay_the_same_over_time() -> None:
    assert zlib.crc32(whole("bigbrain", SHAPE).tobytes()) == BRAIN_CRC
    assert zlib.crc32(whole("climate", SHAPE).astype("<f4").tobytes()) == CLIMATE_CRC


def test_bigbrain_looks_like_histology() -> None:
    values = whole("bigbrain", shape_of("bigbrain", 16 * MIB))
    stored = values.T.tobytes()
    counts = np.bincount(values.ravel(order="K"), minlength=65536)
    tissue = counts[:55000].reshape(-1, 1000).sum(axis=1)
    smooth = np.convolve(tissue, np.ones(3) / 3, "same")
    peaks = [
        i
        for i in range(1, len(smooth) - 1)
        if smooth[i - 1] < smooth[i] >= smooth[i + 1] and smooth[i] > 20000
    ]
    assert 1.4 < len(stored) / len(zlib.compress(stored, 4)) < 2.6
    assert np.count_nonzero(counts) > 20000
    assert 0.2 < counts[:55000].sum() / values.size < 0.5
    assert counts[61000:63500].sum() / values.size > 0.4
    assert len(peaks) >= 2
    assert values[0, 0, 0] > 61000
    assert values[tuple(n // 2 for n in values.shape)] < 45000


def test_climate_has_seasons_and_a_warm_equator() -> None:
    values = whole("climate", (366, 40, 80)).astype(np.float64)
    by_latitude = values.mean(axis=(0, 2))
    assert np.isfinite(values).all()
    assert by_latitude[20] - by_latitude[0] > 30
    north, south = values[:, 35, :].mean(axis=1), values[:, 4, :].mean(axis=1)
    assert north[200] - north[17] > 15
    assert south[200] - south[17] < -15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1000, MIB, 100 * MIB, 2**31, 600 * 10**9])
def test_shapes_have_the_size_asked_for(kind: str, size: int) -> None:
    shape = shape_of(kind, size)
    nbytes = int(np.prod(shape, dtype=object)) * KINDS[kind].dtype.itemsize
    assert abs(nbytes - size) <= max(0.02 * size, 400)


def test_the_shape_of_the_real_brain() -> None:
    assert shape_of("bigbrain", 3850 * 3025 * 3500 * 2) == (3850, 3025, 3500)


@pytest.mark.parametrize(("format", "blocks"), [("nii", None), ("nii", 12), ("h5", 1), ("h5", 8)])
def test_files_hold_the_volume(format: str, blocks: int | None, tmp_path: Path) -> None:
    paths = synth("bigbrain", tmp_path / "out", MIB // 2, blocks, format)
    shape = shape_of("bigbrain", MIB // 2)
    expected = whole("bigbrain", shape)
    assert len(paths) == (blocks or 1)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(p.name for p in paths)
    seen = np.zeros(shape, bool)
    corner_mm = -0.04 * (np.array(shape) // 2)
    for path in paths:
        values, affine = load(path)
        corner = np.rint((affine[:3, 3] - corner_mm) / 0.04).astype(int)
        place = tuple(slice(a, a + n) for a, n in zip(corner, values.shape, strict=True))
        np.testing.assert_array_equal(values, expected[place])
        np.testing.assert_allclose(affine[:3, :3], np.diag([0.04] * 3), atol=1e-8)
        if blocks and blocks > 1:
            assert path.name == f"bigbrain_{'_'.join(f'{a:02d}' for a in corner)}.{format}"
        assert not seen[place].any()
        seen[place] = True
    assert seen.all()


def load(path: Path) -> tuple[Array, Array]:
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return file["data"][...], file["data"].attrs["affine"].reshape(4, 4)
    image: Any = nib.load(path)
    assert image.header.get_slope_inter() in ((1, 0), (None, None))
    return np.asarray(image.dataobj), image.affine


def test_blocks_make_a_mosaic(tmp_path: Path) -> None:
    synth("bigbrain", tmp_path, MIB // 2, 27)
    shape = shape_of("bigbrain", MIB // 2)
    mosaic = gather(str(tmp_path), "mosaic").wholes[0]
    assert mosaic.shape == shape
    assert len(mosaic.members) == 27


@pytest.mark.parametrize("blocks", few([6], [1, 6], "workers write the same files"))
def test_workers_write_the_same_files(
    blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WORKER_NBYTES", MIB // 8)
    monkeypatch.setattr(files, "WRITE_NBYTES", MIB // 8)
    alone = synth("climate", tmp_path / "alone", MIB, blocks, seed=4)
    together = synth("climate", tmp_path / "together", MIB, blocks, workers=2, seed=4)
    assert [p.name for p in alone] == [p.name for p in together]
    assert [p.read_bytes() for p in alone] == [p.read_bytes() for p in together]
    assert len(list((tmp_path / "together").iterdir())) == blocks


def test_a_script_without_a_guard_can_use_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from hyperslab.workloads import synth\n"
        "synth.WORKER_NBYTES = 100_000\n"
        f"print(len(synth.synth('bigbrain', {str(tmp_path / 'out')!r}, 500_000, 4, workers=2)))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_leaves_nothing(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WORKER_NBYTES", MIB // 8)
    allocate = writing.allocate

    def allocate_and_lose(sink: Any, partial: str) -> None:
        allocate(sink, partial)
        if "_00_00_00" in sink.path:
            Path(partial).unlink()

    monkeypatch.setattr(writing, "allocate", allocate_and_lose)
    with pytest.raises(RunStopped, match="No such file"):
        synth("bigbrain", tmp_path, MIB // 2, 8, workers=workers)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WORKER_NBYTES", MIB // 8)
    start = files._start

    def start_and_kill() -> subprocess.Popen[bytes]:
        process = start()
        process.kill()
        return process

    monkeypatch.setattr(files, "_start", start_and_kill)
    with pytest.raises(RunStopped, match="ended with status -9"):
        synth("bigbrain", tmp_path, MIB // 2, 8, workers=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"kind": "brian"}, UsageError, "KIND 'brian': choose one of bigbrain, climate"),
        ({"size_bytes": 1}, UsageError, "--size 1"),
        ({"format": "mnc"}, UsageError, "--format mnc: choose one of nii, h5"),
        ({"blocks": 0}, UsageError, "--blocks 0"),
        ({"blocks": 10007}, UsageError, "--blocks 10007: an array of"),
        ({"workers": 0}, UsageError, "--workers 0"),
        ({"size_bytes": 10**18}, DoesNotFit, "--size: .* free at"),
    ],
)
def test_wrong_arguments(
    changes: dict[str, Any], error: type[HyperslabError], said: str, tmp_path: Path
) -> None:
    given = {"kind": "bigbrain", "dest": tmp_path / "out", "size_bytes": MIB // 2, **changes}
    with pytest.raises(error, match=said):
        synth(**given)
    assert not (tmp_path / "out").exists()


def test_a_directory_with_arrays_is_refused(tmp_path: Path) -> None:
    synth("bigbrain", tmp_path, 10_000)
    with pytest.raises(UsageError, match="holds arrays already"):
        synth("bigbrain", tmp_path, 10_000)


def test_blocks_are_as_near_to_cubes_as_can_be() -> None:
    assert files._partition("bigbrain", (3850, 3025, 3500), 125).grid == (5, 5, 5)
    assert files._partition("bigbrain", (3850, 3025, 3500), 30).grid in {(3, 2, 5), (5, 2, 3)}
    assert files._partition("bigbrain", (100, 10, 10), 7).grid == (7, 1, 1)
