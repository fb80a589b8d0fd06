"""Participants and sessions that are taken out of a dataset after they were tried."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hyperslab.apps.bids import withdrawn
from hyperslab.apps.bids.grouping import of_group
from hyperslab.apps.bids.running import Asked, run_participants, select
from hyperslab.apps.bids.template import group_words, template_app
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.driver.verification import verify
from hyperslab.errors import UsageError
from hyperslab.plan.journal import Tail
from hyperslab.report.progress import Quiet
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.test_gathering import COUNT, gathered
from tests.apps.bids.test_running import COPY, OF_WHOLE

OPTIONS = Options(engine="serial", report=False, retries=0, resume=True, verb="bids")


class Told(Quiet):
    """Lines that a run has told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def tell(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(
        tmp_path / "data", t1w("1"), t1w("2", "a"), t1w("2", "b"), t1w("3"), content=b"whole"
    )


def without_folder(home: Path) -> None:
    shutil.rmtree(home / "sub-3")


def without_image(home: Path) -> None:
    (home / t1w("3")).unlink()


def both(home: Path, out: Path, told: Told) -> list[str]:
    """Labels of the tasks that a run of both levels does."""
    selection = select(home, Asked())
    then = (of_group(selection, group_words(COUNT, str(home), str(out))),)
    result = run_participants(selection, out, template_app(COPY), OPTIONS, told, then)
    assert result.ok, result.failures
    assert all(output.exists() for output in result.outputs)
    ran = {one.task for one in Tail(result.folder).poll() if one.status == "done"}
    labels = ["sub-1", "sub-2", "sub-3", "group"]
    return [label for number, label in enumerate(labels) if number in ran]


@pytest.mark.parametrize("withdraw", [without_folder, without_image])
def test_who_is_withdrawn_stops_nobody(
    home: Path, tmp_path: Path, withdraw: Callable[[Path], None]
) -> None:
    """The group level is done again, and whoever looks for results is told."""
    out, told = tmp_path / "out", Told()
    assert both(home, out, told) == ["sub-1", "sub-2", "sub-3", "group"]
    assert told.lines == []
    withdraw(home)
    assert both(home, out, told) == ["group"]
    (line,) = told.lines
    assert line == withdrawn.told(["sub-3"], out)
    assert both(home, out, told) == []
    assert {one.problem for one in verify(RunDirectory(out))} == {None}
    shutil.rmtree(out / "sub-3")
    assert {one.problem for one in verify(RunDirectory(out))} == {None}
    told.lines.clear()
    assert both(home, out, told) == ["group"]
    assert gathered(select(home, Asked()), out, COUNT) == ["names"]
    assert "sub-3" not in (out / "names").read_text()
    assert told.lines == []


def test_who_is_back(home: Path, tmp_path: Path) -> None:
    """Is done as before."""
    out, told = tmp_path / "out", Told()
    both(home, out, told)
    (home / "sub-3").rename(tmp_path / "aside")
    both(home, out, told)
    (tmp_path / "aside").rename(home / "sub-3")
    assert both(home, out, told) == ["group"]


def test_labels_that_no_dataset_has(home: Path) -> None:
    datasets = select(home, Asked()).datasets
    labels = ["sub-1", "sub-2_ses-b", "sub-2_ses-c", "sub-2", "sub-10", "sub-10_ses-a"]
    assert withdrawn.not_in(datasets, labels) == ["sub-2_ses-c", "sub-10", "sub-10_ses-a"]


@pytest.mark.parametrize("per", ["participant", "session"])
def test_what_has_failed_and_is_withdrawn(home: Path, tmp_path: Path, per: str) -> None:
    """Nobody misses it, once a call over all was not asked for it."""
    image, out = home / t1w("2", "b"), tmp_path / "out"
    image.write_bytes(b"other")

    def run(*labels: str) -> Result:
        selection = select(home, Asked(labels, per=per))  # type: ignore[arg-type]
        return run_participants(selection, out, template_app(OF_WHOLE), OPTIONS)

    assert len(run().failures) == 1
    if per == "session":
        image.unlink()
    else:
        shutil.rmtree(home / "sub-2")
    assert run("1").ok
    selection = select(home, Asked())
    if per == "session":
        with pytest.raises(UsageError, match=r"has no result of sub-2 \(of some sessions\)"):
            gathered(selection, out, COUNT)
    assert [one.name for one in verify(RunDirectory(out)) if one.problem] == ["the run"]
    assert run().ok
    assert gathered(selection, out, COUNT) == ["names"]
    assert [one.name for one in verify(RunDirectory(out)) if one.problem] == []


def test_a_session_that_is_withdrawn_with_its_results(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    selection = select(home, Asked(per="session"))
    assert run_participants(selection, out, template_app(COPY), OPTIONS).ok
    shutil.rmtree(home / "sub-2/ses-b")
    shutil.rmtree(out / "sub-2/ses-b")
    with pytest.raises(UsageError, match=r"has no result of sub-2 \(whose files are gone"):
        gathered(select(home, Asked()), out, COUNT)
    selection = select(home, Asked(per="session"))
    assert run_participants(selection, out, template_app(COPY), OPTIONS).ok
    assert gathered(select(home, Asked()), out, COUNT) == ["names"]


def test_who_has_failed_and_is_back(home: Path, tmp_path: Path) -> None:
    """Has the results of another image, which count no more than before."""
    out, aside = tmp_path / "out", tmp_path / "aside"

    def run() -> Result:
        return run_participants(select(home, Asked()), out, template_app(OF_WHOLE), OPTIONS)

    assert run().ok
    (home / t1w("3")).write_bytes(b"other")
    assert [failure.task for failure in run().failures] == ["sub-3"]
    (home / "sub-3").rename(aside)
    assert run().ok
    assert gathered(select(home, Asked()), out, COUNT) == ["names"]
    aside.rename(home / "sub-3")
    with pytest.raises(UsageError, match=r"no result of sub-3 \(whose last attempt has failed"):
        gathered(select(home, Asked()), out, COUNT)
