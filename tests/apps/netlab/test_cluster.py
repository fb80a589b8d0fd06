"""A Dask cluster on the nodes of a laboratory: real namespaces, links and workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest

from hyperslab.apps.netlab.cluster import Cluster, cluster_in_lab, require_nodes
from hyperslab.apps.netlab.facts import variables
from hyperslab.apps.netlab.meter import LEAST_IDLE_SHARE, STEP_S, Meter, Usage, metered
from hyperslab.apps.netlab.running import measured_of, newest
from hyperslab.driver.submission import Records, load_records
from hyperslab.errors import UsageError
from hyperslab.network.lab import registry
from hyperslab.network.lab.namespaces import LabFailed, network_file, processes
from hyperslab.network.lab.registry import SWITCH
from hyperslab.report.links import links_of
from tests.network.lab.labs import TOLERANT, require, spec
from tests.repetitions import repeats
from tests.system.clusters import mpi, spark
from tests.system.clusters.required import required
from tests.system.end_to_end.command import AS_INSTALLED, call, call_program, image_of, save
from tests.system.faults.command import await_recorded, await_that, running

NODES = TOLERANT + 'backend = "emulator"\n[nodes.scheduler]\n[nodes.client]\n[nodes.w1]\n'
SLOW = NODES.replace("[nodes.w1]", '[nodes.w1]\nrate = "50Mbit"\n[nodes.w2]')
PATIENCE_S = 100.0
OF_RECORDER = {
    "plugin-add",
    "plugin-remove",
    "register_worker_plugin",
    "unregister_worker_plugin",
    "run_function",
}
"Operations that a program of Dask arrays asks of nobody, and its recorder does."
DRIVER = """
import sys, time
from pathlib import Path
from hyperslab.apps.netlab.cluster import cluster_in_lab
from hyperslab.network.lab import load_spec
with cluster_in_lab(load_spec(Path(sys.argv[1])), "dask-futures") as cluster:
    print(cluster.lab.name, flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def started(records: Path) -> Iterator[tuple[Cluster, ExitStack]]:
    """A cluster of all tests of this file, and what ends it."""
    require("emulator")
    with ExitStack() as ends:
        yield ends.enter_context(cluster_in_lab(spec(SLOW), "dask-futures")), ends
    assert registry.recorded() == []


@pytest.fixture
def cluster(started: tuple[Cluster, ExitStack]) -> Cluster:
    return started[0]


def program(
    cluster: Cluster, out: Path, workload: str, **params: object
) -> tuple[Usage, dict[str, float], Usage]:
    """What links did while a program had its tasks in the client's node, its numbers, and what they
    did from before its start until after its end.
    """
    given = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
    words = [
        "-m",
        "hyperslab.apps.experiment.programs.table",
        "dask-arrays",
        workload,
        "--out",
        str(out),
    ]
    with metered(cluster.lab, cluster.processes) as meter:
        subprocess.run(
            [
                *cluster.prefix,
                *(sys.executable, *words, *cluster.arguments, "--record-messages"),
                *given,
            ],
            env={**os.environ, **variables(cluster.lab)},
            check=True,
            timeout=PATIENCE_S * 2,
        )
    folder = newest(out)
    assert folder is not None
    usage = measured_of(folder, cluster.lab, meter)
    assert usage is not None
    return usage, json.loads((folder / "numbers.json").read_text()), meter.usage()


def test_data_go_between_workers_and_are_counted(cluster: Cluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    usage, numbers, whole = program(cluster, out, "transpose-sum", array=800, chunk=200, rounds=2)
    sent = {one.node: one.sent_nbytes for one in usage.links}
    assert set(sent) == {"scheduler", "client", "w1", "w2"}
    # At the moment when its tasks end, some hundredths may still be under way on busy links.
    arrived = sum(one.received_nbytes for one in whole.links)
    assert sum(one.sent_nbytes for one in whole.links) == pytest.approx(arrived, rel=0.02)
    assert min(sent["w1"], sent["w2"]) > 2 * sent["scheduler"]
    payload = numbers["worker_message_nbytes"] * 2 + numbers["scheduler_message_nbytes"]
    on_links = sent["w1"] + sent["w2"] + sent["scheduler"]
    assert payload < on_links < 1.5 * payload, "what TCP adds, and no more"
    assert 0.1 < numbers["task_share"] < 0.6
    assert numbers["data_share"] > 0.9, numbers
    assert numbers["round_min_s"] <= numbers["round_avg_s"] <= numbers["round_max_s"]
    _require_recorder_apart(out)
    assert set(usage.cpu_share) == {"scheduler", "client", "w1", "w2"}
    assert usage.cpu_share["client"] > 0
    assert all(steps[-1][0] >= steps[0][0] for steps in usage.bytes_by_step.values())
    folder = newest(out)
    assert folder is not None
    facts = json.loads((folder / "provenance.json").read_text())["facts"]
    assert "backend emulator" in facts["network"]
    assert "longer than 50 ms" in facts["queues"]
    assert "w1 sends 50 Mbit/s" in facts["links"]
    assert "measured: rate up" in facts["links"]
    network = json.loads((folder / "network.json").read_text())
    assert network["usage"]["bound"] == usage.bound


def _require_recorder_apart(out: Path) -> None:
    """What brings the recorder and takes it away is so far from the tasks that no look at the links
    counts it to these.
    """
    folder = newest(out)
    assert folder is not None
    records = load_records(folder)
    assert records.traffic is not None
    each = records.traffic.columns
    by_recorder = [
        place
        for place, name in enumerate(records.traffic.operations)
        if name.removeprefix("reply:") in OF_RECORDER
    ]
    since_ns = time.time_ns() - time.monotonic_ns()
    came_ns = each["time_ns"][np.isin(each["operation"], by_recorder)] - since_ns
    meta = records.trace.meta
    before = came_ns < meta["ready_ns"] - 2 * STEP_S * 1e9
    behind = came_ns > meta["end_ns"] + STEP_S * 1e9
    assert before.any()
    assert behind.any()
    assert (before | behind).all()


@repeats(
    "a program in a laboratory is measured: above; what workers say: engines/test_dask_messages.py"
)
def test_an_idle_cluster_says_that_it_lives(cluster: Cluster, tmp_path: Path) -> None:
    usage, numbers, _ = program(cluster, tmp_path / "out", "idle", idle_s=3)
    assert numbers["heartbeat_interval_s"] == pytest.approx(0.5, rel=0.5)
    assert numbers["heartbeat_reply_nbytes"] == 77
    assert numbers["data_share"] == 0
    assert usage.seconds >= 3


def test_a_run_that_had_no_idle_processors_is_bound_by_them(cluster: Cluster) -> None:
    meter = Meter(cluster.lab, cluster.processes, threads=2)
    meter.start()
    time.sleep(0.5)
    meter.stop()
    usage = meter.usage()
    assert usage.usable == {"scheduler": 1, "client": 1, "w1": 2, "w2": 2}
    fields = {name: getattr(usage, name) for name in Usage.__slots__}
    assert "CPU-bound" in Usage(**fields | {"idle_share": LEAST_IDLE_SHARE / 2}).bound
    assert Usage(**fields | {"idle_share": LEAST_IDLE_SHARE * 2}).bound == ""
    assert Usage(**fields | {"idle_share": None}).bound == ""
    busy = {"idle_share": 0.75, "cpu_share": {"scheduler": 0.2, "w1": 0.9, "w2": 1.85}}
    told = "CPU-bound: w2, of 2 threads, kept 1.85 processors busy"
    assert Usage(**fields | busy).bound == told, "on a host with processors to spare"
    assert Usage(**fields | busy | {"usable": {}}).bound == ""


@repeats("a run is completed without a worker: faults/test_clusters.py; in a laboratory: below")
def test_a_run_is_completed_without_a_worker(cluster: Cluster, tmp_path: Path) -> None:
    _run_while_a_worker_dies(cluster, tmp_path)


def test_who_is_killed_leaves_nothing(started: tuple[Cluster, ExitStack]) -> None:
    """The last one of this cluster: a keeper dies, whose driver goes on."""
    cluster, ends = started
    (keeper,) = _parents(cluster.processes)
    os.kill(keeper, signal.SIGKILL)
    ends.close()
    assert not any(lab.name == cluster.lab.name for lab in registry.recorded())
    await_that("the end of all", lambda: not any(map(_lives, cluster.processes)))


def test_a_driver_that_is_killed_leaves_nothing(records: Path, tmp_path: Path) -> None:
    """Its keeper goes on, and ends the laboratory."""
    require("emulator")
    path = tmp_path / "spec.toml"
    path.write_text(NODES)
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(path)], stdout=subprocess.PIPE
    ) as driver:
        assert driver.stdout is not None
        name = driver.stdout.readline().decode().strip()
        driver.kill()
    await_that(
        "the end of the laboratory",
        lambda: not any(lab.name == name for lab in registry.recorded()),
    )


def _run_while_a_worker_dies(cluster: Cluster, folder: Path) -> None:
    values = np.arange(64, dtype=np.int16).reshape(4, 4, 4)
    image = save(folder / "a.nii", values)
    out = folder / "out"
    words = ("run", "increment", image, "-o", out, "--engine", "dask-futures", "--blocks", "8")
    slowly = ("-p", "delay=0.5", "--keep", "volume", "--no-report")
    with running(*words, *slowly, *cluster.arguments, inside=tuple(cluster.prefix)) as run:
        await_recorded(run, out, 1)
        (dying,) = [number for number, node in cluster.processes.items() if node == "w1"]
        for process in (*psutil.Process(dying).children(recursive=True), psutil.Process(dying)):
            process.kill()
        code, said = run.wait()
    assert code == 0, said
    assert (np.asarray(image_of(out / "a.nii").dataobj) == values + 1).all()


def _lives(number: int) -> bool:
    """Whether a process runs, and is no zombie that nobody has waited for."""
    try:
        return bool(psutil.Process(number).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _parents(processes: object) -> set[int]:
    assert isinstance(processes, dict)
    stats = (Path(f"/proc/{number}/stat").read_text() for number in processes)
    return {int(stat.rpartition(")")[2].split()[1]) for stat in stats}


def test_a_cluster_that_cannot_start_is_told(records: Path) -> None:
    require("emulator")
    with (
        pytest.raises(LabFailed, match="the cluster could not start: what runs on w1"),
        cluster_in_lab(spec(NODES), "dask-futures", threads=-3),
    ):
        pass
    assert not any(lab.name.startswith("run-") and lab.owner is None for lab in registry.recorded())


def test_a_keeper_that_dies_is_told_with_its_last_words(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("emulator")
    dying = [sys.executable, "-S", "-c", "import sys; print('no memory left'); sys.exit(3)"]
    monkeypatch.setattr("hyperslab.apps.netlab.cluster.program", lambda *_: dying)
    with (
        pytest.raises(LabFailed, match=r"the keeper of the laboratory .*: no memory left"),
        cluster_in_lab(spec(NODES), "dask-futures"),
    ):
        pass


def test_nodes_that_a_cluster_needs() -> None:
    for missing in ("scheduler", "client"):
        text = SLOW.replace(f"[nodes.{missing}]\n", "")
        with pytest.raises(UsageError, match=rf"add \[nodes.{missing}\]"):
            require_nodes(spec(text), "dask-bag")
    with pytest.raises(UsageError, match="needs a worker"):
        require_nodes(spec("[nodes.scheduler]\n[nodes.client]\n"), "dask-bag")
    with pytest.raises(UsageError, match="not for --engine processes"):
        require_nodes(spec(SLOW), "processes")


def test_run_in_a_laboratory(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is run again in the client's node, and what it writes is right."""
    require("emulator")
    before = registry.recorded()
    path = tmp_path / "spec.toml"
    path.write_text(NODES)
    image = save(tmp_path / "a.nii", np.arange(64, dtype=np.int16).reshape(4, 4, 4))
    out = tmp_path / "out"
    words = ("run", "increment", image, "-o", out, "--engine", "dask-delayed", "--netlab", path)
    refused = call(*words, "--connect", "tcp://198.18.0.2:8786")
    assert refused.code == 2
    assert "--netlab and --connect: give one of them" in refused.err
    monkeypatch.setenv("SUDO_USER", "me")
    done = call_program(*words, "--no-report")
    assert done.code == 0, done.err
    assert (
        f"all of this ran as root, and its files are root's: 'sudo chown -R me: {out}'" in done.out
    )
    assert "links      w1: sent" in done.out
    written = np.asarray(image_of(out / "a.nii").dataobj)
    assert (written == np.arange(64).reshape(4, 4, 4) + 1).all()
    assert registry.recorded() == before


def test_a_run_that_loses_its_links_ends_soon(records: Path, tmp_path: Path) -> None:
    """And not when Dask has waited long enough."""
    require("emulator")
    path = tmp_path / "spec.toml"
    path.write_text(f'name = "lost"\n{NODES}')
    image = save(tmp_path / "a.nii", np.arange(64, dtype=np.int16).reshape(4, 4, 4))
    out = tmp_path / "out"
    words = ("run", "increment", image, "-o", out, "--engine", "dask-futures", "--netlab", path)
    with running(*words, "--blocks", "8", "-p", "delay=1") as run:
        await_recorded(run, out, 1)
        (program,) = processes([network_file(registry.find("lost").place, SWITCH)])
        os.kill(program, signal.SIGKILL)
        code, said = run.wait()
    assert code == 1, said
    assert "hyperslab: the links of 'lost' were lost: hyperslab-links of 'lost'" in said
    assert "hyperslab: interrupted" in said, "it was told to end, and has not given up by itself"
    assert not any(lab.name == "lost" for lab in registry.recorded())


@repeats("a run in a laboratory is right: of Dask, above; Spark: engines/test_on_nodes.py")
def test_spark_runs_on_nodes_and_computes_the_same(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever address and proxy the user has set for programs of this host."""
    require("emulator")
    required(spark.missing())
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    records_of = _run_in_lab("spark", tmp_path)
    assert {slot.partition("/")[0] for slot in records_of.trace.slots} == {"w1", "w2"}
    _require_links(records_of)


def _run_in_lab(engine: str, folder: Path) -> Records:
    """Records of a run on two nodes whose output is right."""
    path = folder / "spec.toml"
    path.write_text(SLOW)
    values = np.arange(4096, dtype=np.int16).reshape(16, 16, 16)
    image = save(folder / "a.nii", values)
    out = folder / "out"
    words = ["run", "increment", str(image), "-o", str(out), "--engine", engine, "--blocks", "4"]
    told = ["--keep", "volume", "--netlab", str(path)]
    done = subprocess.run([*AS_INSTALLED, *words, *told], check=False, timeout=PATIENCE_S * 3)
    assert (np.asarray(image_of(out / "a.nii").dataobj) == values + 1).all()
    records_of = load_records(out)
    late = records_of.trace.meta["network"]["usage"]["starved"]
    assert done.returncode == int(bool(late)), "1 where others kept the emulator from processors"
    return records_of


def _require_links(records_of: Records) -> None:
    """What links have carried is told, and on the page."""
    links = links_of(records_of.trace.meta)
    assert links is not None
    assert all(link.nbytes["sends"] > 0 for link in links.nodes if link.role == "worker")
    assert "<h2>Links</h2>" in (records_of.folder / "report.html").read_text()


@repeats(
    "a run in a laboratory is right: of Dask, above; ranks on other hosts: engines/test_mpi.py"
)
def test_ranks_of_mpi_are_on_nodes_and_compute_the_same(records: Path, tmp_path: Path) -> None:
    """The driver's mpiexec enters the nodes, whose links carry what ranks say to each other."""
    require("emulator")
    required(mpi.missing())
    records_of = _run_in_lab("mpi", tmp_path)
    assert {slot.partition("/")[0] for slot in records_of.trace.slots} == {"w1", "w2"}
    _require_links(records_of)


def test_an_mpi_that_cannot_enter_nodes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required(mpi.missing())
    other = tmp_path / "mpiexec"
    other.write_text("#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.4'\n")
    other.chmod(0o755)
    monkeypatch.setenv("HYPERSLAB_MPIEXEC", str(other))
    with pytest.raises(UsageError, match="is not of MPICH, whose mpiexec can be told"):
        require_nodes(spec(SLOW), "mpi")
