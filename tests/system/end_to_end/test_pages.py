"""The pages of docs/ as a reader types them, each from an empty directory, from top to bottom."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.apps.experiment.design.factors import FACTORS
from hyperslab.apps.experiment.trials.record import load
from tests.apps.bids.heads import two_millimetres
from tests.repetitions import repeats
from tests.system.clusters import dask, mpi
from tests.system.clusters.ports import free_ports
from tests.system.clusters.required import required
from tests.system.end_to_end.command import (
    ROOT,
    affine_of,
    assembled,
    real_values_of,
    save,
    values_of,
)
from tests.system.end_to_end.typed import Desk, Snippet, snippets

TYPED_ELSEWHERE = {"docs/remote.md", "docs/spark.md", "docs/xarray-and-dask.md"}
"Pages that the tests of stores and connectors run."
SMALLER = {
    "--size 2GiB": "--size 4MiB",
    "--size 300MB": "--size 300kB",
    "(100, 120, 90)": "(70, 80, 66)",
}
"What makes a volume that is larger than tests need."
LIGHTER = {
    "-o on-dask --engine dask-futures": "-o on-dask --engine threads",
    "on-spark --engine spark": "on-spark --engine threads",
    "one --engine dask-futures": "one --engine threads",
    "two --engine dask-futures": "two --engine threads",
    "doctor --start": "doctor",
    "mpiexec -n 3": "mpiexec -n 2",
    "-o on-jobs": "-o on-jobs --blocks 1",
    "--granularity stepwise": "--granularity stepwise --blocks 1",
    "--workers 2": "--workers 1",
    "--nworkers 2": "--nworkers 1",
}
"""Engines that start at once, instead of those that the tests of engines start; fewer workers, and
fewer jobs.
"""
FAILS = {"--check-locality": 1}
"A function that is not local, as its page says."


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, {**SMALLER, **LIGHTER}, FAILS)
    yield desk
    desk.leave()


def type_all(desk: Desk, page: str) -> None:
    for snippet in snippets(page):
        desk.type(snippet)


def test_experiments(desk: Desk) -> None:
    """The factor and the workload of the page are varied and run, in one trial of each cell."""
    try:
        type_all(desk, "docs/experiments.md")
    finally:
        FACTORS.pop("retries", None)
    record = load(desk.folder / "clipping" / "record.jsonl")
    done = {one.levels["retries"] for one in record.attempts if one.state == "done"}
    assert done == {1, 3}
    assert (
        "clip" in desk.printed["hyperslab experiment plan clip.toml --factors retries.py"].lower()
    )


@pytest.mark.usefixtures("hurried")
def test_commands(desk: Desk) -> None:
    type_all(desk, "docs/commands.md")
    assert len(list((desk.folder / "packed").glob("*.nii.gz"))) == 4
    assert len(list((desk.folder / "sums").glob("*.txt"))) == 4
    assert not (desk.folder / "wrong").exists()


def test_every_page_that_has_something_to_type_is_typed() -> None:
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    typed = {page for page in pages if any(map(is_typed, snippets(page)))}
    ours = set(re.findall(r'type_all\(desk, "(.*?)"\)', Path(__file__).read_text()))
    assert typed == ours | TYPED_ELSEWHERE


def is_typed(snippet: Snippet) -> bool:
    return not snippet.untried and bool(snippet.commands or snippet.language == "python")


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_what_can_be_typed_stands_in_fenced_blocks_of_known_languages(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    known = {"", "console", "python", "text", "toml", "yaml"}
    assert {one.language for one in snippets(f"docs/{page.name}")} <= known
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "```" not in outside
    assert not re.search(r"\n\n(    |\t)(\$|hyperslab|python|import|from) ", outside)
    marks = re.findall(r"<!-- untried: .+ -->\n(.*)", text)
    assert set(marks) <= {"```", "```console", "```python", "```toml"}, (
        "a reason stands above its block"
    )


def test_the_tutorial(desk: Desk) -> None:
    required(dask.missing())
    (port,) = free_ports(1)
    desk.other_words["8786"] = str(port)
    type_all(desk, "docs/tutorial.md")
    values = real_values_of(desk.folder / "bigbrain" / "bigbrain.nii")
    image = desk.folder / "bigbrain" / "bigbrain.nii"
    clipped = assembled(desk.folder / "clipped", image)
    np.testing.assert_array_equal(clipped, np.clip(values, 2000, 50000))
    above = (desk.folder / "above-on-dask" / "result.json").read_text()
    assert int(above) == int((values > 30000).sum()) > 0
    assert desk.printed["cat above/result.json"] == above
    halved = assembled(desk.folder / "halved", image)
    np.testing.assert_array_equal(halved, values // 2)


def test_first_hour(desk: Desk) -> None:
    type_all(desk, "docs/first-hour.md")
    for name in ("first.nii", "second.nii"):
        image = real_values_of(desk.folder / name)
        filled = real_values_of(desk.folder / "filled" / name)
        assert filled.sum() == 30**3 > (image > 50).sum()


@pytest.mark.usefixtures("hurried")
def test_functions(desk: Desk) -> None:
    type_all(desk, "docs/functions.md")
    series = real_values_of(desk.folder / "bold.nii.gz")
    mean = series.mean(axis=3)
    np.testing.assert_allclose(real_values_of(desk.folder / "mean.nii.gz"), mean, rtol=1e-6)
    np.testing.assert_allclose(
        real_values_of(desk.folder / "parts" / "bold_mean.nii"), mean, rtol=1e-6
    )
    assert {path.name for path in (desk.folder / "maps").glob("*.gz")} == {
        f"bold_{name}.nii.gz" for name in ("slope", "t", "residual")
    }


def test_functions_shows_the_example_that_is_shipped() -> None:
    (shown,) = (one for one in snippets("docs/functions.md") if one.text.startswith("# slope.py"))
    assert body_of(shown.text, "fit") == body_of((ROOT / "examples/slope.py").read_text(), "fit")


def body_of(code: str, name: str) -> list[str]:
    """The statements of a function, without its docstring."""
    (found,) = (
        one for one in ast.parse(code).body if isinstance(one, ast.FunctionDef) and one.name == name
    )
    body = [ast.unparse(one) for one in found.body]
    return body[1:] if ast.get_docstring(found) else body


@pytest.mark.usefixtures("hurried")
def test_inputs(desk: Desk) -> None:
    type_all(desk, "docs/inputs.md")
    series = real_values_of(desk.folder / "bold.nii.gz")
    masked = real_values_of(desk.folder / "masked.nii.gz")
    assert 0 < (masked != 0).sum() < masked.size
    np.testing.assert_array_equal(masked[masked != 0], series[masked != 0])
    (said,) = (text for line, text in desk.printed.items() if "--check-locality" in line)
    shown = next(one.text for one in snippets("docs/inputs.md") if "--check-locality" in one.text)
    assert said.splitlines()[0] in shown
    assert "remedy     --halo 8,8,8,0 (at least this halo), with which" in said


@repeats("apps on BIDS datasets: apps/bids/test_running.py, apps/bids/containers/test_podman.py")
def test_bids(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With a head of an eighth of the voxels."""
    head = two_millimetres(tmp_path_factory.mktemp("head")).path
    save(desk.folder / "colin27_ch2_T1w.nii.gz", values_of(head), affine_of(head))
    type_all(desk, "docs/bids.md")
    mask = desk.folder / "brains" / "sub-10" / "anat" / "sub-10_desc-brain_mask.nii.gz"
    assert set(np.unique(values_of(mask))) == {0, 1}
    assert (desk.folder / "more" / "sub-10" / "anat" / mask.name).is_file()
    assert not (desk.folder / "more" / "sub-01").exists()
    for out in ("gathered", "later"):
        assert "sub-10:" in (desk.folder / out / "list.txt").read_text()


@pytest.mark.usefixtures("hurried")
def test_convert(desk: Desk) -> None:
    type_all(desk, "docs/convert.md")
    brain = real_values_of(desk.folder / "brain.nii")
    for name in ("brain.nii.gz", "brain.h5", "brain.zarr", "volume.h5", "again.nii"):
        np.testing.assert_array_equal(hyperslab.open(name)[...], brain)
    assert (desk.folder / "again.nii").read_bytes() == (desk.folder / "brain.nii").read_bytes()
    assert len(list((desk.folder / "blocks").glob("*.nii"))) == 125
    assert len(list((desk.folder / "scans-h5").glob("*.h5"))) == 3
    assert hyperslab.open("frames.h5").shape == (3, 64, 64)
    assert hyperslab.open("field.nc").dtype == "f4"
    for name in ("group.h5", "both.nc"):
        np.testing.assert_array_equal(hyperslab.open(f"{name}::/entry/data")[...], brain)
        assert hyperslab.open(f"{name}::/entry/field").shape == (30, 40)
    assert hyperslab.open("all.h5::scan_2").shape == (70, 80, 66)


def test_report(desk: Desk) -> None:
    type_all(desk, "docs/report.md")
    for page in ("page.html", "one.html"):
        assert "<svg" in (desk.folder / page).read_text()
    assert (desk.folder / "one.json.gz").is_file()
    (compared,) = (text for line, text in desk.printed.items() if "--compare two" in line)
    assert compared.startswith("A  one\nB  two\n")


@pytest.mark.usefixtures("hurried")
def test_engines(desk: Desk) -> None:
    required(mpi.missing())
    type_all(desk, "docs/engines.md")
    values = real_values_of(desk.folder / "bigbrain" / "bigbrain.nii")
    for out in ("on-dask", "on-mpi", "on-jobs", "on-single-jobs"):
        blocks = sorted((desk.folder / out).glob("*.nii"))
        assert sum(real_values_of(path).size for path in blocks) == values.size
