"""Entry points are those that `importlib.metadata` finds, wherever distributions are."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from hyperslab.machine.plugins import entry_points, version

GROUP = "hyperslab.tried"
TEXT = f"[{GROUP}]\none = json:dumps\n"


def found() -> list[str]:
    names = [entry.name for entry in entry_points(GROUP)]
    assert names == [entry.name for entry in metadata.entry_points(group=GROUP)]
    return names


@pytest.mark.parametrize("end", ["dist-info", "egg-info"])
def test_a_distribution_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    about = tmp_path / f"brings-1.0.{end}"
    about.mkdir()
    (about / "entry_points.txt").write_text(TEXT)
    (about / ("METADATA" if end == "dist-info" else "PKG-INFO")).write_text("Name: brings\n")
    assert found() == []
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found() == ["one"]


def test_a_distribution_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "brings.zip", "w") as archive:
        archive.writestr("brings-1.0.dist-info/entry_points.txt", TEXT)
        archive.writestr("brings-1.0.dist-info/METADATA", "Name: brings\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "brings.zip"))
    assert found() == ["one"]


@pytest.mark.parametrize(
    "name", ["hyperslab", "numpy", "NumPy", "nibabel", "h5py", "typing.extensions", "not-installed"]
)
def test_versions_are_those_of_the_metadata(name: str) -> None:
    try:
        said = metadata.version(name)
    except metadata.PackageNotFoundError:
        said = None
    assert version(name) == said


def test_a_version_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "brings.zip", "w") as archive:
        archive.writestr("brings-1.0.dist-info/METADATA", "Name: brings\nVersion: 1.0\n")
    assert version("brings") is None
    monkeypatch.syspath_prepend(str(tmp_path / "brings.zip"))
    assert (version("brings"), version("other")) == ("1.0", None)


def test_what_short_commands_do_not_import() -> None:
    """Markdown for a help; metadata of distributions, and pickles of functions, to look at a
    file.
    """
    image = Path(__file__).parents[1] / "data" / "mri" / "anatomical.nii"
    for arguments, without in (
        (["--help"], {"markdown_it", "rich.traceback", "numpy"}),
        (["info", str(image)], {"importlib.metadata", "email", "cloudpickle", "fractions", "rich"}),
    ):
        code = (
            f"import sys; from hyperslab.cli import main; sys.argv[1:] = {arguments}\n"
            "try: main()\n"
            "except SystemExit: print(*sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert not without & set(done.stdout.splitlines()[-1].split())
