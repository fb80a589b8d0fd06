"""The files that readers are compared on: one array, stored in several ways.

How much faster one inflate is than another depends on the data: on literals, which noise gives,
much less than on repetitions. So there are two kinds of voxels: `structure`, smooth 12-bit tissue
in a black background with noise, which shuffle and deflate shrink to about 40 %; and `grain`, the
project's own synthetic volume, which is noisier.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np

import hyperslab
from hyperslab.workloads.synth import synth

PROCESSES = 2
CHUNK = (64, 64, 64)
LEVEL = 4
DATASET = "data"


@dataclass(frozen=True, slots=True)
class Stored:
    """An array in a file."""

    path: Path
    dataset: str
    "'' where the file is one array."
    nbytes: int
    "Bytes of the decoded array."


KINDS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": CHUNK},
    "shuffle+gzip": {
        "chunks": CHUNK,
        "shuffle": True,
        "compression": "gzip",
        "compression_opts": LEVEL,
    },
}
"How an HDF5 file stores it, as h5py says it."


def grain(folder: Path, nbytes: int) -> Stored:
    """The project's own brain-like uint16 volume of about this size as .nii."""
    folder.mkdir(parents=True, exist_ok=True)
    (path,) = synth("bigbrain", folder / "volume", nbytes, 1, "nii", PROCESSES, 0)
    return Stored(path, "", hyperslab.open(str(path)).nbytes)


def structure(folder: Path, nbytes: int) -> Stored:
    """A smooth brain-like uint16 volume of about this size as .nii, its planes of 1024 x 1024
    voxels.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, side = folder / "structure.nii", 1024
    planes = max(CHUNK[0], nbytes // (2 * side * side) // CHUNK[0] * CHUNK[0])
    noise = np.random.default_rng(0)
    x, y = np.meshgrid(*[np.linspace(-1, 1, side, dtype=np.float32)] * 2, indexing="ij")
    header: Any = nib.Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_shape((side, side, planes))
    header.set_data_dtype(np.uint16)
    header.set_data_offset(352)
    with path.open("wb") as file:
        file.write(header.binaryblock + bytes(4))
        for z in np.linspace(-1, 1, planes, dtype=np.float32):
            tissue = (
                2000 + 900 * np.sin(9 * x + 5 * z) * np.cos(7 * y) + noise.normal(0, 30, x.shape)
            )
            file.write(np.where(x * x + y * y + z * z < 0.8, tissue, 0).astype("<u2").T.tobytes())
    return Stored(path, "", side * side * planes * 2)


def as_hdf5(of: Stored, kind: str) -> Stored:
    """The same values in an HDF5 file."""
    path = of.path.with_name(f"{of.path.stem}-{kind}.h5")
    view = hyperslab.open(str(of.path))
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(DATASET, view.shape[::-1], view.dtype, **KINDS[kind])
        for first in range(0, len(dataset), CHUNK[0]):
            dataset[first : first + CHUNK[0]] = view[..., first : first + CHUNK[0]].T
    return Stored(path, DATASET, of.nbytes)


def as_netcdf(of: Stored, decimals: int) -> Stored:
    """Climate-like float32 of the same size, with so many decimals: shuffle and deflate, unlimited
    time.
    """
    import netCDF4

    path = of.path.with_name(f"climate-{decimals}.nc")
    columns, rows = 8192, of.nbytes // 4 // 8192
    file: Any = netCDF4.Dataset(path, "w")
    with file:
        file.createDimension("time", None)
        file.createDimension("cell", columns)
        made = file.createVariable(
            DATASET,
            "f4",
            ("time", "cell"),
            zlib=True,
            complevel=LEVEL,
            shuffle=True,
            chunksizes=(128, 2048),
        )
        noise = np.random.default_rng(0)
        cell = np.sin(np.arange(columns, dtype=np.float32) / 300)
        for first in range(0, rows, 128):
            count = min(128, rows - first)
            time = np.cos((first + np.arange(count, dtype=np.float32)[:, None]) / 50)
            kelvin = 280 + 20 * cell * time + noise.normal(0, 0.1, (count, columns))
            made[first : first + count] = np.round(kelvin, decimals)
    return Stored(path, DATASET, rows * columns * 4)
