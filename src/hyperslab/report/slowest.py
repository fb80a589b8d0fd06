"""The slowest tasks of a run: where their time went and how far they are from the usual."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from hyperslab.report.summary import PHASE_OF_KIND
from hyperslab.trace import NO_TASK, Span, Trace, union_ns

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task, by the time that its phases took."""

    task: int
    number: int
    label: str
    slot: str
    lost: bool
    busy_s: float
    times_usual: float
    "Busy time / median busy time of all attempts."
    phases_s: Mapping[str, float]
    "Seconds in each phase of the summary; nested phases count in each."


def slowest(trace: Trace, count: int = SHOWN) -> list[Attempt]:
    """The attempts with the longest busy time, longest first; names of tasks come from
    `trace.meta["labels"]`.
    """
    spans: dict[tuple[int, int], list[Span]] = defaultdict(list)
    for span in trace.spans:
        if span.task != NO_TASK:
            spans[span.task, span.attempt].append(span)
    busy = {
        key: union_ns([(s.start_ns, s.end_ns) for s in own]) / 1e9 for key, own in spans.items()
    }
    usual = 0.0
    if busy:
        usual = median(busy.values())
    longest = sorted(busy, key=lambda key: (-busy[key], key))[:count]
    labels = trace.meta.get("labels", [])
    return [_attempt(key, spans[key], busy[key], usual, labels) for key in longest]


def _attempt(
    key: tuple[int, int], spans: list[Span], busy_s: float, usual_s: float, labels: list[str]
) -> Attempt:
    task, number = key
    phases: Counter[str] = Counter()
    for span in spans:
        phases[PHASE_OF_KIND.get(span.kind, "other")] += span.end_ns - span.start_ns
    seconds = {phase: ns / 1e9 for phase, ns in phases.items()}
    label = ""
    if task < len(labels):
        label = str(labels[task])
    ratio = 1.0
    if usual_s:
        ratio = busy_s / usual_s
    return Attempt(
        task, number, label, spans[0].slot, any(s.lost for s in spans), busy_s, ratio, seconds
    )


def short_label(label: str) -> str:
    """A task's name without the folders of its file: `brain.h5::/t1[0:32]` of
    `/data/brain.h5::/t1[0:32]`.
    """
    path = re.split(r"::|\[", label, maxsplit=1)[0]
    return label[path.rfind("/") + 1 :]
