"""Host: what this process may use of the machine it runs on, whoever set the limit."""

from __future__ import annotations

import os
import platform
import resource
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
WORKER_BASE_BYTES = 192 * 2**20
"Memory of one worker process in addition to its tasks': interpreter, NumPy, format libraries."
MEMORY_SHARE = 0.8
"Share of the available memory that a run takes when it is not told how much."


@dataclass(frozen=True, slots=True)
class Host:
    """Processors and memory at our disposal, and what set the limit."""

    name: str
    cpus: int
    cpus_from: str
    "affinity, cgroup or slurm."
    memory_bytes: int
    memory_from: str
    "available memory, cgroup or slurm."

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ, cgroups: Path = CGROUP_ROOT) -> Host:
        """Look at affinity, cgroup v1 or v2 quotas and the Slurm allocation; the smallest
        counts.
        """
        cpus, cpus_from = min(_cpu_limits(environ, cgroups))
        memory, memory_from = min(_memory_limits(environ, cgroups))
        return cls(socket.gethostname(), cpus, cpus_from, memory, memory_from)


def describe() -> dict[str, str]:
    """Processor, kernel and Python of this host, for the provenance of a run."""
    return {
        "host": socket.gethostname(),
        "system": _system(),
        "python": platform.python_version(),
        "processor": _processor(),
    }


def boot_id() -> str:
    """What tells one start of this machine's system from another (random(4)); '' where the kernel
    does not say.
    """
    return next(iter(words_of(Path("/proc/sys/kernel/random/boot_id"))), "")


def numbering() -> int:
    """The namespace in which this process sees the numbers of others."""
    return os.stat("/proc/self/ns/pid").st_ino


def peak_rss_bytes() -> int:
    """Peak resident memory of this process so far; unlike ru_maxrss it does not begin with the
    parent's (proc(5)).
    """
    for line in lines_of(Path("/proc/self/status")):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu_limits(environ: Mapping[str, str], cgroups: Path) -> list[tuple[int, str]]:
    limits = [(len(os.sched_getaffinity(0)), "affinity")]
    limits += [(max(1, round(quota)), "cgroup") for quota in _cgroup_cpus(cgroups)]
    per_task = environ.get("SLURM_CPUS_PER_TASK") or environ.get("SLURM_CPUS_ON_NODE", "")
    if per_task.isdigit() and int(per_task) > 0:
        limits.append((int(per_task), "slurm"))
    return limits


def _cgroup_cpus(cgroups: Path) -> list[float]:
    quotas = []
    for folder in cgroup_folders(cgroups, "cpu"):
        whole = words_of(folder / "cpu.max")
        v1 = words_of(folder / "cpu.cfs_quota_us") + words_of(folder / "cpu.cfs_period_us")
        quota = next(
            (w for w in (whole, v1) if len(w) == 2 and w[0].isdigit() and w[1].isdigit()), None
        )
        if quota is not None and int(quota[1]):
            quotas.append(int(quota[0]) / int(quota[1]))
    return quotas


def _memory_limits(environ: Mapping[str, str], cgroups: Path) -> list[tuple[int, str]]:
    limits = [(_available_bytes(), "available memory")]
    for folder in cgroup_folders(cgroups, "memory"):
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            bound = words_of(folder / limit)
            taken = words_of(folder / used)
            if bound and bound[0].isdigit() and taken and taken[0].isdigit():
                limits.append((max(0, int(bound[0]) - int(taken[0])), "cgroup"))
    per_node = environ.get("SLURM_MEM_PER_NODE", "")
    per_cpu = environ.get("SLURM_MEM_PER_CPU", "")
    if per_node.isdigit() and int(per_node) > 0:
        limits.append((int(per_node) * 2**20, "slurm"))
    elif per_cpu.isdigit() and int(per_cpu) > 0:
        limits.append((int(per_cpu) * 2**20 * min(_cpu_limits(environ, cgroups))[0], "slurm"))
    return limits


def cgroup_folders(
    cgroups: Path, controller: str, listed: Path = Path("/proc/self/cgroup")
) -> list[Path]:
    """The folders of this process's group and of all its parents, for version 2 and version 1
    alike.
    """
    folders = [cgroups, cgroups / controller]
    for line in lines_of(listed):
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            root = cgroups
            if number != "0":
                root = cgroups / controllers
            steps = Path(path.lstrip("/")).parts
            folders += [root.joinpath(*steps[:n]) for n in range(len(steps) + 1)]
    return folders


def _available_bytes() -> int:
    for line in lines_of(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _system() -> str:
    """Kernel and C library in the words of `platform.platform`, which starts a program for them."""
    here = os.uname()
    library = "".join(platform.libc_ver())
    return f"{here.sysname}-{here.release}-{here.machine}-with-{library}"


def _processor() -> str:
    names = (
        line.partition(":")[2].strip()
        for line in lines_of(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    )
    return next(names, "") or platform.processor() or "unknown"  # the second starts a program


def words_of(path: Path) -> list[str]:
    """The words of a kernel file; none where this kernel does not have it."""
    return [word for line in lines_of(path) for word in line.split()]


def lines_of(path: Path) -> list[str]:
    """The lines of a kernel file; none where this kernel does not have it."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
