"""A BIDS dataset of a real head, that of Colin27, as several scanners and programs might have
stored it.

    python -m benchmarks.heads_dataset FOLDER [--head examples/data/colin27_ch2_T1w.nii.gz]

sub-01 has the head as it is, in voxels of 1 mm; sub-010, whose label begins alike, in voxels of 2
mm; sub-02 has two sessions, one of slices of 3 mm, and one of 2 mm in another order of axes, tilted
by 15 degrees, in the other byte order, with slope and intercept. They are of two sites.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HEAD = Path(__file__).parents[1] / "examples" / "data" / "colin27_ch2_T1w.nii.gz"
WHOLE, HALVED, SLICES, TURNED = "1mm", "2mm", "slices", "turned"
DESCRIPTION = {"Name": "one head, stored in several ways", "BIDSVersion": "1.11.0"}
TABLE = "participant_id\tsite\nsub-01\tA\nsub-010\tB\nsub-02\tA\n"
README = "The head of Colin27 (examples/data/README.md), made by benchmarks/heads_dataset.py.\n"
NAMES = {
    WHOLE: "sub-01/anat/sub-01_T1w.nii.gz",
    HALVED: "sub-010/anat/sub-010_T1w.nii",
    SLICES: "sub-02/ses-1/anat/sub-02_ses-1_T1w.nii.gz",
    TURNED: "sub-02/ses-2/anat/sub-02_ses-2_T1w.nii.gz",
}
"Where each version is."
_TILT = np.deg2rad(15)
_SLOPE, _INTERCEPT = 2.0, 10.0


class Image(NamedTuple):
    """Values and where they are, mm."""

    values: Array
    affine: Array


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--head", type=Path, default=HEAD)
    given = parser.parse_args()
    for path in make(given.folder, given.head):
        print(path)


def make(folder: Path, head: Path = HEAD, versions: Collection[str] = tuple(NAMES)) -> list[Path]:
    """Write the dataset, or some versions of the head; returns the paths of its images."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset_description.json").write_text(json.dumps(DESCRIPTION) + "\n")
    (folder / "README").write_text(README)
    header, *rows = TABLE.splitlines()
    own = [row for row in rows if _is_of(row.split("\t")[0], versions)]
    (folder / "participants.tsv").write_text("\n".join([header, *own]) + "\n")
    paths = []
    for version in versions:
        path = folder / NAMES[version]
        path.parent.mkdir(parents=True, exist_ok=True)
        store(version, head, path)
        paths.append(path)
    return paths


def store(version: str, head: Path, path: Path) -> None:
    """Write a version of a head."""
    if version == WHOLE:
        shutil.copyfile(head, path)
        return
    image = seen(version, load(head))
    if version == TURNED:
        library: Any = nib  # which is typed in part
        header = library.Nifti1Header(endianness=">")
        header.set_slope_inter(_SLOPE, _INTERCEPT)
        library.Nifti1Image(image.values.astype(">i2"), image.affine, header).to_filename(path)
        return
    dtype = np.int16 if version == HALVED else np.float32
    nib.save(nib.Nifti1Image(image.values.astype(dtype), image.affine), path)  # type: ignore[no-untyped-call]


def load(path: Path) -> Image:
    """An image as nibabel reads it, without slope and intercept."""
    found: Any = nib.load(path)
    return Image(np.asarray(found.dataobj.get_unscaled()), np.asarray(found.affine))


def seen(version: str, image: Image) -> Image:
    """An image in the voxels of a version, such as a head, or the brain that is known of it."""
    if version == HALVED:
        return coarse(image, (2, 2, 2))
    if version == SLICES:
        return coarse(image, (1, 1, 3))
    if version == TURNED:
        return turned(coarse(image, (2, 2, 2)))
    return image


def coarse(image: Image, factors: tuple[int, int, int]) -> Image:
    """Means of boxes of voxels; what is left over at the ends is cut off."""
    sizes = [length // factor for length, factor in zip(image.values.shape, factors, strict=True)]
    cut = image.values[tuple(slice(n * f) for n, f in zip(sizes, factors, strict=True))]
    pairs = [number for pair in zip(sizes, factors, strict=True) for number in pair]
    scale = np.diag([*map(float, factors), 1.0])
    scale[:3, 3] = [(factor - 1) / 2 for factor in factors]
    return Image(np.asarray(cut.reshape(pairs).mean(axis=(1, 3, 5))), image.affine @ scale)


def turned(image: Image) -> Image:
    """Sagittal slices from left to right, of a tilted head."""
    values = np.ascontiguousarray(image.values.transpose(1, 2, 0)[:, ::-1, ::-1])
    to_old = np.zeros((4, 4))
    to_old[0, 2], to_old[1, 0], to_old[2, 1] = -1, 1, -1
    to_old[:, 3] = image.values.shape[0] - 1, 0, image.values.shape[2] - 1, 1
    tilt = np.eye(4)
    tilt[1:3, 1:3] = [[np.cos(_TILT), -np.sin(_TILT)], [np.sin(_TILT), np.cos(_TILT)]]
    return Image(values, tilt @ image.affine @ to_old)


def _is_of(participant: str, versions: Collection[str]) -> bool:
    return any(NAMES[version].startswith(f"{participant}/") for version in versions)


if __name__ == "__main__":
    main()
