"""Readers of parts of a file, those of h5py and nibabel beside hyperslab's own.

    python -m benchmarks.opening_readers READER TASK

does what a task says that another process has written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import h5py
import nibabel

from hyperslab.apps.experiment.programs.reads import READERS, Layout, Read, Reader, task_of


@contextmanager
def _h5py(path: Path, _: Layout) -> Iterator[Read]:
    with h5py.File(path) as file:
        (name,) = file
        dataset = file[name]
        yield lambda number: dataset[number]


@contextmanager
def _nibabel(path: Path, _: Layout) -> Iterator[Read]:
    """Read by an image as it is by default, which opens its file for every slice."""
    image = nibabel.Nifti1Image.from_filename(path)
    yield lambda number: image.dataobj[:, :, number]


@contextmanager
def _nibabel_kept(path: Path, _: Layout) -> Iterator[Read]:
    """Read by an image that keeps its file open."""
    image = nibabel.Nifti1Image.from_filename(path, keep_file_open=True)
    yield lambda number: image.dataobj[:, :, number]


ALL: Mapping[str, Reader] = {
    **READERS,
    "h5py": Reader(".h5", _h5py, order="C"),
    "nibabel": Reader(".nii", _nibabel),
    "nibabel, keep_file_open": Reader(".nii", _nibabel_kept),
}


def main() -> None:
    name, text = sys.argv[1:]
    task_of(text).run(ALL[name])


if __name__ == "__main__":
    main()
