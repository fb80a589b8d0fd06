"""`hyperslab report`: the page of a run, written again from its records; runs side by side; a trace
for Perfetto.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.cli.parse import parse_size
from hyperslab.driver.probed import look_up
from hyperslab.driver.submission import Records, load_records, write_report
from hyperslab.errors import UsageError
from hyperslab.report.compare import answers, letter, names_of, warnings_of, write_comparison
from hyperslab.report.expected import expected, expected_words
from hyperslab.report.failures import failure_headline, grouped, planned_tasks
from hyperslab.report.messages.numbers import Numbers, numbers_of
from hyperslab.report.messages.page import messages_line
from hyperslab.report.perfetto import write_perfetto
from hyperslab.report.verdict import judge
from hyperslab.trace import Trace

Opt = typer.Option


def report(
    run_dir: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR", help="Output directory of a run, or one of its run-NNNN folders."
        ),
    ],
    out: Annotated[
        Path | None,
        Opt(
            "--out",
            "-o",
            help="Page to write; by default report.html or comparison.html with the run's records.",
        ),
    ] = None,
    compare: Annotated[
        list[Path],
        Opt(metavar="RUN...", help="Runs to compare with RUN_DIR, on a separate page."),
    ] = [],  # noqa: B006
    perfetto: Annotated[
        Path | None,
        Opt(help="Also write the trace for https://ui.perfetto.dev: FILE.json or FILE.json.gz."),
    ] = None,
    pictures: Annotated[
        bool, Opt(help="Show slices of the data; leave them out of a page that you pass on.")
    ] = True,
    bandwidth: Annotated[
        str | None,
        Opt(
            help=(
                "Bandwidth of the device that holds the data, such as 500MB (per second); drawn"
                " as a line. By default what 'hyperslab probe' has measured there."
            )
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Say what limited the run in RUN_DIR and write its page: one HTML file that needs no network.

    With --compare RUN... the page compares those runs with RUN_DIR instead.
    """
    first, *others = run_dir
    if others and not compare:
        raise UsageError(
            f"{others[0]}: a report is of one run; to compare, use: report {first} --compare"
            f" {others[0]}"
        )
    if json and compare:
        raise UsageError("--json: is of one run; leave out --compare")
    runs = [load_records(folder) for folder in (first, *compare, *others)]
    for records in runs:
        _tell_device(records.trace, bandwidth)
    if compare:
        _compare(runs, out or runs[0].folder / "comparison.html")
    else:
        page = out or runs[0].folder / "report.html"
        write_report(runs[0], page, pictures)
        told = _tell
        if json:
            told = _say
        told(runs[0], page)
    if perfetto is not None:
        write_perfetto(runs[0].trace, perfetto)
    if perfetto is not None and not json:
        typer.echo(f"perfetto   {perfetto}")
    return 0


def _tell_device(trace: Trace, bandwidth: str | None) -> None:
    """Say in a trace what its device can do: what was typed, else what was probed."""
    if bandwidth is None:
        look_up(trace)
        return
    rate = parse_size("--bandwidth", bandwidth.removesuffix("/s"))
    trace.meta["probe"] = {"read_nbytes_per_s": rate, "write_nbytes_per_s": rate}


def _say(records: Records, page: Path) -> None:
    document.say(
        {
            "title": records.title,
            "state": records.state,
            "page": page,
            "verdict": judge(records.trace, records.summary).findings,
            "summary": records.summary,
            "expected": expected(records.trace, records.summary),
            "messages": _messages(records),
            "provenance": records.facts,
        }
    )


def _messages(records: Records) -> Numbers | None:
    if records.traffic is None:
        return None
    return numbers_of(records.traffic)


def _tell(records: Records, page: Path) -> None:
    if records.failures:
        typer.echo(failure_headline(grouped(records.failures), planned_tasks(records.plan, 0)))
    if records.summary.warning:
        typer.echo(f"warning    {records.summary.warning}\n")
    if records.summary.odd_values:
        typer.echo(f"note       {records.summary.odd_values}\n")
    typer.echo(judge(records.trace, records.summary).paragraph)
    if words := expected_words(records.trace, records.summary):
        typer.echo(f"\nexpected   {words}")
    if numbers := _messages(records):
        typer.echo(f"\nmessages   {messages_line(numbers)}")
    typer.echo(f"\nreport     {page}")


def _compare(runs: Sequence[Records], page: Path) -> None:
    write_comparison(page, runs)
    names = names_of([run.folder for run in runs])
    typer.echo("\n".join(f"{letter(n)}  {name}" for n, name in enumerate(names)))
    typer.echo(
        "\n" + "\n".join([*answers(runs), *(f"Warning: {text}" for text in warnings_of(runs))])
    )
    typer.echo(f"\ncomparison {page}")
