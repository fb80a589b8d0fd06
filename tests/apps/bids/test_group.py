"""The group level of the brain app: whose volumes count."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from hyperslab.apps.bids import grouping
from hyperslab.apps.bids.gathering import require_brains, run_group
from hyperslab.apps.bids.group import BY_IMAGE, Group
from hyperslab.apps.bids.running import Asked, gathered, run_participants, select
from hyperslab.apps.bids.template import template_app
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.errors import UsageError
from tests.apps.bids.datasets import make, t1w

WHOLE = b'{"VolumeMillilitres": 1000}'
"An image that stands for what the brain app says of its brain."
AS_BRAIN = template_app(
    "sh -c 'grep --quiet Volume {t1w} && cp {t1w} {out}/{prefix}_desc-brain_mask.json'"
)


class Study:
    """Two participants, of whom one has two sessions, and what came of them."""

    def __init__(self, folder: Path, asked: Asked) -> None:
        self.home = make(folder / "data", t1w("1"), t1w("2", "a"), t1w("2", "b"), content=WHOLE)
        self.out = folder / "out"
        self._asked = asked

    def each(self) -> Result:
        options = Options(engine="serial", retries=0, resume=True, report=False)
        return run_participants(select(self.home, self._asked), self.out, AS_BRAIN, options)

    def cut_short(self, name: str) -> None:
        """Replace an image by one of which no brain is found; the level is run again."""
        make(self.home, name, content=b"cut short")
        assert not self.each().ok

    def group(self, allow_missing: bool = False) -> Group:
        return gathered(select(self.home, Asked()), self.out, allow_missing)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Participants of whom all is done."""
    study = Study(tmp_path, Asked())
    assert study.each().ok
    assert len(study.group().volumes) == 3
    return study


def test_who_was_done_and_has_failed_since(study: Study) -> None:
    """The volume of the image that was there before is not that of the one that is there now."""
    study.cut_short(t1w("1"))
    with pytest.raises(
        UsageError, match=r"no result of sub-1 \(whose last attempt has failed or was interrupted\)"
    ):
        study.group()
    group = study.group(allow_missing=True)
    assert {one.participant for one in group.volumes} == {"sub-2"}
    make(study.home, t1w("1"), content=WHOLE + b"\n")
    assert study.each().ok
    assert len(study.group().volumes) == 3


def test_one_of_two_sessions_has_failed_since(tmp_path: Path) -> None:
    """The other one counts, where each was a task."""
    study = Study(tmp_path, Asked(per="session"))
    assert study.each().ok
    study.cut_short(t1w("2", "b"))
    group = study.group(allow_missing=True)
    assert [(one.participant, one.session) for one in group.volumes] == [
        ("sub-1", "n/a"),
        ("sub-2", "a"),
    ]


def test_the_group_level_of_the_same_run(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.cut_short(t1w("1"))
    target = tmp_path / "tables"
    target.mkdir()
    said = json.dumps({**asdict(Asked()), "allow_missing": True})
    assert grouping.main([str(study.home), str(study.out), str(target), said]) == 0
    assert (
        "left out   sub-1 (whose last attempt has failed or was interrupted)"
        in capsys.readouterr().out
    )
    table = (target / "group_brain_volumes.tsv").read_text().splitlines()
    assert {row.split("\t")[0] for row in table[1:]} == {"sub-2"}


def test_what_nobody_reads_may_be_gone(tmp_path: Path) -> None:
    """Tables are made of what is said of each brain, wherever the brains are."""
    home = make(tmp_path / "data", t1w("1"), t1w("2"), content=WHOLE)
    out, selection = tmp_path / "out", select(home, Asked())
    app = template_app(
        "sh -c 'cp {t1w} {out}/{prefix}_desc-brain_mask.json; cp {t1w} {out}/{prefix}_more.json'"
    )
    options = Options(engine="serial", report=False, verb="bids")
    assert run_participants(selection, out, app, options).ok
    (out / "sub-1/anat/sub-1_more.json").unlink()
    task = grouping.group_task(selection, out)
    result = run_group(selection, out, task, options, require_brains)
    assert result.ok, result.failures
    assert (out / BY_IMAGE).read_text().count("\n") == 3
