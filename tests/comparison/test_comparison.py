"""The comparison on some dozens of cases of a fixed seed; and that it finds what is wrong, whatever
that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks import reading
from hyperslab.errors import FormatError
from tests.comparison import refusals
from tests.comparison.__main__ import main
from tests.comparison.cases import examine
from tests.comparison.sameness import unlike
from tests.comparison.selections import select
from tests.comparison.workers import Task, outcomes
from tests.examples import examples
from tests.loaded import crashing_or_hanging

SEED = "20"
CASES = str(examples(100))


def test_random_datasets_are_read_as_their_libraries_read_them(
    capfd: pytest.CaptureFixture[str],
) -> None:
    status = main(["--seed", SEED, "--number", CASES, "--processes", "1"])
    assert status == 0, capfd.readouterr().out


def test_a_wrong_element_is_found_and_said_how_to_show_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = reading.read

    def wrong(source: ArraySource, slab: Hyperslab, *more: Any, **named: Any) -> Array:
        block = read(source, slab, *more, **named)
        if block.size:
            block.flat[-1] = 1 - block.flat[-1].astype("i1")
        return block

    monkeypatch.setattr(reading, "read", wrong)
    assert main(["--seed", "1", "--kind", "nifti", "--number", "4", "--processes", "0"]) == 1
    told = capsys.readouterr().out
    assert "elements differ, the first at" in told
    assert "python -m tests.comparison --seed 1 --kind nifti --only 0" in told


def test_a_refusal_without_a_known_reason_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusing(*_: Any, **__: Any) -> Array:
        raise FormatError("made.nii: today is no day for reading; come back tomorrow")

    monkeypatch.setattr(reading, "read", refusing)
    assert main(["--seed", "1", "--kind", "nifti", "--only", "0", "--processes", "0"]) == 1
    assert "refused, FormatError: made.nii: today is no day for reading" in capsys.readouterr().out


def test_an_exception_that_is_no_sentence_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "read", None)
    assert main(["--seed", "1", "--kind", "nifti", "--only", "0", "--processes", "0"]) == 1
    assert "TypeError: 'NoneType' object is not callable" in capsys.readouterr().out


def test_a_crash_and_a_hang_are_cases_as_others() -> None:
    found = {
        outcome.number: outcome
        for outcome in outcomes(Task(crashing_or_hanging, 1, "", 2.0), range(5), 1)
    }
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert found[1].ledger.findings[0].startswith("its process ended with SIGSEGV")
    assert found[2].ledger.findings[0].startswith("it hangs")
    assert "in crashing_or_hanging" in found[2].ledger.findings[0]
    assert [found[number].ledger.datasets for number in (0, 3, 4)] == [1, 1, 1]


def test_a_case_is_the_same_wherever_it_is_examined(tmp_path: Path) -> None:
    ledgers = []
    for name in ("here", "in a folder of another name"):
        (tmp_path / name).mkdir()
        ledgers.append(examine(7, 3, tmp_path / name))
    assert ledgers[0] == ledgers[1]


@pytest.mark.parametrize(
    ("found", "expected", "said"),
    [
        (np.array([1, np.nan], "f4"), np.array([1, np.nan], "f4"), ""),
        (np.array([0.0]), np.array([-0.0]), "1 of 1 elements differ, the first at (0,)"),
        (np.zeros(3, "i2"), np.zeros(3, "i4"), "its dtype is int16, not int32"),
        (np.zeros((3, 1)), np.zeros(3), "its shape is (3, 1), not (3,)"),
        (np.zeros(2, "i2, f4"), np.ones(2, "i2, f4"), "field f0: 2 of 2 elements differ"),
        (np.array(["a", b"b"], object), np.array(["a", b"c"], object), "1 of 2 elements differ"),
    ],
)
def test_sameness_is_of_bits(found: Array, expected: Array, said: str) -> None:
    assert unlike(found, expected).startswith(said)
    assert bool(unlike(found, expected)) == bool(said)


def test_a_nan_with_another_payload_is_another_one_unless_it_was_computed() -> None:
    quiet, other = (np.array([bits], "u4").view("f4") for bits in (0x7FC00000, 0x7FC00001))
    assert unlike(quiet, other)
    assert not unlike(quiet, other, any_nan=True)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (4, 0, 3), (3, 4, 5, 2)])
def test_selections_are_numpys(shape: Sequence[int]) -> None:
    whole, rng = np.arange(np.prod(shape, dtype=int)).reshape(shape), Random(1)
    for _ in range(200):
        selection = select(rng, shape)
        part = selection.of(whole)
        if selection.listed is None:
            assert part.shape == np.asarray(whole[selection.parts]).shape
        assert np.isin(part, whole).all()


def test_a_refusal_is_known_by_its_way_and_its_words() -> None:
    assert refusals.reason("convert to nc", "a.nc: netCDF cannot hold float16; write .h5") != ""
    assert refusals.reason("open, stored", "a.nc: netCDF cannot hold float16; write .h5") == ""
    assert refusals.reason("open, stored", "a.nc: it is a bad day") == ""
