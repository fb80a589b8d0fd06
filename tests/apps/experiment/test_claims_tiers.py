"""Claims on storage tiers: what was asked of emulated ones, programs on few processors and on many,
and whole files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.claims.block_limit import WHOLE_FILES
from hyperslab.apps.experiment.claims.claim import Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged
from hyperslab.apps.experiment.design.cells import trials_of
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Session
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of
from tests.apps.experiment.test_claims import (
    TIERS,
    outcome,
    outcomes,
    outcomes_of,
    varied,
    with_numbers,
)


def test_a_bids_app_on_tiers(tmp_path: Path) -> None:
    spec = "storage-tiers/bids"
    few = ["baseline", "tier optane (emulated)", "tier isilon (emulated)"]
    found = outcomes(spec, dict.fromkeys(few, varied(2)), tmp_path, starts={})
    assert outcome(found, "More processes pay for a BIDS App") == "reproduced"
    assert outcome(outcomes(spec, {}, tmp_path, starts={}), "More processes pay") == "refuted"
    asked = Experiment.of(find(spec).load("quick"), tmp_path)
    assert answer_of(asked, record_of(asked, {}, {})).expected == [], "no bytes are counted"


def test_emulated_tiers_are_as_they_were_asked_to_be(tmp_path: Path) -> None:
    asked = Experiment.of(find(TIERS).load("quick"), tmp_path)
    seconds = {"dram": 1.0, "optane": 2.0, "ssd": 4.0, "isilon": 8.0}
    slow = {
        one.cell.name: varied(seconds[str(one.cell.levels["tier"])])
        for one in trials_of(asked.loaded.spec)
    }
    found = outcomes_of(asked, record_of(asked, slow, {}, {}))
    assert outcome(found, "Memory is faster") == "by construction"
    found = outcomes_of(asked, record_of(asked, {}, {}, {}))
    assert outcome(found, "Memory is faster") == "by construction", "whichever way it points"


def test_time_off_the_processor_may_be_less_than_nothing(tmp_path: Path) -> None:
    """Of tasks that compute on several processors: a mean of what is cut at 0 would be too high."""
    asked = Experiment.of(find(TIERS).load("quick"), tmp_path)
    times = {
        one.cell.name: {"busy_s": 1.0, "cpu_s": 0.5 if one.cell.levels["tier"] == "isilon" else 1.1}
        for one in trials_of(asked.loaded.spec)
    }
    answer = answer_of(asked, with_numbers(asked, times))
    found = judged(PAPERS["storage-tiers"], [Finding(asked, answer)])
    (told,) = [one for claim, one in found if claim.text.startswith("On a slow tier, tasks wait")]
    assert any(
        "none (tasks used 1.1 processors) on dram and 0.5 on isilon" in text
        for text in told.evidence
    )


@pytest.mark.parametrize(
    ("pool_s", "by", "is_real", "expected"),
    [
        (1.0, 3.0, True, "not tested"),
        (30.0, 1.14, True, "reproduced"),
        (30.0, 1.0, True, "refuted"),
        (30.0, 1.0, False, "by construction"),
    ],
)
def test_whole_files_need_runs_that_are_long(
    pool_s: float, by: float, is_real: bool, expected: str, tmp_path: Path
) -> None:
    """Of two seconds that Spark takes in memory nothing follows for files, nor of emulated tiers,
    for whose rate all have to wait.
    """
    real = [f"isilon={tmp_path}"] if is_real else []
    asked = Experiment.of(find(TIERS).load("quick", (), real), tmp_path)
    seconds = {}
    for one in trials_of(asked.loaded.spec):
        levels = one.cell.levels
        is_whole = levels["engine"] == WHOLE_FILES
        run_s = pool_s * (by if is_whole else 1.0)
        if levels["tier"] == "dram":
            run_s = 2.0 if is_whole else 0.1
        seconds[one.cell.name] = (run_s * 0.999, run_s, run_s * 1.001)
    answer = answer_of(asked, record_of(asked, seconds, {}, {}))
    found = judged(PAPERS["storage-tiers"], [Finding(asked, answer)])
    (told,) = [one for claim, one in found if claim.text.startswith("Whole files by Spark's")]
    assert told.outcome == expected
    head = "Too short. On dram Spark takes 2.00 s" if pool_s < 20 else "Not judged: processes on"
    assert told.evidence[0].startswith(head)


def test_programs_with_more_processes(tmp_path: Path) -> None:
    """Both sums grow, each where the paper has numbers of it; waiting is judged with many."""
    asked = Experiment.of(find("storage-tiers/bids").load("quick"), tmp_path)

    def said(many: Mapping[str, float]) -> dict[str, Judged]:
        times = {}
        for one in trials_of(asked.loaded.spec):
            is_slow = one.cell.levels["tier"] == "isilon"
            own = {"cpu_s": 1.0, "busy_s": 2.0} if one.cell.levels["workers"] == "0.25x" else many
            waits_s = own["busy_s"] - own["cpu_s"]
            times[one.cell.name] = {**own, "busy_s": own["cpu_s"] + waits_s * (1 + 9 * is_slow)}
        record = with_numbers(asked, times)
        record = dataclasses.replace(record, sessions=[Session(1, 0.0, {"processors": 8})])
        found = judged(PAPERS["storage-tiers"], [Finding(asked, answer_of(asked, record))])
        return {claim.text: one for claim, one in found}

    processor = "With more processes, programs of a BIDS App take more processor time."
    waiting = "With more processes they spend more time on input and output on isilon."
    real = waiting.replace("isilon", "dram")
    found = said({"cpu_s": 1.5, "busy_s": 4.5})
    assert found[processor].outcome == "reproduced"
    assert found[waiting].outcome == "by construction"
    assert "on isilon: " in found[waiting].evidence[1]
    assert found[real].outcome == "reproduced", "memory is no emulated tier"
    assert "on dram: " in found[real].evidence[0]
    told = found["On a slow tier, programs of a BIDS App wait for storage."]
    assert "as a share: 0.667 on dram and 0.952 on isilon" in told.evidence[1]
    found = said({"cpu_s": 0.5, "busy_s": 1.0})
    assert found[processor].outcome == "refuted"
    assert found[waiting].outcome == "by construction", "also where it points the other way"
    assert found[real].outcome == "refuted"


def test_what_is_of_a_device_needs_the_device(tmp_path: Path) -> None:
    """Java's memory on persistent memory: an emulated tier has none; a real one is judged."""

    def said(tiers: Sequence[str]) -> Judged:
        asked = Experiment.of(find(TIERS).load("quick", (), tiers), tmp_path)
        collected = {
            one.cell.name: {"java_gc_s": 3.0 - 2.0 * (one.cell.levels["tier"] == "isilon")}
            for one in trials_of(asked.loaded.spec)
        }
        record = with_numbers(asked, collected)
        found = judged(PAPERS["storage-tiers"], [Finding(asked, answer_of(asked, record))])
        (told,) = [told for claim, told in found if claim.text.startswith("Java collects")]
        return told

    emulated = said(())
    assert emulated.outcome == "not tested"
    assert emulated.evidence[0].startswith("It needs a real optane")
    assert said([f"optane={tmp_path}"]).outcome == "reproduced"
