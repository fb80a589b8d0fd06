"""Shortage: processes that the kernel has killed for want of memory."""

from __future__ import annotations

from pathlib import Path

_COUNTERS = Path("/proc/vmstat")


def killed() -> int:
    """How many it has killed since this machine was started, of its own accord or by the limit of a
    control group (oom_kill of proc_vmstat(5)); 0 where it does not tell.
    """
    try:
        lines = _COUNTERS.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
