"""URLs and names: odd keys, datasets, paths of this machine, and what outputs are called."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

import hyperslab
from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.blocks.gathering import expand, gather
from hyperslab.errors import FormatError, UsageError
from hyperslab.storage.location import Remote, is_remote, local_path, parts, scheme, split_dataset
from tests.storage.remote.conftest import S3
from tests.storage.remote.server import Server

ODD = [
    "a b.h5",
    "ä/ö.h5",
    "a#b.h5",
    "a?b.h5",
    "a%20b.h5",
    "100%.h5",
    "a+b&c=d.h5",
    "a;b,c@d.h5",
    "'a'\"b\".h5",
    "a//b.h5",
]


@pytest.mark.parametrize("name", ODD)
def test_keys_are_taken_as_they_are(name: str, s3: S3, folder: Path, values: Array) -> None:
    url = s3.put(f"odd/{name}", (folder / "made.h5").read_bytes())
    view = hyperslab.open(f"{url}::gzip", storage_options=s3.options)
    np.testing.assert_array_equal(view[3:5], values[3:5])
    assert str(view.source.url) == url
    assert view.source.name == "/gzip"


@pytest.mark.parametrize("name", ODD)
def test_pages_are_asked_for_as_they_are_given(
    name: str, web: Server, folder: Path, values: Array
) -> None:
    web.objects[f"/odd/{name}"] = (folder / "made.h5").read_bytes()
    view = hyperslab.open(f"{web.url}/odd/{quote(name)}::gzip")
    np.testing.assert_array_equal(view[3:5], values[3:5])
    assert all(seen.path == f"/odd/{quote(name)}" for seen in web.seen)


def test_pages_with_characters_that_no_url_has(web: Server, folder: Path) -> None:
    web.objects["/ä b.nii"] = (folder / "plain.nii").read_bytes()
    assert hyperslab.open(f"{web.url}/ä b.nii?name=ö x&b=%2F")[0].any()
    assert web.seen[0].path == "/%C3%A4%20b.nii?name=%C3%B6%20x&b=%2F"


@pytest.mark.parametrize(
    ("url", "path", "name"),
    [
        ("s3://b/k.h5::data", "s3://b/k.h5", "data"),
        ("s3://b/k.h5::/a/b::c", "s3://b/k.h5", "/a/b::c"),
        ("s3://b/k.h5", "s3://b/k.h5", ""),
        ("http://[::1]:80/a.h5::x", "http://[::1]:80/a.h5", "x"),
        ("http://[::1]:80/a.h5", "http://[::1]:80/a.h5", ""),
        ("https://h/a.h5?x=1::data", "https://h/a.h5?x=1", "data"),
    ],
)
def test_a_dataset_of_a_url(url: str, path: str, name: str) -> None:
    assert split_dataset(url) == (path, name) == formats.split_url(url)


@pytest.mark.parametrize(
    ("text", "kind", "remote"),
    [
        ("a.nii", "", False),
        ("/a://b", "", False),
        ("S3://b", "s3", True),
        ("file:///a", "file", False),
        ("c:/a", "", False),
    ],
)
def test_schemes(text: str, kind: str, remote: bool) -> None:
    assert (scheme(text), is_remote(text)) == (kind, remote)


def test_file_urls_are_paths(folder: Path, tmp_path: Path, values: Array) -> None:
    for name in ("a b.nii", "a%20b.nii", "ü.nii"):
        (tmp_path / name).write_bytes((folder / "plain.nii").read_bytes())
    for url in (
        f"file://{tmp_path}/a b.nii",
        f"file://localhost{tmp_path}/a%20b.nii",
        f"file://{tmp_path}/%C3%BC.nii",
    ):
        view = hyperslab.open(url, "stored")
        assert not isinstance(view.source.url, Remote)
        np.testing.assert_array_equal(view[...], values)
    assert local_path(f"file://{tmp_path}/a%20b.nii") == f"{tmp_path}/a%20b.nii", "it is there"
    (tmp_path / "a%20b.nii").unlink()
    assert local_path(f"file://{tmp_path}/a%20b.nii") == f"{tmp_path}/a b.nii"
    assert formats.split_url(f"file://{folder}/made.h5::gzip") == (f"{folder}/made.h5", "gzip")
    assert expand(f"file://{folder}/*.nii") == [f"{folder}/plain.nii"]
    assert expand(f"file://{folder}/made.h5::gzip") == [f"{folder}/made.h5::gzip"]


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("https://me:x@host:80/dir/a%20b.nii?sig=x#y", ["host:80", "dir", "a b.nii"]),
        ("https://host/a%2Fb.nii", ["host", "a_b.nii"]),
        ("s3://bucket/a%20b?.nii", ["bucket", "a%20b?.nii"]),
    ],
)
def test_outputs_are_named_after_what_was_read(url: str, named: list[str]) -> None:
    assert parts(Remote(url)) == named


def test_names_of_wholes(web: Server, folder: Path) -> None:
    for name in ("/x/a b.nii", "/y/a b.nii"):
        web.objects[name] = (folder / "plain.nii").read_bytes()
    sources = gather([f"{web.url}/{side}/a%20b.nii?token=1" for side in "xy"])
    assert [whole.name for whole in sources.wholes] == ["x_a b", "y_a b"]


def test_lists_name_urls(web: Server, folder: Path, tmp_path: Path) -> None:
    web.objects["/a,b.h5"] = (folder / "made.h5").read_bytes()
    (tmp_path / "local.nii").write_bytes((folder / "plain.nii").read_bytes())
    listing = tmp_path / "list.csv"
    listing.write_text(f"{web.url}/a,b.h5::gzip, 0 0 0\nlocal.nii, 24 0 0\n")
    whole = gather(listing, "mosaic").wholes[0]
    assert whole.shape == (48, 30, 36)
    assert [member.box.start for member in whole.members] == [(0, 0, 0), (24, 0, 0)]


def test_a_dataset_has_to_be_chosen(s3: S3, folder: Path) -> None:
    url = s3.put("made.h5", (folder / "made.h5").read_bytes())
    with pytest.raises(UsageError, match=rf"{url} holds 7 arrays; choose one as '{url}::NAME'"):
        hyperslab.open(url, storage_options=s3.options)
    with pytest.raises(UsageError, match="holds no 'nothing'"):
        hyperslab.open(f"{url}::nothing", storage_options=s3.options)
    with pytest.raises(UsageError, match="a NIfTI file holds one array"):
        hyperslab.open(
            s3.put("a.nii", (folder / "plain.nii").read_bytes()) + "::x", storage_options=s3.options
        )
    with pytest.raises(FormatError, match="there is no such object"):
        hyperslab.open(url + "/", storage_options=s3.options)
