"""Records that are kept beside pages of verdicts make the same pages again, and name nobody."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers import phases as reading
from hyperslab.apps.experiment.answers.phases import Phases, Waits
from hyperslab.apps.experiment.claims.claim import Claim, Evidence, Judged, expecting
from hyperslab.apps.experiment.claims.page import PAPERS, Paper
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.trials.record import Session, append
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.cli import verdicts
from tests.apps.experiment.specs import TEXT, record_of
from tests.system.end_to_end.command import call

DOCS = Path(__file__).parents[3] / "docs" / "papers"
FACTS = {"versions": "numpy 2, hyperslab 0", "python": "3.11", "command": "/secret/of/mine"}


def longer(evidence: Evidence) -> Judged:
    return expecting({"slower"}, list(evidence.beside("iterations", 2, 1)))


PAPER = Paper("page", "Small", "Nobody", (Claim("Two take longer.", "small", longer),))


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """An experiment with a record, traces' phases, versions, a lost line and a lost folder."""
    spec = tmp_path / "small.toml"
    spec.write_text(TEXT + "\n[tiers.fast]\npath = 'x'\n\n[scales.laptop]\n")
    monkeypatch.setattr(verdicts, "paper_of", lambda _: PAPER)
    monkeypatch.setattr(verdicts, "find", lambda _: find(str(spec)))
    real = tmp_path / "real"
    real.mkdir()
    loaded = find(str(spec)).load("laptop", (), [f"fast={real}"])
    asked = Experiment.of(loaded, tmp_path / "small-laptop")
    asked.directory.root.mkdir()
    asked.directory.begin(asked.loaded)
    record = record_of(asked, {"iterations 2": (1.98, 2.0, 2.02)}, {})
    machine = {"host": socket.gethostname(), "boot": "secret", "processors": 2}
    append(asked.directory.record, Session(1, 0.0, machine))
    for one in record.attempts:
        append(asked.directory.record, one)
        _leave_trial(asked, one.number, one.replicate)
    with asked.directory.record.open("ab") as file:
        file.write(b"half a li")
    shutil.rmtree(asked.directory.trial(3, 1))
    return asked


def _leave_trial(asked: Experiment, number: int, replicate: int) -> None:
    folder = asked.directory.trial(number, 1)
    folder.mkdir(parents=True)
    (folder / "provenance.json").write_text(json.dumps({"facts": FACTS}))
    waits = Waits(0.1, 0.2) if number % 2 else None
    phases = Phases({"read": 0.1 / 3}, 0.2, 0.1, replicate, waits=waits)
    (folder / reading.PHASES).write_text(json.dumps(asdict(phases)))


def _files(folder: Path) -> Mapping[str, bytes]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_page_is_made_again_from_what_is_kept(ended: Experiment, tmp_path: Path) -> None:
    """The same bytes, where nothing else is left of the experiment."""
    line = ("experiment", "verdicts", "page")
    home, pages, again = tmp_path, tmp_path / "pages", tmp_path / "again"
    tier = f"fast={tmp_path / 'real'}"
    made = call(*line, "--in", home, "-o", pages, "--tier", tier)
    assert made.code == 0, made.err
    text = (pages / "page.md").read_text()
    assert "**reproduced**" in text
    assert "Python 3.11, numpy 2" in text
    assert "first / later" in (pages / "page/small/tables.md").read_text()
    assert "1 trial the folder is gone" in (pages / "page/small/answer.md").read_text()
    shutil.rmtree(ended.directory.root)
    (tmp_path / "real").rmdir()
    kept = pages / "records" / "page.jsonl.gz"
    assert call(*line, "--from", kept, "-o", again, "-q").code == 0
    assert _files(again) == _files(pages)
    assert call(*line, "--from", kept, "-o", pages).code == 0, "also in its place"
    assert _files(again) == _files(pages)


def test_what_is_kept_names_nobody(ended: Experiment, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    tier = f"fast={tmp_path / 'real'}"
    line = ("experiment", "verdicts", "page", "--in", tmp_path, "--tier", tier)
    assert call(*line, "-o", pages).code == 0
    head, *lines = gzip.decompress((pages / "records/page.jsonl.gz").read_bytes()).splitlines()
    assert json.loads(head)["paper"] == "page"
    told = b"\n".join(lines).decode()
    assert f'"host": "{socket.gethostname()}"' not in told
    assert str(ended.directory.root) not in told
    assert "secret" not in told
    assert '"host 1"' in told


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"no", "not compressed"),
        (gzip.compress(b"{}\n"), "holds no records of verdicts"),
        (gzip.compress(b'{"kind": "head", "version": 99}\n'), "another version"),
        (gzip.compress(b"a" * 99)[:-9], "not whole"),
    ],
    ids=["no-gzip", "no-records", "later", "cut"],
)
def test_what_keeps_no_records_is_refused(data: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(data)
    done = call("experiment", "verdicts", "h5spark", "--from", path, "-o", tmp_path / "out")
    assert done.code == 2
    assert told in done.err
    assert not (tmp_path / "out").exists()


def test_records_of_another_paper_are_refused(ended: Experiment, tmp_path: Path) -> None:
    tier = f"fast={tmp_path / 'real'}"
    line = ("experiment", "verdicts", "page", "--in", tmp_path, "--tier", tier)
    assert call(*line, "-o", tmp_path / "out").code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "paper_of", lambda _: replace(PAPER, name="other"))
        kept = tmp_path / "out" / "records" / "page.jsonl.gz"
        done = call("experiment", "verdicts", "other", "--from", kept)
    assert done.code == 2
    assert "records of page" in done.err


@pytest.mark.parametrize("paper", PAPERS)
def test_a_page_in_the_documents_is_that_of_its_records(paper: str, tmp_path: Path) -> None:
    """Where they are kept; pages of earlier versions have none, and say nothing of any."""
    kept = DOCS / "records" / f"{paper}.jsonl.gz"
    page = (DOCS / f"{paper}.md").read_text()
    assert kept.exists() == (f"(records/{paper}.jsonl.gz)" in page)
    if kept.exists():
        assert call("experiment", "verdicts", paper, "--from", kept, "-o", tmp_path).code == 0
        made = _files(tmp_path)
        there = {name: (DOCS / name).read_bytes() for name in made if (DOCS / name).exists()}
        assert there == made
