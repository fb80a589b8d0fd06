"""Starting a worker process, and what it inherits: environment, import path, its share of
processors and memory.

What is meant for the worker alone (import path, memory) is not passed on to the programs that
functions start.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from hyperslab.engines import EngineOptions
from hyperslab.native import THREADS_VARIABLE

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    THREADS_VARIABLE,
)
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**62),
    "MALLOC_TOP_PAD_": str(2**24),
}
"""glibc returns large arrays to the system and pays for fresh pages at the next one; a worker's
blocks recur: keep them.
"""

_ITSELF = "sys.argv[0] = 'hyperslab'; from hyperslab.cli import main; main()"
FIRST_SIGNAL = 128
"What a shell adds to the number of the signal that ended a command."
OOM_SCORE = 500
"""Counts like half of the machine's (or control group's) memory when the kernel chooses what to
end; Chromium gives 300.
"""


def environment(slot_cpus: int) -> dict[str, str]:
    """Our environment, with what a worker is given whose slots may use so many processors."""
    return {**os.environ, **share(slot_cpus)}


def share(slot_cpus: int) -> dict[str, str]:
    """Variables of a worker: how it keeps memory, and a slot's share of the processors for BLAS,
    OpenMP and the decoding of chunks.
    """
    variables = dict(KEEP_MEMORY)
    for name in THREAD_VARIABLES:
        asked = os.environ.get(name, "")
        variables[name] = str(min(int(asked), slot_cpus) if asked.isdigit() else slot_cpus)
    return variables


def start(
    module: str, options: EngineOptions, log: Path, inherited: Sequence[int] = ()
) -> tuple[subprocess.Popen[bytes], Connection]:
    """A process group that runs a module's `main`, and our end of the socket that it is given; it
    prints to the log.

    `main` takes the socket, then the `inherited` descriptors.
    """
    with open(log, "ab") as output:
        return launch(module, environment(options.slot_cpus), output, inherited)


def launch(
    module: str,
    variables: Mapping[str, str],
    output: IO[bytes],
    inherited: Sequence[int] = (),
    *more: str,
) -> tuple[subprocess.Popen[bytes], Connection]:
    """The same with an environment that is given, which prints to a file that is open; `main` takes
    `more` behind the descriptors.
    """
    ours, theirs = socket.socketpair()
    given = [theirs.fileno(), *inherited]
    with theirs:
        process = subprocess.Popen(
            program(module, [*given, *more]),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=given,
            start_new_session=True,
            env=variables,
        )
    return process, Connection(ours.detach())


def import_path() -> list[str]:
    """Our import path, as another process in any folder has to have it."""
    return [folder or os.getcwd() for folder in sys.path]


def program(module: str, given: Sequence[int | str]) -> list[str]:
    """The command that runs a module's `main` with these arguments, with our import path.

    The collector of garbage waits for the imports, and passes over what they made.
    """
    return [sys.executable, "-c", bootstrap(module, given, f"sys.path[:] = {import_path()!r}")]


def interpreted(code: str) -> list[str]:
    """The command that runs code which needs `sys`, with our import path."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = {import_path()!r}; {code}"]


def itself(arguments: Sequence[str]) -> list[str]:
    """The command that runs `hyperslab` with these arguments, with our import path."""
    return [*interpreted(_ITSELF), *arguments]


def bootstrap(module: str, given: Sequence[int | str], setting: str) -> str:
    """The code that runs a module's `main` with these arguments, once the import path is set."""
    arguments = ", ".join(map(repr, given))
    imports = f"import gc, sys; gc.disable(); {setting}; from {module} import main"
    return f"{imports}; gc.freeze(); gc.enable(); main({arguments})"


def forget_memory_variables() -> None:
    """Forget them once a worker runs: glibc has read them, and its programs should not."""
    for name in KEEP_MEMORY:
        os.environ.pop(name, None)


def how_it_ended(status: int) -> str:
    """How a process ended, in words, by its exit status as a shell has it: 128 and more is a
    signal; '' for 0.
    """
    if status == 0:
        return ""
    if status <= FIRST_SIGNAL:
        return f"exited with code {status}"
    name = signal_name(status - FIRST_SIGNAL)
    if name == "SIGKILL":
        return "was killed by SIGKILL (kill -9, or the kernel's out-of-memory killer)"
    return f"was killed by {name}"


def signal_name(number: int) -> str:
    """The name of a signal; its number for one that has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def volunteer() -> None:
    """Let the kernel, short of memory, end this worker rather than the driver: one is replaced, the
    other is the run.

    See proc_pid_oom_score_adj(5); programs that functions start inherit it. Any process may raise
    its own score.
    """
    score = Path("/proc/self/oom_score_adj")
    with suppress(OSError):  # a sandbox may refuse: then the kernel chooses by size alone
        score.write_text(str(max(int(score.read_text()), OOM_SCORE)))
