"""Ranks: a world that the driver starts, seen from the driver, which is no rank itself.

    driver -> rank 0   a line per order, on mpiexec's standard input
    rank 0 -> driver   a line per answer, on mpiexec's standard output

The world lives as long as the engine: a round is one more order. When the driver is gone, however
it went, the kernel tells mpiexec, and kills the ranks on this host with all that they have started.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from hyperslab.engines import EngineOptions, lifeline
from hyperslab.engines.environment import FIRST_SIGNAL, environment, how_it_ended, program
from hyperslab.engines.mpi import mpiexec
from hyperslab.engines.mpi.ending import Dead, first_dead, refusal
from hyperslab.engines.mpi.near import RankDied, death, gone, near
from hyperslab.engines.mpi.rank import MARK, Answer, Order, surveying
from hyperslab.engines.scratched import TOGETHER, words_before
from hyperslab.engines.stopping import why_stopped
from hyperslab.errors import RunStopped

START_LIMIT_S = 120.0
"A cluster's launcher may take its time."
END_LIMIT_S = 2.0
"How long ranks may take to leave MPI, and mpiexec to end those that it is told to ..."
REMOVAL_LIMIT_S = 30.0
"... and their scratch to be removed."
WORDS_NBYTES = 2**16
"What is read of the end of the log."


class Ranks:
    """A world of our own."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self.log = options.folder / "worker.log"
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._ranks: Sequence[Mapping[str, Any]] = ()
        self._is_over = False
        command = mpiexec.command()
        self._name = os.path.basename(command[0])
        worker = program("hyperslab.engines.mpi.rank", [options.workers, *astuple(lifeline.own())])
        if options.scratch:
            worker = [*words_before(options.scratch, options.folder, TOGETHER), *worker]
        end = lifeline.another_end()
        try:
            with open(self.log, "ab") as output:
                self._since = output.tell()
                self._process = subprocess.Popen(
                    [*command, "-n", str(options.workers), *worker],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    pass_fds=[end],
                    start_new_session=True,
                    env={**environment(options.slot_cpus), **mpiexec.ENDING},
                )
            # mpiexec ends its ranks then, also those on other hosts
            lifeline.signal_at_our_end(end, self._process.pid, signal.SIGTERM)
        finally:
            os.close(end)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def survey(self) -> Sequence[Mapping[str, Any]]:
        """What each rank has, when all have started. Raises RunStopped when they cannot."""
        self.order(surveying(self._options.folder))
        deadline = time.monotonic() + START_LIMIT_S
        while (answer := self.answer(0.1)) is None:
            self._require_started()
            if time.monotonic() > deadline:
                raise RunStopped(
                    f"{self._name} has started no ranks within {START_LIMIT_S:.0f} s; see"
                    f" {self.log}"
                )
        if "size" in answer:
            raise RunStopped(
                f"{self._name} and mpi4py's library are of two MPIs, so that its"
                f" {self._options.workers} ranks do not find each other:"
                f" {mpiexec.remedy(self._name)}"
            )
        self._ranks = answer["ranks"]
        return self._ranks

    def order(self, order: Order) -> None:
        """Give all ranks an order."""
        assert self._process.stdin is not None
        with suppress(OSError):  # they are dead, as whoever waits for the answer will find
            self._process.stdin.write(order.line().encode())
            self._process.stdin.flush()

    def answer(self, limit_s: float) -> Answer | None:
        """The next answer; None where none comes in time."""
        try:
            return self._answers.get(timeout=limit_s)
        except queue.Empty:
            return None

    def require_alive(self) -> None:
        """Raise RankDied when a rank has died; mpiexec ends the others then."""
        lost = gone(self._ranks)
        if self._process.poll() is None and not lost:
            return
        dead = self._named()
        status = self._process.poll() or 0  # before we end it
        self.kill()
        if dead is None and status < 0:
            raise self._death_of_launcher(-status)
        if dead is None and len(lost) == 1:
            dead = Dead(lost[0], "has died")
        raise self._death(dead)

    def _named(self) -> Dead | None:
        """The rank that mpiexec says has died; None where it has not noticed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        return first_dead(self._said(), self._ranks)

    def _death_of_launcher(self, number: int) -> RankDied:
        """What a signal to mpiexec comes to, with which its ranks end one after the other."""
        how = how_it_ended(FIRST_SIGNAL + number)
        rest = f"and the ranks of MPI have ended with it; see {self.log}"
        return RankDied(f"{self._name} {how}, {rest}", None)

    def _death(self, dead: Dead | None) -> RankDied:
        rest = f"and MPI cannot go on without it; see {self.log}"
        if dead is None:
            how = f"{self._name} ended with status {self._process.returncode}"
            return RankDied(f"a rank of MPI has died ({how}), {rest}", None)
        return death(f"rank {dead.rank}", self._ranks[dead.rank], f"{dead.how}, {rest}")

    def end(self) -> None:
        """Let all ranks leave; those that do not are ended."""
        if self._is_over:
            return
        limit_s = END_LIMIT_S
        if self._options.scratch:
            limit_s += REMOVAL_LIMIT_S
        self.order(Order("end"))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(limit_s)
        self.kill()

    def kill(self) -> None:
        """End all ranks, whatever they are at, and what their functions have started."""
        if self._is_over:
            return
        self._is_over = True
        if self._process.poll() is None:
            self._process.terminate()
        for number, pid in near(self._ranks).items():
            with suppress(ProcessLookupError):
                if self._ranks[number]["leads"]:
                    os.killpg(pid, signal.SIGKILL)
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(END_LIMIT_S)
        assert self._process.stdin is not None
        with suppress(OSError):  # an order that nobody has read
            self._process.stdin.close()

    def _require_started(self) -> None:
        """Raise RunStopped when mpiexec has ended before its ranks have answered."""
        if self._process.poll() is None:
            return
        self.kill()
        why = why_stopped(self.log, self._since)
        if not why:
            why = refusal(self._said(), self._options.workers, mpiexec.VARIABLE)
        raise RunStopped(
            why
            or f"{self._name} ended with status {self._process.returncode} before its ranks were"
            f" ready; see {self.log}"
        )

    def _listen(self) -> None:
        """Take answers; what else mpiexec prints goes to the log."""
        answers = self._process.stdout
        assert answers is not None
        with answers, open(self.log, "ab", buffering=0) as log:
            for line in answers:
                _, mark, answer = line.partition(MARK.encode())
                if mark:
                    self._answers.put(json.loads(answer))
                else:
                    log.write(line)

    def _said(self) -> str:
        """The end of the log, with all that mpiexec has said if it has ended."""
        if self._process.poll() is not None:
            self._listener.join(END_LIMIT_S)
        with open(self.log, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - WORDS_NBYTES))
            return log.read().decode(errors="replace")
