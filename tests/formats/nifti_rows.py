"""The feature matrix of NIfTI: images of every kind, plain and compressed. docs/formats.md shows
it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.formats.matrix import Matrix, Row
from tests.formats.nifti_made import (
    RGB,
    RGBA,
    image_bytes,
    member,
    nib,
    random_values,
    save,
    smooth_values,
)

SHAPE = (5, 4, 3)
LARGE = (128, 130, 130)
"Of int16: more than 4 MiB, from which on a compressed image is indexed."
TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8", "c8", "c16"]
COLOURS = {"RGB": RGB, "RGBA": RGBA}
SMALL = "one gzip stream, small enough"


def rows() -> list[Row]:
    """Every row; those of a group follow one another."""
    return [*elements(), *scalings(), *axes(), *headers(), *gzips(), *refused()]


def written(
    dtype: Any = "i2",
    shape: tuple[int, ...] = SHAPE,
    version: int = 1,
    order: str = "<",
    **options: Any,
) -> Callable[[Path], None]:
    return partial(_write, np.dtype(dtype), shape, version, order, options)


def _write(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    version: int,
    order: str,
    options: dict[str, Any],
    path: Path,
) -> None:
    plain = (
        random_values(shape, np.dtype(f"V{dtype.itemsize}"))
        if dtype.names
        else random_values(shape, dtype)
    )
    save(path, plain.view(dtype) if dtype.names else plain, version, order, **options)


def elements() -> Iterator[Row]:
    group, kinds = (
        "Elements",
        {**{np.dtype(kind).name: np.dtype(kind) for kind in TYPES}, **COLOURS},
    )
    for name, dtype in kinds.items():
        for version in (1, 2):
            for order, word in (("<", "little-endian"), (">", "big-endian")):
                makes = written(dtype, version=version, order=order)
                yield Row(group, f"{name}, {word}, NIfTI-{version}", makes, shown=name)
        compressed = written(dtype, order=">")
        yield Row(group, f"{name}, compressed", compressed, "nibabel", SMALL, suffix=".nii.gz")
    for code, name in {0: "none", 1: "1 bit", 1536: "float128", 2048: "complex256"}.items():
        odd, why = partial(_of_datatype, code), f"data code {code} not supported"
        yield Row(group, f"{name} (datatype {code})", odd, "refused", why)


def _of_datatype(code: int, path: Path) -> None:
    if code > 1 and np.finfo(np.longdouble).nmant > 100:
        pytest.skip("NumPy has this datatype on this machine; use one with an x86 processor")
    _with_field("datatype", code, path)


def scalings() -> Iterator[Row]:
    group, plain = "Slope and intercept", "float64"
    for dtype in TYPES:
        real = "complex128" if dtype[0] == "c" else plain
        for suffix, way, reason in ((".nii", "chunk table", ""), (".nii.gz", "nibabel", SMALL)):
            makes = written(dtype, slope=0.3, inter=-7.25, order=">" if suffix == ".nii" else "<")
            name = f"{np.dtype(dtype).name}, slope and intercept"
            shown: dict[str, Any] = {"real": real, "suffix": suffix, "way": way, "reason": reason}
            yield Row(group, f"{name}, {suffix}", makes, shown=f"{name} ({suffix})", **shown)
    for name, slope, inter, real in (
        ("slope alone", 2.0, 0.0, plain),
        ("intercept alone", 1.0, 0.5, plain),
        ("negative slope", -1e-3, 3.0, plain),
        ("slope 1 and intercept 0", 1.0, 0.0, ""),
        ("slope 0: none is meant", 0.0, 3.0, ""),
        ("slope NaN: none is meant", np.nan, 3.0, ""),
    ):
        for version in (1, 2):
            makes = written(version=version, slope=slope, inter=inter)
            yield Row(group, f"{name}, NIfTI-{version}", makes, real=real, shown=name)
    wide = written("i8", version=2, slope=1e300)
    yield Row(
        group,
        "int64, beyond float64",
        wide,
        real="floating, as wide as the machine has (longdouble)",
    )
    colours = written(RGB, slope=2.0)
    yield Row(group, "RGB with a slope", colours, unscalable="it has colours and a slope")
    yield Row(
        group, "intercept NaN", written(slope=2.0, inter=np.nan), "refused", "invalid intercept nan"
    )


def axes() -> Iterator[Row]:
    group = "Axes"
    for ndim in range(1, 8):
        shape = (4, 3, 2, 3, 2, 3, 2)[:ndim]
        for suffix, way, reason in ((".nii", "chunk table", ""), (".nii.gz", "nibabel", SMALL)):
            row: dict[str, Any] = {
                "way": way,
                "reason": reason,
                "suffix": suffix,
                "shown": f"1 to 7 axes ({suffix})",
            }
            yield Row(group, f"{ndim} axes, {suffix}", written("i4", shape), **row)
    yield Row(group, "axes of one element", written(shape=(1, 5, 1, 1, 3)))
    yield Row(group, "axis of more than 32767 elements (NIfTI-2)", written("u1", (40_000, 2), 2))


def headers() -> Iterator[Row]:
    group = "Header"
    for sform, qform in ((0, 0), (1, 0), (0, 1), (2, 1), (4, 3)):
        for version in (1, 2):
            codes = {"sform_code": sform, "qform_code": qform}
            fields = {
                **codes,
                **_PLACE,
                "srow_x": [2, 0.5, 0, -30],
                "srow_y": [-0.5, 2, 0, 7],
                "srow_z": [0, 0, 3, 1.25],
            }
            shown = f"sform code {sform}, qform code {qform}"
            yield Row(
                group,
                f"{shown}, NIfTI-{version}",
                written(version=version, fields=fields),
                shown=shown,
            )
    for order in "<>":
        for version in (1, 2):
            comments = written(
                version=version, order=order, comments=[b"first", b"a second, longer comment" * 9]
            )
            yield Row(group, f"extensions, {order}, NIfTI-{version}", comments, shown="extensions")
            shown = "values begin later (vox_offset)"
            later = written(version=version, order=order, gap=16 * 400)
            yield Row(group, f"{shown}, {order}, NIfTI-{version}", later, shown=shown)
    packed = written(comments=[b"first"])
    yield Row(group, "extensions, compressed", packed, "nibabel", SMALL, suffix=".nii.gz")
    yield Row(group, "compressed, called .nii", _packed(member), "nibabel", SMALL)
    yield Row(group, "not compressed, called .nii.gz", _plain, suffix=".nii.gz")


_PLACE = {
    "pixdim": [-1, 2, 2.5, 3, 1, 1, 1, 1],
    "quatern_b": 0.1,
    "quatern_c": 0.2,
    "quatern_d": 0.3,
    "qoffset_x": -20,
    "qoffset_y": 5,
    "qoffset_z": 11,
}


def gzips() -> Iterator[Row]:
    group = "Compressed"
    entered: dict[str, Any] = {
        "way": "index",
        "reason": "indexed: a task starts",
        "suffix": ".nii.gz",
    }
    small: dict[str, Any] = {"way": "nibabel", "reason": SMALL, "suffix": ".nii.gz"}
    kinds: dict[str, Callable[[bytes], bytes]] = {
        "one member": lambda data: member(data, 6),
        "stored blocks": lambda data: member(data, 0),
        "fixed codes": lambda data: member(data, 6, zlib.Z_FIXED),
        "several members": lambda data: b"".join(map(member, _parts(data, 5))),
        "members with names": lambda data: b"".join(
            member(part, 1, 0, b"image.nii") for part in _parts(data, 3)
        ),
        "zeros behind it": lambda data: member(data, 1) + bytes(513),
    }
    for name, pack in kinds.items():
        yield Row(group, f"{name}, less than 4 MiB", _packed(pack), **small)
    for name in ("one member", "fixed codes", "several members"):
        yield Row(group, f"{name}, 4 MiB and more", _packed(kinds[name], LARGE), **entered)
    scaled = _packed(kinds["one member"], LARGE, ">i2", slope=0.5, inter=-3.0)
    yield Row(group, "scaled, big-endian, 4 MiB and more", scaled, real="float64", **entered)
    four = _packed(kinds["one member"], (64, 64, 27, 10), ">f4")
    name = "four axes, big-endian float32, 4 MiB and more"
    yield Row(group, name, four, repeats="a large file is entered: one member", **entered)


def refused() -> Iterator[Row]:
    group = "Refused"
    for version in (1, 2):
        pair = partial(_pair, version)
        yield Row(
            group,
            f"header of a pair (.hdr, .img), NIfTI-{version}",
            pair,
            "refused",
            ".hdr/.img pair",
            suffix=".hdr",
        )
    for keep, why in (
        (100, "is not a NIfTI file although its name says so"),
        (351, "truncated: 121 bytes"),
        (400, "truncated: 72 bytes"),
    ):
        yield Row(
            group, f"cut short after {keep} of 472 bytes", partial(_kept, keep), "refused", why
        )
    for name, shape in (("small", SHAPE), ("large", LARGE)):
        short = _packed(lambda data: member(data)[: -(len(member(data)) // 3)], shape, "i2")
        yield Row(
            group,
            f"compressed, cut short ({name})",
            short,
            "refused",
            "end too early",
            suffix=".nii.gz",
        )
        wrong = _packed(lambda data: member(data)[:-8] + bytes(8), shape, "i2")
        yield Row(
            group,
            f"compressed, wrong checksum ({name})",
            wrong,
            "refused",
            "corrupt",
            suffix=".nii.gz",
        )
    half = _packed(lambda data: member(data[:-10]), SHAPE, "i2")
    yield Row(
        group,
        "compressed, fewer values than the header says",
        half,
        "refused",
        "end too early",
        suffix=".nii.gz",
    )
    other = _packed(lambda data: member(b"no image" * 100), SHAPE, "i2")
    yield Row(
        group,
        "compressed, but not NIfTI",
        other,
        "refused",
        "is compressed, but not NIfTI",
        suffix=".nii.gz",
    )
    far = partial(_with_field, "vox_offset", 1e9)
    yield Row(
        group,
        "values beyond the end of the file",
        far,
        "refused",
        "its data would begin at byte 1000000000",
    )


def _packed(
    pack: Callable[[bytes], bytes],
    shape: tuple[int, ...] = SHAPE,
    dtype: str = "i2",
    **options: Any,
) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        values, order = (
            smooth_values(shape, np.dtype(dtype).newbyteorder("=")),
            ">" if dtype[0] == ">" else "<",
        )
        path.write_bytes(pack(image_bytes(values, 1, order, **options)))

    return make


def _parts(data: bytes, count: int) -> list[bytes]:
    size = -(-len(data) // count)
    return [data[first : first + size] for first in range(0, len(data), size)]


def _plain(path: Path) -> None:
    path.write_bytes(image_bytes(random_values(SHAPE, np.dtype("i2"))))


def _kept(keep: int, path: Path) -> None:
    path.write_bytes(image_bytes(random_values(SHAPE, np.dtype("i2")))[:keep])


def _pair(version: int, path: Path) -> None:
    kind = nib.Nifti1Pair if version == 1 else nib.Nifti2Pair
    kind(np.zeros(SHAPE, "i2"), np.eye(4)).to_filename(path)


def _with_field(name: str, value: float, path: Path) -> None:
    raw = bytearray(image_bytes(random_values(SHAPE, np.dtype("i2"))))
    np.frombuffer(raw, nib.Nifti1Header.template_dtype, count=1)[name] = value
    path.write_bytes(raw)


@lru_cache(maxsize=4)
def by_nibabel(url: str, values: Values) -> Array:
    """An image as nibabel reads it, whatever the name of the file says of gzip."""
    path = Path(url)
    raw = path.read_bytes()
    kind = nib.Nifti2Image if _header(raw)["sizeof_hdr"] == 540 else nib.Nifti1Image
    proxy = kind.from_bytes(_inflated(raw)).dataobj
    return np.asanyarray(proxy) if values == "real" else np.asanyarray(proxy.get_unscaled())


def _inflated(raw: bytes) -> bytes:
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def _header(raw: bytes) -> Any:
    head = _inflated(raw)[:540]
    return (nib.Nifti2Header if head[4:8] == b"n+2\0" else nib.Nifti1Header)(
        head[: 540 if head[4:8] == b"n+2\0" else 348]
    )


def affine(url: str) -> Array:
    return np.asarray(_header(Path(url).read_bytes()).get_best_affine())


NIFTI = Matrix("NIfTI", rows, ".nii", "", by_nibabel, affine=affine)
