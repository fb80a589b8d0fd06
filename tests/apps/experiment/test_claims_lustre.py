"""Claims on Spark's scratch: judged as a record says that has an effect planted in it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.claims.claim import Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged, write_verdicts
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of
from tests.formats.files import ROOT

PAPER = PAPERS["spark-on-lustre"]
Levels = Mapping[str, Level]
Seconds = Callable[[Levels], float]
"Time of a round by the levels of a cell."


def asked(name: str, root: Path) -> Experiment:
    return Experiment.of(find(f"spark-on-lustre/{name}").load("quick"), root)


def record(
    experiment: Experiment,
    seconds: Seconds,
    more: Callable[[Levels], Mapping[str, float]],
    load: Mapping[str, float | None] = {},
) -> Record:
    """A record of rounds that differ by a hundredth among replicates, further numbers, and what
    others did meanwhile.
    """
    attempts = []
    for one in record_of(experiment, {}, {}).attempts:
        round_s = seconds(one.levels) * (0.99 + one.replicate / 100)
        measured = _with(one, {"round_median_s": round_s, **more(one.levels)})
        attempts.append(dataclasses.replace(measured, load_during={**one.load_during, **load}))
    by_trial = {one.number: [one] for one in attempts}
    return Record(attempts=attempts, by_trial=by_trial)


def _with(attempt: Attempt, numbers: Mapping[str, float]) -> Attempt:
    return dataclasses.replace(attempt, numbers={**attempt.numbers, **numbers})


def found(
    name: str,
    root: Path,
    seconds: Seconds = lambda levels: 1.0,
    more: Callable[[Levels], Mapping[str, float]] = lambda levels: {},
    load: Mapping[str, float | None] = {},
) -> dict[str, Judged]:
    """What comes of the claims that an experiment judges."""
    experiment = asked(name, root / name)
    finding = Finding(experiment, answer_of(experiment, record(experiment, seconds, more, load)))
    spec = experiment.loaded.name
    return {claim.text: one for claim, one in judged(PAPER, [finding]) if claim.spec == spec}


def outcome(said: Mapping[str, Judged], words: str) -> str:
    (one,) = [each.outcome for text, each in said.items() if words in text]
    return one


def slow_on(scratch: str, seconds: float) -> Seconds:
    """Rounds that take so long on one scratch, and a second on others."""
    return lambda levels: seconds if levels["scratch"] == scratch else 1.0


SHUFFLING = {
    "group-by-worst-java": 8.0,
    "agg-by-key": 2.0,
    "agg-by-key-int": 3.0,
    "agg-by-key-naive": 5.0,
}


def shuffled(levels: Levels) -> float:
    """Rounds that shuffle take longer on shared storage, those of agg-by-key-naive most."""
    if levels["scratch"] != "shared":
        return 1.0
    return SHUFFLING.get(str(levels["workload"]), 1.0)


def test_where_shuffles_leave_their_files(tmp_path: Path) -> None:
    served = {"shared": 6000.0, "image:shared": 2.0}
    said = found(
        "scratch",
        tmp_path,
        shuffled,
        lambda levels: {"tier_operations": served.get(str(levels["scratch"]), 0.0)},
    )
    assert outcome(said, "than in memory") == "by construction"
    assert outcome(said, "Sums by key take") == "by construction"
    for words in ("loses most", "shuffles nothing", "is faster than plain"):
        assert outcome(said, words) == "reproduced", words
    for words in ("at most 1.6", "as fast as a local", "gain most", "hardly anything"):
        assert outcome(said, words) == "reproduced", words
    (told,) = [one for text, one in said.items() if "hardly anything" in text]
    assert "6,000 operations on names with plain files, and for 2.0 with" in told.evidence[0]


def test_nothing_is_claimed_of_places_that_are_alike(tmp_path: Path) -> None:
    said = found("scratch", tmp_path, lambda levels: 1.0)
    assert outcome(said, "than in memory") == "by construction", "whichever way it points"
    assert outcome(said, "Sums by key take") == "by construction"
    assert outcome(said, "loses most") == "open"
    assert outcome(said, "is faster than plain") == "refuted"
    assert outcome(said, "hardly anything") == "not tested"
    idle = found("scratch", tmp_path, more=lambda levels: {"tier_operations": 0.0})
    assert outcome(idle, "hardly anything") == "not tested", "plain files asked for nothing either"
    slow = found("scratch", tmp_path, slow_on("image:shared", 2.0))
    assert outcome(slow, "at most 1.6") == "refuted"


def test_what_gains_by_shared_storage_supports_no_loss(tmp_path: Path) -> None:
    """A ratio below 1 is none, be it above those of others; nor is one as unaffected."""

    def gaining(levels: Levels) -> float:
        if levels["scratch"] != "shared":
            return 1.0
        return 0.81 if levels["workload"] == "agg-by-key-naive" else 0.6

    said = found("scratch", tmp_path, gaining)
    assert outcome(said, "loses most") == "refuted"
    assert outcome(said, "shuffles nothing") == "refuted"


def test_growth_with_clients(tmp_path: Path) -> None:
    def served_in_turns(levels: Levels) -> float:
        return float(levels["clients"]) if levels["scratch"] == "shared" else 1.0

    said = found("clients", tmp_path, served_in_turns)
    assert outcome(said, "grows with the number of nodes") == "reproduced"
    assert outcome(said, "With several nodes") == "reproduced"
    alike = found("clients", tmp_path, lambda levels: float(levels["clients"]))
    assert outcome(alike, "grows with the number of nodes") == "open"

    def gaining(levels: Levels) -> float:
        clients = float(levels["clients"])
        return 0.5 + clients / 20 if levels["scratch"] == "shared" else 1.0

    text = "grows with the number of nodes"
    assert outcome(found("clients", tmp_path, gaining), text) == "refuted"
    with_others = found("clients", tmp_path, gaining, load={"idle_cpus": 0.5})
    assert outcome(with_others, text) == "refuted"
    without = found("clients", tmp_path, gaining, load={"idle_cpus": 0.0})
    assert outcome(without, text) == "open", "clients waited for processors in memory, too"
    longer = found("clients", tmp_path, served_in_turns, load={"idle_cpus": 0.0})
    assert outcome(longer, text) == "reproduced"


def test_the_cause(tmp_path: Path) -> None:
    text = "latency of metadata"
    names = found("cause", tmp_path, slow_on("slow-names", 3.0))
    assert outcome(names, text) == "reproduced"
    bytes_too = {"slow-names": 3.0, "narrow": 3.0}
    both = found("cause", tmp_path, lambda levels: bytes_too.get(str(levels["scratch"]), 1.0))
    assert outcome(both, text) == "mixed"
    width = found("cause", tmp_path, slow_on("narrow", 3.0))
    assert outcome(width, text) == "refuted"


def counts(levels: Levels) -> dict[str, float]:
    """Those of Spark 4."""
    tasks = int(levels["partitions"])
    is_sorted = tasks > int(levels["threshold"])
    temporary = 0 if is_sorted else tasks**2
    return {
        "shuffle_opens": 2 * tasks**2 + temporary,
        "shuffle_read_opens": 2 * tasks**2,
        "shuffle_creates": 3 * tasks + temporary,
        "shuffle_write_operations": 9 * tasks,
        "shuffle_read_operations": 5 * tasks**2,
    }


def test_counts_are_those_of_formulas(tmp_path: Path) -> None:
    said = found("operations", tmp_path, more=counts)
    assert outcome(said, "pairs of a map and a reduce task") == "reproduced"
    assert outcome(said, "Every reduce task opens") == "reproduced"
    assert outcome(said, "not with that of pairs") == "mixed"
    assert outcome(said, "always written") == "reproduced"
    other = found(
        "operations", tmp_path, more=lambda levels: {**counts(levels), "shuffle_opens": 7}
    )
    assert outcome(other, "pairs of a map and a reduce task") == "refuted"
    assert outcome(found("operations", tmp_path), "always written") == "not tested"


def opening(levels: Levels) -> float:
    """An open takes longer than a small read on shared storage."""
    if levels["opens"] == "once" or levels["read_size"] == "1MiB":
        return 1.0
    small = {"1KiB": 9.0, "64KiB": 3.0}[str(levels["read_size"])]
    return small if levels["scratch"] == "shared" else 2.0


def test_opens_for_every_read(tmp_path: Path) -> None:
    rates = {"once": 0.01, "each": 3.0}
    said = found(
        "opening",
        tmp_path,
        opening,
        lambda levels: {"opens_per_read": rates[str(levels["opens"])]},
    )
    for words in ("the smaller the reads", "a megabyte", "opening costs less", "A pool"):
        assert outcome(said, words) == "reproduced", words
    assert outcome(found("opening", tmp_path), "the smaller the reads") == "open"
    assert outcome(found("opening", tmp_path), "A pool") == "not tested"


def test_workloads_of_mllib(tmp_path: Path) -> None:
    said = found("mllib", tmp_path, slow_on("shared", 2.0))
    assert outcome(said, "Of MLlib") == "by construction"
    assert outcome(said, "gain from one file") == "reproduced"


def test_the_page_has_advice_with_its_evidence(tmp_path: Path) -> None:
    experiment = asked("scratch", tmp_path / "scratch")
    experiment.directory.root.mkdir()
    finding = Finding(experiment, answer_of(experiment, record(experiment, shuffled, lambda _: {})))
    text = write_verdicts(tmp_path / "out", PAPER, [finding], "hyperslab ...").read_text()
    assert "- Give Spark scratch in one file: `hyperslab scratch exec --on DIR`" in text
    assert "## Errata of the paper" in text
    assert "shared (opening 1 ms)" in text


def test_tests_that_hold_claims_are_there(tmp_path: Path) -> None:
    """And the page tells what that means."""
    held = [one for _, one in judged(PAPER, []) if one.outcome == "held by a test"]
    assert len(held) == 3
    for one in held:
        places = re.findall(r"`(tests/\S+)::(\w+)`", one.evidence[0])
        assert places
        assert all(f"def {name}(" in (ROOT / path).read_text() for path, name in places)
    text = write_verdicts(tmp_path, PAPER, [], "hyperslab ...").read_text()
    assert "A claim is held by a test where no trial tells it" in text
