"""Sheets: tables of an experiment, for its page and for documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hyperslab.report.prose import prose


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    hint: str = ""
    "What its columns mean, in sentences."

    def html(self, style: str = "cells") -> str:
        """Section of a page; '' without rows."""
        if not self.rows:
            return ""
        hint = ""
        if self.hint:
            hint = f'<p class="hint">{escape(self.hint)}</p>\n'
        return (
            f'<section class="{style}">\n<h2>{escape(self.title)}</h2>\n{hint}'
            f'<div class="wide">{self.table()}</div>\n</section>'
        )

    def table(self) -> str:
        """Table alone, as HTML."""
        heads = "".join(f"<th>{escape(column)}</th>" for column in self.columns)
        rows = "".join(map(_row, self.rows))
        return f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table>"

    def markdown(self) -> str:
        """Table of Markdown under its heading; '' without rows."""
        if not self.rows:
            return ""
        lines = [f"## {self.title}", ""]
        if self.hint:
            lines += [self.hint, ""]
        lines.append(_line(self.columns))
        lines.append(_line(["---"] * len(self.columns)))
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, ""])


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    values = "".join(f"<td>{escape(one)}</td>" for one in others)
    return f"<tr><th>{escape(first)}</th>{values}</tr>\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def html_list(sentences: Sequence[str]) -> str:
    """Sentences as a list of HTML."""
    items = "".join(f"<li>{prose(text)}</li>\n" for text in sentences)
    return f"<ul>\n{items}</ul>\n"
