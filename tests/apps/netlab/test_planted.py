"""Links that are slow or distant on purpose are named: by the probe, and by the report of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.apps.netlab.cluster import Cluster, cluster_in_lab
from hyperslab.apps.netlab.meter import metered
from hyperslab.apps.netlab.running import (
    changed_of,
    lines_of,
    measured_of,
    newest,
    verdict_lines,
)
from hyperslab.driver.submission import Records, load_records
from hyperslab.network.lab import change, registry
from hyperslab.network.lab.spec import OneWay
from hyperslab.report.links import RECORD
from hyperslab.report.verdict import judge
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.trace import Trace
from tests.network.lab.labs import TOLERANT, require, spec
from tests.repetitions import repeats
from tests.system.end_to_end.command import AS_INSTALLED, succeed

EVEN = (
    TOLERANT
    + 'backend = "emulator"\n'
    + "".join(f'[nodes.{name}]\nrate = "100Mbit"\n' for name in ("scheduler", "w1", "w2", "w3"))
    + '[nodes.client]\nrate = "100Mbit"\n'
)
PATIENCE_S = 120.0
TIMES = 3
"Tries of a run that others may keep from processors."


@pytest.fixture(scope="module")
def cluster(records: Path) -> Iterator[Cluster]:
    require("emulator")
    with cluster_in_lab(spec(EVEN), "dask-futures") as made:
        yield made


@pytest.fixture
def even(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, whose links are even again afterwards."""
    yield cluster
    for node in cluster.lab.nodes:
        change(cluster.lab, node.name, OneWay(rate="100Mbit", delay="0ms"))


def answer(cluster: Cluster, folder: Path) -> list[str]:
    """What the command says of the links, from the client's node."""
    words = [
        "probe",
        "--network",
        "--quick",
        *cluster.arguments,
        "--json",
        "-o",
        str(folder / "m.json"),
    ]
    done = subprocess.run(
        [*cluster.prefix, *AS_INSTALLED, *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    told: list[str] = json.loads(done.stdout)["answer"]
    return told


def test_even_links(even: Cluster, tmp_path: Path) -> None:
    (sentence,) = answer(even, tmp_path)
    assert sentence.startswith("no node, and no link, is three times slower or farther")


def test_a_slow_node_and_a_distant_one(even: Cluster, tmp_path: Path) -> None:
    """Each is told of alone."""
    change(even.lab, "w2", OneWay(rate="10Mbit"))
    change(even.lab, "w3", OneWay(delay="30ms"))
    told = answer(even, tmp_path)
    slow = [one for one in told if one.startswith("worker w2 is slow: what ")]
    (distant,) = [one for one in told if one not in slow]
    assert len(slow) == 2, told
    assert any("times slower than the median" in one for one in slow)
    nearest = "worker w3 is distant: a round trip to the nearest node takes 3"
    assert distant.startswith(nearest)


@repeats("a slow link is told: of a node, above; of either direction: machine/test_links.py")
def test_a_slow_direction_of_the_scheduler(even: Cluster, tmp_path: Path) -> None:
    change(even.lab, "scheduler", OneWay(rate="10Mbit"), "up")
    (sentence,) = answer(even, tmp_path)
    assert sentence.startswith("scheduler is slow: what it sends arrives at 1.")


def test_a_link_that_was_changed_during_a_run_is_not_judged_by_its_rate(
    even: Cluster, tmp_path: Path
) -> None:
    lab = registry.find(even.lab.name)
    assert changed_of(lab) == ()
    Trace([], [], meta={"ready_ns": 0, "end_ns": 1}).save(tmp_path / "trace.parquet")
    with metered(lab, even.processes) as meter:
        change(lab, "w1", OneWay(rate="8Mbit"))
    usage = measured_of(tmp_path, lab, meter)
    assert usage is not None
    assert json.loads((tmp_path / RECORD).read_text())["changed"] == ["w1"]
    assert any("w1 was changed" in line for line in lines_of(lab, usage, None, changed_of(lab)))


def rounds(cluster: Cluster, out: Path, **params: object) -> tuple[Records, list[str]]:
    """Records of a program that ran in the client's node, and what the terminal shows of links."""
    given = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
    words = ["-m", "hyperslab.apps.experiment.programs.table", "dask-arrays", "transpose-sum"]
    lab = registry.find(cluster.lab.name)
    with metered(lab, cluster.processes) as meter:
        subprocess.run(
            [*cluster.prefix, sys.executable, *words, "-o", out, *cluster.arguments, *given],
            env=os.environ,
            check=True,
            timeout=PATIENCE_S,
        )
    folder = newest(out)
    assert folder is not None
    usage = measured_of(folder, lab, meter)
    assert usage is not None
    records = load_records(folder)
    return records, lines_of(lab, usage, judge(records.trace, records.summary))


def test_a_slow_link_is_what_limited_the_run(cluster: Cluster, tmp_path: Path) -> None:
    change(cluster.lab, "w1", OneWay(rate="8Mbit"))
    records, lines = _unhurried(cluster, tmp_path)
    change(cluster.lab, "w1", OneWay(rate="100Mbit"))
    if _is_bound(records):
        # Others kept the processors busy: that is said, and no link is blamed.
        assert not any(line.startswith("cause") for line in lines)
        assert any("CPU-bound" in line for line in lines)
        records = _as_of_idle_processors(records.folder)
        lines = verdict_lines(judge(records.trace, records.summary))
    assert any(line.startswith("cause      The link of w1") for line in lines)
    page = tmp_path / "page.html"
    told = json.loads(succeed("report", records.folder, "--json", "--no-pictures", "-o", page))
    first = told["verdict"][0]
    assert first["rule"] == "network"
    assert first["sentence"].startswith("The link of w1 limited the run: what it ")
    assert first["advice"].startswith("Give w1 a faster link, or run without it")
    assert first["share"] > 0.5
    text = page.read_text()
    assert "<h2>Links</h2>" in text
    assert first["sentence"] in text


def _unhurried(cluster: Cluster, folder: Path) -> tuple[Records, list[str]]:
    """A run that had processors to spare, if one of some tries has."""
    for number in range(1, TIMES):
        found = _one_round(cluster, folder / f"out-{number}")
        if not _is_bound(found[0]):
            return found
    return _one_round(cluster, folder / "out")


def _one_round(cluster: Cluster, out: Path) -> tuple[Records, list[str]]:
    return rounds(cluster, out, array=600, chunk=150, rounds=1)


def _is_bound(records: Records) -> bool:
    return bool(records.trace.meta["network"]["usage"]["bound"])


def _as_of_idle_processors(folder: Path) -> Records:
    """The records of a run that had processors to spare, which a busy machine cannot make."""
    path = folder / RECORD
    told = load_record(path, "")
    told["usage"]["bound"] = ""
    save_record(path, told)
    return load_records(folder)


@repeats("even links are blamed for nothing: above, where they are probed")
def test_even_links_are_not_what_limited_a_run(cluster: Cluster, tmp_path: Path) -> None:
    """Short runs, and such as compute, are told nothing about their links."""
    records, lines = rounds(cluster, tmp_path / "out", array=200, chunk=100, rounds=1)
    rules = {finding.rule for finding in judge(records.trace, records.summary).findings}
    assert not any(rule.startswith("network") for rule in rules)
    assert not any(line.startswith("cause") for line in lines)
