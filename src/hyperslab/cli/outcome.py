"""What a run has done, as the terminal shows it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hyperslab import formats
from hyperslab.cli.telling import is_debugging, mention, told_if_heard
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.printed import says_more
from hyperslab.driver.result import Result, told_of_scratch
from hyperslab.engines.facts import facts_of
from hyperslab.report.circumstances import staged
from hyperslab.report.expected import expected_words
from hyperslab.report.failures import (
    GROUPS_SHOWN,
    failure_count,
    flags_to_resume,
    group_lines,
    grouped,
    kept_words,
)
from hyperslab.report.measures import headline, numbers
from hyperslab.report.verdict import judge
from hyperslab.units import show_bytes, show_count

if TYPE_CHECKING:
    from hyperslab.apps.locality import Locality
    from hyperslab.driver.continuing import Submitted

MOST_COUNTED_NBYTES = 2**24
"Bytes of a log whose lines are counted; of a larger one its size is told."


def show_locality(found: Locality) -> int:
    """What a sample says of a function's halo; exit status 0, or 1 where the result depends on the
    blocks.
    """
    with told_if_heard():
        typer.echo("\n".join(found.lines()))
    return 0 if found.ok else 1


def show_result(
    result: Result, out: Path | str, quiet: bool, verb: str = "run", *, verbose: bool = False
) -> int:
    """What a run has done, and where its records are; exit status 0, or 1 when tasks failed."""
    with told_if_heard():
        _tell_result(result, out, quiet, verb, verbose)
    return 0 if result.ok else 1


def _tell_result(result: Result, out: Path | str, quiet: bool, verb: str, verbose: bool) -> None:
    if result.failures:
        _show_failures(result, _remedy(result, out, verb))
    _tell_warnings(result)
    warning = getattr(result.value, "warning", "")
    if quiet and warning:
        mention(f"warning    {warning}")
    if not quiet:
        if hasattr(result.value, "lines"):
            typer.echo("\n".join(_lines_of(result.value, warning)) + "\n")
        typer.echo("\n".join(_told(result, verbose)))
        if result.printed is not None and not result.failures:
            typer.echo(f"printed    {_printed(result, result.printed, out)}")
        _tell_staging(result)
        typer.echo(f"outputs    {_outputs(result, out, verb)}")
        folder = _as_given(result.folder, out)
        typer.echo(f"records    {folder.parent}")
        report = f"not written; write it with: hyperslab report {shlex.quote(str(folder))}"
        if result.page is not None:
            report = str(_as_given(result.page, out))
        typer.echo(f"report     {report}")


def _tell_warnings(result: Result) -> None:
    """Say what is to be known of a run also where it is to be quiet."""
    for text in (*result.unfinished, result.unreported, result.summary.odd_values):
        if text:
            mention(f"warning    {text}")
    if result.unkept:
        from hyperslab.driver.unkept import unkept_lines

        for line in unkept_lines(result.unkept):
            mention(line)
    for note in told_of_scratch(result.folder):
        mention(f"warning    {note}")


def _lines_of(value: Any, warning: str) -> list[str]:
    """What a result says of itself."""
    lines: list[str] = value.lines()
    if warning:
        lines.append(f"warning    {warning}")
    return lines


def _as_given(path: Path, out: Path | str) -> Path:
    """A path of the run's records: from the current directory on, where OUT was given so."""
    if Path(out).is_absolute():
        return path.absolute()
    return Path(os.path.relpath(path))


def _printed(result: Result, log: Path, out: Path | str) -> str:
    """How many lines the functions of a run have printed, and where they are."""
    who = "the function"
    if also := facts_of(result.trace.meta["run"]["engine"]).also_logs:
        who = f"the function or {also}"
    nbytes = log.stat().st_size
    amount = show_bytes(nbytes)
    if nbytes <= MOST_COUNTED_NBYTES:
        amount = show_count(len(log.read_bytes().splitlines()), "line")
    return f"{amount}, by {who}: {_as_given(log, out)}"


def _outputs(result: Result, out: Path | str, verb: str) -> str:
    """The files that there are now, in words."""
    if _is_replacing(result) and not result.outputs:
        return f"none: what was in {out} stays until all that replaces it is there"
    if not formats.is_file_name(str(out)):
        return f"{show_count(len(result.outputs), 'file')} in {out}"
    if result.outputs:
        return str(out)
    if _is_in_vain(result, verb):
        return f"none: {out} is not complete"
    return f"none: {out} is not complete, what is done of it is kept for --resume"


def _is_in_vain(result: Result, verb: str) -> bool:
    """Whether tasks have failed at values that fail whenever they are tried."""
    errors = {one.error for one in result.failures}
    return verb == "convert" and errors == {"BlockError"}


def _is_replacing(result: Result) -> bool:
    """Whether a run has ended before it replaced what was there."""
    directory = RunDirectory.of_records(result.folder.absolute().parent)
    return directory is not None and directory.replaced.is_file()


def show_submitted(left: Submitted, out: Path, quiet: bool) -> int:
    """What was left to jobs of a batch system, and how to follow it; exit status 0."""
    place = shlex.quote(str(out))
    if not quiet:
        typer.echo(f"submitted  {show_count(left.tasks, 'task')}, as jobs of {left.system}")
        typer.echo(f"records    {left.folder.parent}")
        typer.echo(f"next       hyperslab wait {place}, or status or cancel, from any host")
    return 0


def _tell_staging(result: Result) -> None:
    for text in staged(result.trace.meta):
        typer.echo(f"staging    {text}")


def _told(result: Result, verbose: bool) -> list[str]:
    """What was done, how long that took, what limited it, what to change and how sure that is, or
    how many tasks failed, whose reasons standard error has; with the numbers and the evidence, if
    asked for.
    """
    title = result.trace.meta["run"]["title"]
    verdict = judge(result.trace, result.summary)
    answer = headline(result.summary)
    if result.failures:
        answer = failure_count(grouped(result.failures), result.tasks)
    lines = [f"{title}: {answer}"]
    if verbose:
        return [*lines, *numbers(result.summary), *_expected(result), f"\n{verdict.paragraph}\n"]
    if result.failures:
        return lines
    if verdict.cause:
        lines.append(f"cause      {verdict.cause}")
    if verdict.remedy:
        lines.append(f"remedy     {verdict.remedy}")
    if verdict.caution:
        lines.append(f"note       {verdict.caution}")
    return lines


def _expected(result: Result) -> list[str]:
    """How long its bytes take on its storage, where that was probed."""
    words = expected_words(result.trace, result.summary)
    if words:
        return [f"\nExpected: {words}."]
    return []


def _show_failures(result: Result, remedy: str) -> None:
    """Say which tasks failed, equal ones in one line with where, and what to do."""
    groups = grouped(result.failures)
    lines = []
    for group in groups[:GROUPS_SHOWN]:
        lines += group_lines(group, with_traceback=is_debugging())
    if len(groups) > GROUPS_SHOWN:
        more = show_count(len(groups) - GROUPS_SHOWN, "other reason")
        lines.append(f"and {more}; the report lists all of them")
    failed = f"{len(result.failures):,} of {show_count(result.tasks, 'task')} failed"
    if result.ended_early:
        failed += f", and the run ended early: {result.ended_early}"
    print("\n".join([*lines, f"{failed}; {remedy}"]), file=sys.stderr)


def _remedy(result: Result, out: Path | str, verb: str) -> str:
    """What to do about failures; values that a conversion cannot write stay what they are, however
    often it tries.
    """
    if _is_in_vain(result, verb):
        clean = "clean --all" if result.outputs else "clean"
        return (
            "another attempt would fail too: choose another --dtype or format with --overwrite to"
            f" start over, or remove what was written with 'hyperslab {clean} {out}'"
        )
    has_function = verb == "run"
    flags = " ".join(flags_to_resume(result.failures, result.done, has_function))
    kept = kept_words(result.failures, result.done, has_function)
    keep_going = ""
    if result.ended_early and verb == "run":
        keep_going = "with --keep-going it tries all tasks"
    printed = ""
    own_lines = facts_of(result.trace.meta["run"]["engine"]).own_lines
    if result.printed is not None and says_more(result.printed, result.failures, own_lines):
        printed = f"the output of functions is in {_as_given(result.printed, out)}"
    if _is_replacing(result) and verb == "run":
        flags += " instead of --overwrite"
    advice = (
        f"fix the cause, then run the same command with {flags}, which does only what is missing"
    )
    return "; ".join(filter(None, (advice, kept, keep_going, printed)))
