"""Conversions of one volume into files of every kind, in this process and in others that are slow
or end early.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import h5py
import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import reading
from tests.system.end_to_end.command import Finished, call
from tests.system.faults.command import Running, await_that

SHAPE = (64, 60, 1200)
"Of uint16, 9.2 MB."
AFFINE = np.diag([2.0, 2, 2, 1])
MEMORY = ("--memory", "96MB")
"Enough for four slots, which have about two tasks each."
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "placed": ("new.nii", ()),
    "runs": ("new.nii.gz", ()),
    "chunks": ("new.h5", ("--chunks", "16,32,100", "--compression", "gzip")),
    "parts": ("new.h5", ("--virtual",)),
    "split": ("blocks", ("--blocks", "2x1x3")),
    "store": ("new.zarr", ("--chunks", "32,32,100")),
    "shards": ("new.zarr", ("--chunks", "16,32,100", "--shards", "32,32,300")),
}
SITE = """
import itertools, os, signal, threading, time
import hyperslab.driver.submission as records
import hyperslab.storage.renaming as renaming
import hyperslab.blocks.writing as writing
from hyperslab.plan.journal import SlotJournal

records.write_report = lambda *_: None
plain_rename, numbers = renaming.rename, itertools.count(1)
plain_take = SlotJournal.take
own = threading.local()

def held(plain):
    def write(*arguments):
        while getattr(own, "has_recorded", False) and os.path.exists(os.environ["HOLD"]):
            time.sleep(0.01)
        return plain(*arguments)
    return write

def take(*arguments):
    plain_take(*arguments)
    own.has_recorded = True

def rename(*arguments):
    own = next(numbers)  # threads may rename at the same time
    when, number = os.environ.get("KILL_AT", "never 0").split()
    if when == "before" and own == int(number):
        os.kill(os.getpid(), signal.SIGKILL)
    plain_rename(*arguments)
    if when == "after" and own == int(number):
        os.kill(os.getpid(), signal.SIGKILL)

writing.write, writing.write_region = held(writing.write), held(writing.write_region)
renaming.rename, SlotJournal.take = rename, take
"""
"""What Python runs at its start, in the driver and in every worker: writes that wait, a death at a
rename, no report.
"""


def held_writes(tmp_path: Path) -> dict[str, str]:
    """The environment of a command whose slots do a task each, and write nothing more until
    the file of HOLD is gone: it is under way for as long as a test takes to meet it.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    (tmp_path / "hold").touch()
    return {
        "PYTHONPATH": f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}",
        "HOLD": str(tmp_path / "hold"),
    }


def let_go(environment: Mapping[str, str]) -> None:
    """Hold no write any more."""
    Path(environment["HOLD"]).unlink()


@functools.cache
def values() -> Array:
    """Of the volume, drawn once; not to be written to."""
    drawn = np.random.default_rng(0).integers(0, 300, SHAPE).astype("u2")
    drawn.setflags(write=False)
    return drawn


def job(source: Path, kind: str, *more: object) -> tuple[object, ...]:
    name, options = KINDS[kind]
    return (
        "convert",
        source,
        source.parent / "out" / name,
        *options,
        *MEMORY,
        "--engine",
        "threads",
        "--threads",
        4,
        "-q",
        *more,
    )


def undisturbed(*arguments: object) -> None:
    """A conversion in this process, which must succeed without a word."""
    done = call(*arguments)
    assert done == Finished(0, "", ""), done


def refusal(*arguments: object) -> str:
    """What is said to a conversion, in this process, that must be refused."""
    done = call(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    return done.err


def in_bytes(out: Path) -> dict[str, bytes]:
    """Everything in a folder that is no record, by name, but for what names a folder of parts,
    which is always new.

    Chunks of HDF5 are in the order of their corners, in whichever one their writers came.
    """
    files = (
        path for path in sorted(out.rglob("*")) if path.is_file() and ".hyperslab" not in str(path)
    )
    found = {
        re.sub(r"parts-[0-9a-f]+", "parts", str(path.relative_to(out))): _ordered(path)
        for path in files
    }
    return {name: b"" if b".parts-" in raw else raw for name, raw in found.items()}


def _ordered(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix != ".h5":
        return raw
    with h5py.File(path, locking=False) as file:
        dataset = file["data"]
        if dataset.chunks is None:
            return raw
        about = (
            dataset.shape,
            dataset.dtype,
            dataset.chunks,
            dataset.compression,
            dict(dataset.attrs),
        )
        chunks = [dataset.id.read_direct_chunk(corner)[1] for corner in _corners(dataset)]
    return b"".join([repr(about).encode(), *chunks])


def _corners(dataset: h5py.Dataset) -> Iterator[tuple[int, ...]]:
    return itertools.product(
        *(range(0, n, c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    )


def recorded(out: Path) -> int:
    lines = (path.read_bytes() for path in out.rglob("*.hyperslab/run-*/journal/*.jsonl"))
    return sum(len(re.findall(rb'"status":"done"', text)) for text in lines)


def await_tasks(run: Running, out: Path, tasks: int) -> None:
    await_that(f"{tasks} tasks done in {out}", lambda: recorded(out) >= tasks or run.has_ended)
    assert recorded(out) >= tasks, run.wait()
    assert not run.has_ended, run.wait()


def content(path: Path) -> Array:
    source = formats.open_source(str(path))
    return reading.read(source, Hyperslab.full(source.shape), values="stored")
