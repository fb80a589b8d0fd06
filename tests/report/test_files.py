"""Numbers of operations on files, the sentence that matters, and what is said of slow scratch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hyperslab.accesses import Access, Accesses, Collected, Count, Totals, Window
from hyperslab.report.files.lines import sentence, table
from hyperslab.report.files.numbers import FileNumbers, numbers_of, numbers_of_totals
from hyperslab.report.files.page import files_html
from hyperslab.report.files.scratch import slow_scratch
from hyperslab.report.verdict.finding import NOTABLE
from tests.report.made_traces import found, rules, side_by_side, trace

MS = 10**6
FINAL, INDEX = "/s/blockmgr-0a/00/shuffle_0_0_0.data", "/s/blockmgr-0a/00/shuffle_0_0_0.index"
MADE = "/s/blockmgr-0a/01/temp_shuffle_77"
EVICTED = "/s/blockmgr-0a/02/rdd_1_0"


def collected(*accesses: tuple[Any, ...]) -> Accesses:
    """Accesses of (start in ms, duration in ms, operation, path, bytes, whether it failed)."""
    found = Collected()
    for start, duration, *rest in accesses:
        found.add(Access(start * MS, duration * MS, 1, *rest))
    return found.done("strace", {"start_ns": 0, "end_ns": 100 * MS, "notes": ["a note"]})


def place_of(path: str, is_written: bool, is_read: bool, is_directory: bool) -> tuple[str, str]:
    if "blockmgr" in path:
        kind = "eviction" if "rdd_" in path else "shuffle"
        return kind, "/s/blockmgr-0a"
    folder = path.rpartition("/")[0]
    return ("output" if is_written else "reader" if is_read else "other"), folder


@pytest.fixture
def accesses() -> Accesses:
    return collected(
        (1, 1, "open", "/in/a", 0, False),
        (2, 1, "open", "/in/b", 0, True),
        (3, 2, "read", "/in/a", 100, False),
        (5, 1, "create", MADE, 0, False),
        (6, 1, "open", MADE, 0, False),
        (7, 1, "unlink", MADE, 0, False),
        (8, 1, "create", FINAL + ".tmp", 0, False),
        (9, 1, "rename", FINAL, 0, False),
        (20, 1, "open", INDEX, 0, False),
        (21, 1, "open", FINAL, 0, False),
        (22, 3, "read", FINAL, 1000, False),
        (23, 1, "create", EVICTED, 0, False),
        (24, 1, "open", EVICTED, 0, False),
        (30, 1, "unlink", FINAL, 0, False),
        (31, 1, "unlink", EVICTED, 0, False),
        (40, 1, "create", "/out/c", 0, False),
        (41, 1, "write", "/out/c", 7, False),
    )


def by(numbers: FileNumbers) -> dict[tuple[str, ...], dict[str, int]]:
    return {
        tuple(group.names.values()): {
            name: count.requested for name, count in group.operations.items()
        }
        for group in numbers.groups
    }


def test_operations_are_put_together_by_kind_and_directory(accesses: Accesses) -> None:
    assert by(numbers_of(accesses, place_of, ("kind", "directory"))) == {
        ("shuffle", "/s/blockmgr-0a"): {
            "open": 3,
            "create": 2,
            "unlink": 2,
            "rename": 1,
            "read": 1,
        },
        ("eviction", "/s/blockmgr-0a"): {"open": 1, "create": 1, "unlink": 1},
        ("reader", "/in"): {"open": 1, "read": 1},
        ("other", "/in"): {"open": 1},
        ("output", "/out"): {"create": 1, "write": 1},
    }


def test_phases_go_by_name_and_else_by_time(accesses: Accesses) -> None:
    windows = [Window("map", 0, 10 * MS), Window("result", 8 * MS, 35 * MS)]
    assert by(numbers_of(accesses, place_of, ("phase",), windows)) == {
        ("map",): {"open": 2, "read": 1},
        ("shuffle write",): {"open": 1, "create": 2, "unlink": 1, "rename": 1},
        ("shuffle read",): {"open": 2, "read": 1},
        ("eviction",): {"create": 1},
        ("re-read",): {"open": 1},
        ("clean-up",): {"unlink": 2},
        ("outside of stages",): {"create": 1, "write": 1},
    }
    assert ("command",) in by(numbers_of(accesses, place_of, ("phase",)))


def test_sums_are_those_of_the_rows(accesses: Accesses) -> None:
    numbers = numbers_of(accesses, place_of, ("kind",))
    assert numbers.total.requested() == len(accesses) == 17
    assert sum(group.requested() for group in numbers.groups) == 17
    opened = numbers.total.operations["open"]
    assert (opened.requested, opened.failed, opened.nbytes) == (6, 1, 0)
    assert opened.seconds == pytest.approx(0.006)
    assert opened.actual == 5
    assert numbers.total.nbytes("read") == 1100
    assert numbers.total.seconds() == pytest.approx(0.020)
    assert numbers.seconds == pytest.approx(0.1)
    assert FileNumbers.from_json(numbers.as_json()) == numbers


def test_no_operations_are_numbers_too() -> None:
    numbers = numbers_of(collected(), place_of, ("kind", "phase"))
    assert (numbers.groups, numbers.total.operations) == ((), {})
    assert sentence(numbers) == "There were no operations on files."
    assert len(table(numbers)) == 2


def test_the_sentence_says_what_matters(accesses: Accesses) -> None:
    said = sentence(numbers_of(accesses, place_of, ("kind", "directory")))
    assert said == (
        "Names, not bytes: 70 % of the 20 ms that 17 operations on files took in all threads were"
        " for names and attributes; 57 % of that for shuffle in /s/blockmgr-0a: 3 open, 2 create"
        " and 2 unlink."
    )
    read = collected((0, 90, "read", "/in/a", 10**6, False), (1, 1, "close", "/in/a", 0, False))
    assert sentence(numbers_of(read, place_of, ("kind",))).startswith(
        "Bytes, not names: 99 % of the 91 ms that 2 operations on files took in all threads moved"
        " data (1.00 MB read and 0 B written)"
    )


def test_sums_alone_are_told_without_times() -> None:
    operations = {"open": Count(5, None, 0, None), "read": Count(7, None, 2000, None)}
    numbers = numbers_of_totals(Totals("fuse", "/d", operations, ("of all",)))
    assert sentence(numbers) == "12 operations on files, 2.00 kB read and 0 B written."
    assert [line.split()[0] for line in table(numbers)] == ["asked", "5", "5"]


def test_the_page_shows_phases_and_directories(accesses: Accesses) -> None:
    assert files_html({}) == ""
    phases = numbers_of(accesses, place_of, ("phase", "kind"))
    directories = numbers_of(accesses, place_of, ("kind", "directory"))
    meta = {"files": {"phases": phases.as_json(), "directories": directories.as_json()}}
    page = files_html(meta)
    assert '<td class="text">shuffle write</td><td class="text">shuffle</td>' in page
    assert '<td class="text">/s/blockmgr-0a</td>' in page
    assert "a note." in page


def shuffling(each_ms: float, number: int = 200) -> Accesses:
    """Operations on names of a shuffle, and one read of it."""
    rows = [(n, 1, "open", INDEX, 0, False) for n in range(number)]
    accesses = collected(*rows, (300, 10, "read", FINAL, 1000, False))
    accesses.columns["duration_ns"][:number] = round(each_ms * MS)
    return accesses


def test_slow_scratch_is_what_takes_long_for_each_name() -> None:
    def of(accesses: Accesses) -> Any:
        return slow_scratch(numbers_of(accesses, place_of, ("phase",)).groups)

    slow = of(shuffling(10.0))
    assert (slow.phases, slow.operations) == (("shuffle read",), 200)
    assert (slow.seconds, slow.data_s) == (pytest.approx(2.0), pytest.approx(0.01))
    assert slow.elsewhere_s == 0.0
    assert of(shuffling(0.1)) is None
    assert of(shuffling(10.0, number=0)) is None
    fast = shuffling(1.0)
    fast.columns["duration_ns"][200] = 10**9
    assert of(fast) is None


def test_a_machine_that_is_slow_at_all_files_has_no_slow_scratch() -> None:
    rows = [(n, 10, "open", INDEX, 0, False) for n in range(50)]
    rows += [(n, 10, "stat", "/in/a", 0, False) for n in range(50)]
    groups = numbers_of(collected(*rows), place_of, ("phase",)).groups
    assert slow_scratch(groups) is None
    faster = [(n, 1, "stat", "/in/a", 0, False) for n in range(50)]
    found = slow_scratch(numbers_of(collected(*rows[:50], *faster), place_of, ("phase",)).groups)
    assert found is not None
    assert found.excess_s == pytest.approx(50 * 0.009)


def test_the_verdict_names_slow_scratch_and_the_remedy() -> None:
    spans = side_by_side("compute", tasks=8, length_s=1.0, cpu=0.1)  # 8 s of slots
    said = found(trace(spans, files=told(shuffling(10.0))), "slow-scratch")
    assert said.share == pytest.approx(0.25)
    assert "25 % of the slots' time went into names and attributes" in said.sentence
    assert "200 operations took 10 ms each" in said.evidence
    assert "--scratch image:DIR" in said.advice
    assert "bypassMergeThreshold=1 saves a third of the opens" in said.advice
    assert "checksum.enabled=false saves a file for each map task" in said.advice
    almost = shuffling(10.0 * NOTABLE * 0.99 / 0.25)
    assert "slow-scratch" not in rules(trace(spans, files=told(almost)))
    assert "slow-scratch" not in rules(trace(spans))


def told(accesses: Accesses) -> dict[str, Any]:
    phases = numbers_of(accesses, place_of, ("phase", "kind"))
    return {"phases": phases.as_json(), "directories": replace(phases, groups=()).as_json()}
