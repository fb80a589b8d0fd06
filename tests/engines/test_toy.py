"""An engine in one file: it is found, described and held to the contract as all others are."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.cli import companions
from hyperslab.cli.companions import leave_to_the_first
from hyperslab.cli.doctor import doctor
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.result import Result
from hyperslab.driver.submission import load_records
from hyperslab.engines import EngineOptions, capacity, create, end_jobs, jobs_left, require
from hyperslab.engines.batches.launcher import unpacked
from hyperslab.engines.environment import how_it_ended
from hyperslab.engines.facts import (
    DEFAULT,
    SERIAL,
    Facts,
    connect_help,
    connecting,
    engine_names,
    engine_of_links,
    facts_of,
    libraries,
    recorded,
    require_jobs,
    require_messages,
)
from hyperslab.engines.jobs import JOBS
from hyperslab.errors import MissingExtra, UsageError
from hyperslab.plan.journal import Tail
from hyperslab.storage.recordfile import save_record
from hyperslab.testing import EngineTests, functions
from tests.engines import toy
from tests.engines.chosen import BEGUN
from tests.loaded import dies_at_every_fourth_slab
from tests.repetitions import few, only
from tests.report.made_traces import RUN, found, rules, span, trace
from tests.system.end_to_end.command import AS_INSTALLED, save
from tests.system.faults.command import load, make_volume

ROOT = Path(__file__).parents[2]
LINE = "toy = tests.engines.toy:FACTS"
METADATA = "Metadata-Version: 2.1\nName: hyperslab-toy\nVersion: 0.7\n"
MADE = [span(f"w0/t{i % 2}", i, "compute", i // 2, 1.0, cpu=0.5) for i in range(12)]
"Two slots of one worker that wait for half of their time."
TINY = [span(f"w{i % 2}/t0", i, "compute", i // 2 * 0.005, 0.001, cpu=1.0) for i in range(1000)]
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


@pytest.fixture(autouse=True, scope="module")
def _installed(site: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        yield


@only(BEGUN)
class TestToy(EngineTests):
    """What shows that batches go out, come back, die and are gone on with; the suite has more."""

    engine = "toy"


def test_jobs_are_asked_for_of_the_engine_that_has_submitted_them(tmp_path: Path) -> None:
    """Also of one of another package, and no engine reads the record of another one."""
    assert jobs_left(tmp_path) is None
    save_record(tmp_path / JOBS, {"engine": "toy", "told": "they play"})
    left = jobs_left(tmp_path)
    assert left is not None
    assert left.told == "they play"
    end_jobs(tmp_path)
    assert not (tmp_path / JOBS).exists()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory, _installed: None) -> Result:
    folder = tmp_path_factory.mktemp("result")
    make_volume(folder / "in.nii")
    pipeline = hyperslab.Pipeline(str(folder / "in.nii")).map(functions.add)
    return hyperslab.run(pipeline.write(folder / "out"), engine="toy", workers=2)


def test_it_is_one_of_the_engines() -> None:
    assert engine_names()[-1] == "toy"
    assert facts_of("toy") is toy.FACTS
    with pytest.raises(UsageError, match=r"choose one of serial, .*, toy"):
        facts_of("spork")
    with pytest.raises(UsageError, match=r"is for Dask and Spark.*, not for --engine toy"):
        capacity("toy", "tcp://localhost:1")


@pytest.mark.parametrize("verb", few(["run"], ["run", "convert"], "it is in the help"))
def test_it_is_in_the_help(site: Path, verb: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{site}:{ROOT}", "COLUMNS": "400"}
    done = subprocess.run(
        [*AS_INSTALLED, verb, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert re.search(r"--engine .*serial \| threads \| .*\| toy\b", " ".join(done.stdout.split()))


def test_doctor_runs_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", {"serial": SERIAL})
    assert doctor(start=True) == 0
    said = capsys.readouterr().out
    assert "engine     toy: works\n" in said
    assert "optional   hyperslab-toy 0.7\n" in said
    for library in ("hdf5plugin", "zarr"):
        assert f"optional   {library} " in said


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


BROKEN = {
    "missing": ("import not_there", "its package cannot be loaded: No module named 'not_there'"),
    "raising": ("1 / 0", "its package cannot be loaded: division by zero"),
    "nameless": ("", "its package cannot be loaded: .* has no attribute 'FACTS'"),
    "foreign": ("FACTS = 'broken:Broken'", "is not a hyperslab.engines.facts.Facts"),
    "placeless": ("FACTS = Facts('broken')", "Facts.place is 'broken': give module:Class"),
    "spreading": ("FACTS = Facts('a:B', spread='wide')", "Facts.spread is 'wide'"),
}
"What the module of a package holds whose facts are not there, and what is said of it."
CONNECTING = "FACTS = Facts('tests.engines.toy:Toy', clusters='Toys', connects_to='a toy box')"
UNMADE = {
    "missing": ("broken_place:Broken", "its package cannot be loaded: No module named 'broken_pl"),
    "nameless": ("json:Broken", "its package cannot be loaded: .* has no attribute 'Broken'"),
    "foreign": (
        "pathlib:Path",
        "its package cannot be loaded: .* is not a hyperslab.engines.Managed",
    ),
}
"Places of classes that are not there, and what is said of them."


def bring(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install an engine named 'broken' with this text as its module."""
    about = folder / "hyperslab_broken-1.0.dist-info"
    about.mkdir()
    module = f"broken_{abs(hash(text))}"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: hyperslab-broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[hyperslab.engines]\nbroken = {module}:FACTS\n")
    imports = "from hyperslab.engines.facts import Facts\n"
    (folder / f"{module}.py").write_text(f"{imports}{text}\n")
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize("case", list(BROKEN))
def test_a_package_that_cannot_be_loaded_is_a_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, said = BROKEN[case]
    bring(tmp_path, text, monkeypatch)
    with pytest.raises(UsageError, match=f"^--engine broken: .*{said}"):
        facts_of("broken")
    assert recorded("broken") == {}
    with pytest.raises(UsageError, match=f"^--engine broken: .*{said}"):
        create("broken", EngineOptions(tmp_path, 1))


@pytest.mark.parametrize("case", list(UNMADE))
def test_a_class_that_cannot_be_loaded_is_a_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, said = UNMADE[case]
    bring(tmp_path, f"FACTS = Facts({place!r})", monkeypatch)
    with pytest.raises(UsageError, match=f"^--engine broken: {said}"):
        create("broken", EngineOptions(tmp_path, 1))


def test_an_engine_of_a_package_connects_to_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(tmp_path, CONNECTING, monkeypatch)
    assert connecting().startswith("Dask and Spark and ")
    assert connecting().endswith(" and Toys")
    assert ", a toy box; or" in connect_help()
    assert capacity("broken", "toy://box") is None


ABLE = ("batch_system='Toys'", "records_messages=True", "probes_links=True")


def test_who_else_can_is_told_of_engines_of_packages_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(tmp_path, f"FACTS = Facts('tests.engines.toy:Toy', {', '.join(ABLE)})", monkeypatch)
    with pytest.raises(UsageError, match=r"^--detach: is for .*--engine broken, not for"):
        require_jobs("serial", {"--detach": True})
    require_jobs("broken", {"--detach": True})
    with pytest.raises(UsageError, match=r"^--record-messages: is for .*--engine broken, not for"):
        require_messages("serial")
    with pytest.raises(UsageError, match=r"^--network: is for .*--engine broken, not for"):
        engine_of_links("serial")
    assert engine_of_links("broken") == "broken"
    assert engine_of_links(DEFAULT) == "dask-bag"


def test_its_world_and_its_libraries_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = ["dask", "distributed", "pyspark", "mpi4py", "hyperslab-toy"]
    assert libraries() == ours
    world = "world='all', libraries=('boxes', 'dask')"
    bring(tmp_path, f"FACTS = Facts('tests.engines.toy:Toy', {world})", monkeypatch)
    assert libraries() == [*ours[:-1], "boxes", ours[-1]]
    assert not leave_to_the_first(["run", "--connect=all"])
    monkeypatch.setattr(toy.Toy, "is_first", staticmethod(lambda: False))
    monkeypatch.setattr(companions, "SPEAKING_S", 0.0)
    assert leave_to_the_first(["run", "--connect=all"])
    assert leave_to_the_first(["run", "--engine", "broken"])
    assert not leave_to_the_first(["run", "--engine", "serial"])


def test_the_help_of_connect_leaves_out_what_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = connect_help()
    bring(tmp_path, "FACTS = 1 / 0", monkeypatch)
    assert "broken" in engine_names()
    assert connect_help() == without


def test_a_time_limit_is_refused_before_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who installs it would only then be told that the engine cannot do it."""
    place = "FACTS = Facts('not_there:Broken', no_time_limit='it is slow', requirement='thing')"
    bring(tmp_path, place, monkeypatch)
    options = EngineOptions(tmp_path, 1)
    with pytest.raises(MissingExtra, match="--engine broken needs not_there: pip install 'thing'"):
        require("broken", options)
    with pytest.raises(UsageError, match="--task-timeout needs --engine processes: it is slow"):
        require("broken", replace(options, task_timeout_s=1.0))


def test_whether_an_engine_refuses_is_asked_without_making_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[EngineOptions] = []
    monkeypatch.setattr(toy.Toy, "__init__", lambda self, options: made.append(options))
    make_volume(tmp_path / "in.nii")
    pipeline = hyperslab.Pipeline(str(tmp_path / "in.nii")).map(functions.add)
    prepare(pipeline.write(tmp_path / "out"), Options(engine="toy"))
    assert made == []
    create("toy", EngineOptions(tmp_path, 1))
    assert len(made) == 1


def test_nobody_else_may_read_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As parameters of functions may be secret, like the orders beside them."""
    engine = toy.Toy(EngineOptions(tmp_path, 1))
    monkeypatch.setattr(engine, "launch", lambda *_: toy.Subprocesses((), engine.options))
    place = tmp_path / "orders.0.pickle"
    engine.submit(str(place), [b"first", b"", b"third"], 1, False)
    batches, script = sorted(tmp_path.iterdir())
    assert [unpacked(batches, number) for number in range(3)] == [b"first", b"", b"third"]
    assert [file.stat().st_mode & 0o777 for file in (batches, script)] == [0o400, 0o400]
    with pytest.raises(FileExistsError):
        engine.submit(str(place), [b"other"], 1, False)


def test_a_batch_goes_on_behind_each_task_that_its_process_died_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, at one attempt each; the others are done once."""
    monkeypatch.setattr(toy.Toy, "batches_per_slot", 1)
    values = np.arange(4 * 4 * 16, dtype=np.uint16).reshape(4, 4, 16)
    image = save(tmp_path / "in.nii", values)
    pipeline = hyperslab.Pipeline(str(image)).map(dies_at_every_fourth_slab)
    result = hyperslab.run(
        pipeline.write(tmp_path / "out"),
        engine="toy",
        workers=1,
        partition="slabs",
        retries=0,
        check=False,
        report=False,
    )
    assert [failure.attempts for failure in result.failures] == [1] * 4
    assert {how_it_died(failure.message) for failure in result.failures} == {
        "exited with code 7 in the middle of the task",
        f"{how_it_ended(128 + signal.SIGKILL)} in the middle of the task",
    }
    assert np.array_equal(load(result.outputs[0]), values[:, :, 1:2])
    done = [outcome.task for outcome in Tail(result.folder).poll() if outcome.status == "done"]
    assert sorted(done) == [task for task in range(16) if task % 4]


def how_it_died(message: str) -> str:
    return message.partition(" that served ")[2].partition(" ")[2]


def test_doctor_says_which_package_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bring(tmp_path, "FACTS = 1 / 0", monkeypatch)
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", {"serial": SERIAL})
    assert doctor(start=True) == 0
    said = capsys.readouterr().out
    line = "engine     broken: not here: its package cannot be loaded: division"
    assert line in said
    assert "engine     serial: works\n" in said


def test_records_of_an_engine_that_is_broken_now_are_read(
    result: Result, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy, "FACTS", None)
    with pytest.raises(UsageError, match=r"--engine toy: tests\.engines\.toy:FACTS is not a "):
        facts_of("toy")
    records = load_records(result.folder)
    assert records.trace.meta["run"]["process_per_slot"]


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
