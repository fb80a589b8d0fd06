"""Claims on Dask's network: judged as a record says, but for trials that tell nothing of links."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.published import published_for
from hyperslab.apps.experiment.claims import dask_network
from hyperslab.apps.experiment.claims.claim import Claim, Judged
from hyperslab.apps.experiment.claims.page import PAPERS, Finding, judged, write_verdicts
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.pages.links import COLUMNS, links_sheet
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of

PAPER = PAPERS["dask-network"]
NUMBERS = {
    "task_share": 0.35,
    "data_share": 0.99,
    "worker_operations": 900.0,
    "worker_message_nbytes": 2e7,
    "scheduler_message_nbytes": 5e5,
    "between_workers_nbytes": 5e7,
    "with_scheduler_nbytes": 9e5,
    "scheduler_operations": 1800.0,
    "worker_sent_packets": 6700.0,
    "scheduler_sent_packets": 1000.0,
    "worker_sent_nbytes": 5e7,
    "scheduler_sent_nbytes": 1e6,
    "sent_nbytes": 1.5e8,
    "heartbeat_interval_s": 0.5,
    "heartbeat_request_nbytes": 633.0,
    "heartbeat_reply_nbytes": 77.0,
    "network_s": 10.0,
    "dropped_loss": 12.0,
    "dropped_queue": 345.0,
}
NETWORK = {
    "backend": "emulator",
    "mode": "exact",
    "links": [
        {"node": "scheduler", "sent_nbytes": 1e6, "sent_packets": 450, "received_packets": 550},
        {"node": "w1", "sent_nbytes": 1e7, "sent_packets": 500, "received_packets": 495},
        {"node": "w2", "sent_nbytes": 7e7, "sent_packets": 600, "received_packets": 510},
    ],
    "cpu_share": {"w1": 1.1, "w2": 0.4},
    "usable": {"w1": 2, "w2": 1},
}


def asked(name: str, root: Path, scale: str = "quick") -> Experiment:
    return Experiment.of(find(f"dask-network/{name}").load(scale), root)


def record(
    experiment: Experiment,
    factors: Mapping[str, Sequence[float]],
    numbers: Mapping[str, Mapping[str, float]] | None = None,
    rejected: str = "",
) -> Record:
    """A record of trials in laboratories; cells named in `rejected` tell nothing of links."""
    made = record_of(experiment, factors, {"links": "emulator"})
    attempts = []
    for trial, one in zip(experiment.trials, made.attempts, strict=True):
        own = (numbers or {}).get(trial.cell.name, {})
        fields: dict[str, Any] = {
            "numbers": {**NUMBERS, **one.numbers, **own},
            "network": dict(NETWORK),
        }
        if rejected and rejected in trial.cell.name:
            fields["rejected"] = "CPU-bound: 2 % of the processors' time was idle"
        attempts.append(dataclasses.replace(one, **fields))
    return dataclasses.replace(
        made, attempts=attempts, by_trial={one.number: [one] for one in attempts}
    )


def found(experiment: Experiment, made: Record) -> dict[str, Judged]:
    finding = Finding(experiment, answer_of(experiment, made))
    name = experiment.loaded.name
    return {claim.text: one for claim, one in judged(PAPER, [finding]) if claim.spec == name}


def outcome(said: Mapping[str, Judged], words: str) -> str:
    (one,) = [each.outcome for text, each in said.items() if words in text]
    return one


def evidence(said: Mapping[str, Judged], words: str) -> Sequence[str]:
    (one,) = [each.evidence for text, each in said.items() if words in text]
    return one


def varied(by: float) -> tuple[float, float, float]:
    return by * 0.99, by, by * 1.01


def published(experiment: Experiment) -> Record:
    """The paper's own numbers as a record, each a hundredth shorter and longer by replicate; cells
    of which it has none were not run.
    """
    told = published_for(experiment.loaded.name)
    assert told is not None
    (table,) = told.tables
    factors: dict[str, Sequence[float]] = {}
    for number, row in enumerate(table.rows):
        (cell,) = [
            one for one in experiment.cells if table.levels_of(row).items() <= one.levels.items()
        ]
        assert row.makespan_s is not None
        times = varied(row.makespan_s)
        factors[cell.name] = times[number % 3 :] + times[: number % 3]
    made = record(experiment, factors)
    known = {one.number for one in experiment.trials if one.cell.name in factors}
    attempts = [one for one in made.attempts if one.number in known]
    return dataclasses.replace(
        made, attempts=attempts, by_trial={one.number: [one] for one in attempts}
    )


PUBLISHED = {
    "placement": {
        "fast ports": "reproduced",
        "of the scheduler costs time": "reproduced",
        "ten times as fast": "reproduced",
    },
    "delay": {
        "delay costs grows in proportion": "in part",
        "more than in proportion": "mixed",
        "worker that is far away": "reproduced",
        "scheduler that is far away": "mixed",
        "costs more on a worker": "reproduced",
        "Time grows with": "reproduced",
    },
    "loss": {"hardly cost": "reproduced", "costs more on a worker": "not tested"},
    "workers": {"longer than three": "reproduced"},
}
"What the paper's own numbers say of its claims; none has a loss of both scheduler and worker."


@pytest.mark.parametrize("name", PUBLISHED)
def test_numbers_of_the_paper_do_not_refute_it(name: str, tmp_path: Path) -> None:
    experiment = asked(name, tmp_path, "paper")
    said = found(experiment, published(experiment))
    assert {words: outcome(said, words) for words in PUBLISHED[name]} == PUBLISHED[name]
    of_times = [claim.text for claim in PAPER.claims if claim.text in said]
    assert not [text for text in of_times if said[text].outcome == "refuted"]


def test_whose_link_is_slow(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path)
    slow = {"slow worker": varied(5), "slow all": varied(9), "slow scheduler": varied(1.01)}
    said = found(placement, record(placement, slow))
    assert outcome(said, "fast ports") == "reproduced"
    assert outcome(said, "of the scheduler costs time") == "refuted"
    assert outcome(said, "everywhere") == "reproduced"
    said = found(placement, record(placement, slow | {"slow scheduler": varied(5)}))
    assert outcome(said, "fast ports") == "refuted"
    assert outcome(said, "of the scheduler costs time") == "reproduced"


def test_trials_bound_by_processors_are_in_no_verdict_and_no_mean(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path)
    slow = {"slow worker": varied(5)}
    made = record(placement, slow, rejected="slow worker")
    said = found(placement, made)
    assert outcome(said, "fast ports") == "not tested"
    assert outcome(said, "of the scheduler costs time") == "refuted"
    answer = answer_of(placement, made)
    (worker,) = [one for one in answer.results if one.cell.name == "slow worker"]
    assert worker.makespan_s is None
    assert len(worker.rejected) == 5
    assert any("5 trials kept out" in text and "CPU-bound" in text for text in answer.certainty)
    assert any("by emulator (exact)" in text for text in answer.certainty)
    rows = {row[0]: row for row in links_sheet(answer).rows}
    assert rows["slow worker"][-1] == "5"
    row = dict(zip(COLUMNS, rows["baseline"], strict=True))
    assert row["sent by all"] == "150 MB"
    assert (row["packets lost"], row["dropped in queues"]) == ("12", "345 (10 %)")
    assert row["busiest node"] == "w1 55 %"


def test_what_a_backend_does_not_tell_has_no_number(tmp_path: Path) -> None:
    """Netem tells no loss from a full queue."""
    placement = asked("placement", tmp_path)
    made = record(placement, {})
    attempts = []
    for one in made.attempts:
        known = {name: value for name, value in one.numbers.items() if "dropped" not in name}
        attempts.append(dataclasses.replace(one, numbers={**known, "dropped_loss or queue": 7.0}))
    by_trial = {one.number: [one] for one in attempts}
    netem = dataclasses.replace(made, attempts=attempts, by_trial=by_trial)
    rows = links_sheet(answer_of(placement, netem)).rows
    row = dict(zip(COLUMNS, rows[0], strict=True))
    assert (row["packets lost"], row["dropped in queues"]) == ("7", "")


def test_bytes_of_the_slow_worker_have_a_column(tmp_path: Path) -> None:
    """The mean of all workers hides them."""
    placement = asked("placement", tmp_path)
    rows = links_sheet(answer_of(placement, record(placement, {}))).rows
    by_cell = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in rows}
    assert by_cell["slow worker"]["by a worker"] == "50.0 MB"
    told = {name: row["by the slow worker"] for name, row in by_cell.items()}
    assert told == {
        "baseline": "",
        "slow scheduler": "",
        "slow worker": "10.0 MB",
        "slow all": "",
    }


def test_packets_are_told_and_not_judged(tmp_path: Path) -> None:
    """Of chunks of another size, with acknowledgements."""
    placement = asked("placement", tmp_path)
    many = {"baseline": {"worker_sent_packets": 20_000.0}}
    for numbers in ({}, many):
        said = found(placement, record(placement, {}, numbers))
        assert outcome(said, "20 times") == "not tested"
        assert "320 kB here" in evidence(said, "20 times")[0]
        assert "8.00 MB in the paper" in evidence(said, "20 times")[0]
        assert "times as many packets" in evidence(said, "20 times")[1]


def test_workers_send_each_other_more_than_to_the_scheduler(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path)
    text = "Workers send each other more"
    held_up = found(placement, record(placement, {}, rejected="baseline"))
    assert outcome(held_up, text) == "reproduced", "counted also where processors were short"
    few = {"baseline": {"between_workers_nbytes": 3e5}}
    assert outcome(found(placement, record(placement, {}, few)), text) == "refuted"


def test_shares_of_something_else_are_told_and_not_judged(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path)
    said = found(placement, record(placement, {}))
    assert outcome(said, "hands out tasks") == outcome(said, "are data") == "not tested"
    assert "35 % of the operations" in evidence(said, "hands out tasks")[0]
    assert "99 % of the bytes" in evidence(said, "are data")[0]


def test_counted_numbers_have_intervals(tmp_path: Path) -> None:
    idle = asked("idle", tmp_path)
    made = record(idle, {})
    beats = dict(zip((1, 2, 3), (0.5, 1.0, 1.5), strict=True))
    for one in made.attempts:
        one.numbers["heartbeat_interval_s"] = beats[one.replicate]  # type: ignore[index]
    assert outcome(found(idle, made), "1022 ms") == "open"
    busy = found(idle, record(idle, {}, rejected="baseline"))
    assert outcome(busy, "1022 ms") == "not tested", (
        "heartbeats are late where processors are short"
    )
    assert outcome(busy, "279 bytes") == "mixed"


def test_fewer_bytes_over_slow_links(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path)
    assert outcome(found(placement, record(placement, {})), "fewer bytes") == "open"
    again = {"slow all": {"sent_nbytes": 5e8}}
    said = found(placement, record(placement, {}, again))
    assert outcome(said, "fewer bytes") == "open", "what is sent again is no message"
    many = {"slow all": {"worker_message_nbytes": 4e7}}
    assert outcome(found(placement, record(placement, {}, many)), "fewer bytes") == "refuted"
    few = {"slow all": {"worker_message_nbytes": 1e7}}
    said = found(placement, record(placement, {}, few))
    assert outcome(said, "fewer bytes") == "reproduced"
    assert evidence(said, "fewer bytes")[-1] == (
        "Queues of slow links dropped 10 % of all packets."
    )


def test_the_same_fault_on_both_sides(tmp_path: Path) -> None:
    """A loss of one size alone is tried at this scale."""
    told = (("delay", "100ms", "mixed"), ("loss", "10%", "reproduced"))
    for name, one, expected in told:
        experiment = asked(name, tmp_path / name)
        alike = found(experiment, record(experiment, {}))
        assert outcome(alike, "costs more on a worker") == "refuted"
        slow = found(experiment, record(experiment, {f"slow worker {one}": varied(3)}))
        assert outcome(slow, "costs more on a worker") == expected


def test_contrary_evidence_is_told(tmp_path: Path) -> None:
    delay = asked("delay", tmp_path)
    noisy = (0.5, 1.0, 2.0)
    cells = {"slow worker 10ms": noisy, "slow scheduler 10ms": (1.0,)}
    said = found(delay, record(delay, cells | {"slow scheduler 100ms": varied(2)}))
    assert outcome(said, "costs more on a worker") == "refuted in part"


def test_delays_and_losses_by_place(tmp_path: Path) -> None:
    delay = asked("delay", tmp_path / "delay")
    far = record(delay, {"slow scheduler 100ms": varied(3), "slow worker 100ms": varied(4)})
    said = found(delay, far)
    assert outcome(said, "Time grows with") == "reproduced"
    assert outcome(said, "worker that is far away") == "mixed"
    assert outcome(found(delay, record(delay, {})), "Time grows with") == "refuted"
    assert outcome(found(delay, record(delay, {})), "scheduler that is far away") == "refuted"
    loss = asked("loss", tmp_path / "loss")
    assert outcome(found(loss, record(loss, {})), "hardly cost") == "reproduced"
    costly = {"slow scheduler 10%": varied(1.15)}
    assert outcome(found(loss, record(loss, costly)), "hardly cost") == "reproduced"
    lossy = {"slow scheduler 10%": varied(2)}
    assert outcome(found(loss, record(loss, lossy)), "hardly cost") == "refuted"


def test_costs_of_delays_in_proportion(tmp_path: Path) -> None:
    delay = asked("delay", tmp_path)

    def judged_at(short: float, long: float) -> tuple[str, str]:
        """Costs that differ by hundredths from replicate to replicate."""
        costs = {"10ms": (short, (0.98, 1, 1.02)), "100ms": (long, (1, 1.02, 0.98))}
        cells = {
            f"slow {place} {fault}": tuple(1 + cost * spread for spread in spreads)
            for place in ("scheduler", "worker")
            for fault, (cost, spreads) in costs.items()
        }
        said = found(delay, record(delay, cells))
        return outcome(said, "grows in proportion to it"), outcome(said, "more than in proportion")

    assert judged_at(0.1, 1.0) == ("reproduced", "open")
    assert judged_at(0.1, 2.0) == ("refuted", "reproduced")
    assert judged_at(0.2, 0.5) == ("refuted", "refuted")


def test_ten_times_the_rate(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path)
    text = "ten times as fast"
    assert outcome(found(placement, record(placement, {"slow all": varied(9.4)})), text) == (
        "reproduced"
    )
    assert outcome(found(placement, record(placement, {"slow all": varied(4)})), text) == "refuted"


def test_a_slow_worker_whatever_is_computed(tmp_path: Path) -> None:
    shapes = asked("shapes", tmp_path)
    names = [cell.name for cell in shapes.cells if cell.levels["slow"] == "worker"]
    assert len(names) == 4
    slow = dict.fromkeys(names, varied(2))
    assert outcome(found(shapes, record(shapes, slow)), "whatever is computed") == "reproduced"
    slow[names[1]] = varied(1)
    assert outcome(found(shapes, record(shapes, slow)), "whatever is computed") == "mixed"


def test_what_an_idle_cluster_sends(tmp_path: Path) -> None:
    idle = asked("idle", tmp_path)
    more = {"lab_workers 6": {"sent_nbytes": 3e8}}
    assert outcome(found(idle, record(idle, {}, more)), "nothing to do") == "reproduced"
    fewer = {"lab_workers 6": {"sent_nbytes": 1e7}}
    assert outcome(found(idle, record(idle, {}, fewer)), "nothing to do") == "refuted"


def test_advice_is_there_where_some_of_what_was_tried_told() -> None:
    several = (
        dask_network.FAR_WORKER,
        dask_network.FAR_SCHEDULER,
        dask_network.DISTANCE,
        dask_network.LOSSES,
        dask_network.ROUND_TRIPS,
    )
    for text in several:
        assert {"in part", "mixed"} <= dask_network.ADVICE[text].keys(), text
        assert "at least" not in dask_network.ADVICE[text]["in part"], "it may be the short ones"


def test_advice_on_places_and_workers_has_its_evidence(tmp_path: Path) -> None:
    delay = asked("delay", tmp_path / "delay")
    workers = asked("workers", tmp_path / "workers")
    costly = {f"slow worker {delay}": varied(3) for delay in ("10ms", "100ms")}
    findings = [
        Finding(delay, answer_of(delay, record(delay, costly))),
        Finding(workers, answer_of(workers, record(workers, {"lab_workers 2": varied(1.3)}))),
    ]
    told = dask_network.advice(judged(PAPER, findings))
    assert [text.partition(":")[0].partition(".")[0] for text in told] == [
        "Place workers together",
        "The scheduler may be elsewhere, as far as was tried",
        "Where one has to be far away, let it be the scheduler, and no worker",
        "Take three workers rather than two",
    ]
    assert "slow worker 10ms takes 2.99 x" in told[0]
    assert "lab_workers 2 takes 1.30 x" in told[-1]


def test_round_trips_against_rates(tmp_path: Path) -> None:
    grid = asked("grid", tmp_path)
    far = {"link_delay_ms 8": varied(4), "link_rate 5Mbit": varied(2)}
    near = {"link_delay_ms 8": varied(2), "link_rate 5Mbit": varied(4)}
    text = "round trip matters more"
    assert outcome(found(grid, record(grid, far)), text) == "reproduced"
    assert outcome(found(grid, record(grid, near)), text) == "refuted"
    assert outcome(found(grid, record(grid, {})), text) == "open"
    base = grid.loaded.spec.baseline
    said = evidence(found(grid, record(grid, far)), text)[-1]
    assert said.startswith(f"From links of {base['link_rate']} and {base['link_delay_ms']} ms on, ")


def test_rates_whose_trials_took_too_long_refute_nothing(tmp_path: Path) -> None:
    """They would have taken longer than those that ended."""
    grid = asked("grid", tmp_path)
    (slow,) = [cell.name for cell in grid.cells if list(cell.changed) == ["link_rate"]]
    made = record(grid, {"link_delay_ms 8": varied(4), slow: varied(2)})
    attempts = [
        dataclasses.replace(one, state="too long", numbers={})
        if one.replicate > 3 and grid.trials[one.number - 1].cell.name == slow
        else one
        for one in made.attempts
    ]
    assert sum(one.state == "too long" for one in attempts) == 2
    by_trial = {one.number: [one] for one in attempts}
    said = found(grid, dataclasses.replace(made, attempts=attempts, by_trial=by_trial))
    assert outcome(said, "round trip matters more") == "open"
    *_, told, left_out = evidence(said, "round trip matters more")
    assert "trials were ended" in told
    assert left_out == "Ended for their length: 2 of its 10 trials."


def test_heartbeats_and_workers(tmp_path: Path) -> None:
    idle = asked("idle", tmp_path / "idle")
    said = found(idle, record(idle, {}))
    assert outcome(said, "1022 ms") == "refuted"
    assert "up to ten workers" in evidence(said, "1022 ms")[-1]
    assert outcome(said, "279 bytes") == "mixed"
    told = answer_of(idle, record(idle, {}))
    assert told.comparisons == []
    assert [text.partition(":")[0] for text in told.decision] == ["Times tell nothing here"]
    workers = asked("workers", tmp_path / "workers")
    slow = found(workers, record(workers, {"lab_workers 2": varied(1.3)}))
    assert outcome(slow, "longer than three") == "reproduced"


def test_the_page_has_errata_and_advice_with_evidence(tmp_path: Path) -> None:
    placement = asked("placement", tmp_path / "placement")
    made = record(placement, {"slow worker": varied(5)})
    placement.directory.root.mkdir()
    finding = Finding(placement, answer_of(placement, made))
    text = write_verdicts(tmp_path / "out", PAPER, [finding], "hyperslab ...").read_text()
    assert "## Advice" in text
    assert "- Give fast ports to the workers first. slow worker takes 4.99 x" in text
    assert "## Errata of the paper" in text
    assert "6.7 times as many packets" in text
    told: list[tuple[Claim, Judged]] = [
        (claim, Judged("open", ["Nothing is told."])) for claim in dask_network.CLAIMS
    ]
    assert dask_network.advice(told) == []
