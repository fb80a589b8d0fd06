"""Decisions: at which values of other factors they hold, and where it is otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.trials.record import Attempt, Record
from tests.apps.experiment.specs import TEXT, experiment, record_of

CROSSED = TEXT.replace("[vary]\niterations = [2]\n", "[grid]\niterations = [2]\n[vary]\n")
ALONE = TEXT.replace("[vary]\niterations = [2]\ndelay = [0.01]\n", "")
VARIED = "delay = 0.5\nfiles = 16\n\n[vary]\nfiles = [4]"
BOTH = "iterations 2, delay 0.01"
ENGINES = TEXT.replace("iterations = [2]\ndelay = [0.01]", 'engine = ["threads", "processes"]')
THREADS, PROCESSES = "engine threads", "engine processes"


def _decided(root: Path, seconds: Mapping[str, Sequence[float]], text: str = CROSSED) -> list[str]:
    asked = experiment(root, text)
    return list(answer_of(asked, record_of(asked, seconds, {})).decision)


def test_a_decision_says_where_it_holds_and_where_it_does_not(tmp_path: Path) -> None:
    """Twice as many iterations cost nothing, but where there is a delay."""
    found = _decided(tmp_path, {BOTH: (2.0, 2.02, 1.98)})
    assert found == [
        "delay, at iterations 1: 0.01 and 0 are equivalent (within 10 %).",
        (
            "delay, at other values: 0.01 is slower than 0 at iterations 2 (2.00 x (1.95 to 2.05));"
            " of 1 comparison 0 as here, 1 otherwise, 0 open."
        ),
        "iterations, at delay 0: 2 and 1 are equivalent (within 10 %).",
        (
            "iterations, at other values: 2 is slower than 1 at delay 0.01 (2.00 x (1.95 to 2.05));"
            " of 1 comparison 0 as here, 1 otherwise, 0 open."
        ),
    ]


def test_what_is_alike_everywhere_is_said_in_numbers(tmp_path: Path) -> None:
    found = _decided(tmp_path, {})
    assert "delay, at other values: of 1 comparison 1 as here, 0 open." in found
    noisy = _decided(tmp_path, {BOTH: (0.3, 1.0, 4.0)})
    assert "delay, at other values: of 1 comparison 0 as here, 1 open." in noisy
    noise = (0.3, 1.0, 4.0)
    nowhere = _decided(tmp_path, {"delay 0.01": noise, "iterations 2": noise})
    assert "delay, at other values: of 1 comparison 0 told, 1 open, as it is here." in nowhere


def test_each_of_several_levels_is_equivalent_to_the_baselines(tmp_path: Path) -> None:
    (told, *_) = _decided(tmp_path, {}, ENGINES)
    assert "; threads and processes are each equivalent to serial (within 10 %)." in told


SLEEPING = TEXT.replace("delay = 0\n\n[vary]\niterations = [2]\ndelay = [0.01]", VARIED)


def test_fewer_blocks_that_sleep_are_less_work(tmp_path: Path) -> None:
    """And where tasks do little but sleep, the decision begins with that."""
    found = _decided(tmp_path, {"files 4": FAST}, SLEEPING)
    (told,) = [text for text in found if text.startswith("files")]
    assert "4 is faster than 16" in told
    assert "choose" not in told
    awake = _decided(tmp_path / "awake", {"files 4": FAST}, SLEEPING.replace("= 0.5", "= 0"))
    assert any("choose 4" in text for text in awake)
    assert not found[0].startswith("Tasks sleep"), "for how long they are busy nobody knows"
    asked = experiment(tmp_path / "busy", SLEEPING)
    attempts = [
        dataclasses.replace(one, numbers={**one.numbers, "busy_s": 10.0})
        for one in record_of(asked, {}, {}).attempts
    ]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    head, *_ = answer_of(asked, record).decision
    assert head.startswith("Tasks sleep for 80 % of their time")


def test_a_spec_that_varies_nothing_says_so(tmp_path: Path) -> None:
    assert _decided(tmp_path, {}, ALONE) == [
        "Nothing is varied: there is one cell, and no other one to compare it with."
    ]


FAST, SLOW, ALIKE = (0.5, 0.505, 0.495), (2.0, 2.02, 1.98), (1.0, 1.005, 0.995)
NOISE, LATE = (0.7, 1.0, 1.5), (1.05, 1.15, 1.22)


@pytest.mark.parametrize(
    ("threads", "processes", "said"),
    [
        (
            SLOW,
            SLOW,
            "choose serial; threads and processes are slower than serial (1.00 s): ",
        ),
        (SLOW, (3.0, 3.03, 2.97), "threads 2.00 x (1.95 to 2.05), 2.00 s, processes 3.00 x (2.93"),
        (FAST, SLOW, "choose threads; threads is faster than serial (1.00 s): 0.50 x (0.488 to"),
        (FAST, (0.4, 0.4, 0.4), "choose processes, the fastest by its mean; threads and processes"),
        (SLOW, ALIKE, "choose serial or processes; processes and serial are equivalent"),
        (ALIKE, ALIKE, "choose serial, threads or processes; threads and processes are each"),
        (SLOW, LATE, "choose serial, as far as is told; threads is slower than serial (1.00 s)"),
        (
            SLOW,
            NOISE,
            "choose serial, unless processes is faster, which is open; threads is slower than",
        ),
    ],
)
def test_a_decision_chooses_as_far_as_is_told(
    threads: Sequence[float], processes: Sequence[float], said: str, tmp_path: Path
) -> None:
    (found,) = _decided(tmp_path, {THREADS: threads, PROCESSES: processes}, ENGINES)
    assert said in found


def test_what_is_open_is_told_with_its_bounds(tmp_path: Path) -> None:
    """And nothing is chosen where nothing is told; a bound that nobody learns from is none."""
    noise, wild = (0.9, 1.0, 1.2), (0.1, 1.0, 9.0)
    (found,) = _decided(tmp_path, {THREADS: noise, PROCESSES: wild}, ENGINES)
    assert found == (
        "engine: whether threads and processes differ from serial is open (threads at most 1.47 x"
        " slower or 1.40 x faster)."
    )


def test_what_is_said_by_the_survivors_of_a_cell_says_so(tmp_path: Path) -> None:
    """Threads are faster in five of six trials, and fail in one: they are not chosen."""
    asked = experiment(tmp_path, ENGINES.replace("replicates = 3", "replicates = 6"))
    record = record_of(asked, {THREADS: FAST}, {})

    def decided(engine: str) -> str:
        attempts = [
            dataclasses.replace(one, state="failed", reason="no room")
            if one.levels["engine"] == engine and one.replicate == 2
            else one
            for one in record.attempts
        ]
        changed = Record([], attempts, 0, {one.number: [one] for one in attempts})
        (told,) = answer_of(asked, changed).decision
        return told

    assert "choose threads" in decided("none")
    assert "failed" not in decided("none")
    told = decided("threads")
    assert "threads is faster than serial" in told
    assert "; 1 of 6 trials of threads failed, and what is said is by those that were done." in told
    assert "choose" not in told
    assert "choose threads" in decided("serial")
    assert "1 of 6 trials of serial failed" in decided("serial")


def test_levels_without_a_trial_that_was_done_are_told_with_the_baseline(tmp_path: Path) -> None:
    asked = experiment(tmp_path, TEXT)
    record = record_of(asked, {}, {})

    def decided(is_failed: Callable[[Attempt], bool]) -> list[str]:
        attempts = [
            dataclasses.replace(one, state="failed", numbers={}) if is_failed(one) else one
            for one in record.attempts
        ]
        by_trial = {one.number: [one] for one in attempts}
        return list(answer_of(asked, Record(record.sessions, attempts, 0, by_trial)).decision)

    assert decided(lambda one: True) == [
        "iterations, at delay 0: no trial of 1 and 2 was done, so that nothing is compared.",
        "delay, at iterations 1: no trial of 0 and 0.01 was done, so that nothing is compared.",
    ]
    baseline = {"engine": "serial", "iterations": 1, "delay": 0}
    first, _ = decided(lambda one: baseline.items() <= one.levels.items())
    assert first == "iterations, at delay 0: no trial of 1 was done, so that nothing is compared."
