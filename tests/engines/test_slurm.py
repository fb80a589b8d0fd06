"""The slurm engine keeps the contract of engines, on a Slurm of one node."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.apps.probing import probe_hosts
from hyperslab.driver import manage
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.result import Result
from hyperslab.engines import EngineOptions
from hyperslab.engines.slurm import commands, requests, submitted
from hyperslab.engines.slurm.array import Array
from hyperslab.engines.slurm.commands import Unanswered
from hyperslab.engines.slurm.engine import Slurm
from hyperslab.engines.slurm.submitted import SubmittedJobs
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.host import WORKER_BASE_BYTES
from hyperslab.plan.pipeline import Pipeline
from hyperslab.testing import EngineTests, functions
from hyperslab.testing.holding import begun, hold, let_go
from tests.engines.at import At
from tests.engines.briefly import BRIEF_PROBE
from tests.engines.chosen import JOBS
from tests.engines.fence import removes_the_fence
from tests.loaded import waits_for_a_gate
from tests.repetitions import few, only, repeats
from tests.system.clusters import slurm
from tests.system.clusters.processes import ClusterFailed, is_alive
from tests.system.clusters.required import required
from tests.system.faults.command import await_that, load, make_volume

MEMORY = "mem=512M"
PLACE: dict[str, Any] = {"engine": "slurm", "workers": 2, "slurm_option": (MEMORY,)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Slurm]:
    required(slurm.missing())
    with slurm.in_reach(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@pytest.fixture(autouse=True)
def _on_the_cluster(cluster: slurm.Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Slurm, "batches_per_slot", 1)


@only(JOBS)
class TestSlurm(EngineTests):
    engine = "slurm"

    def _place(self) -> dict[str, Any]:
        return {**super()._place(), "slurm_option": (MEMORY,)}


@repeats("storage is looked at and probed on every host: test_probed_hosts.py")
def test_storage_is_looked_at_and_probed_by_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one host, and no job waits for another one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    options = Options(engine="slurm", workers=2, slurm_option=(MEMORY,))
    (looked,) = hyperslab.tiers(tmp_path / "data", options)
    probed = probe_hosts([tmp_path / "data"], BRIEF_PROBE, options)
    assert looked.host == socket.gethostname()
    assert [tier.host for tier in probed.tiers] == [looked.host]
    assert probed.silent == ()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert list((tmp_path / "data").iterdir()) == []


def run(
    tmp_path: Path,
    function: Any = functions.add,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    """Add one to a volume, slab by slab."""
    pipeline = Pipeline(str(tmp_path / "in.nii")).map(function, params)
    settings = {**PLACE, "partition": "slabs", "report": False, "check": False, **options}
    return hyperslab.run(pipeline.write(tmp_path / "out", keep="volume"), **settings)


def test_a_node_that_fails_is_named_and_its_tasks_are_done_again(
    tmp_path: Path, cluster: slurm.Slurm
) -> None:
    values = make_volume(tmp_path / "in.nii")
    node = f"nodename={socket.gethostname().partition('.')[0]}"
    runs = tmp_path / "runs"
    runs.mkdir()
    gone_on = hold(runs, 2)

    def fail() -> None:
        """While both jobs are at a task: they go on only when the node has killed them."""
        await_that("two jobs at their tasks", lambda: begun(runs) == gone_on + 2)
        at_work = cluster.at_work()
        assert len(at_work) >= 2
        cluster.command("scontrol", "update", node, "state=down", "reason=test")
        await_that("the end of both", lambda: not any(map(is_alive, at_work)))
        with suppress(ClusterFailed):  # it may be back by itself
            cluster.command("scontrol", "update", node, "state=resume")
        let_go(runs)

    settings: dict[str, Any] = {"blocks": 8, "partition": None, "progress": At(1, fail)}
    result = run(tmp_path, functions.counted, {"folder": str(runs)}, **settings)
    assert result.ok, result.failures
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))
    lost = [s for s in result.trace.spans if s.lost]
    assert 1 <= len(lost) <= 2
    journal = "".join(path.read_text() for path in (result.folder / "journal").glob("driver.*"))
    assert "was lost with its node) in the middle of the task" in journal
    queue = result.trace.meta["queue"]
    assert queue["jobs"] >= 4, "two of each round"
    assert queue["system"] == "Slurm"
    assert result.trace.meta["own_times"]["tasks"] == queue["jobs"]
    await_that("an empty queue", lambda: cluster.command("squeue", "--noheader").strip() == "")


TAKEN: list[tuple[tuple[str, ...], int]] = [(("--state=PENDING",), 2), ((), 1)]


@pytest.mark.parametrize(
    ("which", "done"), few(TAKEN[:1], TAKEN, "jobs that were taken are not submitted again")
)
def test_jobs_that_somebody_takes_out_of_the_queue_are_not_submitted_again(
    tmp_path: Path,
    cluster: slurm.Slurm,
    monkeypatch: pytest.MonkeyPatch,
    which: Sequence[str],
    done: int,
) -> None:
    """Those that run come to their ends, unless they are taken, too, and the run says why it stops:
    a killed array is gone on with.
    """
    values = make_volume(tmp_path / "in.nii")
    monkeypatch.setattr(Slurm, "batches_per_slot", 2)
    gate = tmp_path / "gate"
    options: dict[str, Any] = {"blocks": 4, "partition": None, "workers": 1}

    def take() -> None:
        """Between the first task of the job that runs and its second one, which waits."""
        given = submitted.load(tmp_path / "out" / ".hyperslab" / "run-0001")
        assert given is not None
        cluster.command("scancel", f"--name={given.name}", *which)
        if which:
            gate.touch()

    said = "^somebody has cancelled 1 job of the run that waited; .*resume=True continues the run"
    with pytest.raises(RunStopped, match=said):
        run(tmp_path, waits_for_a_gate, {"gate": str(gate)}, progress=At(1, take), **options)
    assert manage.status(tmp_path / "out").done == done
    gate.touch()
    assert run(tmp_path, waits_for_a_gate, {"gate": str(gate)}, resume=True, **options).ok
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))


def test_arrays_are_as_small_as_slurm_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several arrays together run no more jobs at a time than one would: one."""
    values = make_volume(tmp_path / "in.nii")
    monkeypatch.setattr(Slurm, "batches_per_slot", 2)
    monkeypatch.setattr(commands, "largest_array", lambda: 1)
    began: list[SubmittedJobs] = []
    ask = Array.ask

    def asked(self: Array) -> None:
        began.append(self.submitted)
        ask(self)

    monkeypatch.setattr(Array, "ask", asked)
    result = run(tmp_path, workers=1)
    assert result.ok, result.failures
    assert np.array_equal(load(tmp_path / "out" / "in.nii"), values + np.uint16(1))
    assert [(first, size) for _, first, size in began[0].arrays] == [(n, 1) for n in range(2)]
    assert len(result.trace.slots) == 1


def test_jobs_that_cannot_begin_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_volume(tmp_path / "in.nii")
    monkeypatch.setattr(Slurm, "python", lambda _: ["/no/such/python"])
    with pytest.raises(RunStopped, match=r"all of Slurm's jobs ended .* \(FAILED on .*worker\.log"):
        run(tmp_path)
    log = tmp_path / "out" / ".hyperslab" / "run-0001" / "worker.log"
    assert "/no/such/python" in log.read_text()


def test_why_a_job_cannot_go_on_is_why_the_run_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not submitted again, as what fills a disk for one job does so for the next."""
    make_volume(tmp_path / "in.nii")
    monkeypatch.setattr(Slurm, "batches_per_slot", 2)
    rounds: list[str] = []
    submit = commands.submit

    def counted(script: str, arguments: Sequence[str], without: Sequence[str]) -> str:
        rounds.append(script)
        return submit(script, arguments, without)

    monkeypatch.setattr(commands, "submit", counted)
    with pytest.raises(RunStopped, match=r"^the run has been stopped"):
        run(tmp_path, removes_the_fence, {"folder": str(tmp_path)}, workers=1)
    assert len(rounds) == 1
    assert manage.status(tmp_path / "out").why_stopped.startswith("the run has been stopped")


def refused(tmp_path: Path, *options: str, **more: Any) -> str:
    """What is said of a run that is refused, which leaves nothing behind."""
    if not (tmp_path / "in.nii").exists():
        make_volume(tmp_path / "in.nii")
    with pytest.raises(UsageError) as error:
        run(tmp_path, **{"slurm_option": options, **more})
    assert not (tmp_path / "out").exists()
    return str(error.value)


def test_what_slurm_would_reject_is_refused_before_anything_starts(tmp_path: Path) -> None:
    assert "invalid partition specified: nope" in refused(tmp_path, "partition=nope")
    assert "Requested node configuration" in refused(tmp_path, "mem=9999G")
    assert "unrecognized option" in refused(tmp_path, "wibble")
    assert "array=3': is hyperslab's own: the run is cut by" in refused(tmp_path, "array=3")
    assert "o=/tmp/x: is hyperslab's own" in refused(tmp_path, "-o=/tmp/x")
    assert "give NAME=VALUE" in refused(tmp_path, "=3")
    assert "requeue: is hyperslab's own: what a job leaves" in refused(tmp_path, "requeue")
    assert "mem=100M': Python takes 201 MB of it; give more" in refused(tmp_path, "mem=100M")
    assert "Invalid mem specification" in refused(tmp_path, "mem=lots")
    assert "runs one task at a time" in refused(tmp_path, MEMORY, threads=2)
    assert "mean the same of jobs" in refused(tmp_path, MEMORY, throttle=2)
    assert "throttle=0: give 1 or more" in refused(tmp_path, workers=None, throttle=0)


def test_a_slurm_that_is_not_there_is_told(
    tmp_path: Path, cluster: slurm.Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Path(cluster.environment["SLURM_CONF"]).read_text()
    (tmp_path / "slurm.conf").write_text(
        f"{settings}MessageTimeout=1\n".replace("ctldPort=", "ctldPort=1#")
    )
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert "Unable to contact slurm controller" in refused(tmp_path, MEMORY)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no sbatch here, a command of Slurm, the batch system of clusters; " in refused(
        tmp_path
    )


def test_options_of_jobs_are_for_engines_with_jobs() -> None:
    with pytest.raises(
        UsageError, match="throttle: is for engine='slurm', not for engine='processes'"
    ):
        Options(throttle=3)
    with pytest.raises(UsageError, match="slurm_option: is for engine='slurm'"):
        Options(engine="threads", slurm_option=("time=1",))


def test_jobs_have_the_memory_that_tasks_are_planned_with(tmp_path: Path) -> None:
    make_volume(tmp_path / "in.nii")
    pipeline = Pipeline(str(tmp_path / "in.nii")).map(functions.add).write(tmp_path / "out")
    by_job = prepare(pipeline, Options(engine="slurm", throttle=3, slurm_option=("mem=1G",)))
    assert by_job.needs.budget.memory_bytes == 3 * (2**30 - WORKER_BASE_BYTES)
    assert (by_job.workers, by_job.needs.machine) == (3, None)
    by_task = EngineOptions(tmp_path, 2, memory_bytes=2**31, job_options=("time=5",))
    assert requests.asked(by_task) == ["--time=5", f"--mem={(2**30 + WORKER_BASE_BYTES) >> 10}K"]
    assert requests.asked(EngineOptions(tmp_path, 1, job_options=("mem=3G",))) == ["--mem=3G"]
    with pytest.raises(UsageError, match="mem=lots: give a size such as 4G"):
        requests.memory_of_jobs(EngineOptions(tmp_path, 1, job_options=("mem=lots",)))


def test_the_last_job_has_memory_of_its_own_and_nothing_that_tasks_alone_need(
    tmp_path: Path,
) -> None:
    least = f"--mem={(requests.LAST_NBYTES + WORKER_BASE_BYTES) >> 10}K"
    by_slot = EngineOptions(tmp_path, 2, memory_bytes=2**21)
    assert requests.asked_of_last(by_slot) == [least], "trace and page need some"
    of_tasks = ("mem=512M", "gres=gpu:1", "G=2", "-N=3", "exclusive", "c=8", "begin=now+1hour")
    others = ("time=5", "p=short", "account=lab")
    options = EngineOptions(tmp_path, 2, job_options=(*of_tasks, *others))
    assert requests.asked_of_last(options) == ["--time=5", "-pshort", "--account=lab", least]
    for more in ("mem=8G", "mem-per-cpu=4G"):
        large = EngineOptions(tmp_path, 2, job_options=(more, "c=2"))
        assert requests.asked_of_last(large) == [f"--mem={8 * 2**20}K"]


def test_the_last_job_is_not_asked_for_with_the_variables_of_tasks(
    tmp_path: Path, cluster: slurm.Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And as the others where Slurm would not take it otherwise."""
    monkeypatch.setenv("SBATCH_MEM_PER_CPU", "300")
    monkeypatch.setenv("SBATCH_EXCLUSIVE", "user")
    engine = Slurm(EngineOptions(tmp_path, 2, job_options=("time=5",), last_job=("true",)))
    own, without = engine._asked_of_last()
    output = f"--output={tmp_path}/log"
    number = commands.submit(requests.last_script(["true"]), [*own, output], without)
    told = cluster.command("scontrol", "show", "job", number)
    nbytes = requests.LAST_NBYTES + WORKER_BASE_BYTES
    assert f"MinMemoryNode={nbytes >> 20}" in told
    assert "TimeLimit=00:05:00" in told
    assert "OverSubscribe=OK" in told
    monkeypatch.setattr(requests, "LAST_NBYTES", 2**50)
    assert engine._asked_of_last() == (["--time=5"], ())


def test_memory_may_be_said_of_a_processor_or_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_cpus = EngineOptions(tmp_path, 1, job_options=("mem-per-cpu=1G", "cpus-per-task=3"))
    assert requests.memory_of_jobs(of_cpus) == 3 * 2**30 - WORKER_BASE_BYTES
    assert not [text for text in requests.asked(of_cpus) if text.startswith("--mem=")]
    plain = EngineOptions(tmp_path, 1)
    monkeypatch.setenv("SBATCH_MEM_PER_CPU", "1500")
    assert requests.memory_of_jobs(plain) == 1500 * 2**20 - WORKER_BASE_BYTES
    assert requests.asked(plain) == []
    monkeypatch.setenv("SBATCH_MEM_PER_CPU", "100")
    with pytest.raises(UsageError, match=r"^SBATCH_MEM_PER_CPU=100: Python takes 201 MB of it"):
        requests.memory_of_jobs(plain)
    all_of_it = EngineOptions(tmp_path, 1, job_options=("mem=0",))
    assert requests.memory_of_jobs(all_of_it) == requests.JOB_NBYTES


def test_the_accounting_is_asked_with_options_that_it_knows() -> None:
    """There is none here, which it says when it has read them."""
    with pytest.raises(Unanswered, match="Slurm accounting storage is disabled"):
        commands._accounts(["7"])


def test_the_size_of_arrays_is_the_cluster_s(cluster: slurm.Slurm) -> None:
    assert commands.largest_array() == slurm.MOST_ELEMENTS
    largest = f"--array=0-{slurm.MOST_ELEMENTS - 1}"
    commands.try_out("#!/bin/sh\n", [largest])
    with pytest.raises(UsageError, match="Invalid job array specification"):
        commands.try_out("#!/bin/sh\n", [f"--array=0-{slurm.MOST_ELEMENTS}"])
