"""NIfTI images of both versions, plain and compressed: types, byte orders, scaling, axes and
headers.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison import draws
from tests.comparison.draws import chance
from tests.comparison.made import Dataset
from tests.formats.nifti_made import RGB, RGBA, image_bytes, member
from tests.formats.nifti_rows import affine, by_nibabel

_TYPES = ("u1", "i1", "u2", "i2", "i2", "u4", "i4", "u8", "i8", "f4", "f4", "f8", "c8", "c16")
_SLOPES = (1.0, 1.0, 0.3, 2.0, -1e-3, 0.0, float("nan"), float("inf"), 1e-30, 7.5)
_INTERS = (0.0, 0.0, -7.25, 1e6, 0.1)
_LARGE = (110, 120, 170)
"More than 4 MiB of int16, from which on a compressed image is indexed."


def make(rng: Random, folder: Path) -> Dataset:
    packed = rng.choice(("", "", "gzip", "members"))
    is_large = bool(packed) and chance(rng, 0.01)
    values = _values(rng, is_large)
    arguments = _arguments(rng)
    image = image_bytes(values, **arguments)
    path = folder / ("made.nii.gz" if packed and chance(rng, 0.9) else "made.nii")
    path.write_bytes(_packed(rng, image, packed))
    return Dataset(
        kind="NIfTI, compressed" if packed else "NIfTI",
        path=path,
        name="",
        said=f"{values.shape} {values.dtype}, {packed or 'plain'}, {arguments}",
        reference=lambda kind: _by_nibabel(path, kind),
        known=values,
        affine=lambda: affine(str(path)),
        change=lambda copy, places, new: _change(copy, values, arguments, places, new),
    )


def _values(rng: Random, is_large: bool) -> Array:
    shape = _LARGE if is_large else draws.shape(rng, 1, 7, empty=0)
    dtype = np.dtype("i2") if is_large else np.dtype(rng.choice(_TYPES))
    if not is_large and chance(rng, 0.06):
        dtype = rng.choice((RGB, RGBA))
        return draws.values(rng, (*shape, dtype.itemsize), np.dtype("u1")).view(dtype)[..., 0]
    return draws.values(rng, shape, dtype)


def _arguments(rng: Random) -> dict[str, Any]:
    """Arguments of `image_bytes`."""
    found: dict[str, Any] = {
        "version": rng.choice((1, 1, 2)),
        "order": rng.choice("<>"),
        "fields": _fields(rng),
    }
    if chance(rng, 0.5):
        found |= {"slope": rng.choice(_SLOPES), "inter": rng.choice(_INTERS)}
    if chance(rng, 0.2):
        found["comments"] = [b"a comment", b"another one" * rng.randint(1, 9)][: rng.randint(1, 2)]
    if chance(rng, 0.15):
        found["gap"] = 16 * rng.randint(1, 9)
    return found


def _fields(rng: Random) -> dict[str, Any]:
    """Place, units and whatever else a header says."""
    fields: dict[str, Any] = {
        "sform_code": rng.choice((0, 0, 1, 2, 4)),
        "qform_code": rng.choice((0, 0, 1, 3)),
    }
    rows = {name: [rng.uniform(-3, 3) for _ in range(3)] + [rng.uniform(-90, 90)] for name in "xyz"}
    fields |= {f"srow_{name}": row for name, row in rows.items()}
    fields |= {f"quatern_{name}": rng.uniform(-0.5, 0.5) for name in "bcd"}
    fields |= {f"qoffset_{name}": rng.uniform(-50, 50) for name in "xyz"}
    fields["pixdim"] = [rng.choice((1, -1)), *(rng.choice((1.0, 2.5, 0.7)) for _ in range(7))]
    fields["xyzt_units"] = rng.choice((0, 2, 10, 1, 8, 3))
    fields["descrip"] = rng.choice((b"", b"made by chance"))
    fields["cal_max"] = rng.choice((0, 255.0))
    fields["toffset"] = rng.choice((0, 1.5))
    return fields


def _packed(rng: Random, image: bytes, how: str) -> bytes:
    """Compressed as one stream, or as several one after the other."""
    if not how:
        return image
    level = rng.choice((0, 1, 6, 9))
    if how == "gzip":
        return gzip.compress(image, level, mtime=0)
    size = -(-len(image) // rng.randint(1, 5))
    return b"".join(
        member(image[first : first + size], level) for first in range(0, len(image), size)
    )


def _by_nibabel(path: Path, values: Values) -> Array:
    with np.errstate(all="ignore"):
        return by_nibabel.__wrapped__(str(path), values)


def _change(
    path: Path,
    values: Array,
    arguments: dict[str, Any],
    places: Sequence[tuple[int, ...]],
    new: Array,
) -> None:
    changed = values.copy()
    for place, value in zip(places, new, strict=True):
        changed[place] = value
    image = image_bytes(changed, **arguments)
    is_packed = path.read_bytes()[:2] == b"\x1f\x8b"
    path.write_bytes(gzip.compress(image, 1, mtime=0) if is_packed else image)
