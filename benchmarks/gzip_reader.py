"""One reader of a .nii.gz in a process of its own, which reads the planes it is told to.

    python -m benchmarks.gzip_reader NAME FILE INDEX THREADS

The first line printed, '{}', says that it is ready. Every line on standard input is an order: the
first plane and how many. The answer is a line of JSON: wall and CPU seconds of the read (user and
system, all threads), and a checksum of the values. INDEX is the one that NAME reads by.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.reader import checksum, cpu_s
from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.blocks.reading import gzipindex

Block = npt.NDArray[Any]
Read = Callable[[int, int], Callable[[], Block]]
"What to do before the clock runs, which gives what to do then."


def main() -> None:
    name, path, index, threads = sys.argv[1:5]
    read = READERS[name](path, index, int(threads))
    print("{}", flush=True)
    for order in sys.stdin:
        first, count = map(int, order.split())
        prepared = read(first, count)
        began, used = time.perf_counter(), cpu_s()
        block = prepared()
        answer = {"wall_s": time.perf_counter() - began, "cpu_s": cpu_s() - used}
        print(json.dumps({**answer, "checksum": checksum(block.T)}), flush=True)


def hyperslab(path: str, index: str, threads: int) -> Read:
    """As a task does: one open of the file and one of the index for every read."""
    source = gzipindex.load(formats.open_source(path), Path(index))
    assert source is not None
    memory = _touched(path)

    def read(first: int, count: int) -> Callable[[], Block]:
        slab = Hyperslab((0, 0, first), (*source.shape[:2], count))
        return lambda: reading.read(source, slab, memory[..., :count], "stored", threads)

    return read


def rapidgzip(path: str, index: str, threads: int) -> Read:
    """Opened, and its index imported, before the clock runs, but for each read: it remembers what
    it has inflated.
    """
    import rapidgzip as library

    memory, opened = _touched(path), ExitStack()
    offset, plane = _offset(path), memory[..., 0].nbytes

    def read(first: int, count: int) -> Callable[[], Block]:
        opened.close()
        file = opened.enter_context(library.open(path, parallelization=threads))
        file.import_index(index)
        block = memory[..., :count]
        return lambda: _filled(file, offset + first * plane, block)

    return read


def _filled(file: Any, position: int, block: Block) -> Block:
    file.seek(position)
    assert file.readinto(block.T.reshape(-1).view(np.uint8)) == block.nbytes
    return block


def nibabel(path: str, index: str, threads: int) -> Read:
    import nibabel as library

    image: Any = library.load(path)
    return lambda first, count: lambda: np.asarray(image.dataobj[..., first : first + count])


READERS: dict[str, Callable[[str, str, int], Read]] = {
    "hyperslab": hyperslab,
    "rapidgzip": rapidgzip,
    "nibabel": nibabel,
}


def _touched(path: str) -> Block:
    """Memory for the whole array, in the file's order, that the system has given already."""
    source = formats.open_source(path)
    return np.ones(source.stored_shape, source.dtype("stored")).T


def _offset(path: str) -> int:
    native = formats.open_source(path).header.native
    assert native is not None
    return len(native)


if __name__ == "__main__":
    main()
