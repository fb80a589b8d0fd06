"""Whatever the moment of death, the journal and the partials give every task's result exactly
once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks.writing import Written
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.resume import Inherited, results
from hyperslab.errors import RunStopped
from hyperslab.plan.command import Ran
from hyperslab.plan.failure import Failure
from hyperslab.plan.function import refer
from hyperslab.plan.journal import (
    Partial,
    SlotJournal,
    Tail,
    decode,
    encode,
    load_partials,
    merge_partials,
    save_partial,
    saved_tasks,
)
from hyperslab.plan.pipeline import Fold
from hyperslab.plan.steps import outcome_of
from hyperslab.plan.task import Outcome, Task
from hyperslab.trace import Phase, Span, Trace
from tests.examples import examples

TASKS = 12
texts = st.text(max_size=20)
sizes = st.integers(0, 2**62)
phases = st.builds(
    Phase, st.sampled_from(["open", "read", "compute", "write"]), sizes, sizes, sizes, sizes, sizes
)
outcomes = st.builds(
    Outcome,
    task=st.integers(0, 2**40),
    attempt=st.integers(0, 9),
    status=st.sampled_from(["done", "failed", "lost", "timeout"]),
    failure=st.none() | st.builds(Failure, texts, texts, texts, st.booleans(), texts),
    outputs=st.lists(st.builds(Written, texts, sizes, texts), max_size=3).map(tuple),
    phases=st.lists(phases, max_size=4).map(tuple),
    slot=texts,
    max_rss=sizes,
)


def merge(a: Counter[int], b: Counter[int]) -> Counter[int]:
    """How often each task is in a value; changes and returns its first argument, as folds may."""
    a.update(b)
    return a


def submission(folder: Path) -> Path:
    for part in ("journal", "partials"):
        (folder / part).mkdir(parents=True)
    return folder


def done(task: int, value: Any = None) -> Outcome:
    return Outcome(task, 0, "done", value=value)


@st.composite
def lives(draw: st.DrawFn, tasks: Sequence[int]) -> list[tuple[list[int], list[int], str, float]]:
    """What becomes of slots: the tasks of each, after which of them it flushes, how it dies, and
    where that cuts.
    """
    order, found = list(draw(st.permutations(tasks))), []
    while order:
        own = [order.pop() for _ in range(draw(st.integers(1, len(order))))]
        flushes = draw(st.lists(st.sampled_from(own), unique=True))
        death = draw(
            st.sampled_from(
                ["not", "before flush", "between partial and lines", "while appending", "torn"]
            )
        )
        found.append((own, flushes, death, draw(st.floats(0, 1))))
    return found


@contextlib.contextmanager
def dying_disk(death: str, cut: float) -> Iterator[None]:
    """A flush under which the process dies after its partial is saved: no line, or part of them, is
    appended.
    """
    whole = os.write

    def write(fd: int, data: bytes) -> int:
        if death == "while appending":
            whole(fd, data[: int(len(data) * cut)])
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", write)
        patch.setattr(os, "ftruncate", lambda fd, size: None)
        with contextlib.suppress(KeyboardInterrupt):
            yield


def live(
    folder: Path, name: str, life: tuple[list[int], list[int], str, float], folding: bool
) -> None:
    """Run a slot until its death."""
    own, flushes, death, cut = life
    journal = SlotJournal(folder, name, "p1", merge if folding else None)
    journal._due_at = float("inf")  # flushes happen when the test says so
    for task in own:
        journal.record(done(task, Counter([task]) if folding else None))
        if task in flushes:
            journal.flush()
            journal._due_at = float("inf")
    if death == "not":
        journal.close()
        return
    if death in ("between partial and lines", "while appending"):
        with dying_disk(death, cut):
            journal.flush()
    os.close(journal._lines)
    path = folder / "journal" / f"{name}.p1.jsonl"
    if death == "torn":  # the machine died: what it had not yet written back is gone
        os.truncate(path, int(path.stat().st_size * cut))
        for saved in (folder / "partials").glob(f"{name}.*"):
            os.truncate(saved, int(saved.stat().st_size * (1 if cut > 0.5 else cut)))


@settings(max_examples=examples(150))
@given(st.data(), st.integers(1, 4))
def test_a_reduction_is_exact_whatever_the_deaths(data: st.DataObject, submissions: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        folders: list[Path] = []
        for number in range(submissions + 1):
            held = {
                i
                for partial in load_partials([(folder, None) for folder in folders], range(TASKS))
                for i in partial.tasks
            }
            missing = [task for task in range(TASKS) if task not in held]
            folders.append(submission(Path(root) / f"run-{number}"))
            last = number == submissions
            for slot, life in enumerate(data.draw(lives(missing)) if missing else []):
                live(
                    folders[-1], f"s{slot}", (*life[:2], "not", 0.0) if last else life, folding=True
                )
            assert saved_tasks(folders[-1]) <= set(missing)
        total = merge_partials(
            load_partials([(folder, None) for folder in folders], range(TASKS)), merge
        )
    assert total.value == Counter(range(TASKS))
    assert sorted(total.tasks) == list(range(TASKS))


@settings(max_examples=examples(100))
@given(st.data(), st.integers(1, 3))
def test_a_map_misses_only_what_was_not_recorded(data: st.DataObject, submissions: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        directory = RunDirectory(Path(root))
        for number in range(submissions + 1):
            known = set(results([Inherited(folder) for folder in directory.submissions()]))
            missing = [task for task in range(TASKS) if task not in known]
            folder = directory.new_submission({"fingerprint": "same"})
            ends = data.draw(lives(missing)) if missing else []
            for slot, life in enumerate(ends):
                live(
                    folder,
                    f"s{slot}",
                    (*life[:2], "not", 0.0) if number == submissions else life,
                    folding=False,
                )
            found = [outcome.task for outcome in Tail(folder).poll()]
            assert len(set(found)) == len(found)
            assert set(found) <= set(missing)
            flushed = {
                t for own, flushes, death, _ in ends if death == "not" and not flushes for t in own
            }
            assert flushed <= set(found)
        assert results([Inherited(folder) for folder in directory.submissions()]).keys() == set(
            range(TASKS)
        )


def test_the_outcome_of_a_command_waits_for_no_other_one(tmp_path: Path) -> None:
    """As it may be a long one; those of functions, which may be short, are written together."""
    folder = RunDirectory(tmp_path).new_submission({})
    tail = Tail(folder)
    with contextlib.closing(SlotJournal(folder, "here/w0/t0", "0")) as own:
        own._due_at = float("inf")
        own.record(done(0))
        assert tail.poll() == []
        own.record(Outcome(1, 0, "staged", ran=Ran("true", 0, 0.1, 0.1, 0.1, 1, "log", 0, 0)))
        assert [outcome.task for outcome in tail.poll()] == [0, 1]


@given(outcomes)
def test_a_line_gives_back_its_outcome(outcome: Outcome) -> None:
    line = encode(outcome)
    assert line.count(b"\n") == 1
    assert decode(line) == outcome


@settings(max_examples=examples(50))
@given(st.lists(outcomes, max_size=6), st.lists(st.floats(0, 1), max_size=4))
def test_a_tail_takes_every_line_once_however_it_grows(
    recorded: list[Outcome], cuts: list[float]
) -> None:
    data = b"".join(map(encode, recorded))
    with tempfile.TemporaryDirectory() as root:
        folder = submission(Path(root) / "run")
        tail, found = Tail(folder), []
        for end in [*sorted(int(len(data) * cut) for cut in cuts), len(data)]:
            (folder / "journal" / "slot.jsonl").write_bytes(data[:end])
            found += tail.poll()
        assert found == recorded
        assert tail.poll() == []


@settings(max_examples=examples(50))
@given(st.integers(0, TASKS - 1), st.sets(st.integers(0, TASKS - 1)))
def test_a_merge_that_fails_half_way_spoils_nothing(bad: int, flushes: set[int]) -> None:
    """It may have changed its first argument: what is saved, or recorded as done, does not rest on
    that.
    """

    def merge_badly(a: list[int], b: list[int]) -> list[int]:
        a.append(b[0])
        if b == [bad]:
            raise ValueError("half done")
        return a

    with tempfile.TemporaryDirectory() as root:
        folder = submission(Path(root) / "run")
        journal = SlotJournal(folder, "slot", "p1", merge_badly)
        journal._due_at = float("inf")
        for task in range(TASKS):
            journal.record(done(task, [task]))
            if task in flushes:
                journal.flush()
        journal.close()
        status = {outcome.task: outcome.status for outcome in Tail(folder).poll()}
        partial = merge_partials(load_partials([(folder, None)], range(TASKS)), merge_badly)
    assert (
        sorted(partial.value or [])
        == sorted(partial.tasks)
        == [t for t in status if status[t] == "done"]
    )
    assert status.keys() == set(range(TASKS))
    assert status[bad] == ("failed" if bad else "done")


def test_a_journal_that_cannot_grow_stops_the_run(tmp_path: Path) -> None:
    folder = submission(tmp_path / "run")
    journal = SlotJournal(folder, "slot", "p1", merge)
    journal._due_at = float("inf")
    journal.record(done(0, Counter([0])))
    (folder / "partials").rmdir()
    with pytest.raises(RunStopped, match=f"cannot be written .*{folder}"):
        journal.flush()
    assert Tail(folder).poll() == [], "an outcome waits for the partial that it rests on"
    (folder / "partials").mkdir()
    journal.close()
    assert [outcome.task for outcome in Tail(folder).poll()] == [0], (
        "nothing was lost, nothing came twice"
    )


def test_a_line_for_which_there_is_no_room_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = submission(tmp_path / "run")
    journal = SlotJournal(folder, "slot", "p1")
    journal._due_at = float("inf")
    journal.record(done(0))
    write = os.write

    def full(fd: int, data: bytes) -> int:
        write(fd, data[:9])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(RunStopped, match="No space left"):
            journal.flush()
    (lines,) = (folder / "journal").iterdir()
    assert lines.read_bytes() == b""
    journal.close()
    assert [outcome.task for outcome in Tail(folder).poll()] == [0]


def test_steps_are_run_in_turn(tmp_path: Path) -> None:
    folder = submission(tmp_path / "run")
    journal = SlotJournal(folder, "slot", "p1", Fold(len, max).merge)
    task = Task(3, 0, Hyperslab((0,), (1,)), ((0, 0),), (), (), 0, 0, 0)
    for number in range(2):
        steps = [lambda t: (t.id, 5), lambda pair: done(pair[0], pair[1] + pair[0])]
        journal.take(outcome_of(replace(task, id=number), steps))
    journal.close()
    (partial,) = load_partials([(folder, None)], range(2))
    assert (sorted(partial.tasks), partial.value) == ([0, 1], 6)
    assert all(outcome.max_rss > 0 and outcome.slot == "slot" for outcome in Tail(folder).poll())


spans = st.builds(
    Span,
    sizes,
    st.integers(0, 9),
    texts,
    texts,
    sizes,
    sizes,
    sizes,
    sizes,
    st.integers(-1, 2**62),
    st.booleans(),
)


@settings(max_examples=examples(30))
@given(
    st.lists(spans, max_size=8),
    st.lists(texts, max_size=3),
    st.dictionaries(texts, sizes | texts, max_size=4),
)
def test_a_saved_trace_is_the_trace(
    found: list[Span], slots: list[str], meta: dict[str, Any]
) -> None:
    trace = Trace(found, slots, "predicted", meta)
    with tempfile.TemporaryDirectory() as root:
        trace.save(Path(root) / "trace.parquet")
        assert Trace.load(Path(root) / "trace.parquet") == trace


LOADS = """
import os, sys
from pathlib import Path
import pyarrow.parquet
from hyperslab.trace import Span, Trace
path = Path(sys.argv[1])
Trace([Span(0, 0, "a", "read", 0, 1, 2, 3, 4, False)], ["a"]).save(path)
before = set(os.listdir("/proc/self/task"))
Trace.load(path)
print(len(set(os.listdir("/proc/self/task")) - before), "pandas" in sys.modules)
"""


def test_a_trace_is_read_without_threads_that_a_process_could_leave_behind(tmp_path: Path) -> None:
    # a process that ended while Arrow's threads did aborted, in one of some twenty reports
    words = [sys.executable, "-c", LOADS, str(tmp_path / "trace.parquet")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    # and pandas, which Arrow imports to convert lists, took longer than a small run
    assert done.stdout == "0 False\n"


def test_a_saved_trace_has_the_columns_of_earlier_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr("hyperslab.trace.SPANS_AT_A_TIME", 4)
    found = [Span(n, 0, f"h/w{n}/t0", "read", n, n + 1, 2, 3, -1, n % 3 == 0) for n in range(21)]
    trace = Trace(found, ["h/w0/t0"], meta={"engine": "serial"})
    trace.save(tmp_path / "trace.parquet")
    whole = pa.int64()
    kinds = [whole, whole, pa.string(), pa.string(), *[whole] * 5, pa.bool_()]
    table = pq.read_table(tmp_path / "trace.parquet", use_threads=False, pre_buffer=False)
    assert table.schema == pa.schema(list(zip(Span.__slots__, kinds, strict=True)))
    assert list(table.schema.metadata) == [b"hyperslab"]
    assert table.to_pylist() == [asdict(span) for span in found]
    assert Trace.load(tmp_path / "trace.parquet") == trace


@pytest.mark.parametrize(("after", "tasks"), [("class SumOfMine:", [3]), ("class Total:", [])])
def test_values_of_a_users_class_are_found_after_its_file_was_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str, tasks: list[int]
) -> None:
    """Unless the class has gone: then their tasks count as not done."""
    mine = tmp_path / "mine.py"
    before = f"# {tmp_path}\nclass SumOfMine:\n    n = 7\n"
    mine.write_text(before)
    found = refer(f"{mine}:SumOfMine").load()
    saved = tmp_path / "partials" / "a.pickle"
    saved.parent.mkdir()
    save_partial(saved, Partial([3], found()))
    monkeypatch.delitem(sys.modules, found.__module__)  # as in a process that begins
    mine.write_text(before.replace("class SumOfMine:", f"# edited\n{after}"))
    now = refer(f"{mine}:{after[6:-1]}").load()
    partials = load_partials([(tmp_path, None)], range(9))
    assert sorted(saved_tasks(tmp_path)) == tasks
    assert [type(partial.value) for partial in partials] == [now] * len(tasks)
    monkeypatch.delitem(sys.modules, now.__module__)
