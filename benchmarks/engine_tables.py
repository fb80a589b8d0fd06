"""What was measured of the engines, as Markdown: tables, and sentences that follow from their
numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from benchmarks import quiet
from benchmarks.costs import GB, Costs, Ratio, middle, null_tasks, of, ratio, separate
from benchmarks.schedule import ENGINES, JOBS, LAYOUTS, LOCK_JOBS
from benchmarks.trial import HAND, Measured
from hyperslab.units import show_bytes, show_seconds, show_share

LONG_S = 3.0
"What every run costs: somebody who tries something out would call it waiting."
SLOW = 1.25
"Times the hand-written loop, start-up aside."
COSTLY_S = 1e-3
"Of a task: a hundredth of what a block of 32 MB may well take."
LOST = 0.1
"Of a slot's time: a task that is long enough loses no more to its engine."
SLOTS = 2
LOAD = "load average at the start"
"What the page calls it."

Row = Sequence[str]


def engines_of(measured: Sequence[Measured]) -> list[str]:
    """Those that were measured, in the order of the documentation."""
    seen = {m.trial.engine for m in measured}
    return [engine for engine in ENGINES if engine in seen]


def volume_table(measured: Sequence[Measured], job: str) -> str:
    """An engine per row: seconds by part, and the ratios to the hand-written loop."""
    head = "engine | start-up | tasks | ending | records | in all | ratio | ratio without start-up"
    rows = [_volume_row(of(measured, part="volume", job=job, engine=HAND), ("", ""))]
    for engine in engines_of(measured):
        runs = of(measured, part="volume", job=job, engine=engine)
        values: tuple[Callable[[Measured], float], ...] = (
            lambda m: m.total_s,
            lambda m: m.without_startup_s,
        )
        rows.append(
            _volume_row(runs, [_ratio(ratio(measured, job, engine, value)) for value in values])
        )
    return _table(head, rows)


def _volume_row(runs: Sequence[Measured], ratios: Sequence[str]) -> Row:
    values: tuple[Callable[[Measured], float], ...] = (
        lambda m: m.startup_s,
        lambda m: m.run_s,
        lambda m: m.ending_s,
        lambda m: m.records_s,
        lambda m: m.total_s,
    )
    return [
        f"`{runs[0].trial.engine}`",
        *(f"{middle(runs, value):.2f} s" for value in values),
        *ratios,
    ]


def _ratio(found: Ratio) -> str:
    return f"**{found.middle:.2f}** ({found.low:.2f} to {found.high:.2f})"


def costs_table(measured: Sequence[Measured]) -> str:
    """What a run costs, taken apart."""
    each = [f"{words} of {job}" for job in JOBS for words in ("every run", "1 GB")]
    rows = []
    for costs in (separate(measured, engine) for engine in (HAND, *engines_of(measured))):
        each_task = (costs.per_task_s, costs.per_task_records_s, costs.per_task_s * SLOTS / LOST)
        each_job = (seconds[job] for job in JOBS for seconds in (costs.fixed_s, costs.per_gb_s))
        rows.append(
            [
                f"`{costs.engine}`",
                f"{costs.startup_s:.2f} s",
                *map(_difference, (*each_task, *each_job)),
            ]
        )
    return _table(
        " | ".join(["engine", "start-up", "per task", "its records", "long enough", *each]), rows
    )


def _difference(seconds: float) -> str:
    """A difference of two measurements, which noise may have hidden."""
    return show_seconds(seconds) if seconds > 0 else "none seen"


def growth_table(measured: Sequence[Measured]) -> str:
    """Time and memory of null tasks, with the factor at each doubling."""
    runs = of(measured, part="growth")
    sizes = sorted({m.trial.tasks for m in runs})
    columns = [*(f"{n:,}" for n in sizes), "growth", *(f"driver, {n:,}" for n in sizes), "growth"]
    heads = ["engine", *columns, "scheduler", "start-up", "records", "overhead"]
    rows = [_growth_row(engine, null_tasks(measured, engine)) for engine in engines_of(runs)]
    if not any(m.overhead_s for m in runs):  # results of before it was taken
        heads = heads[:-1]
        rows = [row[:-1] for row in rows]
    return _table(" | ".join(heads), rows)


def _growth_row(engine: str, by_size: Sequence[Sequence[Measured]]) -> Row:
    """An engine's row; its trials come by the number of their tasks."""
    makespans, startups, records = (
        [middle(runs, value) for runs in by_size] for value in (_makespan, _startup, _records)
    )
    peaks = [round(middle(runs, lambda m: m.driver_peak_nbytes)) for runs in by_size]
    return [
        f"`{engine}`",
        *(f"{seconds:.1f} s" for seconds in makespans),
        _factors(makespans),
        *map(show_bytes, peaks),
        _factors(peaks),
        _scheduler([m for runs in by_size for m in runs]),
        *(" / ".join(f"{s:.1f}" for s in each) + " s" for each in (startups, records)),
        " / ".join(f"{1e6 * seconds:.0f}" for seconds in map(_overhead_s, by_size)) + " µs",
    ]


def _overhead_s(runs: Sequence[Measured]) -> float:
    """Overhead per task and slot, as `benchmarks.bench_mpi` has it."""
    return middle(runs, lambda m: m.overhead_s / m.tasks)


def _factors(values: Sequence[float]) -> str:
    return ", ".join(f"x{after / before:.2f}" for before, after in pairwise(values))


def _makespan(m: Measured) -> float:
    return m.makespan_s


def _startup(m: Measured) -> float:
    return m.startup_s


def _records(m: Measured) -> float:
    return m.records_s


def _scheduler(runs: Sequence[Measured]) -> str:
    peaks = [m.scheduler_peak_nbytes for m in runs]
    return (
        " to ".join(show_bytes(peak) for peak in (min(peaks), max(peaks)))
        if all(peaks)
        else "in the driver"
    )


def lock_table(measured: Sequence[Measured], job: str) -> str:
    """Processes against threads: time, what threads did in it, and what the verdict said first."""
    head = (
        "engine | processes x threads | makespan without start-up | on a processor | queued |"
        " **blocked** | verdict"
    )
    rows = []
    for label, runs in lock_runs(measured, job):
        engine, _, slots = label.partition(" ")
        shares = [middle(runs, value) for value in (_cpu, _queued, _blocked)]
        shown = [show_share(shares[0]), show_share(shares[1]), f"**{show_share(shares[2])}**"]
        rows.append(
            [
                f"`{engine}`",
                slots,
                f"{middle(runs, lambda m: m.makespan_s):.2f} s",
                *shown,
                _said(runs),
            ]
        )
    return _table(head, rows)


def lock_runs(measured: Sequence[Measured], job: str) -> Iterator[tuple[str, list[Measured]]]:
    """Trials by engine and layout, which the label names; some of them are also trials of the
    volume.
    """
    for engine in engines_of(of(measured, part="lock")):
        for name, (workers, threads) in LAYOUTS.items():
            runs = of(measured, job=job, engine=engine, workers=workers, threads=threads)
            if runs := [m for m in runs if m.trial.part in ("lock", "volume")]:
                yield f"{engine} {name}", runs


def _cpu(m: Measured) -> float:
    return m.cpu_share


def _queued(m: Measured) -> float:
    return m.queued_share


def _blocked(m: Measured) -> float:
    return m.blocked_share


def _said(runs: Sequence[Measured]) -> str:
    """The first findings of all rounds, by how often; behind a start-up, what comes next."""
    said = Counter(_first_rules(m) for m in runs)
    return ", ".join(f"{rule} ({n} of {len(runs)})" for rule, n in said.most_common())


def _first_rules(m: Measured) -> str:
    rules = [rule for rule, _ in m.findings] or ["nothing"]
    return ", then ".join(rules[:2]) if rules[0] == "start-up" else rules[0]


def lock_sentences(measured: Sequence[Measured]) -> str:
    """What each rule that came first says, once."""
    said: dict[str, str] = {}
    for job in LOCK_JOBS:
        for m in (m for _, runs in lock_runs(measured, job) for m in runs):
            for rule, sentence in m.findings[:1]:
                said.setdefault(rule, sentence)
    return "\n".join(f'- {rule}: "{sentence}"' for rule, sentence in sorted(said.items()))


def judgements(measured: Sequence[Measured]) -> str:
    """A line per engine: how it compares, and what it is bad at."""
    return "\n".join(
        f"- `{engine}`: {_judged(measured, engine)}" for engine in engines_of(measured)
    )


def _judged(measured: Sequence[Measured], engine: str) -> str:
    costs, said, slow = separate(measured, engine), [], []
    for job in JOBS:
        whole = ratio(measured, job, engine, lambda m: m.total_s).middle
        rest = ratio(measured, job, engine, lambda m: m.without_startup_s).middle
        said.append(
            f"{whole:.2f} times the hand-written loop's time for {job} ({rest:.2f} without"
            " start-up)"
        )
        slow += [job] if rest > SLOW else []
    bad = _slowness(costs, separate(measured, HAND), slow)
    if (once := costs.startup_s + min(costs.fixed_s.values())) > LONG_S:
        bad.append(f"it is bad for short runs: {once:.1f} s of each are start-up and the like")
    if costs.per_task_s > COSTLY_S:
        bad.append(f"it is bad for small blocks: a task costs {show_seconds(costs.per_task_s)}")
    return f"{', '.join(said)}. {_sentence('; '.join(bad) or 'nothing bad at this size')}"


def _slowness(costs: Costs, by_hand: Costs, slow: Sequence[str]) -> list[str]:
    """What is said of jobs that took longer than by hand: whether their bytes did, or what every
    run costs.
    """
    said = []
    for job in slow:
        if costs.per_gb_s[job] > SLOW * by_hand.per_gb_s[job]:
            said.append(f"it is slow at {job} even without start-up")
        else:
            once = f"{costs.fixed_s[job]:.1f} s of every run do not depend on the data"
            said.append(f"it is slow at a short {job}, as {once}")
    return said


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def lock_gains(measured: Sequence[Measured]) -> str:
    """How much faster two processes are than two threads of one."""
    said = []
    for job in LOCK_JOBS:
        found = dict(lock_runs(measured, job))
        for engine in engines_of(measured):
            pair = [found.get(f"{engine} {name}") for name in LAYOUTS]
            if pair[0] and pair[1]:
                threads, processes = (middle(runs, lambda m: m.makespan_s) for runs in pair if runs)
                said.append(f"`{engine}`, {job}: {threads / processes:.2f}")
    return f"Time of 1 x 2 over that of 2 x 1: {'; '.join(said)}." if said else ""


def circumstances(about: dict[str, str]) -> str:
    """What it was measured on, and what speaks against it."""
    lines = [f"- {name}: {value}" for name, value in about.items()]
    load = float(about.get(LOAD, 0))
    lines += [f"- a doubt: {doubt}" for doubt in quiet.doubts(quiet.ROUNDS, load)]
    return "\n".join(lines)


def size_words(measured: Sequence[Measured], part: str, job: str) -> str:
    """Bytes and tasks of a job."""
    run = of(measured, part=part, job=job)[0]
    return f"{run.nbytes / GB:.2f} GB in {run.tasks} blocks"


def _table(head: str, rows: Sequence[Row]) -> str:
    names = head.split(" | ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
