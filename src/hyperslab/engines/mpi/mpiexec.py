"""Mpiexec: the command that starts ranks, and whether it fits the MPI that mpi4py finds.

All that can be known is refused before anything starts, in a sentence that says what to do.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.asking import asked, last_line
from hyperslab.machine.words import words_of

VARIABLE = "HYPERSLAB_MPIEXEC"
"Environment variable that holds the command and its options, as a shell would have them."
MPICH, OPEN_MPI, SLURM = "MPICH", "Open MPI", "Slurm"
"Kinds of MPI whose commands and libraries fit each other; Intel MPI and MVAPICH are MPICH here."
LAUNCHERS = {
    r"hydra|mpich|intel|mvapich": MPICH,
    r"open ?mpi|openrte|prrte": OPEN_MPI,
    r"slurm": SLURM,
}
"What commands say of their version."
LIBRARIES = {r"open mpi": OPEN_MPI, r"mpich|intel|mvapich": MPICH}
ASK = (
    "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI;"
    " print(MPI.Get_library_version())"
)
LIMIT_S = 30.0
INSTALL = "pip install mpich, install an MPI of your system, or load your cluster's"
AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
ALLOW = "--allow-run-as-root"
WORLD_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"Environment variables by which an mpiexec tells its ranks how many they are."
RANKS = (
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
    "MPI_LOCALRANKID",
)
"""... and which of them it is, the first that is set: a job's SLURM_PROCID is there in all ranks of
an mpiexec, and the last numbers those of a host.
"""
ENDING = {"SLURM_KILL_BAD_EXIT": "1"}
"""Variable by which srun ends all ranks with the first that dies. By itself it lets the others wait
for that for ever, as they do in the counter that has died with rank 0.
"""
STEP_SIZE = "SLURM_STEP_NUM_TASKS"
"Environment variable by which srun tells how many tasks it has started, as ranks of MPI or not."


def command() -> list[str]:
    """The command that starts ranks. Raises UsageError where there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        return _words_of(named)
    own = Path(sys.executable).parent / "mpiexec"
    if own.exists():
        return [str(own)]
    found = shutil.which("mpiexec")
    if found is None and "SLURM_JOB_ID" in os.environ:
        found = shutil.which("srun")
    if found is None:
        raise UsageError(f"--engine mpi needs mpiexec, and there is none here: {INSTALL}")
    return [found]


def _words_of(named: str) -> list[str]:
    """A command of the user's as a shell has it. Raises UsageError for none."""
    words = words_of(named, f"{VARIABLE}=")
    if not words:
        raise UsageError(f"{VARIABLE} names no command: give one, or unset it")
    return words


def world_size() -> int:
    """How many ranks the mpiexec has started that started this process; 0 where none did."""
    return max(int(os.environ.get(name) or "0") for name in WORLD_SIZES)


def own_rank() -> int:
    """Number of this process among the ranks, as its launcher tells it; 0 where none does."""
    told = (os.environ.get(name, "") for name in RANKS)
    return next((int(number) for number in told if number.isdigit()), 0)


def step_size() -> int:
    """How many tasks the step of Slurm has that this process is one of; 0 outside of any."""
    return int(os.environ.get(STEP_SIZE) or "0")


def remedy(launcher: str) -> str:
    """What to do where the ranks that a command has started do not find each other."""
    if launcher == "srun":
        return (
            f"give srun the --mpi=... of that library, as in {VARIABLE}='srun --mpi=pmi2'; 'srun"
            " --mpi=list' names those that there are"
        )
    return f"name the mpiexec of that library in {VARIABLE}"


def require_usable() -> None:
    """Raise UsageError where ranks could not be started, or would not find each other."""
    if world_size() > 1:
        raise UsageError(
            "--engine mpi: this process is a rank of MPI already, started by an mpiexec: add"
            " --connect world, or start the command without mpiexec"
        )
    words = command()
    library = library_of(os.environ.get("MPI4PY_LIBMPI", ""))
    kind = launcher(words[0])
    if kind == OPEN_MPI:
        _require_permission(words, os.environ)
    if kind in (MPICH, OPEN_MPI) and kind_of(library, LIBRARIES) not in (kind, ""):
        raise UsageError(
            f"--engine mpi: {words[0]} is of {kind}, but mpi4py finds {_first_line(library)}:"
            f" name the library of {kind} in MPI4PY_LIBMPI, or the mpiexec of the other in"
            f" {VARIABLE}"
        )


def kind_of(text: str, kinds: Mapping[str, str]) -> str:
    """Find which kind of MPI a text tells of; '' where it names none."""
    for words, kind in kinds.items():
        if re.search(words, text, re.IGNORECASE):
            return kind
    return ""


@functools.cache
def library_of(_named: str) -> str:
    """What the library that mpi4py finds says of itself; asked of another process, since this one
    may want MPI for itself. Raises UsageError where it finds none.
    """
    try:
        done = asked([sys.executable, "-c", ASK], LIMIT_S)
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"--engine mpi: mpi4py has not told within {LIMIT_S:.0f} s which library of an MPI it"
            " loads: look whether the file system of that answers"
        ) from None
    if done.returncode:
        raise UsageError(
            f"--engine mpi: mpi4py cannot load the library of an MPI ({last_line(done)}):"
            f" {INSTALL}; one elsewhere is named in MPI4PY_LIBMPI"
        )
    return done.stdout


@functools.cache
def launcher(program: str) -> str:
    """Ask which kind of MPI a command is of. Raises UsageError where it cannot be started."""
    try:
        done = asked([program, "--version"], LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"--engine mpi: {program} cannot be started ({error}): name a command in {VARIABLE}"
        ) from error
    return kind_of(done.stdout + done.stderr, LAUNCHERS)


def _require_permission(words: list[str], environment: Mapping[str, str]) -> None:
    """Raise UsageError where Open MPI would refuse this user."""
    is_allowed = ALLOW in words or all(environment.get(name) == "1" for name in AS_ROOT)
    if os.geteuid() or is_allowed:
        return
    raise UsageError(
        f"--engine mpi: Open MPI starts nothing for root: run as another user, or, where that is"
        f" what you want, set {AS_ROOT[0]}=1 and {AS_ROOT[1]}=1"
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].partition(",")[0]
