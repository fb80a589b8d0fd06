"""Break-even of engines by the length of tasks, by numbers that are made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import Answer, answer_of
from hyperslab.apps.experiment.answers.break_even import (
    Cost,
    Parts,
    break_evens,
    costs_of,
    decision,
)
from hyperslab.apps.experiment.statistics.intervals import Interval
from hyperslab.apps.experiment.trials.record import Record
from tests.apps.experiment.specs import TEXT, attempt, experiment

VARIED = """\
files = 16

[grid]
engine = ["threads", "processes"]

[vary]
files = [4, 64]
"""
BY_FILES = TEXT.replace("iterations = 1\ndelay = 0\n\n", "").replace(
    "[vary]\niterations = [2]\ndelay = [0.01]\n", VARIED
)
COSTS = {"serial": (1.0, 0.010), "threads": (1.0, 0.012), "processes": (3.0, 0.110)}
"Fixed seconds of a run, and seconds of a slot for a task."
TASK_S, SLOTS = 0.2, 2


def _answer(root: Path, odd: Sequence[str] = ()) -> Answer:
    """Engines that cost what they are made to; odd ones wait for a second at 16 files."""
    asked = experiment(root, BY_FILES)
    attempts = []
    for trial in asked.trials:
        engine, files = str(trial.cell.levels["engine"]), int(str(trial.cell.levels["files"]))
        fixed_s, cost_s = COSTS[engine]
        drift_s = 0.1 * trial.replicate
        waited_s = 2.0 if engine in odd and files == 16 else 0.0
        busy_s = TASK_S * files
        makespan_s = fixed_s + drift_s + (files * cost_s + busy_s) / SLOTS + waited_s
        numbers = {"makespan_s": makespan_s, "slots": SLOTS, "tasks": files, "busy_s": busy_s}
        made = attempt(trial.number, trial.replicate, trial.cell, makespan_s, numbers=numbers)
        attempts.append(made)
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    return answer_of(asked, record)


def test_what_engines_cost_is_found_again(tmp_path: Path) -> None:
    found = {one.engine: one for one in costs_of(_answer(tmp_path).results)}
    assert set(found) == set(COSTS)
    for engine, (fixed_s, cost_s) in COSTS.items():
        assert found[engine].fixed_s == pytest.approx(fixed_s + 0.2)
        assert found[engine].task_s == pytest.approx(cost_s)
        assert found[engine].files == [4, 16, 64]
        assert found[engine].off < 1e-9


def test_from_the_break_even_on_makespans_are_within_the_margin(tmp_path: Path) -> None:
    costs = costs_of(_answer(tmp_path).results)
    fastest, (threads, processes) = break_evens(costs, 0.1)
    assert fastest == "serial"
    assert threads.task_s.high is not None
    assert threads.task_s.high < 0, "2 ms of each task, of 16 less than a tenth of the run"

    def makespan_s(engine: str, task_s: float, tasks: int) -> float:
        fixed_s, cost_s = COSTS[engine]
        return fixed_s + 0.2 + tasks * (cost_s + task_s) / SLOTS

    for task_s, tasks in ((processes.task_s.mean, 16), (processes.many_s.mean, 10**9)):
        ratio = makespan_s("processes", task_s, tasks) / makespan_s("serial", task_s, tasks)
        assert ratio == pytest.approx(1.1, rel=1e-5)


def test_break_even_is_decided_and_rests_on_what_it_says(tmp_path: Path) -> None:
    answer = _answer(tmp_path)
    (told,) = [text for text in answer.decision if "length of tasks" in text]
    assert told.startswith("engine, by the length of tasks: of 16 tasks on 2 slots serial takes")
    assert "within 10 % of it are threads at any length and processes once" in told
    assert re.search(r"processes once tasks take longer than 3\.\d+ s \(\d\.\d+ s to 3", told)
    assert told.endswith(
        "; with many more tasks, beside serial, threads once they take longer than 10 ms and"
        " processes once they take longer than 990 ms."
    )
    (found,) = [text for text in answer.evidence if text.startswith("Beside what tasks do, proc")]
    assert "takes 3.2 s (2.95 to 3.45) for a run and 110 ms (110 to 110) of a slot" in found
    assert "least squares over 4, 16 and 64 files, 3 replicates" in found


def test_a_line_that_does_not_hold_decides_nothing(tmp_path: Path) -> None:
    answer = _answer(tmp_path, ["processes"])
    (told,) = [text for text in answer.decision if "length of tasks" in text]
    assert "processes" not in told
    (found,) = [text for text in answer.evidence if "cannot be told" in text]
    assert found.startswith("What processes costs for each task cannot be told: the line (least")
    alone = _answer(tmp_path / "alone", ["processes", "threads"])
    assert not any("length of tasks" in text for text in alone.decision)


def test_what_replicates_disagree_on_is_told_with_its_bounds(tmp_path: Path) -> None:
    """Fixed times of processes that vary, so that they may be as good at any length; of the cost of
    a task in long runs nothing is known.
    """

    def varied(fixed_s: float, per_task_s: float) -> Cost:
        usual = Parts(makespan_s=2.0, slots=2, tasks=16, busy_s=2.0)
        blocks = [(replicate, 0) for replicate in (1, 2, 3)]
        fixed = dict(zip(blocks, (1.0, 1.0 + fixed_s, 1.0 - fixed_s), strict=True))
        per_task = dict(zip(blocks, (0.01, 0.01 + per_task_s, 0.01 - per_task_s), strict=True))
        return Cost(f"{fixed_s:g}", [4, 16, 64], fixed, per_task, 0.0, usual)

    (told,) = decision([varied(0.0, 0.0), varied(0.4, 0.005)], 0.1)
    assert "0 is within 10 % of it" not in told
    assert "at the latest once tasks take longer than 1" in told
    assert ", and whether before is open; with many more tasks, beside 0, " in told
    assert told.endswith("beside 0, for 0.4 it is open from which length on.")


def test_how_far_lines_are_off_widens_the_bounds(tmp_path: Path) -> None:
    """By e M s / (N m) of both engines: 1 % of 2 s with 8 tasks in each slot are 25 ms at 10 %."""

    def lengths(off: float) -> Interval:
        usual = Parts(makespan_s=2.0, slots=2, tasks=16, busy_s=2.0)
        costs = [
            Cost(
                name,
                [4, 16, 64],
                {(n, 0): fixed_s + 0.01 * n for n in (1, 2, 3)},
                {(n, 0): 0.01 for n in (1, 2, 3)},
                off,
                usual,
            )
            for name, fixed_s in (("first", 1.0), ("second", 2.0))
        ]
        _, (found,) = break_evens(costs, 0.1)
        return found.task_s

    sure, unsure = lengths(0.0), lengths(0.01)
    assert sure.low is not None
    assert unsure.low is not None
    assert unsure.mean == sure.mean
    assert sure.low - unsure.low == pytest.approx(0.025 * 2.1)


def test_a_length_of_one_replicate_is_open() -> None:
    usual = Parts(makespan_s=2.0, slots=2, tasks=16, busy_s=2.0)
    costs = [
        Cost(name, [4, 16, 64], {(1, 0): 1.0}, {(1, 0): cost_s}, 0.0, usual)
        for name, cost_s in (("first", 0.01), ("second", 0.011))
    ]
    (told,) = decision(costs, 0.1)
    assert "second from a length on that is open, by one replicate" in told
