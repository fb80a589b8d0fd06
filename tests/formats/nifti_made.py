"""NIfTI files of exactly given values and headers, and gzip members of every kind."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

from hyperslab.arrays import Array

nib: Any = nibabel
"Its functions carry no types."

RGB = np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")])
RGBA = np.dtype([*RGB.descr, ("A", "u1")])


def random_values(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Any bit patterns but, for floats, no NaN payloads that a conversion could lose."""
    rng = np.random.default_rng([*shape, dtype.itemsize])
    if dtype.kind in "fc":
        return np.asarray(
            rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.kind == "c" else 0)
        ).astype(dtype)
    return rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8).view(dtype)[..., 0]


def smooth_values(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Values that deflate to about half, with an empty part."""
    size = int(np.prod(shape))
    noise = np.random.default_rng(5).normal(size=size)
    values = (1000 * np.sin(np.arange(size) / 500) + noise * 9).astype(dtype)
    values[: size // 5] = 0
    return values.reshape(shape, order="F")


def image_bytes(
    values: Array,
    version: int = 1,
    order: str = "<",
    slope: float = 1,
    inter: float = 0,
    *,
    fields: Mapping[str, Any] | None = None,
    comments: Sequence[bytes] = (),
    gap: int = 0,
) -> bytes:
    """An image of exactly these stored values and this scaling; `gap` bytes lie between its header
    and them.
    """
    kind = nib.Nifti1Header if version == 1 else nib.Nifti2Header
    header: Any = kind(endianness=order)
    header.set_data_dtype(values.dtype.newbyteorder("="))
    header.set_data_shape(values.shape)
    header["scl_slope"], header["scl_inter"] = slope, inter
    for name, value in (fields or {}).items():
        header[name] = value
    extensions = nib.nifti1.Nifti1Extensions(
        [nib.nifti1.Nifti1Extension("comment", text) for text in comments]
    )
    header.extensions = extensions
    offset = header["vox_offset"] = (
        int(header.single_vox_offset) + extensions.get_sizeondisk() + gap
    )
    head = header.binaryblock + (_written(extensions, order != header_order()) if comments else b"")
    data = values.astype(values.dtype.newbyteorder("<" if order == "<" else ">")).tobytes(order="F")
    return bytes(head.ljust(int(offset), b"\0") + data)


def header_order() -> str:
    """The byte order of this machine, as nibabel says it."""
    return str(nib.volumeutils.native_code)


def _written(extensions: Any, byteswap: bool) -> bytes:
    """The four bytes that announce extensions, and these."""
    from io import BytesIO

    file = BytesIO()
    extensions.write_to(file, byteswap)
    return b"\1\0\0\0" + file.getvalue()


def member(data: bytes, level: int = 6, strategy: int = 0, name: bytes = b"") -> bytes:
    """A gzip member as this level and strategy of zlib makes it, with a name in its header if there
    is one.
    """
    pack = zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)
    deflated = pack.compress(data) + pack.flush()
    head = (
        b"\x1f\x8b\x08" + (b"\x08" if name else b"\0") + bytes(6) + (name + b"\0" if name else b"")
    )
    return (
        head
        + deflated
        + (zlib.crc32(data)).to_bytes(4, "little")
        + (len(data) % 2**32).to_bytes(4, "little")
    )


def save(
    path: Path,
    values: Array,
    version: int = 1,
    order: str = "<",
    slope: float = 1,
    inter: float = 0,
    **more: Any,
) -> Path:
    """Write an image of exactly these stored values and this scaling, compressed where the name
    says so.
    """
    data = image_bytes(values, version, order, slope, inter, **more)
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path
