"""A process that reads damaged HDF5 files, one after the other, within limits of memory; its parent
watches the time.

It answers each path on its input with a line of JSON: a list of [stage, what came of it]. Stages
are named before they begin, so that the parent knows in which one a process died.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from hyperslab.formats.groups import read_groups
from hyperslab.formats.hdf5.storage import register_plugins
from tests.formats.files import ROOT

MEMORY_NBYTES = 2 * 2**30
LARGEST_REGION = 2**14
ARRAYS = 6
SOUND = ("FormatError", "UsageError", "SourceChanged")


def make_lists(path: Path, **options: Any) -> None:
    """Datasets whose elements and attributes lie in the global heap: text and lists of any length,
    scales, labels.
    """
    with h5py.File(path, "w", **options) as file:
        file["words"] = ["one", "two", "three and more"] * 5
        file.create_dataset("lists", (4,), h5py.vlen_dtype("i2"))[0] = [1, 2, 3]
        file["plain"] = np.arange(6.0)
        data = file.create_dataset("data", data=np.arange(20.0).reshape(4, 5), chunks=(2, 5))
        data.attrs["text"], data.attrs["list"] = "of any length", ["a", "bcd", ""]
        pair = np.array([np.arange(3), np.arange(5)], dtype=object)
        data.attrs.create("vl", pair, dtype=h5py.vlen_dtype("i4"))
        file["x"] = np.arange(4.0)
        file["x"].make_scale("x")
        data.dims[0].attach_scale(file["x"])
        data.dims[1].label = "why"


class Reading:
    """A reading process, started again when it has died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self, path: Path, sound: Path, seconds: float = 20) -> list[tuple[str, str]]:
        """What came of each stage of reading a file; ('end', 'died: SIGNAL' or 'hung') comes last
        if that happened.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\t{sound}\n".encode())
        said, until = b"", time.monotonic() + seconds
        while not said.endswith(b"done\n"):
            ready, _, _ = select.select([process.stdout], [], [], max(0, until - time.monotonic()))
            more = os.read(process.stdout.fileno(), 65536) if ready else b""
            if not more:
                return [*_lines(said), ("end", self._end("died" if ready else "hung"))]
            said += more
        return _lines(said.removesuffix(b"done\n"))

    def stop(self) -> None:
        if self.process is not None:
            self._end("stopped")

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            command = [sys.executable, "-m", "tests.formats.hdf5_damage"]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT, bufsize=0)
        return self.process

    def _end(self, how: str) -> str:
        assert self.process is not None
        if how != "died":
            self.process.kill()
        process, self.process = self.process, None
        process.communicate()
        return f"{how}: {process.returncode}" if how == "died" else how


def _lines(said: bytes) -> list[tuple[str, str]]:
    """The whole lines of what a process said; plugins of HDF5 print lines of their own."""
    lines = said.splitlines(keepends=True)
    return [
        tuple(json.loads(line)) for line in lines if line.startswith(b'["') and line.endswith(b"\n")
    ]


def stages(path: str, sound: str) -> Iterator[tuple[str, Any]]:
    """What to do with a file: list it, open its arrays, read a part of each by hyperslab and by
    h5py, and compare.

    `sound` is the file as it was. A part that hyperslab leaves to h5py is read in a stage
    'library': what libhdf5 makes of damaged data is its own affair, and can be different each time.
    """
    found: list[Any] = []
    yield "list", lambda: found.extend(formats.arrays(path))
    yield "list groups", lambda: bool(read_groups(path, tree=True))
    for info in found[:ARRAYS]:
        yield from _of_array(path, info.name, sound)


def _of_array(path: str, name: str, sound: str) -> Iterator[tuple[str, Any]]:
    values: dict[str, Any] = {}
    yield f"open {name}", lambda: values.update(source=formats.open_source(f"{path}::{name}"))
    if (source := values.get("source")) is None:
        return
    edge = max(1, int(LARGEST_REGION ** (1 / max(1, source.ndim))))
    slab = Hyperslab((0,) * source.ndim, tuple(min(n, edge) for n in source.shape))
    by_library = source.chunks is None
    work = partial(reading.read, source, slab, values="stored")
    yield f"{'library' if by_library else 'read'} {name}", lambda: values.update(ours=work())
    if by_library or "ours" not in values:
        return
    yield f"h5py {name}", lambda: values.update(theirs=_by_h5py(path, name, slab))
    yield f"sound {name}", lambda: values.update(sound=_by_h5py(sound, name, slab))
    yield (
        f"compare {name}",
        lambda: _compared(values["ours"], values.get("theirs"), values.get("sound"), source.fill),
    )


def _by_h5py(path: str, name: str, slab: Hyperslab) -> Array:
    with h5py.File(path, "r", locking=False) as file:
        block: Array = file[name][slab.slices()]
    return block


def _compared(ours: Array, theirs: Array | None, sound: Array | None, fill: Any) -> str:
    """'different' for elements that are neither h5py's nor those of the file before it was damaged.

    A B-tree of version 1 has no checksum: with a damaged key, h5py no longer finds a chunk, whose
    place is still known.
    """
    wrong = np.ones(ours.shape, bool)
    for other in (theirs, sound):
        if (
            other is not None
            and other.shape == ours.shape
            and other.dtype.newbyteorder("=") == ours.dtype
        ):
            wrong &= _bits(ours) != _bits(other.astype(ours.dtype))
    if theirs is not None and fill is not None:
        wrong &= _bits(theirs.astype(ours.dtype)) != _bits(np.full(ours.shape, fill, ours.dtype))
    return f"different: {ours[wrong][:3]}" if wrong.any() else "same"


def _bits(values: Array) -> Array:
    """Elements that are equal only if their bytes are."""
    return (
        np.ascontiguousarray(values)
        .view(np.dtype((np.void, values.dtype.itemsize)))
        .reshape(values.shape)
    )


def _tried(work: Any) -> str:
    try:
        result = work()
    except Exception as error:  # noqa: BLE001  # its name is what the parent looks at
        return f"{type(error).__name__}: {error}"
    return result if isinstance(result, str) else "fine"


def _serve() -> None:
    register_plugins()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_NBYTES, MEMORY_NBYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        for stage, work in stages(*line.rstrip("\n").split("\t")):
            print(json.dumps((stage, "begun")), flush=True)
            print(json.dumps((stage, _tried(work))), flush=True)
        print("done", flush=True)


if __name__ == "__main__":
    _serve()
