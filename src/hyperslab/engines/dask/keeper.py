"""A process of its own that starts Dask's scheduler and workers, and ends them when its driver is
gone.

So a cluster costs the driver no time, the user's script needs no `if __name__ == "__main__"`, and
nothing is left behind whatever kills the driver.

    driver -> keeper   Spec; closing the connection ends the cluster
    keeper -> driver   ("ready", address) or ("failed", sentence)
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

CLOSE_LIMIT_S = 6
CONFIG = {
    "distributed.worker.daemon": False,  # functions may start processes of their own
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.worker.memory.pause": (
        False
    ),  # admission bounds memory; blocks that a worker keeps are not a leak
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}


@dataclass(frozen=True, slots=True)
class Spec:
    """The cluster that is wanted."""

    kind: str
    "local or slurm."
    workers: int
    threads: int
    memory_bytes: int
    "Memory of one worker; 0: Dask's or the site's default."
    scratch: str
    "A folder for what workers spill; removed at the end."
    before: tuple[str, ...] = ()
    "Words before the Python of a job, which give its worker scratch of its own; (): it has none."


def main(fd: int) -> None:
    """Serve the driver on the inherited socket `fd`; never returns."""
    connection = Connection(fd)
    spec: Spec = connection.recv()
    try:
        cluster = _start(spec)
        connection.send(("ready", cluster.scheduler_address))
        _await_end(connection)
        signal.signal(signal.SIGALRM, lambda *_: _end(spec))
        signal.alarm(CLOSE_LIMIT_S)
        cluster.close(timeout=CLOSE_LIMIT_S / 2)
    # told to the driver, which stops the run, if it lives
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        with suppress(OSError):
            connection.send(("failed", f"{type(error).__name__}: {error}"))
    finally:
        _end(spec)


def _await_end(connection: Connection) -> None:
    """Wait until the driver has finished, or is dead."""
    with suppress(EOFError, ConnectionError):
        connection.recv()


def _start(spec: Spec) -> Any:
    import dask

    dask.config.set(CONFIG)
    if spec.kind == "slurm":
        return _start_slurm(spec)
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=spec.workers,
        threads_per_worker=spec.threads,
        processes=True,
        dashboard_address="127.0.0.1:0",
        memory_limit=spec.memory_bytes or "auto",
        local_directory=spec.scratch,
    )


def _start_slurm(spec: Spec) -> Any:
    """One job per worker; partition, account, time limit and so on come from dask-jobqueue's own
    configuration.
    """
    import dask
    from dask_jobqueue import SLURMCluster

    settings: dict[str, Any] = {"memory": f"{spec.memory_bytes}B"} if spec.memory_bytes else {}
    if spec.before:
        python = dask.config.get("jobqueue.slurm.python", None) or sys.executable
        settings["python"] = f"{shlex.join(spec.before)} {python}"
    cluster = SLURMCluster(cores=spec.threads, processes=1, **settings)
    cluster.scale(jobs=spec.workers)
    return cluster


def _end(spec: Spec) -> None:
    """End this process and all that it has started; never returns."""
    shutil.rmtree(spec.scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
