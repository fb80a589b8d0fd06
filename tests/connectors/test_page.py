"""The examples of docs/xarray-and-dask.md run as they stand there, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import xarray

from tests.formats.files import ROOT

PAGE = (ROOT / "docs" / "xarray-and-dask.md").read_text(encoding="utf-8")


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the page names."""
    monkeypatch.chdir(tmp_path)
    numbers = np.random.default_rng(0)
    with h5py.File("brain.h5", "w") as file:
        values = numbers.integers(0, 1000, (64, 96, 96), dtype="u2")
        file.create_dataset(
            "data", data=values, chunks=(16, 32, 32), compression="gzip", shuffle=True
        )
    for day in range(3):
        with h5py.File(f"day_{day}.h5", "w") as file:
            file["data"] = np.full((4, 5), day)
    scan: Any = nib.Nifti1Image(numbers.integers(0, 99, (60, 70, 800), dtype="i2"), np.eye(4))  # type: ignore[no-untyped-call]
    scan.header.set_slope_inter(0.1, 3)
    nib.save(scan, "scan.nii.gz")
    climate = xarray.Dataset({"temperature": (("time", "cell"), numbers.normal(280, 9, (30, 50)))})
    climate.to_netcdf(
        "climate.nc", encoding={"temperature": {"zlib": True, "chunksizes": (10, 50)}}
    )


@pytest.mark.usefixtures("_files", "installed")
def test_the_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 6
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/xarray-and-dask.md", "exec"), names)
    said = capsys.readouterr().out
    assert "((64,), (96,), (96,))" in said
    assert "float64 int16" in said
    assert "(12, 5) ((12,), (5,))" in said
    assert "(8, 5)" in said
    assert names["image"].dims == ("x", "y", "z")
    assert "('z',)\nmm [[" in said
    np.testing.assert_array_equal(names["part"].hyperslab.affine[:3, 3], [20, 0, 0])
    names["dataset"].close()
