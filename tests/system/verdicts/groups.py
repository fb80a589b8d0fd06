"""Control groups of a test's own, which limit the processes that are put into them."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.system.faults.command import await_that

ROOT = Path("/sys/fs/cgroup")


def unavailable(reason: str, is_expected: bool) -> NoReturn:
    """Skip with a reason; where continuous integration should have been able to, fail with it."""
    if is_expected and os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def group(
    controller: str, version_1: Mapping[str, str], version_2: Mapping[str, str]
) -> Iterator[Path]:
    """Make a group with the settings of the version that is mounted here; it ends with the block,
    empty by then.
    """
    found = _parent(controller)
    if os.geteuid() != 0 or found is None:
        reason = (
            f"no control group can limit {controller} here; run the tests as root, with cgroup v1"
            " or v2 mounted"
        )
        unavailable(reason, is_expected=os.geteuid() == 0 and (ROOT / controller).is_dir())
    parent, settings = found[0], version_2 if found[1] else version_1
    made = parent / f"hyperslab-test-{secrets.token_hex(4)}"
    made.mkdir()
    try:
        for name, value in settings.items():
            (made / name).write_text(value)
        yield made
    finally:
        await_that(
            "the end of all processes of a group", lambda: not (made / "cgroup.procs").read_text()
        )
        _remove(made)


def inside(made: Path) -> tuple[str, ...]:
    """What to put before a command so that it runs in a group."""
    return ("sh", "-c", f'echo $$ > "{made}/cgroup.procs" && exec "$@"', "sh")


def _remove(made: Path) -> None:
    """A group whose last process has just ended may still be busy for a moment."""
    for _ in range(100):
        try:
            made.rmdir()
            return
        except OSError:
            time.sleep(0.05)
    made.rmdir()


def _parent(controller: str) -> tuple[Path, bool] | None:
    """Where to make a group, and whether groups are of version 2 there."""
    if (ROOT / controller / "cgroup.procs").is_file():
        return ROOT / controller, False
    enabled = ROOT / "cgroup.subtree_control"
    name = {"blkio": "io"}.get(controller, controller)
    return (ROOT, True) if enabled.is_file() and name in enabled.read_text().split() else None
