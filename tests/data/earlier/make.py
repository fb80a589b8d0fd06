"""Make the interrupted runs of this folder; see README.md. Give the name of one, and where to."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

MTIME_S = 1_700_000_000
"When the sources were written: whole seconds, which archives keep exactly."
PAUSE_S = 0.3
"Long enough for every outcome to reach the journal before the next task."
RUNS: dict[str, tuple[tuple[str, ...], str, int]] = {
    "map": (
        ("run", "increment", "in", "-o", "out", "--blocks", "8", "-p", "iterations=2"),
        "_write",
        4,
    ),
    "volume": (
        ("run", "downsample", "in", "-o", "out", "--blocks", "8", "--keep", "volume"),
        "_write",
        6,
    ),
    "reduction": (("run", "histogram", "in", "-o", "out", "--blocks", "8"), "_lift", 21),
    "convert": (("convert", "in", "out", "--format", "nii", "--dtype", "float64"), "_write", 1),
}
"Command, the last step of its tasks, and how many of them end before the process is killed."


def make_sources(folder: Path) -> None:
    """Two volumes of float32, 12 x 10 x 8 voxels of 2 mm."""
    folder.mkdir(parents=True)
    for number in range(2):
        values = np.random.default_rng(number).integers(0, 50, (12, 10, 8)).astype("f4") / 4
        image = nib.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0]))  # type: ignore[no-untyped-call]
        path = folder / f"v_{number}.nii"
        nib.save(image, path)
        os.utime(path, (MTIME_S, MTIME_S))


def kill_after(step: str, tasks: int) -> None:
    """Let the process die as it begins the task after so many."""
    module = importlib.import_module("hyperslab.task")
    original, calls = getattr(module, step), []

    def counted(job: Any, state: Any) -> None:
        calls.append(state)
        if len(calls) > tasks:
            time.sleep(PAUSE_S)
            os.kill(os.getpid(), signal.SIGKILL)
        original(job, state)
        time.sleep(PAUSE_S)

    setattr(module, step, counted)


def main(name: str, place: str) -> None:
    """Run one of them until it is killed, in a child process, and archive what it left."""
    command, step, tasks = RUNS[name]
    folder = Path(place) / name
    make_sources(folder / "in")
    os.chdir(folder)
    child = os.fork()
    if not child:
        kill_after(step, tasks)
        importlib.import_module("hyperslab.cli").main([*command, "--engine", "serial", "--quiet"])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    with tarfile.open(folder.with_suffix(".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(".", ".")


main(*sys.argv[1:])
