"""Attempts as a table."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest

from hyperslab.apps.experiment.trials.attempts import write_attempts
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.errors import UsageError
from tests.apps.experiment.specs import experiment, record_of


def test_a_table_has_a_line_for_every_attempt(tmp_path: Path) -> None:
    """What one of them does not know is empty, and a reason of several words is one value."""
    record = record_of(experiment(tmp_path), {"iterations 2": (2.0,)}, {})
    last = dataclasses.replace(
        record.attempts[-1], state="failed", reason='no "room", none', numbers={}
    )
    known = dataclasses.replace(record.attempts[0], load_during={"others_share": 0.25})
    path = tmp_path / "trials.csv"
    write_attempts(path, Record([], [known, *record.attempts[1:-1], last]))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["number"]) for row in rows] == list(range(1, 10))
    assert [float(row["makespan_s"]) for row in rows[:-1]] == [
        one.numbers["makespan_s"] for one in record.attempts[:-1]
    ]
    assert {row["iterations"] for row in rows} == {"1", "2"}
    assert (rows[0]["load_others_share"], rows[1]["load_others_share"]) == ("0.25", "")
    assert (rows[-1]["reason"], rows[-1]["makespan_s"]) == ('no "room", none', "")
    with pytest.raises(UsageError, match="--csv"):
        write_attempts(tmp_path / "nowhere" / "trials.csv", record)
