"""The examples of docs/spark.md, and of the README, run as they stand there, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

from hyperslab.engines.spark import java
from tests.formats.files import ROOT

LIGHTER = {"iterations=20": "iterations=2", "iterations=50": "iterations=2"}
"What takes many jobs of Spark, of which fewer show as much."


THE_END = "The page ends here."
HEAD = "colin27_ch2_T1w.nii.gz"


def thinned(path: Path) -> Any:
    """An image of every other voxel along two of its axes: a quarter of what Spark has to move."""
    image: Any = nib.load(path)
    return image.slicer[::2, :, ::2]


def write_head(folder: Path) -> None:
    """The head that the README names, which is smaller; docs/spark.md makes its own files."""
    nib.save(thinned(ROOT / "examples" / "data" / HEAD), folder / HEAD)


def blocks_of(page: str, heading: str = "") -> list[str]:
    """The blocks of Python on a page, or in one of its sections."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if heading:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@contextmanager
def warnings_of_java(spark: Any, log: Path) -> Iterator[None]:
    """Write what Java says in a block, down to its warnings, to a file."""
    before = java.log_size()
    spark.sparkContext.setLogLevel("WARN")
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    spark._jvm.System.err.println(THE_END)
    java.copy_log(before, log)
    assert THE_END in log.read_text()


def test_the_pages(
    spark: Any,
    standing: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the session that is there, as `session` says, and where Java stands."""
    monkeypatch.chdir(standing)
    write_head(standing)
    page, readme = blocks_of("docs/spark.md"), blocks_of("README.md", "Spark")
    more = ["print(first_year.getNumPartitions(), scan.count())"]
    code = "\n".join([*page, *more, *readme])
    for said, typed in LIGHTER.items():
        assert said in code
        code = code.replace(said, typed)
    with warnings_of_java(spark, tmp_path / "java.log"):
        exec(compile(code, "page.py", "exec"), {"__name__": "__main__"})
    warned = (tmp_path / "java.log").read_text()
    assert "lineage" not in warned, "what nobody asks for again is no warning"
    told = capsys.readouterr().out.splitlines()
    with h5py.File(standing / "climate.h5") as file:
        values = file["temperature"][()]
    with h5py.File(standing / "doubled.h5") as file:
        np.testing.assert_array_equal(file["temperature"], values * 2)
    with h5py.File(standing / "year.h5") as file:
        np.testing.assert_array_equal(file["temperature"], values[:365])
    assert float(told[0]) == pytest.approx(float(values.sum(dtype="f8")))
    assert told[1:4] == ["(24,)", "0", "11"], "the last index is that of three files"
    assert "365" in told
    assert sum("[4, 5]" in text for text in told) == 3, "the catalogue has three files"
    assert any(text.endswith(" (3, 24)") for text in told)
    assert "(4, 24) True" in told
    assert told[-2:] == ["2 8", "(10, 91) (10, 91) (91, 10)"]
    image: Any = nib.load(standing / HEAD)
    with h5py.File(standing / "upper.h5") as file:
        np.testing.assert_array_equal(
            file["data"], np.moveaxis(image.get_fdata(), 2, 0)[90:].reshape(1, -1)
        )
