"""Span and Trace: where the time of a run went, recorded by the code that spends it.

A task opens a recording with `recording()`; code anywhere below it marks its phases with
`span("read")`. Outside a recording a span costs one attribute look-up and leaves nothing. Times are
the host's monotonic clock, which all its processes share.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from hyperslab.parquet import KEY, load_versioned

TRACE_VERSION = 1
SPANS_AT_A_TIME = 1 << 20
"Spans of one row group of a saved trace."

LOST = "lost"
"Kind of the one phase of an attempt that could not record its own: its worker died or was stopped."

STAGE_IN, FLUSH, VERIFY = "stage-in", "flush", "verify"
"""Kinds of phases of the driver's own threads: files that are copied to a fast tier, blocks that go
from there to their files, and what of these is read back.
"""

NO_TASK = -1
"Task of a span that belongs to none: an engine's own reduction tree merging what tasks have made."


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One place where a task can run: a thread of a worker process. Never a pid, so that lanes
    survive restarts.
    """

    host: str
    worker: int
    thread: int

    def __str__(self) -> str:
        return f"{self.host}/w{self.worker}/t{self.thread}"

    @classmethod
    def parse(cls, text: str) -> Slot | None:
        """Read a slot's text back; None for a text that names no thread of a worker of a host."""
        host, _, rest = text.partition("/w")
        worker, _, thread = rest.partition("/t")
        if not (worker.isdigit() and thread.isdigit()):
            return None
        return cls(host, int(worker), int(thread))


def is_of_staging(slot: str) -> bool:
    """Whether a lane of a trace is a thread of the driver that copies or flushes, and no slot."""
    kind = slot.rpartition("/")[0].rpartition("/")[2]
    return kind in (STAGE_IN, FLUSH)


class Phase(NamedTuple):
    """One phase of a task as its own thread measured it."""

    kind: str
    "open, read, compute, write, ..."
    start_ns: int
    end_ns: int
    nbytes: int
    "Bytes that the phase moved; 0 for compute."
    cpu_ns: int
    "CPU time of the thread during the phase, and of threads of the native core that worked for it."
    runq_ns: int
    "Time the thread was runnable but waited for a processor; -1 where the kernel does not tell."
    slot: str = ""
    """Where it ran, if not where the task's outcome is recorded: an engine may run each step of a
    task elsewhere.
    """

    def shifted(self, offset_ns: int) -> Phase:
        """The same on a clock that is so much ahead."""
        return self._replace(start_ns=self.start_ns + offset_ns, end_ns=self.end_ns + offset_ns)


@dataclass(frozen=True, slots=True)
class Span:
    """A phase with the task, attempt and slot it belongs to: one row of a trace."""

    task: int
    attempt: int
    slot: str
    kind: str
    start_ns: int
    end_ns: int
    nbytes: int
    cpu_ns: int
    runq_ns: int
    lost: bool = False
    "True when the attempt did not become the task's result."


@dataclass(frozen=True, slots=True)
class OwnTime:
    """When an engine's own records say that it ran something, on the driver's monotonic clock."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Trace:
    """All spans of a run, the slots it had (used or not), and what a reader needs to interpret
    them.
    """

    spans: list[Span]
    slots: list[str]
    origin: str = "measured"
    "measured or predicted."
    meta: dict[str, Any] = field(default_factory=dict)
    "start_ns, ready_ns, end_ns of the run; wall-clock anchor; versions; plan fingerprint; host."

    def __repr__(self) -> str:
        return f"<hyperslab.Trace: {len(self.spans):,} spans on {len(self.slots):,} slots>"

    def save(self, path: Path) -> None:
        """Write the spans as Parquet (zstd), everything else as JSON in the file's metadata."""
        import pyarrow.parquet as pq

        about = {
            "version": TRACE_VERSION,
            "slots": self.slots,
            "origin": self.origin,
            "meta": self.meta,
        }
        schema = _parquet_schema().with_metadata({KEY: json.dumps(about)})
        with (
            path.open("wb") as file,  # Arrow takes no path that is not UTF-8
            pq.ParquetWriter(file, schema, compression="zstd") as writer,
        ):
            for first in range(0, len(self.spans), SPANS_AT_A_TIME):
                writer.write_batch(
                    _record_batch(self.spans[first : first + SPANS_AT_A_TIME], schema)
                )

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read back what `save` wrote. Raises ValueError for a trace of a newer version."""
        table, about = load_versioned(path, "trace", TRACE_VERSION)
        return cls(
            [Span(**row) for row in table.to_pylist()],
            about["slots"],
            about["origin"],
            about["meta"],
        )


def _parquet_schema() -> Any:
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "bool": pa.bool_()}
    return pa.schema([(f.name, kinds[str(f.type)]) for f in fields(Span)])


def _record_batch(spans: Sequence[Span], schema: Any) -> Any:
    """The spans as a batch of Arrow, from buffers: Arrow imports pandas to convert a list."""
    import pyarrow as pa

    columns = [
        _column([getattr(span, f.name) for span in spans], str(f.type), schema.field(f.name).type)
        for f in fields(Span)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: Sequence[Any], kind: str, arrow_type: Any) -> Any:
    """Values as an array of Arrow, laid out by its columnar format:
    https://arrow.apache.org/docs/format/Columnar.html
    """
    import numpy as np
    import pyarrow as pa

    if kind == "str":
        encoded = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
        buffers = [ends, b"".join(encoded)]
    elif kind == "bool":
        buffers = [np.packbits(np.array(values, np.bool_), bitorder="little")]
    else:
        buffers = [np.array(values, np.int64)]
    data = [pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(arrow_type, len(values), [None, *data])


class _Recording(threading.local):
    phases: list[Phase] | None = None
    schedstat: int | None = None
    queued_ns: int = 0
    "What the kernel said when it was asked last ..."
    asked_away_ns: int = -(2**63)
    "... and how long the thread had been on no processor by then."


_current = _Recording()
_AWAY_NS = 20_000
"A thread that was on no processor for less is not said to have waited for one: asking takes 1 us."


class _Collecting:
    """Phases that are being collected; a generator would take twice the time here, too."""

    __slots__ = ("_outer",)

    def __enter__(self) -> list[Phase]:
        self._outer = _current.phases
        phases: list[Phase] = []
        _current.phases = phases
        return phases

    def __exit__(self, *failure: object) -> None:
        _current.phases = self._outer


def recording() -> AbstractContextManager[list[Phase]]:
    """Collect the phases that this thread marks until the end of the block."""
    return _Collecting()


class Meter:
    """A phase under way, which lets its code say how many bytes it moved, and what other threads
    spent on it. A generator would take twice the time to enter and leave.
    """

    __slots__ = ("_cpu_ns", "_kind", "_phases", "_runq_ns", "_start_ns", "helped_ns", "nbytes")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.nbytes = 0
        self.helped_ns = 0

    def __enter__(self) -> Self:
        self._phases = _current.phases
        if self._phases is not None:
            self._start_ns = time.monotonic_ns()
            self._cpu_ns = time.thread_time_ns()
            self._runq_ns = _run_queue_ns(self._start_ns - self._cpu_ns)
        return self

    def __exit__(self, *failure: object) -> None:
        if self._phases is None:
            return
        spent_ns = time.thread_time_ns()
        ended_ns = time.monotonic_ns()
        waited_ns = self._waited_ns(ended_ns - spent_ns)
        cpu_ns = spent_ns - self._cpu_ns + self.helped_ns
        self._phases.append(
            Phase(self._kind, self._start_ns, ended_ns, self.nbytes, cpu_ns, waited_ns)
        )

    def _waited_ns(self, thread_away_ns: int) -> int:
        """How much of the time that this thread was on no processor it waited for one; -1 where the
        kernel does not tell. `thread_away_ns` is that time since the thread began.
        """
        if self._runq_ns < 0:
            return -1
        away_ns = thread_away_ns - (self._start_ns - self._cpu_ns)
        if away_ns < _AWAY_NS:
            return 0
        runq_ns = _run_queue_ns(thread_away_ns)
        if runq_ns < 0:
            return -1
        return min(runq_ns - self._runq_ns, away_ns)


def span(kind: str) -> AbstractContextManager[Meter]:
    """Mark a phase of the current task; also when it raises."""
    return Meter(kind)


def note(phase: Phase) -> None:
    """Add a phase to the current task that something else has measured, such as a process."""
    if _current.phases is not None:
        _current.phases.append(phase)


def _run_queue_ns(away_ns: int) -> int:
    """Time this thread has waited on the run queue so far, or -1. The kernel is asked again only
    where the thread has been on no processor since, of which `away_ns` says how long in all.
    """
    if away_ns - _current.asked_away_ns >= _AWAY_NS:
        _current.asked_away_ns = away_ns
        _current.queued_ns = _ask_kernel()
    return _current.queued_ns


def _ask_kernel() -> int:
    """Time this thread has waited on the run queue (Linux Documentation/scheduler/sched-stats), or
    -1.
    """
    try:
        if _current.schedstat is None:
            _current.schedstat = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return int(os.pread(_current.schedstat, 64, 0).split()[1])
    except (OSError, IndexError, ValueError):  # a function may have closed all descriptors
        return -1


def _begin_anew() -> None:
    """A forked process is another thread to the kernel."""
    if _current.schedstat is not None:
        os.close(_current.schedstat)
    _current.schedstat = None
    _current.asked_away_ns = -(2**63)


os.register_at_fork(after_in_child=_begin_anew)


def measure_span_cost_ns(repeats: int = 500) -> float:
    """CPU nanoseconds that one span costs on this machine, measured now."""
    with recording():
        start = time.thread_time_ns()
        for _ in range(repeats):
            with span("cost"):
                pass
        return (time.thread_time_ns() - start) / repeats


def union_ns(intervals: Sequence[tuple[int, int]]) -> int:
    """Total length covered by intervals that may overlap or nest."""
    covered = 0
    reach = -(2**63)
    for start, end in sorted(intervals):
        if end > reach:
            covered += end - max(start, reach)
            reach = end
    return covered
