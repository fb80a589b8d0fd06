"""Files that several participants make: who has them where each is run by a call of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.apps.bids.app import App
from hyperslab.apps.bids.running import Asked, run_participants, select
from hyperslab.apps.bids.template import template_app
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.driver.unkept import Unkept, unkept_lines
from hyperslab.driver.verification import verify
from tests.apps.bids.datasets import make, t1w

BOTH = (
    "sh -c 'cp {t1w} {out}/{prefix}_copy.nii.gz;"
    " if grep --quiet shared {t1w}; then echo {prefix} > {out}/../../common.txt; fi'"
)
"An app that makes a file of no participant, too, where the image says so."
ALIKE = BOTH.replace("echo {prefix}", "echo all")
"An app of which all make the same file."


class Calls:
    """Calls for one participant each."""

    def __init__(self, folder: Path, app: App) -> None:
        self.home = folder / "data"
        self.out = folder / "out"
        self._app = app

    def __call__(self, label: str, image: str) -> Result:
        """The call for a participant with this image, which has another state then."""
        make(self.home, t1w(label), content=image.encode())
        options = Options(engine="serial", retries=0, resume=True, verb="bids", report=False)
        return run_participants(select(self.home, Asked((label,))), self.out, self._app, options)

    def shared(self) -> str:
        """Whose the file of all is; '' where it is not there."""
        path = self.out / "common.txt"
        return path.read_text().strip() if path.exists() else ""

    def problems(self) -> list[str]:
        """What is not as it was written."""
        return [each.name for each in verify(RunDirectory(self.out)) if each.problem]


@pytest.fixture
def app() -> App:
    return template_app(BOTH)


def test_a_name_that_another_participant_has(tmp_path: Path, app: App) -> None:
    """The call for the second one fails, however often it is made; the first one keeps its file."""
    calls = Calls(tmp_path, app)
    assert calls("1", "shared").ok
    for _ in range(2):
        refused = calls("10", "shared")
        assert "this task has not made it" in refused.failures[0].message
        assert calls.shared() == "sub-1"
    assert calls.problems() == ["the run"]
    assert calls("10", "its own").ok
    assert calls.problems() == []


def test_a_shared_name_stays_with_who_was_first(tmp_path: Path, app: App) -> None:
    """Whatever others make when they are done again."""
    calls = Calls(tmp_path, replace(app, writes_of_dataset=True))
    assert calls("1", "shared").ok
    for image in ("shared", "shared once more", "not any more"):
        assert calls("10", image).ok
        assert calls.shared() == "sub-1"
        assert calls.problems() == []


def test_a_shared_name_that_was_given_up(tmp_path: Path, app: App) -> None:
    """It belongs to who has it now, and not to who had it once."""
    calls = Calls(tmp_path, replace(app, writes_of_dataset=True))
    assert calls("1", "shared").ok
    assert calls("1", "none now").ok
    assert calls.shared() == ""
    assert calls("10", "shared").ok
    for image in ("shared again", "no more"):
        assert calls("1", image).ok
        assert calls.shared() == "sub-10"
        assert calls.problems() == []


def test_a_shared_name_with_other_contents_is_told(tmp_path: Path, app: App) -> None:
    """Whose file is gone, and whose is kept; of copies nobody is told."""
    shared = replace(app, writes_of_dataset=True)
    home = make(tmp_path / "data", *map(t1w, ("1", "10", "2")), content=b"shared")
    options = Options(engine="serial", retries=0, verb="bids", report=False)
    out = tmp_path / "out"
    result = run_participants(select(home, Asked()), out, shared, options)
    assert result.ok
    assert result.unkept == (Unkept("common.txt", "sub-1", ("sub-10", "sub-2")),)
    first, advice = unkept_lines(result.unkept)
    told = "common.txt of sub-10, sub-2: it differs from that of sub-1, which is kept"
    assert first == f"not kept   {told}"
    assert "let names say whose files they are" in advice
    alike = replace(shared, commands=template_app(ALIKE).commands)
    assert run_participants(select(home, Asked()), tmp_path / "alike", alike, options).unkept == ()


def test_a_shared_name_that_another_call_has_given(tmp_path: Path, app: App) -> None:
    calls = Calls(tmp_path, replace(app, writes_of_dataset=True))
    assert calls("1", "shared").unkept == ()
    assert calls("10", "shared").unkept == (Unkept("common.txt", "", ("sub-10",)),)


def test_a_file_beside_the_description_that_an_app_makes(tmp_path: Path) -> None:
    """What the app has in it comes first, and what hyperslab has to add behind."""
    own = template_app(BOTH.replace("common.txt", ".bidsignore"))
    calls = Calls(tmp_path, replace(own, writes_of_dataset=True))
    assert calls("1", "shared").ok
    assert (calls.out / ".bidsignore").read_text() == "sub-1\ngroup_*\nfigures\n"
    assert calls("10", "shared").ok
    *theirs, one, other = (calls.out / ".bidsignore").read_text().split()
    assert (sorted(theirs), one, other) == (["sub-1", "sub-10"], "group_*", "figures")
    assert calls.problems() == []
