"""An engine in one file: it is found, described and held to the contract as all others are."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

import hyperslab
from hyperslab.cli.doctor import doctor
from hyperslab.driver.run import Result
from hyperslab.driver.submission import load_records
from hyperslab.engines import capacity
from hyperslab.engines.facts import SERIAL, Facts, engine_names, facts_of
from hyperslab.errors import UsageError
from hyperslab.testing import EngineTests, functions
from tests.engines import toy
from tests.engines.chosen import DIFFERING, only
from tests.report.made_traces import RUN, found, rules, span, trace
from tests.system.end_to_end.command import AS_INSTALLED
from tests.system.faults.command import make_volume

ROOT = Path(__file__).parents[2]
LINE = "toy = tests.engines.toy:FACTS"
METADATA = "Metadata-Version: 2.1\nName: hyperslab-toy\nVersion: 0.7\n"
MADE = [span(f"w0/t{i % 2}", i, "compute", i // 2, 1.0, cpu=0.5) for i in range(12)]
"Two slots of one worker that wait for half of their time."
TINY = [span(f"w{i % 2}/t0", i, "compute", i // 2 * 0.005, 0.001, cpu=1.0) for i in range(40)]
"Tasks that cost more than they take."


@pytest.fixture(autouse=True, scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has put a package with the toy's line, as far as Python can tell."""
    folder = tmp_path_factory.mktemp("site")
    about = folder / "hyperslab_toy-0.7.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA)
    (about / "entry_points.txt").write_text(f"[hyperslab.engines]\n{LINE}\n")
    return folder


@pytest.fixture(autouse=True)
def _installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site)


@only(DIFFERING)
class TestToy(EngineTests):
    """What shows that batches go out, come back, die and are gone on with; the suite has more."""

    engine = "toy"


@pytest.fixture
def result(tmp_path: Path) -> Result:
    make_volume(tmp_path / "in.nii")
    pipeline = hyperslab.Pipeline(str(tmp_path / "in.nii")).map(functions.add)
    return hyperslab.run(pipeline.write(tmp_path / "out"), engine="toy", workers=2)


def test_it_is_one_of_the_engines() -> None:
    assert engine_names()[-1] == "toy"
    assert facts_of("toy") is toy.FACTS
    with pytest.raises(UsageError, match=r"choose one of serial, .*, spark, toy"):
        facts_of("spork")
    with pytest.raises(UsageError, match="is for Dask and Spark, not for --engine toy"):
        capacity("toy", "tcp://localhost:1")


@pytest.mark.parametrize("verb", ["run", "convert"])
def test_it_is_in_the_help(site: Path, verb: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{site}:{ROOT}", "COLUMNS": "400"}
    done = subprocess.run(
        [*AS_INSTALLED, verb, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert re.search(r"--engine .* serial, threads, .*, spark or toy\.", done.stdout)


def test_doctor_runs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", {"serial": SERIAL})
    assert doctor() == 0
    said = capsys.readouterr().out
    assert "engine     toy: works\n" in said
    assert "optional   hyperslab-toy 0.7\n" in said


def test_its_libraries_are_in_the_provenance(result: Result) -> None:
    facts = load_records(result.folder).facts
    assert facts["engine"] == "toy"
    assert facts["versions"].endswith(", hyperslab-toy 0.7")


def test_the_verdict_knows_what_it_is(result: Result) -> None:
    """Slots that are processes share no lock, and the default engine costs less per task."""
    run = load_records(result.folder).trace.meta["run"]
    assert run["engine"] == "toy"
    assert "gil" in rules(trace(MADE, ("w0/t0", "w0/t1"), run=RUN))
    assert "gil" not in rules(trace(MADE, ("w0/t0", "w0/t1"), run=run))
    assert "--engine processes" in found(trace(TINY, run=run), "engine-overhead").advice
    assert "--engine processes" not in found(trace(TINY, run=RUN), "engine-overhead").advice


def test_a_package_that_cannot_be_loaded_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "hyperslab_broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hyperslab-broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[hyperslab.engines]\nbroken = not_there:FACTS\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="--engine broken: its package cannot be loaded: No mod"):
        facts_of("broken")


def test_the_guide_names_what_is_there() -> None:
    """CONTRIBUTING.md, "Adding an engine": the toy's line, its files, and what they rest on."""
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition("## Adding an engine\n")[2]
    guide = guide.partition("\n## ")[0]
    assert LINE in guide
    named = re.findall(r"`((?:src|tests|docs)/[^`]*\.\w+)`", guide)
    assert len(named) >= 8
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert {"tests/engines/toy.py", "tests/engines/test_toy.py"} <= set(named)
    described = re.findall(r"^\| `(\w+)` \|", guide, re.MULTILINE)
    assert set(described) == {field.name for field in fields(Facts)}
