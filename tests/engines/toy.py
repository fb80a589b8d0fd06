"""A toy engine: every batch is a subprocess, and as many run at a time as there are slots.

It is what CONTRIBUTING.md says of an engine that starts programs: this file, and a line that names
its facts, which here is an entry point as that of another package.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from hyperslab.engines import EngineOptions
from hyperslab.engines.batches.launcher import CommandEngine
from hyperslab.engines.facts import Facts
from hyperslab.engines.jobs import JOBS, JobsLeft
from hyperslab.storage.recordfile import load_record
from hyperslab.trace import Slot

FACTS = Facts(
    "tests.engines.toy:Toy",
    process_per_slot=True,
    no_time_limit="a toy stops nothing",
    requirement="hyperslab-toy",
    libraries=("hyperslab-toy",),
    optional=("hyperslab-toy",),
)
POLL_S = 0.01


class Subprocesses:
    """The commands of a round: some run, the others wait."""

    def __init__(self, commands: Sequence[Sequence[str]], options: EngineOptions) -> None:
        self._waiting = list(commands)
        self._running: list[subprocess.Popen[bytes]] = []
        self._options = options

    def is_over(self, limit_s: float) -> bool:
        """Start what there is room for; True when every command has ended."""
        deadline = time.monotonic() + limit_s
        while self._go_on() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        return not self._running

    def cancel(self) -> None:
        """Kill those that run."""
        self._waiting.clear()
        for process in self._running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._running.clear()

    def _go_on(self) -> bool:
        self._running = [process for process in self._running if process.poll() is None]
        slots = self._options.workers * self._options.threads
        while self._waiting and len(self._running) < slots:
            self._running.append(self._start(self._waiting.pop(0)))
        return bool(self._running)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with open(self._options.folder / "worker.log", "ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


class Toy(CommandEngine):
    """Runs every batch in a subprocess of its own."""

    batches_per_slot = 1

    @staticmethod
    def jobs_left(folder: Path) -> JobsLeft | None:
        """What a record of jobs says, if a toy has submitted any."""
        told = load_record(folder / JOBS, "a toy's jobs are lost")["told"]
        return JobsLeft(is_detached=False, are_there=True, told=told)

    @staticmethod
    def end_jobs(folder: Path) -> None:
        """Forget them."""
        (folder / JOBS).unlink()

    def start(self) -> None:
        """Nothing runs before there are batches."""
        options = self.options
        slots = options.workers * options.threads
        self._slots = [Slot(options.host, 0, thread) for thread in range(slots)]

    def launch(self, script: Path, batches: int) -> Subprocesses:
        commands = [["sh", str(script), str(number)] for number in range(batches)]
        return Subprocesses(commands, self.options)
