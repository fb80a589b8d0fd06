"""Groups count what nobody waits for, and go, also those of a process that was killed."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hyperslab.machine.group import PREFIX, Group, own_group
from tests.system.verdicts.groups import unavailable

BURNT_S = 0.3
DISOWNED = f"""
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as the daemon of PySpark's workers
if os.fork() == 0:
    while time.process_time() < {BURNT_S}:
        pass
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass
"""


def require(group: Group | None) -> Group:
    if group is None:
        unavailable("no control group can be made here; run the tests as root", is_expected=True)
    return group


def waited_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_the_time_of_processes_that_nobody_waits_for_is_counted() -> None:
    with own_group() as made:
        group = require(made)
        began_s = waited_s()
        words = [sys.executable, "-I", "-S", "-c", f"input(){DISOWNED}"]  # which starts soon
        with subprocess.Popen(words, stdin=-1) as process:
            group.add(process.pid)
            process.communicate(b"\n")
        assert process.returncode == 0
        unwaited_s = group.cpu_s() - (waited_s() - began_s)
    assert unwaited_s == pytest.approx(BURNT_S, rel=0.3)
    assert not group.folder.exists()


def test_a_group_that_was_left_goes_with_the_next_one() -> None:
    with own_group() as made:
        parent = require(made).folder.parent
        left = parent / f"{PREFIX}left"
        left.mkdir()
        with own_group():
            assert not left.exists()


def test_where_no_group_can_be_made_there_is_none(tmp_path: Path) -> None:
    with own_group(tmp_path) as group:
        assert group is None
