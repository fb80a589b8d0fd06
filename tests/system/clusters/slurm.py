"""Slurm on this one host: its daemons with settings, keys, sockets and ports of their own. Further
nodes are places with names and clocks of their own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.system.clusters.another_host import another_host
from tests.system.clusters.ports import free_ports
from tests.system.clusters.processes import MARK, ClusterFailed, Household, household

PACKAGES = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "srun": "slurm-client",
    "sinfo": "slurm-client",
}
"Debian's package of each command."
DAEMONS = "/usr/sbin"
"Debian keeps them where only root's login looks."
MOST_ELEMENTS = 1234
"Of an array."
UNSEEN = "unseen"
"Folder in a cluster's own, in whose place further nodes see an empty one of theirs."
URGENT = "urgent"
"Partition whose jobs take the place of others."
BY_KERNEL, BY_SLURM = "kernel", "slurm"
"Who ends jobs that take more memory than they have asked for."
MEMORY = {
    "": "TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none",
    BY_KERNEL: "TaskPlugin=task/cgroup\nJobAcctGatherType=jobacct_gather/none",
    BY_SLURM: (
        "TaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/linux\n"
        "JobAcctGatherFrequency=1\nJobAcctGatherParams=OverMemoryKill"
    ),
}
"Settings by who does so, '' for nobody."
GROUPS = Path("/sys/fs/cgroup/memory")
"Control groups of version 1."
GROUP_SETTINGS = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
"""
SETTINGS = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={munge},cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
{memory}
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
MpiDefault=none
ReturnToService=2
MaxArraySize={most}
KillWait=2
DefMemPerCPU=100
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName={urgent} Nodes=ALL PriorityTier=9 MaxTime=INFINITE State=UP
"""
NODE = """\
NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory={memory_mb} State=UNKNOWN
"""

INIT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
while (ended := os.wait())[0] != child:
    pass
sys.exit(os.waitstatus_to_exitcode(ended[1]))
"""
ADOPTING = (sys.executable, "-S", "-c", INIT)
"Starts a program and adopts its orphans, as the steps of jobs are: so they can be found."


@dataclass(frozen=True)
class Slurm:
    """A running Slurm; its commands reach it by the variable SLURM_CONF in `environment`."""

    environment: dict[str, str]
    "What the commands need. A job that is submitted with it does not outlive the cluster."
    household: Household

    def command(self, *line: str) -> str:
        """Run one of Slurm's commands to its end; returns what it printed."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            line, env=environment, capture_output=True, text=True, timeout=200, check=False
        )
        if done.returncode:
            raise ClusterFailed(f"{line}: {done.stderr}\n{self.household.last_words()}")
        return done.stdout

    def at_work(self) -> list[psutil.Process]:
        """Live processes of its jobs on this host."""
        return [process for process in self.household.left() if _is_of_a_job(process)]


def _is_of_a_job(process: psutil.Process) -> bool:
    try:
        return "SLURM_JOB_ID" in process.environ()
    except psutil.NoSuchProcess:
        return False


def missing() -> str:
    """Why no Slurm can be started here, with what to do about it; empty if it can."""
    path = _path()
    absent = sorted(
        {package for command, package in PACKAGES.items() if not shutil.which(command, path=path)}
    )
    if absent:
        return f"Slurm is not complete here: install the Debian packages {' '.join(absent)}"
    return "" if os.geteuid() == 0 else "Slurm's daemons need root"


def missing_groups() -> str:
    """Why the kernel cannot hold jobs to their memory here; empty if it can."""
    if not os.access(GROUPS, os.W_OK):
        return f"no control groups of version 1 can be made here, in {GROUPS}"
    return ""


@contextmanager
def slurm(folder: Path, memory: str = "", elsewhere: Sequence[str] = ()) -> Iterator[Slurm]:
    """Start Slurm with this host as its node, and wait until that is idle; all ends with the block.
    `memory` says who holds jobs to the memory that they have asked for, of MEMORY; `elsewhere`
    names further nodes, which see another folder where this host sees UNSEEN.
    """
    if reason := missing():
        raise ClusterFailed(reason)
    with ExitStack() as stack:
        # Its path has to be shorter than 108 characters.
        munge = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="munge-")), "socket")
        settings = folder / "slurm.conf"
        home = stack.enter_context(household(folder, PATH=_path(), SLURM_CONF=str(settings)))
        names = [socket.gethostname().split(".")[0], *elsewhere]
        settings.write_text(_settings(folder, munge, memory, names))
        (folder / "cgroup.conf").write_text(GROUP_SETTINGS)
        for name in ("state", UNSEEN, *(f"spool.{name}" for name in names)):
            (folder / name).mkdir()
        cluster = Slurm({"SLURM_CONF": str(settings), MARK: home.environment[MARK]}, home)
        _start_munge(home, munge)
        home.start("slurmctld", ["slurmctld", "-D"])
        home.start("slurmd", [*ADOPTING, "slurmd", "-D"])
        for name in elsewhere:
            prefix = another_host(name, folder / UNSEEN)
            home.start(f"slurmd.{name}", [*ADOPTING, *prefix, "slurmd", "-D", "-N", name])
        home.wait_until("idle nodes of Slurm", lambda: _state(home) == "idle")
        yield cluster


@contextmanager
def in_reach(folder: Path, memory: str = "", elsewhere: Sequence[str] = ()) -> Iterator[Slurm]:
    """The same, and this process finds it, as what it starts does, until the end of the block."""
    with slurm(folder, memory, elsewhere) as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), DAEMONS])


def _settings(folder: Path, munge: Path, memory: str, names: Sequence[str]) -> str:
    """The settings of a cluster whose nodes have these names, this host first."""
    port, *ports = free_ports(1 + len(names))
    memory_mb = (
        int(psutil.virtual_memory().total * 0.9) >> 20
    )  # a node with less than it says is put aside
    cpus = max(4, os.cpu_count() or 1)
    nodes = [
        NODE.format(name=name, port=own, cpus=cpus, memory_mb=memory_mb)
        for name, own in zip(names, ports, strict=True)
    ]
    return SETTINGS.format(
        host=names[0],
        port=port,
        munge=munge,
        folder=folder,
        memory=MEMORY[memory],
        nodes="".join(nodes),
        urgent=URGENT,
        most=MOST_ELEMENTS,
    )


def _start_munge(home: Household, munge: Path) -> None:
    key = home.folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = {"key-file": key, "socket": munge}
    files |= {f"{name}-file": home.folder / f"munge.{name}" for name in ("pid", "log", "seed")}
    home.start(
        "munged",
        [
            "munged",
            "--foreground",
            "--force",
            *(f"--{name}={path}" for name, path in files.items()),
        ],
    )
    home.wait_until("munge's socket", munge.exists)


def _state(home: Household) -> str:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"],
        env=home.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
