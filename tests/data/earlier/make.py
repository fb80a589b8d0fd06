"""Make the interrupted runs of this folder; see README.md. Give the name of one, and where to."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

MTIME_S = 1_700_000_000
"When the sources were written: whole seconds, which archives keep exactly."
PAUSE_S = 0.3
"Long enough for every outcome to reach the journal before the next task."
WRONG = """
def wrong(block):
    if block[0, 0, 0] > 11:
        raise ValueError("too bright")
    return block
"""
"A function that fails for some blocks of the sources."


@dataclass(frozen=True)
class Run:
    """One that is to be interrupted, or not."""

    command: tuple[str, ...]
    kill_at: str = ""
    "Function of that version in which its process dies, 'module:name'; '' where it ends."
    after: int = 0
    "Calls of that function which end before."
    before: tuple[str, ...] = ()
    "Command that has ended before it."


_CONVERT = ("convert", "in", "out", "--dtype", "float64", "--format")
_DOWNSAMPLE = ("run", "downsample", "in", "-o", "out", "--blocks", "8", "--keep", "volume")
RUNS = {
    "map": Run(
        ("run", "increment", "in", "-o", "out", "--blocks", "8", "-p", "iterations=2"),
        "task:_write",
        4,
    ),
    "volume": Run(_DOWNSAMPLE, "task:_write", 6),
    "reduction": Run(("run", "histogram", "in", "-o", "out", "--blocks", "8"), "task:_lift", 21),
    "convert": Run((*_CONVERT, "nii"), "task:_write", 1),
    "pieces": Run((*_DOWNSAMPLE, "--format", "nii.gz"), "task:_write", 6),
    "store": Run((*_DOWNSAMPLE, "--format", "zarr", "--chunks", "6x5x1"), "task:_write", 6),
    "hdf5": Run((*_DOWNSAMPLE, "--format", "h5", "--chunks", "6x5x1"), "task:_write", 6),
    "overwrite": Run(
        (*_CONVERT, "nii.gz", "--overwrite"), "products:Products._tidy", 0, (*_CONVERT, "nii")
    ),
    "finished": Run(_DOWNSAMPLE),
    "failed": Run(("run", "wrong.py:wrong", "in", "-o", "out", "--blocks", "8", "--retries", "0")),
}


def make_sources(folder: Path) -> None:
    """Two volumes of float32, 12 x 10 x 8 voxels of 2 mm."""
    folder.mkdir(parents=True)
    for number in range(2):
        values = np.random.default_rng(number).integers(0, 50, (12, 10, 8)).astype("f4") / 4
        image = nib.Nifti1Image(values, np.diag([2.0, 2.0, 2.0, 1.0]))  # type: ignore[no-untyped-call]
        path = folder / f"v_{number}.nii"
        nib.save(image, path)
        os.utime(path, (MTIME_S, MTIME_S))


def kill_at(place: str, calls: int) -> None:
    """Let the process die as it begins the call of a function after so many."""
    module, _, name = place.partition(":")
    owner: Any = importlib.import_module(f"hyperslab.{module}")
    *classes, name = name.split(".")
    for one in classes:
        owner = getattr(owner, one)
    original, seen = getattr(owner, name), []

    def counted(*arguments: Any) -> None:
        seen.append(arguments)
        if len(seen) > calls:
            time.sleep(PAUSE_S)
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments)
        time.sleep(PAUSE_S)

    setattr(owner, name, counted)


def run(command: tuple[str, ...], place: str = "", calls: int = 0) -> int:
    """Run a command in a child process; returns how that ended."""
    child = os.fork()
    if not child:
        if place:
            kill_at(place, calls)
        sys.argv = ["hyperslab", *command, "--engine", "serial", "--quiet"]
        importlib.import_module("hyperslab.cli").main(sys.argv[1:])
        os._exit(0)
    return os.waitpid(child, 0)[1]


def entry_of(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """What an archive holds of a file: its exact time, too; nothing of the pages of runs, which are
    larger than all else.
    """
    if entry.name.endswith("report.html"):
        return None
    if entry.isfile():
        exact = Path(entry.name).stat().st_mtime_ns
        entry.pax_headers = {"HYPERSLAB.mtime_ns": str(exact)}
    return entry


def main(name: str, place: str) -> None:
    """Make one of them, and archive what it left."""
    asked = RUNS[name]
    folder = Path(place) / name
    make_sources(folder / "in")
    os.chdir(folder)
    if name == "failed":
        Path("wrong.py").write_text(WRONG)
    if asked.before:
        run(asked.before)
    status = run(asked.command, asked.kill_at, asked.after)
    assert os.WIFSIGNALED(status) == bool(asked.kill_at), status
    with tarfile.open(folder.with_suffix(".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(".", ".", filter=entry_of)


main(*sys.argv[1:])
