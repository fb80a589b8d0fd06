"""Clusters that somebody else started: found, used, left as they were; or a sentence."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import hyperslab as package
from hyperslab.apps.probing import probe_hosts
from hyperslab.arrays.partition import Rule
from hyperslab.driver import run as driver
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.result import Result
from hyperslab.driver.submission import load_records
from hyperslab.engines.dask import client
from hyperslab.errors import RunStopped, UsageError
from hyperslab.plan import function
from hyperslab.plan.journal import load_partials
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.settings import Granularity
from hyperslab.report.messages.numbers import numbers_of
from hyperslab.trace import NO_TASK
from tests.engines.briefly import BRIEF_PROBE
from tests.engines.looking import looked, places
from tests.repetitions import few, repeats
from tests.system.clusters import dask, slurm, spark
from tests.system.clusters.dask import ANOTHER_HOST, DaskCluster, dask_cluster
from tests.system.clusters.required import required
from tests.system.clusters.slurm import slurm as slurm_cluster
from tests.system.clusters.spark import spark_cluster
from tests.system.faults.command import (
    await_that,
    hyperslab,
    load,
    make_volume,
    running,
)

CODE = """
import numpy as np
import hyperslab
from beside import factor

def scaled(block, seconds=0.0):
    import time
    time.sleep(seconds)
    return block * np.uint16(factor())

def met(block, folder, workers, patience_s=120):
    # As scaled, once so many processes have come here; samples are made up before the run.
    import os, pathlib, time
    if block.shape[2] > 1:
        return scaled(block)
    here = pathlib.Path(folder)
    (here / str(os.getpid())).touch()
    deadline = time.monotonic() + patience_s
    while len(list(here.iterdir())) < workers:
        assert time.monotonic() < deadline, "the other workers did not come"
        time.sleep(0.05)
    return scaled(block)

def merged(a, b):
    return a + b

total = hyperslab.Fold(lambda block: int(block.sum(dtype=np.int64)) * factor(), merged)
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A function and a fold in a file that imports another one; the workers do not see the
    folder.
    """
    folder = tmp_path / "hidden"
    folder.mkdir()
    (folder / "mine.py").write_text(CODE)
    (folder / "beside.py").write_text("def factor():\n    return 3\n")
    for name in [
        name for name in sys.modules if name == "beside" or name.startswith("hyperslab_user_")
    ]:
        del sys.modules[name]  # those of another test, whose texts may be the same
    function._load.cache_clear()
    return folder / "mine.py"


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster of one worker of three threads."""
    required(dask.missing())
    with dask_cluster(
        tmp_path_factory.mktemp("cluster"), workers=1, threads=3, nanny=False
    ) as cluster:
        yield cluster


def forget(folder: Path) -> None:
    """Load what lies in this folder anew: it was edited."""
    for name in [
        name
        for name, module in sys.modules.items()
        if str(getattr(module, "__file__", "")).startswith(f"{folder}/")
    ]:
        del sys.modules[name]
    function._load.cache_clear()


def use(
    place: str, engine: str, code: Path, tmp_path: Path, factor: int = 3, **options: Any
) -> tuple[Result, Result]:
    """A map and a reduction over a volume on a cluster, checked value by value."""
    values = make_volume(tmp_path / "in.nii")
    pipeline, rule = Pipeline(str(tmp_path / "in.nii")), Rule("slabs")
    options = {"engine": engine, "connect": place, "rule": rule, **options}
    mapped = driver.run(
        pipeline.map(f"{code}:scaled").write(tmp_path / "map", keep="volume"), **options
    )
    assert mapped.ok, mapped.failures
    assert np.array_equal(load(mapped.outputs[0]), values * np.uint16(factor))
    reduced = driver.run(pipeline.reduce(f"{code}:total"), out=tmp_path / "reduce", **options)
    assert reduced.value == factor * int(values.sum(dtype=np.int64))
    return mapped, reduced


def test_code_is_sent_to_workers_without_hyperslab(tmp_path: Path, code: Path) -> None:
    """Edited code, too, and by another engine: `dask-delayed` has such workers in its own file."""
    required(dask.missing())
    with dask_cluster(
        tmp_path / "cluster", workers=2, threads=2, nanny=False, bare=True
    ) as cluster:
        mapped, _ = use(cluster.address, "dask-futures", code, tmp_path)
        assert mapped.trace.slots == [
            f"{socket.gethostname()}/w{w}/t{t}" for w in (0, 1) for t in (0, 1)
        ]
        before = [process.pid for process in cluster.workers]
        shutil.rmtree(tmp_path / "map")
        shutil.rmtree(tmp_path / "reduce")
        (code.parent / "beside.py").write_text("def factor():\n    return 7\n")
        forget(code.parent)
        use(str(cluster.scheduler_file), "dask-bag", code, tmp_path, 7)
        assert [process.pid for process in cluster.workers] == before
        assert all(process.poll() is None for process in (*cluster.workers, cluster.scheduler))


def test_a_worker_on_another_host_is_on_the_same_time_axis(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says what its paths are made of."""
    required(dask.missing(worker_prefix=ANOTHER_HOST))
    with dask_cluster(
        tmp_path / "cluster", workers=1, nanny=False, worker_prefix=ANOTHER_HOST
    ) as cluster:
        here = socket.gethostname()
        granularity: Iterator[Granularity] = itertools.cycle(get_args(Granularity))
        for engine in ("dask-futures", "dask-delayed"):
            values = make_volume(tmp_path / "in.nii")
            pipeline = Pipeline(str(tmp_path / "in.nii")).map(f"{code}:scaled", {"seconds": 0.05})
            result = driver.run(
                pipeline.write(tmp_path / engine, keep="volume"),
                engine=engine,
                connect=cluster.address,
                rule=Rule("slabs"),
                granularity=next(granularity),
            )
            assert np.array_equal(load(result.outputs[0]), values * np.uint16(3))
            meta = result.trace.meta
            assert sorted(result.trace.slots) == sorted([f"{here}/w0/t0", "other/w0/t0"])
            assert {span.slot for span in result.trace.spans} == set(result.trace.slots)
            assert meta["clocks"][here]["how"] == "same clock"
            other = meta["clocks"]["other"]
            assert other["how"] == "measured"
            assert abs(other["offset_ns"] + 5000 * 10**9) < 10**9
            assert 0 <= other["error_ns"] < 10**8
            assert all(
                meta["start_ns"] <= s.start_ns <= s.end_ns <= meta["end_ns"]
                for s in result.trace.spans
            )
        monkeypatch.chdir(tmp_path)
        found = package.tiers("/dev/shm", engine="dask-futures", connect=cluster.address)
        assert [(tier.host, tier.kind) for tier in found] == [(here, "dram"), ("other", "dram")]


TIMED = ["dask-futures", "spark"]


@repeats(
    "own times agree: of jobs, test_gnu_parallel.py; Spark's log: test_spark.py; of Dask, below"
)
@pytest.mark.parametrize("engine", TIMED)
def test_the_engine_s_own_times_agree_with_ours(tmp_path: Path, code: Path, engine: str) -> None:
    required(spark.missing() if engine == "spark" else dask.missing())
    make_volume(tmp_path / "in.nii")
    pipeline = (
        Pipeline(str(tmp_path / "in.nii"))
        .map(f"{code}:scaled", {"seconds": 0.1})
        .write(tmp_path / "out")
    )
    began = time.monotonic()
    result = driver.run(pipeline, engine=engine, workers=2, threads=1, rule=Rule("blocks", (16,)))
    both_slots_s = 2 * (time.monotonic() - began)
    own = result.trace.meta["own_times"]
    assert own["source"] == ("Spark's event log" if engine == "spark" else "Dask's task stream")
    assert own["tasks"] >= 16
    assert own["ours_s"] >= 1.6
    assert (
        own["ours_s"] - 0.1 <= own["engine_s"] <= both_slots_s
    )  # the engine's holds its own start of workers
    assert (
        own["worst_outside_ms"] < 1000
    )  # Dask corrects its clock by heartbeats, which a busy machine delays


def test_slurm_runs_the_workers(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required(dask.missing() or slurm.missing())
    settings = {
        "cores": 1,
        "memory": "1GB",
        "walltime": "00:10:00",
        "interface": None,
        "scheduler-options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"},
        "worker-extra-args": ["--host", "127.0.0.1"],
        "local-directory": str(tmp_path),
        "log-directory": str(tmp_path),
    }
    (tmp_path / "config").mkdir()
    said = json.dumps({"jobqueue": {"slurm": settings}})
    (tmp_path / "config" / "jobqueue.yaml").write_text(said)
    with slurm_cluster(tmp_path / "slurm") as cluster:
        given = cluster.environment | {"DASK_CONFIG": str(tmp_path / "config")}
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "met").mkdir()
        values = make_volume(tmp_path / "in.nii")
        together = {"folder": str(tmp_path / "met"), "workers": 2}
        slots: dict[str, Any] = {"workers": 2, "threads": 1}
        pipeline = Pipeline(str(tmp_path / "in.nii")).map(f"{code}:met", together)
        pipeline, scratch = looked(pipeline, tmp_path)
        mapped = driver.run(
            pipeline.write(tmp_path / "map", keep="volume"),
            engine="dask-futures",
            connect="slurm",
            rule=Rule("slabs"),
            scratch=scratch,
            **slots,
        )
        assert np.array_equal(load(mapped.outputs[0]), values * np.uint16(3))
        assert len(mapped.trace.slots) == len(places(tmp_path)) == 2
        queue = ("squeue", "--noheader", "--states=running,pending")
        await_that("an empty queue", lambda: cluster.command(*queue).strip() == "")


@repeats("clusters of others are found and used: on Dask; of Spark a laboratory starts one")
def test_a_spark_cluster(tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required(spark.missing())
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    values = make_volume(tmp_path / "in.nii")
    pipeline = Pipeline(str(tmp_path / "in.nii")).map(f"{code}:scaled").reduce(f"{code}:total")
    with spark_cluster(tmp_path / "cluster") as cluster:
        options: dict[str, Any] = {"connect": cluster.master, "rule": Rule("slabs")}
        options |= {"record_messages": True}
        reduced = driver.run(pipeline, engine="spark", out=tmp_path / "out", **options)
        monkeypatch.chdir(tmp_path)
        place = Options(engine="spark", connect=cluster.master)
        probed = probe_hosts([tmp_path / "out"], BRIEF_PROBE, place)
    assert [tier.host for tier in probed.tiers] == [socket.gethostname()]
    assert reduced.value == 3 * int((values * np.uint16(3)).sum(dtype=np.int64))
    assert reduced.trace.slots == [f"{socket.gethostname()}/w{w}/t0" for w in (0, 1)]
    assert {span.slot for span in reduced.trace.spans} == set(reduced.trace.slots)
    assert reduced.summary.moved_nbytes > 0
    _require_logged(tmp_path / "out")


def _require_logged(out: Path) -> None:
    """What two executors have read and sent, as Spark's event log has it."""
    traffic = load_records(out).traffic
    assert traffic is not None
    numbers = numbers_of(traffic)
    assert numbers.origin == "logged"
    counts = {one.name: one.count for one in numbers.operations}
    assert counts["result"] >= 2
    assert counts["broadcast"] >= 2
    pairs = {(pair.source, pair.target): pair.nbytes for pair in numbers.pairs}
    for executor in ("executor 0", "executor 1"):
        assert pairs[executor, "driver"] > 0
        assert pairs["driver or peers", executor] > 0


def test_what_is_not_there_is_said(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CONNECT_LIMIT_S", 0.5)
    make_volume(tmp_path / "in.nii")

    def said(**options: Any) -> str:
        pipeline = Pipeline(str(tmp_path / "in.nii")).map(f"{code}:scaled").write(tmp_path / "out")
        with pytest.raises((UsageError, RunStopped)) as stopped:
            driver.run(pipeline, **options)
        return str(stopped.value)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        assert "no Dask scheduler answers" in said(engine="dask-bag", connect=place)
        assert "no Spark master answers" in said(
            engine="spark", connect=place.replace("tcp", "spark")
        )
    assert "give tcp://HOST:PORT" in said(engine="dask-bag", connect=str(tmp_path / "nothing.json"))
    assert "is for Dask and Spark" in said(engine="processes", connect=place)
    assert not (tmp_path / "out").exists(), "a refused run leaves nothing behind"


def test_workers_of_a_cluster_are_not_ours_to_choose(
    tmp_path: Path, one_worker: DaskCluster
) -> None:
    make_volume(tmp_path / "in.nii")
    pipeline = Pipeline(str(tmp_path / "in.nii")).write(tmp_path / "out")
    with pytest.raises(UsageError, match="sets workers and threads: leave them out"):
        prepare(pipeline, Options(engine="dask-bag", connect=one_worker.address, workers=2))
    found = prepare(pipeline, Options(engine="dask-bag", connect=one_worker.address))
    assert (found.workers, found.threads) == (1, 3)


@pytest.mark.parametrize(
    ("version", "reason"),
    [("11.0.2", "is version 11"), ("1.8.0_292", "is version 8"), ("", "no java")],
)
def test_java_that_is_missing_or_too_old_is_a_sentence(
    tmp_path: Path, version: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_volume(tmp_path / "in.nii")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    if version:
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    arguments = (
        "run",
        "increment",
        tmp_path / "in.nii",
        "-o",
        tmp_path / "out",
        "--engine",
        "spark",
    )
    done = hyperslab(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Java 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr


SAME = "batches go to every engine by the same code: on Dask"


@repeats("batches and steps are an engine's units: test_gnu_parallel.py, of its joblog")
@pytest.mark.parametrize("engine", few(["dask-delayed"], ["dask-delayed", "spark"], SAME))
def test_units_of_work_as_the_engine_counts_them(tmp_path: Path, code: Path, engine: str) -> None:
    """Few for many tasks; with stepwise granularity every step of a block is one, where the engine
    does not fuse.
    """
    required(spark.missing() if engine == "spark" else dask.missing())
    values = make_volume(tmp_path / "in.nii")

    def units(name: str, rule: Rule, **options: Any) -> int:
        pipeline = Pipeline(str(tmp_path / "in.nii")).map(f"{code}:scaled")
        pipeline = pipeline.write(tmp_path / name, keep="volume")
        result = driver.run(pipeline, engine=engine, workers=2, threads=1, rule=rule, **options)
        assert np.array_equal(load(result.outputs[0]), values * np.uint16(3))
        return int(result.trace.meta["own_times"]["tasks"]) - (
            2 if engine == "spark" else 0
        )  # it asks both cores first

    assert units("many", Rule("blocks", (192,))) == 64
    steps = 1 if engine == "spark" else 4  # read, map, write, record
    assert units("stepwise", Rule("blocks", (16,)), granularity="stepwise") == 16 * steps


TREES = ["dask-bag", "dask-futures", "spark"]


@pytest.mark.parametrize("engine", few(["dask-futures"], TREES, SAME))
def test_a_reduction_is_merged_by_the_engine_s_own_tree(
    tmp_path: Path, code: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    place: dict[str, Any] = {"workers": 2, "threads": 1}
    if engine != "spark":
        place = {"connect": request.getfixturevalue("one_worker").address}
    required(spark.missing() if engine == "spark" else dask.missing())
    make_volume(tmp_path / "in.nii")
    result = driver.run(
        Pipeline(str(tmp_path / "in.nii")).reduce(f"{code}:total"),
        engine=engine,
        **place,
        rule=Rule("blocks", (64,)),
        out=tmp_path / "out",
    )
    merging = [span for span in result.trace.spans if span.task == NO_TASK]
    assert {span.kind for span in merging} == {"merge"}
    assert {span.slot for span in merging} <= set(result.trace.slots)
    assert len(merging) >= 8, "an inner node of the tree for every eight batches"
    assert 64 * 20 < sum(span.nbytes for span in merging) <= result.summary.moved_nbytes
    assert result.summary.tasks == 64, "merging is no task"
    (tree,) = (result.folder / "partials").glob("tree.*")
    assert len(load_partials([(result.folder, None)], range(64))[0].tasks) == 64, tree


def test_own_times_are_of_this_run(tmp_path: Path, code: Path, one_worker: DaskCluster) -> None:
    make_volume(tmp_path / "in.nii")
    mapped = Pipeline(str(tmp_path / "in.nii")).map(f"{code}:scaled")
    place: dict[str, Any] = {"engine": "dask-futures", "connect": one_worker.address}
    for number in range(3):
        pipeline = mapped.write(tmp_path / str(number))
        result = driver.run(pipeline, rule=Rule("blocks", (16,)), **place)
        assert result.trace.meta["own_times"]["tasks"] == 16


def test_two_runs_at_a_time_on_one_worker(
    tmp_path: Path, code: Path, one_worker: DaskCluster
) -> None:
    """Each with its own code in files of the same names, on threads of one process; one of their
    drivers is this process.
    """
    values = make_volume(tmp_path / "in.nii")
    homes = {factor: tmp_path / f"home{factor}" for factor in (3, 5)}
    for factor, home in homes.items():
        home.mkdir()
        (home / "mine.py").write_text(CODE)
        (home / "beside.py").write_text(f"def factor():\n    return {factor}\n")
    place = ("--engine", "dask-futures", "--connect", one_worker.address, "--partition", "slabs")
    slowly = ("-p", "seconds=0.05", "--keep", "volume")
    lines = {
        factor: (
            *("run", f"{home}/mine.py:scaled", tmp_path / "in.nii"),
            *("-o", tmp_path / f"out{factor}", *place, *slowly),
        )
        for factor, home in homes.items()
    }
    with running(*lines[3]) as run:
        done = hyperslab(*lines[5])
        code_, said = run.wait()
    assert code_ == 0, said
    assert done.returncode == 0, done.stderr
    for factor in homes:
        assert np.array_equal(
            load(tmp_path / f"out{factor}" / "in.nii"), values * np.uint16(factor)
        )


def test_a_worker_that_joins_later_has_its_lane(
    tmp_path: Path, code: Path, one_worker: DaskCluster
) -> None:
    make_volume(tmp_path / "in.nii")
    late = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        one_worker.address,
        "--nthreads",
        "1",
        "--no-nanny",
        "--no-dashboard",
    ]
    met = tmp_path / "met"
    met.mkdir()
    place = (
        "--engine",
        "dask-futures",
        "--connect",
        one_worker.address,
        "--partition",
        "slabs",
        "-p",
        f"folder={met}",
        "-p",
        "workers=2",
    )
    with running("run", f"{code}:met", tmp_path / "in.nii", "-o", tmp_path / "out", *place) as run:
        await_that("a task of the first worker", lambda: list(met.iterdir()))
        joined = one_worker.household.start("late", late)
        code_, said = run.wait()
    one_worker.household.kill(joined)
    assert code_ == 0, said
    trace = load_records(tmp_path / "out").trace
    here = socket.gethostname()
    assert trace.slots == [*(f"{here}/w0/t{thread}" for thread in range(3)), f"{here}/w1/t0"]
    assert {span.slot for span in trace.spans} == set(trace.slots)
