"""Staging: what of a run goes by way of fast tiers, and how its reads take turns.

The driver's part: it makes the areas and removes them, copies inputs ahead of the tasks
(`prefetching`), flushes blocks behind them (`flushing`), stops either where it does not pay, and
says what came of it. A task is done when its blocks are in their files; workers alone decide where
a block goes, by the room there is, so that a tier that is full or gone costs nothing but its use.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.driver.pace import Way
from hyperslab.driver.sweeping import RECORD, sweep_own, tell_mounted
from hyperslab.errors import RunStopped
from hyperslab.plan.command import LOGS, PRIVATE, Commands
from hyperslab.storage.recordfile import save_record
from hyperslab.storage.staging import area
from hyperslab.storage.staging.area import Area
from hyperslab.storage.staging.room import Room, is_compared, keep_free
from hyperslab.storage.turns import Turns
from hyperslab.trace import is_of_staging

if TYPE_CHECKING:
    from hyperslab.arrays.source import ArraySource
    from hyperslab.driver.flushing import Flusher
    from hyperslab.driver.options import Options
    from hyperslab.driver.prefetching import Copying, Prefetcher
    from hyperslab.driver.prepare import Prepared
    from hyperslab.driver.resume import Inherited
    from hyperslab.driver.unkept import Shared, Unkept
    from hyperslab.plan import killed, unread
    from hyperslab.plan.compile import Plan
    from hyperslab.plan.task import Job, Outcome, Task
    from hyperslab.storage.staging.copies import Took

TURNS = "turns"
"Folder of a submission: locks of those who read in turns."
PAYS = 2.0
"A tier on which blocks are not left so many times as fast only costs processor time."
PAYS_TO_COPY = 1.2
"A run that is not so many times as fast with copies of its inputs only has its storage read them."
_JUDGED_NBYTES = 16 * 10**6
_JUDGED = 3
"Bytes, and tasks of each way, after which that is judged."
_MANY = 100
"Tasks that tell as much as so many bytes do."
_ALONE_S = 1.0
"Time after which inputs are copied although it is not known how fast tasks are without that."
_FLUSHED_SHARE = 0.1
"Share of the tasks' memory that blocks may take while they are flushed."
_DIRECTLY = {
    "in": "inputs are read where they are from now on",
    "out": "blocks are written directly from now on",
    "work": "scratch directories are in OUT from now on",
}
_OPTIONS = {"in": "stage_in", "out": "stage_out", "work": "work_tier"}
_WHY = {
    ("in", "full"): "is full",
    ("out", "full"): "is full",
    ("work", "full"): "is full",
    ("in", "gone"): "is gone",
    ("out", "gone"): "is gone",
    ("work", "gone"): "is gone",
    ("in", "slow"): "is hardly faster than the place of the inputs",
    ("out", "slow"): "is hardly faster than the place of the outputs",
    ("out", "behind"): "is flushed to the place of the outputs more slowly than tasks write there",
}
"What has become of a tier, by direction and reason."


class Staging:
    """The staging of one submission."""

    def __init__(
        self, options: Options, prepared: Prepared, folder: Path, tell: Callable[[str], None]
    ) -> None:
        self._options = options
        self._prepared = prepared
        self._folder = folder.absolute()
        self._tell = tell
        self._areas: dict[str, Area] = {}
        self._room: Room | None = None
        self._commands: Commands | None = None
        self._unread: unread.Told | None = None
        self._killed: killed.Told | None = None
        self._turns: Turns | None = None
        self._devices: dict[str, str] = {}
        self._flusher: Flusher | None = None
        self._shared: Shared | None = None
        self._prefetcher: Prefetcher | None = None
        self._notes: dict[tuple[str, str], str] = {}
        self._staged = Way()
        self._direct = Way()
        self._writing = Way()
        "Whole tasks that have written their blocks."
        self._copied = Way()
        self._read = Way()
        self._warm: set[str] = set()
        self._writers: set[str] = set()
        "Slots that have run a task, as far as reading, and writing, is looked at."
        self._alone_until = 0.0
        self._judged_ns = 0

    def begin(
        self, plan: Plan, done: Callable[[], Collection[int]], inherited: Sequence[Inherited]
    ) -> Plan:
        """Make areas and begin to copy; the plan that reads copies. Raises RunStopped.

        `inherited` are the submissions whose results count, this one, too.
        """
        self._take_turns(plan)
        asked = [self._options.stage_in, self._options.stage_out]
        if not self._options.is_elsewhere:
            asked.append(self._options.work_tier)
        tiers = [Path(tier) for tier in asked if tier]
        commands = plan.stages[0].job.commands
        try:
            kept = self._kept(tiers)
            if commands is not None:
                self._begin_commands(commands, kept, inherited)
                return plan
            return self._begun(plan, done, kept)
        except OSError as error:
            if not tiers:
                raise
            named = " and ".join(sorted({str(tier) for tier in tiers}))
            raise RunStopped(
                f"nothing can be staged on {named}: {error.strerror or error}; fix that, or leave"
                " out --stage-in, --stage-out and --work-tier"
            ) from error

    def _kept(self, tiers: Sequence[Path]) -> Mapping[Path, int]:
        """What is to stay free of each tier, where others have left nothing now; the tiers are
        noted.
        """
        if not tiers:
            return {}
        save_record(self._folder / RECORD, {"tiers": sorted({str(tier) for tier in tiers})})
        for tier in set(tiers):
            area.sweep(tier)
        share = 1.0 / len(tiers) if len(set(tiers)) < len(tiers) else 1.0
        memory = self._prepared.needs.all_bytes
        return {tier: keep_free(tier, memory, share) for tier in set(tiers)}

    def _begin_commands(
        self, commands: Commands, kept: Mapping[Path, int], inherited: Sequence[Inherited]
    ) -> None:
        """Make the folders and areas of commands, and name what they make."""
        from hyperslab.driver.flushing import Flusher
        from hyperslab.driver.publishing import Publishing
        from hyperslab.plan import killed, unread

        for name in (LOGS, PRIVATE):
            (self._folder / name).mkdir(exist_ok=True)
        self._room = self._room_on("out", kept)
        self._unread = unread.Told(self._folder, self._tell)
        self._killed = killed.Told(self._folder, self._tell)
        self._commands = replace(
            commands,
            folder=str(self._folder),
            threads=self._prepared.threads,
            scratch=self._options.work_of_nodes,
            kept=os.fspath(self._options.keep_failed),
            work=self._room_on("work", kept),
            copies=self._room_on("in", kept),
            host=self._host_that_syncs,
        )
        directory = self._prepared.directory
        assert directory is not None
        is_call = bool(directory.call)
        publishing = Publishing(directory.out.absolute(), self._folder, inherited, is_call)
        self._shared = publishing.shared
        self._flusher = Flusher(
            self._folder,
            self._prepared.host.name,
            self._prepared.needs.budget.memory_bytes,
            publishing.deliver,
            publishing.forget,
            is_there=publishing.is_there,
            is_shown=self._room is not None,
            slots=self._slots,
        )

    def _room_on(self, name: str, kept: Mapping[Path, int]) -> Room | None:
        """An area on a tier, and how much of that commands may use; None without a tier."""
        tier = getattr(self._options, _OPTIONS[name])
        if not tier or (name == "work" and self._options.work_of_nodes):
            return None
        self._areas[name] = made = area.create(Path(tier), str(self._folder))
        return Room(str(made.path), kept[Path(tier)], at_once=1)

    @property
    def _host_that_syncs(self) -> str:
        """This host, whose slots leave syncing to this driver; '' where another may follow it."""
        if self._options.is_elsewhere:
            return ""
        return self._prepared.host.name

    def _begun(
        self, plan: Plan, done: Callable[[], Collection[int]], kept: Mapping[Path, int]
    ) -> Plan:
        if self._options.stage_out:
            self._begin_flushing(kept)
        if self._options.stage_in:
            return self._begin_copying(plan, done, kept)
        return plan

    def _begin_flushing(self, kept: Mapping[Path, int]) -> None:
        from hyperslab.driver.flushing import Flusher

        tier = Path(self._options.stage_out)
        self._areas["out"] = made = area.create(tier, str(self._folder))
        self._room = Room(str(made.path), kept[tier], self._slots)
        memory = self._prepared.needs.budget.memory_bytes
        host = self._prepared.host.name
        self._flusher = Flusher(self._folder, host, int(memory * _FLUSHED_SHARE))

    def _begin_copying(
        self, plan: Plan, done: Callable[[], Collection[int]], kept: Mapping[Path, int]
    ) -> Plan:
        """Begin to copy; the plan that reads copies."""
        from hyperslab.driver import prefetching

        tier = Path(self._options.stage_in)
        self._areas["in"] = made = area.create(tier, str(self._folder))
        plan = prefetching.with_copies(plan, made.inputs)
        self._alone_until = time.monotonic() + _ALONE_S
        self._prefetcher = prefetching.Prefetcher(
            self._folder,
            self._prepared.host.name,
            prefetching.wanted(plan, done()),
            Room(str(made.path), kept[tier], prefetching.THREADS),
            self._slots,
            done,
            self._copying,
            self._turn,
        )
        return plan

    @property
    def _slots(self) -> int:
        return self._prepared.workers * self._prepared.threads

    def _take_turns(self, plan: Plan) -> None:
        most = self._options.readers_per_device
        if most is None and not self._options.stagger:
            return
        (self._folder / TURNS).mkdir(exist_ok=True)
        self._turns = Turns(self._folder / TURNS, most, self._options.stagger, self._slots)
        folders: dict[str, str] = {}
        for stage in plan.stages:
            for source in (one for each in stage.job.inputs.values() for one in each):
                if source.is_here:
                    folder = os.path.dirname(source.url)
                    device = folders.get(folder) or _device(folder)
                    self._devices[source.url] = folders[folder] = device

    def _turn(self, source: ArraySource) -> AbstractContextManager[None]:
        """What the copying of a file waits for, as its tasks would."""
        turns = self._turns or Turns(self._folder, None, 0.0, 0)
        return turns.taken({self._devices.get(source.url, "")})

    def over(self, job: Job) -> Job:
        """The same job, by way of the fast tier and in turns."""
        if job.commands is not None:
            return replace(job, inputs={}, room=self._room, commands=self._commands)
        room = self._room if job.output is not None else None
        return replace(job, room=room, turns=self._turns, devices=self._devices)

    def take(self, job: Job, task: Task, outcome: Outcome) -> None:
        """Flush what a task has staged."""
        assert self._flusher is not None
        if job.commands is not None:
            self._see_command(task, outcome)
        self._staged.add(outcome, "stage")
        self._writers.add(outcome.slot)
        self._flusher.take(job, task, outcome)

    def _see_command(self, task: Task, outcome: Outcome) -> None:
        """Say where a tier was full, so that a command did without it, and what of its inputs is
        not known.
        """
        assert outcome.ran is not None
        assert task.command is not None
        assert self._unread is not None
        self._unread.see(task.command.inputs, outcome.ran.inputs)
        if self._room is None or outcome.ran.place.startswith(self._room.area):
            return
        self._direct.tasks += 1
        self._direct.nbytes += sum(written.nbytes for written in outcome.outputs)
        if self._room.is_open:
            self._note_full("out", "commands for which it has no room write to OUT")

    def see_read(self, outcome: Outcome) -> None:
        """Count a task that read copies, or opened files itself; not the first one of a slot, which
        has to load what the others find.
        """
        if self._prefetcher is None or is_of_staging(outcome.slot) or not outcome.phases:
            return
        if not _has_run(outcome.slot, self._warm):
            return
        if not any(phase.kind == "open" for phase in outcome.phases):
            self._copied.add_whole(outcome, "read")
        elif self._read.tasks < _JUDGED or not self._prefetcher.prefetched.files:
            self._read.add_whole(outcome, "read")

    def see_direct(self, outcome: Outcome) -> None:
        """Count a task that wrote to its files although blocks go by way of a fast tier."""
        if self._room is None or is_of_staging(outcome.slot):
            return
        before = self._direct.nbytes
        self._direct.add(outcome, "write")
        if outcome.phases and _has_run(outcome.slot, self._writers):
            self._writing.add_whole(outcome, "write")
        self.look()
        nbytes = self._direct.nbytes - before
        is_full = not self._was_tried(outcome, nbytes) or not self._room.holds(nbytes)
        if self._room.is_open and is_full:
            self._note_full("out", "blocks for which it has no room are written directly")

    @property
    def is_busy(self) -> bool:
        """Whether blocks are on their way to their files. Raises RunStopped."""
        return self._flusher is not None and self._flusher.is_busy

    def look(self) -> None:
        """See whether the tiers are still there, and whether they pay. Raises RunStopped."""
        if self._flusher is not None:
            _ = self._flusher.is_busy
        for name, made in self._areas.items():
            if not made.is_there:
                self._note(name, "gone", _DIRECTLY[name])
        if self._commands is not None:
            assert self._killed is not None
            self._killed.look()
            self._see_declined(self._commands)
        if self._prefetcher is not None:
            prefetched = self._prefetcher.prefetched
            if prefetched.full_files or prefetched.refused_files:
                self._note_full("in", "files for which it has no room are read where they are")
        if self._flusher is not None and not self._judged_ns and self._is_known(self._flusher):
            self._judge(self._flusher)

    def _see_declined(self, commands: Commands) -> None:
        """Say where a tier had no room for what commands read, or for their scratch."""
        if commands.copies is not None and commands.copies.has_declined:
            self._note_full("in", "files for which it has no room are read where they are")
        if commands.work is not None and commands.work.has_declined:
            self._note_full("work", "scratch directories for which it has no room are in OUT")

    def _was_tried(self, outcome: Outcome, nbytes: int) -> bool:
        """Whether a task wrote directly for a comparison, as far as can be seen."""
        starts = [phase.start_ns for phase in outcome.phases if phase.kind == "write"]
        is_early = not self._judged_ns or min(starts) < self._judged_ns
        return is_early and is_compared(outcome.task, nbytes)

    def _is_known(self, flusher: Flusher) -> bool:
        """Whether enough blocks went either way, and have arrived, to be compared; the first ones
        of some size go both ways.
        """
        is_little = self._direct.nbytes + self._staged.nbytes < _JUDGED_NBYTES
        if is_little and self._direct.tasks + self._staged.tasks < _MANY:
            return False
        return min(self._writing.tasks, self._staged.tasks, flusher.flushed.blocks) >= _JUDGED

    def _judge(self, flusher: Flusher) -> None:
        """Let blocks go to the tier as far as there is room, or no more of them."""
        self._judged_ns = time.monotonic_ns()
        why = ""
        if self._direct.ns_per_byte < PAYS * self._staged.ns_per_byte:
            why = "slow"
        elif not self._keeps_up(flusher):
            why = "behind"
        if why:
            self._areas["out"].shut()
            self._note("out", why, _DIRECTLY["out"])
        self._areas["out"].end_trial()

    def _keeps_up(self, flusher: Flusher) -> bool:
        """Whether blocks are flushed as fast as the slots get through whole tasks that write them,
        as far as is known.

        Flushing reads back what it has written, for which a storage whose bandwidth is used up has
        no time: the run would wait for it.
        """
        from hyperslab.driver.flushing import THREADS

        flushed = flusher.flushed.ns_per_byte / THREADS
        return self._writing.ns_per_byte / self._slots >= flushed

    def _copying(self, took: Took) -> Copying:
        """Whether to go on with copies, which took so long: first, some tasks read alone."""
        is_known = self._read.tasks >= _JUDGED
        if not is_known and time.monotonic() < self._alone_until:
            return "later"
        if not is_known or self._copied.tasks < _JUDGED:
            return "some"
        if self._pays_to_copy(took):
            return "now"
        self._note("in", "slow", "no more of them are copied")
        return "never"

    def _pays_to_copy(self, took: Took) -> bool:
        """Whether the run is faster with copies, as far as is known.

        Without them the slots take their whole tasks for a byte. With them they take what is left
        of their tasks, or wait for those who copy, whichever is longer.
        """
        from hyperslab.driver.prefetching import THREADS

        alone = self._read.ns_per_byte / self._slots
        copying = took.ns_per_byte / THREADS
        return alone >= PAYS_TO_COPY * max(self._copied.ns_per_byte / self._slots, copying)

    def _note_full(self, name: str, what: str) -> None:
        """Say that a tier takes no more, and why where it is not for want of room; not of one that
        is gone.
        """
        if (name, "full") in self._notes or not self._areas[name].is_there:
            return
        why = area.refusal(self._areas[name].path)
        self._note(name, "full", what, why and f"takes no more ({why})")

    def _note(self, name: str, why: str, what: str, become: str = "") -> None:
        """Say, once of each direction and reason, what has become of staging."""
        if (name, why) not in self._notes:
            tier = getattr(self._options, _OPTIONS[name])
            flag = f"--{_OPTIONS[name].replace('_', '-')}"
            text = f"{flag} {tier} {become or _WHY[name, why]}: {what}"
            self._notes[name, why] = text
            self._tell(text)

    def stop(self, goes_on: bool = False) -> None:
        """End copying and flushing, and remove what is on the tiers, and what commands have not
        finished; `goes_on` says that they do, in jobs for another driver.
        """
        if self._prefetcher is not None:
            self._prefetcher.stop()
        if self._flusher is not None:
            self._flusher.stop()
        left = [place for made in self._areas.values() for place in made.remove()]
        if not goes_on:
            left += sweep_own(self._folder)
        if left:
            tell_mounted(left, self._tell)

    def unkept(self) -> tuple[Unkept, ...]:
        """Files that are gone as others have their names, and differ from these."""
        if self._shared is None:
            return ()
        return tuple(self._shared.differing())

    def record(self) -> Mapping[str, Any]:
        """What came of it, for the trace; {} where nothing was staged."""
        told: dict[str, Any] = {}
        if self._prefetcher is not None:
            told["in"] = {"tier": self._options.stage_in, **self._prefetcher.record()}
        if self._flusher is not None and self._options.stage_out:
            flushed = self._flusher.flushed
            told["out"] = {
                "tier": self._options.stage_out,
                "blocks": flushed.blocks,
                "nbytes": flushed.nbytes,
                "write_s": flushed.write_ns / 1e9,
                "stage_s": self._staged.ns / 1e9,
                "lost": flushed.lost,
                "direct_tasks": self._direct.tasks,
                "direct_nbytes": self._direct.nbytes,
            }
        if told:
            told["notes"] = list(self._notes.values())
            told["is_degraded"] = any(why in ("full", "gone") for _, why in self._notes)
        return told


def _has_run(slot: str, slots: set[str]) -> bool:
    """Whether a slot is one of those that have run a task, which it is from now on: its first one
    had to load what the others find.
    """
    has_run = slot in slots
    slots.add(slot)
    return has_run


def _device(folder: str) -> str:
    """The device of a folder, as a word; '' where it cannot be asked."""
    try:
        return str(os.stat(folder).st_dev)
    except OSError:
        return ""
