"""What a plan will do and what it needs, as lines for people and as numbers for programs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from hyperslab.cli import document
from hyperslab.driver.admission import Needs, admit
from hyperslab.driver.prepare import Prepared
from hyperslab.errors import DoesNotFit
from hyperslab.plan.compile import Plan
from hyperslab.plan.costs import Operations
from hyperslab.units import show_bytes, show_count

WORTH_TELLING = 1.2
"Number of times that a plan reads its inputs from which on this is shown."
STREAMS_WORTH_TELLING = 2.0
"The same where blocks have values all over a gzip stream."


@dataclass(frozen=True, slots=True)
class Preview:
    """What a plan will do and what it needs; the names are the keys of `--dry-run --json`."""

    plan: str
    "Function and source."
    partition: str
    blocks: int
    largest_block: tuple[int, ...]
    note: str
    "Why the partition is another one than was asked for; '' where it is not."
    tasks: int
    "Tasks to do."
    tasks_done: int
    "Tasks that an earlier run has done."
    read_nbytes: int
    read_operations: int
    times_read: float
    "How often the inputs are read: more than once where blocks overlap, or share a gzip stream."
    why_again: str
    "Why inputs are read more than once; '' where they are not, or hardly."
    written_nbytes: int
    "Bytes of the outputs, and of the records of the tasks."
    written_is_bound: bool
    "Whether less may be written, as compression tells."
    write_operations: int
    files: int
    out: str
    free_nbytes: int
    "Free space where the outputs go."
    workers: int
    threads: int
    processors: int
    processors_from: str
    "What says how many there are."
    tasks_at_a_time: int
    task_nbytes: int
    "Memory of the most demanding task."
    tasks_nbytes: int
    "Memory of all tasks that run at a time."
    allowed_nbytes: int
    "Memory that they may take together."
    interpreters_nbytes: int | None
    "Memory of workers beside their tasks; None where it is not known, as on other machines."
    all_nbytes: int
    available_nbytes: int | None


def preview_of(prepared: Prepared, out: Path) -> Preview:
    """Add up what the tasks that are left will do."""
    needs = prepared.needs
    cut = prepared.plan.summary["partition"]
    reads, writes = _operations(prepared)
    interpreters = None
    available = None
    if needs.machine is not None:
        interpreters = needs.machine.interpreter_bytes
        available = needs.machine.bytes_available
    times = _times_read(prepared.plan)
    return Preview(
        plan=prepared.plan.title,
        partition=cut["rule"],
        blocks=cut["blocks"],
        largest_block=tuple(cut["largest"]),
        note=prepared.plan.note,
        tasks=needs.tasks,
        tasks_done=len(prepared.done),
        read_nbytes=needs.bytes_read,
        read_operations=reads,
        times_read=times,
        why_again=_why_again(prepared.plan, times),
        written_nbytes=needs.bytes_written,
        written_is_bound=needs.compressed,
        write_operations=writes,
        files=needs.files,
        out=str(out),
        free_nbytes=needs.disk_free,
        workers=prepared.workers,
        threads=prepared.threads,
        processors=prepared.host.cpus,
        processors_from=prepared.host.cpus_from,
        tasks_at_a_time=needs.at_a_time,
        task_nbytes=needs.bytes_peak,
        tasks_nbytes=needs.tasks_bytes,
        allowed_nbytes=needs.budget.memory_bytes,
        interpreters_nbytes=interpreters,
        all_nbytes=needs.all_bytes,
        available_nbytes=available,
    )


def _operations(prepared: Prepared) -> tuple[int, int]:
    """Reads and writes of the tasks that are left."""
    reads = 0
    writes = 0
    for stage in prepared.plan.stages:
        left = (task for task in stage.tasks if task.id not in prepared.done)
        more_reads, more_writes = Operations(stage.job).of(left)
        reads += more_reads
        writes += more_writes
    return reads, writes


def _times_read(plan: Plan) -> float:
    """How often a plan reads its inputs; once, where blocks have no halo and no stream is inflated
    again.
    """
    job = plan.stages[0].job
    if not any(job.halo):
        return plan.times_inflated
    held = sum(source.nbytes for sources in job.inputs.values() for source in sources)
    return sum(task.bytes_read for task in plan.stages[0].tasks) / max(1, held)


def _why_again(plan: Plan, times: float) -> str:
    """Why that is more than once, where it is enough to tell."""
    if any(plan.stages[0].job.halo):
        return "because blocks overlap by their halo" if times >= WORTH_TELLING else ""
    if times < STREAMS_WORTH_TELLING:
        return ""
    return "because blocks have values all over a gzip stream: convert it to .nii to read it once"


def say_plan(prepared: Prepared, out: Path, obstacle: str = "", notes: Sequence[str] = ()) -> int:
    """Print what would be done as JSON; exit status 0, or 2 where a run would be refused. Raises
    DoesNotFit when it has said that.
    """
    hindered = obstacle or prepared.obstacle
    told = {
        **asdict(preview_of(prepared, out)),
        "notes": notes,
        "warning": prepared.warning,
        "failing": prepared.failing,
        "obstacle": hindered,
    }
    try:
        admit(prepared.needs, out)
    except DoesNotFit as error:
        document.say({**told, "fits": False, "why_not": str(error)})
        raise
    document.say({**told, "fits": True, "why_not": ""})
    return 2 if hindered else 0


def show_plan(prepared: Prepared, out: Path, obstacle: str = "") -> int:
    """What would be done and what it needs; exit status 0, or 2 where a run would be refused.
    Raises DoesNotFit for what this machine cannot do.

    `obstacle` says what else than `prepared` found would keep a run from beginning.
    """
    for name, text in _shown(prepared, out).items():
        typer.echo(f"{name:<10} {text}")
    if prepared.warning:
        typer.echo(f"warning    {prepared.warning}")
    admit(prepared.needs, out)
    hindered = obstacle or prepared.obstacle
    if not hindered:
        typer.echo(f"fits       {_fits(prepared.needs)}")
    if prepared.failing:
        typer.echo(
            f"but        {prepared.failing} failed whenever it was tried, and may fail on every"
            " block"
        )
    if hindered:
        typer.echo(f"refused    a run would be: {hindered}")
        return 2
    return 0


def _shown(prepared: Prepared, out: Path) -> dict[str, str]:
    now = preview_of(prepared, out)
    rows = _rows(now)
    first = next(prepared.plan.tasks)
    if first.command is None:
        return rows
    return {
        "plan": rows["plan"],
        "tasks": rows["tasks"],
        "command": f"{shlex.join(first.command.argv)}, for {first.command.label} first",
        "reads": f"inputs of {show_bytes(now.read_nbytes)}",
        "writes": f"what commands leave in {{out}}; {show_bytes(now.free_nbytes)} free at {out}",
        "runs on": rows["runs on"],
    }


def _rows(now: Preview) -> dict[str, str]:
    """A plan as rows of a table."""
    tasks = f"{now.tasks} to do"
    if now.tasks_done:
        tasks += f", {now.tasks_done} already done"
    bound = ""
    if now.written_is_bound:
        bound = "at most "
    files = ""
    if now.files:
        files = f" to {show_count(now.files, 'file')}"
    again = ""
    if now.why_again:
        again = f", {now.times_read:.1f} times the input, {now.why_again}"
    return {
        "plan": now.plan,
        "partition": _partition(now),
        "tasks": tasks,
        "reads": (
            f"{show_bytes(now.read_nbytes)} in {show_count(now.read_operations, 'operation')}"
            f"{again}"
        ),
        "writes": (
            f"{bound}{show_bytes(now.written_nbytes)} in "
            f"{show_count(now.write_operations, 'operation')}{files}, "
            f"{show_bytes(now.free_nbytes)} free at {now.out}"
        ),
        "memory": _memory(now),
        "runs on": (
            f"{show_count(now.workers, 'worker')} x {show_count(now.threads, 'thread')} "
            f"({show_count(now.processors, 'processor')} by {now.processors_from})"
        ),
    }


def _partition(now: Preview) -> str:
    largest = "x".join(map(str, now.largest_block))
    text = f"{now.partition}: {show_count(now.blocks, 'block')}, the largest {largest}"
    if now.note:
        text += f"; {now.note}"
    return text


def _memory(now: Preview) -> str:
    """Memory of the tasks and of the interpreters, what they add up to, and what is allowed."""
    each = show_bytes(now.task_nbytes)
    text = f"{show_count(now.tasks_at_a_time, 'task')} at a time, at most {each} each"
    text += f": {show_bytes(now.tasks_nbytes)} of {show_bytes(now.allowed_nbytes)} allowed"
    if now.interpreters_nbytes is None:
        return text
    beside = show_bytes(now.interpreters_nbytes)
    return f"{text}; interpreters {beside}; {show_bytes(now.all_nbytes)} in all"


def _fits(needs: Needs) -> str:
    if needs.machine is None:
        return "yes"
    available = show_bytes(needs.machine.bytes_available)
    return f"yes, {show_bytes(needs.all_bytes)} of {available} available"
