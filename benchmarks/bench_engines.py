"""Every engine against the hand-written loop, null tasks by the thousand, and processes against
threads.

    python -m benchmarks.bench_engines [--size 1GiB] [--repeats 5] [--minutes 45] [--folder DIR]
                                       [--engines A,B] [--null-tasks 20000] [--results FILE]
                                       [--write docs/engines.md [--all-the-same]]
    python -m benchmarks.bench_engines --from FILE --write docs/engines.md

Every trial has a process of its own. A round holds each of the trials once, in random order, so
that the machine's drift hits all alike. As many whole rounds are made as fit into the time.
--results keeps every measurement as soon as it is there; --write fills the tables and pictures of a
page. It refuses fewer than five rounds, and a machine that had something else to do at the start,
unless --all-the-same; and no round begins while others use a processor.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO

import hyperslab
from benchmarks import engine_page, quiet
from benchmarks.engine_tables import LOAD
from benchmarks.schedule import ENGINES, layout, one_round, warm_up
from benchmarks.trial import THICKNESS, Measured, Trial, measure
from hyperslab import engines
from hyperslab.cli.parse import parse_size
from hyperslab.engines import EngineOptions
from hyperslab.errors import HyperslabError
from hyperslab.machine.host import Host, describe
from hyperslab.units import show_bytes, show_count
from hyperslab.workloads.synth import synth

RESULTS_VERSION = 1
SMALL_PART = 8
"The small volume has half the extent along each axis."
LIBRARIES = ("numpy", "nibabel", "dask", "distributed", "pyspark", "mpi4py", "mpich")


@dataclass(frozen=True, slots=True)
class Volumes:
    """The arrays that trials read."""

    whole: Path
    small: Path

    def of(self, trial: Trial) -> Path:
        return (
            self.small if trial.part == "small" or trial.job == "histogram-python" else self.whole
        )


def main() -> None:
    arguments = _arguments()
    if arguments.source:
        about, measured = load(arguments.source)
    else:
        _require_quiet(arguments, arguments.repeats, os.getloadavg()[0])
        about, measured = _measure_all(arguments)
    if arguments.write:
        _require_quiet(arguments, _rounds(measured), float(about[LOAD]))
        engine_page.write(arguments.write, measured, about)
    for name, text in engine_page.blocks(measured, about).items():
        print(f"\n== {name}\n\n{text}")


def _require_quiet(arguments: argparse.Namespace, rounds: int, load: float) -> None:
    """Refuse to fill a page with what is not worth it, also before it is measured."""
    found = quiet.doubts(rounds, load)
    if arguments.write and found and not arguments.all_the_same:
        raise SystemExit(
            f"{arguments.write} is left as it is: {'; '.join(found)}; --all-the-same fills it"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="1GiB")
    parser.add_argument(
        "--repeats", type=int, default=5, help="rounds at most; at least one is made"
    )
    parser.add_argument(
        "--minutes", type=float, default=45, help="no round begins that would end later"
    )
    parser.add_argument(
        "--folder",
        default=None,
        help="where the volume and the outputs go; by default the system's",
    )
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--null-tasks", type=int, default=20_000)
    parser.add_argument(
        "--results", type=Path, default=None, help="keep the measurements here, a line of JSON each"
    )
    parser.add_argument(
        "--from", dest="source", type=Path, default=None, help="measure nothing, take these results"
    )
    parser.add_argument(
        "--write", type=Path, default=None, help="the page whose tables and pictures are replaced"
    )
    parser.add_argument(
        "--all-the-same",
        action="store_true",
        help="measure, and fill the page, on a machine that others use, and with fewer rounds",
    )
    return parser.parse_args()


def _measure_all(arguments: argparse.Namespace) -> tuple[dict[str, str], list[Measured]]:
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder))
    try:
        volumes = _make_volumes(folder, parse_size("--size", arguments.size))
        about = _about(volumes)
        with _results(arguments.results, about) as file:
            measured = []
            for one in _measure(arguments, volumes, folder, began + 60 * arguments.minutes):
                measured.append(one)
                print(one.dump(), file=file, flush=True)
    finally:
        shutil.rmtree(folder)
    return {**about, "rounds": _rounds_words(measured)}, measured


def _make_volumes(folder: Path, nbytes: int) -> Volumes:
    made = [
        synth("bigbrain", folder / name, size, 1, "nii", 2, 0)[0]
        for name, size in (("whole", nbytes), ("small", nbytes // SMALL_PART))
    ]
    return Volumes(*made)


def _results(path: Path | None, about: dict[str, str]) -> IO[str]:
    if path is None:
        return open(os.devnull, "w", encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    file = open(path, "w", encoding="utf-8")  # noqa: SIM115  # the caller closes it
    print(json.dumps({"version": RESULTS_VERSION, "about": about}), file=file, flush=True)
    return file


def load(path: Path) -> tuple[dict[str, str], list[Measured]]:
    """Results that were kept, without a round that broke off. Raises ValueError for a newer
    version.
    """
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    head = json.loads(first)
    if head["version"] > RESULTS_VERSION:
        raise ValueError(
            f"{path} was written by a newer version ({head['version']}) of this benchmark"
        )
    measured = [Measured.parse(line) for line in lines]
    trials = Counter(m.trial.round for m in measured)
    measured = [m for m in measured if m.trial.round <= 1 or trials[m.trial.round] == trials[1]]
    return {**head["about"], "rounds": _rounds_words(measured)}, measured


def _rounds_words(measured: Sequence[Measured]) -> str:
    """How many rounds there are of what; null tasks of older results were outside of them."""
    null = {m.trial.round for m in measured if m.trial.part == "growth"}
    rounds = _rounds(measured)
    said = f"medians of {show_count(rounds, 'round')} in random order"
    if len(null) < rounds:
        said += f", null tasks of {len(null)}"
    return said


def _rounds(measured: Sequence[Measured]) -> int:
    """Number of rounds, but for null tasks that were outside of them."""
    return len({m.trial.round for m in measured if m.trial.part != "growth"})


def _measure(
    arguments: argparse.Namespace, volumes: Volumes, folder: Path, until: float
) -> Iterator[Measured]:
    chosen, seed = _at_hand(arguments.engines.split(","), folder), 0
    list(_measured("warm-up", warm_up(chosen), volumes, folder))
    longest = 0.0
    for number in range(1, arguments.repeats + 1):
        began = time.monotonic()
        if number > 1 and began + longest > until:
            print(f"no time for round {number}", flush=True)
            return
        others = quiet.busy_processors()
        if others > quiet.MOST_BUSY and not arguments.all_the_same:
            print(f"no quiet for round {number}: others use {others:.1f} processors", flush=True)
            return
        trials = one_round(number, chosen, arguments.null_tasks, seed)
        yield from _measured(f"round {number}", trials, volumes, folder)
        longest = max(longest, time.monotonic() - began)


def _at_hand(names: Sequence[str], folder: Path) -> list[str]:
    """The engines that can run here; the others are named with what they lack."""
    found = []
    for name in names:
        try:
            engines.require(name, EngineOptions(folder, *layout(name)))
        except HyperslabError as error:
            print(f"without {name}: {error}", flush=True)
            continue
        found.append(name)
    return found


def _measured(
    stage: str, trials: Sequence[Trial], volumes: Volumes, folder: Path
) -> Iterator[Measured]:
    for number, trial in enumerate(trials, 1):
        one = measure(trial, volumes.of(trial), folder)
        what = (
            f"{trial.job} {trial.tasks:,}"
            if trial.tasks
            else f"{trial.job}{' (small)' * (trial.part == 'small')}"
        )
        where = f"{trial.engine} {trial.workers} x {trial.threads}"
        print(
            f"{stage:<10} {number:>3}/{len(trials):<3} {what:<17} {where:<18} start-up"
            f" {one.startup_s:5.2f} s, makespan without it {one.makespan_s:6.2f} s, records"
            f" {one.records_s:5.2f} s, driver {show_bytes(one.driver_peak_nbytes)}",
            flush=True,
        )
        yield one


def _about(volumes: Volumes) -> dict[str, str]:
    """What was measured on what, without the name of the machine."""
    host, machine = Host.here(), describe()
    whole, small = (hyperslab.open(str(path)).shape for path in (volumes.whole, volumes.small))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "machine": (
            f"{show_count(host.cpus, 'processor')} ({machine['processor']}), {show_bytes(memory)}"
            f" of memory, {platform.system()} {platform.release().partition('-')[0]}"
        ),
        LOAD: f"{os.getloadavg()[0]:.1f}",
        "software": (
            f"Python {machine['python']}, {', '.join(f'{n} {version(n)}' for n in LIBRARIES)},"
            f" {_java()}"
        ),
        "volume": (
            f"{_by(whole)} uint16 in blocks of {THICKNESS} planes, the small one {_by(small)};"
            " BigBrain-like, uncompressed NIfTI, in the page cache"
        ),
        "slots": "2 (2 processes x 1 thread unless a table says otherwise; `threads`: 1 x 2)",
    }


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _java() -> str:
    try:
        said = subprocess.run(
            ["java", "-version"], capture_output=True, text=True, check=True
        ).stderr
    except FileNotFoundError:
        return "no Java"
    return "Java " + said.split('"')[1]


if __name__ == "__main__":
    main()
