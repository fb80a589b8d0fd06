"""Datasets that others have made: that of one real head in the repository, and those of the
bids-examples and a head of nibabel, where the folder of extra files has them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.heads_dataset import HALVED, NAMES, TURNED, WHOLE, make
from hyperslab.apps.bids import brain
from hyperslab.apps.bids.content import fault_of
from hyperslab.apps.bids.running import Asked, select
from hyperslab.apps.bids.table import site_of_participants
from tests.system.end_to_end.command import image_of

EXTRA = Path(os.environ.get("HYPERSLAB_EXTRA_DATA", os.devnull))
HEADS = EXTRA / "mri" / "someones_anatomy.nii.gz"
FEW = {
    "ds005": (16, 16, 16),
    "synthetic": (5, 10, 10),
    "ds000001-fmriprep": (4, 4, 8),
}
"Participants, sessions and T1-weighted images of datasets of the bids-examples."
BUILTIN = ("--brain-extractor", brain.BUILTIN)
extra = pytest.mark.skipif(
    not HEADS.is_file(),
    reason="no extra datasets; set HYPERSLAB_EXTRA_DATA to a folder with bids/ds005, bids/synthetic"
    " and bids/ds000001-fmriprep of the bids-examples, and mri/someones_anatomy.nii.gz of nibabel",
)


def test_a_dataset_of_a_real_head(tmp_path: Path) -> None:
    versions = (WHOLE, HALVED, TURNED)
    paths = make(tmp_path / "study", versions=versions)
    assert paths == [tmp_path / "study" / NAMES[version] for version in versions]
    heads = [image_of(path) for path in paths]
    assert [head.header.endianness for head in heads] == ["<", "<", ">"]
    assert [head.header.get_zooms() for head in heads] == [(1, 1, 1), (2, 2, 2), (2, 2, 2)]
    assert heads[2].shape == (heads[1].shape[1], heads[1].shape[2], heads[1].shape[0])
    selection = select(tmp_path / "study", Asked(("01",)))
    assert [unit.label for unit in selection.units] == ["sub-01"]
    (dataset,) = selection.datasets
    assert site_of_participants(dataset) == {"01": "A", "010": "B", "02": "A"}


@extra
@pytest.mark.parametrize("name", FEW)
def test_datasets_of_the_bids_examples(name: str) -> None:
    """Their images are empty, or a header alone, which is said of each."""
    participants, sessions, images = FEW[name]
    folder = EXTRA / "bids" / name
    by_participant = select(folder, Asked()).units
    by_session = select(folder, Asked(per="session")).units
    assert (len(by_participant), len(by_session)) == (participants, sessions)
    paths = [image.path for unit in by_participant for image in unit.images]
    assert len(paths) == images
    if name != "synthetic":
        assert {fault_of(path) for path in paths} == {"is empty (0 bytes); fetch or copy it again"}


@extra
def test_an_image_that_is_a_header_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = EXTRA / "bids/synthetic/sub-01/ses-01/anat/sub-01_ses-01_T1w.nii"
    assert brain.main([str(image), str(tmp_path / "brain.nii"), *BUILTIN]) == 1
    said = capsys.readouterr().err
    assert f"{image}: truncated: 134,217,728 bytes missing; fetch or copy it again" in said
    assert said.count("\n") == 1


@extra
def test_a_head_that_fills_its_image() -> None:
    """The average of 152 heads, whose field of view ends at the skin."""
    found = brain.extract(str(HEADS), brain.BUILTIN)
    brain.require_plausible(str(HEADS), found)
    assert found.mask.any(axis=(1, 2)).sum() > found.mask.shape[0] / 2
