"""Claims on Dask and Spark beyond comparisons of makespans: what varies, what grows, what is handed
over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import Answer, answer_of
from hyperslab.apps.experiment.answers.break_even import BY_LENGTH
from hyperslab.apps.experiment.answers.comparison import WITHOUT_START
from hyperslab.apps.experiment.claims.claim import Judged
from hyperslab.apps.experiment.claims.dask_vs_spark import ALIKE, BEST, advice
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of
from tests.apps.experiment.test_claims import DASK, HISTOGRAM, INCREMENTATION, LIMIT

SIGNS = (0.0, 1.0, -1.0)
"Deviations of replicates by turns, in their unit."


def _judged(spec: str, root: Path, change: Callable[[Attempt], Attempt]) -> tuple[Judged, Answer]:
    """What comes of the claims of an experiment whose trials are changed so, by their texts."""
    asked = Experiment.of(find(spec).load("quick"), root)
    attempts = [change(one) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    answer = answer_of(asked, record)
    words = {INCREMENTATION: "vary more with more blocks", LIMIT: "2 GiB"}[spec]
    found = judged(PAPERS[DASK], [Finding(asked, answer)])
    (one,) = [said for claim, said in found if words in claim.text]
    return one, answer


def _varying(power: float) -> Callable[[Attempt], Attempt]:
    """Makespans that grow with blocks, and vary by a share of them that does, too: engines by turns
    in opposite directions.
    """
    engines = ["processes", "dask-bag", "dask-delayed", "dask-futures", "spark"]

    def change(one: Attempt) -> Attempt:
        files = float(one.levels["files"])
        turn = 1 + engines.index(str(one.levels["engine"]))
        deviation = 0.01 * turn * (-1) ** turn * SIGNS[one.replicate % 3] * files**power
        numbers = {**one.numbers, "makespan_s": files * (1 + deviation)}
        return dataclasses.replace(one, numbers=numbers)

    return change


@pytest.mark.parametrize(("power", "outcome"), [(0.2, "reproduced"), (-0.5, "by construction")])
def test_makespans_that_vary_more_with_more_blocks(
    power: float, outcome: str, tmp_path: Path
) -> None:
    """What sleeps does not vary, so that the claim is not refuted as a whole where blocks do."""
    found, _ = _judged(INCREMENTATION, tmp_path, _varying(power))
    assert found.outcome == outcome
    assert "In proportion to their length, makespans vary more" in found.evidence[0]
    assert "Every block sleeps for" in found.evidence[1]
    assert "that makespans vary less with more blocks follows" in found.evidence[2]
    assert ("so few by chance: 0.031" in found.evidence[0]) == (outcome == "by construction")
    assert ("so many by chance: 0.031" in found.evidence[0]) == (outcome == "reproduced")


def test_what_a_worker_costs_is_one_number_in_the_answer_and_in_the_verdict(
    tmp_path: Path,
) -> None:
    asked = Experiment.of(find(INCREMENTATION).load("laptop"), tmp_path)

    def change(one: Attempt) -> Attempt:
        workers = float(one.levels["workers"])
        overhead_s = workers**1.5 * (1 + 0.1 * one.replicate)
        numbers = {**one.numbers, "overhead_s": overhead_s, "read_s": 1.0, "write_s": 0.0}
        return dataclasses.replace(one, numbers=numbers)

    attempts = [change(one) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    answer = answer_of(asked, record)
    found = judged(PAPERS[DASK], [Finding(asked, answer)])
    (told,) = [said for claim, said in found if claim.text == "Overhead grows with the workers."]
    for engine in ("dask-bag", "spark"):
        (sentence,) = [one for one in answer.evidence if f"further worker of {engine} costs" in one]
        interval = sentence.partition("costs ")[2].partition(" of overhead")[0].replace(" s", "")
        (verdict,) = [one for one in told.evidence if f"worker, {engine}: " in one]
        assert verdict.endswith(f": {interval}, over 6 replicates: as the paper states.")


def test_a_page_says_who_hands_blocks_over(tmp_path: Path) -> None:
    found, _ = _judged(LIMIT, tmp_path, lambda one: one)
    assert "`spark` among them, read their blocks themselves" in found.evidence[0]
    assert any(text.startswith("spark, blocks of 2.20 GB: done") for text in found.evidence)


def test_claims_of_a_later_answer_are_tested_at_its_level(tmp_path: Path) -> None:
    """All five engines may come out so by chance at 3 %, which is too much at the second answer."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)
    attempts = [_varying(0.2)(one) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    answer = dataclasses.replace(answer_of(asked, record), looks=(2, 3))
    found = judged(PAPERS[DASK], [Finding(asked, answer)])
    (one,) = [said for claim, said in found if "vary more with more blocks" in claim.text]
    assert one.outcome == "open"


def _with_numbers(
    asked: Experiment, numbers: Callable[[Attempt], dict[str, float]]
) -> dict[str, Judged]:
    """What comes of all claims where trials have these numbers, by their texts."""
    attempts = [
        dataclasses.replace(one, numbers={**one.numbers, **numbers(one)})
        for one in record_of(asked, {}, {}, {}).attempts
    ]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    found = judged(PAPERS[DASK], [Finding(asked, answer_of(asked, record))])
    return {claim.text: one for claim, one in found}


def _drift(one: Attempt) -> float:
    return 1 + 0.01 * one.replicate * (1 + one.number % 3)


@pytest.mark.parametrize(("compute_s", "is_short"), [(2.3, True), (30.0, False)])
def test_engines_are_not_told_apart_by_what_they_do_around_short_tasks(
    compute_s: float, is_short: bool, tmp_path: Path
) -> None:
    """Spark takes 2.4 s around its tasks, and nothing else differs."""
    asked = Experiment.of(find(HISTOGRAM).load("quick"), tmp_path)

    def numbers(one: Attempt) -> dict[str, float]:
        around_s = 2.4 if one.levels["engine"] == "spark" else 0.1
        run_s = (compute_s + around_s) * _drift(one)
        return {"compute_s": compute_s, "overhead_s": around_s, WITHOUT_START: run_s}

    found = _with_numbers(asked, numbers)
    python = found[
        "Of histograms in pure Python, by workers of several threads, Spark is faster than Dask."
    ]
    compiled = found["Histograms in compiled code take as long on Dask's interfaces as on Spark."]
    assert [one.outcome == "not tested" for one in (python, compiled)] == [is_short] * 2
    assert python.evidence[0].startswith("Too short: tasks of engine spark") == is_short
    assert ("compute for 2.30 s, beside 2.40 s around them" in python.evidence[0]) == is_short
    assert any("engine spark takes" in text for text in python.evidence), "what was found is told"


def test_an_engine_that_is_faster_by_computing_is_so_in_short_runs_too(tmp_path: Path) -> None:
    """Spark computes for 15 s with 2.4 s around its tasks, Dask for twice as long: what both do
    around tasks may take longer or no time at all.
    """
    asked = Experiment.of(find(HISTOGRAM).load("quick"), tmp_path)
    words = "Of histograms in pure Python"

    def said(dask_s: float) -> Judged:
        def numbers(one: Attempt) -> dict[str, float]:
            is_spark = one.levels["engine"] == "spark"
            compute_s, around_s = (15.0, 2.4) if is_spark else (dask_s, 4.0)
            run_s = (compute_s + around_s) * _drift(one)
            return {"compute_s": compute_s, "overhead_s": around_s, WITHOUT_START: run_s}

        found = _with_numbers(asked, numbers)
        (one,) = [told for text, told in found.items() if text.startswith(words)]
        return one

    found = said(30.0)
    assert found.outcome == "reproduced"
    assert "Workers have 2 threads each" in found.evidence[0]
    assert (
        "busy for 17.4 s with tasks and all around them, those of the others for 30.0 s"
        in (found.evidence[1])
    )
    assert said(18.5).outcome == "not tested", "it may be faster by what others do around tasks"


def test_transfer_grows_by_itself(tmp_path: Path) -> None:
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)

    def numbers(one: Attempt) -> dict[str, float]:
        moved_s = float(one.levels["workers"]) * _drift(one)
        return {"overhead_s": 2.0 * _drift(one), "read_s": moved_s, "write_s": 0.0}

    found = _with_numbers(asked, numbers)
    transfer = found["Transfer grows with the workers."]
    assert transfer.outcome == "reproduced"
    assert transfer.evidence[1].startswith("Transfer of all slots, s for each further worker")
    assert found["Overhead grows with the workers."].outcome == "open"


def test_spark_beside_dask_over_all_numbers_of_workers(tmp_path: Path) -> None:
    """Spark takes 6 % longer everywhere, and its start 17 s beside none."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)

    def numbers(one: Attempt) -> dict[str, float]:
        is_spark = one.levels["engine"] == "spark"
        run_s = (1.06 if is_spark else 1.0) * (1 + 0.001 * (one.number % 5))
        return {WITHOUT_START: run_s, "startup_s": (17.0 if is_spark else 0.3) * _drift(one)}

    found = _with_numbers(asked, numbers)
    longer = found["Spark takes slightly longer than Dask, in the mean over numbers of workers."]
    assert longer.outcome == "reproduced"
    assert "Spark takes 1.06 x" in longer.evidence[1]
    assert ": longer, over 6 replicates" in longer.evidence[1]
    assert ": by less than 10 %, over 6 replicates" in longer.evidence[2]
    start = found["Spark takes longer to start than Dask."]
    assert start.outcome == "reproduced"
    assert len(start.evidence) == 4, "a count, and each interface of Dask"
    assert start.evidence[1].startswith("Start of Spark: 18.3 s")


@pytest.mark.parametrize(("busy_s", "is_asleep"), [(2.0, True), (20.0, False)])
def test_what_sleeping_decides_is_by_construction(
    busy_s: float, is_asleep: bool, tmp_path: Path
) -> None:
    """16 blocks sleep twice for 0.05 s each: 1.6 s in all. Twice as many workers halve the time."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)

    def numbers(one: Attempt) -> dict[str, float]:
        levels = one.levels
        run_s = float(levels["files"]) / float(levels["workers"]) * (1 + 0.001 * one.replicate)
        return {"busy_s": busy_s, WITHOUT_START: run_s}

    found = _with_numbers(asked, numbers)
    expected = "by construction" if is_asleep else "refuted"
    words = ("makespans stop falling, or rise.", "There is a best number of blocks")
    for word in words:
        (told,) = [one for text, one in found.items() if word in text and "saturated" not in text]
        assert told.outcome == expected, word
    engines = found["Dask's interfaces and Spark take as long as each other."]
    assert engines.outcome == ("by construction" if is_asleep else "reproduced")
    assert engines.evidence[0].startswith("Tasks sleep for 80 % of their time") == is_asleep


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_engines_that_sleep_are_alike_or_not_by_construction(ratio: float, tmp_path: Path) -> None:
    """Whichever way it points, and not at all in short runs."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)

    def said(compute_s: float, text: str = ALIKE) -> Judged:
        def numbers(one: Attempt) -> dict[str, float]:
            run_s = (ratio if one.levels["engine"] == "spark" else 1.0) * _drift(one)
            around = {"compute_s": compute_s, "overhead_s": 1.0}
            return {**around, "busy_s": 2.0, WITHOUT_START: run_s}

        return _with_numbers(asked, numbers)[text]

    assert said(30.0).outcome == "by construction"
    slightly = said(
        30.0, "Spark takes slightly longer than Dask, in the mean over numbers of workers."
    )
    assert slightly.outcome == "by construction"
    short = said(3.0)
    assert short.outcome == "not tested"
    assert not short.signs
    counted = [text for text in short.evidence if " comparisons told: " in text]
    assert counted[0].startswith("Counts for nothing: ")


def test_slightly_is_within_the_margin(tmp_path: Path) -> None:
    """Half as long again is longer, and not slightly so; with the start it is told, too."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)

    def numbers(one: Attempt) -> dict[str, float]:
        run_s = (1.5 if one.levels["engine"] == "spark" else 1.0) * (1 + 0.001 * (one.number % 5))
        return {WITHOUT_START: run_s, "makespan_s": run_s + 1.0}

    found = _with_numbers(asked, numbers)
    told = found["Spark takes slightly longer than Dask, in the mean over numbers of workers."]
    assert told.outcome == "mixed"
    assert told.evidence[-1].startswith("With the start of engines, which does not count here, it")
    assert "takes 1.25 x (" in told.evidence[-1]


def test_advice_on_engines_has_its_condition(tmp_path: Path) -> None:
    """It says from which length of tasks on engines are alike, and never that none decides."""
    lengths = f"{BY_LENGTH}: of 16 tasks on 2 slots processes takes least, and within 10 % of it"
    claim = next(one for one in PAPERS[DASK].claims if one.text == ALIKE)
    (told,) = advice([(claim, Judged("by construction", ["Asleep.", "6 of 6.", lengths]))])
    assert told.startswith("Where tasks are so long that engines are alike")
    assert told.endswith(f"Asleep. {lengths} 6 of 6.")


def test_advice_on_blocks_does_not_say_which_way_costs(tmp_path: Path) -> None:
    """That not both ways do is told, and it may be either."""
    asked = Experiment.of(find(INCREMENTATION).load("quick"), tmp_path)

    def numbers(one: Attempt) -> dict[str, float]:
        costs = 2.0 if one.levels["files"] == 4 else 1.0
        return {WITHOUT_START: costs * _drift(one), "busy_s": 1000.0}

    found = _with_numbers(asked, numbers)[BEST]
    assert found.outcome == "refuted"
    claim = next(one for one in PAPERS[DASK].claims if one.text == BEST)
    (told,) = advice([(claim, found)])
    assert told.startswith("Fewer and more blocks do not both cost: see here which way does not")
    assert "files 4 takes " in told


def test_nothing_follows_of_what_is_otherwise_by_construction() -> None:
    """Such as that fewer blocks, which sleep for less, are faster."""
    claim = next(one for one in PAPERS[DASK].claims if one.text == ALIKE)

    def advised(signs: Sequence[bool | None]) -> list[str]:
        return advice([(claim, Judged("by construction", ["Asleep."], signs))])

    assert len(advised((True, None))) == 1
    assert advised((False, False)) == []
    assert advised((True, False)) == []
