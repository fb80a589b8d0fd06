"""Group levels of apps in containers, by what participants have left, and what they leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hyperslab.apps.bids.containers.runtimes import RUNTIMES
from tests.apps.bids.containers.programs import install, words_of
from tests.apps.bids.containers.test_runtimes import NAME, bids, image_for, mounted
from tests.apps.bids.datasets import make
from tests.system.end_to_end.command import call


@pytest.mark.parametrize("runtime", ["docker", "apptainer"])
def test_an_app_that_nests_its_results(
    runtime: str, home: Path, programs: Path, tmp_path: Path
) -> None:
    """No name in OUT_DIR begins with that of a participant: what is recorded tells who is done."""
    make(home, "nesting")
    log = install(programs, runtime)
    out = tmp_path / "out"
    asked = ("--container", image_for(runtime, tmp_path), "--runtime", runtime)
    assert bids(home, out, "participant", *asked).code == 0
    group = bids(home, out, "group", *asked)
    assert group.code == 0, group
    mounts = mounted(words_of(log, "run")[-1], RUNTIMES[runtime].mount)
    assert mounts["/out/toy"] == f"{out}/toy:ro"
    assert (out / "group.txt").read_text() == "all"


@pytest.mark.parametrize("level", ["group", "both"])
def test_absolute_links_of_a_group_level(
    level: str, home: Path, programs: Path, tmp_path: Path
) -> None:
    """Those in /out are files of their own, and all others are left out, which its log tells."""
    make(home, "linking")
    install(programs, "docker")
    out = tmp_path / "out"
    asked = ("--container", NAME, "--runtime", "docker")
    if level == "group":
        assert bids(home, out, "participant", *asked).code == 0
    group = bids(home, out, level, *asked)
    assert group.code == 0, group
    assert (out / "again.txt").read_text() == "all"
    assert not any(os.path.lexists(out / name) for name in ("fsaverage", "shown.txt"))
    told = call("logs", out, "group").out
    assert "left out, links to what is not in /out: fsaverage, shown.txt" in told


def test_a_group_level_of_nobody(home: Path, programs: Path, tmp_path: Path) -> None:
    """Whom both levels have lost: no container begins."""
    log = install(programs, "docker")
    make(home, "nesting")
    out = tmp_path / "out"
    out.mkdir()
    program = programs / "docker"
    text = program.read_text()
    program.write_text(text.replace('if words[0] == "run":', 'if words[0] == "run":\n    exit(3)'))
    asked = ("--container", NAME, "--runtime", "docker", "--retries", 0)
    failed = bids(home, out, "both", *asked, "--allow-missing")
    assert failed.code == 1, failed
    assert f"{out} has no result of any participant" in failed.err
    assert words_of(log, "image")
