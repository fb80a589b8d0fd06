"""MINC files, made with h5py and netCDF4-python from what they are to say."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np

IMAGE = "/minc-2.0/image/0/image"
SPACE = ["zspace", "yspace", "xspace"]


def dimension(said: dict[str, Any], name: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "spacing": "regular__",
        "step": said.get("steps", {}).get(name, 1.0),
        "start": -7.25,
    }
    if said.get("tilt") and name in SPACE:
        attributes["direction_cosines"] = np.roll([0.96, 0.28, 0.0], SPACE.index(name))
    return {**attributes, **said.get("dimensions", {}).get(name, {})}


def write_minc2(path: Path, said: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for name in said["dims"]:
            if name in said.get("without", ()):
                continue
            file[f"minc-2.0/dimensions/{name}"] = 0
            encoded = {
                k: np.bytes_(v) if isinstance(v, str) else v
                for k, v in dimension(said, name).items()
            }
            file[f"minc-2.0/dimensions/{name}"].attrs.update(encoded)
        for name, values in (
            ("image", said["values"]),
            ("image-min", said["low"]),
            ("image-max", said["high"]),
        ):
            if values is None:
                continue
            options = said.get("storage", {}) if name == "image" else {}
            made = file.create_dataset(f"minc-2.0/image/0/{name}", data=values, **options)
            if np.ndim(values):
                made.attrs["dimorder"] = np.bytes_(",".join(said["dims"][: np.ndim(values)]))
        if said["range"] is not None:
            file[IMAGE].attrs["valid_range"] = np.array(said["range"], "f8")
        file[IMAGE].attrs.update(said.get("attributes", {}))


def write_minc1(path: Path, said: dict[str, Any]) -> None:
    dtype = said["dtype"]
    with (
        warnings.catch_warnings(),
        netCDF4.Dataset(path, "w", format=said.get("kind", "NETCDF3_CLASSIC")) as file,
    ):
        warnings.simplefilter("ignore")
        for name, extent in zip(said["dims"], said["values"].shape, strict=True):
            file.createDimension(name, None if name == said.get("unlimited") else extent)
            if name not in said.get("without", ()):
                file.createVariable(name, "i4").setncatts(dimension(said, name))
        made = file.createVariable("image", dtype.str.replace("u", "i").lstrip("<|"), said["dims"])
        made.varid = "MINC standard variable"
        if dtype.kind in "iu":
            made.signtype = said.get("signtype", "unsigned" if dtype.kind == "u" else "signed__")
        if said["range"] is not None:
            made.valid_range = np.array(said["range"], "f8")
        made.setncatts(said.get("attributes", {}))
        made.set_auto_maskandscale(False)
        made[:] = said["values"].view(made.dtype)
        for name, values in (("image-min", said["low"]), ("image-max", said["high"])):
            if values is not None:
                file.createVariable(name, "f8", said["dims"][: np.ndim(values)])[...] = values
