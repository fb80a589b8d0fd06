"""Engines that cannot run here are told before any trial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.missing import require_engines
from hyperslab.apps.experiment.trials.record import append
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, experiment, record_of
from tests.system.end_to_end.command import call

VARIED = "iterations = [2]\ndelay = [0.01]"
WITH_SPARK = TEXT.replace(VARIED, 'engine = ["spark", "threads"]')
PROGRAMS = TEXT.replace(VARIED, 'engine = ["spark-pairs", "dask-bag", "file-reads"]')
NEEDED = "--engine spark needs pyspark: pip install 'hyperslab[spark]'"


@pytest.fixture
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)


@pytest.mark.usefixtures("_no_spark")
def test_an_engine_that_cannot_run_is_refused_before_any_trial(tmp_path: Path) -> None:
    spec = tmp_path / "small.toml"
    spec.write_text(WITH_SPARK)
    out = tmp_path / "out"
    refused = call("experiment", "run", spec, "--out", out)
    assert refused.code == 2
    told = f"{spec}:16: vary.engine: {NEEDED}; the others run with --only engine=serial,threads"
    assert told in refused.err
    assert not out.exists()
    only = ("--only", "engine=threads", "--out", out)
    assert call("experiment", "plan", spec, *only).code == 0


@pytest.mark.usefixtures("_no_spark")
def test_programs_need_engines_too(tmp_path: Path) -> None:
    asked = experiment(tmp_path, PROGRAMS)
    with pytest.raises(UsageError) as told:
        require_engines(asked.loaded, asked.cells)
    (sentence,) = str(told.value).splitlines()
    assert NEEDED in sentence
    assert sentence.endswith("--only engine=serial,dask-bag,file-reads")


@pytest.mark.usefixtures("_no_spark")
def test_trials_that_are_done_need_no_engine(tmp_path: Path) -> None:
    spec = tmp_path / "small.toml"
    spec.write_text(WITH_SPARK)
    asked = Experiment.of(find(str(spec)).load(None), tmp_path / "out")
    asked.directory.root.mkdir()
    asked.directory.begin(asked.loaded)
    record = record_of(asked, {}, {})
    append(asked.directory.record, record.sessions[0])
    *others, last = sorted(record.attempts, key=lambda one: one.levels["engine"] == "spark")
    for one in others:
        append(asked.directory.record, one)
    line = ("experiment", "resume", spec, "--out", asked.directory.root)
    refused = call(*line)
    assert (refused.code, NEEDED in refused.err) == (2, True)
    append(asked.directory.record, last)
    assert call(*line).code == 0


def test_engines_that_can_run_are_none(tmp_path: Path) -> None:
    asked = Experiment.of(find("storage-tiers/incrementation").load("smoke"), tmp_path)
    light = [one for one in asked.cells if one.levels["engine"] == "processes"]
    assert light
    require_engines(asked.loaded, light)
