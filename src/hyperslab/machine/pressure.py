"""Pressure: what else the machine was doing while a run went on, from the kernel's own counters.

`sample` reads the counters, `between` turns two samples into shares and counts. Both are plain JSON
values; what a kernel, a container or a permission hides is None, never 0. They describe this host
only: where an engine has its workers on other hosts, they tell of the driver's.
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperslab.machine.host import cgroup_folders, lines_of, words_of

PROC = Path("/proc")
CGROUP_ROOT = Path("/sys/fs/cgroup")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_NBYTES = os.sysconf("SC_PAGE_SIZE")
UNLIMITED_NBYTES = 2**60
"Version 1 groups say no limit with the largest multiple of a page that 63 bits hold."


def sample(
    proc: Path = PROC, cgroups: Path = CGROUP_ROOT, *, unwaited_s: float = 0.0
) -> dict[str, Any]:
    """The counters of this moment; costs a few milliseconds. `unwaited_s` is processor time of
    descendants that have ended and nobody has waited for, since the sample before.
    """
    load = words_of(proc / "loadavg")
    return {
        "host": socket.gethostname(),
        "at_s": time.monotonic(),
        "load_average": float(load[0]) if load else None,
        "cpu": _processors(proc),
        "own_s": _own_s(proc, unwaited_s),
        "stalled": {
            f"{kind}_{word}": s
            for kind in ("cpu", "io", "memory")
            for word, s in _stalled_s(proc, kind)
        },
        "memory": _virtual_memory(proc),
        "group": _group(cgroups),
    }


def between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What happened from one sample to the next.

    `seconds`, `cpus`, `load_average` (at the end); `busy_share`, `own_share`, `others_share`,
    `stolen_share` of all processors' time (own: this process and its descendants; stolen: given by
    a hypervisor to somebody else); `stalled_shares` of the time, by cpu_some, io_some, io_full,
    memory_some, ... (Linux Documentation/accounting/psi); `major_faults`, `refaults`,
    `allocation_stalls`, `oom_kills`, `swapped_in_nbytes`, `swapped_out_nbytes` of the whole
    machine; `group`: of this process's control group, limit_nbytes, high, max, oom, oom_kill and
    throttled_share.
    """
    seconds = after["at_s"] - before["at_s"]
    memory = _differences(before["memory"], after["memory"])
    return {
        "host": after["host"],
        "seconds": seconds,
        "load_average": after["load_average"],
        **_shares(before, after),
        "stalled_shares": {
            name: _share(stalled, seconds)
            for name, stalled in _differences(before["stalled"], after["stalled"]).items()
        },
        **{
            name: memory.get(name)
            for name in ("major_faults", "refaults", "allocation_stalls", "oom_kills")
        },
        **{f"swapped_{way}_nbytes": _pages(memory.get(f"swapped_{way}")) for way in ("in", "out")},
        "group": _group_between(before["group"], after["group"], seconds),
    }


def _shares(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What became of the processors' time."""
    cpus = after["cpu"].get("cpus")
    times = _differences(before["cpu"], after["cpu"])
    total = sum(times.get(name, 0.0) for name in ("busy", "idle", "stolen"))
    if not times or total <= 0:
        return {
            "cpus": cpus,
            "busy_share": None,
            "own_share": None,
            "others_share": None,
            "stolen_share": None,
        }
    busy = times["busy"] / total
    own = None
    if before["own_s"] is not None and after["own_s"] is not None:
        # Ticks are coarse, and descendants that nobody waited for may be missing: own is at least
        # this.
        own = min(busy, max(0.0, after["own_s"] - before["own_s"]) / total)
    others = None
    if own is not None:
        others = busy - own
    stolen = times["stolen"] / total
    return {
        "cpus": cpus,
        "busy_share": busy,
        "own_share": own,
        "others_share": others,
        "stolen_share": stolen,
    }


def _group_between(
    before: Mapping[str, Any], after: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    counts = _differences(before, after)
    limit = after.get("limit_nbytes")
    throttled = counts.get("throttled_s")
    share = None
    if throttled is not None:
        share = _share(throttled, seconds)
    events = {name: counts.get(name) for name in ("high", "max", "oom", "oom_kill")}
    return {"limit_nbytes": limit, **events, "throttled_share": share}


def _share(part_s: float, seconds: float) -> float:
    """A part of some seconds, from 0 to 1; 0 where there were none."""
    if seconds > 0:
        return min(1.0, part_s / seconds)
    return 0.0


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Growth of each counter that both know; a counter that was reset has not grown."""
    return {name: max(0, value - before[name]) for name, value in after.items() if name in before}


def _pages(count: int | None) -> int | None:
    if count is None:
        return None
    return count * PAGE_NBYTES


def _processors(proc: Path) -> dict[str, float]:
    """Seconds of all processors together: user nice system idle iowait irq softirq steal
    (proc_stat(5)).
    """
    lines = [line.split() for line in lines_of(proc / "stat") if line.startswith("cpu")]
    if not lines or len(lines[0]) < 9:
        return {}
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(word) / TICKS_PER_S for word in lines[0][1:9]
    )
    busy = user + nice + system + irq + softirq
    return {"cpus": len(lines) - 1, "busy": busy, "idle": idle + iowait, "stolen": steal}


def _own_s(proc: Path, unwaited_s: float) -> float | None:
    """CPU seconds of this process, its live descendants, and all that they have waited for, with
    what is known of others.
    """
    ticks = _ticks_of_descendants(proc)
    if ticks is None:
        return None
    usage = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return unwaited_s + sum(u.ru_utime + u.ru_stime for u in usage) + ticks / TICKS_PER_S


def _ticks_of_descendants(proc: Path) -> int | None:
    """Ticks spent by those that live, and by what they have waited for; None where no process can
    be seen. To look at every process of a machine takes longer than all else of a sample.
    """
    own = proc / str(os.getpid())
    if not (own / "task" / own.name / "children").exists():
        return _ticks_by_parents(proc)
    total = 0
    waiting = _children(own)
    while waiting:
        folder = proc / waiting.pop()
        seen = _parent_and_ticks(folder)
        if seen is not None:
            total += seen[1]
            waiting += _children(folder)
    return total


def _children(folder: Path) -> list[str]:
    """Numbers of the children of a process, as the kernel lists them for each thread (proc(5));
    none if it has just ended.
    """
    lists = (folder / "task").glob("*/children")
    with suppress(OSError):
        return [number for path in lists for number in words_of(path)]
    return []


def _ticks_by_parents(proc: Path) -> int | None:
    """The same where the kernel lists no children: by the parents of all processes."""
    parents: dict[str, list[str]] = {}
    ticks: dict[str, int] = {}
    for folder in proc.glob("[0-9]*"):
        seen = _parent_and_ticks(folder)
        if seen is not None:
            parents.setdefault(seen[0], []).append(folder.name)
            ticks[folder.name] = seen[1]
    if not ticks:
        return None
    total = 0
    waiting = list(parents.get(str(os.getpid()), ()))
    while waiting:
        number = waiting.pop()
        total += ticks[number]
        waiting += parents.get(number, ())
    return total


def _parent_and_ticks(folder: Path) -> tuple[str, int] | None:
    """The parent's number, and the ticks spent by a process and by what it has waited for; None if
    it has just ended.
    """
    lines = lines_of(folder / "stat")
    if not lines:
        return None
    # The name, in parentheses, may hold anything. utime stime cutime cstime: 14 to 17 in
    # proc_pid_stat(5).
    fields = lines[0].rpartition(")")[2].split()
    return fields[1], sum(int(word) for word in fields[11:15])


def _stalled_s(proc: Path, kind: str) -> Iterator[tuple[str, float]]:
    """(some or full, seconds in which some or all tasks waited for this resource) since the machine
    started.
    """
    for line in lines_of(proc / "pressure" / kind):
        word, *values = line.split()
        total = next((value for value in values if value.startswith("total=")), None)
        if total is not None:
            yield word, int(total.partition("=")[2]) / 1e6


def _virtual_memory(proc: Path) -> dict[str, int]:
    counters = dict(line.split() for line in lines_of(proc / "vmstat") if line.count(" ") == 1)
    named = {
        "major_faults": ("pgmajfault",),
        "swapped_in": ("pswpin",),
        "swapped_out": ("pswpout",),
        "oom_kills": ("oom_kill",),
        "refaults": ("workingset_refault_anon", "workingset_refault_file"),
        "allocation_stalls": tuple(name for name in counters if name.startswith("allocstall")),
    }
    found = {
        name: [int(counters[k]) for k in keys if k in counters] for name, keys in named.items()
    }
    return {name: sum(values) for name, values in found.items() if values}


def _group(cgroups: Path) -> dict[str, Any]:
    """Limits and events of this process's control group, version 2 or 1; the innermost that has
    them.
    """
    memory = cgroup_folders(cgroups, "memory")[::-1]
    cpu = cgroup_folders(cgroups, "cpu")[::-1]
    found: dict[str, Any] = {}
    for folder in memory:
        for words in _pairs(folder / "memory.events"):
            found.setdefault(words[0], words[1])
        for words in _pairs(folder / "memory.oom_control"):
            if words[0] == "oom_kill":
                found.setdefault("oom_kill", words[1])
        for name, counter in (("max", "memory.failcnt"), ("limit_nbytes", "memory.max")):
            _note(found, name, words_of(folder / counter))
        _note(found, "limit_nbytes", words_of(folder / "memory.limit_in_bytes"))
    for folder in cpu:  # a quota of any group above holds this one back, too
        for name, count in _pairs(folder / "cpu.stat"):
            if name in ("throttled_usec", "throttled_time"):
                seconds = count / (1e6 if name == "throttled_usec" else 1e9)
                found["throttled_s"] = max(seconds, found.get("throttled_s", 0.0))
    kept = ("limit_nbytes", "high", "max", "oom", "oom_kill", "throttled_s")
    return {name: found[name] for name in kept if name in found}


def _note(found: dict[str, Any], name: str, words: Sequence[str]) -> None:
    if words and words[0].isdigit() and int(words[0]) < UNLIMITED_NBYTES:
        found.setdefault(name, int(words[0]))


def _pairs(path: Path) -> Iterator[tuple[str, int]]:
    for line in lines_of(path):
        name, _, value = line.partition(" ")
        if value.isdigit():
            yield name, int(value)
