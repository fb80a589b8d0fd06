"""KeeperProcess: the process that holds a Dask cluster of our own, seen from the driver."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress

from hyperslab.engines import EngineOptions
from hyperslab.engines.dask.keeper import Spec
from hyperslab.engines.environment import start
from hyperslab.engines.scratched import words_before
from hyperslab.errors import RunStopped

START_LIMIT_S = 120.0
CLOSE_LIMIT_S = 10.0


class KeeperProcess:
    """The process that holds a cluster of our own."""

    def __init__(self, options: EngineOptions) -> None:
        self.log = options.folder / "worker.log"
        self._scratch = tempfile.mkdtemp(prefix="hyperslab-dask-")
        self._process, self._connection = start("hyperslab.engines.dask.keeper", options, self.log)
        self._kind = options.connect or "local"
        memory = options.memory_bytes // options.workers if options.connect else 0
        before: list[str] = []
        if options.scratch:
            before = words_before(options.scratch, options.folder)
        self._connection.send(
            Spec(
                self._kind,
                options.workers,
                options.threads,
                memory,
                self._scratch,
                tuple(before),
            )
        )

    def await_ready(self) -> str:
        """The scheduler's address. Raises RunStopped when the cluster does not start."""
        reason = f"it did not answer within {START_LIMIT_S:.0f} s"
        try:
            if self._connection.poll(START_LIMIT_S):
                what, said = self._connection.recv()
                if what == "ready":
                    return str(said)
                reason = said
        except (EOFError, ConnectionError):
            reason = "it ended"
        self.kill()
        raise RunStopped(f"a Dask cluster could not start: {reason}; see {self.log}")

    def close(self, at_once: bool) -> None:
        """Let it end the cluster; make it, if it takes too long. Jobs of Slurm are always given
        back.
        """
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if at_once and self._kind == "local" else CLOSE_LIMIT_S)
        self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)
