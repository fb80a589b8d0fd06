"""Rules about storage: its bandwidth, its latency, and the latency of its metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hyperslab.report.verdict import remedies
from hyperslab.report.verdict.agreement import COMPRESSED
from hyperslab.report.verdict.evidence import Counters, Evidence
from hyperslab.report.verdict.finding import NOTABLE, Finding, listed
from hyperslab.report.verdict.processors import lock
from hyperslab.trace import Span
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share

WAITING = 0.5
"""A phase that waits for less than half of its time is limited by what it does the rest of it:
decoding, copying.
"""
IDLE_PROCESSORS = 0.8
"Busy share of all processors below which a thread that waits does not wait for one of them."
FLAT_EXPONENT = 0.35
"Twice the readers bring less than 1.27 times the bytes: more of them hardly help."
RISING_EXPONENT = 0.65
"Twice the readers bring more than 1.57 times the bytes: the device has room for more."
NEAR_PROBE = 0.7
"Share of the probed bandwidth: probes read large blocks in order, which runs seldom do quite."
LOCK_NS = 10_000_000
"Twice the interval after which a running Python thread lets another one have the interpreter."
ERRORS = 2.0
"""Standard errors by which an exponent must miss the other extreme before it is claimed: a chance
of 1 in 40.
"""
SPREAD = 0.05
"""Spread of the logarithm of the number of readers: one that varies by less than a twentieth
teaches nothing.
"""


def metadata(evidence: Evidence) -> list[Finding]:
    """Time that went into reaching files and pieces, not into their bytes."""
    opens = evidence.classes["open"]
    tiny = evidence.classes["tiny"]
    waits = [c for c in (opens, tiny) if _is_storage(evidence, c)]
    share = evidence.share(sum(c.waited for c in waits))
    if share < NOTABLE:
        return []
    said = []
    if opens in waits:
        said.append(
            f"{show_count(opens.spans, 'open')} waited"
            f" {show_seconds(opens.waited / opens.spans / 1e9)} each{_probed_open(evidence)}"
        )
    if tiny in waits:
        each = show_seconds(tiny.waited / tiny.spans / 1e9)
        size = show_bytes(tiny.nbytes / tiny.spans)
        said.append(
            f"{show_count(tiny.spans, 'transfer')} of {size} on average waited {each}"
            f" each{_probed_latency(evidence)}"
        )
    return [
        Finding(
            "metadata-latency",
            f"The latency of the file system limited this run: {show_share(share)} of the slots'"
            " time went into reaching files and small pieces, not into moving their bytes.",
            listed([" and ".join(said)]),
            _larger_accesses(evidence),
            share,
        )
    ]


def _probed_open(evidence: Evidence) -> str:
    """What an open took when the storage was probed, where it was."""
    seconds = (evidence.meta.get("probe") or {}).get("open_s")
    if seconds:
        return f" (of a probe's own files: {show_seconds(seconds)})"
    return ""


def _probed_latency(evidence: Evidence) -> str:
    """What a small read took when the storage was probed, where it was."""
    seconds = (evidence.meta.get("probe") or {}).get("latency_s")
    if seconds:
        return f" (a probe's small reads: {show_seconds(seconds)})"
    return ""


def _larger_accesses(evidence: Evidence) -> str:
    blocks = ""
    if remedies.larger(evidence, 2) > 1:
        blocks = "larger blocks; "
    advice = (
        f"Make fewer and larger accesses ({blocks}one volume or a few large files instead of many"
        " small ones), or copy the files to a local disk or tmpfs first."
    )
    if remedies.can_use_more(evidence):
        advice += (
            f" Latencies overlap, so {remedies.more_slots(evidence)} would also help until the file"
            " server is busy."
        )
    return advice


def bandwidth(evidence: Evidence) -> list[Finding]:
    """Time that reads and writes of some size waited for storage."""
    found = []
    for kind, noun in (("read", "reader"), ("write", "writer")):
        counters = evidence.classes[kind]
        share = evidence.share(counters.waited)
        if share >= NOTABLE and _is_storage(evidence, counters):
            found.append(_waiting_for_storage(evidence, kind, noun, share))
    return found


def _is_storage(evidence: Evidence, counters: Counters) -> bool:
    """True when phases waited most of their time, and for storage, as far as can be seen."""
    ran = counters.wall - counters.runq
    if not counters.spans or counters.waited < WAITING * ran:
        return False
    if counters.waited / counters.spans < LOCK_NS and lock(evidence) is not None:
        return (
            False  # a thread that has read something waits for the interpreter's lock to come back
        )
    busy = evidence.load.get("busy_share")
    return counters.is_known or (busy is not None and busy < IDLE_PROCESSORS)


class Stretch(NamedTuple):
    """Time from a moment at which somebody begins to read to the next one at which nobody does."""

    length_ns: int
    readers: float
    "Readers at a time, on average."
    nbytes_per_s: float
    "Rate of all readers together."


@dataclass(frozen=True, slots=True)
class Growth:
    """How the rate of all readers together grows with their number: as its power."""

    exponent: float
    "0: more readers bring nothing; 1: each brings its own."
    error: float
    "Standard error of the exponent."

    @property
    def is_flat(self) -> bool:
        return self.exponent < FLAT_EXPONENT and 1 - self.exponent > ERRORS * self.error

    @property
    def is_rising(self) -> bool:
        return self.exponent > RISING_EXPONENT and self.exponent > ERRORS * self.error


def stretches_of(spans: Sequence[Span]) -> list[Stretch]:
    """The stretches of reading. Whole ones, because readers need not get equal parts while they
    read together.
    """
    groups: list[list[int]] = []
    for span in sorted(spans, key=lambda s: s.start_ns):
        if not groups or span.start_ns >= groups[-1][1]:
            groups.append([span.start_ns, span.end_ns, 0, 0])
        group = groups[-1]
        group[1] = max(group[1], span.end_ns)
        group[2] += span.end_ns - span.start_ns
        group[3] += span.nbytes
    return [
        Stretch(end - start, read / (end - start), n / (end - start) * 1e9)
        for start, end, read, n in groups
    ]


def growth(stretches: Sequence[Stretch]) -> Growth | None:
    """Regression of the logarithm of the rate on that of the readers; None where their number
    hardly varied.
    """
    weight = np.array([s.length_ns for s in stretches], np.float64)
    weight /= weight.sum()
    x = np.log([s.readers for s in stretches])
    y = np.log([s.nbytes_per_s for s in stretches])
    x -= weight @ x
    y -= weight @ y
    spread = weight @ x**2
    spare = 1 / (weight @ weight) - 2
    if spare <= 0 or spread < SPREAD**2:
        return None
    exponent = weight @ (x * y) / spread
    error = np.sqrt(weight @ (y - exponent * x) ** 2 / spread / spare)
    return Growth(float(exponent), float(error))


def _half(stretches: Sequence[Stretch], noun: str) -> str:
    length = sum(s.length_ns for s in stretches)
    readers = sum(s.readers * s.length_ns for s in stretches) / length
    rate = sum(s.nbytes_per_s * s.length_ns for s in stretches) / length
    return f"{readers:.1f} {noun}s at a time got {show_rate(rate)}"


def _waiting_for_storage(evidence: Evidence, kind: str, noun: str, share: float) -> Finding:
    counters = evidence.classes[kind]
    stretches = stretches_of(evidence.transfers[kind])
    waiting = f"the slots waited for {kind}s for {show_share(share)} of their time"
    rate = counters.nbytes / sum(s.length_ns for s in stretches) * 1e9
    grown = growth(stretches)
    half = len(stretches) // 2
    if grown is None:
        said = [_half(stretches, noun)]
    else:
        stretches.sort(key=lambda s: s.readers)
        said = [
            f"on average {_half(stretches[:half], noun)} together, {_half(stretches[half:], noun)}"
        ]
    probed = float((evidence.meta.get("probe") or {}).get(f"{kind}_nbytes_per_s") or 0.0)
    near = probed > 0 and rate >= NEAR_PROBE * probed
    if probed:
        said.append(f"the device gave {show_rate(probed)} when it was probed{_origin(evidence)}")
    stalled = (evidence.load.get("stalled_shares") or {}).get("io_some")
    if stalled:
        said.append(
            f"some process on the machine waited for a disk for {show_share(stalled)} of the time"
        )
    rule, sentence, advice = _kind_of_wait(evidence, grown, near, kind)
    latency_s = (evidence.meta.get("probe") or {}).get("latency_s")
    if latency_s and (rule, kind) == ("storage-latency", "read"):
        said.append(f"a small read took {show_seconds(latency_s)} when the device was probed")
    return Finding(rule, f"{sentence}: {waiting}.", listed(said), advice, share)


def _origin(evidence: Evidence) -> str:
    """Where the probed rate is from, where anybody says."""
    origin = (evidence.meta.get("probe") or {}).get("from")
    if origin:
        return f" ({origin})"
    return ""


def _kind_of_wait(
    evidence: Evidence, grown: Growth | None, near: bool, kind: str
) -> tuple[str, str, str]:
    """Rule, sentence and advice by what more readers brought."""
    data = "the outputs"
    if kind == "read":
        data = "the inputs"
    less = "compressed chunks, a smaller dtype"
    if COMPRESSED in evidence.ruled_out:
        less = "a smaller dtype"
    faster = (
        f"Put {data} on faster storage (a local disk, a burst buffer, tmpfs), or move fewer bytes"
        f" ({less})"
    )
    if near or (grown is not None and grown.is_flat):
        sentence = f"The bandwidth of the storage limited this run ({kind})"
        return "storage-bandwidth", sentence, f"{faster}{_fewer(evidence, grown)}."
    if grown is not None and grown.is_rising:
        sentence = f"The latency of the storage limited this run ({kind})"
        return "storage-latency", sentence, _more_at_a_time(evidence, kind)
    half = ""
    if remedies.can_use_fewer(evidence):
        half = (
            ". Whether more or fewer workers would change anything cannot be seen from this run;"
            f" one with half {remedies.workers(evidence)} tells: if it is as fast, the bandwidth"
            " is used up"
        )
    return "storage-wait", f"Storage limited this run ({kind})", f"{faster}{half}."


def _fewer(evidence: Evidence, grown: Growth | None) -> str:
    """What fewer workers would do."""
    if not remedies.can_use_fewer(evidence):
        return ""
    would = "do as well"
    if grown is not None and grown.exponent < -FLAT_EXPONENT:
        would = "be faster"
    return f"; more workers do not help, half {remedies.workers(evidence)} would {would}"


def _more_at_a_time(evidence: Evidence, kind: str) -> str:
    """What makes more, or longer, accesses at a time."""
    parts = []
    if remedies.can_use_more(evidence):
        parts.append(
            f"The rate still grew with the number of slots that {kind}: use"
            f" {remedies.more_slots(evidence)}."
        )
    if remedies.larger(evidence, 2) > 1:
        parts.append("Larger blocks also help.")
    return " ".join(parts)
