"""Running estimates: what is told of a cell while other trials are still to be run."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.running import so_far
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment, Watcher
from hyperslab.cli.trials import answer_lines, watching
from tests.apps.experiment.specs import experiment, record_of

TWO = {"iterations 2": (2.0, 2.2, 1.8)}


def _first(record: Record, replicates: int) -> Record:
    attempts = [one for one in record.attempts if one.replicate <= replicates]
    return Record(record.sessions, attempts, 0, {one.number: [one] for one in attempts})


def test_an_estimate_has_a_mean_and_its_ratio_to_the_baseline(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, TWO, {})
    baseline, two, _ = asked.cells
    assert so_far(two, baseline, Record()) == ""
    assert so_far(two, baseline, _first(record, 1)) == "2.00 x as long as the baseline"
    assert so_far(baseline, baseline, _first(record, 1)) == ""
    assert so_far(baseline, baseline, _first(record, 2)) == "1.00 s ± 0.0 s over 2 replicates"
    told = so_far(two, baseline, record)
    assert told.startswith("2.00 s ± 497 ms over 3 replicates, 1.99 x (1.")
    assert told.endswith(") as long as the baseline")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_every_trial_is_told_with_what_its_cell_came_to(
    stream: io.StringIO, tmp_path: Path
) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, TWO, {})
    with watching(asked, quiet=False, stream=stream) as watcher:
        _play(asked, record, watcher)
    said = stream.getvalue()
    assert "replicate 1: iterations 2" in said
    assert "2.20 s; so far 2.10 s ± " in said
    assert "over 2 replicates, 2.10 x (" in said
    assert said.count("so far") == 6 + 2, "of both cells thrice, of the baseline from the second on"


def _play(asked: Experiment, record: Record, watcher: Watcher) -> None:
    """All trials of a record, replicate by replicate, the baseline first."""
    by_number = {one.number: one for one in record.attempts}
    order = sorted(asked.trials, key=lambda one: (one.replicate, bool(one.cell.changed)))
    done: list[int] = []
    for trial in order:
        watcher.begin(trial, len(done), len(order), 1.0)
        done.append(trial.number)
        attempts = [by_number[number] for number in done]
        so_much = Record([], attempts, 0, {one.number: [one] for one in attempts})
        watcher.ended(trial, by_number[trial.number], so_much)


def test_the_decision_is_the_last_that_is_told(tmp_path: Path) -> None:
    """Below it are three doubts and the page; all else is told where it is asked for."""
    asked = experiment(tmp_path)
    record = record_of(asked, TWO, {})
    short = list(answer_lines(asked, answer_of(asked, record)))
    assert short[1] == "What this means"
    assert short[2].startswith("  iterations, at delay 0: 2 is slower than 1")
    assert short[-1] == f"report     {asked.directory.page}"
    assert "  All trials are done: none failed, was starved or is kept out." in short
    assert not any("Student" in line or "against" in line for line in short)
    full = list(answer_lines(asked, answer_of(asked, record), in_full=True))
    assert full.index("Makespan") < full.index("Evidence") < full.index("What this means")
    assert any("Student" in line for line in full)
    assert any("iterations 2 against 1: " in line for line in full)
    half = answer_of(asked, _first(record, 2))
    assert "  Not complete: 3 of 9 trials are still to be run." in answer_lines(asked, half)
    many = dataclasses.replace(half, doubts=[f"doubt {n}" for n in range(5)])
    told = [line for line in answer_lines(asked, many) if "doubt" in line]
    assert told == ["  doubt 0", "  doubt 1", "  doubt 2"]
