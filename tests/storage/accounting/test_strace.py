"""Operations counted by strace, of a program that says how many there are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from hyperslab.accesses import OPERATIONS, Accesses
from hyperslab.errors import UsageError
from hyperslab.storage.accounting import strace
from tests.system.clusters.required import required

PLANTED = Path(__file__).with_name("planted.py")
TOP = {
    "open": 4,
    "create": 2,
    "stat": 1,
    "truncate": 1,
    "sync": 1,
    "mkdir": 3,
    "unlink": 2,
    "write": 1,
    "read": 1,
    "close": 5,
}
"Operations in the directory where the program is started."
SUB = {
    "open": 1,
    "create": 1,
    "stat": 2,
    "unlink": 2,
    "rename": 1,
    "truncate": 1,
    "close": 3,
    "write": 1,
    "map": 1,
}


@pytest.fixture(scope="module", autouse=True)
def _strace_works() -> None:
    required(strace.why_not())


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Accesses]:
    """The program in an empty directory."""
    place = tmp_path_factory.mktemp("planted")
    before = Path.cwd()
    os.chdir(place)
    try:
        status, accesses = strace.count([sys.executable, str(PLANTED)], os.environ)
    finally:
        os.chdir(before)
    assert status == 0
    return place, accesses


def counted(accesses: Accesses, folder: Path) -> dict[str, int]:
    """Number of operations on what lies in a folder, by their names."""
    each = accesses.columns
    inside = np.array([Path(path).parent == folder for path in accesses.paths])
    counts = np.bincount(each["operation"][inside[each["path"]]], minlength=len(OPERATIONS))
    return {name: int(n) for name, n in zip(OPERATIONS, counts, strict=True) if n}


def total(accesses: Accesses, operation: str, folder: Path, column: str) -> int:
    """Sum of a column over such operations in a folder."""
    each = accesses.columns
    inside = np.array([Path(path).parent == folder for path in accesses.paths])
    rows = inside[each["path"]] & (each["operation"] == OPERATIONS.index(operation))
    return int(each[column][rows].sum())


def test_every_operation_is_counted_where_it_belongs(planted: tuple[Path, Accesses]) -> None:
    place, accesses = planted
    assert counted(accesses, place) == {name: TOP[name] for name in OPERATIONS if name in TOP}
    assert counted(accesses, place / "sub") == {
        name: SUB[name] for name in OPERATIONS if name in SUB
    }
    assert accesses.meta["notes"] == [strace.TIMES_NOTE, strace.MAPS_NOTE]


def test_bytes_and_refusals_are_those_of_the_program(planted: tuple[Path, Accesses]) -> None:
    place, accesses = planted
    assert total(accesses, "write", place, "nbytes") == 100
    assert total(accesses, "read", place, "nbytes") == 40
    assert total(accesses, "write", place / "sub", "nbytes") == 10
    assert total(accesses, "map", place / "sub", "nbytes") == 4096
    assert total(accesses, "open", place, "has_failed") == 2
    assert accesses.columns["has_failed"].sum() > 2  # Python looks for modules in vain
    assert str(place / "sub" / 'a "b" <c>, ) = 3 ä\n') in accesses.paths


def test_times_are_within_those_of_the_command(planted: tuple[Path, Accesses]) -> None:
    each = planted[1].columns
    meta = planted[1].meta
    assert (each["start_ns"] >= meta["start_ns"] - 10**6).all()
    assert (each["start_ns"] + each["duration_ns"] <= meta["end_ns"] + 10**6).all()
    assert (each["duration_ns"] >= 0).all()


def test_rows_are_read_back_as_they_were_written(
    planted: tuple[Path, Accesses], tmp_path: Path
) -> None:
    accesses = planted[1]
    accesses.save(tmp_path / "all.parquet")
    again = Accesses.load(tmp_path / "all.parquet")
    assert (again.way, again.meta, again.paths) == (accesses.way, accesses.meta, accesses.paths)
    for name, column in accesses.columns.items():
        np.testing.assert_array_equal(again.columns[name], column)


def test_the_exit_status_is_that_of_the_command() -> None:
    assert strace.count(["sh", "-c", "exit 7"], os.environ)[0] == 7
    assert strace.count(["sh", "-c", "kill -9 $$"], os.environ)[0] == 128 + 9


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no-such-program: there is no such program"):
        strace.count(["no-such-program"], os.environ)
