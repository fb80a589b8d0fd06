"""The page about engines shows what was measured, and nothing else."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import bench_engines, engine_page, engine_tables, quiet
from benchmarks.bench_engines import load
from benchmarks.same_blocks import require_same_blocks
from tests.system.faults.command import make_volume

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_results() -> None:
    about, measured = load(ROOT / "benchmarks" / "results" / "engines.jsonl")
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert engine_page.filled(page, engine_page.blocks(measured, about)) == page


@pytest.mark.parametrize(
    ("rounds", "load_average", "said"),
    [
        (2, "0.1", "2 rounds, and a page shows medians of 5"),
        (5, "1.7", "a load of 1.7 at the start"),
    ],
)
def test_a_page_is_filled_with_enough_rounds_of_a_quiet_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, load_average: str, said: str
) -> None:
    """Or with what there is, where that is asked for."""
    head, *lines = (ROOT / "benchmarks" / "results" / "engines.jsonl").read_text().splitlines()
    kept = json.loads(head)
    kept["about"][engine_tables.LOAD] = load_average
    few = [line for line in lines if json.loads(line)["trial"]["round"] <= rounds]
    (tmp_path / "results").write_text("\n".join([json.dumps(kept), *few]) + "\n")
    page = tmp_path / "engines.md"
    shutil.copy(ROOT / "docs" / "engines.md", page)
    before = page.read_text()
    words = ["bench_engines", "--from", str(tmp_path / "results"), "--write", str(page)]
    monkeypatch.setattr(sys, "argv", words)
    assert quiet.doubts(5, 0.1) == []
    with pytest.raises(SystemExit, match=said):
        bench_engines.main()
    assert page.read_text() == before
    monkeypatch.setattr(sys, "argv", [*words, "--all-the-same"])
    bench_engines.main()
    assert f"load average at the start: {load_average}" in page.read_text()


def test_benchmarks_compare_values(tmp_path: Path) -> None:
    """Not sizes alone; of as many files, whatever their names."""
    ours = tmp_path / "ours.nii"
    theirs = tmp_path / "theirs.nii"
    make_volume(ours)
    make_volume(theirs)
    require_same_blocks([ours], [theirs])
    make_volume(theirs, seed=1)
    with pytest.raises(AssertionError, match="has other values"):
        require_same_blocks([ours], [theirs])
    with pytest.raises(AssertionError, match="in other places"):
        require_same_blocks([ours], [])
