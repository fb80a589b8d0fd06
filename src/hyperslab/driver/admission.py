"""Admission: does a plan fit this machine? The numbers that --dry-run prints, and the refusal when
it does not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab import formats
from hyperslab.arrays.sink import ArraySink
from hyperslab.blocks.writing.forms import form_of
from hyperslab.errors import DoesNotFit
from hyperslab.plan.compile import Budget, Plan
from hyperslab.plan.task import Volume
from hyperslab.units import enough_bytes, show_bytes, show_count

JOURNAL_BYTES_PER_TASK = 2048
RECORD_FILES = 20
"Files and folders of a run's records, about."
RECORDS_NBYTES = RECORD_FILES * 4096
"Bytes on disk of these, about: a block each of most file systems."
CODECS_DIFFER = 2
"One compression makes values no smaller than another does by more than this factor, as a rule."
_SMALLER = {
    "run": "smaller blocks (--block-shape, --partition bytes=...)",
    "convert": "smaller --chunks or --shards where the new file has them",
    "bids": "",
}
_LARGER = {
    "run": "blocks, or --keep volume",
    "convert": "blocks, --chunks or --shards",
    "bids": "tasks (--per participant)",
}
"What helps, by the options of a command."
_HARDLY_LESS = "(smaller blocks would hardly need less)"
_MORE_MACHINE = f"a machine with more memory {_HARDLY_LESS}"


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory of the machine that tasks run on."""

    bytes_available: int
    interpreter_bytes: int
    "What workers that are to be started take beside their tasks."


@dataclass(frozen=True, slots=True)
class Halo:
    """What the halo costs the most demanding task."""

    bytes_alone: int
    "Bytes that a task with a single voxel would take, about."
    remedy: str
    "What makes it smaller."


@dataclass(frozen=True, slots=True)
class Needs:
    """What a plan will use, and what there is."""

    tasks: int
    "Left to do."
    bytes_read: int
    bytes_written: int
    bytes_peak: int
    "Bytes that the most demanding task takes."
    budget: Budget
    workers: int
    files: int
    "Files that will be created."
    disk_free: int
    inodes_free: int | None
    "None on file systems that do not count them."
    compressed: bool = False
    "True when the outputs may well be smaller than bytes_written."
    bytes_least: int = 0
    "What they take at least, about: bytes_written itself unless they are compressed."
    folders: int = 0
    "Directories that will be created for the files."
    verb: str = "run"
    "The command whose options the remedies name."
    halo: Halo | None = None
    "None where blocks are read without one."
    is_automatic: bool = False
    "True when the planner chose the blocks, as small as saves memory."
    machine: Machine | None = None
    "None where tasks run on machines of others, or it is not known."

    @property
    def least_slots(self) -> int:
        """Slots of a single worker, which share the memory however few workers there are."""
        return max(1, self.budget.slots // max(1, self.workers))

    @property
    def at_a_time(self) -> int:
        """Tasks that may run at the same time."""
        return min(self.budget.slots, self.tasks)

    @property
    def tasks_bytes(self) -> int:
        """Memory of all tasks that run at the same time, each at its peak."""
        return self.at_a_time * self.bytes_peak

    @property
    def all_bytes(self) -> int:
        """The same, with the interpreters of the workers."""
        if self.machine is None:
            return self.tasks_bytes
        return self.tasks_bytes + self.machine.interpreter_bytes


def examine(
    plan: Plan,
    budget: Budget,
    workers: int,
    out: Path,
    done: Collection[int] = (),
    verb: str = "run",
) -> Needs:
    """Add up what the tasks that are not done will need."""
    left = [task for task in plan.tasks if task.id not in done]
    output = plan.stages[-1].job.output
    volumes: tuple[Volume, ...] = ()
    if output:
        volumes = output.volumes
    place = next(folder for folder in (out, *out.parents) if folder.exists())
    disk = os.statvfs(place)
    written = sum(task.bytes_written for task in left)
    written += JOURNAL_BYTES_PER_TASK * len(left)
    if any(form_of(volume.sink).is_copied(*volume) for volume in volumes):
        written *= 2
    names = next((task.outputs for task in left if task.outputs), ())  # which end as all others
    compressed = any(map(_is_compressed, names)) or any(_may_shrink(sink) for sink, _ in volumes)
    least = written
    if compressed:
        least = min(written, int(_least_share(plan) * written))
    files = sum(len(task.outputs) for task in left)
    if left:
        files += sum(form_of(sink).files(sink, len(left)) for sink, _ in volumes)
    inodes_free = None
    if disk.f_files:
        inodes_free = disk.f_favail
    return Needs(
        tasks=len(left),
        bytes_read=sum(task.bytes_read for task in left),
        bytes_written=written,
        bytes_peak=max((task.bytes_peak for task in left), default=0),
        budget=budget,
        workers=workers,
        files=files,
        disk_free=disk.f_bavail * disk.f_frsize + _allocated(plan),
        inodes_free=inodes_free,
        compressed=compressed,
        bytes_least=least,
        folders=sum(form_of(sink).folders(sink) for sink, _ in volumes if left),
        verb=verb,
        halo=halo_of(plan, max((task.bytes_peak for task in left), default=0)),
        is_automatic=plan.summary["partition"]["rule"].startswith("auto"),
    )


def halo_of(plan: Plan, bytes_peak: int) -> Halo | None:
    """What the halo of a plan costs its most demanding task."""
    job = plan.stages[0].job
    if not any(job.halo):
        return None
    largest = max((partition.largest for partition in plan.partitions), key=math.prod)
    pairs = zip(largest, job.halo, strict=True)
    share = math.prod((1 + 2 * h) / (n + 2 * h) for n, h in pairs)
    remedy = "a smaller --halo"
    with_halo = [step.ref for step in job.steps if any(step.halo)]
    if all(ref.is_ours for ref in with_halo):
        remedy = f"other parameters of {with_halo[0].name}, for a smaller halo"
    return Halo(int(share * bytes_peak), remedy)


def _least_share(plan: Plan) -> float:
    """What part of their size compressed outputs are at least, by how well the source's own values
    are compressed.
    """
    job = plan.stages[0].job
    held = sum(source.nbytes for sources in job.inputs.values() for source in sources)
    is_compressed = all(source.codecs for sources in job.inputs.values() for source in sources)
    if not is_compressed or not held or job.steps:
        return 0
    stored = sum(source.nbytes_stored for sources in job.inputs.values() for source in sources)
    return stored / held / CODECS_DIFFER


def _is_compressed(name: str) -> bool:
    """Whether files of this name are compressed, whatever is asked for."""
    suffix = formats.suffix_of(name)
    return suffix is not None and suffix.is_compressed


def _may_shrink(sink: ArraySink) -> bool:
    return bool(sink.codecs)


def _allocated(plan: Plan) -> int:
    """Bytes on disk of volumes that an interrupted run has already made room for."""
    output = plan.stages[-1].job.output
    if output is None:
        return 0
    partials = {Path(partial) for _, partial in output.volumes}
    return sum(path.stat().st_blocks * 512 for path in partials if path.exists())


def _less_for_a_slot(needs: Needs) -> str:
    """What makes each task need less memory than its slot has, or gives the slot more."""
    budget = needs.budget
    each = needs.bytes_peak * needs.least_slots
    more = []
    if each <= budget.memory_bytes:
        more.append("fewer --workers")
        if _fits_machine(needs, needs.workers):
            more.append("more --memory")
    else:
        more += _slots_or_memory(needs, each)
    if needs.verb == "bids":  # which has no --memory
        more = ["fewer --workers"]
    return _remedies(needs, budget.per_slot, more) or _MORE_MACHINE


def _slots_or_memory(needs: Needs, each: int) -> list[str]:
    """What lets a task fit where a worker with all its threads, which takes `each` bytes, does not:
    fewer threads, or memory. Of more than the machine has only where nothing else helps: tasks that
    are fewer than slots do not take it.
    """
    budget = needs.budget
    fewer = []
    if needs.bytes_peak <= budget.memory_bytes:
        fewer = _fewer_threads(needs, needs.bytes_peak * needs.workers <= budget.memory_bytes)
    of_all = needs.bytes_peak * budget.slots
    memory = []
    if _fits_machine(needs, needs.workers) and not (fewer and _is_beyond(of_all, needs)):
        memory.append(f"--memory {enough_bytes(of_all)} or more")
    is_worth_it = needs.workers > 1 and not (fewer and _is_beyond(each, needs))
    if is_worth_it and _fits_machine(needs, workers=1):
        memory.append(f"--workers 1 and --memory {enough_bytes(each)} or more")
    return fewer + memory


def _fewer_threads(needs: Needs, is_enough: bool) -> list[str]:
    """The advice to take fewer threads, which alone may be enough, where workers have several."""
    if needs.least_slots == 1:
        return []
    return ["fewer --threads" if is_enough else "fewer --workers and --threads"]


def _is_beyond(nbytes: int, needs: Needs) -> bool:
    """Whether the machine is known not to have so much memory."""
    return needs.machine is not None and nbytes > needs.machine.bytes_available


def _fits_machine(needs: Needs, workers: int, threads: int = 0) -> bool:
    """Whether the machine has the memory of the tasks of so many workers, and of these; each has as
    many threads as it has, or so many.
    """
    machine = needs.machine
    if machine is None:
        return True
    at_a_time = min((threads or needs.least_slots) * workers, needs.tasks)
    beside = machine.interpreter_bytes * workers // max(1, needs.workers)
    return at_a_time * needs.bytes_peak + beside <= machine.bytes_available


def _less_for_the_machine(needs: Needs, machine: Machine) -> str:
    """What makes the tasks that run at a time need less memory than the machine has."""
    more = []
    if needs.workers > 1 and _fits_machine(needs, workers=1):
        more.append("fewer --workers")
    elif _fits_machine(needs, workers=1, threads=1):
        more += _fewer_threads(needs, _fits_machine(needs, needs.workers, threads=1))
    return _remedies(needs, machine.bytes_available // needs.at_a_time, more) or _MORE_MACHINE


def _remedies(needs: Needs, limit_nbytes: int, more: Sequence[str]) -> str:
    """What makes each task need less memory than a limit, and what gives it more, in words; ''
    where nothing does.
    """
    halo = needs.halo
    if halo is not None and halo.bytes_alone > limit_nbytes:
        machine = needs.machine
        if machine is not None and halo.bytes_alone > machine.bytes_available:
            more = []
        return f"{_either(halo.remedy, *more)} {_HARDLY_LESS}"
    if needs.is_automatic and needs.verb == "run":
        return f"{_either(*more)} {_HARDLY_LESS}" if more else ""
    return _either(_SMALLER[needs.verb], *more)


def _either(*remedies: str) -> str:
    """Remedies of which one is enough, in words."""
    *others, last = [remedy for remedy in remedies if remedy] or [""]
    if not others:
        return last
    return f"{', '.join(others)}, or {last}"


def admit(needs: Needs, out: Path) -> None:
    """Raise DoesNotFit, with the number and the remedy, for a plan that this machine cannot
    carry.
    """
    if needs.bytes_peak > needs.budget.per_slot:
        raise DoesNotFit(
            f"a task needs {show_bytes(needs.bytes_peak)} of memory but its slot has "
            f"{show_bytes(needs.budget.per_slot)} ({show_bytes(needs.budget.memory_bytes)} for "
            f"{show_count(needs.budget.slots, 'slot')}): use {_less_for_a_slot(needs)}"
        )
    if needs.machine is not None and needs.all_bytes > needs.machine.bytes_available:
        raise DoesNotFit(
            f"{show_count(needs.at_a_time, 'task')} at a time and their interpreters need"
            f" {show_bytes(needs.all_bytes)} of memory ({show_bytes(needs.tasks_bytes)} and"
            f" {show_bytes(needs.machine.interpreter_bytes)}) but this machine has"
            f" {show_bytes(needs.machine.bytes_available)} available: use"
            f" {_less_for_the_machine(needs, needs.machine)}"
        )
    if needs.bytes_least > needs.disk_free:
        about = ""
        if needs.compressed:
            about = "about "
        raise DoesNotFit(
            f"the outputs take {about}{show_bytes(needs.bytes_least)} but {out} has "
            f"{show_bytes(needs.disk_free)} free: free some space or choose another output"
        )
    if needs.bytes_least + RECORDS_NBYTES > needs.disk_free:
        outputs = f"outputs of {show_bytes(needs.bytes_least)}"
        if not needs.bytes_least:
            outputs = "outputs whose size is not known yet"
        raise DoesNotFit(
            f"the records of the run take about {show_bytes(RECORDS_NBYTES)} beside {outputs},"
            f" but {out} has {show_bytes(needs.disk_free)} free: free some space or choose another"
            " output"
        )
    created = needs.files + needs.folders + RECORD_FILES
    if needs.inodes_free is not None and created > needs.inodes_free:
        folders = ""
        if needs.folders:
            folders = f" in {show_count(needs.folders, 'folder')}"
        raise DoesNotFit(
            f"the run makes {show_count(needs.files, 'file')}{folders}, and {RECORD_FILES} for its"
            f" records, but the file system of {out} has room for only"
            f" {show_count(needs.inodes_free, 'more file')}: use larger {_LARGER[needs.verb]}"
        )
