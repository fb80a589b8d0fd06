"""Links of experiments: what levels of factors mean for the nodes of a laboratory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.links import Links, Means, Slow, means_of
from hyperslab.apps.experiment.design.shipped import find, shipped
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, loaded
from tests.network.lab.labs import require


def test_slow_links_are_named_by_place_and_fault() -> None:
    assert Slow.parse("none") == Slow()
    assert Slow.parse("scheduler") == Slow("scheduler")
    assert Slow.parse("worker 5ms") == Slow("worker", delay="5ms")
    assert Slow.parse("all 2.5%") == Slow("all", loss=0.025)
    assert Slow.parse("worker 10Mbit") == Slow("worker", rate="10Mbit")
    for text in ("", "workers", "worker 5 ms", "worker fast", "none 5ms"):
        with pytest.raises(ValueError, match=r"none|rate"):
            Slow.parse(text)


def test_one_worker_is_the_slow_one() -> None:
    nodes = Links(3, "100Mbit", 2.0, Slow.parse("worker"), "10Mbit").nodes()
    assert list(nodes) == ["scheduler", "client", "w1", "w2", "w3"]
    assert {name: node.up_link().rate_bits for name, node in nodes.items()} == {
        "scheduler": 100_000_000,
        "client": 100_000_000,
        "w1": 10_000_000,
        "w2": 100_000_000,
        "w3": 100_000_000,
    }
    assert {node.up_link().delay_ns for node in nodes.values()} == {2_000_000}
    everywhere = Links(2, slow=Slow.parse("all 5%")).nodes()
    assert {name: node.up_link().loss for name, node in everywhere.items()} == {
        "scheduler": 0.05,
        "client": 0.0,
        "w1": 0.05,
        "w2": 0.05,
    }
    assert {node.down_link().loss for node in everywhere.values()} == {0.0}


def test_a_laboratory_is_what_links_say() -> None:
    asked = Links(2, "100Mbit", 0.5, Slow.parse("scheduler 20ms"))
    lab = Means("emulator", "exact", 0.3).spec(asked, "x-1", 7)
    assert (lab.name, lab.backend, lab.mode, lab.tolerance, lab.seed) == (
        *("x-1", "emulator", "exact", 0.3, 7),
    )
    assert lab.nodes["scheduler"].up_link().delay_ns == 20_000_000
    assert lab.nodes["w2"].up_link().delay_ns == 500_000
    assert [lab.role(name) for name in lab.nodes] == ["scheduler", "client", "worker", "worker"]


def test_slow_links_of_an_experiment_are_cut_into_packets() -> None:
    require("emulator")
    asked = [Links(3, "20Mbit", 2.0), Links(3, "5Mbit", 8.0)]
    assert means_of(asked, "emulator", 0.2).mode == "exact"
    assert means_of([Links(3, "100Mbit", 2.0)], "emulator", 0.2).mode == "gso"


@pytest.mark.parametrize("scale", ["smoke", "laptop", "quick"])
def test_lossy_links_carry_less_than_their_rate(scale: str, tmp_path: Path) -> None:
    asked = Experiment.of(find("dask-network/loss").load(scale), tmp_path)
    lossy = []
    for one in asked.settings(asked.cells):
        assert one.links is not None
        lossy += [link for link in one.links.all_links() if link.loss]
    assert lossy
    for link in lossy:
        assert link.rate_bits is not None
        carried_bits = 1.2 * 1448 * 8 / (2 * link.delay_ns / 1e9 * link.loss**0.5)
        assert carried_bits < link.rate_bits / 2


def test_wrong_levels_are_told_by_field() -> None:
    text = TEXT.replace("delay = 0\n", 'delay = 0\nslow = "workers"\nlink_rate = "fast"\n')
    with pytest.raises(UsageError) as caught:
        loaded(text)
    said = str(caught.value)
    assert "small.toml:14: baseline.slow" in said
    assert "baseline.slow: 'workers' names no links" in said
    assert "small.toml:15: baseline.link_rate: 'fast' is no rate" in said


@pytest.mark.parametrize(
    "name", [one.name for one in shipped() if one.name.startswith("dask-network/")]
)
def test_shipped_specs_have_laboratories_at_every_scale(name: str, tmp_path: Path) -> None:
    for scale in find(name).scales:
        asked = Experiment.of(find(name).load(scale), tmp_path)
        settings = asked.settings(asked.cells)
        assert all(one.links is not None and one.program == "dask-arrays" for one in settings)
        labs = {repr(one.links) + str(one.flags) + one.workload for one in settings}
        assert len(labs) == len(settings), "cells that differ in nothing"
        assert asked.estimator.left_s(asked.trials, asked.record()) > 10 * len(asked.trials)
