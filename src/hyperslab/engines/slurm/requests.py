"""Requests: what a job is submitted with: the user's options of sbatch, ours, and the script."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from hyperslab.engines import EngineOptions
from hyperslab.errors import UsageError
from hyperslab.machine.host import WORKER_BASE_BYTES
from hyperslab.units import show_bytes

OURS = {
    "array": "the run is cut by --workers and --throttle",
    "clusters": "the variable SLURM_CLUSTERS names the cluster for all commands of Slurm",
    "chdir": "jobs run where the command does",
    "dependency": "the jobs of a run depend on each other",
    "error": "what jobs print is kept in worker.log",
    "export": "jobs need the variables that the command has",
    "job-name": "jobs are found by their names",
    "output": "what jobs print is kept in worker.log",
    "parsable": "hyperslab reads what sbatch prints",
    "requeue": "what a job leaves undone is submitted again by the run",
    "test-only": "it would submit nothing",
    "wait": "hyperslab waits by itself",
    "wrap": "jobs run the tasks",
}
"Options of sbatch that hyperslab gives itself, and why."
SHORT = {"a": "array", "D": "chdir", "d": "dependency", "e": "error", "J": "job-name"}
SHORT |= {"M": "clusters", "o": "output", "W": "wait"}
SHORT |= {"B": "extra-node-info", "b": "begin", "c": "cpus-per-task", "G": "gpus"}
SHORT |= {"N": "nodes", "n": "ntasks", "O": "overcommit", "s": "oversubscribe"}
"Options of one letter that are told apart here."
MEMORY = {
    "mem": "SBATCH_MEM_PER_NODE",
    "mem-per-cpu": "SBATCH_MEM_PER_CPU",
    "mem-per-gpu": "SBATCH_MEM_PER_GPU",
}
"Options that say how much memory a job gets, and the variables that say the same to sbatch."
OF_TASKS = (
    *MEMORY,
    "begin",
    "contiguous",
    "cores-per-socket",
    "cpus-per-gpu",
    "cpus-per-task",
    "exclusive",
    "extra-node-info",
    "gpu-bind",
    "gpu-freq",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "mincpus",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "overcommit",
    "oversubscribe",
    "sockets-per-node",
    "threads-per-core",
    "tres-per-task",
)
"Options that say what tasks need, and not the one process that ends a run."
VARIABLES_OF_TASKS = (
    *MEMORY.values(),
    *(f"SBATCH_{name.replace('-', '_').upper()}" for name in OF_TASKS),
)
"Variables that say the same to sbatch."
MEMORY_UNITS = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"Units of sbatch's sizes, of which the first is meant where none is named."
JOB_NBYTES = 2 * 2**30
"Memory for the task of a job where nobody says how much."
LAST_NBYTES = 2 * 2**30
"""Memory of the job that ends a run at least, whose trace and page grow with its tasks: by some 7
MB for each thousand.
"""
SILENT_MIN = 10
"Minutes after which jobs take a driver that says nothing for dead."


def asked(options: EngineOptions) -> list[str]:
    """The user's options as arguments of sbatch, with the memory that --memory gives each slot.
    Raises UsageError.
    """
    arguments = [argument for _, argument in _arguments(options)]
    if _memory(options) is None:
        arguments.append(_memory_for(_nbytes_of_task(options)))
    return arguments


def asked_of_last(options: EngineOptions) -> list[str]:
    """The same for the job that ends a run: without what tasks alone need, and with the memory that
    it takes itself where that is more. Raises UsageError.
    """
    arguments = [argument for name, argument in _arguments(options) if name not in OF_TASKS]
    return [*arguments, _memory_for(max(_nbytes_of_task(options), LAST_NBYTES))]


def _arguments(options: EngineOptions) -> Iterator[tuple[str, str]]:
    """(long name, argument of sbatch) of each of the user's options. Raises UsageError."""
    for text in options.job_options:
        name, equals, value = text.lstrip("-").partition("=")
        long_name = SHORT.get(name, name)
        _require_free(text, long_name)
        if len(name) == 1:
            yield long_name, f"-{name}{value}"
        else:
            yield long_name, f"--{name}{equals}{value}"


def _memory_for(nbytes: int) -> str:
    """Ask for so much memory beside what Python takes."""
    return f"--mem={(nbytes + WORKER_BASE_BYTES) >> 10}K"


def _nbytes_of_task(options: EngineOptions) -> int:
    """Bytes for the task of a job, however the user has said it."""
    if options.memory_bytes and _memory(options) is None:
        return options.memory_bytes // options.workers
    return _memory_of_job(options)


def cpus(options: EngineOptions) -> int:
    """Number of processors of a job, by the user's options."""
    given = _given(options)
    wanted = given.get("cpus-per-task", "1")
    if not wanted.isdigit():
        return 1
    return max(1, int(wanted))


def _given(options: EngineOptions) -> dict[str, str]:
    """The user's options by their long names."""
    parts = (text.lstrip("-").partition("=") for text in options.job_options)
    return {SHORT.get(name, name): value for name, _, value in parts}


def _memory(options: EngineOptions) -> tuple[str, str, str] | None:
    """(option, value, how the user said it) of the memory of a job; None where nobody says."""
    given = _given(options)
    said = [
        (name, given[name], f"--slurm-option {name}={given[name]}")
        for name in MEMORY
        if name in given
    ]
    said += [
        (name, os.environ[variable], f"{variable}={os.environ[variable]}")
        for name, variable in MEMORY.items()
        if variable in os.environ
    ]
    return next(iter(said), None)


def memory_of_jobs(options: EngineOptions) -> int:
    """Bytes for all tasks that run at a time, by the memory that their jobs are given. Raises
    UsageError.
    """
    return _memory_of_job(options) * options.workers


def _memory_of_job(options: EngineOptions) -> int:
    """Bytes for the task of a job."""
    said = _memory(options)
    if said is None or said[0] == "mem-per-gpu":
        return JOB_NBYTES
    name, value, words = said
    wanted = _nbytes(value, words)
    if name == "mem-per-cpu":
        wanted *= cpus(options)
    if wanted == 0:  # all that a node has
        return JOB_NBYTES
    if wanted <= WORKER_BASE_BYTES:
        raise UsageError(f"{words}: Python takes {show_bytes(WORKER_BASE_BYTES)} of it; give more")
    return wanted - WORKER_BASE_BYTES


def _nbytes(text: str, words: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    if found is None:
        raise UsageError(f"{words}: give a size such as 4G")
    return int(found[1]) * MEMORY_UNITS[found[2]]


def _require_free(text: str, name: str) -> None:
    if not name:
        raise UsageError(f"--slurm-option {text}: give NAME=VALUE, such as partition=short")
    if name in OURS:
        raise UsageError(f"--slurm-option {text}: is hyperslab's own: {OURS[name]}")


def log_into(path: Path) -> list[str]:
    """Have a job append what it prints to a file."""
    name = str(path).replace("\\", "\\\\").replace("%", "%%")
    return [f"--output={name}", "--open-mode=append"]


def element_script(script: Path, first: int, heartbeat: Path | None) -> str:
    """The script of an array, whose elements run the batches from `first` on. Where a driver waits
    for them they end at once when its `heartbeat` has not been written for SILENT_MIN.
    """
    lines = ["#!/bin/sh"]
    if heartbeat is not None:
        heard = f"find {shlex.quote(str(heartbeat))} -mmin -{SILENT_MIN}"
        lines.append(f'[ -n "$({heard})" ] || exit 0  # nobody waits for the tasks any more')
    lines.append(f"exec sh {shlex.quote(str(script))} $(({first} + SLURM_ARRAY_TASK_ID))")
    return "\n".join(lines) + "\n"


def last_script(command: Sequence[str]) -> str:
    """The script of the job that goes on with a run when its array has ended."""
    return f"#!/bin/sh\nexec {shlex.join(command)}\n"
