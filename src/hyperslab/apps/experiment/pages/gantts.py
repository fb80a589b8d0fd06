"""Pictures of trials: the run page of each, and a small Gantt chart and the running tasks of one
trial of every cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.apps.experiment.trials.traces import trace_of
from hyperslab.driver.submission import load_records, write_report
from hyperslab.errors import HyperslabError
from hyperslab.report.curves import PHASES, running
from hyperslab.report.html import PART_COLOURS
from hyperslab.report.thumbnail import Axis, thumbnail
from hyperslab.storage.whole import sweep
from hyperslab.trace import Trace

PAGE = "report.html"
HEIGHT = 60
WIDTH = 1000
HINT = (
    "One trial of each cell, all on one axis of time: a lane for every slot, then the number of"
    " busy slots. Each trial has a page of its own, to which the table of trials leads."
)


def write_trial_pages(directory: ExperimentDirectory, attempts: Sequence[Attempt]) -> None:
    """Write the run page of every trial that has records and no page yet."""
    for attempt in attempts:
        folder = directory.trial(attempt.number, attempt.attempt)
        if (folder / PAGE).exists() or not (folder / "trace.parquet").is_file():
            continue
        sweep(folder / PAGE)
        try:
            write_report(load_records(folder), folder / PAGE, has_pictures=False)
        except (HyperslabError, OSError, ValueError):  # it stays without
            continue


def page_of(directory: ExperimentDirectory, attempt: Attempt) -> str:
    """Address of a trial's page from that of the experiment; '' where there is none."""
    page = directory.trial(attempt.number, attempt.attempt) / PAGE
    if not page.exists():
        return ""
    return str(page.relative_to(directory.root))


def gantt_section(directory: ExperimentDirectory, results: Sequence[CellResult]) -> str:
    """A small picture of one trial of every cell, folded away; '' without traces."""
    traces = dict(_traces(directory, results))
    if not traces:
        return ""
    axis = Axis(list(traces.values()))
    blocks = "".join(
        f"<details><summary>{escape(name)}</summary>\n{thumbnail(trace, axis, name)}\n"
        f"{running_svg(trace, axis)}</details>\n"
        for name, trace in traces.items()
    )
    key = "".join(
        f'<span><i style="background:{PART_COLOURS[part]}"></i>{words}</span>'
        for part, words in PHASES.items()
    )
    return (
        f'<section>\n<h2>Trials over time</h2>\n<p class="hint">{HINT}</p>\n'
        f'<div class="key">{key}</div>\n{blocks}</section>'
    )


def _traces(
    directory: ExperimentDirectory, results: Sequence[CellResult]
) -> Iterator[tuple[str, Trace]]:
    """The trace of the first trial of every cell that can be read."""
    for result in results:
        for attempt in result.done:
            trace = trace_of(directory, attempt)
            if trace is not None:
                yield result.cell.name, trace
                break


def running_svg(trace: Trace, axis: Axis) -> str:
    """Number of busy slots over time by phase, stacked, on an axis."""
    curve = running(trace)
    slots = max(1, len(trace.slots))
    below = [0.0] * (len(curve.edges) - 1)
    parts = []
    for phase, values in curve.values.items():
        if not values.any():
            continue
        top = [low + float(value) for low, value in zip(below, values, strict=True)]
        path = _area(curve.edges.tolist(), below, top, slots, axis)
        parts.append(f'<path d="{path}" fill="{PART_COLOURS[phase]}"/>')
        below = top
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%"'
        f' role="img"><title>busy slots of {slots}</title>{"".join(parts)}</svg>'
    )


def _area(
    edges: Sequence[float], low: Sequence[float], high: Sequence[float], slots: int, axis: Axis
) -> str:
    """Outline between two step functions, as a path of SVG."""
    upper = _steps(edges, high, slots, axis)
    lower = _steps(edges, low, slots, axis)
    return f"M{'L'.join([*upper, *reversed(lower)])}Z"


def _steps(edges: Sequence[float], values: Sequence[float], slots: int, axis: Axis) -> list[str]:
    corners = []
    for n, value in enumerate(values):
        y = HEIGHT * (1 - value / slots)
        corners += [
            f"{axis.column(edges[n]):.1f} {y:.1f}",
            f"{axis.column(edges[n + 1]):.1f} {y:.1f}",
        ]
    return corners
