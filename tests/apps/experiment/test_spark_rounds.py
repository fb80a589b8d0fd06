"""Rounds of a workload in Spark, as an experiment starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hyperslab.apps.experiment.spark_rounds import _require
from hyperslab.errors import RunStopped
from hyperslab.report.summary import Summary
from tests.system.clusters import spark
from tests.system.clusters.required import required

PROGRAM = (sys.executable, "-m", "hyperslab.apps.experiment.programs", "spark-pairs")


def test_rounds_leave_the_records_of_a_run(tmp_path: Path) -> None:
    required(spark.missing())
    out = tmp_path / "out"
    sizes = {"rounds": 3, "warmups": 1, "partitions": 3, "reducers": 2, "keys": 20, "threshold": 1}
    given = [word for name, value in sizes.items() for word in ("--param", f"{name}={value}")]
    words = [*PROGRAM, "group-by-worst", "--out", str(out), "--workers", "2", *given]
    subprocess.run(words, check=True, capture_output=True, timeout=100)
    folder = out / ".hyperslab" / "run-0001"
    numbers = json.loads((folder / "numbers.json").read_text())
    assert 0 < numbers["round_min_s"] <= numbers["round_median_s"] <= numbers["round_max_s"]
    assert {"round_sd_s", "round_first_s", "round_last_s"} < numbers.keys()
    summary = Summary.load(folder / "summary.json")
    assert summary.tasks == 3
    [log] = (folder / "spark-events").iterdir()
    assert '"spark.shuffle.sort.bypassMergeThreshold":"1"' in log.read_text()


def test_a_wrong_result_ends_a_trial() -> None:
    with pytest.raises(RunStopped, match=r"count: the result is \(1,\), not \(2,\)"):
        _require("count", (1,), (2,))


def test_parameters_that_there_are_not_are_refused(tmp_path: Path) -> None:
    words = [*PROGRAM, "count", "--out", str(tmp_path / "out"), "--param", "colour=1"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "give scale, rounds, warmups" in done.stderr
