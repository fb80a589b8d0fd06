"""The examples of docs/spark.md, and of the README, run as they stand there, one after the other,
in a new process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

from tests.formats.files import ROOT

LIGHTER = {"iterations=20": "iterations=2", "iterations=50": "iterations=2"}
"What takes many jobs of Spark, of which fewer show as much."


HEAD = "colin27_ch2_T1w.nii.gz"


def thinned(path: Path) -> Any:
    """An image of every other voxel along two of its axes: a quarter of what Spark has to move."""
    image: Any = nib.load(path)
    return image.slicer[::2, :, ::2]


def write_files(folder: Path) -> None:
    """The files that the pages name."""
    numbers = np.random.default_rng(0)
    (folder / "days").mkdir()
    with h5py.File(folder / "climate.h5", "w") as file:
        values = numbers.uniform(1, 9, (730, 24)).astype("f4")
        file.create_dataset(
            "temperature", data=values, chunks=(73, 24), compression="gzip", shuffle=True
        )
    for day in range(3):
        with h5py.File(folder / "days" / f"day_{day}.h5", "w") as file:
            file["data"] = np.full((4, 5), day)
    nib.save(thinned(ROOT / "examples" / "data" / HEAD), folder / HEAD)
    image: Any = nib.Nifti1Image(numbers.integers(0, 99, (20, 30, 8), dtype="i2"), np.eye(4))  # type: ignore[no-untyped-call]
    nib.save(image, folder / "scan.nii.gz")


def blocks_of(page: str, heading: str = "") -> list[str]:
    """The blocks of Python on a page, or in one of its sections."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_pages(tmp_path: Path) -> None:
    write_files(tmp_path)
    page, readme = blocks_of("docs/spark.md"), blocks_of("README.md", "Spark")
    more = ["print(first_year.getNumPartitions(), scan.count())"]
    code = "\n".join([*page, *more, *readme])
    for said, typed in LIGHTER.items():
        assert said in code
        code = code.replace(said, typed)
    (tmp_path / "page.py").write_text(code)
    line = [sys.executable, "page.py"]
    ran = subprocess.run(
        line, cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "lineage" not in ran.stderr, "what nobody asks for again is no warning"
    told = ran.stdout.splitlines()
    with h5py.File(tmp_path / "climate.h5") as file:
        values = file["temperature"][()]
    with h5py.File(tmp_path / "doubled.h5") as file:
        np.testing.assert_array_equal(file["temperature"], values * 2)
    with h5py.File(tmp_path / "year.h5") as file:
        np.testing.assert_array_equal(file["temperature"], values[:365])
    assert float(told[0]) == pytest.approx(float(values.sum(dtype="f8")))
    assert told[1:4] == ["(24,)", "0", "11"], "the last index is that of three files"
    assert "365" in told
    assert sum("[4, 5]" in text for text in told) == 3, "the catalogue has three files"
    assert any(text.endswith(" (3, 24)") for text in told)
    assert "(4, 24) True" in told
    assert told[-2:] == ["2 8", "(10, 91) (10, 91) (91, 10)"]
    image: Any = nib.load(tmp_path / HEAD)
    with h5py.File(tmp_path / "upper.h5") as file:
        np.testing.assert_array_equal(
            file["data"], np.moveaxis(image.get_fdata(), 2, 0)[90:].reshape(1, -1)
        )
