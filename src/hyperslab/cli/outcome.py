"""What a plan will do and what a run has done, as the terminal shows it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import typer

from hyperslab.apps.locality import Locality
from hyperslab.cli.telling import told_if_heard
from hyperslab.driver.admission import admit
from hyperslab.driver.prepare import Prepared
from hyperslab.driver.run import Result
from hyperslab.plan.sinks import operations
from hyperslab.report.measures import render
from hyperslab.report.progress import FAILURES_SHOWN
from hyperslab.report.verdict import judge
from hyperslab.units import show_bytes, show_count


def show_plan(prepared: Prepared, out: Path) -> int:
    """What would be done and what it needs; exit status 0. Raises DoesNotFit for what this machine
    cannot do.
    """
    needs, plan = prepared.needs, prepared.plan
    left = [
        (stage.job, task)
        for stage in plan.stages
        for task in stage.tasks
        if task.id not in prepared.done
    ]
    reads, writes = (
        sum(both) for both in zip((0, 0), *(operations(*pair) for pair in left), strict=True)
    )
    partition = plan.summary["partition"]
    tasks = f"{needs.tasks} to do"
    if prepared.done:
        tasks += f", {len(prepared.done)} done already"
    bound = ""
    if needs.compressed:
        bound = "at most "
    largest = "x".join(map(str, partition["largest"]))
    rows = {
        "plan": plan.title,
        "partition": (
            f"{partition['rule']}: {show_count(partition['blocks'], 'block')}, the largest"
            f" {largest}"
        ),
        "tasks": tasks,
        "reads": f"{show_bytes(needs.bytes_read)} in {show_count(reads, 'operation')}",
        "writes": (
            f"{bound}{show_bytes(needs.bytes_written)} in "
            f"{show_count(writes, 'operation')} to {show_count(needs.files, 'file')}, "
            f"{show_bytes(needs.disk_free)} free at {out}"
        ),
        "memory": (
            f"{show_bytes(needs.bytes_peak)} per task at most, {show_bytes(needs.worker_bytes)} per"
            f" worker, {show_bytes(needs.worker_bytes * needs.workers)} in all; allowed"
            f" {show_bytes(needs.budget.memory_bytes)}"
        ),
        "runs on": (
            f"{show_count(prepared.workers, 'worker')} x {show_count(prepared.threads, 'thread')} "
            f"({show_count(prepared.host.cpus, 'processor')} by {prepared.host.cpus_from})"
        ),
    }
    for name, text in rows.items():
        typer.echo(f"{name:<10} {text}")
    admit(needs, out)
    typer.echo("fits       yes")
    return 0


def show_locality(found: Locality) -> int:
    """What a sample says of a function's halo; exit status 0, or 1 where the result depends on the
    blocks.
    """
    with told_if_heard():
        typer.echo("\n".join(found.lines()))
    return 0 if found.ok else 1


def show_result(result: Result, out: Path | str, quiet: bool, verb: str = "run") -> int:
    """What a run has done, and where its records are; exit status 0, or 1 when tasks failed."""
    with told_if_heard():
        _tell_result(result, out, quiet, verb)
    return 0 if result.ok else 1


def _tell_result(result: Result, out: Path | str, quiet: bool, verb: str) -> None:
    if result.failures:
        _show_failures(result, quiet, _remedy(result, out, verb))
    if not quiet:
        if hasattr(result.value, "lines"):
            typer.echo("\n".join(result.value.lines()) + "\n")
        typer.echo(render(result.summary))
        typer.echo(f"\n{judge(result.trace, result.summary).paragraph}")
        typer.echo(f"\noutputs    {show_count(len(result.outputs), 'file')} in {out}")
        typer.echo(f"records    {result.folder.parent}")
        report = f"written by: hyperslab report {shlex.quote(str(result.folder))}"
        if result.page is not None:
            report = str(result.page)
        typer.echo(f"report     {report}")


def _show_failures(result: Result, quiet: bool, remedy: str) -> None:
    """Say which tasks failed, unless the progress has told it already, and what to do."""
    for failed in result.failures if quiet or len(result.failures) > FAILURES_SHOWN else []:
        after = show_count(failed.attempts, "attempt")
        print(f"failed: {failed.label}: {failed.failure.message} (after {after})", file=sys.stderr)
    print(f"{len(result.failures)} of {result.tasks} tasks failed: {remedy}", file=sys.stderr)


def _remedy(result: Result, out: Path | str, verb: str) -> str:
    """What to do about failures; values that a conversion cannot write stay what they are, however
    often it tries.
    """
    if verb == "convert" and all(
        failed.failure.error == "BlockError" for failed in result.failures
    ):
        return (
            "no other attempt can succeed: ask for another --dtype or format, with --overwrite to"
            f" begin anew, or remove what was written with 'hyperslab clean {out}'"
        )
    return (
        "mend the cause, then run again with --resume, which repeats only what is missing; what"
        f" functions printed is in {result.folder / 'worker.log'}"
    )
