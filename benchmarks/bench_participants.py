"""A run over as many participants as CoRR has, whose app does next to nothing: what grows faster
than their number, and what it costs beside a bare loop.

    python -m benchmarks.bench_participants [--participants 1397] [--engine processes]

Images are links to one file. The same is run over a quarter of the participants, each in a process
of its own; gates are on what a participant takes of the one beside the other, so that what grows
with the square of their number is four times as much. So are calls for one participant after the
other into the same directory: the last of them beside the first.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from benchmarks.corr_dataset import PARTICIPANTS
from benchmarks.gates import Gates
from benchmarks.hand_written import PROCESSES
from hyperslab.apps.bids.app import task_of
from hyperslab.apps.bids.running import Asked, Selection, run_participants, select, units_of
from hyperslab.apps.bids.template import template_app
from hyperslab.apps.commands.running import commanded
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.engines.facts import DEFAULT
from hyperslab.plan.command import CommandTask

SHARE = 4
"Participants of the larger run for each of the smaller one."
APP = "cp {t1w} {out}/{prefix}.txt"
MOST_GROWTH = 1.5
"Of what a participant takes, or the page has of it."
MOST_MEMORY = 1.5
"Of the driver's peak."
MOST_LATER = 2.0
"Of the processor time of the last calls and that of the first ones."
FEW = 20
"Calls of which the median is taken."


class Taken(NamedTuple):
    """What a run took, and left."""

    plan_s: float
    "Processor time from the dataset to tasks that are ready."
    run_s: float
    again_s: float
    "Time of the same run once more, which finds all done."
    peak_nbytes: int
    page_nbytes: int
    loop_s: float
    "Time of a bare loop over the same programs."
    first_call_s: float
    "Processor time of a call for one participant, of the first calls into a directory."
    last_call_s: float
    "The same of the last ones, when there is one for each participant."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--participants", type=int, default=PARTICIPANTS)
    parser.add_argument("--engine", default=DEFAULT)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        taken = _take(Path(given.here), given.participants, given.engine)
        print(json.dumps(taken._asdict()))
        return
    few = max(1, given.participants // SHARE)
    _judge(given.participants, few, *(_apart(n, given.engine) for n in (given.participants, few)))


def _apart(participants: int, engine: str) -> Taken:
    """Run over so many participants in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="hyperslab-bench-") as folder:
        words = ("--participants", str(participants), "--engine", engine, "--here", folder)
        line = [sys.executable, "-m", "benchmarks.bench_participants", *words]
        said = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    return Taken(**json.loads(said.splitlines()[-1]))


def _take(folder: Path, participants: int, engine: str) -> Taken:
    home = folder / "data"
    _make(home, participants)
    options = Options(engine=engine, workers=PROCESSES)
    began = time.process_time()
    selection = select(home, Asked())
    prepare(commanded(_tasks(selection), options), options)
    plan_s = time.process_time() - began
    run_s = _run(selection, folder / "out", options)
    again_s = _run(
        selection, folder / "out", Options(engine=engine, workers=PROCESSES, resume=True)
    )
    peak_nbytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    page = folder / "out" / ".hyperslab" / "run-0001" / "report.html"
    loop_s = _by_hand(selection, folder / "hand")
    calls_s = _calls(home, participants, folder / "calls")
    first_s = statistics.median(calls_s[:FEW])
    last_s = statistics.median(calls_s[-FEW:])
    return Taken(plan_s, run_s, again_s, peak_nbytes, page.stat().st_size, loop_s, first_s, last_s)


def _calls(home: Path, participants: int, out: Path) -> list[float]:
    """Processor time of a call for each participant, one after the other."""
    app = template_app(APP)
    options = Options(engine="serial", resume=True, verb="bids", report=False)
    taken = []
    for number in range(participants):
        selection = select(home, Asked((f"{number:05}",)))
        began = time.process_time()
        assert run_participants(selection, out, app, options).ok
        taken.append(time.process_time() - began)
    return taken


def _make(home: Path, participants: int) -> None:
    """Write a dataset of one image each, all of which are links to one file."""
    image = home / "code" / "image.nii"
    image.parent.mkdir(parents=True)
    image.write_bytes(bytes(512))
    for number in range(participants):
        anatomy = home / f"sub-{number:05}" / "anat"
        anatomy.mkdir(parents=True)
        (anatomy / f"sub-{number:05}_T1w.nii").symlink_to(image)


def _tasks(selection: Selection) -> list[CommandTask]:
    app = template_app(APP)
    return [task_of(app, unit, selection.root) for unit in units_of(selection, app)]


def _run(selection: Selection, out: Path, options: Options) -> float:
    began = time.perf_counter()
    result = run_participants(selection, out, template_app(APP), options)
    assert result.ok
    return time.perf_counter() - began


def _by_hand(selection: Selection, out: Path) -> float:
    """Time of the same programs without anything around them."""
    out.mkdir()
    paths = [(unit.images[0].path, out / f"{unit.stem}.txt") for unit in selection.units]
    began = time.perf_counter()
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(lambda pair: subprocess.run(["cp", *pair], check=True), paths))
    return time.perf_counter() - began


def _judge(many: int, few: int, of_many: Taken, of_few: Taken) -> None:
    gates = Gates()
    for number, taken in ((many, of_many), (few, of_few)):
        print(
            f"{number} participants: planned in {taken.plan_s:.2f} s of a processor, run in"
            f" {taken.run_s:.1f} s (a bare loop {taken.loop_s:.1f} s), once more in"
            f" {taken.again_s:.2f} s; driver {taken.peak_nbytes / 2**20:.0f} MiB, page"
            f" {taken.page_nbytes / 1024:.0f} KiB; a call for one participant"
            f" {taken.first_call_s:.3f} s of a processor, the last one {taken.last_call_s:.3f} s"
        )
    for name in ("plan_s", "run_s", "again_s", "page_nbytes"):
        grown = getattr(of_many, name) / many / (getattr(of_few, name) / few)
        gates.at_most(f"{name} for each participant, of many / of few", grown, MOST_GROWTH)
    later = of_many.last_call_s / of_many.first_call_s
    gates.at_most(f"the last of {many} calls for one participant / the first", later, MOST_LATER)
    memory = of_many.peak_nbytes / of_few.peak_nbytes
    gates.at_most("peak memory of the driver, of many / of few", memory, MOST_MEMORY)
    gates.close()


if __name__ == "__main__":
    main()
