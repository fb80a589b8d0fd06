"""Tasks by GNU Parallel: a batch is a job, on this host or, by ssh, on others.

GNU Parallel reads the jobs of a round from a file that nobody changes, keeps as many at a time as
there are slots, and records each in its joblog. With stepwise granularity a job is one task, as in
the incrementation of the BigBrain by V. Hayot-Sasson, S. T. Brown and T. Glatard (Performance
benefits of Intel Optane DC persistent memory for the parallel processing of large neuroimaging
data).
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from hyperslab.engines import EngineOptions, stopping
from hyperslab.engines.batches.launcher import CommandEngine
from hyperslab.engines.batches.orders import marks_of, write_secret
from hyperslab.engines.batches.workers import pack_hyperslab, require_able
from hyperslab.engines.environment import FIRST_SIGNAL, bootstrap, how_it_ended
from hyperslab.engines.gnu_parallel import joblog
from hyperslab.engines.gnu_parallel.joblog import Ended, Job
from hyperslab.engines.gnu_parallel.logins import (
    Answer,
    Login,
    ask,
    logins_of,
    python_command,
    require_answers,
)
from hyperslab.engines.gnu_parallel.program import require_parallel, start, version_here
from hyperslab.errors import CONTINUES, RunStopped, UsageError
from hyperslab.trace import Slot

ENGINE = "--engine gnu-parallel"
NO_CONNECTION = 255
"Exit status of ssh when it, and not what it ran, has failed."
SSH_DELAY_S = 0.05
"Pause between two logins: sshd turns some away when more than ten are being made (MaxStartups)."
CLOSE_LIMIT_S = 10.0
MANY = 2
MOST_FAILURES = 101
"Largest exit status of GNU Parallel that counts jobs which have failed."
LOG = "worker.log"
ZIP = "hyperslab.zip"


class Jobs:
    """The jobs of a round, while GNU Parallel runs them."""

    def __init__(self, arguments: Sequence[str], record: Path, marks: Path, log: Path) -> None:
        self._record = record
        self._marks = marks
        self._log = log
        with open(log, "ab") as output:
            self._since = output.tell()
            self._process = start(arguments, subprocess.DEVNULL, output, output)

    def is_over(self, limit_s: float) -> bool:
        """Wait up to so many seconds; True when GNU Parallel has ended. Raises RunStopped when it
        was killed, or its jobs cannot run.
        """
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        self._require_its_own_end()
        self._require_that_jobs_ran()
        return True

    def cancel(self) -> None:
        """End it, and all that it has started."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_LIMIT_S)
        self._process.kill()
        self._process.wait()

    def _require_its_own_end(self) -> None:
        status = self._process.returncode
        if status < 0:
            status = FIRST_SIGNAL - status
        if status > MOST_FAILURES:
            raise RunStopped(f"GNU Parallel {how_it_ended(status)}{self._last_words()}", CONTINUES)

    def _require_that_jobs_ran(self) -> None:
        ended = {job.status for job in joblog.read(self._record)}
        if stopping.STATUS in ended:
            reason = stopping.why_stopped(self._log, self._since)
            raise RunStopped(reason or f"a job of GNU Parallel could not continue: see {self._log}")
        never_began = ended and max(ended) < FIRST_SIGNAL and 0 not in ended
        if never_began and not any(self._marks.glob("*")):
            raise RunStopped(f"GNU Parallel's jobs cannot run the tasks{self._last_words()}")

    def _last_words(self) -> str:
        with open(self._log, "rb") as file:
            file.seek(self._since)
            lines = file.read().decode(errors="replace").strip().splitlines()
        if not lines:
            return ""
        return f" ({lines[-1].strip()}; see {self._log})"


class GnuParallel(CommandEngine):
    """Runs batches as jobs of GNU Parallel."""

    single_steps = True
    batches_per_slot = 3  # a third of a second of a processor, for the start of a Python
    are_shrinking = True

    @staticmethod
    def require(options: EngineOptions) -> None:
        """Raise UsageError where GNU Parallel is missing, or is another program: said before
        anything starts.
        """
        require_parallel(ENGINE)

    @staticmethod
    def programs() -> Mapping[str, str]:
        return {"GNU Parallel": str(version_here())}

    @staticmethod
    def capacity(connect: str) -> tuple[int, int]:
        """(jobs at a time on all hosts, 1). Raises UsageError for a host that can run none."""
        require_parallel(ENGINE)
        try:
            logins = logins_of(connect)
        except ValueError:
            raise UsageError(
                f"--connect {connect}: give ssh:HOST[,HOST...], each as HOST or, for N jobs at a"
                " time, N/HOST"
            ) from None
        _require_each_once(connect, logins)
        try:
            answers = _able(logins, "")
        except RunStopped as reason:
            raise UsageError(f"--connect {connect}: {reason}") from reason
        return sum(_jobs(answer) for answer in answers), 1

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._logins: list[Login] = []
        self._ended: Ended | None = None
        "What the joblog of the latest round says."

    def start(self) -> None:
        """Name the slots; of other hosts, make sure that they can do the job. Raises RunStopped."""
        options = self.options
        if not options.connect:
            jobs = options.workers * options.threads
            self._slots = [Slot(options.host, number, 0) for number in range(jobs)]
            return
        answers = _able(logins_of(options.connect), str(options.folder))
        self._logins = [Login(answer.login.host, _jobs(answer)) for answer in answers]
        if not all(answer.found["hyperslab"] for answer in answers):
            pack_hyperslab(options.folder)
        addresses = [address for answer in answers for address in answer.found["address"]]
        self.serve_clock(next(iter(addresses), None))
        self._slots = _slots(answers)

    def program(self, module: str, given: Sequence[str]) -> Sequence[str]:
        if not self.options.connect:
            return super().program(module, given)
        zipped = str(self.options.folder / ZIP)
        return python_command(bootstrap(module, given, f"sys.path.append({zipped!r})"))

    def launch(self, script: Path, batches: int) -> Jobs:
        marks = marks_of(str(script.with_suffix("")))
        self._leave_lost_hosts()
        record = self.options.folder / f"joblog.{marks.name}.tsv"
        self._ended = Ended(record)
        jobs = script.with_suffix(".jobs")
        lines = [shlex.join(["sh", str(script), str(number)]) for number in range(batches)]
        write_secret(jobs, os.fsencode("".join(f"{line}\0" for line in lines)))
        arguments = ["--arg-file", str(jobs), "--joblog", str(record), *self._places()]
        return Jobs(arguments, record, marks, self.options.folder / LOG)

    def _places(self) -> list[str]:
        """How many jobs at a time, and where; then the command of a job. Its lane is GNU Parallel's
        job slot, which counts over all hosts: where there are several, the driver numbers them.
        """
        command = ["eval", "exec", "{}"]
        if len(self._logins) < MANY:
            command.append("$(({%}-1))")
        if not self._logins:
            return ["--jobs", str(len(self._slots)), *command]
        logins = ",".join(map(str, self._logins))
        return ["--jobs", "100%", "--sshdelay", str(SSH_DELAY_S), "--sshlogin", logins, *command]

    def _leave_lost_hosts(self) -> None:
        """Send no more jobs to hosts that no connection could be made to at the end of the last
        round. Raises RunStopped when none is left.
        """
        self._logins = self._not_lost(is_over=True)

    def look(self) -> None:
        """Raise RunStopped when no host answers any more: on each more jobs than it has at a time
        have failed to connect, one after the other.
        """
        self._not_lost(is_over=False)

    def _not_lost(self, is_over: bool) -> list[Login]:
        """Hosts but for those that are lost, by the latest round. Raises RunStopped when all of
        them are.
        """
        if self._ended is None:
            return self._logins
        if not self._logins:
            return []
        ended = self._ended.by_host()
        left = [
            login
            for login in self._logins
            if not _is_lost(login, ended.get(login.host, []), is_over)
        ]
        if not left:
            raise RunStopped(
                f"no host of {self.options.connect} answers any more: see"
                f" {self.options.folder / LOG}",
                CONTINUES,
            )
        return left

    def how_it_ended(self, batch: str) -> str:
        number = batch.rpartition(".b")[2]
        if self._ended is None:
            return ""
        ended = chain.from_iterable(self._ended.by_host().values())
        found = [job for job in ended if str(job.number) == number]
        if not found:
            return ""
        if found[-1].status == NO_CONNECTION and self._logins:
            return f"was lost with the connection to {found[-1].host}"
        return how_it_ended(found[-1].status)

    def leave(self) -> None:
        records = sorted(self.options.folder.glob("joblog.*.tsv"))
        self._own_times = [time for record in records for time in joblog.own_times(record)]


def _require_each_once(connect: str, logins: Sequence[Login]) -> None:
    """Raise UsageError for a host that is named twice, which GNU Parallel gives the jobs of one."""
    hosts = [login.host for login in logins]
    for host in hosts:
        if hosts.count(host) > 1:
            raise UsageError(
                f"--connect {connect}: {host} is named twice: name it once, as N/{host} for N jobs"
                " at a time"
            )


def _able(logins: Sequence[Login], folder: str) -> list[Answer]:
    """What the hosts answer. Raises RunStopped for one that can run no job."""
    answers = ask(logins, folder)
    require_answers(answers)
    require_able([answer.found for answer in answers], Path(folder))
    return answers


def _is_lost(login: Login, ended: Sequence[Job], is_over: bool) -> bool:
    """Whether a host's latest jobs, one more than it has at a time, all ended without a connection:
    what cuts off those that run is no reason yet, unless the round is over. `ended` has its jobs so
    far.
    """
    latest = [job.status for job in ended[-login.jobs - 1 :]]
    are_enough = is_over or len(latest) > login.jobs
    return are_enough and set(latest) == {NO_CONNECTION}


def _jobs(answer: Answer) -> int:
    return answer.login.jobs or int(answer.found["cpus"])


def _slots(answers: Sequence[Answer]) -> list[Slot]:
    """A slot for each job at a time, numbered on every host, under however many names it goes."""
    slots: list[Slot] = []
    for answer in answers:
        host = answer.found["host"]
        first = sum(slot.host == host for slot in slots)
        slots += [Slot(host, first + number, 0) for number in range(_jobs(answer))]
    return slots
