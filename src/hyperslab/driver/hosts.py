"""Hosts: one question to every host of a cluster, or one thing that they do together, through any
engine.

An engine promises that tasks run, not where. So there is a task for every slot, and each of them,
once it has answered for its host, keeps its slot until all hosts have answered. Answers are files
in a folder that driver and workers share, as every engine needs one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hyperslab import engines
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.company import Company, Left
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import slots_of
from hyperslab.engines import EngineOptions
from hyperslab.engines.facts import facts_of
from hyperslab.errors import HyperslabError, RunStopped, UsageError
from hyperslab.machine.host import Host
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome, Task
from hyperslab.plan.written import texts
from hyperslab.storage import fence
from hyperslab.storage.whole import replace_text

Question = Callable[[], Any]
"What a host is asked: a function that returns what JSON has words for, and can be pickled."
Act = Callable[[Company], Any]
"What a host does in the company of others: a function as a Question is."
Making = Callable[[tuple[str, ...], int], "Asking | Meeting"]
"What makes the step of all tasks, of the hosts that are known and the number of tasks."
ROUNDS = 3
"How often slots are filled, until all hosts have answered."
HELD_S = 10.0
"How long a slot is kept at most for hosts that have not answered."
POLL_S = 0.02
ANSWERS = "answers"
MEETING = "meeting"
AGREED = "agreed"


@dataclass(frozen=True, slots=True)
class Answers:
    """What hosts have said."""

    by_host: dict[str, Any]
    silent: tuple[str, ...]
    "Hosts of the cluster that no task has come to, or none in time."


def ask_hosts(
    question: Question, options: Options, place: str | os.PathLike[str] | None = None
) -> Answers:
    """Ask every host that the engine of these options has workers on, by the engine's own tasks.

    `place` is a folder that all hosts see, where a folder is made for the time of the question; the
    current directory if left out. Raises UsageError, and RunStopped where the workers cannot do the
    job or the question fails on a host. The question is asked here and now where the engine has no
    other hosts.
    """
    if not reaches_hosts(options):
        return Answers({socket.gethostname(): question()}, ())
    with _folder(Path(place or Path.cwd())) as folder:
        answers = str(folder / ANSWERS)
        return _asked(
            lambda hosts, slots: Asking(question, answers, hosts), ROUNDS, options, folder
        )


def meet_hosts(act: Act, options: Options, place: str | os.PathLike[str] | None = None) -> Answers:
    """Have every host do its part of something at the same time; what each has found.

    As `ask_hosts`, but all begin when all are there: a host that no task has come to by then takes
    no part, and is named. Where one fails, all end; RunStopped or UsageError says why.
    """
    with _folder(Path(place or Path.cwd())) as folder:
        (folder / MEETING).mkdir()
        return _asked(
            lambda hosts, slots: Meeting(act, str(folder), hosts, slots), 1, options, folder
        )


def reaches_hosts(options: Options) -> bool:
    """Whether tasks may run on other hosts than this one."""
    facts = facts_of(options.engine)
    return bool(options.connect or facts.clusters or facts.batch_system)


def _asked(make: Making, rounds: int, options: Options, folder: Path) -> Answers:
    """Answers of tasks that fill the slots of an engine so many times, until all hosts have
    answered.
    """
    engine = engines.create(options.engine, _engine_options(options, folder))
    with engine:
        slots = engine.slots()
        hosts = sorted({slot.host for slot in slots})
        if facts_of(options.engine).batch_system:
            hosts = []  # known when the jobs have run
        steps = (make(tuple(hosts), len(slots)),)
        answers: dict[str, Any] = {}
        died: list[Outcome] = []
        for number in range(rounds):
            tasks = [_task(number * len(slots) + index) for index in range(len(slots))]
            with closing(engine.run(tasks, steps, None)) as outcomes:
                died += [outcome for outcome in outcomes if outcome is not None]
            answers = _answers(folder)
            if answers and answers.keys() >= set(hosts):
                break
    _require_answers(answers, died, folder)
    silent = sorted({*hosts, *_came(folder)} - answers.keys())
    return Answers({host: answers[host]["said"] for host in sorted(answers)}, tuple(silent))


def _require_answers(answers: dict[str, Any], died: Sequence[Outcome], folder: Path) -> None:
    """Raise RunStopped for a question that failed, and for one that nobody answered; UsageError
    where that is what the host met.
    """
    failed = {host: answer for host, answer in answers.items() if "error" in answer}
    for host in sorted(failed, key=lambda host: failed[host]["kind"] == "left"):
        sentence = f"{host} cannot answer: {failed[host]['error']}"
        if failed[host]["kind"] == "usage":
            raise UsageError(sentence)
        raise RunStopped(sentence)
    if answers:
        return
    outcomes = [*died, *Tail(folder).poll()]
    why = next((one.failure.message for one in outcomes if one.failure), "no task has run")
    raise RunStopped(f"no host has answered: {why}")


def _engine_options(options: Options, folder: Path) -> EngineOptions:
    host = Host.here()
    workers, threads = slots_of(options, host)
    return EngineOptions(
        folder=folder,
        workers=workers,
        threads=threads,
        host=host.name,
        connect=options.connect,
        memory_bytes=options.memory_bytes or 0,
        most_tasks=workers * threads,
        job_options=texts(options.slurm_option),
    )


@contextmanager
def _folder(place: Path) -> Iterator[Path]:
    """A folder in which an engine can work, like that of a submission; it goes with the
    question. Raises UsageError where none can be made.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=".hyperslab-hosts-", dir=place))
    except OSError as error:
        raise UsageError(
            f"{place} cannot hold the answers of the hosts ({error.strerror}): start the command"
            " in a folder that all of them see"
        ) from error
    try:
        for part in ("journal", "partials", ANSWERS):
            (folder / part).mkdir()
        fence.raise_fence(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _task(number: int) -> Task:
    """A task without data."""
    return Task(number, 0, Hyperslab((0,), (1,)), ((0, 0),), (), (), 0, 0, 0)


def _answers(folder: Path) -> dict[str, Any]:
    found = {}
    for path in (folder / ANSWERS).glob("*.json"):
        answer = json.loads(path.read_text(encoding="utf-8"))
        found[answer["host"]] = answer
    return found


def _came(folder: Path) -> set[str]:
    """Hosts that have come to a meeting, also too late to take part."""
    return {path.name.partition("@")[2] for path in (folder / MEETING).glob("part@*")}


@dataclass(frozen=True, slots=True)
class Asking:
    """The step of such a task, on a worker."""

    question: Question
    folder: str
    hosts: tuple[str, ...]
    "Hosts to wait for; (): they are not known."

    def __call__(self, task: Task) -> Outcome:
        """Answer for this host unless it has been done, and keep the slot for the others."""
        host = socket.gethostname()
        own = self._path(host)
        if not own.exists():
            replace_text(own, json.dumps({"host": host, **_answer(self.question)}))
        end = time.monotonic() + HELD_S
        while time.monotonic() < end and not all(self._path(one).exists() for one in self.hosts):
            time.sleep(POLL_S)
        return Outcome(task.id, task.attempt, "done")

    def _path(self, host: str) -> Path:
        return Path(self.folder, f"{host}.json")


def _answer(question: Question) -> dict[str, Any]:
    """What a host says, or why it cannot."""
    try:
        return {"said": question()}
    except Left as error:
        return {"error": str(error), "kind": "left"}
    except UsageError as error:
        return {"error": str(error), "kind": "usage"}
    except HyperslabError as error:
        return {"error": str(error), "kind": "stopped"}
    # told by the driver, in a sentence
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}", "kind": "stopped"}


@dataclass(frozen=True, slots=True)
class Meeting:
    """The step of a task by which its host takes part in something, on a worker."""

    act: Act
    folder: str
    expected: tuple[str, ...]
    "Hosts to wait for; (): they are not known, and all tasks are waited for."
    tasks: int

    def __call__(self, task: Task) -> Outcome:
        """Take part for this host, if no other task does; else keep the slot until all begin."""
        host = socket.gethostname()
        self._mark(f"task{task.id}@{host}")
        is_ours = self._mark(f"part@{host}")
        hosts = self._agreed(host)
        if is_ours and host in hosts:
            company = Company(self._place, host, hosts)
            answer = _answer(partial(self._take_part, company))
            own = Path(self.folder, ANSWERS, f"{host}.json")
            replace_text(own, json.dumps({"host": host, **answer}))
        return Outcome(task.id, task.attempt, "done")

    def _take_part(self, company: Company) -> Any:
        with company.kept():
            return self.act(company)

    @property
    def _place(self) -> Path:
        return Path(self.folder, MEETING)

    def _mark(self, name: str) -> bool:
        """Make a file; whether it was not there before."""
        try:
            (self._place / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _agreed(self, host: str) -> list[str]:
        """Hosts that take part: those that are there when all are, or when time is up; one task
        decides. Raises RunStopped where it has not.
        """
        end = time.monotonic() + HELD_S
        names = os.listdir(self._place)
        while AGREED not in names and time.monotonic() < end and not self._are_all_there(names):
            time.sleep(POLL_S)
            names = os.listdir(self._place)
        if self._mark("deciding"):
            there = sorted({name.partition("@")[2] for name in names if name.startswith("part@")})
            replace_text(self._place / AGREED, json.dumps(there))
        end = time.monotonic() + HELD_S
        while AGREED not in os.listdir(self._place):
            if time.monotonic() > end:
                raise RunStopped(f"{host} waits in vain for another host to begin")
            time.sleep(POLL_S)
        found: list[str] = json.loads((self._place / AGREED).read_text(encoding="utf-8"))
        return found

    def _are_all_there(self, names: Sequence[str]) -> bool:
        if self.expected:
            return all(f"part@{host}" in names for host in self.expected)
        return sum(name.startswith("task") for name in names) >= self.tasks
