"""`hyperslab report`: other pages and files that it makes of real runs of two engines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperslab.driver.submission import load_records
from tests.importer import Importer
from tests.system.end_to_end.command import ANATOMICAL, call, succeed

BLOCKS = 6


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same histogram on two engines, and another pipeline."""
    folder = tmp_path_factory.mktemp("runs")
    common = [ANATOMICAL, "--blocks", BLOCKS, "--workers", 2]
    for engine in ("processes", "threads"):
        succeed("run", "histogram", *common, "-o", folder / engine, "--engine", engine)
    succeed("run", "increment", *common, "-o", folder / "other", "--engine", "threads")
    return {name: folder / name for name in ("processes", "threads", "other")}


def test_a_trace_for_perfetto_has_every_span_of_the_run(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    for engine in ("processes", "threads"):
        path = tmp_path / f"{engine}.json.gz"
        printed = succeed(
            "report", runs[engine], "--out", tmp_path / "page.html", "--perfetto", path
        )
        assert f"perfetto   {path}" in printed
        assert (tmp_path / "page.html").is_file()
        found, trace = Importer(path), load_records(runs[engine]).trace
        slices = {found.slot(tid): [s for s in own if s.args] for tid, own in found.slices.items()}
        assert sum(map(len, slices.values())) == len(trace.spans) > BLOCKS
        assert {slot for slot, own in slices.items() if own} == {span.slot for span in trace.spans}
        assert {s.args["task"] for own in slices.values() for s in own} <= {
            *trace.meta["labels"],
            "many",
        }
        assert max(values["tasks"] for _, values in found.counters["running tasks"]) in (1, 2)


def test_runs_side_by_side(runs: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "c.html"
    printed = succeed("report", runs["processes"], "--compare", runs["threads"], "--out", page)
    assert re.search(r"^A  processes\nB  threads$", printed, re.MULTILINE)
    assert re.search(r"^B took (about as long|[\d.]+ x as long) as A ", printed, re.MULTILINE)
    assert "plans differ" not in printed, "it is one plan on two engines"
    assert printed.endswith(f"comparison {page}\n")
    text = page.read_text()
    assert "<script" not in text
    assert "plans differ" not in text
    summaries = [load_records(runs[name]).summary for name in ("processes", "threads")]
    row = re.search(r"<th>tasks</th><td>(\d+)</td><td>(\d+)<", text)
    assert row
    assert (
        [int(n) for n in row.groups()]
        == [summary.tasks for summary in summaries]
        == [BLOCKS, BLOCKS]
    )
    assert re.search(r"<th>engine</th><td>processes</td><td>threads</td>", text)


def test_several_runs_follow_one_flag_and_other_work_is_warned_of(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    page = tmp_path / "c.html"
    several = [
        runs["threads"],
        "--compare",
        runs["processes"],
        runs["other"] / ".hyperslab" / "run-0001",
    ]
    printed = succeed("report", *several, "-o", page)
    assert re.search(r"^A  threads\nB  processes\nC  other$", printed, re.MULTILINE)
    assert re.search(r"^Warning: The plans differ", printed, re.MULTILINE)
    assert "The plans differ" in page.read_text()


def test_without_out_the_comparison_lies_beside_the_first_runs_records(
    runs: dict[str, Path],
) -> None:
    page = runs["threads"] / ".hyperslab" / "run-0001" / "comparison.html"
    succeed("report", runs["threads"], "--compare", runs["processes"])
    assert page.is_file()
    page.unlink()


def test_what_cannot_be_compared_gets_a_sentence(runs: dict[str, Path], tmp_path: Path) -> None:
    done = call("report", runs["threads"], runs["other"])
    assert (done.code, done.out) == (2, "")
    assert f"use: report {runs['threads']} --compare {runs['other']}" in done.err
    done = call("report", runs["threads"], "--compare", tmp_path)
    assert done.code == 2
    assert f"{tmp_path} holds no run" in done.err
    done = call(
        "report",
        runs["threads"],
        "--perfetto",
        tmp_path / "absent" / "t.json",
        "-o",
        tmp_path / "p.html",
    )
    assert done.code == 1
    assert "absent" in done.err
    assert "No such file" in done.err
