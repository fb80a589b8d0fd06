"""Figures for documents: every table and chart of an experiment, as files that others can read."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.pages.charts import (
    labels_width,
    makespans_svg,
    ratios_svg,
    totals_svg,
)
from hyperslab.apps.experiment.pages.figures import write_figures
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import experiment, record_of

SHEET = Sheet("A & B", ("name", "value"), [("x < y", "1 | 2"), ("z", "3")], "In seconds.")


def test_a_sheet_is_html_and_markdown() -> None:
    html = SHEET.html()
    assert "<h2>A &amp; B</h2>" in html
    assert "<tr><th>x &lt; y</th><td>1 | 2</td></tr>" in html
    assert SHEET.markdown().splitlines()[4:] == [
        "| name | value |",
        "| --- | --- |",
        "| x < y | 1 / 2 |",
        "| z | 3 |",
    ]
    empty = Sheet("A", ("name",), [])
    assert (empty.html(), empty.markdown()) == ("", "")


def test_the_files_of_an_experiment(tmp_path: Path) -> None:
    """Numbers in the tables are those of the record; charts are XML with a label for each cell."""
    asked = experiment(tmp_path / "out")
    record = record_of(asked, {"iterations 2": (2.0, 2.0, 2.0)}, {"host": "here"})
    answer = answer_of(asked, record)
    files = write_figures(tmp_path / "figures", asked, record, answer)
    names = [path.name for path in files]
    assert names == ["answer.md", "tables.md", "makespans.svg", "totals.svg"]
    told = (tmp_path / "figures" / "answer.md").read_text()
    assert told.startswith("Made by `hyperslab experiment run small`.")
    assert "- iterations 2 against 1: 2.00 x (2 to 2) as long, 3 pairs" in told
    tables = (tmp_path / "figures" / "tables.md").read_text()
    assert "| iterations 2 | 2.00 s ± 0.0 s | 3 |" in tables
    assert "| iterations 2 | baseline | 3 | 2.00 x (2 to 2) | slower |" in tables
    assert "Each verdict is that of one comparison alone" in tables
    for path in files[2:]:
        texts = [one.text for one in ET.parse(path).iter() if one.tag.endswith("text")]
        assert {"baseline", "iterations 2", "delay 0.01"} <= set(texts)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--figures"):
        write_figures(tmp_path / "file" / "in", asked, record, answer)


def test_the_longest_label_fits() -> None:
    assert labels_width(["a"]) < labels_width(["a" * 50])


def test_charts_of_nothing(tmp_path: Path) -> None:
    asked = experiment(tmp_path)
    answer = answer_of(asked, Record())
    assert totals_svg(answer.results) == ""
    assert ratios_svg(answer.expected) == ""
    record = record_of(asked, {}, {})
    known = answer_of(asked, record).results
    assert makespans_svg(known).count('r="4.5"') == 3
