"""Conversions from and to object stores: the values that were there, complete, or nothing."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import zarr

import hyperslab
from hyperslab import Encoding, Rule
from hyperslab.apps import conversion, publication
from hyperslab.apps.publication import MANIFEST
from hyperslab.arrays import Array
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import DamagedRecord, FormatError, HyperslabError, OutputBusy, UsageError
from hyperslab.storage.remote.uploading import REPLACING
from tests.repetitions import few
from tests.storage.remote.conftest import BUCKET, S3
from tests.system.end_to_end.command import call as command
from tests.system.end_to_end.command import succeed

VALUES: Array = np.random.default_rng(5).integers(0, 900, (30, 24, 20)).astype("i2")
AFFINE = np.array([[2.0, 0, 0, -30], [0, 2.0, 0, -24], [0, 0, 3.0, 7], [0, 0, 0, 1]])


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A NIfTI file, and a place for temporary files of its own."""
    staging = tmp_path / "staging"
    staging.mkdir()
    monkeypatch.setenv("TMPDIR", str(staging))
    monkeypatch.setattr("tempfile.tempdir", None)
    path = str(tmp_path / "image.nii")
    nib.save(nib.Nifti1Image(VALUES, AFFINE), path)  # type: ignore[no-untyped-call]
    return path


def convert(source: Any, dest: str, s3: S3, **settings: Any) -> hyperslab.Result:
    return hyperslab.convert(
        source,
        dest,
        engine="threads",
        workers=1,
        report=False,
        storage_options=s3.options,
        **settings,
    )


NAMES = ["a.nii", "a.nii.gz", "a.h5", "a.nc"]


@pytest.mark.parametrize("name", few(NAMES[1:3], NAMES, "a file of each kind goes there"))
def test_a_file_goes_there_and_comes_back(image: str, s3: S3, tmp_path: Path, name: str) -> None:
    url = f"s3://{BUCKET}/made/{name}"
    convert(image, url, s3)
    back = str(tmp_path / "back.nii")
    convert(url, back, s3)
    found: Any = nib.load(back)
    np.testing.assert_array_equal(np.asarray(found.dataobj), VALUES)
    np.testing.assert_allclose(found.affine, AFFINE)
    made = [
        path.name
        for path in (tmp_path / "staging").rglob("*")
        if path.suffix in Path(name).suffixes
    ]
    assert made == [], "what was uploaded is not kept here"


def test_a_zarr_store_is_complete(image: str, s3: S3) -> None:
    url = f"s3://{BUCKET}/made/image.zarr"
    convert(image, url, s3, encoding=Encoding(chunks=(10, 12, 20)))
    theirs = {name: value for name, value in s3.options.items() if not name.startswith("hyperslab")}
    group: Any = zarr.open_group(url, mode="r", storage_options=theirs)
    store = group["data"]
    np.testing.assert_array_equal(store[:], VALUES)
    assert store.chunks == (10, 12, 20)


def test_blocks_go_to_a_place_of_their_own(image: str, s3: S3, tmp_path: Path) -> None:
    convert(image, f"s3://{BUCKET}/blocks", s3, grid=Rule("blocks", (2, 2, 2)))
    keys = sorted(s3.fs.ls(f"{BUCKET}/blocks", detail=False))
    assert len(keys) == 9
    merged = str(tmp_path / "merged.nii")
    convert([f"s3://{key}" for key in keys if not key.endswith(MANIFEST)], merged, s3)
    assert Path(merged).read_bytes() == Path(image).read_bytes()


BLOCKS = Rule("block-shape", (20, 50, 60))


def ones_and_twos(folder: Path) -> list[str]:
    """Volumes of two sizes whose blocks have the same names, but for those that only the larger one
    has.
    """
    paths = [str(folder / name / "vol.nii") for name in ("a", "b")]
    for path, extent, value in zip(paths, (60, 40), (1, 2), strict=True):
        Path(path).parent.mkdir()
        nib.save(nib.Nifti1Image(np.full((extent, 50, 60), value, "u1"), np.eye(4)), path)  # type: ignore[no-untyped-call]
    return paths


def names(s3: S3, place: str) -> set[str]:
    return {key.removeprefix(f"{BUCKET}/{place}/") for key in s3.fs.find(f"{BUCKET}/{place}")}


@pytest.mark.parametrize("kind", ["nii", "zarr"])
def test_blocks_that_replace_others_are_all_that_is_there(
    kind: str, image: str, s3: S3, tmp_path: Path
) -> None:
    place = f"replaced-{kind}"
    first, second = ones_and_twos(tmp_path)
    convert(first, f"s3://{BUCKET}/{place}", s3, grid=BLOCKS, format=kind)
    with pytest.raises(OutputBusy, match="exists; choose another name"):
        convert(second, f"s3://{BUCKET}/{place}", s3, grid=BLOCKS, format=kind)
    convert(second, f"s3://{BUCKET}/{place}", s3, grid=BLOCKS, format=kind, overwrite=True)
    left = names(s3, place)
    assert {name.partition("/")[0] for name in left} == {
        f"vol_{first:02d}_00_00.{kind}" for first in (0, 20)
    } | {MANIFEST}
    if kind == "nii":
        merged = str(tmp_path / "merged.nii")
        convert([f"s3://{BUCKET}/{place}/{name}" for name in sorted(left - {MANIFEST})], merged, s3)
        assert Path(merged).read_bytes() == Path(second).read_bytes()


def test_blocks_do_not_replace_what_no_conversion_has_made(image: str, s3: S3) -> None:
    s3.put("study/raw_00_00_00.nii", b"somebody's")
    with pytest.raises(OutputBusy, match=r"holds raw_00_00_00\.nii, which no conversion made"):
        convert(image, f"s3://{BUCKET}/study", s3, grid=BLOCKS, overwrite=True)
    s3.put("image.zarr/paper.csv", b"somebody's")
    with pytest.raises(OutputBusy, match=r"holds paper\.csv, which is not of a Zarr store"):
        convert(image, f"s3://{BUCKET}/image.zarr", s3, overwrite=True)
    assert names(s3, "study") == {"raw_00_00_00.nii"}
    assert names(s3, "image.zarr") == {"paper.csv"}


@pytest.mark.parametrize("dest", ["resumed", "resumed.zarr"])
def test_an_upload_that_failed_is_gone_on_with(dest: str, image: str, s3: S3) -> None:
    """Of files, those that have arrived are not sent again."""
    url = f"s3://{BUCKET}/{dest}"
    settings: dict[str, Any] = {"encoding": Encoding(chunks=(10, 12, 20))}
    if dest == "resumed":
        settings = {"grid": Rule("blocks", (4, 1, 1))}
    s3.server.only = "image_15" if dest == "resumed" else "c/2/1/0"
    s3.server.faults.append("403")
    with pytest.raises(FormatError, match="access is denied"):
        convert(image, url, s3, **settings)
    s3.server.forget()
    arrived = names(s3, dest)
    assert arrived
    with pytest.raises(OutputBusy, match="resume=True continues"):
        convert(image, url, s3, **settings)
    assert convert(image, url, s3, resume=True, **settings).ok
    puts = {
        seen.path.split("?")[0].removeprefix(f"/{BUCKET}/{dest}/")
        for seen in s3.server.seen
        if seen.method == "PUT"
    }
    again = (
        {REPLACING} | names(s3, dest)
        if dest.endswith("zarr")
        else {MANIFEST} | names(s3, dest) - arrived
    )
    assert puts == again
    with pytest.raises(OutputBusy, match="is complete"):
        convert(image, url, s3, resume=True, **settings)
    nib.save(nib.Nifti1Image(VALUES + 1, AFFINE), image)  # type: ignore[no-untyped-call]
    s3.server.forget()
    assert convert(image, url, s3, resume=True, **settings).ok, "the source is another one now"
    sent = [seen.path.split("?")[0] for seen in s3.server.seen if seen.method == "PUT"]
    assert {path.removeprefix(f"/{BUCKET}/{dest}/") for path in sent} >= names(s3, dest)
    s3.fs.rm(f"{BUCKET}/{dest}", recursive=True)
    assert convert(image, url, s3, **settings).ok, "what is no longer there can be made again"
    assert names(s3, dest) >= arrived


def test_nothing_is_there_before_all_of_it_is(image: str, s3: S3, tmp_path: Path) -> None:
    """Nor is anything said to be there: files that are complete are sent together."""
    bad = tmp_path / "bad.nii"
    whole = Path(image).read_bytes()
    bad.write_bytes(whole[:-1000])
    url = f"s3://{BUCKET}/together"
    with pytest.raises(hyperslab.TasksFailed) as told:
        convert([image, str(bad)], url, s3, format="nii.gz", retries=0)
    result = told.value.result
    assert (result.outputs, result.unfinished) == ([], ())
    assert "names" not in str(told.value)
    assert not list((tmp_path / "staging").rglob("[!.]*.nii.gz"))
    assert names(s3, "together") == set()
    bad.write_bytes(whole)
    convert([image, str(bad)], url, s3, format="nii.gz", retries=0, resume=True)
    assert names(s3, "together") == {"image.nii.gz", "bad.nii.gz", MANIFEST}


def test_a_damaged_record_of_what_was_sent_is_not_gone_by(image: str, s3: S3) -> None:
    """Names in it are those of objects that may be written over."""
    url = f"s3://{BUCKET}/damaged"
    settings: dict[str, Any] = {"grid": Rule("blocks", (4, 1, 1))}
    s3.server.only = "image_15"
    s3.server.faults.append("403")
    with pytest.raises(FormatError, match="access is denied"):
        convert(image, url, s3, **settings)
    s3.server.forget()
    arrived = names(s3, "damaged")
    record = RunDirectory.of(publication._place(url)).root / "published.json"
    data = record.read_bytes()
    for damaged in (b"", data[:-9], data.replace(b"_00", b"_99", 1), b"{}", b"\xff"):
        record.write_bytes(damaged)
        with pytest.raises(
            DamagedRecord, match=r"published\.json is damaged .* add overwrite=True"
        ):
            convert(image, url, s3, resume=True, **settings)
    assert names(s3, "damaged") == arrived
    assert convert(image, url, s3, resume=True, overwrite=True, **settings).ok
    assert names(s3, "damaged") > arrived


def test_the_source_is_not_replaced(image: str, s3: S3) -> None:
    url = s3.put("own/v.nii", Path(image).read_bytes())
    for dest in (url, url.replace("s3:", "s3a:"), f"s3://{BUCKET}/own"):
        with pytest.raises(HyperslabError, match=r"is the source itself|which no conversion made"):
            convert(url, dest, s3, overwrite=True, grid=BLOCKS if dest.endswith("own") else None)
    assert s3.fs.cat(f"{BUCKET}/own/v.nii") == Path(image).read_bytes()


def test_temporary_files_lie_in_a_directory_of_ones_own(image: str, s3: S3, tmp_path: Path) -> None:
    url = f"s3://{BUCKET}/made/private.nii"
    convert(image, url, s3)
    (folder,) = (tmp_path / "staging").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert f"-{os.getuid()}-" in folder.name
    folder.chmod(0o770)
    with pytest.raises(UsageError, match="set TMPDIR to a directory of your own"):
        convert(image, url, s3, overwrite=True)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    (tmp_path / "moved").chmod(0o700)
    with pytest.raises(UsageError, match="set TMPDIR to a directory of your own"):
        convert(image, url, s3, overwrite=True)


def test_what_is_there_is_kept_unless_told(image: str, s3: S3) -> None:
    url = s3.put("made/there.nii", b"somebody's")
    with pytest.raises(OutputBusy, match="exists"):
        convert(image, url, s3)
    assert s3.fs.cat(f"{BUCKET}/made/there.nii") == b"somebody's"
    convert(image, url, s3, overwrite=True)
    assert s3.fs.cat(f"{BUCKET}/made/there.nii") == Path(image).read_bytes()


def test_the_page_of_what_went_there_can_be_written_later(image: str, s3: S3) -> None:
    options = [f"--storage-option={name}={value}" for name, value in s3.options.items()]
    line = ("convert", image, f"s3://{BUCKET}/later/v.h5", *options, "--engine", "serial")
    said = succeed(*line, "--no-report")
    _, verb, folder = shlex.split(said.partition("write it with: ")[2].splitlines()[0])
    succeed(verb, folder)
    assert (Path(folder) / "report.html").is_file()


def test_the_command_goes_on_and_says_what_it_has_sent(image: str, s3: S3) -> None:
    options = [f"--storage-option={name}={value}" for name, value in s3.options.items()]
    line = (
        "convert",
        image,
        f"s3://{BUCKET}/by-command",
        "--blocks",
        2,
        "--engine",
        "serial",
        *options,
    )
    s3.server.always = "403"
    assert command(*line, "--dry-run").code == 1
    s3.server.forget()
    assert "uploaded   2 files, " in succeed(*line)
    assert "exists" in command(*line).err
    assert "is complete" in succeed(*line, "--resume")
    assert (
        "leave out --virtual"
        in command("convert", image, f"s3://{BUCKET}/v.h5", "--virtual", *options).err
    )


def test_what_somebody_else_puts_there_meanwhile_is_kept(
    image: str, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the conversion is gone on with."""

    def run(*arguments: Any, **settings: Any) -> hyperslab.Result:
        result = hyperslab.run(*arguments, **settings)
        s3.put("raced/image_15_00_00.nii", b"theirs")
        return result

    monkeypatch.setattr(conversion, "run", run)
    for resume in (False, True, True):
        with pytest.raises(OutputBusy, match="exists"):
            convert(
                image, f"s3://{BUCKET}/raced", s3, grid=Rule("blocks", (4, 1, 1)), resume=resume
            )
        assert s3.fs.cat(f"{BUCKET}/raced/image_15_00_00.nii") == b"theirs"
