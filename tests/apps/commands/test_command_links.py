"""Links among what a command leaves, as FreeSurfer makes them."""

from __future__ import annotations

from pathlib import Path

from hyperslab import CommandTask, run_commands
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from tests.system.end_to_end.command import call

SURFACES = """cd "$0" && mkdir -p surf trash && echo surface > surf/pial.T1
ln -sf pial.T1 surf/pial && ln -s surf/pial first && ln -s surf subject && ln -s /usr fsaverage
printf done"""
OF_SURFACES = ["surf/pial", "surf/pial.T1"]


def test_links_to_results_are_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = CommandTask("sub-1", ("sh", "-c", SURFACES, "{out}"), outputs=("first", *OF_SURFACES))
    result = run_commands([task], out, engine="serial", report=False)
    for name in task.outputs:
        assert (out / name).read_text() == "surface\n"
        assert not (out / name).is_symlink()
    assert len(result.outputs) == 3
    assert not (out / "fsaverage").exists()
    (log,) = logged(RunDirectory(out))
    assert log.printed().decode() == (
        "done\nhyperslab: is no file, and left out: fsaverage (a link to a folder),"
        " subject (a link to a folder), trash (an empty folder)\n"
    )
    assert call("verify", out).out == "3 of 3 outputs unchanged since the run\n"


IN_A_CONTAINER = """cd "$0/SITE" && mkdir surf && echo surface > surf/pial.T1
ln -s /out/surf/pial.T1 surf/pial && ln -s /out/surf/pial first && ln -s /out/surf subject
ln -s /opt/freesurfer/subjects/fsaverage fsaverage"""


def test_links_in_a_container(tmp_path: Path) -> None:
    """Its /out is a folder of ours; what else it sees is left out, as is what is no file."""
    out = tmp_path / "out"
    words = ("sh", "-c", IN_A_CONTAINER, "{out}")
    make = ("sh", "-c", 'mkdir "$0/SITE" && exec "$@"', "{out}", *words)
    task = CommandTask("sub-1", make, mounted=("/out", "SITE"))
    result = run_commands([task], out, engine="serial", report=False)
    names = sorted(path.relative_to(out / "SITE").as_posix() for path in result.outputs)
    assert names == ["first", *OF_SURFACES]
    for name in names:
        assert (out / "SITE" / name).read_text() == "surface\n"
    (log,) = logged(RunDirectory(out))
    assert log.printed().decode() == (
        "\nhyperslab: is no file, and left out: SITE/fsaverage (a link to what is not here),"
        " SITE/subject (a link to what is not here)\n"
    )


def test_a_link_that_leads_nowhere_is_not_tried_again(tmp_path: Path) -> None:
    task = CommandTask("sub-1", ("ln", "-s", "none", "{out}/link"))
    result = run_commands(
        [task], tmp_path / "out", engine="serial", report=False, retries=2, check=False
    )
    (failure,) = result.failures
    assert "it has left link in {out}, a link to what is no file of {out}" in failure.message
    assert result.summary.attempts == 1
