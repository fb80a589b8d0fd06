"""Datasets that are made: heads in which a brain of the drawn size is found, of unequal numbers of
sessions, the same from one seed.
"""

from __future__ import annotations

import math
from pathlib import Path

from hyperslab.apps.bids.brain import BUILTIN, extract
from hyperslab.apps.bids.made import BRAIN_MM, make_dataset
from hyperslab.apps.bids.running import Asked, select

NBYTES = 2**20
FAR = 0.05
"Share by which a found brain may differ from one that was drawn."


def images(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.nii")}


def test_a_dataset_of_heads(tmp_path: Path) -> None:
    number = make_dataset(tmp_path / "a", 8, NBYTES, seed=1)
    found = select(tmp_path / "a", Asked())
    assert [dataset.site for dataset in found.datasets] == ["SITE_1", "SITE_2"]
    several = [len(unit.images) for unit in found.units]
    assert sum(several) == number
    assert min(several) < max(several), "participants differ in their sessions"
    made = images(tmp_path / "a")
    assert 0.5 < sum(map(len, made.values())) / NBYTES < 1.5
    least_ml, most_ml = (4 / 3 * math.pi * radius_mm**3 / 1000 for radius_mm in BRAIN_MM)
    volume_ml = extract(found.units[0].images[0].path, BUILTIN).volume_ml
    assert (1 - FAR) * least_ml < volume_ml < (1 + FAR) * most_ml
    make_dataset(tmp_path / "b", 8, NBYTES, seed=1)
    assert images(tmp_path / "b") == made
    make_dataset(tmp_path / "c", 8, NBYTES, seed=2)
    assert not images(tmp_path / "c").items() & made.items()
