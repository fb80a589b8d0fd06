"""Rounds: attempts at the tasks of a submission, and what has come of them so far.

A stage is tried in rounds: every task once, then those that failed, as often as `--retries` says.
What slots have recorded is read from the journal while a round goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.driver import preindex, resume, unseen
from hyperslab.driver.directory import RunState, save_status
from hyperslab.driver.haste import EndsEarly, Haste
from hyperslab.driver.notices import Notices
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import Prepared
from hyperslab.driver.products import Products
from hyperslab.driver.resume import Inherited
from hyperslab.driver.staging import Staging
from hyperslab.engines import Engine
from hyperslab.plan.compile import Stage
from hyperslab.plan.failing import OUT_OF_MEMORY
from hyperslab.plan.failure import DIED, Failure
from hyperslab.plan.journal import SlotJournal, Tail, load_partials
from hyperslab.plan.steps import StageMerge, conclude, merge_of, steps_of
from hyperslab.plan.task import Job, Outcome, Task, retried, with_prior
from hyperslab.report.failures import Failed, failed
from hyperslab.report.progress import Count, Progress

if TYPE_CHECKING:
    from hyperslab.driver.naming import Told
    from hyperslab.report.slices import Pictured

POLL_INTERVAL_S = 0.1
STATUS_INTERVAL_S = 1.0
FLUSH_POLL_S = 0.02
UNRECORDED_ROUNDS = 10
"""How often tasks are done again, at no charge, whose worker died after them but before it had
recorded them.
"""


class Rounds:
    """The tasks of one submission; whoever runs them sets the fields without a value."""

    folder: Path
    inherited: Sequence[Inherited]
    products: Products
    tail: Tail
    engine: Engine
    staging: Staging

    def __init__(self, prepared: Prepared, options: Options, progress: Progress) -> None:
        assert prepared.directory is not None
        self.plan = prepared.plan
        self.prepared = prepared
        self.options = options
        self.progress = progress
        self.count = Count()
        self.files_named = self.naming_ns = 0
        "Files that have got their names after the last task, and the time that this took."
        self.directory = prepared.directory
        self.outcomes: list[Outcome] = []
        self.failures: dict[int, tuple[Failure, int]] = {}
        self.notices = Notices(progress)
        self.haste = Haste(options.fail_fast, lambda: 1)
        self.done = set(prepared.done)
        self.goes_on = False
        self.takes_over = False
        "Whether there is something that an earlier driver has not named."
        self.is_ready_to_end: Future[None] | None = None
        "Once this has come to something; None where nobody gets ready beforehand."
        self.unfinished: Sequence[str] = ()
        "Sentences on the files of a run whose tasks have failed: which are there, and which not."
        self.of_input: Future[Sequence[Pictured] | None] | None = None
        "Picture of the input, where it is drawn before the end."
        self._job: Job | None = None
        self._polled_at = self._saved_at = 0.0

    def _index_sources(self) -> None:
        """Index the gzip files that several tasks read; the plan is one over indexed files then."""
        folder = self._index_folder()
        limit = self.prepared.needs.budget.per_slot
        self.plan = preindex.index_sources(
            self.plan, self.done, folder, limit, self.progress.tell, self._check_cancelled
        )

    def _index_folder(self) -> Path:
        return (self.directory.root / preindex.FOLDER).absolute()

    def _run_stage(self, stage: Stage, prior: Any) -> Any:
        """All tasks of a stage, with retries; returns the fold's finished result."""
        job = replace(with_prior(stage.job, prior), debug=self.options.debug)
        self._job = job = self.staging.over(job)
        fold = job.load_fold()
        merge = merge_of(job)
        steps = steps_of(job, self.options.granularity == "stepwise")
        pending: Sequence[Task] = [task for task in stage.tasks if task.id not in self.done]
        has_begun = len(pending) < len(stage.tasks)
        self.haste = Haste(self.options.fail_fast, lambda: len(self.engine.slots()), has_begun)
        for attempt in range(self.options.retries + 1):
            if not pending:
                break
            self._run_round(
                self.engine, pending, steps, merge, last=attempt == self.options.retries
            )
            pending = [
                self._again(task)
                for task in pending
                if task.id not in self.done and not self._is_final(task)
            ]
        missing = [task for task in stage.tasks if task.id not in self.done]
        if fold is None or missing:
            return None
        for _ in range(UNRECORDED_ROUNDS):
            # a batch that had been given up may have saved what overlaps others
            if not (left := resume.lacking(self.inherited, stage.tasks)):
                break
            self._run_round(self.engine, left, steps, merge, last=True)
        self._require_ready_to_end()
        return conclude(fold, resume.whole_partials(self.inherited, stage.tasks))

    def _name_files(self) -> None:
        """Let the files that are complete have their names, where tasks of others have failed; what
        is handed over once all is there has none before.
        """
        if not self.failures or self.prepared.hands_over or not self.products.makes_volumes:
            return
        from hyperslab.driver.complete import name_complete  # which most runs do without

        with self._naming() as told:
            self.unfinished = name_complete(
                self.directory, self.products, self.inherited, self.done, told
            )

    def _commit(self) -> None:
        """Let all files have their names, once no attempt that was given up may still write."""
        self.directory.await_workers(self.progress.tell)
        results: Mapping[int, Outcome] = {}
        if self.plan.stages[-1].job.output:
            results = resume.results(self.inherited)
        with self._naming() as told:
            self.products.commit(results, self.options.overwrite, told)

    @contextmanager
    def _naming(self) -> Iterator[Told]:
        """A block in which files get their names, of which those are told who watch the run."""

        def told(done: int, files: int) -> None:
            self.count.named(done, files)
            self.progress.named(done, files)
            self.files_named = files

        began_ns = time.monotonic_ns()
        try:
            yield told
        finally:
            self.naming_ns += time.monotonic_ns() - began_ns
            self.progress.end()

    def _require_ready_to_end(self) -> None:
        """Wait until nothing is imported beside what is called next, which may be the user's, and
        may fork. Raises what getting ready has come to.
        """
        if self.is_ready_to_end is not None and self.of_input is not None:
            wait([self.of_input])
            self.is_ready_to_end.result()

    def _again(self, task: Task) -> Task:
        """A task for another attempt: alone on its host where memory was not enough for it and
        those beside it.
        """
        again = retried(task)
        if task.command is None or task.id not in self.failures:
            return again
        failure, _ = self.failures[task.id]
        return replace(again, is_alone=failure.error == OUT_OF_MEMORY)

    def _is_final(self, task: Task) -> bool:
        return task.id in self.failures and self.failures[task.id][0].permanent

    def _run_round(
        self,
        engine: Engine,
        tasks: Sequence[Task],
        steps: Sequence[Any],
        merge: StageMerge | None,
        last: bool,
    ) -> None:
        """One attempt at every task; afterwards each is done or has a failure."""
        by_id = {task.id: task for task in tasks}
        own = SlotJournal(self.folder, "driver", f"a{tasks[0].attempt}.{tasks[0].id}")
        try:
            left = tasks
            if self.goes_on or self.takes_over:
                self._await_flush(by_id, last)
                left = self._unaccounted(tasks, merge)
            for _ in range(UNRECORDED_ROUNDS):
                if not left:
                    break
                with closing(engine.run(left, steps, merge)) as outcomes:
                    for outcome in outcomes:
                        if outcome is not None:
                            own.record(outcome)
                            own.flush()
                        self._look(by_id, last, now=self.haste.is_watching)
                self._await_flush(by_id, last)
                left = self._unaccounted(tasks, merge)
            for task in left:
                reason = Failure(
                    DIED,
                    "the worker process died before it recorded the task's result",
                    "",
                )
                own.record(Outcome(task.id, task.attempt, "lost", reason, slot="driver"))
        finally:
            own.close()
        self._look(by_id, last, now=True)

    def _await_flush(self, by_id: dict[int, Task], last: bool) -> None:
        """Look at the journal until all that tasks have staged is in their files, or lost."""
        self._look(by_id, last, now=True)
        while self.staging.is_busy:
            time.sleep(FLUSH_POLL_S)
            self._look(by_id, last)
        self._look(by_id, last, now=True)

    def _unaccounted(self, tasks: Sequence[Task], merge: StageMerge | None) -> list[Task]:
        """Tasks that nobody has said anything about; a saved partial speaks for those it holds."""
        if merge is not None:
            ids = [task.id for task in tasks]
            held = {i for p in load_partials([(self.folder, None)], ids) for i in p.tasks}
            # what is in no partial that counts is not done
            self.done = (self.done - set(ids)) | held
            for task_id in held & self.failures.keys():
                del self.failures[task_id]
        said = {
            (o.task, o.attempt)
            for o in self.outcomes
            if o.status != "staged" and (merge is None or o.status != "done")
        }
        return [
            task
            for task in tasks
            if task.id not in self.done and (task.id, task.attempt) not in said
        ]

    def _look(self, by_id: dict[int, Task], last: bool, now: bool = False) -> None:
        """Read the journal, show progress, notice a request to stop. Raises RunStopped, EndsEarly
        when the rest is not worth trying.
        """
        moment = time.monotonic()
        if not now and moment - self._polled_at < POLL_INTERVAL_S:
            return
        self._polled_at = moment
        self._take_all(by_id, last)
        self.staging.look()
        self.notices.tell_due()
        self._check_cancelled()
        if moment - self._saved_at > STATUS_INTERVAL_S:
            self._say_running()
        if self.haste.reason:
            raise EndsEarly(self.haste.reason)

    def _say_running(self) -> None:
        self._saved_at = time.monotonic()
        save_status(self.folder, "running", self._counts())

    def _say_ended(self, state: RunState, why_stopped: str, ended_early: str = "") -> None:
        told = {"ended_early": ended_early, "why_stopped": why_stopped}
        save_status(self.folder, state, {**self._counts(), **told})

    def _take_all(self, by_id: dict[int, Task], last: bool) -> None:
        for outcome in self.tail.poll():
            known = unseen.told(outcome, self._job, by_id.get(outcome.task))
            self._take(known, by_id, last)

    def _check_cancelled(self) -> None:
        self.directory.require_not_cancelled()

    def _take(self, outcome: Outcome, by_id: dict[int, Task], last: bool) -> None:
        self.outcomes.append(outcome)
        task = by_id.get(outcome.task)
        if outcome.status in ("done", "staged"):
            self.staging.see_read(outcome)
        if outcome.status == "staged":
            if task and self._job and outcome.task not in self.done:
                self.staging.take(self._job, task, outcome)
            return
        if outcome.status == "done":
            self.staging.see_direct(outcome)
            if outcome.task not in self.done:  # an engine may run a batch twice
                nbytes = 0
                if task:
                    nbytes = task.bytes_read
                self.count.advance(nbytes)
                self.progress.advance(nbytes)
            self.done.add(outcome.task)
            self.failures.pop(outcome.task, None)
        elif outcome.failure is not None and outcome.task not in self.done:
            self.failures[outcome.task] = (outcome.failure, outcome.attempt + 1)
            one = failed(self.products.label(outcome.task), outcome.failure, 1)
            self.notices.take(one, outcome.failure, last)
        self.haste.take(
            outcome, last or (outcome.failure is not None and outcome.failure.permanent)
        )

    def _counts(self) -> dict[str, Any]:
        total = sum(1 for _ in self.plan.tasks)
        return {"tasks": total, "done": len(self.done), "failed": len(self.failures)}

    def _failures(self) -> list[Failed]:
        return [
            failed(self.products.label(i), why, attempts)
            for i, (why, attempts) in sorted(self.failures.copy().items())
        ]

    def _ended_early(self) -> str:
        """Why tasks were left out; '' where all were tried, or the run was stopped."""
        counts = self._counts()
        if counts["done"] + counts["failed"] == counts["tasks"]:
            return ""
        return self.haste.reason
