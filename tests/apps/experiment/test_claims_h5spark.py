"""Claims on H5Spark: judged as a record says that has an effect planted in it, and told on a page
that says what the scale does not measure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.claims.claim import Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged, write_verdicts
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of

PAPER = PAPERS["h5spark"]
TARGETS = {"one": 8, "four": 2, "eight": 1}
"Seconds of a load from so many targets, in proportion."
Levels = Mapping[str, Level]
Seconds = Callable[[Levels], float]


def finding(name: str, root: Path, seconds: Seconds, scale: str = "quick") -> Finding:
    """An experiment whose cells took so long, a hundredth more or less in each replicate."""
    asked = Experiment.of(find(f"h5spark/{name}").load(scale), root / name)
    times = {
        one.cell.name: [seconds(one.cell.levels) * drift for drift in (0.99, 1.0, 1.01)]
        for one in asked.trials
    }
    return Finding(asked, answer_of(asked, record_of(asked, times, {}, {})))


def found(
    name: str, root: Path, seconds: Seconds = lambda levels: 1.0, scale: str = "quick"
) -> dict[str, Judged]:
    """What comes of the claims that an experiment judges."""
    one = finding(name, root, seconds, scale)
    return {claim.text: said for claim, said in judged(PAPER, [one]) if claim.spec == one.name}


def outcome(said: Mapping[str, Judged], words: str) -> str:
    (one,) = [each.outcome for text, each in said.items() if words in text]
    return one


def striped(levels: Levels) -> float:
    """As the paper has it: MPI gains in proportion to the targets, Spark less."""
    alone_s = 0.5 if levels["engine"] == "mpi" else 2.0
    return alone_s + TARGETS[str(levels["input_tier"])]


def scaled(levels: Levels) -> float:
    """As the paper has it: cores of which some are idle, and executors that gain less and less."""
    if levels["engine"] == "mpi":
        return 1.0
    if levels["blocks"] == 1 or levels["workers"] == 1:
        return 3.0
    return 2.0


def test_targets_of_a_striped_store(tmp_path: Path) -> None:
    said = found("stripes", tmp_path, striped)
    assert outcome(said, "more targets") == "by construction", "its tiers are emulated"
    assert outcome(said, "MPI gains more") == "reproduced"
    assert outcome(said, "however many targets") == "reproduced"
    (told,) = [one for text, one in said.items() if "MPI gains more" in text]
    assert "On one beside eight, without the start of engines: 5.67 x" in told.evidence[0]


def test_executors_and_partitions(tmp_path: Path) -> None:
    said = found("partitions", tmp_path, scaled)
    assert {one.outcome for one in said.values()} == {"reproduced"}
    (told,) = [one for text, one in said.items() if "in proportion" in text]
    assert "one executor beside 2: 1.50 x" in told.evidence[1]


def test_nothing_is_claimed_of_what_is_alike(tmp_path: Path) -> None:
    stripes = found("stripes", tmp_path)
    partitions = found("partitions", tmp_path)
    assert outcome(stripes, "more targets") == "by construction", "whichever way it points"
    assert outcome(stripes, "however many targets") == "refuted"
    assert outcome(stripes, "MPI gains more") == "open"
    assert outcome(partitions, "fewer partitions than cores") == "refuted"
    assert outcome(partitions, "save nothing") == "reproduced"
    assert outcome(partitions, "closer to MPI") == "open"
    faster = found("partitions", tmp_path, lambda levels: 16.0 / float(levels["blocks"]))
    assert outcome(faster, "save nothing") == "refuted"
    assert outcome(faster, "fewer partitions than cores") == "reproduced"
    ideal = found("partitions", tmp_path, lambda levels: 2.0 / float(levels["workers"]))
    assert outcome(ideal, "and less so") == "in part"


def test_what_was_not_run_judges_nothing(tmp_path: Path) -> None:
    """A smoke test has neither Spark's cells nor partitions that leave a core idle."""
    assert outcome(found("stripes", tmp_path, scale="smoke"), "more targets") == "not tested"
    said = found("partitions", tmp_path, scale="smoke")
    assert outcome(said, "fewer partitions than cores") == "not tested"
    assert outcome(said, "and less so") == "not tested"
    assert outcome(said, "closer to MPI") == "not tested"


def test_the_page_says_what_this_machine_cannot_tell(tmp_path: Path) -> None:
    findings = [finding("stripes", tmp_path, striped), finding("partitions", tmp_path, scaled)]
    text = write_verdicts(tmp_path / "out", PAPER, findings, "hyperslab ...").read_text()
    assert "| A reader in Scala is faster than one in Python. | not tested |" in text
    assert "There is no reader in Scala here." in text
    assert "## Errata of the paper" in text
    assert "one (1 of 8 targets of 20MB/s)" in text
    assert "| input_tier two, engine processes and h5py |" in text
    assert "- Not measured at scale `quick`: engine processes and h5py." in text
