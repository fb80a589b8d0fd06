"""The brain of a real head in several versions, held against what FSL has found in it.

There is one head only: its Dice coefficients tell whether anything broke, not how good the method
is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hyperslab.apps.bids import brain
from hyperslab.apps.bids.extraction import without_neck
from hyperslab.arrays import Array
from tests.apps.bids.heads import (
    BRAIN,
    HEAD,
    Head,
    anisotropic,
    big_endian_and_turned,
    two_millimetres,
)
from tests.system.end_to_end.command import affine_of, image_of, real_values_of, save, values_of

BUILTIN = ("--brain-extractor", "builtin")


def dice(one: Array, other: Array) -> float:
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


def extracted(path: Path) -> brain.Brain:
    return brain.extract(str(path), brain.BUILTIN)


@pytest.fixture(scope="module")
def whole() -> brain.Brain:
    """The brain of the head at 1 mm."""
    return extracted(HEAD)


def test_the_brain_of_a_head(whole: brain.Brain) -> None:
    assert 1700 < whole.volume_ml < 2200
    assert dice(whole.mask, values_of(BRAIN) > 0) > 0.9
    assert "not for science" in whole.extractor


def test_the_same_head_has_the_same_brain(whole: brain.Brain, tmp_path: Path) -> None:
    """At 2 mm every voxel is one of eight; the mask is compared at their corners."""
    head = two_millimetres(tmp_path)
    found = extracted(head.path)
    fine = whole.mask[:180, :216, :180].reshape(90, 2, 108, 2, 90, 2).mean(axis=(1, 3, 5)) >= 0.5
    assert dice(found.mask, fine) > 0.97
    assert dice(found.mask, head.reference) > 0.9
    assert found.volume_ml == pytest.approx(whole.volume_ml, rel=0.04)


@pytest.mark.parametrize("version", [anisotropic, big_endian_and_turned])
def test_versions_of_the_head(
    version: Callable[[Path], Head], whole: brain.Brain, tmp_path: Path
) -> None:
    head = version(tmp_path)
    found = extracted(head.path)
    assert dice(found.mask, head.reference) > 0.9
    assert found.volume_ml == pytest.approx(whole.volume_ml, rel=0.05)


def test_a_program_for_one_image(tmp_path: Path) -> None:
    head = big_endian_and_turned(tmp_path)
    out = tmp_path / "new folder" / "sub-1_desc-brain_T1w.nii.gz"
    mask = out.with_name("sub-1_desc-brain_mask.nii.gz")
    origin = "bids:raw:sub-1/anat/sub-1_T1w.nii.gz"
    line = [head.path, out, "--mask", mask, "--origin", origin, *BUILTIN]
    program = [sys.executable, "-m", "hyperslab.apps.bids.brain", *map(str, line)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    inner = values_of(mask)
    assert set(np.unique(inner).tolist()) == {0, 1}
    assert np.array_equal(real_values_of(out), real_values_of(head.path) * inner)
    for path in (out, mask):
        assert np.allclose(affine_of(path), affine_of(head.path))
    said = json.loads(Path(brain.sidecar_of(str(mask))).read_text())
    assert (said["Type"], said["Sources"]) == ("Brain", [origin])
    volume_mm3 = inner.sum() * np.prod(image_of(head.path).header.get_zooms())
    assert said["VolumeMillilitres"] == pytest.approx(volume_mm3 / 1000, rel=1e-4)
    assert json.loads(Path(brain.sidecar_of(str(out))).read_text())["SkullStripped"] is True
    assert f"{said['VolumeMillilitres']:.0f} ml" in done.stdout
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(
        [out.name, mask.name, "sub-1_desc-brain_T1w.json", "sub-1_desc-brain_mask.json"]
    )


def noise(folder: Path) -> Path:
    values = np.random.default_rng(0).normal(100, 5, (40, 40, 40)).astype(np.float32)
    return save(folder / "noise.nii.gz", values, np.diag([2.0, 2.0, 2.0, 1.0]))


def constant(folder: Path) -> Path:
    return save(folder / "constant.nii", np.ones((20, 20, 20), np.int16))


def series(folder: Path) -> Path:
    return save(folder / "series.nii", np.ones((8, 8, 8, 2), np.int16))


def empty(folder: Path) -> Path:
    (folder / "empty.nii.gz").touch()
    return folder / "empty.nii.gz"


def cut_short(folder: Path) -> Path:
    (folder / "short.nii.gz").write_bytes(HEAD.read_bytes()[:100_000])
    return folder / "short.nii.gz"


def no_image(folder: Path) -> Path:
    (folder / "text.nii").write_text("not an image\n")
    return folder / "text.nii"


def absent(folder: Path) -> Path:
    (folder / "absent.nii.gz").symlink_to(".git/annex/objects/a/b/MD5E-s9--0.nii.gz")
    return folder / "absent.nii.gz"


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (noise, "ml were found, and a brain has 600 to 2500 ml"),
        (constant, "shows no head: almost all of its voxels have one value"),
        (series, "a head is one volume of numbers, and this has the shape 8x8x8x2 of int16"),
        (empty, "is empty (0 bytes)"),
        (cut_short, "short.nii.gz: truncated"),
        (no_image, "text.nii"),
        (absent, "is not here; type 'datalad get "),
    ],
)
def test_what_is_said_of_images_without_a_brain(
    image: Callable[[Path], Path],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = image(tmp_path)
    out = tmp_path / "out.nii.gz"
    assert brain.main([str(path), str(out), *BUILTIN]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert str(path) in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_what_is_said_of_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert brain.main([str(HEAD), str(tmp_path / "out.mgz")]) == 2
    assert "give a name that ends in .nii.gz or .nii" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert brain.main([str(HEAD), str(tmp_path / "o.nii"), "--brain-extractor", "fsl"]) == 2
    assert "there is no bet on PATH" in capsys.readouterr().err
    for wrong in (["--fraction", "1"], ["--origin", "bids:raw:x"]):
        with pytest.raises(SystemExit) as end:
            brain.main([str(HEAD), str(tmp_path / "o.nii"), *wrong])
        assert end.value.code == 2


SHIM = """#!/bin/sh
echo "$@" >> "$CALLS"
[ "$FSLOUTPUTTYPE" = NIFTI_GZ ] || exit 9
[ -z "$FAILING" ] || { echo "Cannot open volume" >&2; exit 1; }
cp "$MASK" "$2_mask.nii.gz"
"""


def test_fsl_where_it_is_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FSL may not be distributed: a script in its place shows what it is asked for, and gives what
    FSL has made of the head. No name that it is given has a blank, wherever scratch is.
    """
    program = tmp_path / "bet"
    program.write_text(SHIM)
    program.chmod(0o755)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "fslversion").write_text("6.0.7.4:abc\n")
    head = tmp_path / "a head.nii.gz"
    head.symlink_to(HEAD)
    scratch = tmp_path / "my scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, value in {"CALLS": tmp_path / "calls", "MASK": BRAIN, "FSLDIR": tmp_path}.items():
        monkeypatch.setenv(name, str(value))
    found = brain.extract(str(head))
    assert np.array_equal(found.mask, values_of(BRAIN) > 0)
    assert found.extractor == "bet of FSL 6.0.7.4"
    assert (tmp_path / "calls").read_text() == "head.nii.gz brain -m -f 0.5\n"
    assert list(scratch.iterdir()) == []
    monkeypatch.setenv("FAILING", "1")
    assert brain.main([str(head), str(tmp_path / "o.nii")]) == 1


@pytest.mark.parametrize("up", [1.0, -1.0])
def test_a_neck_is_cut_off_below_the_head(up: float) -> None:
    """A column of 300 mm along the second axis, with a layer of noise above it."""
    head = np.zeros((40, 100, 40), np.bool_)
    head[5:35, 5:95, 5:35] = True
    head[20, :, 20] = True
    affine = np.array([[0, 0, 3, 0], [3, 0, 0, 0], [0, 3 * up, 0, 0], [0, 0, 0, 1]], np.float64)
    kept = np.zeros(head.shape, np.bool_)
    kept[without_neck(head, np.array([3.0, 3.0, 3.0]), affine)] = True
    layers = np.flatnonzero(kept.any(axis=(0, 2)))
    assert kept.all(axis=(0, 2)).sum() == len(layers)
    top = 94 if up > 0 else 5
    assert abs(int(layers[0] if up > 0 else layers[-1]) - top) == 56
