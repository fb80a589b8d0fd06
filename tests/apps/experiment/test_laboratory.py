"""Trials in laboratories: which of them tell something of links, and what is recorded of all."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.links import Means
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials import runner
from hyperslab.apps.experiment.trials.laboratory import numbers_of, told_of_links, untelling
from hyperslab.apps.experiment.trials.process import Ended, run_trial
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.apps.experiment.trials.runner import Experiment, Wish, begin
from hyperslab.apps.netlab import meter
from hyperslab.apps.netlab.meter import LinkUse, Usage
from hyperslab.cli.trials import Silent
from hyperslab.errors import UsageError
from hyperslab.network.lab import registry, remove
from hyperslab.network.lab.link import Link
from hyperslab.network.lab.namespaces import network_file, processes
from hyperslab.network.lab.registry import SWITCH, Lab, Node
from tests.network.lab.labs import require

LATE = "w1, up: 3 packets dropped because the emulator was late"


def usage(**more: Any) -> Usage:
    """What a laboratory has done in ten seconds, with processors to spare."""
    fields: dict[str, Any] = {
        "seconds": 10.0,
        "links": [],
        "idle_share": 0.5,
        "emulator_share": 0.1,
        "cpu_share": {"w1": 0.5},
        "usable": {"w1": 1},
        "starved": "",
        "bytes_by_step": {},
    }
    return Usage(**(fields | more))


def test_who_was_short_of_processors_tells_nothing_of_links() -> None:
    assert untelling(usage()) == ""
    assert untelling(usage(starved=LATE)) == LATE
    busy = "CPU-bound: 9.0 % of the processors' time was idle, less than 10 %"
    assert untelling(usage(idle_share=0.09)) == busy
    assert untelling(usage(idle_share=0.09, starved=LATE)) == f"{busy} and {LATE}"


def test_backends_are_never_mixed() -> None:
    means = Means("kernel", "exact", 0.2)
    assert told_of_links(None, [{"links": "emulator"}]) == {}
    assert told_of_links(means, [{}, {"links": "kernel"}]) == {"links": "kernel"}
    with pytest.raises(UsageError, match="made by emulator, now they would be by kernel"):
        told_of_links(means, [{"links": "kernel"}, {"links": "emulator"}])


def test_numbers_of_links_are_by_role() -> None:
    names = {"scheduler": "scheduler", "client": "client", "w1": "worker", "w2": "worker"}
    nodes = [
        Node(name, role, f"10.0.0.{n}", f"02:00:00:00:00:0{n}", Link(), Link())  # type: ignore[arg-type]
        for n, (name, role) in enumerate(names.items(), 1)
    ]
    made = ("x", "/x", "kernel", "exact", 0, 0.2, "10.0.0.0/24", "10.0.0.254", "02:00:00:00:00:ff")
    lab = Lab(*made, tuple(nodes), 0, "", 0, None, None)  # type: ignore[arg-type]
    sent = {"scheduler": 1_000, "client": 10, "w1": 30_000, "w2": 50_000}
    links = [
        LinkUse(name, nbytes, 0, nbytes // 100, 0, {"queue": 2, "loss": 1})
        for name, nbytes in sent.items()
    ]
    found = numbers_of(lab, usage(links=links))
    assert found["sent_nbytes"] == 81_010
    assert found["scheduler_sent_nbytes"] == 1_000
    assert found["worker_sent_nbytes"] == 40_000
    assert found["worker_sent_packets"] == 400
    assert (found["dropped_queue"], found["dropped_loss"]) == (8, 4)


@pytest.fixture
def laboratories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Go on where laboratories can be made; those of the test are its own."""
    require("emulator")
    monkeypatch.setenv(registry.VARIABLE, str(tmp_path / "netlab"))
    yield
    for lab in registry.recorded():
        remove(lab)


def one_trial(root: Path, workers: int, **network: Any) -> tuple[Experiment, Attempt]:
    """A trial over a slow link of a worker."""
    loaded = find("dask-network/placement").load("smoke")
    about = loaded.spec.network.model_copy(update=network)
    baseline = {**loaded.spec.baseline, "lab_workers": workers}
    spec = loaded.spec.model_copy(update={"network": about, "baseline": baseline})
    asked = Experiment.of(dataclasses.replace(loaded, spec=spec), root)
    (trial,) = [one for one in asked.trials if one.cell.levels["slow"] == "worker"]
    (attempt,) = begin(asked, Wish([trial]), Silent()).attempts
    return asked, attempt


def test_a_trial_that_was_bound_by_processors_is_kept_out(
    laboratories: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a limit that no trial keeps."""
    monkeypatch.setattr(meter, "LEAST_IDLE_SHARE", 1.5)
    asked, attempt = one_trial(tmp_path / "out", 1)
    assert (attempt.state, attempt.reason) == ("done", "")
    assert attempt.rejected.startswith("CPU-bound: ")
    (cell,) = [one for one in answer_of(asked, asked.record()).results if one.attempts]
    assert cell.ended
    assert not cell.done
    assert [one["node"] for one in attempt.network["links"]] == ["scheduler", "client", "w1"]
    assert attempt.network["measured"]
    numbers = attempt.numbers
    for name in ("sent_nbytes", "worker_sent_packets", "worker_message_nbytes", "task_share"):
        assert numbers[name], name
    assert registry.recorded() == []


def test_a_trial_whose_links_are_off_does_not_begin(laboratories: None, tmp_path: Path) -> None:
    asked, attempt = one_trial(tmp_path / "out", 1, tolerance=1e-9)
    assert attempt.state == "failed"
    assert "is not the laboratory that was asked for" in attempt.starved
    assert attempt.starved == attempt.reason
    assert not attempt.network
    (cell,) = [one for one in answer_of(asked, asked.record()).results if one.attempts]
    assert cell.starved == [attempt]
    assert registry.recorded() == []


def test_a_trial_that_loses_its_links_is_spoiled_and_tried_again(
    laboratories: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends long before its limit, and the experiment goes on."""

    def without_emulator(*told: Any) -> Ended:
        (lab,) = registry.recorded()
        for number in processes([network_file(lab.place, SWITCH)]):
            os.kill(number, signal.SIGKILL)
        return run_trial(*told)

    monkeypatch.setattr(runner, "run_trial", without_emulator)
    asked, attempt = one_trial(tmp_path / "out", 1, backend="emulator")
    assert attempt.state == "failed"
    assert "were lost: hyperslab-links of" in attempt.starved
    assert attempt.reason == attempt.starved
    assert attempt.wall_s < asked.loaded.spec.trial_limit_s / 4
    assert "links" not in attempt.network
    (cell,) = [one for one in answer_of(asked, asked.record()).results if one.attempts]
    assert cell.starved == [attempt]
    assert registry.recorded() == []


def test_a_trial_that_loses_a_node_is_spoiled(
    laboratories: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Dask makes of it: it would be the trial of a smaller cluster."""

    def without_worker(*told: Any) -> Ended:
        (lab,) = registry.recorded()
        for number in processes([network_file(lab.place, "w1")]):
            os.kill(number, signal.SIGKILL)
        return run_trial(*told)

    monkeypatch.setattr(runner, "run_trial", without_worker)
    _, attempt = one_trial(tmp_path / "out", 1)
    assert (attempt.state, attempt.starved) == ("failed", "what ran on w1 has died")
    assert registry.recorded() == []
