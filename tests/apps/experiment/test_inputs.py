"""Inputs: which files of the user's a trial reads, and whether they are still the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hyperslab.apps.experiment.design.spec import Before, load_spec
from hyperslab.apps.experiment.trials.before import prepare
from hyperslab.apps.experiment.trials.runner import Experiment, Wish, begin, resume
from hyperslab.cli.trials import Silent
from hyperslab.driver.options import Options
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import TEXT, experiment
from tests.apps.experiment.syncing import waited_for

SYNTH = 'synth = "bigbrain"\nsize = "64KiB"'
NOTHING = Wish([])
"A session that runs no trial."


def _of(path: str, folder: Path) -> Experiment:
    text = TEXT.replace(SYNTH, f'path = ["{path}"]')
    return Experiment.of(load_spec(text, "small.toml", "small", folder, None), folder / "out")


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Two scans, and a file that is none."""
    folder = tmp_path / "scans"
    folder.mkdir()
    for name in ("a.nii", "b.nii", "notes"):
        (folder / name).write_bytes(bytes(5_000))
    (tmp_path / "list.txt").write_text("scans/a.nii\nscans/b.nii\n")
    return folder


@pytest.mark.parametrize("path", ["scans/*.nii", "list.txt", "scans"])
def test_globs_lists_and_folders_stand_for_their_files(
    path: str, scans: Path, tmp_path: Path
) -> None:
    asked = _of(path, tmp_path)
    setting = asked.settings(asked.cells)[0]
    files = asked.inputs.files(setting)
    assert [file.name for file in files] == ["a.nii", "b.nii"]
    assert asked.inputs.nbytes(setting) == 10_000
    told = prepare(Before(caches="inputs"), files, Options(), tmp_path)
    assert told["caches"].startswith(("done: 2 files", "done: 0 files; the medium of 2"))


def test_a_source_that_has_changed_is_refused(scans: Path, tmp_path: Path) -> None:
    asked = _of("scans/*.nii", tmp_path)
    begin(asked, NOTHING, Silent())
    resume(asked, NOTHING, Silent())
    states = [session.machine["source"] for session in asked.record().sessions]
    assert states[0].startswith("2 files, 10.0 kB (state ")
    assert states == states[:1] * 2
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    shutil.copytree(tmp_path, copy, copy_function=shutil.copyfile)
    resume(_of("scans/*.nii", copy), NOTHING, Silent())
    (scans / "a.nii").write_bytes(bytes(4_999) + b"x")
    with pytest.raises(UsageError, match="the source has changed since earlier trials: 2 files"):
        resume(asked, NOTHING, Silent())
    (scans / "c.nii").write_bytes(bytes(10))
    with pytest.raises(UsageError, match=r"3 files.*, was 2 files"):
        resume(asked, NOTHING, Silent())


def test_what_is_not_there_has_no_files(tmp_path: Path) -> None:
    asked = _of("nowhere/*.nii", tmp_path)
    assert asked.inputs.files(asked.settings(asked.cells)[0]) == []


def test_a_source_is_on_storage_before_it_has_its_name(tmp_path: Path) -> None:
    """A dataset of many files, each of which is waited for, with the names in every folder."""
    text = TEXT.replace(SYNTH, 'synth = "bids"\nsize = "64KiB"\nfiles = 2')
    asked = experiment(tmp_path / "out", text)
    settings = asked.settings(asked.cells)
    source = asked.inputs.folder(settings[0])
    with waited_for() as found:
        asked.inputs.make(settings, lambda text: None)
    below = {one.relative_to(source) for one in source.rglob("*")}
    assert any(one.suffix == ".nii" for one in below)
    unfinished = source.with_name(f".{source.name}.part")
    assert {unfinished / one for one in below} <= set(found)
    assert found[-2:] == [unfinished, source.parent]
