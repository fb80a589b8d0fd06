"""Slurm's commands: what they are asked, and what is made of their answers; no Slurm is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import hyperslab
from hyperslab.cli.doctor import doctor
from hyperslab.driver import manage
from hyperslab.driver.directory import save_status
from hyperslab.engines import EngineOptions, capacity, jobs_left
from hyperslab.engines.batches.launcher import Launched
from hyperslab.engines.facts import SLURM
from hyperslab.engines.jobs import JOBS, engine_of
from hyperslab.engines.slurm import commands, submitted
from hyperslab.engines.slurm.array import Array
from hyperslab.engines.slurm.commands import Job, Silent
from hyperslab.engines.slurm.engine import Slurm
from hyperslab.engines.slurm.submitted import Request, SubmittedJobs
from hyperslab.errors import DamagedRecord, RunStopped, UsageError, speaking_flags
from hyperslab.storage.recordfile import save_record
from hyperslab.testing import functions
from tests.system.end_to_end.command import call
from tests.system.faults.command import make_volume

SUBMITTED = SubmittedJobs("name", "round", 2, 2, arrays=(("7", 0, 2),))
SBATCH = """#!/bin/sh
env > {folder}/environment
cat > {folder}/script
echo "Welcome to the cluster, 42"
echo "{answer}"
"""


def test_sbatch_is_called_for_our_job_and_its_number_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the user's variables say of other jobs, a site's own sbatch beside it, and a path
    that is no text.
    """
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(SBATCH.format(folder=tmp_path, answer="7;there"))
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    ours = {"SLURM_JWT": "token", "SBATCH_CLUSTERS": "there", "SBATCH_QOS": "high"}
    of_others = dict.fromkeys(("SLURM_JOB_ID", "SBATCH_ARRAY_INX"), "1")
    of_others |= {"SBATCH_EXPORT": "NONE", "SBATCH_ERROR": "/tmp/x"}
    for name, value in {**ours, **of_others}.items():
        monkeypatch.setenv(name, value)
    assert commands.submit(os.fsdecode(b"sh x\xff"), []) == "7"
    assert (tmp_path / "script").read_bytes() == b"sh x\xff"
    lines = (tmp_path / "environment").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if "=" in line)
    assert given["SLURM_CLUSTERS"] == "there"
    assert (given["SLURM_JWT"], given["SBATCH_QOS"]) == ("token", "high")
    assert given.keys().isdisjoint({*of_others, "SBATCH_CLUSTERS"})
    sbatch.write_text(SBATCH.format(folder=tmp_path, answer="Usage: sbatch"))
    with pytest.raises(RunStopped, match="no number of a job, but 'Welcome to the cluster, 42'"):
        commands.submit("", [])


WITHOUT = (
    "there is no sbatch here, a command of Slurm, the batch system of clusters; without a cluster"
    " you need none; on a cluster, run it where jobs are submitted, such as on a login node, or"
    " install Slurm's commands (Debian package slurm-client) with your cluster's slurm.conf"
)
UNCONFIGURED = (
    "sbatch, a command of Slurm, the batch system of clusters, is installed here, but finds no"
    " slurm.conf that names a cluster; without a cluster you need none; on a cluster, run it where"
    " jobs are submitted, such as on a login node, or name your cluster's slurm.conf in the"
    " variable SLURM_CONF\n"
)
NO_SETTINGS = """#!/bin/sh
echo "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host
sbatch: error: fetch_config: DNS SRV lookup failed
sbatch: error: _establish_config_source: failed to fetch config
sbatch: fatal: Could not establish a configuration source" >&2
exit 1
"""
"What sbatch of Slurm 22.05 says where no slurm.conf is, and no name server knows of one."
NO_FILE = """#!/bin/sh
echo "sbatch: error: s_p_parse_file: cannot stat file /none: No such file or directory, retrying
sbatch: error: ClusterName needs to be specified
sbatch: fatal: Unable to process configuration file" >&2
exit 1
"""
"The same where SLURM_CONF names a file that is not there."
NO_CONTROLLER = """#!/bin/sh
[ $1 = --version ] && exit
echo "sbatch: error: Unable to contact slurm controller (connect failure)" >&2
exit 1
"""
SILENT = "Slurm would not take the jobs: Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize(
    ("sbatch", "said"),
    [
        ("", WITHOUT),
        (NO_SETTINGS, UNCONFIGURED),
        (NO_FILE, UNCONFIGURED),
        (NO_CONTROLLER, SILENT),
    ],
    ids=["no command", "no settings", "no file", "no controller"],
)
def test_doctor_says_what_slurm_lacks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    sbatch: str,
    said: str,
    start: bool,
) -> None:
    """No command at all, commands that know no cluster, and a controller that is out of reach."""
    if sbatch:
        script = tmp_path / "sbatch"
        script.write_text(sbatch)
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", {"slurm": SLURM})
    monkeypatch.chdir(tmp_path)
    with speaking_flags():
        assert doctor(start=start) == 0
    told = capsys.readouterr().out
    (line,) = (line for line in told.splitlines(keepends=True) if line.startswith("engine"))
    assert line.startswith(f"engine     slurm: not here: {said}")


def test_there_is_nothing_to_connect_to() -> None:
    """What Dask takes for its own jobs is not refused as somebody else's engine."""
    with pytest.raises(UsageError, match="its jobs to Slurm by itself: leave out --connect"):
        capacity("slurm", "slurm")


HIDDEN = """#!/bin/sh
case "$*" in *--all*) echo "7|RUNNING|None|node3|100|110|N/A";; esac
"""
"What squeue says of a job whose partition is hidden."


def test_jobs_of_a_hidden_partition_are_found_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text(HIDDEN)
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (found,) = commands.named(["hyperslab-1"], 1000)
    assert found.state == "RUNNING"


def test_a_record_without_the_name_of_its_engine_is_slurm_s(tmp_path: Path) -> None:
    """As those of earlier versions are; of a damaged one Slurm's engine says so."""
    save_record(tmp_path / JOBS, asdict(SUBMITTED))
    assert engine_of(tmp_path) == "slurm"
    assert submitted.load(tmp_path) == SUBMITTED
    submitted.save(tmp_path, SUBMITTED)
    assert submitted.load(tmp_path) == SUBMITTED
    (tmp_path / JOBS).write_bytes(b"")
    with pytest.raises(DamagedRecord, match="which jobs of Slurm belong to the run is not known"):
        jobs_left(tmp_path)


def test_jobs_that_are_not_shown_here_may_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the commands mean another cluster, or the user is another one."""
    submitted.save(tmp_path, replace(SUBMITTED, cluster="loopback", user=1000, is_detached=True))
    monkeypatch.setattr(commands, "named", lambda names, user: [])
    monkeypatch.setattr(commands, "cluster", lambda: "loopback")
    monkeypatch.setattr("os.getuid", lambda: 1000)
    left = Slurm.jobs_left(tmp_path)
    assert left is not None
    assert (left.are_there, left.told) == (False, "no job is left")

    def told() -> str:
        hidden = Slurm.jobs_left(tmp_path)
        assert hidden is not None
        assert hidden.are_there is None
        return hidden.told

    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(commands, "cluster", lambda: "far")
        assert told() == "they are on loopback, and Slurm's commands mean far here"
    monkeypatch.setattr("os.getuid", lambda: 1001)
    monkeypatch.setattr(
        commands, "_call", lambda line: "PrivateData = jobs,usage\nClusterName = loopback\n"
    )
    assert told() == "Slurm shows those of user 1000 to nobody else"


def test_who_cannot_ask_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor in silence: a run whose jobs may be gone is told from one that goes on."""
    make_volume(tmp_path / "in.nii")
    pipeline = hyperslab.Pipeline(str(tmp_path / "in.nii")).map(functions.add)
    run = hyperslab.run(pipeline.write(tmp_path / "out"), engine="serial", report=False)
    save_status(run.folder, "running", {"tasks": 4, "done": 3})
    submitted.save(run.folder, replace(SUBMITTED, is_detached=True))
    monkeypatch.setattr(manage, "UNKNOWN_LIMIT_S", 0.0)
    monkeypatch.setenv("PATH", str(tmp_path))
    waited = call("wait", tmp_path / "out")
    assert waited.code == 1
    assert "jobs: Slurm cannot be asked here: there is no squeue here" in waited.err
    assert "state      running, unless its jobs are gone" in waited.out
    assert "because    how it goes on cannot be known here, and it has recorded" in waited.out


def test_a_queue_of_several_clusters_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "CLUSTER: there\n7_1|RUNNING|None|node3|100|110|N/A\n"
    monkeypatch.setattr(commands, "_call", lambda line, **more: said)
    assert commands.jobs(["7"]) == [Job("7_1", "RUNNING", "None", "node3", 100.0, 110.0, None)]


SACCT = """#!/bin/sh
[ "$SLURM_TIME_FORMAT" = %s ] && echo "$@" > {folder}/asked
cat <<'END'
7_0|OUT_OF_MEMORY|None|node1|1700000000|1700000010|1700000070
7_1|CANCELLED by 1000|None|node[1-2]|1700000000|1700000010|1700000020
7_[2-3%2]|CANCELLED by 1000|Resources|None assigned|1700000000|1700000020|1700000020
8|PENDING|Dependency|None assigned|1700000000|Unknown|Unknown
END
"""
"""What `sacct --parsable2` says, by sacct(1) of Slurm 22.05 (JOB ACCOUNTING FIELDS, JOB STATE
CODES): an array's elements are 7_0, those that have not begun one line; a state names the user who
has cancelled the job; one that was cancelled before it began has the moment of that as its start.
"""


def test_what_the_accounting_says_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sacct = tmp_path / "sacct"
    sacct.write_text(SACCT.format(folder=tmp_path))
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    began = (1.7e9, 1.7e9 + 10)
    assert commands.accounted(["7", "8"]) == [
        Job("7_0", "OUT_OF_MEMORY", "None", "node1", *began, 1.7e9 + 70),
        Job("7_1", "CANCELLED", "None", "node[1-2]", *began, 1.7e9 + 20),
        Job("7_[2-3%2]", "CANCELLED", "Resources", "", 1.7e9, None, 1.7e9 + 20),
        Job("8", "PENDING", "Dependency", "", 1.7e9, None, None),
    ]
    asked = (tmp_path / "asked").read_text().split()
    assert {"--parsable2", "--noheader", "--allocations", "--jobs=7,8"} <= set(asked)
    watched = Array(tmp_path, replace(SUBMITTED, count=4, arrays=(("7", 0, 4),)))
    monkeypatch.setattr(commands, "jobs", lambda numbers: [])
    watched.ask()
    assert watched.how_it_ended(0).startswith("died (Slurm job 7_0 ran out of memory;")
    assert watched.how_it_ended(3) == "died (Slurm job 7_3 was cancelled)"
    with pytest.raises(RunStopped, match="somebody has cancelled 2 jobs of the run that waited"):
        watched.require_wanted()


def test_a_controller_that_is_silent_is_asked_again_and_heard_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken the first array without an answer, and not the second."""
    silence = Silent("timed out")
    answers: list[Silent | str] = [silence, silence, "12"]

    def submit(script: str, arguments: Sequence[str], without: Sequence[str]) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Silent):
            raise answer
        return answer

    monkeypatch.setattr(submitted, "SILENCE_PAUSE_S", 0)
    monkeypatch.setattr(commands, "cluster", lambda: "there")
    monkeypatch.setattr(commands, "largest_array", lambda: 2)
    monkeypatch.setattr(commands, "submit", submit)
    monkeypatch.setattr(commands, "named", lambda names, user: [Job("11_[0-1]", "PENDING")])
    request = Request([], lambda first: "")
    found = submitted.submit(tmp_path, replace(SUBMITTED, count=4, arrays=()), request)
    assert found.arrays == (("11", 0, 2), ("12", 2, 2))
    assert submitted.load(tmp_path) == found
    monkeypatch.setattr(submitted, "SILENCE_LIMIT_S", -1.0)
    answers.append(silence)
    with pytest.raises(RunStopped, match="Slurm does not answer: timed out; --resume continues"):
        submitted.submit(tmp_path, replace(SUBMITTED, arrays=()), request)
    assert answers == []


@pytest.mark.parametrize("is_detached", [False, True])
def test_who_leaves_tells_a_silent_slurm_once_that_jobs_are_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_detached: bool
) -> None:
    """Of all jobs, though it has not heard of the first; they stay on file for others."""
    said = tmp_path / "said"
    for name in ("scancel", "squeue", "sacct"):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >> {said}\nexec sleep 60\n')
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(submitted, "LEAVE_LIMIT_S", 0.5)
    given = replace(SUBMITTED, is_detached=is_detached)
    submitted.save(tmp_path, given)
    (tmp_path / "journal").mkdir()
    engine = Slurm(EngineOptions(tmp_path, 2))
    engine._array = Array(tmp_path, given)
    engine._work = Launched(engine._array)
    engine.cancel()
    engine.stop()
    names = ["name", "name-last"][: 1 + is_detached]
    assert said.read_text().splitlines() == [f"scancel --name={name}" for name in names]
    assert submitted.load(tmp_path) == given


def test_silence_is_told_from_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sbatch = tmp_path / "sbatch"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    failed = "sbatch: error: Batch job submission failed: "
    for words, kind in (
        ("Socket timed out on send/recv operation", Silent),
        ("Unable to contact slurm controller (connect failure)", Silent),
        ("Invalid account or account/partition combination specified", RunStopped),
    ):
        sbatch.write_text(f"#!/bin/sh\necho '{failed}{words}' >&2\nexit 1\n")
        sbatch.chmod(0o755)
        with pytest.raises(kind, match=words[:20]):
            commands.submit("", [])
