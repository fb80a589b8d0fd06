"""Estimates before there are trials: by the start of each engine, and with what comes before."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.shipped import find, shipped
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment, Wish
from hyperslab.cli.trials import planned
from hyperslab.machine.host import Host
from tests.apps.experiment.specs import TEXT, experiment

LIMITS = {"smoke": 60.0, "laptop": 3600.0}
"Seconds that the docs promise for a spec, by scale."
SLOTS = 2
"Processors of the smallest machine for which they do."


def _seconds(name: str, scale: str, root: Path) -> float:
    asked = Experiment.of(find(name).load(scale), root)
    return planned(asked, Wish(asked.trials)).seconds


def test_every_shipped_spec_is_planned_within_the_time_of_its_scale(tmp_path: Path) -> None:
    if Host.here().cpus < SLOTS:
        pytest.skip("the docs promise it for two processors and more")
    out = tmp_path / "out"
    told = {
        (one.name, scale): _seconds(one.name, scale, out) for one in shipped() for scale in LIMITS
    }
    late = {one: seconds for one, seconds in told.items() if seconds >= LIMITS[one[1]]}
    assert late == {}
    assert len(told) > len(LIMITS)


def test_each_engine_is_given_its_own_time_to_start(tmp_path: Path) -> None:
    text = TEXT.replace("[vary]", '[grid]\nengine = ["dask-bag", "spark", "h5py"]\n\n[vary]')
    asked = experiment(tmp_path, text)
    alone = [cell for cell in asked.cells if cell.changed in ((), ("engine",))]
    by_engine = {cell.levels["engine"]: asked.estimator.seconds(cell, Record()) for cell in alone}
    assert by_engine["serial"] == by_engine["h5py"]
    assert by_engine["serial"] < by_engine["dask-bag"] < by_engine["spark"]
    assert by_engine["spark"] - by_engine["serial"] == pytest.approx(10)


def test_a_plan_counts_a_probe_of_each_medium_until_it_is_made(tmp_path: Path) -> None:
    """An emulated tier, and memory in which intermediate results lie."""
    asked = Experiment.of(find("storage-tiers/intermediates").load("smoke"), tmp_path / "out")
    settings = asked.settings(asked.cells)
    probed = asked.estimator.probing_s(settings)
    assert probed == 2 * asked.loaded.spec.probe_s
    trials_s = asked.estimator.left_s(asked.trials, Record())
    assert planned(asked, Wish(asked.trials)).seconds == pytest.approx(probed + trials_s)
    (tmp_path / "out").mkdir()
    asked.directory.places.write_text("{}")
    assert asked.estimator.probing_s(settings) == 0


def test_pure_python_takes_as_long_on_threads_as_alone(tmp_path: Path) -> None:
    """Where slots are processes, each of them counts."""
    asked = Experiment.of(find("dask-vs-spark/histogram").load("quick"), tmp_path)
    by_name = {cell.name: asked.estimator.seconds(cell, Record()) for cell in asked.cells}
    python = {name: by_name[name] for name in ("engine spark", "engine dask-bag")}
    compiled = {name: by_name[f"workload histogram, {name}"] for name in python}
    more = {name: python[name] - compiled[name] for name in python}
    assert more["engine dask-bag"] == pytest.approx(2 * more["engine spark"])
    assert more["engine spark"] > 10
