"""The gnu-parallel engine keeps the contract of engines, on this host and on others."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab import Fold, Pipeline
from hyperslab.cli.doctor import doctor
from hyperslab.driver.result import Result
from hyperslab.driver.submission import load_records
from hyperslab.engines import EngineOptions, keeper
from hyperslab.engines.facts import ENGINES
from hyperslab.engines.gnu_parallel import joblog, logins, program
from hyperslab.engines.gnu_parallel.engine import GnuParallel
from hyperslab.errors import RunStopped, UsageError
from hyperslab.testing import EngineTests, functions
from tests.engines.at import At
from tests.engines.chosen import JOBS
from tests.engines.fence import removes_the_fence
from tests.loaded import job_slot
from tests.repetitions import few, only, repeats
from tests.system.clusters import dask, sshd
from tests.system.clusters.another_host import AHEAD_S, APART, another_host
from tests.system.clusters.required import required
from tests.system.faults.command import PATIENCE_S, load, make_volume

ENGINE = "gnu-parallel"
OTHER = "other"


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What GNU Parallel keeps for itself between its runs is kept out of the user's home."""
    if shutil.which("parallel") is None:
        required("there is no GNU Parallel here: install the Debian package parallel")
    monkeypatch.setenv("PARALLEL_HOME", str(tmp_path_factory.getbasetemp() / "parallel"))


@only(JOBS)
class TestGnuParallel(EngineTests):
    engine = ENGINE

    @pytest.fixture(autouse=True)
    def _few_starts(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        """Most of what a job of such a test takes is the start of Python: one test is enough in
        which every task is a job.
        """
        monkeypatch.setattr(GnuParallel, "batches_per_slot", 1)
        is_stepwise = request.node.name == "test_every_phase_is_in_the_trace[stepwise]"
        monkeypatch.setattr(GnuParallel, "single_steps", is_stepwise)


def run(folder: Path, pipeline: Pipeline, **options: Any) -> Result:
    settings = {"engine": ENGINE, "report": False, "partition": "slabs", **options}
    if not settings.get("connect"):
        settings.setdefault("workers", 2)
    return hyperslab.run(pipeline.write(folder / "out", keep="volume"), **settings)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """Reads a volume of 32 slabs."""
    make_volume(tmp_path / "in.nii")
    return Pipeline(str(tmp_path / "in.nii"))


def test_job_slots_are_lanes(tmp_path: Path, pipeline: Pipeline) -> None:
    result = run(tmp_path, pipeline.map(job_slot), workers=2, partition=None, blocks=(1, 1, 2))
    host = socket.gethostname()
    assert result.trace.slots == [f"{host}/w{n}/t0" for n in range(2)]
    slots = load(result.outputs[0])[0, 0]
    lanes = {span.task: span.slot for span in result.trace.spans}
    assert [lanes[task] for task in range(2)] == [f"{host}/w{slot - 1}/t0" for slot in slots[::16]]
    assert len(set(slots)) > 1


def test_a_job_is_a_batch_or_stepwise_a_task(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its joblog says so, and that they ran when our trace says that tasks did."""
    monkeypatch.setattr(GnuParallel, "batches_per_slot", 2)
    pipeline = pipeline.map(functions.add, {"seconds": 0.02})
    fused = run(tmp_path / "fused", pipeline, workers=1)
    own = fused.trace.meta["own_times"]
    assert own["source"] == "GNU Parallel's joblog"
    assert own["tasks"] == 2
    assert 32 * 0.02 <= own["ours_s"] <= own["engine_s"]
    assert own["worst_outside_ms"] < 100
    number = program.version(shutil.which("parallel") or "")
    assert f"GNU Parallel {number}" in load_records(fused.folder).facts["versions"]
    stepwise = run(
        tmp_path / "steps",
        pipeline,
        workers=1,
        partition=None,
        blocks=(1, 1, 3),
        granularity="stepwise",
    )
    assert stepwise.trace.meta["own_times"]["tasks"] == 3


def test_odd_folders_and_the_user_s_own_settings_change_nothing(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the user's settings are left as they are: no notice is silenced."""
    home = tmp_path / "home"
    (home / ".parallel").mkdir(parents=True)
    (home / ".parallel" / "config").write_text("--dry-run --of-a-newer-version\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PARALLEL", "--dry-run --max-args 3 --of-a-newer-version")
    program.version.cache_clear()
    monkeypatch.setenv("SHELL", "/bin/false")
    folder = tmp_path / "{} {%} {= die =} 'a' \"b\" $(c)\n\\"
    result = run(folder, pipeline.map(functions.add), partition=None, blocks=1)
    assert np.array_equal(load(result.outputs[0]), load(tmp_path / "in.nii") + np.uint16(1))
    assert (result.folder / "worker.log").read_text() == ""
    assert not (home / ".parallel" / "will-cite").exists()
    assert not any("cite" in option for option in program.OPTIONS)
    assert list(result.folder.glob("orders.*")) == []


def test_what_jobs_read_is_not_written_again(tmp_path: Path) -> None:
    engine = GnuParallel(EngineOptions(tmp_path, 1))
    engine.start()
    jobs = tmp_path / "orders.r1.pickle.jobs"
    jobs.write_text("of another submission")
    with pytest.raises(FileExistsError):
        engine.launch(tmp_path / "orders.r1.pickle.sh", 1)
    assert jobs.read_text() == "of another submission"


def test_why_a_job_cannot_go_on_is_why_the_run_stops(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GnuParallel, "batches_per_slot", 2)
    pipeline = pipeline.map(removes_the_fence, {"folder": str(tmp_path)})
    with pytest.raises(RunStopped, match=r"^the run has been stopped"):
        run(tmp_path, pipeline, workers=1)


def test_jobs_that_cannot_start_stop_the_run(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GnuParallel, "python", lambda _: ["/not/there"])
    said = r"^GNU Parallel's jobs cannot run the tasks \(.*/not/there: not found; see .*worker.log"
    with pytest.raises(RunStopped, match=said):
        run(tmp_path, pipeline)


KEPT = """
setsid sleep 1000 &
(trap '' TERM HUP; sleep 1000 &)
echo begun
{last}
"""
KILLED = 128 + signal.SIGKILL
ENDS = {"the command": {KILLED}, "the driver": {KILLED, 130}, "a cancelled round": {130}}
"What ends first, and the keeper's exit status."


@pytest.mark.parametrize("end", ENDS)
def test_a_keeper_leaves_nothing_behind(end: str) -> None:
    """Whatever still ran would hold the other end of the pipe that we read."""
    lifeline, held = os.pipe()
    last = "sleep 1000"
    if end == "the command":
        last = "kill -9 $$"
    command = [sys.executable, "-I", "-S", keeper.__file__, str(lifeline), "sh", "-c"]
    with subprocess.Popen(
        [*command, KEPT.format(last=last)], stdout=subprocess.PIPE, pass_fds=[lifeline]
    ) as process:
        os.close(lifeline)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        if end == "the driver":
            os.close(held)
        if end == "a cancelled round":
            process.terminate()
        assert process.communicate(timeout=PATIENCE_S)[0] == b""
    assert process.returncode in ENDS[end]
    if end != "the driver":
        os.close(held)


MOREUTILS = """#!/bin/sh
echo "parallel: invalid option -- '-'" >&2
exit 1
"""
OLD = """#!/bin/sh
echo "GNU parallel 20161222"
"""
UNUSABLE = {
    "": "there is no parallel on the PATH: install GNU Parallel",
    MOREUTILS: "/parallel is another program .moreutils has one of that name",
    OLD: f"needs GNU Parallel {program.OLDEST} or newer, and /.*/parallel is version 20161222",
}
"What is found instead of GNU Parallel, and what is said of it."


@pytest.mark.parametrize("found", UNUSABLE, ids=["none", "moreutils", "old"])
def test_a_parallel_that_cannot_be_used_is_a_sentence(
    tmp_path: Path,
    pipeline: Pipeline,
    found: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    if found:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "parallel").write_text(found)
        (tmp_path / "bin" / "parallel").chmod(0o755)
    for place in ("", "ssh:node"):
        with pytest.raises(UsageError, match=rf"^engine='gnu-parallel'.*{UNUSABLE[found]}"):
            run(tmp_path, pipeline, connect=place)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", {ENGINE: ENGINES[ENGINE]})
    assert doctor(start=False) == 0
    said = capsys.readouterr().out
    assert "engine     gnu-parallel: not here: --engine gnu-parallel needs GNU Parallel" in said
    assert "(Debian package parallel)" in said


@pytest.mark.parametrize("place", ["node", "ssh:", "ssh:a,,b", "ssh:0/a", "tcp://a:1", "slurm"])
def test_an_address_of_another_kind_is_a_sentence(
    tmp_path: Path, pipeline: Pipeline, place: str
) -> None:
    with pytest.raises(UsageError, match=r"^connect.*: give ssh:HOST\[,HOST...\]"):
        run(tmp_path, pipeline, connect=place)


def test_a_host_that_is_named_twice_is_refused(tmp_path: Path, pipeline: Pipeline) -> None:
    with pytest.raises(UsageError, match=r"^connect.*: a is named twice: name it once, as N/a for"):
        run(tmp_path, pipeline, connect="ssh:2/a,b,3/a")


def test_a_login_is_a_host_with_a_number_of_jobs() -> None:
    found = logins.logins_of("ssh:4/a,b,2/me@c:22,3//usr/bin/ssh -p 22 d,:")
    assert [(login.host, login.jobs) for login in found] == [
        ("a", 4),
        ("b", 0),
        ("me@c:22", 2),
        ("/usr/bin/ssh -p 22 d", 3),
        (":", 0),
    ]


def test_a_joblog_that_is_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "joblog.tsv"
    assert list(joblog.read(path)) == []
    path.write_text(
        "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
        "2\t:\t1795420411.048\t     0.250\t0\t0\t0\t9\tsh a\tb\n"
        "1\tnode\t1795420411.046\t     1.000\t0\t0\t137\t0\tsh a\tb\n"
        "3\tnode\t17954204"
    )
    assert list(joblog.read(path)) == [
        joblog.Job(1, ":", 1795420411.048, 0.25, 137),
        joblog.Job(0, "node", 1795420411.046, 1.0, 137),
    ]


def test_a_joblog_that_grows_is_read_once(tmp_path: Path) -> None:
    """Line by line, and none before all of it is there."""
    path = tmp_path / "joblog.tsv"
    ended = joblog.Ended(path)
    assert ended.by_host() == {}
    line = "{}\tnode\t1.0\t1.0\t0\t0\t{}\t0\tsh a"
    path.write_text("Seq\tHost\n" + line.format(1, 0) + "\n" + line.format(2, 25))
    assert [job.status for job in ended.by_host()["node"]] == [0]
    read = path.stat().st_size - len(line.format(2, 25))
    with open(path, "r+b") as file:
        file.write(bytes(read))  # what was read is not looked at again
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    assert [job.status for job in ended.by_host()["node"]] == [0, 25]
    assert [job.number for job in ended.by_host()["node"]] == [0, 1]


def test_a_host_that_no_connection_reaches_gets_no_more_jobs(tmp_path: Path) -> None:
    engine = GnuParallel(EngineOptions(tmp_path, 1, connect="ssh:a,b"))
    engine._logins = [logins.Login("a", 1), logins.Login("b", 1)]
    record = tmp_path / "joblog.tsv"
    engine._ended = joblog.Ended(record)
    ended = {1: ("a", 255), 2: ("b", 255), 3: ("b", 0), 4: ("a", 255)}
    lines = [f"{n}\t{host}\t1.0\t1.0\t0\t0\t{status}\t0\tsh" for n, (host, status) in ended.items()]
    record.write_text("\n".join([*lines, ""]))
    assert engine.how_it_ended("r1.0.b3") == "was lost with the connection to a"
    assert engine.how_it_ended("r1.0.b2") == ""
    engine._leave_lost_hosts()
    assert engine._logins == [logins.Login("b", 1)]
    engine._ended = joblog.Ended(record)
    record.write_text("\n".join([*lines[:2], ""]))
    with pytest.raises(RunStopped, match="no host of ssh:a,b answers any more"):
        engine._leave_lost_hosts()


def test_a_host_that_falls_silent_stops_the_run(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one without power, which closes no connection; not every batch waits for it."""
    required(sshd.missing())
    quickly = ("ConnectTimeout=1", "ServerAliveInterval=1", "ServerAliveCountMax=1")
    monkeypatch.setattr(program, "NOTICING", quickly)
    monkeypatch.setattr(GnuParallel, "batches_per_slot", 16)
    with sshd.hosts(tmp_path / "ssh", ["silent"]) as there:
        for name, value in there.environment.items():
            monkeypatch.setenv(name, value)
        silence = At(1, there.fall_silent)
        slow = pipeline.map(functions.add, {"seconds": 0.1})
        with pytest.raises(RunStopped, match="no host of ssh:1/silent answers any more"):
            run(tmp_path, slow, connect="ssh:1/silent", progress=silence)
    (record,) = (tmp_path / "out" / ".hyperslab" / "run-0001").glob("joblog.*")
    ended = [job.status for job in joblog.read(record)]
    assert 2 <= ended.count(255) <= 3, "the one that was cut off, and the next"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a host that ssh reaches under several names; `unseen` in it is another one
    there.
    """
    required(sshd.missing() or dask.missing(worker_prefix=APART))
    folder = tmp_path_factory.mktemp("host")
    (folder / "unseen").mkdir()
    prefix = another_host(OTHER, folder / "unseen")
    with (
        sshd.hosts(folder, ["one", "two"], prefix) as there,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in there.environment.items():
            patch.setenv(name, value)
        yield folder


@repeats("storage is looked at on every host: test_probed_hosts.py")
def test_tiers_differ_between_hosts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of this host is in memory there, and what is in it here is missing there."""
    monkeypatch.chdir(tmp_path)
    paths = [str(home / "unseen"), str(home / "unseen" / "only")]
    Path(paths[1]).mkdir()
    found = hyperslab.tiers(paths, engine=ENGINE, connect="ssh:1/one,1/two")
    assert [(tier.host, tier.path) for tier in found] == [
        (host, path) for path in paths for host in (socket.gethostname(), OTHER)
    ]
    assert [tier.exists for tier in found] == [True, True, True, False]
    assert (found[1].kind, found[1].file_system) == ("dram", "tmpfs")
    assert found[0].device == hyperslab.tiers(paths[0])[0].device
    assert list(tmp_path.iterdir()) == [], "nothing is left of the question"


CODE = """
import hyperslab, pathlib
from beside import factor

def scaled(block):
    import time
    time.sleep(0.05)
    return block * block.dtype.type(factor())
"""


def test_a_host_without_hyperslab_runs_code_that_it_does_not_see(
    tmp_path: Path, home: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lanes bear its name, and are on the driver's time axis."""
    bare = dask.python_without_hyperslab(tmp_path / "bare")
    monkeypatch.setattr(logins, "pythons", lambda: (bare, bare))
    (home / "unseen" / "mine.py").write_text(CODE)
    (home / "unseen" / "beside.py").write_text("def factor():\n    return 3\n")
    result = run(
        tmp_path,
        pipeline.map(f"{home}/unseen/mine.py:scaled"),
        connect="ssh:1/one,1/two",
        partition=None,
        blocks=(1, 1, 4),
    )
    assert np.array_equal(load(result.outputs[0]), load(tmp_path / "in.nii") * np.uint16(3))
    assert (result.folder / "hyperslab.zip").exists()
    assert result.trace.slots == [f"{OTHER}/w0/t0", f"{OTHER}/w1/t0"]
    assert {span.slot for span in result.trace.spans} <= set(result.trace.slots)
    assert {job.host for path in result.folder.glob("joblog.*") for job in joblog.read(path)} == {
        "one",
        "two",
    }
    meta = result.trace.meta
    clock = meta["clocks"][OTHER]
    assert clock["how"] == "measured"
    assert abs(clock["offset_ns"] + AHEAD_S * 10**9) < 10**9
    assert all(
        meta["ready_ns"] <= s.start_ns <= s.end_ns <= meta["end_ns"] for s in result.trace.spans
    )
    assert meta["own_times"]["worst_outside_ms"] < 1000


@repeats("code runs on other hosts: of a map, above; reductions are TestGnuParallel's")
def test_a_reduction_on_another_host(tmp_path: Path, home: Path, pipeline: Pipeline) -> None:
    total = Fold(lambda block: int(block.sum(dtype=np.int64)), lambda a, b: a + b)
    result = hyperslab.run(
        pipeline.reduce(total),
        engine=ENGINE,
        connect="ssh:1/one",
        out=tmp_path / "out",
        blocks=(1, 1, 2),
        report=False,
    )
    assert result.value == int(load(tmp_path / "in.nii").sum(dtype=np.int64))
    assert {span.slot for span in result.trace.spans} == {f"{OTHER}/w0/t0"}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (None, {"connecttimeout 30", "serveraliveinterval 15", "serveralivecountmax 4"}),
        ("ssh -oServerAliveInterval=7", {"serveraliveinterval 7", "serveralivecountmax 4"}),
    ],
)
def test_ssh_notices_a_silent_host_within_a_minute_or_as_the_user_says(
    monkeypatch: pytest.MonkeyPatch, command: str | None, options: set[str]
) -> None:
    required(sshd.missing())
    monkeypatch.delenv(program.SSH, raising=False)
    if command:
        monkeypatch.setenv(program.SSH, command)
    line = [*program.environment()[program.SSH].split(), "-F", "/dev/null", "-G", "node"]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert options <= set(said.splitlines())


def test_a_way_to_reach_hosts_that_no_shell_reads_is_a_sentence(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(program.SSH, "ssh 'x")
    with pytest.raises(UsageError, match=r"^PARALLEL_SSH=ssh 'x: No closing quotation; check"):
        run(tmp_path, pipeline)
    assert not (tmp_path / "out").exists()


def test_another_way_to_reach_hosts_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program.SSH, "/opt/bin/lsh -v")
    assert program.environment()[program.SSH] == "/opt/bin/lsh -v"


def test_a_folder_that_a_host_does_not_see_stops_the_run(home: Path, pipeline: Pipeline) -> None:
    said = f"the workers on {OTHER} cannot write to {home}/unseen/out/.*on a file system that"
    with pytest.raises(RunStopped, match=said):
        run(home / "unseen", pipeline, connect="ssh:one")


HOSTS = {
    "keyless": r"on keyless \(.*Permission denied.*\): 'ssh keyless true' has to work without",
    "stranger": r"on stranger \(.*Host key verification failed.*\): 'ssh stranger true' has to",
    "no.such.host.invalid": r"on no.such.host.invalid \(.*Could not resolve hostname.*\): 'ssh no",
}
"What is said of hosts that cannot be reached."


@pytest.mark.parametrize("host", few(["keyless"], HOSTS, "why a host lets nobody in is said"))
def test_a_host_that_lets_nobody_in_is_a_sentence(
    tmp_path: Path, home: Path, pipeline: Pipeline, host: str
) -> None:
    said = f"^connect='ssh:one,{host}': no job can be started {HOSTS[host]}"
    with pytest.raises(UsageError, match=said):
        run(tmp_path, pipeline, connect=f"ssh:one,{host}")
    assert not (tmp_path / "out").exists()


def test_a_host_without_our_python_is_a_sentence(
    tmp_path: Path, home: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "pythons", lambda: ("/not/python", "python2.8"))
    said = "^connect='ssh:one': one has no Python of our version: install it there, as /not/python"
    with pytest.raises(UsageError, match=said):
        run(tmp_path, pipeline, connect="ssh:one")
    assert not (tmp_path / "out").exists()


def test_jobs_at_a_time_are_said_with_the_hosts(
    tmp_path: Path, home: Path, pipeline: Pipeline
) -> None:
    with pytest.raises(UsageError, match="the cluster at ssh:3/one sets workers"):
        run(tmp_path, pipeline, connect="ssh:3/one", workers=2)
    assert GnuParallel.capacity("ssh:3/one,1/two") == (4, 1)
    assert GnuParallel.capacity("ssh:one") == (len(os.sched_getaffinity(0)), 1)
