"""`hyperslab run` with inputs that are not alike, and what their functions return, against nibabel
and NumPy.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from tests.system.end_to_end.command import (
    ANATOMICAL,
    assembled,
    call,
    only_output,
    succeed,
    values_of,
)

SERIAL = ("--engine", "serial", "--no-report", "-q")
MINE = """
import numpy as np

def bright(block):
    return block > 9000

def halve(block):
    return block / 2

def octuple(block):
    return block.astype(np.float64) * 8
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize("more", [["--keep", "volume"], ["--format", "nii.gz"], ["--blocks", "4"]])
def test_truth_goes_to_nifti_as_uint8(mine: Path, tmp_path: Path, more: list[str]) -> None:
    out = tmp_path / "out"
    succeed("run", f"{mine}:bright", ANATOMICAL, "-o", out, *SERIAL, "--dtype", "bool", *more)
    found = assembled(out, ANATOMICAL)
    assert found.dtype == np.uint8
    assert np.array_equal(found, values_of(ANATOMICAL) > 9000)


def test_a_dtype_casts_what_fits(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeed(
        "run",
        f"{mine}:octuple",
        ANATOMICAL,
        "-o",
        out,
        *SERIAL,
        "--dtype",
        "int32",
        "--keep",
        "volume",
    )
    found = values_of(only_output(out))
    assert found.dtype == np.int32
    assert np.array_equal(found, values_of(ANATOMICAL) * np.int32(8))


@pytest.mark.parametrize(
    ("function", "dtype"), [("halve", "int16"), ("octuple", "int16"), ("octuple", "uint8")]
)
def test_a_value_that_does_not_fit_is_named_with_its_block(
    mine: Path, tmp_path: Path, function: str, dtype: str
) -> None:
    values = values_of(ANATOMICAL).astype(np.float64)
    made = values / 2 if function == "halve" else values * 8
    done = call(
        "run",
        f"{mine}:{function}",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--dtype",
        dtype,
        *("--blocks", "1x1x2", "--halo", "1"),
        *SERIAL,
    )
    assert done.code == 1
    said = rf"41, {{}}\]: --dtype {dtype}: the value (\S+) at (\(.*?\)) has no equal there"
    for region, own in (("0:13", range(12)), ("11:25", range(12, 25))):
        told = re.search(said.format(region), done.err)
        assert told, done.err
        where = ast.literal_eval(told[2])
        assert where[2] in own
        assert float(told[1]) == made[where]
        info = np.iinfo(dtype)
        assert made[where] % 1 or not info.min <= made[where] <= info.max
