"""The matrices that are loaded into Spark, in the files that the ways read; their checksums are of
what was written.

plain: contiguous float64 of 200 columns, noise. gzip: uint16 rows of 16384, tissue-like lines of an
image, in chunks of 16 whole rows with shuffle and deflate at level 1 (they shrink to about 40 %);
the number of rows is a multiple of 16 partitions of whole chunks, so that nobody decodes a chunk
twice.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import numpy.typing as npt

from benchmarks.spark_checksum import checksum, total

Array = npt.NDArray[Any]
Kind = Literal["plain", "gzip"]
DATASET = "data"
PARTITIONS = 16
COLUMNS = 200
SIDE, CHUNK_ROWS, LEVEL = 128, 16, 1
PIECE_NBYTES = 64 * 1024**2
READ_NBYTES = 4 * 1024**2
"""Of a piece that peers read and add up: as large as hyperslab's blocks, which the processor's
cache holds.
"""
WARMED_NBYTES = 16 * 1024**2
COMPRESSING = 2
"Threads that make chunks."


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in a file, maybe in Parquet too."""

    kind: Kind
    path: Path
    nbytes: int
    "Of its values."
    rows: int
    columns: int
    checksum: int
    parquet: Path | None = None
    "A folder with a file for each partition."

    @property
    def row_nbytes(self) -> int:
        return self.nbytes // self.rows

    def files(self, is_parquet: bool = False) -> list[Path]:
        """What a way reads."""
        return (
            sorted(self.parquet.glob("*.parquet")) if is_parquet and self.parquet else [self.path]
        )


def plain(folder: Path, nbytes: int, with_parquet: bool) -> Matrix:
    """Contiguous float64 of about this size."""
    rows = max(1, nbytes // (8 * COLUMNS * PARTITIONS)) * PARTITIONS
    path, noise, sums = folder / f"plain-{rows}.h5", np.random.default_rng(rows), []
    step = PIECE_NBYTES // (8 * COLUMNS)
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset(DATASET, (rows, COLUMNS), "f8")
        for first in range(0, rows, step):
            piece = noise.random((min(step, rows - first), COLUMNS))
            dataset[first : first + len(piece)] = piece
            sums.append(checksum(piece))
    matrix = Matrix(
        "plain",
        path,
        rows * COLUMNS * 8,
        rows,
        COLUMNS,
        total(sums),
        folder / f"plain-{rows}.parquet",
    )
    if not with_parquet:
        return Matrix("plain", path, matrix.nbytes, rows, COLUMNS, matrix.checksum)
    _write_parquet(matrix)
    return matrix


def _write_parquet(matrix: Matrix) -> None:
    """array<double> without compression, one row group for each partition."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert matrix.parquet is not None
    matrix.parquet.mkdir()
    each = matrix.rows // PARTITIONS
    offsets = pa.array(np.arange(each + 1, dtype=np.int32) * COLUMNS)
    with h5py.File(matrix.path, "r") as file:
        for number in range(PARTITIONS):
            flat = pa.array(file[DATASET][number * each : (number + 1) * each].reshape(-1))
            table = pa.table({"values": pa.ListArray.from_arrays(offsets, flat)})
            pq.write_table(
                table,
                matrix.parquet / f"part-{number:02}.parquet",
                row_group_size=each,
                compression="NONE",
                use_dictionary=False,
                write_statistics=False,
            )


def gzip(folder: Path, nbytes: int) -> Matrix:
    """Shuffled and deflated uint16 of about this size."""
    columns, unit = SIDE * SIDE, CHUNK_ROWS * PARTITIONS
    rows = max(1, round(nbytes / (2 * columns * unit))) * unit
    path, sums, chunks = folder / f"gzip-{rows}.h5", [], rows // CHUNK_ROWS
    with h5py.File(path, "w") as file, ThreadPoolExecutor(COMPRESSING) as pool:
        dataset = file.create_dataset(
            DATASET,
            (rows, columns),
            "u2",
            chunks=(CHUNK_ROWS, columns),
            shuffle=True,
            compression="gzip",
            compression_opts=LEVEL,
        )
        for first in range(0, chunks, PARTITIONS):
            made = pool.map(_chunk, range(first, first + PARTITIONS))
            for number, (summed, stored) in enumerate(made, first):
                dataset.id.write_direct_chunk((number * CHUNK_ROWS, 0), stored)
                sums.append(summed)
    return Matrix("gzip", path, rows * columns * 2, rows, columns, total(sums))


def _chunk(number: int) -> tuple[int, bytes]:
    """A chunk's checksum, and how HDF5 stores it."""
    noise = np.random.default_rng(number)
    x, y = np.meshgrid(*[np.linspace(-1, 1, SIDE)] * 2, indexing="ij")
    tissue = (
        (2000 + 900 * np.sin(9 * x + number / 50) * np.cos(7 * y)).astype(np.uint16).reshape(-1)
    )
    values: Array = noise.integers(0, 64, (CHUNK_ROWS, SIDE * SIDE), np.uint16)
    values += noise.integers(0, 64, values.shape, np.uint16)
    values += tissue
    values *= (x * x + y * y < 0.8).reshape(-1)
    shuffled = values.view(np.uint8).reshape(-1, 2).T.tobytes()
    return checksum(values), zlib.compress(shuffled, LEVEL)


def warm(paths: list[Path]) -> None:
    """Have files in the page cache, by reading them as they are."""
    buffer = bytearray(WARMED_NBYTES)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while file.readinto(buffer):
                pass
