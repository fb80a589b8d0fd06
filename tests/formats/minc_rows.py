"""The feature matrix of MINC: volumes of MINC1 and of MINC2. docs/formats.md shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.formats.matrix import Matrix, Row
from tests.formats.minc_made import IMAGE, SPACE, write_minc1, write_minc2
from tests.formats.reference import minc_affine, minc_image, minc_stored

SIZES = {"zspace": 4, "yspace": 5, "xspace": 3, "time": 2, "vector_dimension": 3}
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8"]
WRITERS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "MINC1": write_minc1,
    "MINC2": write_minc2,
}
SLICES = "float64, by image-min and image-max of each slice"


def rows() -> list[Row]:
    """Every row; those of a group follow one another."""
    return [*values(), *axes(), *storage(), *not_understood()]


def volume(
    dtype: str = "i2",
    ranges: int | None = 1,
    dims: list[str] = SPACE,
    valid: tuple[float, float] | None = None,
    **said: Any,
) -> dict[str, Any]:
    """What a file says of an image; image-min and image-max are those of its first `ranges`
    axes.
    """
    rng, shape, kind = (
        np.random.default_rng(7),
        tuple(SIZES[name] for name in dims),
        np.dtype(dtype),
    )
    stored = rng.normal(size=shape).astype(kind)
    if kind.kind != "f":
        info: Any = np.iinfo(kind)
        stored = rng.integers(info.min, info.max, shape, kind, endpoint=True)
    low = None if ranges is None else rng.normal(size=shape[:ranges])
    high = None if low is None else low + rng.uniform(1, 3, shape[:ranges])
    return {
        "dims": dims,
        "dtype": kind,
        "values": stored,
        "low": low,
        "high": high,
        "range": valid,
        **said,
    }


def both(group: str, name: str, said: dict[str, Any], **row: Any) -> Iterator[Row]:
    """The row of an image in MINC1, and in MINC2."""
    for version, write in WRITERS.items():
        yield Row(group, f"{name}, {version}", partial(_written, write, said), shown=name, **row)


def _written(
    write: Callable[[Path, dict[str, Any]], None], said: dict[str, Any], path: Path
) -> None:
    write(path, said)


def values() -> Iterator[Row]:
    group = "Values"
    for dtype in TYPES:
        name = np.dtype(dtype).name
        yield from both(group, name, volume(dtype), real="" if dtype[0] == "f" else SLICES)
    one = "float64, by one image-min and image-max"
    yield from both(group, "one range for the volume", volume(ranges=0), real=one)
    yield from both(
        group,
        "a range per row",
        volume(ranges=2),
        real="float64, by image-min and image-max of each row",
    )
    clipped = f"{SLICES}, clipped to the valid range"
    yield from both(
        group, "valid_range within the type's", volume(valid=(-100, 1000)), real=clipped
    )
    yield from both(
        group, "valid_range of the whole type", volume("u1", valid=(0, 255)), real=SLICES
    )
    yield from both(
        group, "valid_range, one range for the volume", volume("u2", 0, valid=(1, 9999)), real=one
    )
    yield from both(group, "floating, valid_range", volume("f4", valid=(0, 1)))
    ends = {"valid_min": np.int16(-100), "valid_max": np.int16(1000)}
    two = partial(write_minc1, said=volume(attributes=ends))
    yield Row(group, "valid_min and valid_max, MINC1", two, real=clipped)
    ignored = f"{SLICES}, valid_min and valid_max ignored (as by nibabel)"
    two = partial(write_minc2, said=volume(attributes=ends))
    yield Row(group, "valid_min and valid_max, MINC2", two, real=ignored)
    missing = "no image-min and image-max"
    yield from both(group, "whole numbers without ranges", volume(ranges=None), unscalable=missing)
    yield from both(group, "floating, one range", volume("f8", 0))
    yield from both(group, "floating, without ranges", volume("f4", None), expected=stored_only)


def axes() -> Iterator[Row]:
    group = "Axes"
    turned, steps = ["xspace", "zspace", "yspace"], {"zspace": -2.5, "xspace": 0.3}
    yield from both(group, "axes in another order", volume(dims=turned), real=SLICES)
    yield from both(group, "negative steps", volume(steps=steps), real=SLICES)
    yield from both(group, "direction cosines", volume(tilt=True, steps=steps), real=SLICES)
    yield from both(group, "time first", volume(dims=["time", *SPACE], tilt=True), real=SLICES)
    yield from both(
        group, "time first, a range per slice", volume(dims=["time", *SPACE], ranges=2), real=SLICES
    )
    grows = partial(write_minc1, said=volume(dims=["time", *SPACE], unlimited="time"))
    yield Row(group, "unlimited time, MINC1", grows, real=SLICES)
    wide = volume(kind="NETCDF3_64BIT_OFFSET")
    yield Row(
        group,
        "64-bit offsets, MINC1",
        partial(write_minc1, said=wide),
        real=f"{SLICES} (nibabel refuses)",
        expected=partial(by_formula, wide),
    )
    yield from both(group, "time last", volume(dims=[*SPACE, "time"]), real=SLICES)
    vector = volume("u1", dims=[*SPACE, "vector_dimension"])
    yield from both(group, "vector_dimension", vector, real=SLICES)
    alone = {**vector, "without": ("vector_dimension",)}
    yield from both(
        group,
        "vector_dimension without a variable",
        alone,
        real=f"{SLICES} (nibabel refuses)",
        expected=partial(by_formula, vector),
    )
    three = volume(ranges=3, dims=["time", *SPACE])
    yield from both(
        group,
        "ranges of three axes",
        three,
        real="float64, by image-min and image-max of each row (nibabel refuses)",
        expected=partial(by_formula, three),
    )


def storage() -> Iterator[Row]:
    group = "MINC2: storage"
    for name, options in {
        "chunked": {"chunks": (2, 5, 3)},
        "deflate": {"chunks": (2, 5, 3), "compression": "gzip"},
        "shuffle, deflate and fletcher32": {
            "chunks": (2, 5, 3),
            "compression": "gzip",
            "shuffle": True,
            "fletcher32": True,
        },
    }.items():
        made = partial(write_minc2, said=volume(storage=options))
        yield Row(group, name, made, real=SLICES)
    swapped = volume()
    made = partial(write_minc2, said={**swapped, "values": swapped["values"].astype(">i2")})
    yield Row(group, "big-endian", made, real=SLICES)
    lower = ("/minc-2.0/image/1/image",)
    yield Row(group, "image beside lower resolutions", partial(_changed, _reduced), real=SLICES)
    reduced, why = partial(_changed, _reduced), "it is an image of lower resolution"
    yield Row(
        group,
        "image of lower resolution",
        reduced,
        unscalable=why,
        arrays=lower,
        expected=stored_only,
    )


def not_understood() -> Iterator[Row]:
    """What nibabel refuses or ignores."""
    group = "Not understood"
    for word in ("irregular", "irregular_"):
        bent = volume(dimensions={"yspace": {"spacing": word}})
        made = partial(write_minc2, said=bent)
        yield Row(
            group, f"spacing {word}, MINC2", made, unscalable="spacing along yspace is irregular"
        )
    bent = volume(dimensions={"yspace": {"spacing": "irregular"}})
    bare = "the spacing along yspace is not said to be regular"
    yield Row(group, "spacing irregular, MINC1", partial(write_minc1, said=bent), unscalable=bare)
    other = volume(dimensions={"yspace": {"spacing": "yspace"}})
    yield Row(group, "spacing in other words, MINC2", partial(write_minc2, said=other), real=SLICES)
    unsigned = partial(write_minc1, said=volume(signtype="whatever"))
    yield Row(group, "numbers without a sign, MINC1", unsigned, unscalable="signtype does not say")
    for name, (said, why) in {
        "empty valid_range": (volume(valid=(5, 5)), "from 5 to 5"),
        "valid_range beyond the type's": (volume(valid=(-40000, 10)), "is not one of int16"),
        "text for a step": (volume(dimensions={"yspace": {"step": "one"}}), "step is not 1"),
        "two direction cosines": (
            volume(dimensions={"yspace": {"direction_cosines": [1.0, 0.0]}}),
            "direction_cosines is not 3",
        ),
        "an axis of space without a variable": (
            volume(without=("yspace",)),
            "yspace has no variable",
        ),
    }.items():
        yield from both(group, name, said, unscalable=why)
    for name, (change, why) in CHANGES.items():
        yield Row(group, f"{name}, MINC2", partial(_changed, change), unscalable=why, shown=name)


def _changed(change: Callable[[Any], Any], path: Path) -> None:
    """A MINC2 file that was changed by somebody."""
    write_minc2(path, volume())
    with h5py.File(path, "a") as file:
        change(file["minc-2.0"])


def _reduced(minc: Any) -> None:
    minc.copy("image/0", minc["image"], "1")


def _short_ranges(minc: Any) -> None:
    del minc["image/0/image-max"]
    minc["image/0/image-max"] = np.ones(3)


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "wrong dimorder": (
        lambda minc: minc["image/0/image"].attrs.create("dimorder", np.bytes_("zspace,yspace")),
        "dimorder is wrong",
    ),
    "ranges of a wrong size": (_short_ranges, "no image-min and image-max of its first axes"),
    "ranges of a later axis": (
        lambda minc: minc["image/0/image-max"].attrs.create("dimorder", np.bytes_("yspace")),
        "one number per slice",
    ),
    "three numbers of valid_range": (
        lambda minc: minc["image/0/image"].attrs.create("valid_range", [1.0, 2.0, 3.0]),
        "valid_range is not 2",
    ),
}


def by_nibabel(url: str, values: Values) -> Array:
    return minc_image(url).values if values == "real" else minc_stored(url, IMAGE)


def stored_only(url: str, values: Values) -> Array:
    """All values as stored, also where nibabel does not read the file."""
    path, name = formats.split_url(url)
    return minc_stored(path, name or IMAGE)


def by_formula(said: dict[str, Any], url: str, values: Values) -> Array:
    """The mapping of the MINC 1 Programmer's Guide, of images that nibabel does not read."""
    stored, info = said["values"], np.iinfo(said["dtype"])
    if values == "stored":
        return np.asarray(stored)
    spread = (..., *(None,) * (stored.ndim - said["low"].ndim))
    slope = (said["high"] - said["low"]) / (float(info.max) - float(info.min))
    inter = said["low"] - float(info.min) * slope
    return np.asarray(stored * slope[spread] + inter[spread])


MINC = Matrix("MINC", rows, ".mnc", "", by_nibabel, affine=minc_affine)
