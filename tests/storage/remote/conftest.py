"""Stores for the tests: an S3 server of the package moto behind one that counts, and a web
server.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fsspec
import h5py
import netCDF4
import nibabel as nib
import numpy as np
import pytest

from hyperslab import ArrayView
from hyperslab.arrays import Array
from hyperslab.storage.location import Remote
from tests.storage.remote.server import Server, serving

BUCKET = "bucket"
SHAPE = (24, 30, 36)
_MOTO = """
import functools, logging, sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Dispatcher
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
Dispatcher.get_backend_for_host = functools.cache(Dispatcher.get_backend_for_host)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
"A server that looks once, not at every request, which of its services a host stands for."


@dataclass(frozen=True)
class S3:
    """A bucket behind a server that counts."""

    server: Server
    options: dict[str, Any]
    fs: Any
    "Straight to the bucket."

    def put(self, key: str, data: bytes) -> str:
        """An object's URL."""
        self.fs.pipe(f"{BUCKET}/{key}", data)
        return f"s3://{BUCKET}/{key}"


def asking(view: ArrayView, options: dict[str, Any]) -> ArrayView:
    """A view of the same array that asks its store in another way: it was opened without haste."""
    remote = view.source.url
    assert isinstance(remote, Remote)
    given = {**remote.options, **options}
    hasty = Remote(remote.target, given, remote.size, remote.tag)
    return ArrayView(replace(view.source, url=hasty))


@pytest.fixture(scope="session")
def moto() -> Iterator[int]:
    """The port of an S3 server in a process of its own, which ends when we do, however that may
    be.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _MOTO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.stdin.close()
            process.wait(100)


@pytest.fixture(scope="session")
def lasting_s3(moto: int) -> Iterator[S3]:
    secrets = {"key": "AKIAEXAMPLE", "secret": "wJalrXUtnFEMI"}
    with serving(("127.0.0.1", moto)) as server:
        direct = fsspec.filesystem(
            "s3",
            skip_instance_cache=True,
            use_listings_cache=False,
            endpoint_url=f"http://127.0.0.1:{moto}",
            **secrets,
        )
        direct.mkdir(BUCKET)
        yield S3(server, {"endpoint_url": server.url, **secrets, "hyperslab_timeout_s": 60}, direct)


@pytest.fixture
def s3(lasting_s3: S3) -> S3:
    lasting_s3.server.forget()
    return lasting_s3


@pytest.fixture(scope="session")
def lasting_web() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def web(lasting_web: Server) -> Server:
    lasting_web.forget()
    lasting_web.objects.clear()
    return lasting_web


@pytest.fixture(scope="session")
def values() -> Array:
    """int16, smooth enough to be compressed."""
    noise = np.random.default_rng(0).integers(0, 50, SHAPE)
    return (np.arange(SHAPE[0])[:, None, None] * 100 + noise).astype("i2")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, values: Array) -> Path:
    """Files of every format that hold the values."""
    folder = tmp_path_factory.mktemp("remote")
    _write_hdf5(folder / "made.h5", values)
    for name in ("plain.nii", "packed.nii.gz"):
        image = nib.Nifti1Image(values, np.diag([2.0, 2, 2, 1]))  # type: ignore[no-untyped-call]
        image.header.set_slope_inter(0.5, 3)  # type: ignore[no-untyped-call]
        nib.save(image, folder / name)
    for name, kind in (("four.nc", "NETCDF4"), ("classic.nc", "NETCDF3_64BIT_OFFSET")):
        _write_netcdf(folder / name, kind, values)
    return folder


def _write_hdf5(path: Path, values: Array) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        file["contiguous"] = values
        file.create_dataset("gzip", data=values, chunks=(8, 8, 8), compression="gzip", shuffle=True)
        file.create_dataset(
            "small", data=values, chunks=(2, 3, 4), compression="gzip", fletcher32=True
        )
        file.create_dataset("raw", data=values, chunks=(7, 11, 13))
        file.create_dataset("scaled", data=values, chunks=(8, 8, 8), scaleoffset=0)  # left to h5py
        partly = file.create_dataset(
            "partly", SHAPE, ">f4", chunks=(8, 8, 8), fillvalue=7.5, compression="lzf"
        )
        partly[3:9, :, 20:] = values[3:9, :, 20:]
        file.create_dataset("empty", (0, 5), "i2", chunks=(4, 4), maxshape=(None, 5))


def _write_netcdf(path: Path, kind: Any, values: Array) -> None:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("t", None)
        file.createDimension("y", SHAPE[1])
        file.createDimension("x", SHAPE[2])
        packed = file.createVariable("packed", "i2", ("t", "y", "x"), fill_value=-1)
        packed.set_auto_maskandscale(False)
        packed.scale_factor, packed.add_offset = 0.25, 10.0
        packed[:] = values
        file.createVariable("other", "f8", ("t", "x"))[:] = values[:, 0]
        file.createVariable("fixed", "f4", ("y", "x"))[:] = values[0]
