"""Whole files in Spark: the values of nibabel, and records that `hyperslab report` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest

from hyperslab.apps.whole_files import increment_files
from hyperslab.connectors.spark.whole_files import garbage_s
from hyperslab.driver.submission import load_records
from hyperslab.errors import UsageError
from hyperslab.report.summary import Summary
from tests.apps.experiment.syncing import waited_for


def make_images(folder: Path) -> list[Path]:
    """A scaled image, a compressed one, and one of NIfTI-2 with bytes in the other order."""
    numbers = np.random.default_rng(1)
    affine = np.diag([2.0, 3.0, 4.0, 1.0])
    scaled: Any = nib.Nifti1Image(numbers.normal(size=(4, 5, 6)).astype("f4"), affine)  # type: ignore[no-untyped-call]
    scaled.set_data_dtype("i2")
    small: Any = nib.Nifti1Image(numbers.integers(0, 256, (3, 7, 2), dtype="u1"), affine)  # type: ignore[no-untyped-call]
    header = nib.Nifti2Header(endianness=">")  # type: ignore[no-untyped-call]
    other: Any = nib.Nifti2Image(numbers.normal(size=(5, 2, 3)).astype(">f8"), affine, header)  # type: ignore[no-untyped-call]
    images = {"a scan.nii": scaled, "b.nii.gz": small, "c.nii": other}
    for name, image in images.items():
        nib.save(image, folder / name)
    return [folder / name for name in images]


def test_values_places_and_records(tmp_path: Path, sc: Any) -> None:
    images = make_images(tmp_path)
    waited_s = garbage_s(sc)
    with waited_for() as on_storage:
        folder = increment_files(sc, images, tmp_path / "out", iterations=3)
    assert {tmp_path / "out" / path.name for path in images} <= set(on_storage)
    for path in images:
        was: Any = nib.load(path)
        found: Any = nib.load(tmp_path / "out" / path.name)
        expected = was.dataobj.get_unscaled()
        for _ in range(3):
            expected = expected + expected.dtype.type(1)
        np.testing.assert_array_equal(found.dataobj.get_unscaled(), expected)
        np.testing.assert_array_equal(found.affine, was.affine)
        assert found.header == was.header
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {".hyperslab", *(path.name for path in images)}, "nothing unfinished stays"
    records = load_records(tmp_path / "out")
    assert records.folder == folder
    kinds = [span.kind for span in records.trace.spans if span.task == 1]
    assert kinds == ["read", "compute", "compute", "compute", "write"]
    read = [span.nbytes for span in records.trace.spans if span.kind == "read"]
    assert sorted(read) == sorted(path.stat().st_size for path in images)
    assert (folder / "report.html").is_file()
    summary = Summary.load(folder / "summary.json")
    assert summary.java_gc_s is not None
    assert 0 <= summary.java_gc_s - waited_s < summary.makespan_s * summary.slots
    with pytest.raises(UsageError, match="is not empty"):
        increment_files(sc, images, tmp_path / "out")


def test_what_it_cannot_take(tmp_path: Path) -> None:
    context: Any = None
    (tmp_path / "a.mnc").touch()
    with pytest.raises(UsageError, match="is no NIfTI image"):
        increment_files(context, [tmp_path / "a.mnc"], tmp_path / "out")
    with pytest.raises(UsageError, match="does not exist"):
        increment_files(context, [tmp_path / "a.nii"], tmp_path / "out")
    with pytest.raises(UsageError, match="no images"):
        increment_files(context, [], tmp_path / "out")
    assert not (tmp_path / "out").exists()
