"""Expected: how long the files of a run take on its storage, by what that was probed to do.

    expected = opens / open rate + bytes read / read rate + bytes written / write rate

at the rates of as many processes as the run had slots: the rate of one stream is no bound where
several are served at a time. This is the model of Hayot-Sasson et al., Performance benefits of
Intel Optane DC persistent memory for the parallel processing of large neuroimaging data (2020),
equation 1, with aggregate rates, and with a term for reaching files, which takes longer than their
bytes where metadata are slow or files are small. What storage takes later, write-back, has a term
of its own: bytes up to what is free of the kernel's limit of dirty pages are written at the rate of
memory. A run is at its end when all is on storage, so that this term says when tasks have written,
not when the run is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hyperslab.report.summary import Summary
from hyperslab.trace import Trace, is_of_staging
from hyperslab.units import show_bytes, show_count, show_list, show_rate, show_seconds

NOTABLE = 0.01
"Share of the expected time from which on opening files is worth a word."


@dataclass(frozen=True, slots=True)
class Expected:
    """Times by a probe, seconds."""

    opens: int
    "Number of times that tasks have opened a file of the inputs."
    open_s: float
    "Time of that; 0 where nobody has probed it."
    read_s: float
    write_s: float
    "Time until all bytes are on storage."
    buffered_s: float
    "Time until tasks have written them, some of them into memory."
    absorbed_nbytes: float
    "Bytes that memory takes."
    ratio: float
    "Measured makespan without start-up, over the time that is expected."
    rates: dict[str, Any]
    "The probe: rates, and where they are from."

    @property
    def total_s(self) -> float:
        """Time of opening, reading and writing."""
        return self.open_s + self.read_s + self.write_s


def expected(trace: Trace, summary: Summary) -> Expected | None:
    """How long reading and writing take by `trace.meta["probe"]`; None where a rate is not known
    that is needed.
    """
    probe = trace.meta.get("probe") or {}
    read_s = _time(summary.read_nbytes, probe.get("read_nbytes_per_s"))
    write_s = _time(summary.written_nbytes, probe.get("write_nbytes_per_s"))
    if read_s is None or write_s is None or not read_s + write_s:
        return None
    absorbed = _absorbed(trace, summary, probe)
    buffered_s = write_s
    if absorbed:
        rest = summary.written_nbytes - absorbed
        buffered_s = absorbed / probe["buffered_nbytes_per_s"] + rest / probe["write_nbytes_per_s"]
    opens = sum(span.kind == "open" and not is_of_staging(span.slot) for span in trace.spans)
    open_s = _time(opens, probe.get("opens_per_s")) or 0.0
    ratio = summary.makespan_without_startup_s / (open_s + read_s + write_s)
    return Expected(opens, open_s, read_s, write_s, buffered_s, absorbed, ratio, probe)


def _time(amount: int, per_s: float | None) -> float | None:
    """Seconds that bytes, or operations, take; None where the rate is not known."""
    if not amount:
        return 0.0
    if not per_s:
        return None
    return amount / per_s


def _absorbed(trace: Trace, summary: Summary, probe: dict[str, Any]) -> float:
    """Bytes written that memory takes, as far as that is known."""
    used = trace.meta.get("storage") or {}
    free = (used.get("write") or {}).get("free_dirty_nbytes")
    if not free or not probe.get("buffered_nbytes_per_s"):
        return 0.0
    return float(min(free, summary.written_nbytes))


def expected_words(trace: Trace, summary: Summary) -> str:
    """The same as a sentence; '' where nothing is known."""
    found = expected(trace, summary)
    if found is None:
        return ""
    clients = found.rates.get("clients")
    streams = ""
    if clients:
        streams = f" with {show_count(clients, 'stream')}"
    parts = []
    if found.open_s >= NOTABLE * found.total_s:
        opens = show_count(found.opens, "open")
        each = show_seconds(found.open_s / found.opens)
        parts.append(f"{opens} at {each} each ({show_seconds(found.open_s)})")
    if found.read_s:
        rate = show_rate(found.rates["read_nbytes_per_s"])
        nbytes = show_bytes(summary.read_nbytes)
        parts.append(f"{nbytes} read at {rate} ({show_seconds(found.read_s)})")
    if found.write_s:
        rate = show_rate(found.rates["write_nbytes_per_s"])
        nbytes = show_bytes(summary.written_nbytes)
        parts.append(f"{nbytes} written at {rate} ({show_seconds(found.write_s)}{_sooner(found)})")
    return (
        f"{show_seconds(found.total_s)} for {show_list(parts)}{streams}; the run took"
        f" {found.ratio:.2f} x as long{_why_less(found)}"
    )


def _sooner(found: Expected) -> str:
    if not found.absorbed_nbytes:
        return ""
    return (
        f"; {show_seconds(found.buffered_s)} until tasks have written, as memory takes"
        f" {show_bytes(found.absorbed_nbytes)}"
    )


def _why_less(found: Expected) -> str:
    if found.ratio >= 1:
        return ""
    return ": some of the bytes came from memory, or reading and writing overlapped"
