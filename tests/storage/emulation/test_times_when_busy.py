"""What others do with the processors makes no emulated tier another one: these processors are busy
on purpose, so that nobody else may be measured meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.storage.emulation.paced import COST_S, MB, WITHIN, cost_s, tier, values


def may_go_first() -> bool:
    """Whether a program of this user may have a processor before all others."""
    code = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    return (
        subprocess.run(
            [sys.executable, "-S", "-c", code], stderr=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


@contextmanager
def busy_processors() -> Iterator[None]:
    """Have two processes for every processor run on all of them."""
    command = [sys.executable, "-S", "-c", "while True: pass"]
    count = 2 * len(os.sched_getaffinity(0))
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


@pytest.mark.skipif(not may_go_first(), reason="run as root, with the capability CAP_SYS_NICE")
def test_busy_processors_do_not_make_a_tier_another_one(in_memory: Path) -> None:
    asked = {"bandwidth": 20 * MB, "metadata_s": COST_S}
    with tier(in_memory, **asked) as emulation, busy_processors():
        found = values(emulation)
        assert found["read"] == WITHIN(20 * MB, rel=0.1)
        assert found["write"] == WITHIN(20 * MB, rel=0.1)
        for clients in (1, 4):
            assert cost_s(emulation, clients) == WITHIN(COST_S, rel=0.1)
