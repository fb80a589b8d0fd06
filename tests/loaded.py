"""Functions of tests that other processes load: a module of tests takes these longer to import than
they take to start.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hyperslab.arrays import Array
    from hyperslab.arrays.slab import Hyperslab
    from tests.comparison.ledger import Ledger

PATIENCE_S = 200.0
"After so long, nobody opens a gate any more."


def total(block: Array) -> int:
    return int(block.sum(dtype=np.int64))


def slow_total(block: Array) -> int:
    time.sleep(0.02)
    return int(block.sum())


def added(a: int, b: int) -> int:
    return a + b


def save_threads(value: Any, folder: Path) -> list[Path]:
    """As a fold's own, which may start processes: nothing is imported beside it."""
    names = [thread.name for thread in threading.enumerate()]
    path = folder / "threads.txt"
    path.write_text("\n".join(names))
    return [path]


def pid(block: Array) -> set[int]:
    print("said by a function")
    return {os.getpid()}


def blas_threads(block: Array) -> int:
    from threadpoolctl import threadpool_info

    np.ones((64, 64)) @ np.ones((64, 64))
    return max(int(pool["num_threads"]) for pool in threadpool_info())


def job_slot(block: Array) -> Array:
    """The slot of GNU Parallel in every element."""
    return np.full_like(block, int(os.environ["PARALLEL_JOBSLOT"]))


def dies_at_every_fourth_slab(block: Array, slab: Hyperslab) -> Array:
    number = slab.start[2]
    if number % 8 == 0:
        os._exit(7)
    if number % 4 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def waits_for_a_gate(block: Array, slab: Hyperslab, gate: str) -> Array:
    """The block plus one: the first at once, others when there is a file `gate`."""
    until = time.monotonic() + PATIENCE_S
    while any(slab.start) and not Path(gate).exists():
        assert time.monotonic() < until, "nobody has opened the gate"
        time.sleep(0.02)
    return np.asarray(block + block.dtype.type(1))


def fills_own_disk(block: Array, slab: Hyperslab, folder: str) -> int:
    """The sum of a block, slowly; the first thread of all records from now on to a full disk, of
    which it knows long before the other one has done half of the blocks.
    """
    Path(folder, f"{slab.start[0]}").touch()
    time.sleep(0.2)
    with suppress(FileExistsError):
        Path(folder, "full").touch(exist_ok=False)
        own = f".t{threading.get_native_id()}."
        opened = [fd for fd in Path("/proc/self/fd").iterdir() if own in fd.resolve().name]
        (journal,) = (fd for fd in opened if fd.resolve().suffix == ".jsonl")
        os.dup2(os.open("/dev/full", os.O_WRONLY), int(journal.name))
    return int(block.sum())


def leaves_a_child(block: Array, pid_file: str) -> Array:
    child = subprocess.Popen(["sleep", "600"])
    Path(pid_file).write_text(str(child.pid))
    os._exit(3)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def unspeakable(block: Array, slab: Hyperslab) -> Array:
    if slab.start[2] == 0:
        raise Unspeakable
    return block


def interrupting(block: Array, slab: Hyperslab) -> Array:
    if slab.start[2] == 0:
        raise KeyboardInterrupt
    return block


def nameless(block: Array, slab: Hyperslab) -> Array:
    if slab.start[2] == 0:
        raise ValueError("a name that is no text: \udcff")
    return block


def crashing_or_hanging(seed: int, number: int, folder: Path, kind: str) -> tuple[str, Ledger]:
    """Case 1 ends its process, case 2 takes for ever; all others are all right."""
    from tests.comparison.ledger import Ledger

    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 2:
        time.sleep(600)
    return "plain", Ledger(datasets=1)


@dataclasses.dataclass
class Gain:
    """A callable that cannot be hashed."""

    factor: int

    def __call__(self, block: Array) -> Any:
        return block * np.uint16(self.factor)
