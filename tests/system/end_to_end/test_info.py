"""`hyperslab info`: every field, on every kind of file, against nibabel and h5py."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab.arrays import Array
from tests.system.end_to_end.command import (
    ANATOMICAL,
    BRAIN,
    DATA,
    EPI,
    FUNCTIONAL,
    LAYOUT,
    call,
    image_of,
    save,
    succeed,
)

pytestmark = pytest.mark.usefixtures("on_threads")

FIELDS = [
    "format",
    "shape",
    "dims",
    "stored as",
    "real dtype",
    "axes",
    "chunks",
    "codecs",
    "scaling",
    "fill",
    "bytes",
    "affine",
    "read by",
    "partition",
]
CONTIGUOUS = "positioned reads: contiguous: a task reads its byte ranges directly"


def fields(printed: str) -> dict[str, str]:
    """The rows of one array; the first line names it."""
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in printed.splitlines()[1:]]
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def info(url: object) -> dict[str, str]:
    """The rows for one array, after a look that all are there and in order."""
    found = fields(succeed("info", url))
    assert list(found)[: len(FIELDS)] == FIELDS
    return found


def has_rows(found: dict[str, str], expected: dict[str, str]) -> None:
    assert {name: found[name] for name in expected} == expected


def test_a_big_endian_nifti() -> None:
    image: Any = image_of(ANATOMICAL)
    found = info(ANATOMICAL)
    has_rows(
        found,
        {
            "format": "nifti",
            "shape": "33x41x25",
            "dims": "x, y, z",
            "stored as": "int16, big-endian",
            "real dtype": "int16",
            "axes": "slowest to fastest in the file: z, y, x",
            "chunks": "contiguous",
            "codecs": "none",
            "scaling": "none",
            "fill": "none",
            "bytes": "67.7 kB stored, 67.7 kB decoded",
            "read by": CONTIGUOUS,
            "byte_order": "big",
            "description": "spm - 3D normalized",
        },
    )
    assert image.shape == (33, 41, 25)
    assert np.array_equal(_matrix(found["affine"]), image.affine[:3])


def test_a_scaled_nifti() -> None:
    image: Any = image_of(FUNCTIONAL)
    found = info(FUNCTIONAL)
    has_rows(
        found,
        {
            "shape": "17x21x3x20",
            "dims": "x, y, z, t",
            "stored as": "int16, little-endian",
            "real dtype": "float64",
            "axes": "slowest to fastest in the file: t, z, y, x",
            "bytes": "42.8 kB stored, 42.8 kB decoded",
        },
    )
    slope, inter = re.fullmatch(r"real = stored x (\S+) \+ (\S+)", found["scaling"]).groups()  # type: ignore[union-attr]
    assert float(slope) == pytest.approx(image.dataobj.slope, rel=1e-5)
    assert float(inter) == pytest.approx(image.dataobj.inter, rel=1e-5)


def test_a_compressed_nifti() -> None:
    found = info(EPI)
    has_rows(
        found,
        {
            "shape": "128x96x24x2",
            "stored as": "int16, little-endian",
            "chunks": "none",
            "codecs": "gzip",
            "bytes": "346 kB stored, 1.18 MB decoded",
        },
    )
    assert found["read by"].startswith("the reference library: one gzip stream")
    assert EPI.stat().st_size == 346451


def test_a_deflated_dataset() -> None:
    found = info(f"{LAYOUT}/tfilters.h5::deflate")
    with h5py.File(LAYOUT / "tfilters.h5") as file:
        stored = file["deflate"].id.get_storage_size()
    has_rows(
        found,
        {
            "format": "hdf5",
            "shape": "20x10",
            "stored as": "int32, little-endian",
            "real dtype": "int32",
            "axes": "slowest to fastest in the file: dim_0, dim_1",
            "chunks": "4 of 10x5",
            "codecs": "deflate[9]",
            "scaling": "none",
            "fill": "0",
            "bytes": f"{stored} B stored, 800 B decoded",
            "read by": "positioned reads: chunked with deflate: "
            "a task reads and decodes whole chunks",
        },
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "compact",
            {
                "chunks": "none",
                "codecs": "none",
                "read by": "the reference library: read through h5py: it is compact: "
                "its values lie in the metadata",
            },
        ),
        (
            "chunked",
            {
                "chunks": "4 of 10x5",
                "codecs": "none",
                "read by": "positioned reads: chunked, unfiltered: "
                "a task reads its byte ranges directly",
            },
        ),
        ("contiguous", {"chunks": "contiguous", "codecs": "none", "read by": CONTIGUOUS}),
        ("shuffle", {"chunks": "4 of 10x5", "codecs": "shuffle[4]"}),
        (
            "szip",
            {
                "chunks": "10x5",
                "read by": "the reference library: read through h5py: "
                "filter szip is not decoded here",
            },
        ),
    ],
)
def test_layouts_of_hdf5(name: str, expected: dict[str, str]) -> None:
    has_rows(info(f"{LAYOUT}/tfilters.h5::{name}"), expected)


def test_a_fill_value_and_a_big_endian_dataset() -> None:
    assert info(f"{LAYOUT}/fill18.h5")["fill"] == "99"
    found = info(f"{LAYOUT}/le_data.h5::Array_be")
    has_rows(found, {"stored as": "float64, big-endian", "real dtype": "float64"})
    with h5py.File(LAYOUT / "le_data.h5") as file:
        assert float(found["fill"]) == file["Array_be"].fillvalue


@pytest.mark.parametrize(
    ("attributes", "dtype", "words"),
    [
        ({"scale_factor": 0.5}, "float64", "real = stored x 0.5 + 0"),
        (
            {"_FillValue": np.int16(-9), "valid_max": np.int16(7)},
            "float32",
            "real = stored, -9 -> NaN, above 7 -> NaN",
        ),
        (
            {"_Unsigned": "true", "add_offset": np.float32(3)},
            "float32",
            "real = stored (read without sign) x 1 + 3",
        ),
        (
            {"scale_factor": "half"},
            "none: its attribute scale_factor is not a number or a list of numbers",
            "none",
        ),
    ],
)
def test_packing_is_said_in_words(
    tmp_path: Path, attributes: dict[str, Any], dtype: str, words: str
) -> None:
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file["t"] = np.zeros((2, 3), "i2")
        file["t"].attrs.update(attributes)
    has_rows(info(tmp_path / "packed.h5"), {"real dtype": dtype, "scaling": words})


def test_a_minc_image_and_its_slopes() -> None:
    found = info(f"{DATA}/minc/small.mnc::/minc-2.0/image/0/image")
    has_rows(
        found,
        {
            "dims": "zspace, yspace, xspace",
            "stored as": "int16, little-endian",
            "real dtype": "float64",
        },
    )
    assert re.fullmatch(
        r"real = stored x \(0\.0006\d+ \.\. 0\.0014\d+, by slice\) \+ .*, stored clipped to -32768"
        r" \.\. 32767",
        found["scaling"],
    )
    has_rows(
        info(f"{DATA}/minc/tiny.mnc::image"), {"format": "netcdf", "stored as": "uint8, one byte"}
    )


def test_a_file_of_many_datasets_is_listed() -> None:
    title, *rows = succeed("info", LAYOUT / "tfilters.h5").splitlines()
    assert title.endswith("tfilters.h5: 15 arrays; add ::NAME to see one")
    with h5py.File(LAYOUT / "tfilters.h5") as file:
        arrays = {name: item for name, item in file.items() if isinstance(item, h5py.Dataset)}
        expected = {
            f"/{name}": (str(item.dtype), "x".join(map(str, item.shape)))
            for name, item in arrays.items()
        }
    assert {
        name: (dtype, shape) for name, dtype, shape in (row.split() for row in rows)
    } == expected


@pytest.mark.parametrize(
    ("name", "image"), [("small.mnc", "/minc-2.0/image/0/image"), ("tiny.mnc", "image")]
)
def test_of_an_image_with_more_beside_it_the_image_is_shown(name: str, image: str) -> None:
    path = DATA / "minc" / name
    told = succeed("info", path)
    named = succeed("info", f"{path}::{image}")
    assert told.startswith(named.partition("::")[0])
    shown, _, others = told.partition("also in this file: ")
    assert fields(shown) == fields(named)
    assert "add ::NAME to see one" in others.splitlines()[0]
    listed = [row.split()[0] for row in others.splitlines()[1:]]
    assert listed
    assert image not in listed
    full, *short = json.loads(succeed("info", path, "--json"))
    assert full["chunks"] is not None
    assert [one["name"] for one in short] == listed


@pytest.mark.parametrize("url", [ANATOMICAL, FUNCTIONAL, BRAIN, f"{LAYOUT}/deflate.h5"])
def test_the_preview_is_the_partition_that_a_run_makes(url: object, tmp_path: Path) -> None:
    preview = info(url)["partition"].rpartition(", on ")[0]
    planned = succeed("run", "stats", url, "-o", tmp_path / "out", "--dry-run")
    assert f"partition  auto: {preview}" in planned


def test_a_directory_shows_every_file_and_says_which_it_cannot_read(tmp_path: Path) -> None:
    shutil.copy(ANATOMICAL, tmp_path / "b10.nii")
    (tmp_path / "b2.nii").write_bytes(ANATOMICAL.read_bytes()[:1000])
    shutil.copy(LAYOUT / "deflate.h5", tmp_path / "b1.h5")
    done = call("info", tmp_path)
    assert done.code == 1
    assert [line for line in done.out.splitlines() if not line.startswith(" ")] == [
        f"{tmp_path}/b1.h5::/Dataset1",
        f"{tmp_path}/b10.nii",
    ]
    assert (
        done.err == f"hyperslab: {tmp_path}/b2.nii: truncated: 67,002 bytes missing; fetch or copy"
        " it again\n"
    )
    assert succeed("info", tmp_path / "b1*").count("  shape ") == 2


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("README.md", 1, "its format is unknown; supported are NIfTI"),
        ("missing.nii", 2, "there is no such file"),
        ("mri/anatomical.nii::x", 2, "a NIfTI file holds one array"),
        ("hdf5/layout/tfilters.h5::nope", 2, "holds no 'nope'"),
        ("netcdf/bad_cdf5_begin.nc", 1, "its netCDF header is corrupt at byte 220"),
        ("hdf5/corrupt/tmisc38b.h5", 1, "HDF5 cannot read it"),
        ("missing*.nii", 2, "no file matches this pattern"),
    ],
)
def test_what_is_not_an_array_gets_a_sentence(name: str, code: int, said: str) -> None:
    done = call("info", DATA / name)
    assert done.code == code
    assert done.out == ""
    assert done.err.startswith("hyperslab: ")
    assert done.err.count("\n") == 1
    assert str(DATA / name.partition("::")[0]) in done.err
    assert said in done.err


def _matrix(text: str) -> Array:
    return np.array([[float(number) for number in row.split()] for row in text.split(";")])


def test_several_paths_are_shown_one_after_the_other(tmp_path: Path) -> None:
    """As a shell hands over *.nii.gz; one that cannot be read leaves the others."""
    (tmp_path / "bad.nii").write_bytes(b"no image")
    done = call("info", ANATOMICAL, tmp_path / "bad.nii", FUNCTIONAL)
    assert done.code == 1
    assert [line for line in done.out.splitlines() if line.startswith("/")] == [
        str(ANATOMICAL),
        str(FUNCTIONAL),
    ]
    assert "bad.nii" in done.err
    both = json.loads(succeed("info", ANATOMICAL, FUNCTIONAL, "--json"))
    assert [one["shape"] for one in both] == [[33, 41, 25], [17, 21, 3, 20]]


@pytest.mark.parametrize(
    ("factor", "why", "flags"),
    [(np.nan, "holds numbers that are not finite", ()), (0, "is singular", ("-q",))],
)
def test_an_affine_that_gives_no_place_is_told(
    tmp_path: Path, factor: float, why: str, flags: tuple[str, ...]
) -> None:
    image = save(tmp_path / "in.nii", np.ones((4, 5, 6), np.float32))
    rows = slice(280, 328)  # srow_x, srow_y, srow_z of the header
    content = bytearray(image.read_bytes())
    affine = np.frombuffer(content[rows], "<f4")
    assert "gives no place" not in info(image)["affine"]
    content[rows] = (affine * np.float32(factor)).tobytes()
    image.write_bytes(content)
    assert f": it gives no place, as it {why}" in info(image)["affine"]
    done = call("run", "increment", image, "-o", tmp_path / "out", "--blocks", "1x1x2", *flags)
    assert done.code == 0, done
    assert f"the affine of {image} {why}" in done.err.splitlines()[0]
    (told,) = hyperslab.Pipeline([image, image]).notes
    assert told.startswith(f"the affine of {image} (and 1 other file with such an affine) {why}")
