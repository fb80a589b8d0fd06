"""Podman of a user without root: both levels, and limits that no container would be held to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.nobody import NOBODY, as_nobody
from tests.apps.bids.containers.podman import IMAGE, Podman, missing, prepare
from tests.apps.bids.datasets import make, t1w
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call

HYPERSLAB = (sys.executable, "-c", "from hyperslab.cli import main; main()")
AFRESH = ("sh", "-c", 'podman system migrate && exec "$@"', "sh")
"""Words before a command that end what keeps Podman's view of mounts: each command of nobody has
one of its own here.
"""
VERSION_2 = Path("/sys/fs/cgroup/cgroup.controllers")
"File of control groups of version 2."


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that nobody owns and reaches."""
    folder = Path("/tmp") / f"hyperslab-rootless-{os.getpid()}"
    for each in (folder, folder / "runtime"):
        each.mkdir(mode=0o700)
        os.chown(each, NOBODY, NOBODY)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "runtime"))
    yield folder
    shutil.rmtree(folder)


def start(words: Sequence[str], place: Path) -> subprocess.Popen[str]:
    """Start a command of nobody who is at home here: Podman keeps there what no setting names, and
    other tests of nobody have another place.
    """
    return as_nobody(words, home=place)


@pytest.fixture
def podman(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Podman]:
    required(missing())
    made = prepare(place, lambda words: start(words, place))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made("system", "reset", "--force")


def bids(place: Path, out: Path, *more: object) -> tuple[int, str]:
    """What the command of nobody ends with, and what it says."""
    words = ("bids", place / "data", out, "both", "--container", IMAGE, "--no-report", *more)
    process = start([*AFRESH, *HYPERSLAB, *map(str, words)], place)
    said, errors = process.communicate()
    return process.returncode, said + errors


def test_a_user_without_root(podman: Podman, place: Path) -> None:
    """Nothing of Podman's is where another one may reset it."""
    kept = podman("info", "--format", "{{.Store.GraphRoot}} {{.Store.RunRoot}}").split()
    assert kept == [str(place / "graph"), str(place / "runtime" / "containers")]
    make(place / "data", *map(t1w, "12"), content=b"head\n")
    out = place / "out"
    scratch = ("--scratch", f"image:{place}", "--stage-in", "scratch", "--stage-out", "scratch")
    status, said = bids(place, out, "--engine", "processes", "--workers", 2, *scratch)
    assert status == 0, said
    assert "warning" not in said
    ran = call("logs", out, "sub-1").out
    mounted = re.findall(rf"--volume={place}/runtime/hyperslab-scratch/[^ :]+:([^ :]+)", ran)
    assert set(mounted) == {"/out", "/work", "/data/sub-1"}
    assert not list(place.glob(".hyperslab-scratch-*"))
    assert (out / "group.tsv").read_text() == "head\n" * 2
    assert (out / "sub-2" / "head.txt").stat().st_uid == NOBODY
    assert podman.containers() == []
    if not VERSION_2.exists():
        status, said = bids(place, place / "other", "--container-memory", "1GB")
        assert status == 2
        assert "podman holds no container to them on this machine" in said
