"""Hosts: one question to every host of a cluster, through any engine.

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
from pathlib import Path
from typing import Any

from hyperslab import engines
from hyperslab.arrays.slab import Hyperslab
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import slots_of
from hyperslab.engines import EngineOptions
from hyperslab.engines.facts import facts_of
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.host import Host
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome, Task
from hyperslab.plan.written import texts
from hyperslab.storage import fence
from hyperslab.storage.whole import replace_text

Question = Callable[[], Any]
"What a host is asked: a function that returns what JSON has words for, and can be pickled."
ROUNDS = 3
"How often slots are filled, until all hosts have answered."
HELD_S = 10.0
"How long a slot is kept at most for hosts that have not answered."
POLL_S = 0.02
ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class Answers:
    """What hosts have said."""

    by_host: dict[str, Any]
    silent: tuple[str, ...]
    "Hosts of the cluster that no task has come to."


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
        return _asked(question, options, folder)


def reaches_hosts(options: Options) -> bool:
    """Whether tasks may run on other hosts than this one."""
    facts = facts_of(options.engine)
    return bool(options.connect or facts.clusters or facts.batch_system)


def _asked(question: Question, options: Options, folder: Path) -> Answers:
    engine = engines.create(options.engine, _engine_options(options, folder))
    with engine:
        slots = engine.slots()
        hosts = sorted({slot.host for slot in slots})
        if facts_of(options.engine).batch_system:
            hosts = []  # known when the jobs have run
        steps = (Asking(question, str(folder / ANSWERS), tuple(hosts)),)
        answers: dict[str, Any] = {}
        died: list[Outcome] = []
        for number in range(ROUNDS):
            tasks = [_task(number * len(slots) + index) for index in range(len(slots))]
            with closing(engine.run(tasks, steps, None)) as outcomes:
                died += [outcome for outcome in outcomes if outcome is not None]
            answers = _answers(folder)
            if answers and answers.keys() >= set(hosts):
                break
    _require_answers(answers, died, folder)
    silent = sorted(set(hosts) - answers.keys())
    return Answers({host: answers[host]["said"] for host in sorted(answers)}, tuple(silent))


def _require_answers(answers: dict[str, Any], died: Sequence[Outcome], folder: Path) -> None:
    """Raise RunStopped for a question that failed, and for one that nobody answered."""
    for host, answer in answers.items():
        if "error" in answer:
            raise RunStopped(f"{host} cannot answer: {answer['error']}")
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
            replace_text(own, json.dumps({"host": host, **self._answer()}))
        end = time.monotonic() + HELD_S
        while time.monotonic() < end and not all(self._path(one).exists() for one in self.hosts):
            time.sleep(POLL_S)
        return Outcome(task.id, task.attempt, "done")

    def _path(self, host: str) -> Path:
        return Path(self.folder, f"{host}.json")

    def _answer(self) -> dict[str, Any]:
        try:
            return {"said": self.question()}
        # told by the driver, in a sentence
        except Exception as error:  # noqa: BLE001
            return {"error": f"{type(error).__name__}: {error}"}
