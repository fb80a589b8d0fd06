"""A trace as Chrome's trace event JSON, which https://ui.perfetto.dev and chrome://tracing open.

The format is that of "Trace Event Format" (Google, 2016), in the form in which Perfetto's importer
takes every event:

- one process per worker and one thread per slot, used or not, with their names and order in
  metadata events ("M");
- one complete event ("X") per span, with task, attempt, bytes and processor times; those of lost
  attempts say so in name, category and colour. Events of a thread lie apart or one inside the
  other, or the importer drops them;
- a process of the whole run before them, with the engine's start-up and the counters ("C").

Numbers of processes and threads are unique in the file, because importers look threads up by theirs
alone; none is 0, which is the kernel's idle thread.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from hyperslab.report.curves import throughput
from hyperslab.report.summary import Window, all_lanes, window
from hyperslab.storage.whole import replacement
from hyperslab.trace import NO_TASK, Span, Trace

Event: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """One line of the picture: a thread of a process."""

    pid: int
    tid: int
    process: str
    thread: str
    spans: Sequence[Span] = ()


RUN = Track(1, 2, "run", "engine start-up")


def write_perfetto(trace: Trace, path: Path) -> None:
    """Write a trace for the Perfetto UI, gzipped when the name ends in .gz; the file appears whole
    or not at all.

    Times are microseconds from the start of the run, with decimals that keep the nanoseconds. Of
    `trace.meta` it reads what `window` reads, `labels` (the names of the tasks by their number) and
    `plan`.
    """
    about = {
        "program": "hyperslab",
        "origin": trace.origin,
        "plan": str(trace.meta.get("plan", "unknown")),
    }
    with replacement(path) as file:
        file.write('{"displayTimeUnit":"ms",\n"traceEvents":[')
        for number, event in enumerate(_events(trace)):
            file.write((",\n" if number else "\n") + _json(event))
        file.write(f'\n],\n"otherData":{_json(about)}}}\n')


def _json(value: Mapping[str, Any]) -> str:
    """ASCII without control characters: older importers refuse even DEL, which JSON allows."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("\x7f", "\\u007f")


def _events(trace: Trace) -> Iterator[Event]:
    when = window(trace)
    tracks = [RUN, *_tracks(trace)]
    yield from _names(tracks)
    startup = _complete(RUN, "start-up", "start-up", when.start_ns, when.ready_ns, when)
    yield startup | {"cname": "startup"}
    yield from _running(trace.spans, when)
    yield from _throughput(trace, when)
    labels = [_text(label) for label in trace.meta.get("labels", [])]
    for track in tracks:
        yield from (_span(track, span, labels, when) for span in track.spans)


def _tracks(trace: Trace) -> Iterator[Track]:
    """A track per slot; further ones for spans that overlap others of their slot."""
    numbers = itertools.count(RUN.tid + 1)
    pids: dict[str, int] = {}
    for slot, spans in all_lanes(trace).items():
        worker, _, thread = slot.rpartition("/")
        if worker not in pids:
            pids[worker] = next(numbers)
        for part, nested in enumerate(_nested(spans) or [[]]):
            name = thread or slot
            if part:
                name += f" (overlap {part})"
            yield Track(pids[worker], next(numbers), _text(worker or "slots"), _text(name), nested)


def _nested(spans: Sequence[Span]) -> list[list[Span]]:
    """The spans of a slot in tracks, in each of which any two lie apart or one inside the other."""
    tracks: list[list[Span]] = []
    open_ends: list[list[int]] = []
    for span in spans:
        place = next((n for n, ends in enumerate(open_ends) if _fits(span, ends)), len(tracks))
        if place == len(tracks):
            tracks.append([])
            open_ends.append([])
        tracks[place].append(span)
        open_ends[place].append(span.end_ns)
    return tracks


def _fits(span: Span, ends: list[int]) -> bool:
    """Whether a span lies inside the innermost one that is still open when it begins; forgets those
    that are not.
    """
    while ends and ends[-1] <= span.start_ns:
        ends.pop()
    return not ends or span.end_ns <= ends[-1]


def _names(tracks: Sequence[Track]) -> Iterator[Event]:
    processes = {track.pid: track for track in reversed(tracks)}
    for pid, track in sorted(processes.items()):
        yield from _named("process", track, track.process, pid)
    for track in tracks:
        yield from _named("thread", track, track.thread, track.tid)


def _named(what: str, track: Track, name: str, order: int) -> Iterator[Event]:
    place = {"ph": "M", "ts": 0, "pid": track.pid, "tid": track.tid}
    yield {"name": f"{what}_name", **place, "args": {"name": name}}
    yield {"name": f"{what}_sort_index", **place, "args": {"sort_index": order}}


def _complete(
    track: Track, name: str, category: str, start_ns: int, end_ns: int, when: Window
) -> Event:
    times = {"ts": _microseconds(start_ns - when.start_ns), "dur": _microseconds(end_ns - start_ns)}
    return {"name": name, "cat": category, "ph": "X", **times, "pid": track.pid, "tid": track.tid}


def _microseconds(ns: int) -> float:
    """Choose of the numbers next to ns / 1000 one that importers, which multiply and cut off, turn
    into ns again.
    """
    us = ns / 1000
    if int(us * 1000) == ns:
        return us
    return math.nextafter(us, math.inf)


def _span(track: Track, span: Span, labels: Sequence[str], when: Window) -> Event:
    kind = _text(span.kind)
    name = kind
    category = kind
    if span.lost:
        name = f"{kind} (lost attempt)"
        category = "lost"
    event = _complete(track, name, category, span.start_ns, span.end_ns, when)
    if span.lost:
        event["cname"] = "terrible"
    if 0 <= span.task < len(labels):
        label = labels[span.task]
    else:
        label = _number(span.task)
    args: Event = {
        "task": label,
        "number": span.task,
        "attempt": span.attempt,
        "bytes": span.nbytes,
    }
    for key, ns in (("cpu_ms", span.cpu_ns), ("run_queue_ms", span.runq_ns)):
        if ns >= 0:  # negative: nobody knows
            args[key] = ns / 1e6
    event["args"] = args
    return event


def _number(task: int) -> str:
    """A task without a name, or an engine's own work for many tasks."""
    if task == NO_TASK:
        return "many"
    return str(task)


def _text(value: Any) -> str:
    """Text that UTF-8 can say: names of files may hold bytes that it cannot."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _counter(name: str, ns: int, when: Window, values: Mapping[str, float]) -> Event:
    place = {"ph": "C", "ts": _microseconds(ns - when.start_ns), "pid": RUN.pid, "tid": RUN.tid}
    return {"name": name, **place, "args": values}


def _running(spans: Sequence[Span], when: Window) -> Iterator[Event]:
    """How many tasks run, at every moment at which that changes."""
    lives: dict[tuple[int, int, str], tuple[int, int]] = {}
    for span in spans:
        if span.task == NO_TASK:
            continue
        key = (span.task, span.attempt, span.slot)
        first, last = lives.get(key, (span.start_ns, span.end_ns))
        lives[key] = (min(first, span.start_ns), max(last, span.end_ns))
    steps = sorted(step for first, last in lives.values() for step in ((first, 1), (last, -1)))
    running = 0
    yield _counter("running tasks", when.start_ns, when, {"tasks": 0})
    for ns, changes in itertools.groupby(steps, key=lambda step: step[0]):
        running += sum(change for _, change in changes)
        yield _counter("running tasks", ns, when, {"tasks": running})


def _throughput(trace: Trace, when: Window) -> Iterator[Event]:
    """MB/s read and written, in the steps of the report's own curve; 0 at the end."""
    curve = throughput(trace)
    columns = {
        f"{phase} MB/s": [*(values / 1e6).round(3).tolist(), 0.0]
        for phase, values in curve.values.items()
    }
    for n, seconds in enumerate(curve.edges.tolist()):
        ns = when.ready_ns + round(1e9 * seconds)
        yield _counter(
            "throughput", ns, when, {name: column[n] for name, column in columns.items()}
        )
