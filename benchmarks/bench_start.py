"""Short commands from Enter to prompt, against the start of the libraries that they rest on.

    python -m benchmarks.bench_start [--repeats 15]

The commands take turns with `python -c 'import numpy, nibabel, h5py'`; a ratio is that of the
medians of wall time. The head is uint8, 181 x 217 x 181, in a .nii.gz; the null run adds 1 to 64
voxels on the engine `processes`. Both runs write their records and their page.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel as nib
import numpy as np

from benchmarks.gates import Gates
from hyperslab.arrays import Array

HYPERSLAB = [sys.executable, "-c", "from hyperslab.cli import main; main()"]
LIBRARIES = "import numpy, nibabel, h5py"
MOST = {"--help": 0.7, "info": 1.2, "doctor": 2.0, "null run": 2.4, "run stats": 2.6}
"Time of each command / time of the libraries, at most."
PAGE_NBYTES = 400_000
"What the page of a short run may weigh."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    folder = Path(tempfile.mkdtemp(prefix="hyperslab-bench-"))
    out = folder / "out"
    try:
        taken = _in_turn(_commands(folder, out), out, repeats)
        (page,) = out.rglob("report.html")
        page_nbytes = page.stat().st_size
    finally:
        shutil.rmtree(folder)
    _judge(taken, page_nbytes)


def _commands(folder: Path, out: Path) -> dict[str, list[str]]:
    """The commands by name; the last one leaves a page."""
    voxels = np.random.default_rng(0).integers(0, 255, (181, 217, 181), np.uint8)
    voxels[:, :, ::2] = 0  # half of it is air
    head = _nifti(folder / "head.nii.gz", voxels)
    few = _nifti(folder / "few.nii", np.zeros((4, 4, 4), np.int16))
    return {
        "libraries": [sys.executable, "-c", LIBRARIES],
        "--help": [*HYPERSLAB, "--help"],
        "info": [*HYPERSLAB, "info", head],
        "doctor": [*HYPERSLAB, "doctor"],
        "null run": [*HYPERSLAB, "run", "increment", few, "-o", str(out), "-q"],
        "run stats": [*HYPERSLAB, "run", "stats", head, "-o", str(out)],
    }


def _nifti(path: Path, voxels: Array) -> str:
    nib.save(nib.Nifti1Image(voxels, np.eye(4)), path)  # type: ignore[no-untyped-call]
    return str(path)


def _in_turn(commands: dict[str, list[str]], out: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of each command, one after the other, after a turn that is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(repeats + 1):
        for name, command in commands.items():
            shutil.rmtree(out, ignore_errors=True)
            began = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True)
            if turn:
                taken[name].append(time.perf_counter() - began)
    return taken


def _judge(taken: dict[str, list[float]], page_nbytes: int) -> None:
    gates = Gates()
    usual = {name: statistics.median(seconds) for name, seconds in taken.items()}
    print(f"{LIBRARIES}: {usual['libraries']:.3f} s")
    for name, most in MOST.items():
        print(f"{name}: {usual[name]:.3f} s")
        gates.at_most(f"{name} / libraries", usual[name] / usual["libraries"], most)
    gates.at_most("kB of the page of a short run", page_nbytes / 1000, PAGE_NBYTES / 1000)
    gates.close()


if __name__ == "__main__":
    main()
