"""Reads and writes as the kernel adds them up for a command and what it leaves behind."""

from __future__ import annotations

import os
import sys

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.accounting import moved
from hyperslab.storage.accounting.choosing import WAYS, choose

PROGRAM = """
import os
if os.fork() == 0:
    if os.fork() == 0:  # whose parent ends before it
        import time
        time.sleep(0.2)
        null = os.open("/dev/null", os.O_WRONLY)
        for _ in range(100):
            os.write(null, bytes(1000))
    os._exit(0)
os.wait()
zero = os.open("/dev/zero", os.O_RDONLY)
for _ in range(50):
    os.read(zero, 20000)
raise SystemExit(4)
"""


def test_all_processes_count_those_too_that_nobody_waits_for() -> None:
    plain = [sys.executable, "-I", "-S", "-c"]
    status, totals = moved.count([*plain, PROGRAM], os.environ)
    _, start = moved.count([*plain, "import os, time"], os.environ)
    assert status == 4
    read, write = (totals.operations[name] for name in ("read", "write"))
    assert write.requested == 100
    assert write.nbytes == 100 * 1000
    assert read.requested - start.operations["read"].requested == pytest.approx(50, abs=5)
    assert read.nbytes - start.operations["read"].nbytes == pytest.approx(10**6, abs=10**5)


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no-such-program: there is no such program"):
        moved.count(["no-such-program"], os.environ)


def test_the_way_that_is_asked_for_is_taken() -> None:
    assert choose("proc", None).way == "proc"
    with pytest.raises(UsageError, match=r"--way guess: give one of bpf, fuse, strace, proc"):
        choose("guess", None)
    best = choose(None, None)
    better = list(WAYS)[: list(WAYS).index(best.way)]
    assert list(best.passed_over) == better
    assert best.way in ("bpf", "strace") or "strace" in best.passed_over
