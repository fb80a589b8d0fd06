"""Processes that a cluster is made of: started, watched, and ended to the last descendant."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil

PATIENCE_S = 200.0
"After so long, something hangs; nothing is measured by it."
MARK = "HYPERSLAB_CLUSTER_MARK"
"""Variable that every process of a cluster inherits: daemons leave parent and session, but keep
their environment.
"""


class ClusterFailed(RuntimeError):
    """A cluster did not come up, or did not go down; holds the end of its logs."""


@dataclass(frozen=True, slots=True)
class Household:
    """Processes with one mark, and with no more of the caller's environment than they need."""

    folder: Path
    "Working directory, home and place of the logs; nothing of the repository is in it."
    environment: Mapping[str, str]
    members: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, command: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
        """Start a program whose output goes to `name`.log; `more` joins its environment."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**self.environment, **more},
                start_new_session=True,
            )
        self.members.append(process)
        return process

    def log(self, name: str) -> str:
        """What a program has printed so far."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def left(self) -> list[psutil.Process]:
        """Live processes of the household, whoever their parent is now."""
        return marked(self.environment[MARK])

    def running(self, words: str) -> list[psutil.Process]:
        """Those with these words in their command line."""
        return [process for process in self.left() if words in line(process)]

    def wait_until(self, what: str, condition: Callable[[], object]) -> None:
        """Return when the condition holds; raises ClusterFailed when it does not in time or a
        member has ended.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            ended = [member for member in self.members if member.poll() is not None]
            if ended or time.monotonic() > deadline:
                why = (
                    f"{ended[0].args!r} ended with {ended[0].returncode}"
                    if ended
                    else f"not in {PATIENCE_S:.0f} s"
                )
                raise ClusterFailed(f"{what}: {why}\n{self.last_words()}")
            time.sleep(0.05)

    def last_words(self) -> str:
        """The end of every log."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-2000:]}" for path in logs)

    def kill(self, member: subprocess.Popen[bytes]) -> None:
        """Kill a member on purpose: nobody waits for it any more."""
        self.members.remove(member)
        member.kill()
        member.wait()

    def end(self) -> None:
        """Kill every process of the household."""
        kill_all(self.environment[MARK])
        for member in self.members:
            member.wait()


@contextmanager
def household(folder: Path, **environment: str) -> Iterator[Household]:
    """Processes of a cluster in a folder of their own; all have ended when the block is left,
    however it is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = uuid4().hex
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME") if name in os.environ}
    home = Household(
        folder, {**kept, "HOME": str(folder), "TMPDIR": str(folder), **environment, MARK: mark}
    )
    with _watched(mark):
        try:
            yield home
        finally:
            home.end()


@contextmanager
def _watched(mark: str) -> Iterator[None]:
    """For the time of the block, a process stands by that ends the household if this process
    dies.
    """
    line = [sys.executable, "-P", __file__, mark]
    with subprocess.Popen(line, stdin=subprocess.PIPE, start_new_session=True):
        yield


def marked(mark: str) -> list[psutil.Process]:
    """Live processes that carry this mark, and their descendants."""
    carriers = [process for process in psutil.process_iter() if _carries(process, mark)]
    return list({*carriers, *(child for process in carriers for child in _below(process))})


def kill_all(mark: str) -> None:
    """Kill the processes with this mark; raises ClusterFailed when one survives that."""
    deadline = time.monotonic() + PATIENCE_S
    stopped: set[psutil.Process] = set()
    while (
        new := set(marked(mark)) - stopped
    ):  # all are stopped first, so that none starts another when it sees one die
        signal_all(new, signal.SIGSTOP)
        stopped |= new
    signal_all(stopped, signal.SIGKILL)
    while left := marked(mark):
        if time.monotonic() > deadline:
            raise ClusterFailed(f"these processes do not end: {left}")
        time.sleep(0.02)


def descendants(process: subprocess.Popen[bytes], words: str) -> list[psutil.Process]:
    """The process and those below it whose command line contains these words, parents first."""
    try:
        root = psutil.Process(process.pid)
    except psutil.NoSuchProcess:
        return []
    return [child for child in (root, *_below(root)) if words in line(child)]


def signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to those that still live."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _below(process: psutil.Process) -> list[psutil.Process]:
    try:
        children = process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if is_alive(child)]


def is_alive(process: psutil.Process) -> bool:
    """Whether a process has not ended; it may do so while it is looked at."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def runs(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        return is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def line(process: psutil.Process) -> str:
    """The command line; empty when the process has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == mark)
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # gone, or of another user: not ours
        return False


if __name__ == "__main__":  # stands by: its input ends when the process that started it ends
    sys.stdin.read()
    kill_all(sys.argv[1])
