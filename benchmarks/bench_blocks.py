"""A volume split into 125 blocks, incremented and merged back, within a cap of memory.

    python -m benchmarks.bench_blocks [--size 8GiB] [--memory 1GiB] [--workers 2] [--folder DIR]

Every step runs on worker processes. The gates: every voxel of the merged volume is one more than
that of the first (it is compared block by block with NumPy, in a process of its own), the bytes
that the plans named are those that the traces say were read and written, each voxel is read and
written once per step, and the peaks of the driver and its workers, added up, stay within the cap.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import hyperslab
from benchmarks.gates import Gates
from hyperslab import Options, Pipeline, Rule, workloads
from hyperslab.apps.conversion import Wanted, conversion
from hyperslab.cli.parse import parse_size
from hyperslab.driver.prepare import prepare
from hyperslab.units import show_bytes

GRID = (5, 5, 5)
PLANES = 16


def main() -> None:
    arguments = _arguments()
    folder, gates = Path(tempfile.mkdtemp(prefix="hyperslab-bench-", dir=arguments.folder)), Gates()
    options = Options(
        workers=arguments.workers, memory_bytes=parse_size("--memory", arguments.memory)
    )
    try:
        (first,) = hyperslab.synth(
            "bigbrain", folder / "first", parse_size("--size", arguments.size), 1
        )
        whole = hyperslab.open(first)
        print(
            f"{whole.shape} {whole.dtype}, {show_bytes(whole.nbytes)}, cap"
            f" {show_bytes(options.memory_bytes or 0)}"
        )
        split, done, merged = folder / "split", folder / "incremented", folder / "merged.nii"
        _step(
            "split",
            conversion(first, split, Wanted(grid=Rule("blocks", GRID))),
            options,
            whole.nbytes,
            gates,
        )
        increment = workloads.build("increment", Pipeline(str(split), values="stored"), {})
        _step("increment", increment.write(done), options, whole.nbytes, gates)
        _step("merge", conversion(done, merged), options, whole.nbytes, gates)
        with ProcessPoolExecutor(1) as elsewhere:
            differing = elsewhere.submit(_differing, str(first), str(merged)).result()
        gates.at_most("voxels that are not one more than before", differing, 0)
    finally:
        shutil.rmtree(folder)
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="8GiB")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--folder", default=None, help="where the files go; by default the system's"
    )
    return parser.parse_args()


def _step(name: str, pipeline: Pipeline, options: Options, nbytes: int, gates: Gates) -> None:
    plan = prepare(pipeline, options).plan
    began = time.perf_counter()
    result = hyperslab.run(pipeline, options, check=False)
    took = time.perf_counter() - began
    moved = {
        kind: sum(s.nbytes for s in result.trace.spans if s.kind == kind)
        for kind in ("read", "write")
    }
    rate = show_bytes(int(nbytes / took))
    print(
        f"{name}: {took:.1f} s, {rate} per second each way, {result.tasks} tasks,"
        f" {len(result.outputs)} files"
    )
    gates.at_most(f"{name}: tasks that failed", len(result.failures), 0)
    gates.at_most(f"{name}: bytes read but not planned", abs(moved["read"] - plan.bytes_read), 0)
    gates.at_most(f"{name}: bytes read / bytes of the volume", moved["read"] / nbytes, 2)
    heads = len(result.outputs) * 4096  # of files that are written whole
    gates.at_most(
        f"{name}: bytes written but not planned", abs(moved["write"] - plan.bytes_written), heads
    )
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    peak = own + sum(result.summary.max_rss_nbytes.values())
    gates.at_most(
        f"{name}: peak memory of driver and workers / cap", peak / (options.memory_bytes or 1), 1
    )


def _differing(first: str, merged: str) -> int:
    before, after = hyperslab.open(first, "stored"), hyperslab.open(merged, "stored")
    if before.shape != after.shape or before.dtype != after.dtype:
        return before.size
    found = 0
    for plane in range(0, before.shape[2], PLANES):
        box = (slice(None), slice(None), slice(plane, plane + PLANES))
        found += int(np.count_nonzero(before[box] + before.dtype.type(1) != after[box]))
    return found


if __name__ == "__main__":
    main()
