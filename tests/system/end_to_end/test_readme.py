"""The examples of README.md, as they stand there, on every engine: the same files, the same
value.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hyperslab.engines.facts import ENGINES
from tests.repetitions import few
from tests.system.clusters import dask, mpi, slurm, spark
from tests.system.clusters.required import required
from tests.system.end_to_end.command import ROOT, assembled, outputs, succeed, values_of

README = (ROOT / "README.md").read_text(encoding="utf-8")
IMAGE = ROOT / "examples" / "data" / "colin27_ch2_T1w.nii.gz"
OTHERS = [name for name in ENGINES if name != "serial"]
PLAYED = ("processes",)
"The engine that the page leaves open; those of EngineTests are the same on the others."
MISSING = {"dask": dask.missing, "mpi": mpi.missing, "spark": spark.missing}


def fenced(language: str) -> list[str]:
    """The code blocks of README.md in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def command(function: str) -> list[str]:
    """The arguments with which README.md runs a function: of the first command that leaves the
    engine open.
    """
    lines = [line for block in fenced("console") for line in block.splitlines()]
    runs = [
        line
        for line in lines
        if line.startswith(f"$ hyperslab run {function} ") and "--engine" not in line
    ]
    words = shlex.split(
        next(line for line in runs if "--dry-run" not in line).removeprefix("$ hyperslab ")
    )
    return words[: words.index("&&")] if "&&" in words else words


def run(function: str, engine: str) -> Path:
    """Run a function as README.md does, but on this engine; returns the output directory."""
    family = engine.partition("-")[0]
    required(MISSING[family]() if family in MISSING else "")
    words = command(function)
    out = words.index("-o") + 1
    words[out] += f"-{engine}"
    succeed(*words, "--workers", 1 if engine == "serial" else 2, "--engine", engine)
    return Path(words[out])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the image and with every file that README.md shows under its name."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copy(IMAGE, folder)
    for block in fenced("python"):
        if named := re.match(r"# (\w+\.py)\n", block):
            (folder / named[1]).write_text(block, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _at_the_desk(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)


@pytest.fixture(scope="module")
def clipped(desk: Path) -> dict[str, bytes]:
    """The files that the simplest engine makes, which are right."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        out = run("clip.py:clip", "serial")
        assert np.array_equal(assembled(out, IMAGE), np.clip(values_of(IMAGE), 30, 200))
        return {path.name: path.read_bytes() for path in outputs(out)}


@pytest.fixture
def _its_cluster(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Slurm, for its engine; the others start what they need."""
    if engine != "slurm":
        yield
        return
    required(slurm.missing())
    monkeypatch.setenv("SBATCH_MEM_PER_NODE", "512M")
    with slurm.in_reach(tmp_path):
        yield


@pytest.mark.usefixtures("_its_cluster")
@pytest.mark.parametrize("engine", few(PLAYED, OTHERS, "the same files on every engine"))
def test_the_function_makes_the_same_files_on_every_engine(
    clipped: dict[str, bytes], engine: str
) -> None:
    assert len(clipped) == 27
    found = {path.name: path.read_bytes() for path in outputs(run("clip.py:clip", engine))}
    assert found == clipped


VALUES = ["serial", "processes", "dask-bag"]


@pytest.mark.parametrize("engine", few(VALUES[1:2], VALUES, "the same value on every engine"))
def test_the_fold_comes_to_the_value_that_is_printed(engine: str) -> None:
    (printed,) = (
        block.splitlines()[1] for block in fenced("console") if "above/result.json" in block
    )
    assert (run("volume.py:above", engine) / "result.json").read_text() == printed
    assert int(printed) == int((values_of(IMAGE) > 20).sum())


def test_files_that_are_named_are_shipped_or_made_before(desk: Path) -> None:
    """By the lines above, from the folder of a clone on an empty machine."""
    there = {path.name for path in desk.iterdir()} - {IMAGE.name}
    named = re.compile(r"[\w./-]+\.(?:nii\.gz|mnc|nc|h5|py)\b")
    lines = (line for line in README.split("## What it reads")[0].splitlines())
    for line in (line for line in lines if line.startswith("$ ")):
        sources = named.findall(line)
        if line.startswith("$ hyperslab convert "):
            places = list(itertools.takewhile(lambda word: word[0] != "-", line.split()[3:]))
            there.add(places.pop())
            sources = [place for place in places if named.fullmatch(place)]
        if line.startswith("$ cp ") and len(sources) > 1:
            there.add(sources.pop())
        for source in sources:
            assert source in there or (ROOT / source).is_file(), line
        if line.startswith("$ cp "):
            there |= {Path(source).name for source in sources}


def test_the_examples_of_dask_and_xarray_run(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in fenced("python") if "to_dask" in block)
    exec(compile(block, "README.md", "exec"), {})
    assert "[  1.   0.   0. -80.]" in capsys.readouterr().out


def test_every_engine_is_named() -> None:
    assert [name for name in ENGINES if f"`{name}`" not in README] == []
