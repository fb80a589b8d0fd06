"""Workers, executors, schedulers and drivers of Dask and Spark that die: a result, or a reason, and
never a hang.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from hyperslab.testing.holding import hold, let_go
from tests.repetitions import few, repeats
from tests.system.clusters import dask, spark
from tests.system.clusters.processes import line
from tests.system.clusters.required import required
from tests.system.faults.command import (
    FUNCTIONS,
    SLABS,
    Running,
    assert_failed_alone,
    await_gone,
    await_recorded,
    hyperslab,
    load,
    make_volume,
    no_part_left,
    program,
    running,
)
from tests.system.faults.resumption import job, killed_and_resumed, stopped_and_resumed

WORDS = {"spark": "pyspark.daemon"}
IMPATIENT = """
import signal

import hyperslab.engines.batches.patience as patience


def lose_patience(*_):
    patience.ALONE_LIMIT_S = 2.0


signal.signal(signal.SIGUSR1, lose_patience)
"""
"""What Python runs at its start, in a driver that waits for other workers no half a minute once it
has the signal; a cluster may take its time to begin.
"""
BY_DEED = {
    "die": "died in the middle of the task",
    "exit": "the function called sys.exit(3)",
}
"What is said of a deed; test_workers.py has all of them, in workers of our own."


@pytest.fixture(autouse=True)
def _enough(request: pytest.FixtureRequest) -> None:
    required(spark.missing() if "spark" in request.node.name else dask.missing())


def workers(run: Running, engine: str) -> list[psutil.Process]:
    """The processes in which an engine's functions run."""
    found = [
        process for process in run.workers() if WORDS.get(engine, "spawn_main") in line(process)
    ]
    return [
        p for p in found if engine != "spark" or p.parent() in found
    ]  # the daemon itself only forks


WORKERS_DIE = (
    "workers that die cost attempts: of a reduction on Dask, below; of a task on Spark:"
    " engines/test_spark.py; of a map: test_workers.py"
)
DRIVERS_DIE = "a driver that dies leaves no process, and a run to resume: test_driver.py"
STOPS = "a run stops when its cluster is gone: a Dask of our own, and Java"


@pytest.mark.parametrize(
    ("engine", "function"),
    [
        pytest.param("dask-bag", "COUNTED_TOTAL", marks=repeats(WORKERS_DIE)),
        pytest.param("dask-futures", "counted", marks=repeats(WORKERS_DIE)),
        pytest.param("spark", "counted", marks=repeats(WORKERS_DIE)),
    ],
)
def test_killed_workers(tmp_path: Path, engine: str, function: str) -> None:
    values, out, chance, killed = (
        make_volume(tmp_path / "in.nii"),
        tmp_path / "out",
        random.Random(engine),
        0,
    )
    end = ("--keep", "volume") if function == "counted" else ()
    arguments = job(tmp_path, engine, function, "--retries", 9, *end)
    hold(tmp_path / "runs")
    with running(*arguments) as run:
        await_recorded(run, out, 2)
        while killed < 2:
            assert not run.has_ended, run.wait()
            for victim in chance.sample(found := workers(run, engine), min(1, len(found))):
                with suppress(psutil.NoSuchProcess):
                    victim.kill()
                    killed += 1
            time.sleep(chance.uniform(0.2, 0.6))
        let_go(tmp_path / "runs")
        code, said = run.wait()
    assert code == 0, said
    if end:
        assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))
        assert no_part_left(out)
        assert hyperslab("verify", out).returncode == 0
    else:
        assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))


@repeats("a worker of Spark that dies fails its block alone: engines/test_spark.py")
@pytest.mark.parametrize(
    ("engine", "deed"),
    [("spark", "die")],
)
def test_a_bad_block_fails_and_the_others_finish(tmp_path: Path, engine: str, deed: str) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    bad = (
        "-p",
        f"deed={deed}",
        "-p",
        "at=0,0,5",
        "--partition",
        "slabs",
        "--engine",
        engine,
        "--retries",
        0,
    )
    done = program("run", f"{FUNCTIONS}:misbehave", tmp_path / "in.nii", "-o", out, *bad)
    assert done.returncode == 1, done.stderr
    assert_failed_alone(done, tmp_path / "in.nii", out, values, BY_DEED[deed])


@repeats(DRIVERS_DIE)
def test_a_killed_driver_leaves_a_resumable_run_and_no_process_spark(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, "spark")


def impatient(tmp_path: Path) -> dict[str, str]:
    """The environment of a driver that soon gives up a cluster without workers, once told."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(IMPATIENT)
    return {"PYTHONPATH": f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}"}


@repeats(STOPS)
def test_a_killed_scheduler_stops_the_run(tmp_path: Path) -> None:
    with dask.dask_cluster(tmp_path / "cluster") as cluster:
        place = ("--connect", cluster.address)
        stopped_and_resumed(
            tmp_path,
            "dask-bag",
            place,
            lambda _: cluster.kill_scheduler(),
            "the connection to Dask's scheduler is lost",
        )


def test_a_killed_scheduler_of_our_own_stops_the_run(tmp_path: Path) -> None:
    def kill(run: Running) -> None:
        next(p for p in run.workers() if "dask.keeper" in line(p)).kill()

    stopped_and_resumed(
        tmp_path, "dask-futures", (), kill, "the connection to Dask's scheduler is lost"
    )


def test_a_killed_java_stops_the_run_spark(tmp_path: Path) -> None:
    def kill(run: Running) -> None:
        next(p for p in run.workers() if line(p).split(" ")[0].endswith("/java")).kill()

    stopped_and_resumed(tmp_path, "spark", (), kill, "Spark")


@repeats(WORKERS_DIE)
def test_a_spark_cluster_loses_an_executor_a_worker_and_all(tmp_path: Path) -> None:
    """A run goes on without some of them, and stops without any."""
    with spark.spark_cluster(tmp_path / "cluster") as cluster:

        def kill(run: Running) -> None:
            cluster.kill_executor(0)
            await_recorded(run, tmp_path / "out", 12)
            cluster.kill_worker(1)
            await_recorded(run, tmp_path / "out", SLABS - 6)
            run.process.send_signal(signal.SIGUSR1)
            cluster.kill_worker(0)

        place = ("--connect", cluster.master, "--retries", 3)
        reason, environment = "no executor for", impatient(tmp_path)
        stopped_and_resumed(tmp_path, "spark", place, kill, reason, environment)


@repeats(WORKERS_DIE)
def test_workers_of_a_cluster_that_die_for_good(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    with dask.dask_cluster(tmp_path / "cluster", workers=3) as cluster:
        place = ("--connect", cluster.scheduler_file, "--keep", "volume", "--retries", 3)
        with running(*job(tmp_path, "dask-futures", "counted", *place)) as run:
            await_recorded(run, out, 3)
            cluster.kill_nanny(0)
            await_recorded(run, out, 9)
            cluster.kill_nanny(1)
            code, said = run.wait()
    assert code == 0, said
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


@repeats(
    "Ctrl-C ends all that a run has started: jobs, test_gnu_parallel.py; workers, test_driver.py"
)
def test_ctrl_c_ends_a_run_and_everything_it_started(tmp_path: Path) -> None:
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    arguments = job(tmp_path, "dask-bag", "counted", "--keep", "volume", seconds=0.2)
    hold(tmp_path / "runs")
    with running(*arguments) as run:
        await_recorded(run, out, 4)
        left = run.workers()
        os.killpg(
            run.process.pid, signal.SIGINT
        )  # as a terminal does: to every process of the group
        code, said = run.wait()
        await_gone(left)
    assert code == 130, said
    assert "Traceback" not in said
    let_go(tmp_path / "runs")
    done = hyperslab(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    assert np.array_equal(load(out / "in.nii"), values + np.uint16(1))


@repeats("a run stops when its cluster is gone, above; who waits how long: engines/test_rounds.py")
def test_a_dask_cluster_without_workers_stops_the_run(tmp_path: Path) -> None:
    with dask.dask_cluster(tmp_path / "cluster") as cluster:

        def kill(run: Running) -> None:
            run.process.send_signal(signal.SIGUSR1)
            cluster.kill_nanny(0)
            cluster.kill_nanny(1)

        place = ("--connect", cluster.address)
        reason, environment = "no worker for a while", impatient(tmp_path)
        stopped_and_resumed(tmp_path, "dask-futures", place, kill, reason, environment)


DEATHS = [[20], [5, 40]]
"Tasks that are recorded when a worker dies."


@pytest.mark.parametrize("deaths", few(DEATHS[:1], DEATHS, "a tree that breaks: of one death"))
def test_a_reduction_whose_tree_breaks_is_made_of_what_is_left(
    tmp_path: Path, deaths: list[int]
) -> None:
    """One death is too much for this scheduler: the tree fails while other batches go on."""
    values, out = make_volume(tmp_path / "in.nii"), tmp_path / "out"
    strict = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    cut = ("--blocks", 96, "--retries", 4, "--workers", 2, "--threads", 2)
    arguments = [
        a
        for a in job(tmp_path, "dask-futures", "COUNTED_TOTAL", *cut)
        if a not in ("--partition", "slabs")
    ]
    with running(*arguments, environment=strict) as run:
        for moment in deaths:
            await_recorded(run, out, moment)
            for victim in workers(run, "dask-futures")[:1]:
                victim.kill()
        code, said = run.wait()
    assert code == 0, said
    assert (out / "result.json").read_text() == str(int(values.sum(dtype=np.int64)))
