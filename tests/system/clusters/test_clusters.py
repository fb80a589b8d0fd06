"""The clusters that other tests use: each comes up, does something, loses a part, and leaves
nothing behind.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import cloudpickle
import dask
import pytest
from distributed import Client

from tests.repetitions import repeats
from tests.system.clusters import dask as dask_clusters
from tests.system.clusters import slurm as slurm_clusters
from tests.system.clusters import spark as spark_clusters
from tests.system.clusters.dask import ANOTHER_HOST, DaskCluster, dask_cluster
from tests.system.clusters.processes import ClusterFailed, Household, household, runs
from tests.system.clusters.required import required
from tests.system.clusters.slurm import slurm

Answer = TypeVar("Answer")


def find_hyperslab() -> str:
    """Where a worker has hyperslab from, if from anywhere."""
    try:
        import hyperslab
    except ImportError:
        return ""
    return str(hyperslab.__file__)


def host_and_clock() -> tuple[str, float]:
    return socket.gethostname(), time.monotonic()


def call_on_workers(cluster: DaskCluster, function: Callable[[], Answer]) -> list[Answer]:
    """What a function returns on each worker."""
    settings = dask.config.merge(dask.config.config, dask.config.collect_env(cluster.environment))
    with dask.config.set(settings), Client(cluster.address) as client:
        return list(client.run(function).values())


@pytest.fixture(autouse=True)
def shipped_by_value() -> Iterator[None]:
    """Workers cannot import this module: functions go to them as they are."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


KINDS = [(False, True, False), (True, False, False), (False, True, True)]


@repeats("runs on each of these clusters: tests/engines/test_connect.py")
@pytest.mark.parametrize(("tls", "nanny", "bare"), KINDS, ids=str)
def test_dask_workers_answer_and_end(tmp_path: Path, tls: bool, nanny: bool, bare: bool) -> None:
    required(dask_clusters.missing(tls=tls))
    with dask_cluster(tmp_path / "dask", tls=tls, nanny=nanny, bare=bare) as cluster:
        assert cluster.address.startswith("tls://127.0.0.1:" if tls else "tcp://127.0.0.1:")
        assert [where == "" for where in call_on_workers(cluster, find_hyperslab)] == [bare, bare]
        pids = {cluster.worker(number).pid for number in (0, 1)}
        assert set(call_on_workers(cluster, os.getpid)) == pids
    assert cluster.household.left() == []


@repeats("a worker on another host: tests/engines/test_connect.py")
def test_dask_on_another_host(tmp_path: Path) -> None:
    required(dask_clusters.missing(worker_prefix=ANOTHER_HOST))
    with dask_cluster(tmp_path / "dask", 1, worker_prefix=ANOTHER_HOST) as cluster:
        clocks = dict(call_on_workers(cluster, host_and_clock))
        assert set(clocks) == {socket.gethostname(), "other"}
        assert clocks["other"] - clocks[socket.gethostname()] == pytest.approx(5000, abs=60)
    assert cluster.household.left() == []


@repeats("parts of a cluster die: tests/system/faults/test_clusters.py")
def test_dask_parts_die(tmp_path: Path) -> None:
    with dask_cluster(tmp_path / "dask") as cluster:
        first = cluster.worker(0)
        cluster.kill_worker(0)
        home = cluster.household
        home.wait_until(
            "another worker", lambda: home.log("scheduler").count("Register worker") == 3
        )
        assert cluster.worker(0) != first
        cluster.stop_worker(1)
        cluster.continue_worker(1)
        assert len(call_on_workers(cluster, os.getpid)) == 2
        cluster.stop_worker(1)
        cluster.kill_nanny(0)
        cluster.kill_scheduler()
        home.wait_until("one worker alone", lambda: len(home.running("dask_worker")) == 1)
    assert cluster.household.left() == []


@repeats("jobs of Slurm and workers in them: test_slurm.py, test_connect.py of tests/engines")
def test_slurm_runs_jobs_and_a_dask_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required(slurm_clusters.missing())
    with slurm(tmp_path / "slurm") as cluster:
        assert cluster.command("srun", "hostname").strip() == socket.gethostname()
        output = f"--output={tmp_path}/%a.txt"
        cluster.command(
            "sbatch", "--array=0-2%2", output, "--wrap", 'echo "task $SLURM_ARRAY_TASK_ID"'
        )
        said = ["task 0\n", "task 1\n", "task 2\n"]
        cluster.household.wait_until(
            "an array",
            lambda: [path.read_text() for path in sorted(tmp_path.glob("?.txt"))] == said,
        )
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        assert len(set(pids_on_slurm(("--output", str(tmp_path / "job-%j.txt"))))) == 2
        # Not even a job that keeps no variable outlives its cluster.
        cluster.command("sbatch", "--output=/dev/null", "--wrap", "exec env -i sleep 600")
        cluster.household.wait_until("a job", lambda: cluster.household.running("sleep 600"))
        (job,) = cluster.household.running("sleep 600")
        assert job.environ() == {}
    assert cluster.household.left() == []


def pids_on_slurm(directives: Sequence[str]) -> list[int]:
    """Process ids of two workers that dask-jobqueue asks Slurm for."""
    from dask_jobqueue import SLURMCluster

    loopback = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        SLURMCluster(
            cores=1,
            processes=1,
            memory="512MB",
            walltime="00:05:00",
            interface=None,
            scheduler_options=loopback,
            worker_extra_args=["--host", "127.0.0.1"],
            job_extra_directives=[" ".join(directives)],
        ) as cluster,
        Client(cluster) as client,
    ):
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=200)
        return list(client.run(os.getpid).values())


def test_nothing_is_left_after_a_failure(tmp_path: Path) -> None:
    def fail() -> None:
        with household(tmp_path / "home") as home:
            homes.append(home)
            home.start(
                "parent", ["sh", "-c", "setsid sh -c 'sleep 600 & sleep 600' & exec sleep 600"]
            )
            home.wait_until("three sleepers", lambda: len(home.running("sleep 600")) > 2)
            raise ZeroDivisionError

    homes: list[Household] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    assert homes[0].left() == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.system.clusters.processes import household
with household(Path(sys.argv[1])) as home:
    print(home.start("sleeper", ["sleep", "600"]).pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_outlives_a_killed_test(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    line = [sys.executable, "-c", KILLED, str(tmp_path / "home")]
    done = subprocess.run(line, cwd=root, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    sleeper = int(done.stdout)
    with household(tmp_path / "other") as home:
        home.wait_until("the end of an orphan", lambda: not runs(sleeper))


def test_a_failed_start_shows_the_logs(tmp_path: Path) -> None:
    with household(tmp_path) as home:
        home.start("broken", ["sh", "-c", "echo no such luck; exit 3"])
        with pytest.raises(ClusterFailed, match=r"an answer: .* ended with 3(.|\n)*no such luck"):
            home.wait_until("an answer", lambda: False)


def test_what_is_missing_is_skipped_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    required("")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no java"):
        required("no java")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no java"):
        required("no java")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(slurm_clusters, "DAEMONS", "/nowhere")
    assert "default-jre-headless" in spark_clusters.missing()
    assert "munge slurm-client slurmctld slurmd" in slurm_clusters.missing()
    assert "openssl" in dask_clusters.missing(tls=True)
