"""`hyperslab diff` of remote arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import hyperslab
from hyperslab.arrays import Array
from tests.storage.remote.conftest import S3
from tests.system.end_to_end.command import call, save


def test_a_remote_volume_against_a_local_one(tmp_path: Path, s3: S3, values: Array) -> None:
    local = save(tmp_path / "a.nii", values)
    url = s3.put("a.nii", local.read_bytes())
    assert hyperslab.diff(local, url, storage_options=s3.options).same
    other = values.copy()
    other[1, 2, 3] += 1
    url = s3.put("b.nii", save(tmp_path / "b.nii", other).read_bytes())
    (pair,) = hyperslab.diff(url, local, storage_options=s3.options).pairs
    assert pair.values is not None
    assert pair.values.first is not None
    assert pair.values.first.index == (1, 2, 3)
    assert np.isclose(pair.values.absolute or 0, 1)
    assert call("diff", url, local).code == 2
