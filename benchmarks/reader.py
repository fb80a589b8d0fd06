"""One reader in a process of its own, which reads the same array as often as it is told to.

    python -m benchmarks.reader NAME FILE DATASET THREADS

Every line on standard input is an order: `warm`, or `cold` to drop the file from the page cache
before. The answer is a line of JSON: wall and CPU seconds of the read (user and system, all
threads), and how much the peak of the process's memory grew, in bytes. The first line printed,
before any order, is the checksum of what was read, to be compared.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

Block = npt.NDArray[Any]
Read = Callable[[], Block]
PLAIN_NBYTES = 8 * 1024**2


def main() -> None:
    name, path, dataset, threads = sys.argv[1:5]
    read = READERS[name](path, dataset, int(threads))
    before = peak_nbytes()
    print(json.dumps({"checksum": checksum(read()), "before_nbytes": before}), flush=True)
    for order in sys.stdin:
        if order.strip() == "cold":
            drop(path)
        began, used = time.perf_counter(), cpu_s()
        read()
        answer = {
            "wall_s": time.perf_counter() - began,
            "cpu_s": cpu_s() - used,
            "peak_nbytes": peak_nbytes(),
        }
        print(json.dumps(answer), flush=True)


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_nbytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def drop(path: str) -> None:
    """Have the system forget what it holds of a file."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def checksum(block: Block) -> str:
    """Of the elements in C order and native byte order, a slab at a time."""
    digest = xxhash.xxh3_128()
    for part in block:
        digest.update(np.ascontiguousarray(part, block.dtype.newbyteorder("=")).data)
    return digest.hexdigest()


def hyperslab(path: str, dataset: str, threads: int) -> Read:
    """Indexed once; into memory that was touched before, as all readers here that can."""
    from hyperslab import formats
    from hyperslab.arrays.slab import Hyperslab
    from hyperslab.blocks import reading

    source = formats.open_source(f"{path}::{dataset}" if dataset else path)
    slab, axes = Hyperslab.full(source.shape), source.axes
    out = np.ones(source.stored_shape, source.dtype("stored")).transpose(np.argsort(axes))
    return lambda: reading.read(source, slab, out, "stored", threads)


def h5py(path: str, dataset: str, threads: int) -> Read:
    import h5py as library

    opened = library.File(path, "r", locking=False)[dataset]
    out = np.ones(opened.shape, opened.dtype)

    def read() -> Block:
        opened.read_direct(out)
        return out

    return read


def hidefix(path: str, dataset: str, threads: int) -> Read:
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    import hidefix as library

    opened = library.Index(path).dataset(dataset.strip("/"))
    return lambda: np.asarray(opened[(slice(None),)])


def netcdf4(path: str, dataset: str, threads: int) -> Read:
    import netCDF4

    opened = netCDF4.Dataset(path)
    opened.set_auto_maskandscale(False)
    variable = opened.variables[dataset.strip("/")]
    return lambda: np.asarray(variable[...])


def pread(path: str, dataset: str, threads: int) -> Read:
    """The physical limit: the bytes of a contiguous array, in calls of 8 MiB, on so many
    threads.
    """
    from hyperslab import formats

    source = formats.open_source(f"{path}::{dataset}" if dataset else path)
    assert source.chunks is not None
    assert len(source.chunks) == 1
    offset, nbytes = int(source.chunks.offset[0]), int(source.chunks.nbytes[0])
    fd = os.open(path, os.O_RDONLY)
    out = np.ones(nbytes, np.uint8)
    parts = range(0, nbytes, PLAIN_NBYTES)

    def some(number: int) -> None:
        for first in parts[number::threads]:
            view, at = out.data[first : first + PLAIN_NBYTES], offset + first
            while view:
                count = os.preadv(fd, [view], at)
                at, view = at + count, view[count:]

    def read() -> Block:
        helpers = [threading.Thread(target=some, args=(number,)) for number in range(1, threads)]
        for helper in helpers:
            helper.start()
        some(0)
        for helper in helpers:
            helper.join()
        block: Block = (
            out.view(source.stored).reshape(source.stored_shape).transpose(np.argsort(source.axes))
        )
        return block

    return read


def nibabel(path: str, dataset: str, threads: int) -> Read:
    import nibabel as library

    image: Any = library.load(path)
    return lambda: np.array(image.dataobj.get_unscaled())


READERS: dict[str, Callable[[str, str, int], Read]] = {
    "hyperslab": hyperslab,
    "h5py": h5py,
    "hidefix": hidefix,
    "netCDF4": netcdf4,
    "nibabel": nibabel,
    "pread": pread,
}

if __name__ == "__main__":
    Path(sys.argv[2]).stat()
    main()
