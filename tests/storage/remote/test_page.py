"""docs/remote.md as a reader types it, with a bucket and a web server of ours."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr
from zarr.errors import ZarrUserWarning

from hyperslab.arrays import Array
from hyperslab.storage.remote import connections
from tests.storage.remote.conftest import S3
from tests.storage.remote.server import Server
from tests.storage.remote.zarr_stores import put
from tests.system.end_to_end.command import real_values_of, save
from tests.system.end_to_end.typed import Desk, snippets


@pytest.fixture
def ours(lasting_s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The credentials and the endpoint of the bucket, where users have them: in the environment
    and in a profile.
    """
    config = tmp_path / "config"
    key, secret = lasting_s3.options["key"], lasting_s3.options["secret"]
    config.write_text(
        f"[profile lab]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", lasting_s3.server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    stores: OrderedDict[str, connections.Store] = OrderedDict()
    monkeypatch.setattr(connections, "_stores", stores)
    yield
    for store in stores.values():
        connections.submit(connections._close(store)).result(10)


@pytest.fixture
def values() -> Array:
    return np.random.default_rng(0).integers(0, 255, (210, 30, 48)).astype("u1")


@pytest.fixture
def _named(values: Array, s3: S3, web: Server, tmp_path: Path) -> None:
    """The objects that the page names."""
    with h5py.File(tmp_path / "brain.h5", "w") as file:
        file.create_dataset("data", data=values, chunks=(64, 30, 48), compression="gzip")
    s3.put("study/brain.h5", (tmp_path / "brain.h5").read_bytes())
    s3.fs.chmod("bucket/study/brain.h5", "public-read")
    image = save(tmp_path / "scan.nii", values).read_bytes()
    for name in ("a.nii", "b.nii"):
        s3.put(name, image)
    web.objects["/scan.nii"] = image
    store = tmp_path / "x.zarr"
    zarr.create_array(store, name="group/array", data=values, chunks=(64, 30, 48))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZarrUserWarning)  # of version 3 they are an extension
        zarr.consolidate_metadata(store)
    put(s3, store, "x.zarr")
    put(web, store, "x.zarr")


@pytest.mark.usefixtures("ours", "_named")
def test_the_page(
    values: Array, s3: S3, web: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    desk = Desk(folder, {"https://host": web.url}, {})
    for snippet in snippets("docs/remote.md"):
        desk.type(snippet)
    np.testing.assert_array_equal(desk.names["block"], values[100:200, :, 40])
    np.testing.assert_array_equal(real_values_of(folder / "brain.nii"), values)
    kept = {path.removeprefix("bucket/") for path in s3.fs.find("bucket")}
    assert {"copies/brain.h5", "copies/brain.zarr/zarr.json"} <= kept
    assert "results/brain.zarr/zarr.json" in kept
    assert sum(path.startswith("results/blocks/") for path in kept) == 9, "and a list of them"
    assert s3.fs.cat("bucket/copies/brain.h5") == (folder / "brain.h5").read_bytes()
