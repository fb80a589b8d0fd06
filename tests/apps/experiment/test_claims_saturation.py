"""Claims on a saturated tier: judged where a model says that storage binds, and there alone."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.phases import CellPhases, Phases
from hyperslab.apps.experiment.claims.claim import Evidence, Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged
from hyperslab.apps.experiment.claims.saturation import first_reads, narrowed
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.model.places import Known
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.storage.recordfile import save_record
from hyperslab.storage.tiers.tier import Tier
from tests.apps.experiment.specs import record_of
from tests.apps.experiment.test_claims import (
    DASK,
    READS,
    outcome,
    outcomes,
    outcomes_of,
    varied,
    with_numbers,
)

BUSY = 1000.0
"Bytes per second at which the bytes that are known to reach storage take a second."
BUSY_LONGEST = 1000 / 0.72
"Bytes per second at which storage is busy for longest, and for 72 % of the second of a trial."


def saturating(asked: Experiment, record: Record, rate: float = 1.0) -> Record:
    """The same record, whose cells write and read on tiers of so many bytes per second, a thousand
    bytes each.
    """
    places = {}
    for name in ("saturated", "idle"):
        path = str(asked.inputs.tier(Path(name)))
        ceilings = {"read-cold": rate, "write": rate}
        places[path] = dataclasses.asdict(Known(Tier(path, "here"), ceilings=ceilings))
    save_record(asked.directory.places, {"version": 2, "places": places})
    moved = {"read_nbytes": 1000.0, "slots": 4.0, "tasks": 4.0, "startup_s": 0.0, "overhead_s": 1.0}
    attempts = [
        dataclasses.replace(one, numbers={**moved, **one.numbers}) for one in record.attempts
    ]
    return Record([], attempts, 0, {one.number: [one] for one in attempts})


def test_first_reads_and_compensation_are_those_of_the_saturated_tier(tmp_path: Path) -> None:
    found = outcomes(READS, {}, tmp_path)
    assert outcome(found, "first reads") == "not tested", "records without traces"
    assert outcome(found, "gains in transfer") == "not tested", "records without overhead"
    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    found = outcomes_of(asked, saturating(asked, record_of(asked, {}, {}, {})))
    assert outcome(found, "putting transfers off costs nothing") == "by construction", (
        "its rate is asked for"
    )


def test_nothing_is_said_of_saturated_storage_where_it_does_not_bind(tmp_path: Path) -> None:
    """By a model that says what binds, by one of fast storage, and by none."""
    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    bare = record_of(asked, {"tier idle, engine spark": varied(2)}, {}, starts={})
    words = ("narrower", "putting transfers off costs nothing", "wait for a shared file system")
    unknown = outcomes_of(asked, bare)
    assert {outcome(unknown, one) for one in words} == {"not tested"}
    free = outcomes_of(asked, saturating(asked, bare, rate=1e9))
    assert {outcome(free, one) for one in words} == {"not tested"}
    bound = outcomes_of(asked, saturating(asked, bare))
    assert {outcome(bound, one) for one in words} == {"by construction"}
    partly = saturating(asked, bare, rate=BUSY_LONGEST)
    one, *_ = [one for one in answer_of(asked, partly).expected if one.storage_binds]
    assert 0.7 < one.explained < 0.75
    found = outcomes_of(asked, partly)
    assert {outcome(found, one) for one in words} == {"not tested"}, "busy longest is not enough"
    mostly = outcomes_of(asked, saturating(asked, bare, rate=0.85 * BUSY_LONGEST))
    assert {outcome(mostly, one) for one in words} == {"by construction"}


def test_first_reads_are_those_of_slots_that_wait_for_storage(tmp_path: Path) -> None:
    asked = Experiment.of(find(READS).load("quick"), tmp_path)

    def said(record: Record) -> Judged:
        answer = answer_of(asked, record)
        trials = [Phases({}, first, 1.0, n) for n, first in enumerate(varied(2), 1)]
        phases = [CellPhases(result, trials) for result in answer.results]
        return first_reads(Evidence(dataclasses.replace(answer, phases=phases), 0.1))

    record = record_of(asked, {}, {}, {})
    found = said(record)
    assert found.outcome == "not tested"
    assert found.evidence[0].startswith("That storage binds is not shown: there is no model of")
    assert said(saturating(asked, record)).outcome == "reproduced"


def test_overhead_that_transfer_makes_up_for(tmp_path: Path) -> None:
    def said(spark: Mapping[str, float]) -> str:
        record = with_numbers(asked, {"engine spark (tier emulated)": spark})
        return outcome(outcomes_of(asked, saturating(asked, record)), "gains in transfer")

    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    assert said({"overhead_s": 3.0, "read_s": 1.0}) == "by construction"
    assert said({"overhead_s": 3.0, "read_s": 3.0}) == "by construction", "either way"
    assert said({"overhead_s": 2.0, "read_s": 2.0}) == "open", "nothing to make up for"


def test_the_gap_between_engines(tmp_path: Path) -> None:
    asked = Experiment.of(find(READS).load("quick"), tmp_path)

    def said(cell: str, factors: Sequence[float]) -> str:
        record = record_of(asked, {cell: factors}, {}, starts={})
        return outcome(outcomes_of(asked, saturating(asked, record)), "narrower")

    idle = "tier idle, engine spark"
    assert said(idle, varied(2)) == "by construction"
    assert said("engine spark (tier emulated)", varied(2)) == "open", "no gap to be narrower"
    assert said(idle, (0.5, 1.0, 1.0)) == "open", "none is shown"


def test_a_gap_is_no_narrower_where_engines_vary_less() -> None:
    """On either tier Spark takes as long as Dask, and on the idle one times vary more: a gap is
    called narrower by chance alone, in no more than one case of twenty.
    """
    draws = random.Random(18)
    found = []
    for _ in range(400):
        far, near = ([draws.gauss(0.0, sd) for _ in range(6)] for sd in (0.15, 0.03))
        found.append(narrowed("", far, near).outcome)
    assert found.count("reproduced") <= 0.05 * len(found)


def test_a_gap_that_changes_sides_is_wider_or_narrower() -> None:
    few = (-0.01, 0.0, 0.01, -0.01, 0.0, 0.01)
    far = [0.5 + one for one in few]

    def said(gap: float) -> str:
        return narrowed("", far, [gap + one / 2 for one in few]).outcome

    assert [said(gap) for gap in (0.1, -0.1)] == ["reproduced", "reproduced"]
    assert [said(gap) for gap in (0.9, -0.9)] == ["refuted", "refuted"]


def test_bytes_take_as_long_as_the_bandwidth_says(tmp_path: Path) -> None:
    """On every engine as long as storage is busy, or twice as long."""
    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    law = "n files of F bytes take nF / B"

    def said(factors: Sequence[float]) -> str:
        cells = ["baseline (tier emulated)"]
        cells += [f"engine {name} (tier emulated)" for name in ("dask-futures", "spark")]
        record = record_of(asked, dict.fromkeys(cells, factors), {}, starts={})
        return outcome(outcomes_of(asked, saturating(asked, record, rate=BUSY)), law)

    assert said((0.99, 1.0, 1.01)) == "by construction"
    assert said((1.98, 2.0, 2.02)) == "by construction", "whichever way it points"
    unknown = outcomes_of(asked, record_of(asked, {}, {}, {}))
    assert outcome(unknown, law) == "not tested"


def test_what_is_put_off_costs_time_on_idle_storage(tmp_path: Path) -> None:
    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    late = {"tier idle, readers_per_device 1": varied(2), "tier idle, stagger 0.2": varied(2)}
    words = "putting transfers off costs time"
    found = outcomes_of(asked, record_of(asked, late, {}, {}))
    assert outcome(found, words) == "reproduced"
    assert outcome(outcomes_of(asked, record_of(asked, {}, {}, {})), words) == "refuted"


def test_engines_on_idle_storage_need_long_runs(tmp_path: Path) -> None:
    """Of a second in which tasks compute for a second beside a second around them."""
    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    slow = record_of(asked, {"tier idle, engine spark, delay 1.4": varied(2)}, {}, {})
    assert outcome(outcomes_of(asked, slow), "where storage is idle") == "reproduced"
    short = saturating(asked, slow)
    assert outcome(outcomes_of(asked, short), "where storage is idle") == "not tested"


def test_engines_that_sleep_on_idle_storage_are_alike_by_construction(tmp_path: Path) -> None:
    """Tasks that sleep for 1.4 s of 1.5 s take as long on every engine, whatever storage does."""
    asked = Experiment.of(find(READS).load("quick"), tmp_path)

    def said(busy_s: float) -> str:
        record = with_numbers(
            asked,
            {
                f"tier idle, engine {name}, delay 1.4": {"busy_s": busy_s, "compute_s": busy_s}
                for name in ("dask-futures", "spark")
            },
        )
        return outcome(outcomes_of(asked, record), "where storage is idle")

    assert said(32 * 1.5) == "by construction"
    assert said(32 * 3.0) == "refuted", "they do something else for most of their time"


def test_first_reads_on_an_emulated_tier_are_by_construction(tmp_path: Path) -> None:
    """Its requests wait for those before them, of which first ones find the fewest."""
    asked = Experiment.of(find(READS).load("quick"), tmp_path)
    record = saturating(asked, record_of(asked, {}, {}, {}))
    answer = answer_of(asked, record)
    trials = [Phases({}, 0.6 * later, 1.0, n) for n, later in enumerate(varied(1), 1)]
    phases = [CellPhases(result, trials) for result in answer.results]
    finding = Finding(asked, dataclasses.replace(answer, phases=phases))
    (found,) = [one for claim, one in judged(PAPERS[DASK], [finding]) if "first r" in claim.text]
    assert found.outcome == "by construction"
    assert found.evidence[0].startswith("An emulated tier serves requests one after the other")
    assert False in found.signs
