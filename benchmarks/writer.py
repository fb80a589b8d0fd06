"""One volume split, one dataset rechunked or many files joined, as it is done by hand: to its end,
in one process.

python -m benchmarks.writer split-slicer|split-dataobj VOLUME FOLDER BLOCKS python -m
benchmarks.writer rechunk FILE NEW CHUNKS LEVEL python -m benchmarks.writer join FOLDER NEW
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np

from benchmarks.reading_data import DATASET

Box = tuple[slice, ...]


def main() -> None:
    name, *arguments = sys.argv[1:]
    WRITERS[name](*arguments)


def numbers(text: str) -> tuple[int, ...]:
    """The integers of 5x5x5."""
    return tuple(map(int, text.split("x")))


def boxes(shape: Sequence[int], parts: Sequence[int]) -> Iterator[Box]:
    """A grid of so many nearly equal boxes along each axis."""
    cuts = [[extent * i // n for i in range(n + 1)] for extent, n in zip(shape, parts, strict=True)]
    return itertools.product(*([slice(a, z) for a, z in itertools.pairwise(axis)] for axis in cuts))


def split_slicer(volume: str, folder: str, blocks: str) -> None:
    """nibabel's own way: the file is mapped into memory, and a slice of the image knows its
    affine.
    """
    image: Any = nib.load(volume)
    Path(folder).mkdir()
    for number, box in enumerate(boxes(image.shape, numbers(blocks))):
        nib.save(image.slicer[box], Path(folder) / f"block_{number}.nii")


def split_dataobj(volume: str, folder: str, blocks: str) -> None:
    """Reading what a block needs, with an affine made by hand."""
    image: Any = nib.load(volume, mmap=False)
    Path(folder).mkdir()
    for number, box in enumerate(boxes(image.shape, numbers(blocks))):
        affine = image.affine.copy()
        affine[:3, 3] = (image.affine @ [*(part.start for part in box), 1])[:3]
        block: Any = nib.Nifti1Image(image.dataobj[box], affine, image.header)  # type: ignore[no-untyped-call]
        nib.save(block, Path(folder) / f"block_{number}.nii")


def rechunk(path: str, new: str, chunks: str, level: str) -> None:
    """h5py, a layer of the new chunks at a time."""
    shape = numbers(chunks)
    with h5py.File(path, "r") as source, h5py.File(new, "w") as file:
        old = source[DATASET]
        filters = {"shuffle": True, "compression": "gzip", "compression_opts": int(level)}
        dataset = file.create_dataset(DATASET, old.shape, old.dtype, chunks=shape, **filters)
        for first in range(0, len(old), shape[0]):
            dataset[first : first + shape[0]] = old[first : first + shape[0]]


def join(folder: str, new: str) -> None:
    """h5py, one file after the other along the first axis."""
    paths = sorted(Path(folder).iterdir(), key=lambda path: int(path.stem.rpartition("_")[2]))
    with h5py.File(paths[0], "r") as first, h5py.File(new, "w") as file:
        count, *plane = first[DATASET].shape
        dataset = file.create_dataset(DATASET, (count * len(paths), *plane), first[DATASET].dtype)
        block = np.empty((count, *plane), dataset.dtype)
        for number, path in enumerate(paths):
            with h5py.File(path, "r") as part:
                part[DATASET].read_direct(block)
            dataset[number * count : (number + 1) * count] = block


WRITERS: dict[str, Callable[..., None]] = {
    "split-slicer": split_slicer,
    "split-dataobj": split_dataobj,
    "rechunk": rechunk,
    "join": join,
}

if __name__ == "__main__":
    main()
