"""Zarr stores of the tests, put where they are read from."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import zarr

from hyperslab.arrays import Array
from tests.formats.zarr_made import make
from tests.storage.remote.conftest import BUCKET, S3
from tests.storage.remote.server import Server

SHAPE, CHUNKS = (24, 30, 36), (8, 10, 12)
"27 chunks."
KINDS: dict[str, Any] = {
    "v2": partial(make, version=2, shape=SHAPE, chunks=CHUNKS, order="F", fill_value=7),
    "v3": partial(make, shape=SHAPE, chunks=CHUNKS, fill_value=7),
    "raw": partial(make, shape=SHAPE, chunks=CHUNKS, fill_value=7, compressors=None),
    "sharded": partial(make, shape=SHAPE, chunks=(4, 5, 6), shards=CHUNKS, fill_value=7),
    "partly": partial(make, shape=SHAPE, chunks=CHUNKS, fill_value=7, parts=(np.s_[:9, :, 13:],)),
}


def by_zarr(path: Path, name: str = "") -> Array:
    """All values as zarr-python reads them on this machine."""
    return np.asarray(zarr.open_array(path, path=name, mode="r")[...])


def put(store: S3 | Server, folder: Path, name: str) -> tuple[str, dict[str, Any]]:
    """All files of a directory into a store: the URL of the place, and storage options."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    if isinstance(store, S3):
        store.fs.invalidate_cache()
        store.fs.pipe({f"{BUCKET}/{name}/{key}": data for key, data in files.items()})
        return f"s3://{BUCKET}/{name}", store.options
    store.objects.update({f"/{name}/{key}": data for key, data in files.items()})
    return f"{store.url}/{quote(name)}", {}
