"""Operations counted by ways that know each, of a program that says how many there are."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hyperslab.accesses import OPERATIONS, Accesses
from hyperslab.errors import UsageError
from hyperslab.storage.accounting import bpf, strace
from hyperslab.storage.accounting.calls import MAPS_NOTE
from tests.system.clusters.required import required_to_count

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

NOTES = {strace: [strace.TIMES_NOTE, MAPS_NOTE], bpf: [MAPS_NOTE]}


@pytest.fixture(scope="module", params=[strace, bpf], ids=[strace.WAY, bpf.WAY])
def way(request: pytest.FixtureRequest) -> ModuleType:
    """Each way that knows every operation."""
    found: ModuleType = request.param
    required_to_count(found)
    return found


@pytest.fixture(scope="module")
def planted(way: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Accesses]:
    """The program in an empty directory."""
    place = tmp_path_factory.mktemp("planted")
    before = Path.cwd()
    os.chdir(place)
    try:
        status, accesses = way.count([sys.executable, str(PLANTED)], os.environ)
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


def test_every_operation_is_counted_where_it_belongs(
    way: ModuleType, planted: tuple[Path, Accesses]
) -> None:
    place, accesses = planted
    assert counted(accesses, place) == {name: TOP[name] for name in OPERATIONS if name in TOP}
    assert counted(accesses, place / "sub") == {
        name: SUB[name] for name in OPERATIONS if name in SUB
    }
    assert accesses.meta["notes"] == NOTES[way]


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


def test_the_exit_status_is_that_of_the_command(way: ModuleType) -> None:
    assert way.count(["sh", "-c", "exit 7"], os.environ)[0] == 7
    assert way.count(["sh", "-c", "kill -9 $$"], os.environ)[0] == 128 + 9


def test_what_is_no_program_is_refused(way: ModuleType) -> None:
    with pytest.raises(UsageError, match=r"no-such-program: there is no such program"):
        way.count(["no-such-program"], os.environ)


TYPES = """
import os
keyboard, terminal = os.openpty()
os.write(keyboard, b"typed\\n")
assert os.read(terminal, 10) == b"typed\\n"
"""


def test_what_is_typed_at_a_terminal_is_no_file(way: ModuleType) -> None:
    """Who reads there waits for somebody, and not for a storage."""
    status, accesses = way.count([sys.executable, "-I", "-S", "-c", TYPES], os.environ)
    assert status == 0
    assert counted(accesses, Path("/dev"))["open"] == 1
    assert set(counted(accesses, Path("/dev/pts"))) <= {"open", "close", "stat"}
    assert total(accesses, "write", Path("/dev"), "nbytes") == 0


def test_what_the_command_leaves_behind_is_waited_for_and_counted(
    way: ModuleType, tmp_path: Path
) -> None:
    """It is in a session of its own, and its parent has ended."""
    script = f"setsid sh -c 'sleep 0.1; echo x > {tmp_path}/late' & exit 3"
    status, accesses = way.count(["sh", "-c", script], os.environ)
    assert status == 3
    assert counted(accesses, tmp_path) == {"create": 1, "close": 1, "write": 1}
