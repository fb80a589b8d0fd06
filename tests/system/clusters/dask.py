"""A Dask cluster that somebody else started: scheduler and workers on loopback, which do not see
the tests' code.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.system.clusters.another_host import another_host
from tests.system.clusters.processes import (
    ClusterFailed,
    Household,
    descendants,
    household,
    signal_all,
)

LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
ANOTHER_HOST = another_host("other")
"Worker prefix, for root: another host name, and a monotonic clock that is 5000 s ahead."


@dataclass(frozen=True)
class DaskCluster:
    """A scheduler and its workers; worker i is number i in the order of their start."""

    address: str
    "As tcp://127.0.0.1:PORT or tls://127.0.0.1:PORT."
    scheduler_file: Path
    environment: dict[str, str]
    "What a client needs beside the address: certificates, if the cluster uses TLS."
    scheduler: subprocess.Popen[bytes]
    workers: tuple[subprocess.Popen[bytes], ...]
    "The processes that were started: nannies, unless the cluster has none."
    nanny: bool
    household: Household

    def worker(self, number: int) -> psutil.Process:
        """The process that runs tasks, below the nanny; after its death, the one that the nanny
        started instead.
        """
        words = "spawn_main" if self.nanny else "distributed.cli.dask_worker"
        found = descendants(self.workers[number], words)
        if not found:
            raise ClusterFailed(f"worker {number} is not there\n{self.household.last_words()}")
        return found[
            0 if self.nanny else -1
        ]  # a nanny's own child; or below what a prefix puts before the worker

    def kill_scheduler(self) -> None:
        self.household.kill(self.scheduler)

    def kill_worker(self, number: int) -> None:
        self.worker(number).kill()

    def kill_nanny(self, number: int) -> None:
        """Kill a worker for good: nobody starts another one."""
        below = descendants(self.workers[number], "")
        self.household.kill(self.workers[number])
        signal_all(below, signal.SIGKILL)

    def stop_worker(self, number: int) -> None:
        """Leave the worker alive and silent, as when its network is gone."""
        self.worker(number).send_signal(signal.SIGSTOP)

    def continue_worker(self, number: int) -> None:
        self.worker(number).send_signal(signal.SIGCONT)


def missing(*, tls: bool = False, worker_prefix: Sequence[str] = ()) -> str:
    """Why no such cluster can be started here, with what to do about it; empty if it can."""
    if importlib.util.find_spec("distributed") is None:
        return "Dask is not installed: pip install 'hyperslab[dask]'"
    if tls and shutil.which("openssl") is None:
        return "there is no openssl here: install the Debian package openssl"
    if (
        worker_prefix
        and subprocess.run([*worker_prefix, "true"], capture_output=True, check=False).returncode
    ):
        needs = "root, and the Debian packages util-linux and hostname"
        return f"this does not work here, it needs {needs}: {shlex.join(worker_prefix)}"
    return ""


@contextmanager
def dask_cluster(
    folder: Path,
    workers: int = 2,
    threads: int = 1,
    *,
    tls: bool = False,
    nanny: bool = True,
    bare: bool = False,
    worker_prefix: Sequence[str] = (),
    memory: str = "2GiB",
) -> Iterator[DaskCluster]:
    """Start a scheduler and workers, and wait until all have registered.

    `bare` workers find every library that the tests have, but not hyperslab. `worker_prefix` stands
    before the command of one more worker, the last. All processes end with the block.
    """
    with household(folder, DASK_CONFIG=str(folder)) as home:
        secrets = _certificates(folder) if tls else {}
        python = python_without_hyperslab(folder / "bare") if bare else sys.executable
        scheduler = _start_scheduler(home, secrets)
        prefixes = [(), *[()] * (workers - 1), worker_prefix] if worker_prefix else [()] * workers
        worker = _worker_command(python, home, threads, memory, nanny=nanny)
        members = tuple(
            home.start(f"worker-{i}", [*prefix, *worker, "--name", f"worker-{i}"], **secrets)
            for i, prefix in enumerate(prefixes)
        )
        home.wait_until(
            f"{len(members)} Dask workers",
            lambda: home.log("scheduler").count("Register worker") >= len(members),
        )
        if nanny:
            home.wait_until(
                "nannies that run",
                lambda: _nannies_run(_address(_file(home)), secrets, len(members)),
            )
        yield DaskCluster(
            _address(_file(home)), _file(home), secrets, scheduler, members, nanny, home
        )


def _nannies_run(address: str, secrets: dict[str, str], number: int) -> bool:
    """Whether all nannies know their workers: one whose worker dies before that gives up, it starts
    no other.
    """
    import dask
    from distributed import Client

    settings = dask.config.merge(dask.config.config, dask.config.collect_env(secrets))
    with dask.config.set(settings), Client(address) as client:
        # A function with no name of its own is sent by value: workers do not see this module.
        return [*client.run(lambda dask_worker: dask_worker.status.name, nanny=True).values()] == [
            "running"
        ] * number


def _file(home: Household) -> Path:
    return home.folder / "scheduler.json"


def _start_scheduler(home: Household, secrets: dict[str, str]) -> subprocess.Popen[bytes]:
    protocol = "tls" if secrets else "tcp"
    command = (sys.executable, "-m", "distributed.cli.dask_scheduler", *LOOPBACK, "--port", "0")
    more = ("--protocol", protocol, "--scheduler-file", str(_file(home)))
    scheduler = home.start("scheduler", [*command, *more], **secrets)
    home.wait_until("the Dask scheduler's file", lambda: _address(_file(home)))
    return scheduler


def _worker_command(
    python: str, home: Household, threads: int, memory: str, *, nanny: bool
) -> list[str]:
    return [
        python,
        "-m",
        "distributed.cli.dask_worker",
        *LOOPBACK,
        "--scheduler-file",
        str(_file(home)),
        "--nthreads",
        str(threads),
        "--memory-limit",
        memory,
        "--local-directory",
        str(home.folder),
        "--nanny" if nanny else "--no-nanny",
    ]


def _address(file: Path) -> str:
    """From a scheduler file; empty as long as that is not written in full."""
    try:
        return str(json.loads(file.read_text())["address"])
    except (FileNotFoundError, json.JSONDecodeError):
        return ""


def _certificates(folder: Path) -> dict[str, str]:
    """Make one certificate that signs itself; returns Dask's settings for scheduler, workers and
    clients.
    """
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    request = (
        "openssl req -x509 -nodes -days 2 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj"
        " /CN=hyperslab"
    )
    files = (
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    )
    subprocess.run([*request.split(), *files], check=True, capture_output=True)
    setting = "DASK_DISTRIBUTED__COMM__{}".format
    settings = {setting("REQUIRE_ENCRYPTION"): "true", setting("TLS__CA_FILE"): str(certificate)}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {
            setting(f"TLS__{role}__CERT"): str(certificate),
            setting(f"TLS__{role}__KEY"): str(key),
        }
    return settings


def python_without_hyperslab(folder: Path) -> str:
    """Make an environment that sees this one's libraries; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = str(folder / "bin" / "python")
    libraries = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # Folders that a .pth file names are searched, but their own .pth files, such as that of an
    # editable installation, are not read.
    Path(site, "libraries.pth").write_text("\n".join(sorted(libraries)))
    command = [python, "-c", "import hyperslab"]
    tried = subprocess.run(
        command, cwd=folder, env={"PATH": os.defpath}, capture_output=True, text=True, check=False
    )
    if "No module named 'hyperslab'" not in tried.stderr:
        raise ClusterFailed(
            "bare workers need hyperslab to be installed in editable mode here: make test does it"
        )
    return python
