"""The page about engines: its marked blocks and its pictures, filled with what was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import engine_tables as tables
from benchmarks.costs import middle, of
from benchmarks.schedule import JOBS, LOCK_JOBS
from benchmarks.stacked_bars import Bar, draw
from benchmarks.trial import HAND, Measured

TIMES, LOCK = "engines-times.svg", "engines-lock.svg"
TIME_COLOURS = {
    "start-up": "#c9ced6",
    "tasks": "#e69f00",
    "ending": "#cc79a7",
    "records": "#56b4e9",
}
LOCK_COLOURS = {"on a processor": "#e69f00", "queued for one": "#c9ced6", "blocked": "#d55e00"}


def blocks(measured: Sequence[Measured], about: dict[str, str]) -> dict[str, str]:
    """The text of every marked block by name."""
    volume = [
        f"`{job}`,"
        f" {tables.size_words(measured, 'volume', job)}:\n\n{tables.volume_table(measured, job)}"
        for job in JOBS
    ]
    lock = [
        f"`{job}`,"
        f" {tables.size_words(measured, 'lock', job)}:\n\n{tables.lock_table(measured, job)}"
        for job in LOCK_JOBS
    ]
    return {
        "circumstances": tables.circumstances(about),
        "judgements": tables.judgements(measured),
        "volume": "\n\n".join(
            [f"![Where the time of a run goes, engine by engine]({TIMES})", *volume]
        ),
        "costs": tables.costs_table(measured),
        "growth": tables.growth_table(measured),
        "lock": "\n\n".join(
            [
                f"![What threads did in compute phases]({LOCK})",
                *lock,
                tables.lock_gains(measured),
                f"What the verdicts say:\n\n{tables.lock_sentences(measured)}",
            ]
        ),
    }


def write(page: Path, measured: Sequence[Measured], about: dict[str, str]) -> None:
    """Fill the page's blocks, and draw its pictures beside it. Raises ValueError for a page that
    lacks a block.
    """
    page.write_text(
        filled(page.read_text(encoding="utf-8"), blocks(measured, about)), encoding="utf-8"
    )
    (page.parent / TIMES).write_text(_times_picture(measured), encoding="utf-8")
    (page.parent / LOCK).write_text(_lock_picture(measured), encoding="utf-8")


def filled(text: str, new: Mapping[str, str]) -> str:
    """The text with what stands between `<!-- measured: NAME -->` and `<!-- end -->` replaced."""
    for name, block in new.items():
        opening = f"<!-- measured: {name} -->"
        pattern = re.compile(rf"({re.escape(opening)}\n).*?(\n<!-- end -->)", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise ValueError(f"the page needs one block {opening} ... <!-- end -->")
        text = pattern.sub(lambda found, block=block: f"{found[1]}\n{block}\n{found[2]}", text)  # type: ignore[misc]
    return text


def _times_picture(measured: Sequence[Measured]) -> str:
    bars = []
    for job in JOBS:
        bars.append(Bar(job))
        for engine in (HAND, *tables.engines_of(measured)):
            runs = of(measured, part="volume", job=job, engine=engine)
            values = (
                lambda m: m.startup_s,
                lambda m: m.run_s,
                lambda m: m.ending_s,
                lambda m: m.records_s,
            )
            bars.append(Bar(engine, [middle(runs, value) for value in values]))
    return draw("Where the time of a run goes", "s", TIME_COLOURS, bars)


def _lock_picture(measured: Sequence[Measured]) -> str:
    bars = []
    for job in LOCK_JOBS:
        bars.append(Bar(f"{job} (processes x threads)"))
        for label, runs in tables.lock_runs(measured, job):
            values = (lambda m: m.cpu_share, lambda m: m.queued_share, lambda m: m.blocked_share)
            bars.append(Bar(label, [100 * middle(runs, value) for value in values]))
    return draw("Time of threads in compute phases", "%", LOCK_COLOURS, bars)
