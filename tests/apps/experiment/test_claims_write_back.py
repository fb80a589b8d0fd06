"""Claims on write-back: what it could save, which moment is judged, and what is by construction."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.comparison import MEASURE, WITHOUT_START
from hyperslab.apps.experiment.claims.claim import UNTIL_WRITTEN, Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged
from hyperslab.apps.experiment.claims.storage_tiers import READ_ONCE
from hyperslab.apps.experiment.claims.write_back import NOTHING_HIDDEN, ONE_MOMENT
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of

FITS = "Write-back pays for what fits, with"
MORE = "Write-back pays for more than fits, with"


def _judged(spec: str, root: Path, seconds: Mapping[str, Mapping[str, float]]) -> dict[str, Judged]:
    """What comes of the claims on tiers, whose trials took so long on each of two tiers, by both
    moments.
    """
    asked = Experiment.of(find(spec).load("quick"), root)

    def change(one: Attempt) -> Attempt:
        drift = 1 + 0.002 * one.replicate * (1 + one.number % 3)
        own = {name: value * drift for name, value in seconds[str(one.levels["tier"])].items()}
        return dataclasses.replace(one, numbers={**one.numbers, **own})

    attempts = [change(one) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    found = judged(PAPERS["storage-tiers"], [Finding(asked, answer_of(asked, record))])
    return {claim.text: one for claim, one in found}


def _write_back(
    root: Path, back: Mapping[str, float], through: Mapping[str, float]
) -> list[Judged]:
    """What comes of the four claims: what fits and more than that, busy and with nothing to do."""
    found = _judged("storage-tiers/write-back", root, {"back": back, "through": through})
    ends = ("something to compute meanwhile.", "nothing else to do.")
    return [found[f"{size} {end}"] for size in (FITS, MORE) for end in ends]


def test_the_moment_of_the_paper_has_to_be_recorded(tmp_path: Path) -> None:
    found = _write_back(tmp_path, {MEASURE: 10.8}, {MEASURE: 10.8})
    assert {one.outcome for one in found} == {"open"}
    assert all(ONE_MOMENT in one.evidence for one in found)


def test_with_nothing_else_to_do_it_is_by_construction_either_way(tmp_path: Path) -> None:
    """Also where it is refuted: until all is on storage nothing can be saved."""
    whole = {MEASURE: 1.0, UNTIL_WRITTEN: 1.0}
    _, fits, _, more = _write_back(tmp_path, whole, whole)
    assert (fits.outcome, more.outcome) == ("by construction", "by construction")
    _, fits, _, _ = _write_back(tmp_path, {MEASURE: 1.0, UNTIL_WRITTEN: 0.2}, whole)
    assert fits.outcome == "by construction"
    assert NOTHING_HIDDEN in fits.evidence
    evidence = "\n".join(fits.evidence)
    assert "comparisons told: 1 as the paper states, 1 otherwise" in evidence
    assert "\nUntil the last write into memory, tier back" in evidence


def test_what_could_save_little_is_not_tested(tmp_path: Path) -> None:
    """96 MiB at 30 MB/s are 3.4 s of 22: less than three margins of 10 %. Of 384 MiB 13 s are."""
    whole = {MEASURE: 21.6, UNTIL_WRITTEN: 21.0}
    fits, _, more, _ = _write_back(tmp_path, whole, whole)
    assert fits.outcome == "not tested"
    assert fits.evidence[3].startswith("It could gain 15 % at most, which is less than 3 margins")
    (told,) = [text for text in fits.evidence if text.startswith("Of 96MiB it can save")]
    assert (
        "it can save about 15 % at most until all is on storage: writing takes 3.36 s at 30MB/s"
        in told
    )
    assert told.endswith("Until the last write into memory it can save about 16 % at most.")
    assert more.outcome == "by construction", "refuted, on emulated tiers"
    assert any(text.startswith("The tier's write-back takes") for text in more.evidence)


def test_what_can_be_saved_is_what_can_overlap(tmp_path: Path) -> None:
    """96 MiB at 30 MB/s are 3.4 s of 4.2: 0.8 s are left in which something else is done."""
    whole = {MEASURE: 4.2, WITHOUT_START: 4.2, UNTIL_WRITTEN: 3.9}
    _, fits, _, _ = _write_back(tmp_path, whole, whole)
    (told,) = [text for text in fits.evidence if text.startswith("Of 96MiB it can save")]
    assert told.startswith("Of 96MiB it can save about 21 % at most until all is on storage")
    assert told.endswith("Until the last write into memory it can save about 85 % at most.")


def test_sizes_that_could_save_little_are_left_out(tmp_path: Path) -> None:
    """192 MiB take 6.7 s of 30: 22 %; 384 MiB take 45 %."""
    whole = {MEASURE: 30.0, UNTIL_WRITTEN: 30.0}
    _, _, more, _ = _write_back(tmp_path, whole, whole)
    assert more.outcome == "by construction"
    assert any(text.startswith("Not judged: 192MiB, of which") for text in more.evidence)
    assert any(text.startswith("2 of 2 comparisons told") for text in more.evidence)


def test_staging_of_what_is_read_once_saves_nothing_by_construction(tmp_path: Path) -> None:
    found = _judged("storage-tiers/intermediates", tmp_path, {"shared": {MEASURE: 1.0}})
    told = found["Staging inputs and outputs on a fast tier pays."]
    assert told.outcome == "by construction"
    assert READ_ONCE in told.evidence
