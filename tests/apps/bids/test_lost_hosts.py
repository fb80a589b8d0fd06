"""Hosts that go away while participants are worked on there: nobody loses a result, or gets half of
one.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.test_running import files_of
from tests.repetitions import repeats
from tests.system.clusters import slurm, sshd
from tests.system.clusters.another_host import APART
from tests.system.clusters.processes import Household, signal_all
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call
from tests.system.faults.command import await_that, running

HERE = socket.gethostname()
ELSEWHERE = "elsewhere"
GATHER = "sh -c 'cat {results}/sub-*/anat/* > {out}/all.txt'"
MADE = ["all.txt", "dataset_description.json"]
MADE += [f"sub-{label}/anat/sub-{label}_copy.nii.gz" for label in ("1", "10")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path / "data", t1w("1"), t1w("10"), content=b"head\n")


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Folder in which each attempt says that it has begun, and where; it goes on with a file `go`
    there.
    """
    folder = tmp_path / "begun"
    folder.mkdir()
    return folder


def levels(home: Path, out: Path, begun: Path, *more: object) -> tuple[object, ...]:
    """Both levels of an app that leaves half a file until it goes on."""
    app = (
        "sh -c 'head -c 2 {t1w} > {out}/{prefix}_copy.nii.gz;"
        f" echo > {begun}/{{participant}}.$(uname -n);"
        f" until test -e {begun}/go; do sleep 0.05; done;"
        " cp {t1w} {out}/{prefix}_copy.nii.gz'"
    )
    words = ("--app", app, "--group-app", GATHER, "--no-report")
    return ("bids", home, out, "both", *words, *more)


def hosts_of(begun: Path) -> set[str]:
    """Hosts on which something has begun."""
    return {path.suffix.removeprefix(".") for path in begun.glob("*.*")}


def lose(node: Household) -> None:
    """Kill all that is on the node that was started last, as where its power is cut."""
    member = node.members.pop()
    root = psutil.Process(member.pid)
    signal_all([*root.children(recursive=True), root], signal.SIGKILL)
    member.wait()


@repeats("tasks of a node that fails are done again: engines/test_slurm.py")
def test_a_node_of_slurm_that_is_lost(home: Path, begun: Path, tmp_path: Path) -> None:
    """What was at work there is done by the other one, and the group level waits for it."""
    required(slurm.missing())
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode:
        required("no host names and clocks can be made apart here (unshare, as root)")
    out = tmp_path / "out"
    engine = ("--engine", "slurm", "--workers", 2)
    jobs = ("--slurm-option", "mem=512M", "--slurm-option", "exclusive")
    with (
        slurm.in_reach(tmp_path / "slurm", elsewhere=[ELSEWHERE]) as cluster,
        running(*levels(home, out, begun, *engine, *jobs)) as run,
    ):
        both = {HERE, ELSEWHERE}
        await_that("a task on each node", lambda: hosts_of(begun) == both or run.has_ended)
        assert not run.has_ended, run.wait()
        lose(cluster.household)
        cluster.command("scontrol", "update", f"nodename={ELSEWHERE}", "state=down", "reason=test")
        (begun / "go").touch()
        code, said = run.wait()
    assert code == 0, said
    assert len(list(begun.glob("*.*"))) == 3, "one was begun twice"
    assert files_of(out) == MADE
    assert (out / "all.txt").read_text() == "head\nhead\n"
    assert " outputs unchanged" in call("verify", out).out


def test_a_host_of_gnu_parallel_that_is_lost(home: Path, begun: Path, tmp_path: Path) -> None:
    """The run stops, says so, and leaves nothing half-made; another call does what is missing."""
    required(sshd.missing())
    if shutil.which("parallel") is None:
        required("there is no GNU Parallel here: install the Debian package parallel")
    out = tmp_path / "out"
    engine = ("--engine", "gnu-parallel", "--connect", "ssh:2/node")
    with sshd.hosts(tmp_path / "ssh", ["node"]) as there:
        environment = {**there.environment, "PARALLEL_HOME": str(tmp_path / "parallel")}
        line = levels(home, out, begun, *engine)
        with running(*line, environment=environment) as run:
            await_that("two tasks", lambda: len(list(begun.glob("*.*"))) == 2 or run.has_ended)
            assert not run.has_ended, run.wait()
            there.vanish()
            code, said = run.wait()
    assert (code, "no host of ssh:2/node answers any more" in said) == (1, True), said
    assert [name for name in files_of(out) if name in MADE[2:]] == []
    (begun / "go").touch()
    again = call(*levels(home, out, begun, "--engine", "threads", "--resume"))
    assert again.code == 0, again
    assert files_of(out) == MADE
    assert (out / "all.txt").read_text() == "head\nhead\n"
