"""README.md as a reader types it in a clone, from top to bottom; then its function and its fold on
every engine: the same files, the same value.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hyperslab.engines.facts import ENGINES
from tests.apps.bids.heads import two_millimetres
from tests.repetitions import repeats
from tests.system.clusters import dask, mpi, slurm, spark
from tests.system.clusters.required import required
from tests.system.end_to_end.command import (
    ROOT,
    affine_of,
    assembled,
    outputs,
    save,
    succeed,
    values_of,
)
from tests.system.end_to_end.typed import Desk, Snippet, snippets

README = (ROOT / "README.md").read_text(encoding="utf-8")
IMAGE = ROOT / "examples" / "data" / "colin27_ch2_T1w.nii.gz"
UNTRIED = {
    "make demo": "builds an environment, and runs all tests",
    "dask scheduler": "a cluster of Dask's: test_pages.py types the same lines of docs/tutorial.md",
    "session(": "a session of Spark's: test_the_example_of_spark_runs",
}
"Why blocks with these words are not typed with the others."
LIGHTER = {
    "--size 300MB": "--size 300kB",
    "cp colin27_ch2_T1w.nii.gz study": "cp smaller.nii.gz study",
    "-o on-dask --engine dask-futures": "-o on-dask --engine threads",
    "-o on-spark --engine spark": "-o on-spark --engine serial",
    "-o one --engine dask-futures --workers 1 --threads 2": "-o one --engine threads --threads 2",
    "-o two --engine dask-futures": "-o two --engine processes",
}
"What is typed instead: less data, and engines that start at once."
TYPED = ("processes", "serial", "threads")
"Engines that README's own lines have used by then."
MISSING = {"dask": dask.missing, "mpi": mpi.missing, "spark": spark.missing}


def why_untried(snippet: Snippet) -> str:
    """Why a block is not typed with the others; '' where it is."""
    return next((why for words, why in UNTRIED.items() if words in snippet.text), "")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Somebody who has typed README.md in a folder that has a clone's data, and nothing else."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "tests").symlink_to(ROOT / "tests")
    head = two_millimetres(tmp_path_factory.mktemp("head")).path
    save(folder / "smaller.nii.gz", values_of(head), affine_of(head))
    desk = Desk(folder, LIGHTER, {})
    with contextlib.chdir(folder):
        for snippet in snippets("README.md"):
            if not why_untried(snippet):
                desk.type(snippet)
        yield desk
    desk.leave()


def test_every_block_is_typed_or_has_a_reason() -> None:
    blocks = snippets("README.md")
    assert len(blocks) == README.count("\n```") / 2
    assert {block.language for block in blocks} <= {"", "console", "python"}
    assert [block.place for block in blocks if block.untried] == []
    for words in UNTRIED:
        assert sum(words in block.text for block in blocks) == 1, words
    for words in LIGHTER:
        assert any(words in block.text for block in blocks), words


def test_what_is_typed_makes_what_is_said(desk: Desk) -> None:
    out = desk.folder / "clipped"
    assert len(outputs(out)) == 27
    assert np.array_equal(assembled(out, IMAGE), np.clip(values_of(IMAGE), 30, 200))
    (above,) = (said for line, said in desk.printed.items() if "above/result.json" in line)
    assert above == str(int((values_of(IMAGE) > 20).sum()))
    assert f"\n{above}\n" in README
    (same,) = (said for line, said in desk.printed.items() if line.startswith("diff -r"))
    assert same == "the same bytes\n"
    printed = "".join(desk.printed.values())
    assert "[  1.   0.   0. -80.]" in printed
    assert "mean brain volume " in printed
    assert (desk.folder / "packed" / "colin27_ch2_T1w_000_000_000.nii.gz").is_file()
    assert (desk.folder / "small.nii.gz").is_file()


def command(function: str) -> list[str]:
    """The arguments with which README.md runs a function: of the first command that leaves the
    engine open.
    """
    lines = [line for snippet in snippets("README.md") for line in snippet.commands]
    runs = [line for line in lines if line.startswith(f"hyperslab run {function} ")]
    line = next(line for line in runs if "--engine" not in line and "--dry-run" not in line)
    words = shlex.split(line.removeprefix("hyperslab "))
    return words[: words.index("&&")] if "&&" in words else words


def run(function: str, engine: str) -> Path:
    """Run a function as README.md does, but on this engine; returns the output directory."""
    family = engine.partition("-")[0]
    required(MISSING[family]() if family in MISSING else "")
    words = command(function)
    out = words.index("-o") + 1
    words[out] += f"-{engine}"
    workers = () if ENGINES[engine].spread == "none" else ("--workers", 2)
    succeed(*words, *workers, "--engine", engine)
    return Path(words[out])


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


@repeats("files are the same on every engine: EngineTests")
@pytest.mark.usefixtures("_its_cluster")
@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in TYPED])
def test_the_function_makes_the_same_files_on_every_engine(desk: Desk, engine: str) -> None:
    expected = {path.name: path.read_bytes() for path in outputs(desk.folder / "clipped")}
    found = {path.name: path.read_bytes() for path in outputs(run("clip.py:clip", engine))}
    assert found == expected


@repeats("values are the same on every engine: EngineTests")
@pytest.mark.parametrize("engine", ["serial", "dask-bag"])
def test_the_fold_comes_to_the_same_value(desk: Desk, engine: str) -> None:
    expected = (desk.folder / "above" / "result.json").read_text()
    assert (run("volume.py:above", engine) / "result.json").read_text() == expected


@repeats("what Spark reads and writes: tests/connectors/spark")
def test_the_example_of_spark_runs(desk: Desk) -> None:
    required(spark.missing())
    (block,) = (one for one in snippets("README.md") if "session(" in one.text)
    desk.type(block)
    assert (desk.folder / "upper.h5").exists()


def test_every_engine_is_named() -> None:
    assert [name for name in ENGINES if f"`{name}`" not in README] == []
