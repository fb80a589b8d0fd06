"""The page about engines shows what was measured, and nothing else."""

from __future__ import annotations

from pathlib import Path

from benchmarks import engine_page
from benchmarks.bench_engines import load

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_results() -> None:
    about, measured = load(ROOT / "benchmarks" / "results" / "engines.jsonl")
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    assert engine_page.filled(page, engine_page.blocks(measured, about)) == page
