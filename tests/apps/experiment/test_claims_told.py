"""What a page of verdicts tells beside them: trials that failed or are left out, how many tests
came out as stated, earlier specs, and settings that are the same on the machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from hyperslab import __version__
from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.claims import dask_vs_spark, earlier, storage_tiers
from hyperslab.apps.experiment.claims.claim import Claim, Evidence, Judged, expecting, rising
from hyperslab.apps.experiment.claims.page import (
    COUNTS,
    PAPERS,
    Finding,
    Paper,
    findings_of,
    judged,
    write_verdicts,
)
from hyperslab.apps.experiment.design.shipped import SpecFile, find
from hyperslab.apps.experiment.trials.begun import as_begun
from hyperslab.apps.experiment.trials.record import Attempt, Session, append
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.cli import verdicts as command
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, experiment, loaded, record_of
from tests.system.end_to_end.command import call

SMALL = "small"


def longer(evidence: Evidence) -> Judged:
    return expecting({"slower"}, list(evidence.beside("iterations", 2, 1)))


PAPER = Paper("page", "Small", "Nobody", (Claim("Two take longer.", SMALL, longer),))


def _written(asked: Experiment, attempts: Sequence[Attempt]) -> None:
    asked.directory.root.mkdir(parents=True, exist_ok=True)
    append(asked.directory.record, Session(1, 0.0, {}))
    for one in attempts:
        append(asked.directory.record, one)


def _told(asked: Experiment, attempts: Sequence[Attempt]) -> Judged:
    _written(asked, attempts)
    ((_, found),) = judged(PAPER, findings_of([asked]))
    return found


def test_an_experiment_whose_trials_all_failed_was_run(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    attempts = record_of(asked, {}, {}).attempts
    reason = "there is no such function"
    failed = [
        dataclasses.replace(one, state="failed", reason=reason, numbers={}) for one in attempts
    ]
    found = _told(asked, failed)
    assert found.outcome == "not tested"
    assert found.evidence == [f"`small`: all 9 trials failed: trial 1 and 8 more: {reason}."]
    page = write_verdicts(tmp_path / "page", PAPER, findings_of([asked]), "it").read_text()
    assert "has not been run" not in page
    assert "of 0 trials that were done, of 9 trials" in page


def test_trials_that_tell_nothing_are_told_of_the_cells_of_a_claim(tmp_path: Path) -> None:
    """Each kind by itself; those of other cells of the spec are none of its business."""
    asked = experiment(tmp_path)

    def change(one: Attempt) -> Attempt:
        if one.levels["delay"] or one.replicate == 3 or one.levels["iterations"] == 1:
            return dataclasses.replace(one, starved="others" if one.levels["delay"] else "")
        if one.replicate == 1:
            return dataclasses.replace(one, state="failed", reason="no memory", numbers={})
        return dataclasses.replace(one, rejected="the link was busy")

    attempts = [change(one) for one in record_of(asked, {"iterations 2": (2.0,)}, {}).attempts]
    failed = next(one.number for one in attempts if one.state == "failed")
    found = _told(asked, attempts)
    assert found.evidence[-2:] == [
        f"Failed: 1 of its 6 trials (trial {failed}: no memory).",
        "Rejected: 1 of its 6 trials (the link was busy).",
    ]
    assert not any("share the processors" in text for text in found.evidence)


def test_trials_that_were_too_long_or_not_run_are_told(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    attempts = [one for one in record_of(asked, {}, {}).attempts if not one.levels["delay"]]
    first, *others = attempts
    found = _told(asked, [dataclasses.replace(first, state="too long"), *others[:-1]])
    assert found.evidence[-2:] == [
        "Ended for their length: 1 of its 6 trials.",
        "Not run: 1 of its 6 trials.",
    ]


def test_the_table_counts_what_came_out_as_stated(tmp_path: Path) -> None:
    asked = Experiment.of(find("dask-vs-spark/incrementation").load("quick"), tmp_path)
    slow = {"engine spark": (1.98, 2.0, 2.02), "engine dask-delayed": (0.3, 1.0, 4.0)}
    finding = Finding(asked, answer_of(asked, record_of(asked, slow, {}, {})))
    page = write_verdicts(tmp_path / "page", PAPERS["dask-vs-spark"], [finding], "it").read_text()
    head = "| the paper states | here | as stated / otherwise / open |"
    assert head.rsplit(" | ", maxsplit=1)[-1].removesuffix(" |") == COUNTS
    assert head in page
    assert "| Dask's interfaces and Spark take as long as each other. | mixed | 3 / 2 / 1 |" in page


def test_an_experiment_of_an_earlier_spec_is_judged_by_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page is made again from its record, and says what has changed."""
    text = TEXT.replace("delay = [0.01]", "delay = [0.01, 0.02]").replace("64KiB", "128KiB")
    began = Experiment.of(loaded(TEXT + "\n[scales.laptop]\n", "laptop"), tmp_path / "small-laptop")
    record = record_of(began, {"iterations 2": (1.98, 2.0, 2.02)}, {})
    began.directory.root.mkdir()
    began.directory.begin(began.loaded)
    _written(began, record.attempts)
    now = SpecFile(SMALL, "small.toml", text + "\n[scales.laptop]\n", tmp_path)
    monkeypatch.setattr(command, "find", lambda _: now)
    monkeypatch.setattr(command, "paper_of", lambda _: PAPER)
    line = ("experiment", "verdicts", SMALL, "--in", tmp_path, "-o", tmp_path / "pages")
    done = call(*line)
    assert done.code == 0, done.err
    page = (tmp_path / "pages" / "page.md").read_text()
    assert "**Some trials are of earlier specs.**" in page
    assert "`small` has 12 trials (9 here): source.size: '128KiB', was '64KiB'" in page
    assert "**reproduced**" in page
    assert call(*line, "--run").code == 2, "trials of two specs make no experiment"


def test_every_spec_is_read_back_from_what_an_experiment_keeps(tmp_path: Path) -> None:
    """Also by another one than it began with."""
    for name in ("storage-tiers/write-back", "dask-network/delay", "dask-vs-spark/threads"):
        root = tmp_path / name.replace("/", "-")
        began = Experiment.of(find(name).load("quick"), root)
        root.mkdir()
        began.directory.begin(began.loaded)
        other = Experiment.of(find(name).load("laptop"), root)
        found = as_begun(other)
        assert found.experiment.loaded.spec == began.loaded.spec
        assert [one.cell for one in found.experiment.trials] == [one.cell for one in began.trials]
        assert found.trials == len(other.trials)
        assert as_begun(began).experiment is began


def test_what_a_spec_did_not_have_when_trials_began_is_not_left_out(tmp_path: Path) -> None:
    """Another scale has got a factor since, or a further engine: also where nobody wrote down what
    was left out.
    """
    short = "\n[scales.short]\nvary = { delay = [] }\n"
    began = Experiment.of(loaded(TEXT + short, "short"), tmp_path)
    began.directory.begin(began.loaded)
    more = "\n[scales.more]\nbaseline = { blocks = 1 }\nvary = { blocks = [2] }\n"
    grown = TEXT.replace("delay = 0\n", "delay = 0\nblocks = 1\n")
    now = began
    for text in (TEXT + short + more, grown + short + more):
        now = Experiment.of(loaded(text, "short"), tmp_path)
        assert "blocks" in now.loaded.left_out
        assert as_begun(now).experiment.loaded.left_out == {"delay": []}
    asked = {"version": 1, "name": SMALL, "asked": began.loaded.identity()}
    began.directory._save(asked, 3)
    assert as_begun(now).experiment.loaded.left_out == {"delay": []}


def test_a_spec_that_cannot_be_read_any_more_is_refused(tmp_path: Path) -> None:
    began = experiment(tmp_path)
    asked = {**began.loaded.identity(), "mood": "good"}
    began.directory.root.mkdir(exist_ok=True)
    began.directory._save({"version": 1, "name": SMALL, "asked": asked}, 3)
    with pytest.raises(UsageError, match="cannot read"):
        as_begun(experiment(tmp_path))


def test_trials_of_another_version_are_told() -> None:
    now = f"hyperslab {__version__}"
    assert list(earlier.earlier_versions({"a": [now, "numpy 2"]})) == []
    (told,) = earlier.earlier_versions({"a": ["hyperslab 0.0.9", now], "b": [now]})
    assert told.endswith(f"They are judged by {now}, and were run: `a` by hyperslab 0.0.9.")


def test_settings_that_are_the_same_on_a_machine_are_not_compared(tmp_path: Path) -> None:
    """A quarter of one processor is that one; of two it is one, too, and all of them are two."""
    asked = Experiment.of(find("storage-tiers/incrementation").load("quick"), tmp_path)

    def said(processors: int) -> Judged:
        record = record_of(asked, {}, {"processors": processors}, {})
        found = judged(PAPERS["storage-tiers"], [Finding(asked, answer_of(asked, record))])
        (told,) = [one for claim, one in found if claim.text == "More processes pay on dram."]
        return told

    assert said(2).outcome == "refuted"
    alone = said(1)
    assert alone.outcome == "not tested"
    same = "workers 0.25x (1 worker) and 1x (1 worker)"
    assert f"Not compared, as both are the same on this machine: {same}." in alone.evidence


def test_numbers_without_a_ratio_are_shown_in_words() -> None:
    low = ("dram", {(1, 0): -0.1, (2, 0): -0.12})
    high = ("isilon", {(1, 0): 0.5, (2, 0): 0.51})
    (told,) = rising("Share", low, high, storage_tiers._show_waits).evidence
    assert "none (tasks used 1.11 processors) on dram and 0.505 on isilon" in told


@pytest.mark.parametrize("paper", ["dask-vs-spark", "storage-tiers"])
def test_advice_rests_on_claims(paper: str) -> None:
    module = {"dask-vs-spark": dask_vs_spark, "storage-tiers": storage_tiers}[paper]
    texts = {claim.text for claim in PAPERS[paper].claims}
    assert module.ADVICE.keys() <= texts
    text = next(iter(module.ADVICE))
    outcome, told = next(iter(module.ADVICE[text].items()))
    (claim,) = [one for one in PAPERS[paper].claims if one.text == text]
    assert module.advice([(claim, Judged(outcome, ["So it was."]))]) == [f"{told} So it was."]
    assert module.advice([(claim, Judged("open", ["Who knows."]))]) == []
