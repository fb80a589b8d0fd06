"""The task graph of a run as a small SVG picture: what every task does, how many there are, where
results go.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hyperslab.report.gantt import COLOURS
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_count

BOX_WIDTH, BOX_HEIGHT, GAP, PAD, CAPTION, ROW_GAP = 168, 54, 38, 16, 28, 34
ROW_HEIGHT = CAPTION + BOX_HEIGHT + PAD
NAME_LETTERS, DETAIL_LETTERS = 16, 20
"Characters that fit a box; longer texts are cut, the whole ones are in the tooltip."
TEXT, QUIET, EDGE, FRAME = "#1d2330", "#667085", "#8a93a3", "#f6f7f9"


@dataclass(frozen=True, slots=True)
class Box:
    """One thing that is done, or what comes of it."""

    kind: str
    "A kind of span, whose colour it has, or result."
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class Row:
    """One stage: what its tasks do in turn, and what is made of their results."""

    caption: str
    steps: Sequence[Box]
    after: Sequence[Box]
    "Merge tree and result of a reduction; nothing after a write."
    fused: bool


def graph_svg(plan: Mapping[str, Any], trace: Trace) -> str:
    """Draw the stages of a plan (as its plan.json has it) as SVG text.

    Of `trace.meta` it reads run.granularity, labels (one per task, of all stages) and moved_nbytes.
    """
    rows = list(_rows(plan, trace))
    width = max(_left(len(row.steps) + len(row.after)) for row in rows) - GAP + 2 * PAD
    height = len(rows) * ROW_HEIGHT + (len(rows) - 1) * ROW_GAP
    body = [
        piece
        for number, row in enumerate(rows)
        for piece in _draw_row(row, number * (ROW_HEIGHT + ROW_GAP))
    ]
    links = [_prior_link(rows, number) for number in range(len(rows) - 1)]
    return "\n".join([_frame(width, height), *body, *links, "</svg>"])


def _rows(plan: Mapping[str, Any], trace: Trace) -> Iterator[Row]:
    summary = plan["summary"]
    tasks = int(plan["tasks"])
    stages = max(1, len(trace.meta.get("labels", [])) // max(tasks, 1))
    fused = trace.meta.get("run", {}).get("granularity", "fused") == "fused"
    granularity = "stepwise"
    if fused:
        granularity = "fused"
    first = [
        _read_box(summary["sources"]),
        *(Box("compute", _short(step), "map") for step in summary["steps"]),
    ]
    for stage in range(stages):
        last = _last_boxes(
            summary["end"],
            is_prior=stage < stages - 1,
            moved=int(trace.meta.get("moved_nbytes", 0)),
        )
        steps = [*first, last[0]]
        of = ""
        if stages > 1:
            of = f"stage {stage + 1} of {stages}: "
        yield Row(
            f"{of}{show_count(tasks, 'task')}, {granularity}",
            steps,
            last[1:],
            fused,
        )


def _read_box(sources: Mapping[str, Mapping[str, Any]]) -> Box:
    main, *others = sources.items()
    files = ""
    if main[1]["files"] > 1:
        files = f" and {main[1]['files'] - 1} more"
    beside = "".join(f" + {name}" for name, _ in others)
    return Box("read", "read", f"{os.path.basename(str(main[1]['first']))}{files}{beside}")


def _last_boxes(end: Mapping[str, Any], is_prior: bool, moved: int) -> list[Box]:
    """The task's own last step, then what the engine makes of all results."""
    if "function" not in end:
        kept = "a file per block"
        if end.get("keep") == "volume":
            kept = "one volume"
        return [Box("write", "write", f"{end.get('format', '')}, {kept}")]
    name = "prior"
    target = "for the next stage"
    if not is_prior:
        name = _short(end)
        target = "of all blocks"
    amount = ""
    if moved and not is_prior:
        amount = f"{show_bytes(moved)} moved"
    result = Box("result", "result", target)
    return [Box("compute", name, "lift"), Box("merge", "merge tree", amount), result]


def _short(step: Mapping[str, Any]) -> str:
    return str(step["function"]).rpartition(":")[2]


def _left(column: int) -> int:
    return PAD + column * (BOX_WIDTH + GAP)


def _frame(width: int, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="task graph" font-size="13" fill="{TEXT}"><defs><marker id="tip" viewBox="0 0'
        ' 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8'
        f' 4L0 8Z" fill="{EDGE}"/></marker></defs>'
    )


def _draw_row(row: Row, top: int) -> Iterator[str]:
    """The frame around what one task does, then boxes and arrows."""
    inner = top + CAPTION
    if row.fused:
        width = _left(len(row.steps)) - GAP
        yield (
            f'<rect x="1" y="{top + 1}" width="{width + PAD - 2}" height="{ROW_HEIGHT - 2}" rx="10"'
            f' fill="{FRAME}" stroke="{EDGE}" stroke-dasharray="4 3"/>'
        )
    yield (
        f'<text x="{PAD}" y="{top + 19}" font-size="12" fill="{QUIET}">{escape(row.caption)}</text>'
    )
    for column, box in enumerate([*row.steps, *row.after]):
        yield _draw_box(box, _left(column), inner)
        if column:
            many = column == len(row.steps)
            spreads: tuple[int, ...] = (0,)
            if many:
                spreads = (-14, 0, 14)
            for spread in spreads:
                yield _arrow(column, inner + BOX_HEIGHT // 2, spread)


def _draw_box(box: Box, x: int, y: int) -> str:
    colour = COLOURS.get(box.kind, EDGE)
    name = _cut(box.name, NAME_LETTERS)
    detail = _cut(box.detail, DETAIL_LETTERS)
    texts = (
        f'<text x="{x + 16}" y="{y + 23}" font-weight="600">{escape(name)}</text>'
        f'<text x="{x + 16}" y="{y + 41}" font-size="12" fill="{QUIET}">{escape(detail)}</text>'
    )
    return (
        f'<g class="box"><title>{escape(f"{box.name}: {box.detail}")}</title><rect x="{x}" y="{y}"'
        f' width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="7" fill="#fff" stroke="{colour}"'
        f' stroke-width="1.5"/><rect x="{x}" y="{y + 7}" width="5" height="{BOX_HEIGHT - 14}"'
        f' fill="{colour}"/>{texts}</g>'
    )


def _cut(text: str, letters: int) -> str:
    if len(text) <= letters:
        return text
    return text[: letters - 1] + "…"


def _arrow(column: int, y: int, spread: int) -> str:
    """Draw an arrow into the box of a column; several that meet stand for many results."""
    x = _left(column)
    return (
        f'<path d="M{x - GAP + 2} {y + spread}L{x - 2} {y + spread // 3}" stroke="{EDGE}"'
        ' stroke-width="1.4" marker-end="url(#tip)"/>'
    )


def _prior_link(rows: Sequence[Row], number: int) -> str:
    """Draw the link from the result of one stage to the lift of the next."""
    row = rows[number]
    following = rows[number + 1]
    top = number * (ROW_HEIGHT + ROW_GAP)
    from_x = _left(len(row.steps) + len(row.after) - 1) + BOX_WIDTH // 2
    to_x = _left(len(following.steps)) - GAP - 24
    below = top + ROW_HEIGHT + ROW_GAP // 2
    to_y = top + ROW_HEIGHT + ROW_GAP + CAPTION - 2
    return (
        f'<path d="M{from_x} {top + CAPTION + BOX_HEIGHT + 2}V{below}H{to_x}V{to_y}" '
        f'fill="none" stroke="{EDGE}" stroke-width="1.4" marker-end="url(#tip)"/>'
    )
