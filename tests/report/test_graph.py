"""The task graph: what the boxes say, and how stages hang together."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from hyperslab.report.graph import graph_svg
from hyperslab.trace import Trace


def _plan(end: dict[str, Any], tasks: int = 12_500) -> dict[str, Any]:
    source = {"kind": "independent", "files": 3, "first": "/data/a<b.nii", "shape": [4, 4]}
    mask = {"kind": "independent", "files": 3, "first": "/data/m.nii", "shape": [4, 4]}
    steps = [{"function": "module:clip_to_a_very_long_range", "params": {}}]
    return {
        "tasks": tasks,
        "summary": {"sources": {"source": source, "mask": mask}, "steps": steps, "end": end},
    }


def _trace(labels: int, granularity: str = "fused") -> Trace:
    meta = {"labels": [""] * labels, "run": {"granularity": granularity}, "moved_nbytes": 2_500_000}
    return Trace([], [], meta=meta)


def _read(svg: str) -> tuple[list[str], list[str], int]:
    """Whole names of the boxes, texts as shown, number of arrows."""
    root = ET.fromstring(svg)
    boxes = ["".join(title.itertext()) for title in root.iter("title")]
    texts = ["".join(text.itertext()) for text in root.iter("text")]
    return boxes, texts, sum("marker-end" in path.attrib for path in root.iter("path"))


WRITE = {"format": "nii.gz", "keep": "volume"}


def test_a_write_is_one_chain() -> None:
    boxes, texts, arrows = _read(graph_svg(_plan(WRITE), _trace(12_500)))
    assert boxes == [
        "read: a<b.nii and 2 more + mask",
        "clip_to_a_very_long_range: map",
        "write: nii.gz, one volume",
    ]
    assert "12,500 tasks, fused" in texts
    assert "clip_to_a_very_…" in texts, "a name that does not fit is cut"
    assert arrows == 2


def test_only_fused_steps_have_a_frame() -> None:
    frames = [
        graph_svg(_plan(WRITE), _trace(12_500, granularity)).count("stroke-dasharray")
        for granularity in ("fused", "stepwise")
    ]
    assert frames == [1, 0]
    assert "12,500 tasks, stepwise" in _read(graph_svg(_plan(WRITE), _trace(12_500, "stepwise")))[1]


def test_a_reduction_ends_in_a_merge_tree() -> None:
    boxes, _, arrows = _read(
        graph_svg(_plan({"function": "workloads:HISTOGRAM", "params": {}}, 4), _trace(4))
    )
    assert boxes[-3:] == ["HISTOGRAM: lift", "merge tree: 2.50 MB moved", "result: of all blocks"]
    assert arrows == 6, (
        "one to each step, three into the tree for its many tasks, one to the result"
    )


def test_what_a_reduction_needs_first_is_a_stage_of_its_own() -> None:
    svg = graph_svg(_plan({"function": "workloads:HISTOGRAM", "params": {}}, 4), _trace(8))
    boxes, texts, arrows = _read(svg)
    assert [box for box in boxes if box.startswith("result")] == [
        "result: for the next stage",
        "result: of all blocks",
    ]
    assert [text for text in texts if "stage " in text and "of 2" in text] == [
        "stage 1 of 2: 4 tasks, fused",
        "stage 2 of 2: 4 tasks, fused",
    ]
    assert arrows == 2 * 6 + 1


def test_a_trace_that_tells_nothing_is_drawn_as_one_stage() -> None:
    assert "1 task, fused" in _read(graph_svg(_plan(WRITE, 1), Trace([], [])))[1]
