"""What a command has mounted in its folders is neither removed nor moved, and is no result."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperslab import CommandTask, Options, run_commands
from hyperslab.driver import manage
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from hyperslab.driver.result import Result
from hyperslab.storage.mounts import mounted_within
from tests.system.end_to_end.command import call

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts: run as root")

MOUNTS = 'mkdir -p "$1"; mount --bind "$0" "$1"; echo made > "$2/made"; exit "$3"'
"A script that mounts its user's data in a folder, and ends with a status."


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """The user's data; what is left mounted is unmounted at the end."""
    place = tmp_path / "precious"
    place.mkdir()
    (place / "file").write_text("kept")
    yield place
    for mounted in mounted_within(tmp_path):
        subprocess.run(["umount", mounted], check=True)


def words(precious: Path, place: str, status: int = 0) -> tuple[str, ...]:
    return ("sh", "-c", MOUNTS, str(precious), place, "{out}", str(status))


def run(argv: tuple[str, ...], out: Path, **more: Any) -> Result:
    options = Options(engine="serial", retries=0, report=False, **more)
    return run_commands([CommandTask("site", argv)], out, options, check=False)


@pytest.mark.parametrize("place", ["{work}/data", "{work}"])
@pytest.mark.parametrize("is_on_tier", [False, True])
def test_what_is_mounted_in_work_is_left(
    tmp_path: Path, precious: Path, place: str, is_on_tier: bool
) -> None:
    out, tier = tmp_path / "out", tmp_path / "tier"
    tier.mkdir()
    more = {"work_tier": tier} if is_on_tier else {}
    assert run(words(precious, place), out, **more).ok
    assert (precious / "file").read_text() == "kept"
    assert (out / "made").exists()
    [mounted] = mounted_within(tmp_path)
    assert mounted.is_relative_to(tier if is_on_tier else out)
    if not is_on_tier:
        with pytest.raises(OSError, match="unmount it first"):
            manage.clean(out)
        assert (precious / "file").read_text() == "kept"
    subprocess.run(["umount", mounted], check=True)
    manage.clean(out)
    assert not (out / ".hyperslab").exists()
    assert os.listdir(tier) == [], "who cleans removes what a tier holds"


def test_what_is_mounted_in_out_is_no_result(tmp_path: Path, precious: Path) -> None:
    result = run(words(precious, "{out}/data"), tmp_path / "out")
    [failure] = result.failures
    assert "left something mounted in {out}, at data" in failure.message
    assert (precious / "file").read_text() == "kept"


def test_what_has_failed_is_not_moved_with_a_mount(tmp_path: Path, precious: Path) -> None:
    """Where it is copied, what it was copied from is removed."""
    kept = tmp_path / "kept"
    out = tmp_path / "out"
    assert not run(words(precious, "{work}/data", 3), out, keep_failed=kept).ok
    [log] = logged(RunDirectory(out))
    assert b"cannot be moved" in log.printed()
    assert b"unmount it first" in log.printed()
    assert (precious / "file").read_text() == "kept"


def test_a_run_tells_what_stays(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "in.txt").touch()
    script = f"sh -c 'mount --bind {precious} {{work}}; cp {{input}} {{out}}/x'"
    out = tmp_path / "out"
    done = call("run", "--command", script, tmp_path / "in.txt", "-o", out, "--engine", "serial")
    assert done.code == 0, done.err
    [mounted] = mounted_within(tmp_path)
    assert f"something is mounted at {mounted}, and stays: unmount it" in done.err
