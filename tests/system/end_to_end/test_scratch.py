"""`run --scratch`: what engines spill and shuffle, what commands leave in TMPDIR, and what is
staged, where that is asked for, goes there, and is gone with the run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.nobody import as_nobody
from hyperslab.cli.line import keep_line, line_without
from hyperslab.driver.submission import load_records
from hyperslab.storage.emulation import registry
from hyperslab.storage.emulation.program import names_served
from hyperslab.storage.emulation.settings import Settings
from tests.repetitions import few
from tests.storage.emulation.tiers import mounted
from tests.storage.scratch.stage import free_for_all, hyperslab, needs_root, require_program
from tests.system.end_to_end.command import ANATOMICAL, call, succeed

LOOK = """
import json, os, pathlib, tempfile

def look(block, log=""):
    spark = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
    told = {"temporary": tempfile.gettempdir(), "spark": spark}
    told["is_mounted"] = os.path.ismount(tempfile.gettempdir())
    told["names"] = os.listdir(tempfile.gettempdir())
    pathlib.Path(log).write_text(json.dumps(told))
    return block
"""
"A function that keeps what it sees of temporary files."


NAMED = [("spark", "blockmgr-"), ("dask-futures", "hyperslab-dask-")]
OF_SPARK = "an engine keeps its scratch where it is told: Spark's, test_spark_rounds.py"


@pytest.mark.parametrize(("engine", "named"), few(NAMED[1:], NAMED, OF_SPARK))
def test_engines_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, named: str
) -> None:
    require_program()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "look.py").write_text(LOOK)
    storage = tmp_path / "storage"
    storage.mkdir()
    log = tmp_path / "log.json"
    words = ("run", f"{tmp_path / 'look.py'}:look", ANATOMICAL, "-o", tmp_path / "out", "-q")
    given = ("-p", f"log={log}", "--no-trial", "--dtype", "int16", "--engine", engine)
    succeed(*words, *given, "--workers", "1", "--scratch", f"image:{storage}")
    told = json.loads(log.read_text())
    assert told["is_mounted"]
    assert any(name.startswith(named) for name in told["names"])
    assert told["spark"].startswith(told["temporary"])
    assert os.listdir(storage) == []
    assert not Path(told["temporary"]).exists()


def test_it_is_for_workers_that_the_run_starts(tmp_path: Path) -> None:
    words = ("run", "increment", ANATOMICAL, "-o", tmp_path / "out", "--scratch", "auto")
    refused = call(*words, "--engine", "dask-futures", "--connect", "tcp://10.0.0.1:1")
    assert refused.code == 2
    assert "--scratch is for workers that the run starts" in refused.err


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of records of this test."""
    require_program()
    folder = tmp_path / "runtime"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


FILES = 4
FEW = 20
"Operations on names that making an image takes, and some more."
TELLS = "sh -c 'echo {input} {out} {work} $TMPDIR > {out}/{name}; touch {work}/a'"
"A command that says where it reads, writes, and leaves temporary files."


def run_commands(folder: Path, out: Path, *more: object) -> list[list[str]]:
    """What each of some commands has said."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"in{number}.txt" for number in range(FILES)]
    for path in paths:
        path.write_text(path.name)
    given = ("--command", TELLS, *paths, "-o", out, "--engine", "serial", "--no-report", "-q")
    succeed("run", *given, *more)
    return [path.read_text().split() for path in sorted(out.glob("in*"))]


def test_commands_leave_temporary_files_there(tmp_path: Path, runtime: Path) -> None:
    """And where a tier is named for these, there."""
    storage, other = tmp_path / "storage", tmp_path / "other"
    storage.mkdir()
    other.mkdir()
    asked = ("--scratch", f"image:{storage}")
    for said in run_commands(tmp_path / "in", tmp_path / "one", *asked):
        read, out, work, temporary = said
        assert work == temporary
        assert work.startswith(f"{runtime}/hyperslab-scratch/")
        assert read.startswith(f"{tmp_path}/in/")
        assert out.startswith(f"{tmp_path}/one/")
    for said in run_commands(tmp_path / "in", tmp_path / "two", *asked, "--work-tier", other):
        assert said[3].startswith(f"{other}/")
    assert os.listdir(storage) == os.listdir(other) == []


def test_what_is_staged_there_costs_a_slow_storage_no_names(tmp_path: Path, runtime: Path) -> None:
    """The same commands by way of the storage itself ask its server for every name."""
    storage = tmp_path / "storage"
    storage.mkdir()
    with mounted(storage, Settings(metadata_s=1e-4)) as tier:
        registry.record(tier)
        began = served(storage)
        tiers = (flag for name in ("in", "out") for flag in (f"--stage-{name}", storage))
        run_commands(tmp_path / "in", tmp_path / "plain", *tiers)
        on_it = served(storage) - began
        words = ("--scratch", f"image:{storage}", "--stage-in=scratch", "--stage-out", "scratch")
        said = run_commands(tmp_path / "in", tmp_path / "staged", *words)
        in_image = served(storage) - began - on_it
        assert os.listdir(storage) == []
    assert on_it > 3 * FEW
    assert in_image < FEW
    within = f"{runtime}/hyperslab-scratch/"
    assert all(place.startswith(within) for line in said for place in line)
    told = load_records(tmp_path / "staged").trace.meta["staging"]["out"]
    assert (told["blocks"], told["lost"]) == (FILES, 0)


def served(storage: Path) -> int:
    """Operations on names and attributes that a tier has served."""
    number = names_served(str(storage))
    assert number is not None
    return number


BLOCKS = 4


def staging_blocks(out: Path, storage: Path) -> Sequence[object]:
    """Words of a run whose blocks go by way of scratch."""
    where = ("-o", out, "--blocks", "2x2x1", "--engine", "threads", "--no-report", "-q")
    staging = ("--scratch", f"image:{storage}", "--stage-in", "scratch", "--stage-out", "scratch")
    return ("run", "increment", ANATOMICAL, *where, *staging)


def staged(out: Path) -> int:
    """Blocks that have gone by way of scratch."""
    records = load_records(out).trace.meta["staging"]
    assert "/hyperslab-scratch/" in records["in"]["tier"]
    return int(records["out"]["blocks"])


def test_blocks_are_staged_there(tmp_path: Path, runtime: Path) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    plain = ("run", "increment", ANATOMICAL, "-o", tmp_path / "plain", "--blocks", "2x2x1")
    succeed(*plain, "--engine", "threads", "--no-report", "-q")
    succeed(*staging_blocks(tmp_path / "out", storage))
    assert staged(tmp_path / "out") == BLOCKS
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.nii")}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "plain").glob("*.nii")}
    assert len(made) == BLOCKS
    assert os.listdir(storage) == []


@needs_root
def test_blocks_of_nobody_are_staged_there(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root and without a mount helper, which leaves a user namespace."""
    with free_for_all() as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        words = hyperslab(*staging_blocks(place / "out", place))
        process = as_nobody([*WITHOUT_HELPER, *words])
        said = process.communicate()
        assert (process.returncode, *said) == (0, "", "")
        assert staged(place / "out") == BLOCKS
        assert not list(place.glob(".hyperslab-scratch-*"))


WITHOUT_HELPER = ("env", "PATH=/nowhere")
STAGES = """
import sys, hyperslab
from hyperslab.testing.functions import add

source, place = sys.argv[1:]
pipeline = hyperslab.Pipeline(source).map(add).write(place + "/out")
with hyperslab.scratch(place, "64MB", "namespace") as folder:
    tiers = {"stage_in": folder, "stage_out": folder}
    result = hyperslab.run(pipeline, engine="threads", blocks="2x2x1", report=False, **tiers)
print(folder, result.summary.staging["out"]["blocks"])
"""


@needs_root
def test_blocks_of_python_are_staged_there(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From outside of the namespace in which it is."""
    with free_for_all() as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
        process = as_nobody([sys.executable, "-c", STAGES, str(ANATOMICAL), str(place)])
        said, errors = process.communicate()
        assert process.returncode == 0, errors
        folder, blocks = said.split()
        assert folder.startswith("/proc/")
        assert int(blocks) == BLOCKS
        assert len(list((place / "out").glob("*.nii"))) == BLOCKS


def test_a_line_has_other_words_in_the_place_of_a_flag() -> None:
    keep_line(["run", "f", "--scratch", "auto", "--stage-in=scratch", "--", "--scratch"])
    assert line_without("--scratch", "--stage-in", instead=["--stage-in", "/s"])[:4] == [
        *("run", "f", "--stage-in", "/s")
    ]
