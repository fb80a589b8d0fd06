"""A BIDS dataset of the size of CoRR, with tiny images: 29 sites, 1,397 participants, 1 to 10
sessions each.

    python -m benchmarks.corr_dataset FOLDER [--seed 0] [--participants 1397] [--sites 29]

The Consortium for Reliability and Reproducibility (X.-N. Zuo and others, Scientific Data 1:140049,
2014) has as many sites and participants; how many of them a site has, and how many sessions a
participant, is drawn here. Each session has a T1-weighted image and its JSON file; every second one
a run of resting state, which nobody asks for. The same seed makes the same files.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path

import nibabel as nib
import numpy as np

from hyperslab.apps.bids.made import sessions

SITES, PARTICIPANTS = 29, 1397
VOXELS = 4
DESCRIPTION = {"Name": "synthetic dataset of the size of CoRR", "BIDSVersion": "1.11.0"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--participants", type=int, default=PARTICIPANTS)
    parser.add_argument("--sites", type=int, default=SITES)
    given = parser.parse_args()
    images = make(given.folder, given.seed, given.participants, given.sites)
    print(f"{given.participants} participants of {given.sites} sites, {images} T1-weighted images")


def make(folder: Path, seed: int = 0, participants: int = PARTICIPANTS, sites: int = SITES) -> int:
    """Write the dataset; returns the number of its T1-weighted images."""
    draw = random.Random(seed)
    image = _image(seed)
    homes = [*range(sites), *(draw.randrange(sites) for _ in range(participants - sites))]
    numbers = range(25001, 25001 + participants)
    of_sites: dict[int, list[int]] = {site: [] for site in range(sites)}
    for number, home in zip(numbers, homes, strict=True):
        of_sites[home].append(number)
    images = 0
    for site, members in of_sites.items():
        home = folder / f"SITE_{site + 1}"
        home.mkdir(parents=True)
        (home / "dataset_description.json").write_text(json.dumps(DESCRIPTION) + "\n")
        rows = ["participant_id\tage", *(f"sub-{number:07}\tn/a" for number in members)]
        (home / "participants.tsv").write_text("\n".join(rows) + "\n")
        for number in members:
            for session in sessions(draw):
                _write_session(home / f"sub-{number:07}" / f"ses-{session}", number, session, image)
                images += 1
    return images


def _write_session(folder: Path, number: int, session: int, image: bytes) -> None:
    stem = f"sub-{number:07}_ses-{session}"
    anatomy = folder / "anat"
    anatomy.mkdir(parents=True)
    (anatomy / f"{stem}_T1w.nii.gz").write_bytes(image)
    (anatomy / f"{stem}_T1w.json").write_text('{"Modality": "MR"}\n')
    if number % 2:
        function = folder / "func"
        function.mkdir()
        (function / f"{stem}_task-rest_bold.nii.gz").write_bytes(image)
        (function / f"{stem}_task-rest_bold.json").write_text('{"RepetitionTime": 2.0}\n')


def _image(seed: int) -> bytes:
    """A volume of few voxels, as a compressed file."""
    values = np.random.default_rng(seed).integers(0, 255, (VOXELS,) * 3, np.uint8)
    affine = np.diag([50.0, 50.0, 50.0, 1.0])
    plain = nib.Nifti1Image(values, affine)  # type: ignore[no-untyped-call]
    return gzip.compress(plain.to_bytes(), mtime=0)


if __name__ == "__main__":
    main()
