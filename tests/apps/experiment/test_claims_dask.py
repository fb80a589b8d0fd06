"""Claims on Dask and Spark beyond comparisons of makespans: what varies, what grows, what is handed
over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answer import Answer, answer_of
from hyperslab.apps.experiment.claims.claim import Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged
from hyperslab.apps.experiment.record import Attempt, Record
from hyperslab.apps.experiment.runner import Experiment
from hyperslab.apps.experiment.shipped import find
from tests.apps.experiment.specs import record_of
from tests.apps.experiment.test_claims import DASK, INCREMENTATION, LIMIT

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


@pytest.mark.parametrize(("power", "outcome"), [(0.2, "reproduced"), (-0.5, "refuted in part")])
def test_makespans_that_vary_more_with_more_blocks(
    power: float, outcome: str, tmp_path: Path
) -> None:
    """What sleeps does not vary, so that the claim is not refuted as a whole where blocks do."""
    found, _ = _judged(INCREMENTATION, tmp_path, _varying(power))
    assert found.outcome == outcome
    assert "In proportion to their length, makespans vary more" in found.evidence[0]
    assert "Every block sleeps for" in found.evidence[1]
    assert "vary less by it" in found.evidence[2]


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
        assert verdict.endswith(f": {interval}: as the paper states.")


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
