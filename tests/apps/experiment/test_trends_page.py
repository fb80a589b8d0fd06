"""Sheets of numbers and trends: what is less than nothing, and slopes as ratios."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from hyperslab.apps.experiment.answers.answer import Answer, answer_of
from hyperslab.apps.experiment.answers.comparison import results_of
from hyperslab.apps.experiment.answers.phases import CellPhases, Phases
from hyperslab.apps.experiment.answers.published import published_for
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.pages.trends import numbers_sheet, phases_sheet, trends_sheets
from hyperslab.apps.experiment.trials.record import Attempt, Record
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of

NAME = "dask-vs-spark/incrementation"
SLOPES = {"spark": 4.0, "dask-bag": 2.0}


def _answer(root: Path) -> Answer:
    """Tasks used more processor time than they were busy for; overhead of Spark grows most, and
    that of the others by a second for each worker. The last replicate lacks a level on Bag.
    """
    asked = Experiment.of(find(NAME).load("quick"), root)

    def change(one: Attempt) -> Attempt:
        engine = str(one.levels["engine"])
        grown_s = SLOPES.get(engine, 1.0) * float(one.levels["workers"])
        overhead_s = grown_s * (1 + 0.01 * one.replicate)
        own = {"busy_s": 2.0, "cpu_s": 2.32, "overhead_s": overhead_s, "write_s": 0.0}
        is_left_out = engine == "dask-bag" and one.replicate == 6 and one.levels["workers"] == 4
        starved = "others" if is_left_out else ""
        return dataclasses.replace(one, numbers={**one.numbers, **own}, starved=starved)

    attempts = [change(one) for one in record_of(asked, {}, {}).attempts]
    return answer_of(asked, Record([], attempts, 0, {one.number: [one] for one in attempts}))


def test_time_off_the_processor_is_not_cut_at_nothing(tmp_path: Path) -> None:
    sheet = numbers_sheet(_answer(tmp_path))
    assert {row[5] for row in sheet.rows} == {"none (tasks used 1.16 processors)"}


def test_slopes_are_ratios_to_one_engine_over_so_many_replicates(tmp_path: Path) -> None:
    sheet = trends_sheets(_answer(tmp_path), published_for(NAME))[0]
    assert tuple(sheet.columns[3:6]) == ("replicates", "overhead beside spark", "published")
    rows = {row[0]: row for row in sheet.rows}
    assert rows["spark"][3:6] == ("6", "1.00 x", "1.00 x")
    assert rows["dask-bag"][3:6] == ("5", "0.50 x", "1.13 x")
    assert rows["dask-futures"][3:6] == ("6", "0.25 x", "1.53 x")
    assert rows["processes"][4:] == ("0.25 x", "-", "-", "-")
    assert "2650" not in str(sheet.rows)
    assert "has the start of the engine" in sheet.hint


def test_sentences_say_over_how_many_replicates(tmp_path: Path) -> None:
    told = [text for text in _answer(tmp_path).evidence if "further worker of dask-bag" in text]
    assert told[0].endswith("over 5 replicates that have all numbers of workers.")


def test_the_first_touch_of_one_file_stands_beside_opening_and_later_reads(
    tmp_path: Path,
) -> None:
    """Of files of their own no read is a second one."""
    times = Phases({"open": 0.1, "read": 0.3}, 0.6, 0.2, 1, 0.5, 0.2)

    def shown(name: str) -> dict[str, str]:
        cell = Experiment.of(find(name).load("quick"), tmp_path).cells[0]
        (result,) = results_of([cell], Record())
        answer = Answer((), (), (), (), (), phases=[CellPhases(result, [times])])
        sheet = phases_sheet(answer)
        return dict(zip(sheet.columns, sheet.rows[0], strict=True))

    regions = shown("storage-tiers/regions")
    assert regions["open"] == "100 ms"
    assert (regions["first touch"], regions["later touches"]) == ("500 ms", "200 ms")
    assert "first touch" not in shown("storage-tiers/incrementation")
