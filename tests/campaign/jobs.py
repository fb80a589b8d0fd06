"""What a round runs: small jobs of every kind on every engine, and the files that they read."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np

from hyperslab.arrays import Array
from tests.campaign import functions
from tests.system.faults.command import FUNCTIONS

AFFINE = np.diag([2.0, 2, 2, 1])
SMALL, LARGE = (16, 16, 32), (64, 64, 256)
"""Of runs, which have a task per slab or so, and of conversions, which have as many as their memory
makes of them.
"""
SECONDS = 0.04
"What a task of a run takes beside its work."
SLOTS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "serial": (1, ("--engine", "serial")),
    "threads": (2, ("--engine", "threads", "--threads", "2")),
    "processes": (2, ("--workers", "2")),
    "processes of threads": (4, ("--workers", "2", "--threads", "2")),
    "dask-futures": (2, ("--engine", "dask-futures", "--workers", "2")),
    "dask-bag": (2, ("--engine", "dask-bag", "--workers", "2")),
    "spark": (2, ("--engine", "spark", "--workers", "2")),
    "gnu-parallel": (2, ("--engine", "gnu-parallel", "--workers", "2")),
    "mpi": (2, ("--engine", "mpi", "--workers", "2")),
    "slurm": (2, ("--engine", "slurm", "--workers", "2")),
}
"Of an engine: tasks at a time, and how to ask for it."
SHARES = {
    "serial": 12,
    "threads": 14,
    "processes": 50,
    "processes of threads": 12,
    "dask-futures": 6,
    "dask-bag": 4,
    "spark": 1,
    "gnu-parallel": 4,
    "mpi": 5,
    "slurm": 2,
}
QUEUED = ("slurm",)
"Engines whose tasks run on other machines, as jobs, which have no part in staging."
SHARE_OF_REPORTS, SHARE_OF_REPLACEMENTS, SHARE_OF_STAGED = 0.1, 0.3, 0.3


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job."""

    verb: str
    reads: str
    "Name of what it reads, in the folder of the round."
    options: tuple[str, ...]
    function: str = ""
    "Of a run."
    file: str = ""
    "The one file that it writes; '' where it writes several, into a directory that is its own."
    slot_mb: float = 0.0
    "Memory of a slot, which decides how many tasks a conversion has."


def _run(*options: str, reads: str = "in.nii", function: str = "counted") -> Kind:
    return Kind("run", reads, options, f"{FUNCTIONS}:{function}")


def _convert(file: str, slot_mb: float, *options: str, reads: str = "large.nii") -> Kind:
    return Kind("convert", reads, options, file=file, slot_mb=slot_mb)


SLABS = ("--partition", "slabs")
VOLUME = ("--keep", "volume")
GZIPPED = ("--chunks", "16,16,32", "--compression", "gzip")
KINDS: Mapping[str, Kind] = {
    "blocks.nii": _run(*SLABS),
    "blocks.nii.gz": _run("--blocks", "16", "--format", "nii.gz"),
    "blocks.h5": _run("--blocks", "16", "--format", "h5"),
    "blocks.nc": _run("--blocks", "16", "--format", "nc"),
    "blocks.zarr": _run("--blocks", "8", "--format", "zarr"),
    "blocks of several": _run("--blocks", "4", reads="several"),
    "volume.nii": _run(*SLABS, *VOLUME),
    "volume.nii.gz": _run("--blocks", "16", *VOLUME, "--format", "nii.gz"),
    "volume.h5": _run("--blocks", "2x2x4", *VOLUME, "--format", "h5", "--chunks", "8,8,8"),
    "volume.nc": _run("--blocks", "16", *VOLUME, "--format", "nc"),
    "volume.zarr": _run("--blocks", "2x2x4", *VOLUME, "--format", "zarr", "--chunks", "8,8,8"),
    "sum": _run(*SLABS, function="COUNTED_TOTAL"),
    "sum of several": _run("--blocks", "4", reads="several", function="COUNTED_TOTAL"),
    "placed": _convert("new.nii", 9.5),
    "runs": _convert("new.nii.gz", 10),
    "classic": _convert("new.nc", 10),
    "chunks": _convert("new.h5", 19, *GZIPPED),
    "parts": _convert("new.h5", 10, "--virtual"),
    "store": _convert("new.zarr", 10, "--chunks", "32,32,64"),
    "gzipped store": _convert("new.zarr", 10, "--chunks", "32,32,64", "--compression", "gzip"),
    "shards": _convert("new.zarr", 19, "--chunks", "16,16,32", "--shards", "32,32,64"),
    "split": _convert("", 10, "--blocks", "1x1x5"),
    "fine split": _convert("", 10, "--blocks", "2x2x8"),
    "uneven split": _convert("", 10, "--blocks", "1x1x5", reads="chunked.h5"),
    "merge": _convert("new.nii", 10, reads="tiles"),
    "rechunk": _convert("new.h5", 19, "--chunks", "64,16,32", reads="chunked.h5"),
    "unpack": _convert("new.nii", 19, reads="chunked.h5"),
    "held": Kind("run", "in.nii", ("--blocks", "8"), f"{Path(functions.__file__)}:stall"),
}
HELD = "held"
"The kind whose tasks may be held where nothing ends them."
ORDINARY = tuple(name for name in KINDS if name != HELD)


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of job on an engine."""

    kind: str
    engine: str
    retries: int = 1
    has_report: bool = False
    "A page of the run is drawn at its end, which takes longer than all the rest."
    replaces: bool = False
    "The file that it writes is there before, with other values."
    is_staged: bool = False
    "Its blocks go by way of the folder of its sources, as if that were faster."

    @property
    def label(self) -> str:
        more = ", replacing" * self.replaces + ", staged" * self.is_staged
        return f"{self.kind} on {self.engine}{more}"

    @property
    def about(self) -> Kind:
        return KINDS[self.kind]

    @property
    def is_reduction(self) -> bool:
        return self.about.function.endswith("TOTAL")

    @property
    def is_spark(self) -> bool:
        return self.engine == "spark"

    @property
    def is_queued(self) -> bool:
        """Its tasks are a batch system's, and go on when their driver is killed."""
        return self.engine in QUEUED

    def place(self, out: Path) -> Path:
        """What the job makes in the directory `out`, as the verbs are told of it."""
        return out / self.about.file

    def line(self, folder: Path, out: Path, *more: str) -> list[str]:
        """The arguments of the command, which finds its sources in a folder and writes to `out`."""
        about = self.about
        slots, engine = SLOTS[self.engine]
        options = [*about.options, *engine, "--retries", str(self.retries), "-q", *more]
        if self.replaces:
            options.append("--overwrite")
        if self.is_staged:
            options += ["--stage-in", str(folder), "--stage-out", str(folder)]
        if about.verb == "convert":
            memory = f"{about.slot_mb * slots:g}MB"
            return [
                "convert",
                str(folder / about.reads),
                str(self.place(out)),
                "--memory",
                memory,
                *options,
            ]
        parameters = ["-p", f"folder={folder / 'runs'}", "-p", f"seconds={SECONDS}"]
        return [
            "run",
            about.function,
            str(folder / about.reads),
            "-o",
            str(out),
            *parameters,
            *options,
        ]


def draw(
    chance: random.Random,
    kinds: tuple[str, ...] = ORDINARY,
    engines: tuple[str, ...] = tuple(SLOTS),
) -> Job:
    """One of these kinds, on one of these engines."""
    engine = chance.choices(engines, [SHARES[name] for name in engines])[0]
    kind = chance.choice(kinds)
    can_replace = KINDS[kind].file != "" and kind != "parts"  # its parts lie beside it
    replaces = chance.random() < SHARE_OF_REPLACEMENTS
    can_be_staged = KINDS[kind].function.endswith(":counted") and engine not in QUEUED
    return Job(
        kind,
        engine,
        chance.choice((1, 3)),
        chance.random() < SHARE_OF_REPORTS,
        can_replace and replaces,
        can_be_staged and chance.random() < SHARE_OF_STAGED,
    )


def make_source(name: str, folder: Path, edition: int = 0) -> None:
    """Write what a job reads into a folder; another edition differs in its values, in the last file
    of several.
    """
    path = folder / name
    if name == "in.nii":
        _save(path, _values(SMALL, edition))
    elif name == "large.nii":
        _save(path, _values(LARGE, edition))
    elif name == "several":
        path.mkdir()
        for number in range(3):
            _save(
                path / f"b_{number}.nii",
                _values(SMALL, 10 + number + (edition if number == 2 else 0)),
            )
    elif name == "chunked.h5":
        with h5py.File(path, "w") as file:
            data = file.create_dataset(
                "data", data=_values(LARGE, edition), chunks=(32, 32, 32), compression="gzip"
            )
            data.attrs["units"] = "counts"
    else:
        _save_tiles(path, _values(LARGE, edition))


def edit_source(name: str, folder: Path) -> None:
    """Write another edition over what a job reads: of several files, over the last."""
    fresh = folder / "fresh"
    fresh.mkdir()
    make_source(name, fresh, edition=1)
    path = folder / name
    if path.is_dir():
        last = max(path.iterdir())
        shutil.copyfile(fresh / name / last.name, last)
    else:
        shutil.copyfile(fresh / name, path)
    shutil.rmtree(fresh)


def _values(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 300, shape).astype("u2")


def _save(path: Path, values: Array, corner: int = 0) -> None:
    affine = AFFINE.copy()
    affine[2, 3] = 2.0 * corner
    nib.save(nib.Nifti1Image(values, affine), path)  # type: ignore[no-untyped-call]


def _save_tiles(folder: Path, values: Array, tiles: int = 4) -> None:
    """Neighbours along the last axis, which their affines place; those of another edition differ in
    the last alone.
    """
    folder.mkdir()
    step = values.shape[2] // tiles
    plain = _values(values.shape, 0)
    for number in range(tiles):
        whole = values if number == tiles - 1 else plain
        _save(
            folder / f"tile_{number}.nii",
            whole[:, :, number * step : (number + 1) * step],
            number * step,
        )
