"""Break-even: from which length of tasks on an engine is nearly as fast as the fastest one.

The ratio of two makespans is that of their length: what an engine takes to start counts less in a
run of hours. So the makespan of N tasks on s slots is taken apart, by cells that differ in the
number of files:

    makespan = fixed + (N * cost + busy) / s

where busy is the time of all slots in phases of tasks, which the trace has. Fixed time and cost of
a task are those of a least-squares line of makespan - busy / s over N / s within each replicate,
and the means of these. Other tasks, of T seconds each, would take fixed + N (cost + T) / s; an
engine is within a margin m of the fastest one, f, if

    T >= ((fixed - (1 + m) fixed_f) s / N + cost - (1 + m) cost_f) / m

of which the first term vanishes as N grows; there f is the engine with the least cost of a task. A
line that is off by a share e of the makespan M moves T by e M s / (N m): the interval of T is wider
by that of both engines. Nothing is said of an engine whose line is off by more than the margin at
any number of files: waiting for a last long task, or for storage, is no cost of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from hyperslab.apps.experiment.answers.comparison import Block, CellResult
from hyperslab.apps.experiment.answers.lines import lines_of
from hyperslab.apps.experiment.statistics.intervals import Interval, mean_interval
from hyperslab.apps.experiment.statistics.regression import line_of
from hyperslab.apps.experiment.statistics.shown import show_mean
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.units import show_count, show_list, show_seconds, show_share

FILES = "files"
BY_LENGTH = "engine, by the length of tasks"
"Head of the sentence on it."
LEAST_LEVELS = 3
"Numbers of files without which a line says nothing of whether it holds."


class Parts(NamedTuple):
    """What the makespan of a trial consists of."""

    makespan_s: float
    slots: float
    tasks: float
    busy_s: float

    @property
    def row(self) -> float:
        """Tasks one after the other in a slot."""
        return self.tasks / self.slots

    @property
    def rest_s(self) -> float:
        """Makespan without what slots do for tasks."""
        return self.makespan_s - self.busy_s / self.slots


@dataclass(frozen=True, slots=True)
class Cost:
    """What an engine costs beside what tasks do."""

    engine: str
    files: Sequence[float]
    "Numbers of files that this rests on."
    fixed: Mapping[Block, float]
    "Seconds of a run that do not depend on the number of its tasks, by replicate."
    per_task: Mapping[Block, float]
    "Seconds of a slot for each task."
    off: float
    "How far the line is off at the number of files where it is worst, as a share of the makespan."
    usual: Parts
    "Means of the cell at the baseline's number of files."

    @property
    def fixed_s(self) -> float:
        return fmean(self.fixed.values())

    @property
    def task_s(self) -> float:
        return fmean(self.per_task.values())

    @property
    def off_s(self) -> float:
        """How far the line may be off for each task of a slot, s."""
        return self.off * self.usual.makespan_s / self.usual.row

    def total_s(self, row: float) -> float:
        """Time beside that of tasks, of a run with so many tasks in each slot."""
        return self.fixed_s + row * self.task_s


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Length of tasks from which on an engine is within the margin of the fastest, with its 95 %
    interval over replicates, and as far as lines are off.
    """

    engine: str
    task_s: Interval
    "Length of the tasks of a run like that of the baseline; 0 or less: any."
    many_s: Interval
    "The same of runs with so many tasks that their start does not count, beside the cheapest."
    cheapest: str = ""
    "Engine that costs least for each task; '' where it is this one."


def costs_of(results: Sequence[CellResult]) -> list[Cost]:
    """What every engine costs whose cells differ in the number of files, at three or more."""
    if not results:
        return []
    found = [_cost(engine, line, results[0]) for engine, line in lines_of(results, FILES).items()]
    return [one for one in found if one is not None]


def _cost(engine: str, line: Sequence[CellResult], baseline: CellResult) -> Cost | None:
    cells = {float(one.cell.levels[FILES]): one.by_block(_parts) for one in line}
    known = {files: cells[files] for files in sorted(cells) if cells[files]}
    usual = known.get(float(baseline.cell.levels[FILES]))
    blocks = sorted(set.intersection(*map(set, known.values()))) if known else []
    if len(known) < LEAST_LEVELS or usual is None or not blocks:
        return None
    lines = {}
    for block in blocks:
        line_through = line_of([(own[block].row, own[block].rest_s) for own in known.values()])
        if line_through is None:
            return None
        lines[block] = line_through
    fixed = {block: own.start for block, own in lines.items()}
    per_task = {block: own.slope for block, own in lines.items()}
    means = [_mean([own[block] for block in blocks]) for own in known.values()]
    expected = [fmean(fixed.values()) + one.row * fmean(per_task.values()) for one in means]
    off = max(
        abs(rest_s - one.rest_s) / one.makespan_s
        for rest_s, one in zip(expected, means, strict=True)
    )
    usual_parts = _mean([usual[block] for block in blocks])
    return Cost(engine, list(known), fixed, per_task, off, usual_parts)


def _parts(attempt: Attempt) -> Parts | None:
    """What a trial consists of; None of one that does not know it."""
    numbers = attempt.numbers
    values = [numbers.get(name) for name in ("makespan_s", "slots", "tasks", "busy_s")]
    known = [value for value in values if value is not None]
    if len(known) < len(values) or not all(known[:3]):
        return None
    return Parts(*known)


def _mean(parts: Sequence[Parts]) -> Parts:
    return Parts(*map(fmean, zip(*parts, strict=True)))


def break_evens(costs: Sequence[Cost], margin: float) -> tuple[str, list[BreakEven]]:
    """The fastest engine of those whose lines hold within the margin, and from which length of
    tasks on each other one is within the margin of it; ('', []) for fewer than two.

    They are compared at the number of tasks and slots of the first one; engines that had others
    are left out.
    """
    held = [one for one in costs if one.off <= margin]
    alike = [one for one in held if one.usual.row == held[0].usual.row]
    if len(alike) < 2:
        return "", []
    row = alike[0].usual.row
    fastest = min(alike, key=lambda one: one.total_s(row))
    cheapest = min(alike, key=lambda one: one.task_s)
    found = [
        BreakEven(
            one.engine,
            _from_lengths(one, fastest, margin, 1 / row),
            _from_lengths(one, cheapest, margin, 0.0),
            "" if one is cheapest else cheapest.engine,
        )
        for one in alike
        if one is not fastest
    ]
    return fastest.engine, sorted(found, key=lambda one: one.task_s.mean)


def _from_lengths(one: Cost, other: Cost, margin: float, per_row: float) -> Interval:
    """Length of tasks from which on an engine is within a margin of another one, over the
    replicates of both; `per_row` is 1 / N of runs with N tasks in each slot.
    """
    lengths = []
    for block in sorted(one.fixed.keys() & other.fixed.keys()):
        fixed_s = one.fixed[block] - (1 + margin) * other.fixed[block]
        cost_s = one.per_task[block] - (1 + margin) * other.per_task[block]
        lengths.append((fixed_s * per_row + cost_s) / margin)
    found = mean_interval(lengths)
    if found.low is None or found.high is None:
        return found
    off_s = (one.off_s + (1 + margin) * other.off_s) / margin
    return Interval(found.mean, found.low - off_s, found.high + off_s)


# In sentences


def decision(costs: Sequence[Cost], margin: float) -> Iterator[str]:
    """Say from which length of tasks on it does not matter which engine it is."""
    fastest, found = break_evens(costs, margin)
    if not found:
        return
    (first,) = [one for one in costs if one.engine == fastest]
    tasks = show_count(round(first.usual.tasks), "task")
    slots = show_count(round(first.usual.slots), "slot")
    yield (
        f"{BY_LENGTH}: of {tasks} on {slots} {fastest} takes least, and within"
        f" {show_share(margin)} of it {_is(found)}"
        f" {show_list([f'{one.engine} {_length(one.task_s)}' for one in found])}{_many(found)}."
    )


def _is(found: Sequence[BreakEven]) -> str:
    if len(found) == 1:
        return "is"
    return "are"


def _many(found: Sequence[BreakEven]) -> str:
    """The same of runs with many more tasks, of engines that are not alike there at any length."""
    known = [one for one in found if one.cheapest and one.many_s.low is not None]
    lengths = [
        f"{one.engine} once they take longer than {show_seconds(one.many_s.mean)}"
        for one in known
        if (one.many_s.low or 0.0) > 0
    ]
    unsure = [one.engine for one in known if _is_open(one.many_s)]
    if unsure:
        lengths.append(f"for {show_list(unsure)} it is open from which length on")
    if not lengths:
        return ""
    return f"; with many more tasks, beside {known[0].cheapest}, {show_list(lengths)}"


def _is_open(interval: Interval) -> bool:
    """Whether it is not known on which side of 0 a length lies."""
    return (interval.low or 0.0) <= 0 < (interval.high or 0.0)


def _length(task_s: Interval) -> str:
    """Length of tasks from which on it holds, in words."""
    if task_s.low is None or task_s.high is None:
        return f"from a length on that is open, by one replicate {show_seconds(task_s.mean)}"
    if task_s.high <= 0:
        return "at any length"
    most = show_seconds(task_s.high)
    if task_s.low <= 0:
        return f"at the latest once tasks take longer than {most}, and whether before is open"
    bounds = f"{show_seconds(task_s.low)} to {most}"
    return f"once tasks take longer than {show_seconds(task_s.mean)} ({bounds})"


def evidence(costs: Sequence[Cost], margin: float) -> Iterator[str]:
    """What every engine costs, what that rests on, and where its line does not hold."""
    for one in costs:
        files = show_list([f"{number:g}" for number in one.files])
        rests = f"least squares over {files} files, {show_count(len(one.fixed), 'replicate')}"
        if one.off > margin:
            yield (
                f"What {one.engine} costs for each task cannot be told: the line ({rests}) is off"
                f" by up to {show_share(one.off)} of the makespan."
            )
            continue
        fixed = show_mean(list(one.fixed.values()), " s")
        per_task = show_mean([1000 * seconds for seconds in one.per_task.values()], " ms")
        length = show_seconds(one.usual.busy_s / one.usual.tasks)
        yield (
            f"Beside what tasks do, {one.engine} takes {fixed} for a run and {per_task} of a slot"
            f" for a task ({rests}; off by up to {show_share(one.off)} of the makespan; at"
            f" {one.usual.tasks:g} tasks they take {length} each)."
        )


def told(costs: Sequence[Cost], margin: float) -> Mapping[str, object]:
    """The same for programs."""
    fastest, found = break_evens(costs, margin)
    return {
        "costs": [
            {
                "engine": one.engine,
                "files": one.files,
                "fixed_s": _interval(one.fixed)._asdict(),
                "task_s": _interval(one.per_task)._asdict(),
                "off": one.off,
            }
            for one in costs
        ],
        "fastest": fastest,
        "within_margin_from": [
            {
                "engine": one.engine,
                "task_s": one.task_s._asdict(),
                "many_tasks_s": one.many_s._asdict(),
            }
            for one in found
        ],
    }


def _interval(values: Mapping[Block, float]) -> Interval:
    return mean_interval(list(values.values()))
