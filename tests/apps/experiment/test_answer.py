"""The answer: what it decides from trials that tell little, or nothing."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import Answer, answer_of, makespan_words
from hyperslab.apps.experiment.answers.comparison import Verdict
from hyperslab.apps.experiment.claims.margins import signs_of
from hyperslab.apps.experiment.pages.page import write_experiment_page
from hyperslab.apps.experiment.pages.sheets import cells_sheet
from hyperslab.apps.experiment.pages.trends import numbers_sheet
from hyperslab.apps.experiment.trials.record import Attempt, Record
from tests.apps.experiment.specs import TEXT, experiment, record_of

TWO = "iterations 2"
LONG = "it was ended after 1 s"


def _changed(record: Record, change: Callable[[Attempt], Attempt]) -> Record:
    attempts = [change(one) for one in record.attempts]
    return Record(record.sessions, attempts, 0, {one.number: [one] for one in attempts})


def _starving(iterations: int, replicates: Sequence[int]) -> Callable[[Attempt], Attempt]:
    def change(one: Attempt) -> Attempt:
        is_it = one.levels["iterations"] == iterations and one.replicate in replicates
        return dataclasses.replace(one, starved="others took 40 %") if is_it else one

    return change


def _cut(iterations: int, delay: float = 0) -> Callable[[Attempt], Attempt]:
    """The last replicate of a cell was ended for its length."""

    def change(one: Attempt) -> Attempt:
        levels = (one.levels["iterations"], one.levels["delay"], one.replicate)
        if levels != (iterations, delay, 3):
            return one
        return dataclasses.replace(one, state="too long", reason=LONG)

    return change


def test_trials_that_were_starved_decide_nothing(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, {TWO: (9.0, 1.01, 0.99)}, {})
    answer = answer_of(asked, _changed(record, _starving(2, [1])))
    assert "iterations, at delay 0: 2 and 1 are equivalent (within 10 %)." in answer.decision
    assert "in no mean or comparison" in " ".join(answer.certainty)
    assert ("iterations 2", "1.00 s ± 127 ms", "2 (1 starved)") in cells_sheet(answer).rows
    few = _changed(record, _starving(2, [1, 2, 3]))
    answer = answer_of(asked, few)
    told = "whether 2 differs from 1 is open, as too few trials had the processors for themselves"
    assert f"iterations, at delay 0: {told}." in answer.decision
    assert "delay, at iterations 1: 0.01 and 0 are equivalent (within 10 %)." in answer.decision
    assert "3.67 s, starved" in [makespan_words(one) for one in answer.results]
    one_left = answer_of(asked, _changed(record, _starving(2, [1, 2])))
    assert f"iterations, at delay 0: {told}." in one_left.decision
    page = tmp_path / "report.html"
    write_experiment_page(page, asked, few, answer)
    assert page.read_text().count("starved: others took 40 %") == 3


def test_the_shorter_ones_of_trials_do_not_stand_for_all(tmp_path: Path) -> None:
    """Of a cell whose longest trial was ended: slower may be told, nothing else."""
    asked = experiment(tmp_path)

    def verdict(seconds: float, change: Callable[[Attempt], Attempt]) -> tuple[Answer, Verdict]:
        record = record_of(asked, {TWO: (seconds, seconds * 1.001, seconds)}, {})
        answer = answer_of(asked, _changed(record, change))
        (one,) = [one for one in answer.comparisons if one.cell.name == TWO]
        return answer, one.verdict

    answer, found = verdict(0.5, _cut(2))
    assert found == "open"
    ended = "trials of 2 were ended for their length, so that nothing is called faster or"
    assert any(ended in text for text in answer.decision)
    assert any("open, as trials of 2 were ended for their length" in one for one in answer.evidence)
    assert verdict(1.0, _cut(2))[1] == "open"
    assert verdict(2.0, _cut(2))[1] == "slower"
    answer, found = verdict(2.0, _cut(1))
    assert found == "open"
    ended = "trials of 1 were ended for their length, so that nothing is called slower"
    assert any(ended in text for text in answer.decision)
    assert verdict(1.0, _cut(1))[1] == "open"
    assert verdict(0.5, _cut(1))[1] == "faster"
    assert verdict(0.5, _cut(1, 0.01))[1] == "faster", "of another cell"


def test_claims_are_not_judged_by_the_shorter_ones_of_trials(tmp_path: Path) -> None:
    asked = experiment(tmp_path)

    def sign(seconds: float, change: Callable[[Attempt], Attempt], *wanted: Verdict) -> bool | None:
        record = record_of(asked, {TWO: (seconds, seconds * 1.001, seconds)}, {})
        answer = answer_of(asked, _changed(record, change))
        (one,) = [one for one in answer.comparisons if one.cell.name == TWO]
        return signs_of([(wanted, one)])[0]

    assert sign(0.5, _cut(2), "faster") is None
    assert sign(0.5, _cut(2), "equivalent") is None
    assert sign(0.5, _cut(2), "equivalent", "slower") is None
    assert sign(1.0, _cut(2), "equivalent") is None
    assert sign(1.0, _cut(2), "equivalent", "faster") is None
    assert sign(2.0, _cut(2), "slower") is True
    assert sign(2.0, _cut(2), "equivalent") is False
    assert sign(2.0, _cut(2), "equivalent", "slower") is True
    assert sign(2.0, _cut(1), "equivalent", "slower") is None
    assert sign(2.0, _cut(1), "equivalent") is None
    assert sign(0.5, _cut(1), "equivalent", "faster") is True


def test_what_is_decided_allows_for_the_number_of_comparisons(tmp_path: Path) -> None:
    """A difference at 4 % by chance tells alone, and not as one of two; its interval stays."""
    asked = experiment(tmp_path)
    slow = (1.15, 1.25, 1.32)
    answer = answer_of(asked, record_of(asked, {TWO: slow, "delay 0.01": (0.5, 1.0, 2.0)}, {}))
    (one,) = [one for one in answer.comparisons if one.cell.name == TWO]
    assert one.verdict == "slower"
    assert one.differs_p is not None
    assert 0.025 < one.differs_p < 0.05
    assert any("whether 2 differs from 1 is open (at most 1." in one for one in answer.decision)
    (told,) = [text for text in answer.evidence if text.startswith("iterations 2 against 1")]
    assert "slower, by at least" in told
    assert "alone; among so many comparisons it may be chance: about 4 replicates may tell" in told
    assert "(Holm 1979)" in " ".join(answer.certainty)


def test_replicates_that_are_still_to_be_run_may_tell(tmp_path: Path) -> None:
    """Two of ten replicates, of a setting that takes about 2.5 times as long."""
    asked = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 10"))
    record = record_of(asked, {TWO: (2.1, 3.1), "delay 0.01": (2.1, 3.1)}, {})
    attempts = [one for one in record.attempts if one.replicate <= 2]
    half = Record([], attempts, 0, {one.number: [one] for one in attempts})
    (told,) = [one for one in answer_of(asked, half).evidence if one.startswith("iterations 2")]
    assert re.search(r"; open: [3-6] of the 10 replicates asked for may tell\.$", told)
    three = experiment(tmp_path, TEXT.replace("replicates = 3", "replicates = 2"))
    (told,) = [one for one in answer_of(three, half).evidence if one.startswith("iterations 2")]
    assert re.search(r"about ([3-6]) replicates may tell \(resume with --replicates \1\)", told)


def test_time_for_collecting_garbage_is_told_of_cells_that_know_it(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    record = record_of(asked, {}, {})
    assert "garbage" not in numbers_sheet(answer_of(asked, record)).columns

    def collected(one: Attempt) -> Attempt:
        if one.levels["iterations"] != 2:
            return one
        return dataclasses.replace(one, numbers={**one.numbers, "java_gc_s": 2.0})

    sheet = numbers_sheet(answer_of(asked, _changed(record, collected)))
    told = {row[0]: row[-1] for row in sheet.rows}
    assert sheet.columns[-1] == "garbage"
    assert told[TWO].startswith("2")
    assert told["baseline"] == "-"
