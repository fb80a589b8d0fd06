"""The driver: runs a pipeline on an engine, keeps its records, and never loses what was done.

Flow: plan -> admission -> lock the output directory -> what earlier submissions did -> rounds of
tasks per stage -> commit -> trace, summary, report. The engine only runs tasks; retries, resume,
progress and records are here, so that they are the same on every engine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hyperslab import engines
from hyperslab.driver import beforehand, replaced, resume
from hyperslab.driver.admission import admit
from hyperslab.driver.directory import STATUS, RunState
from hyperslab.driver.haste import EndsEarly
from hyperslab.driver.manifest import save_manifest
from hyperslab.driver.measured import Moments, agreement, build_trace, trace_so_far
from hyperslab.driver.odd import odd_sentence
from hyperslab.driver.options import Options, chosen, spelled_out
from hyperslab.driver.prepare import Prepared, asked, prepare
from hyperslab.driver.products import Products
from hyperslab.driver.resume import Inherited
from hyperslab.driver.rounds import Rounds
from hyperslab.driver.staging import Staging
from hyperslab.driver.sweeping import sweep
from hyperslab.driver.unbegun import leaving_nothing
from hyperslab.driver.unnamed import in_hand, take_over, unnamed
from hyperslab.driver.warned import warn_of
from hyperslab.engines import EngineOptions
from hyperslab.engines.facts import facts_of
from hyperslab.engines.jobs import Detached
from hyperslab.errors import (
    HyperslabError,
    LocalityWarning,
    OutputBusy,
    RunStopped,
    UsageError,
    in_callers_words,
    told_in_python,
)
from hyperslab.machine import pressure
from hyperslab.plan.compile import with_blocks_in
from hyperslab.plan.journal import Tail, moved_bytes
from hyperslab.plan.pipeline import Pipeline, Write
from hyperslab.plan.settings import Settings
from hyperslab.plan.shipment import Shipment, pack
from hyperslab.plan.written import texts
from hyperslab.report import levels
from hyperslab.report.progress import Progress, Quiet
from hyperslab.storage import fence
from hyperslab.storage.full import why
from hyperslab.storage.location import local_folder
from hyperslab.trace import OwnTime, Trace
from hyperslab.units import show_count

if TYPE_CHECKING:
    from hyperslab.driver.result import Result
    from hyperslab.report.slices import Pictured
    from hyperslab.traffic import Traffic


@spelled_out
@told_in_python
def run(
    pipeline: Pipeline,
    options: Options | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    prepared: Prepared | None = None,
    check: bool = True,
    **settings: Unpack[Settings],
) -> Result:
    """Run a pipeline to its end and return outputs, trace and summary.

    `settings` are those of Options: `run(pipeline, blocks="3x3x3", memory="1GB")`. `out` is where a
    reduction keeps its result and records (a temporary directory if left out). `prepared` is what
    `prepare` has made of this pipeline, so that it is not done twice; other settings than it has
    are refused. Raises UsageError before anything starts, TasksFailed at the end when tasks
    failed (with `check=False` they are only listed in the result), RunStopped when the run cannot
    continue, and KeyboardInterrupt on Ctrl-C; after these three, `resume=True` does only what is
    missing.
    """
    if not isinstance(pipeline, Pipeline):
        raise UsageError(
            f"run() takes a Pipeline, not a {type(pipeline).__name__}: give"
            " Pipeline('scan.nii').map(function).write('out')"
        )
    if prepared is None:
        options = chosen("run", options, settings)
    elif settings or options is None or not prepared.is_of((pipeline, options), out):
        from hyperslab.driver.agreed import agreed  # which few runs need

        options = agreed("run", pipeline, prepared, options, settings, out)
    place = None
    if out is not None:
        place = Path(local_folder(out))
    elif prepared is None and not isinstance(pipeline.end, Write):
        place = Path(tempfile.mkdtemp(prefix="hyperslab-"))
    progress = progress or Quiet()
    prepared = prepared or prepare(pipeline, options, place, tell=progress.tell)
    assert prepared.directory is not None
    admit(prepared.needs, prepared.directory.out)
    warn_of(prepared.dependence, LocalityWarning)
    result = Driver(pipeline, prepared, options, progress).execute()
    warn_of(result.unreported, UserWarning)
    if not check:
        return result
    from hyperslab.driver.result import checked

    return checked(result)


class Driver(Rounds):
    """One submission under way."""

    def __init__(
        self, pipeline: Pipeline, prepared: Prepared, options: Options, progress: Progress
    ) -> None:
        super().__init__(prepared, options, progress)
        self.start_ns = time.monotonic_ns()
        self.before = pressure.sample()
        self.load: dict[str, Any] = {}
        "What the machine was doing until its engine was stopped."
        self.storage: dict[str, Any] = {}
        "Where it reads from and writes to."
        self.provenance: Mapping[str, str] = {}
        "Command, versions and machine, in words."
        self.ready_ns = self.start_ns
        self.value: Any = None
        self.saved: list[Path] = []
        self.state: RunState = "running"
        self.why_stopped = ""
        self.pipeline = pipeline
        self.last_job: tuple[str, ...] = ()
        self.is_left = False
        self.shutdown_ns = 0
        self.own_times: Sequence[OwnTime] = ()
        self.traffic: Traffic | None = None

    def execute(self) -> Result:
        """Own the output directory, run every stage, keep the records whatever happens."""
        tidy = leaving_nothing(self.directory, self.prepared.needs, self.outcomes)
        with ExitStack() as last, tidy:
            last.callback(os.close, self.take())
            return self._run_here()

    def _run_here(self) -> Result:
        """Run every stage in the directory, which is owned."""
        try:
            self.folder = self.begin()
            self.plan = with_blocks_in(self.plan, self.directory.blocks)
            self.inherited = [*self.prepared.inherited, Inherited(self.folder)]
            self.products = Products(self.directory, self.plan)
            self.staging = Staging(self.options, self.prepared, self.folder, self.progress.tell)
            self.tail = Tail(self.folder)
            self.engine = engines.create(self.options.engine, self._engine_options())
            with self._shown():
                return self._carry_out()
        except OSError as error:
            raise RunStopped(
                f"the records of the run cannot be written to {self.directory.root}"
                f" ({why(error, self.directory.root)})",
                "fix that, then use --resume; finished tasks stay done",
            ) from error

    def take(self) -> int:
        """Own the directory; returns the descriptor that holds it until closed. Raises
        OutputBusy.
        """
        made = self.directory.new_parents()
        lock = self.directory.own()
        if made:
            self.progress.tell(made)
        return lock

    def _carry_out(self) -> Result:
        """Run every stage, and keep the records however that ends."""
        try:
            self._run_stages()
            self._name_files()
            self._require_ready_to_end()
            self._save_value()
            self.state = "failed" if self.failures else "done"
            if self.state == "done":
                # nobody will go on with this run
                shutil.rmtree(self._index_folder(), ignore_errors=True)
            result = self._keep_records()
        except BaseException as reason:
            self._stopped(reason)
            raise
        if result.ok:
            self.directory.sweep()
            self.directory.secure(self.folder)
        return result

    def _shown(self) -> AbstractContextManager[None]:
        """The live page until the end of the block, where it is asked for."""
        if not self.options.live:
            return nullcontext()
        from hyperslab.driver import live  # and with it a web server
        from hyperslab.driver.submission import PAGE

        seen = live.Seen(
            self.plan.title, self.folder / PAGE, self.count, self._trace_so_far, self._failures
        )
        return live.shown(seen)

    def _trace_so_far(self) -> Trace:
        """What the slots have recorded; other threads may ask for it, too."""
        moments = Moments(self.start_ns, self.ready_ns, time.monotonic_ns())
        return trace_so_far(
            self.outcomes.copy(),
            [str(slot) for slot in self.engine.slots()],
            self.tail.merging.copy(),
            moments,
            self._named(),
        )

    def _named(self) -> dict[str, Any]:
        """What tasks are called, and levels of commands that wait for one another."""
        stages = self.plan.stages
        named = {"labels": [self.products.label(task.id) for task in self.plan.tasks]}
        if len(stages) == 1 or stages[0].job.commands is None:
            return named
        return {**named, levels.META: [(stage.name, len(stage.tasks)) for stage in stages]}

    def begin(self) -> Path:
        """The folder of the submission, once nobody else writes for an earlier one. Raises
        OutputBusy.
        """
        self.directory.await_workers(self.progress.tell)
        left = {} if self.options.stage_out else unnamed(self.prepared, self.done)
        sweep(self.directory, left, in_hand(self.prepared, self.pipeline))
        if self.prepared.replaces:
            Products(self.directory, self.plan).forget_earlier()
        elif not self.prepared.submissions:
            replaced.drop(self.directory)
        if len(list(self.directory.plans())) != self.prepared.submissions:
            raise OutputBusy(
                f"another run has used {self.directory.place} in the meantime",
                "try again with --resume",
            )
        folder = self.directory.new_submission(resume.record(self.plan, self.done))
        self.takes_over = bool(left)
        take_over(left.values(), folder)
        return folder

    def _stopped(self, reason: BaseException) -> None:
        """Keep what records the disk will take; the reason to stop matters more than they do."""
        if self.is_left:
            return
        self.state = "stopped"
        if self.directory.is_cancelled():
            self.state = "cancelled"
        elif isinstance(reason, HyperslabError):
            self.why_stopped = str(reason)
        elif isinstance(reason, OSError):
            self.why_stopped = why(reason, self.directory.root)
        try:
            self._keep_records()
        except OSError as error:
            reason.add_note(f"the records of the run could not be written: {error}")
            with suppress(OSError):
                self._say_ended(self.state, self.why_stopped)
        except KeyboardInterrupt:  # once more, of somebody who cannot wait for them
            self._say_ended(self.state, self.why_stopped)
            raise

    def _engine_options(self) -> EngineOptions:
        prepared = self.prepared
        slots = (prepared.workers, prepared.threads)
        return EngineOptions(
            self.folder.absolute(),
            *slots,
            task_timeout_s=self.options.task_timeout_s,
            host=prepared.host.name,
            memory_bytes=self.options.memory_bytes or 0,
            connect=self.options.connect,
            most_tasks=max(len(stage.tasks) for stage in self.plan.stages),
            shipment=self.shipment(),
            last_job=self.last_job,
            job_options=texts(self.options.slurm_option),
            heartbeat=self.folder.absolute() / STATUS,
            record_messages=self.options.record_messages,
            scratch=self.options.scratch,
            slot_cpus=engines.slot_cpus(prepared.host, *slots),
        )

    def shipment(self) -> Shipment:
        """The user's code, for workers."""
        return pack(self.pipeline.refs)

    def _run_stages(self) -> None:
        self.products.begin(self.done, resume.results(self.inherited))
        if self.prepared.damaged:
            self.progress.tell(
                f"note       {show_count(self.prepared.damaged, 'task')} will be repeated: the"
                " machine was restarted, or its storage has failed, and may have lost what they"
                " wrote"
            )
        for text in filter(None, (self.plan.note, *self.pipeline.notes, *self.prepared.notes)):
            self.progress.tell(in_callers_words(f"note       {text}"))
        self._index_sources()
        left = sum(task.id not in self.done for task in self.plan.tasks)
        nbytes = sum(t.bytes_read for t in self.plan.tasks if t.id not in self.done)
        self.count.begin(left, len(self.done))
        self.progress.begin(left, nbytes, len(self.done))
        self._say_running()
        try:
            if left or self.goes_on:
                self.plan = self.staging.begin(self.plan, lambda: self.done, self.inherited)
                self._start_engine()
            self.ready_ns = time.monotonic_ns()
            prior = None
            for stage in self.plan.stages:
                prior = self._run_stage(stage, prior)
                if self.failures and stage.is_vital:
                    return
                stage.conclude()
            self._take_all({}, last=True)  # where another driver has seen the last round
            self.value = prior
        except EndsEarly:
            self.engine.cancel()
            self._take_all({}, last=True)
            return
        except Detached:
            self.is_left = True
            raise
        except BaseException:
            self.engine.cancel()
            self.notices.stop()  # there will be no result to tell of them
            raise
        finally:
            # before workers end for whom nobody waits, as those of Spark
            self.load = pressure.between(self.before, pressure.sample())
            ended_ns = time.monotonic_ns()
            self.engine.stop()
            self.shutdown_ns = time.monotonic_ns() - ended_ns
            self.staging.stop(self.is_left)
            self.own_times = self.engine.own_times()
            self.traffic = self.engine.traffic()
            self.notices.end([failure for failure, _ in self.failures.values()])
            if self.prepared.untried and not self.failures:  # which say more
                self.progress.tell(in_callers_words(f"warning    {self.prepared.untried}"))
            self.progress.end()
            if not self.is_left:
                fence.end(self.folder)
                self.products.sweep()
        self._commit()

    def _start_engine(self) -> None:
        """Start the engine; while its workers start, and work, get ready for the end."""
        if facts_of(self.options.engine).in_caller:
            self._look_at_storage()
            self._start()
            return
        parts = (self._get_ready_to_end, self._picture_of_input)
        self.is_ready_to_end, self.of_input = beforehand.begun(parts)
        self._start()

    def _start(self) -> None:
        try:
            self.engine.start()
        except OSError as error:
            raise RunStopped(f"--engine {self.options.engine} could not start: {error}") from error

    def _get_ready_to_end(self) -> None:
        """Do what may be done before the end: most of it is to import what only that needs."""
        self._look_at_storage()

        from hyperslab.driver import submission

        submission.get_ready(self.options.report)
        self.provenance = submission.provenance(self.plan.record(), self.options.engine)

    def _picture_of_input(self) -> Sequence[Pictured] | None:
        from hyperslab.driver.pictured import of_input

        if not self.options.report:
            return None
        return of_input(self.plan.record())

    def _look_at_storage(self) -> None:
        from hyperslab.driver.probed import used_storage

        self.storage = used_storage(self.plan, self.directory.out)

    def _save_value(self) -> None:
        """Write the result of a reduction. Raises RunStopped when the fold's own `save` fails."""
        from hyperslab.driver.submission import save_value

        fold = self.plan.stages[-1].job.load_fold()
        if fold is not None and not self.failures:
            self.saved = save_value(fold, self.value, self.folder / "result", self.directory.out)
            replaced.tidy(self.directory, [path.name for path in self.saved])

    def moments(self) -> Moments:
        """When the run began, could run tasks, and ended."""
        return Moments(self.start_ns, self.ready_ns, time.monotonic_ns() - self.shutdown_ns)

    def _meta(self) -> dict[str, Any]:
        """What a reader of the trace has to know of the run."""
        meta = {
            **self._named(),
            "moved_nbytes": moved_bytes(self.folder),
            "plan": self.plan.fingerprint,
            "run": asked(self.prepared, self.options),
            "load": self.load,
            "storage": self.storage,
            "odd_values": odd_sentence(self.outcomes, self.pipeline, self.products.label),
        }
        if staged := self.staging.record():
            meta["staging"] = staged
        if self.files_named:
            meta["naming"] = {"files": self.files_named, "seconds": self.naming_ns / 1e9}
        return meta

    def _keep_records(self) -> Result:
        """Write result, manifest, trace, summary and report. Raises OSError when there is no room
        for them.
        """
        from hyperslab.driver.result import Output, Result
        from hyperslab.driver.submission import provenance, save_records

        if self.is_ready_to_end is not None:
            wait([self.is_ready_to_end])
        if not self.storage:
            self._look_at_storage()
        if not self.provenance:
            self.provenance = provenance(self.plan.record(), self.options.engine)
        results = {
            i: outcome for i, outcome in resume.results(self.inherited).items() if i in self.done
        }
        outputs = [
            path for i in sorted(results) for path in self.products.paths(results[i])
        ] + self.saved
        self.products.secure(outputs)
        save_manifest(self.directory, self.products.manifest(results, self.saved), self._counts())
        trace = self._trace()
        failures = self._failures()
        ended_early = self._ended_early()
        saved = save_records(
            self.folder,
            trace,
            self.plan.title,
            failures,
            self.provenance,
            self.state,
            self.options.report,
            ended_early,
            self.traffic,
            beforehand.found(self.of_input),
        )
        self._say_ended(self.state, self.why_stopped, ended_early)
        return Result(
            self.state,
            list(map(Output, self.products.there(outputs))),
            self.value,
            failures,
            self._counts()["tasks"],
            trace,
            saved.summary,
            self.folder,
            ended_early,
            len(self.done),
            saved.fault,
            self.staging.unkept(),
            tuple(self.unfinished),
        )

    def _trace(self) -> Trace:
        """All that was recorded of the run, which ends now."""
        from hyperslab.driver.probed import look_up

        moments = self.moments()
        meta = self._meta()
        if queued := self.engine.queued():
            meta["queue"] = asdict(queued)
            moments = moments.ready_at(queued.first_ns)
        slots = [str(slot) for slot in self.engine.slots()]
        trace = build_trace(self.outcomes, slots, self.tail, moments, meta)
        look_up(trace)
        if self.own_times:
            own_record = facts_of(self.options.engine).own_record
            trace.meta["own_times"] = agreement(trace, own_record, self.own_times)
        return trace
