"""The examples of docs/xarray-and-dask.md run as they stand there, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.files import ROOT

PAGE = (ROOT / "docs" / "xarray-and-dask.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("installed")
def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an empty directory, whose files the first of them makes."""
    monkeypatch.chdir(tmp_path)
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
