"""A run over a dataset like CoRR, both levels, on every engine in reach, beside a bare loop.

    python -m benchmarks.bench_corr [--participants 1397] [--seconds 0.04] [--engine ENGINE ...]

A task is a participant, whose sessions are 1 to 10 images at a site of 29: a command for each image
that sleeps, so that the processors are there for what is done beside it; a task takes 0.1 s on
average. The loop runs the same commands, as many at a time, and keeps no record. Then one command
gathers what all have left. The same is run with an app that takes no images by name, as containers
do: a command for each participant, which finds its images itself. Slurm is that of the tests, on
this host, where it can be started; an engine that is not in reach is named as such.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks import corr_dataset
from benchmarks.gates import Gates
from benchmarks.hand_written import PROCESSES
from hyperslab.apps.bids.grouping import LABEL
from hyperslab.apps.bids.running import Asked, Selection, run_participants, select
from hyperslab.apps.bids.template import group_words, template_app
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.plan.command import CommandTask
from tests.system.clusters import slurm

ENGINES = ("processes", "dask-futures", "gnu-parallel", "slurm")
MOST_RATIOS = {"processes": 1.3, "dask-futures": 1.3, "gnu-parallel": 1.3, "slurm": 1.5}
"""Of the time of the tasks, without the start of the engine, and that of the loop. Jobs of Slurm
wait for its scheduler, too.
"""
BY_IMAGE = "sh -c 'sleep SECONDS; echo {t1w} > {out}/{prefix}.txt'"
BY_PARTICIPANT = (
    "sh -c 'for image in {bids_dir}/sub-{participant}/ses-*/anat/*_T1w.nii.gz; do sleep SECONDS;"
    ' echo "$image" > {out}/"${image##*/}.txt"; done\''
)
APPS = {"images by name": BY_IMAGE, "images that it finds": BY_PARTICIPANT}
GROUP_APP = "sh -c 'ls {results}/*/sub-* > {out}/all.txt'"


def main() -> None:
    given = _arguments()
    gates = Gates()
    with tempfile.TemporaryDirectory(prefix="hyperslab-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        images = corr_dataset.make(folder / "data", participants=given.participants)
        selection = select(folder / "data", Asked())
        loop_s = _by_hand(selection, given.seconds, folder / "hand")
        each_s = loop_s * PROCESSES / given.participants
        print(
            f"{given.participants} participants, {images} images, {PROCESSES} at a time: a bare"
            f" loop takes {loop_s:.1f} s, {each_s:.3f} s for a task",
            flush=True,
        )
        for engine in given.engine or ENGINES:
            if not _is_in_reach(engine, folder, stack):
                print(f"{engine:<14} is not in reach", flush=True)
                continue
            for number, (what, app) in enumerate(APPS.items()):
                out = folder / f"{engine}-{number}"
                result = _run(selection, engine, app.replace("SECONDS", str(given.seconds)), out)
                _tell(f"{engine}, {what}", result, loop_s, given.participants)
                ratio = _tasks_s(result) / loop_s
                label = f"{engine}, {what}, tasks / a bare loop"
                gates.at_most(label, ratio, MOST_RATIOS[engine])
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--participants", type=int, default=corr_dataset.PARTICIPANTS)
    parser.add_argument("--seconds", type=float, default=0.04, help="that an image takes")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    return parser.parse_args()


def _is_in_reach(engine: str, folder: Path, stack: ExitStack) -> bool:
    """Whether an engine can run here; Slurm is started for that."""
    if engine == "dask-futures":
        return importlib.util.find_spec("distributed") is not None
    if engine == "gnu-parallel":
        return shutil.which("parallel") is not None
    if engine == "slurm":
        if slurm.missing():
            return False
        (folder / "cluster").mkdir()
        stack.enter_context(slurm.in_reach(folder / "cluster"))
    return True


def _run(selection: Selection, engine: str, app: str, out: Path) -> Result:
    """Both levels of a run, which has to make all that it is to make."""
    options = Options(engine=engine, workers=PROCESSES, threads=1, verb="bids", report=False)
    group = CommandTask(LABEL, group_words(GROUP_APP, selection.root, str(out)))
    result = run_participants(selection, out, template_app(app), options, then=(group,))
    assert result.ok, result.failures
    found = len(list(out.rglob("*_ses-*.txt")))
    assert found == sum(len(unit.images) for unit in selection.units)
    return result


def _by_hand(selection: Selection, seconds: float, out: Path) -> float:
    """Time of the same commands without anything around them."""
    out.mkdir()

    def one(number: int) -> None:
        script = f"sleep {seconds}; echo $1 > $2"
        for place, image in enumerate(selection.units[number].images):
            target = out / f"{number}.{place}.txt"
            subprocess.run(["sh", "-c", script, "sh", image.path, target], check=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(one, range(len(selection.units))))
    return time.perf_counter() - began


def _tasks_s(result: Result) -> float:
    """Time of all tasks, without the start of the engine."""
    meta = result.trace.meta
    taken_ns: int = meta["end_ns"] - meta["ready_ns"]
    return taken_ns / 1e9


def _tell(name: str, result: Result, loop_s: float, participants: int) -> None:
    tasks_s = _tasks_s(result)
    more_ms = 1e3 * (tasks_s - loop_s) * PROCESSES / participants
    of_slots_s = tasks_s * result.summary.slots
    print(
        f"{name:<36} {tasks_s:.1f} s for all tasks, {more_ms:+.1f} ms for each; of the slots'"
        f" time {result.summary.idle_s / of_slots_s:.1%} idle at the end, and"
        f" {result.summary.barrier_s / of_slots_s:.1%} between the levels",
        flush=True,
    )


if __name__ == "__main__":
    main()
