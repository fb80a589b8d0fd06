"""Published numbers: every table holds, and each of its rows finds the cell that it is about."""

from __future__ import annotations

import pytest

from hyperslab.apps.experiment.comparison import CellResult, results_of
from hyperslab.apps.experiment.design import cells_of
from hyperslab.apps.experiment.intervals import Interval
from hyperslab.apps.experiment.published import Beside, beside, matching, published_for
from hyperslab.apps.experiment.record import Record
from hyperslab.apps.experiment.shipped import find, shipped


def _results(name: str, scale: str) -> list[CellResult]:
    """All cells of a spec, each a second longer than the one before it."""
    cells = cells_of(find(name).load(scale).spec)
    return [
        CellResult(one.cell, (), Interval(1.0 + n, None, None))
        for n, one in enumerate(results_of(cells, Record()))
    ]


def _at(found: list[Beside], **levels: object) -> Beside:
    return next(one for one in found if one.levels == levels)


def test_every_table_of_the_package_holds() -> None:
    names = [spec.name for spec in shipped() if published_for(spec.name)]
    assert len(names) == 12
    for name in names:
        published = published_for(name)
        assert published
        for table in published.tables:
            assert table.source
            assert table.provenance
            found = beside(table, _results(name, "paper"))
            assert len(found) == len(table.rows)
            assert found[0].published == (table.rows[0].ratio or 1.0)
    assert published_for("small") is None


def test_at_the_scale_of_the_paper_every_cell_is_joined_to_itself() -> None:
    published = published_for("dask-vs-spark/incrementation")
    assert published
    (table,) = published.tables
    found = beside(table, _results("dask-vs-spark/incrementation", "paper"))
    assert len(found) == 43
    for one in found:
        assert one.result
        assert dict(one.result.cell.levels) == {
            **table.levels_of(one.row),
            "threads": 8,
        }
    bag = _at(found, engine="dask-bag", workers=4)
    assert bag.published == 1250 / 1404
    spark = _at(found, engine="spark", workers=8, files=125, iterations=10, delay=4)
    assert bag.result
    assert spark.result == bag.reference
    means = [one.makespan_s.mean for one in (bag.result, spark.result) if one and one.makespan_s]
    assert bag.measured == means[0] / means[1]


def test_what_spark_took_on_tiers_stands_beside_whole_files() -> None:
    """The paper's Spark reads by binaryFiles, and not as hyperslab does."""
    published = published_for("storage-tiers/incrementation")
    assert published
    tables = [table for table in published.tables if "Spark" in table.title]
    assert len(tables) == 2
    for scale in ("paper", "laptop", "quick"):
        results = _results("storage-tiers/incrementation", scale)
        joined = [one.result for table in tables for one in beside(table, results)]
        assert {one and one.cell.levels["engine"] for one in joined} == {"spark-binary-files"}


def test_all_makespans_of_increments_on_tiers_are_shipped() -> None:
    """In both modes of persistent memory."""
    published = published_for("storage-tiers/incrementation")
    assert published
    assert sum(len(table.rows) for table in published.tables) == 30


def test_at_another_scale_numbers_are_joined_by_their_distance_from_the_baseline() -> None:
    published = published_for("dask-vs-spark/incrementation")
    assert published
    found = beside(published.tables[0], _results("dask-vs-spark/incrementation", "laptop"))
    one = _at(found, engine="dask-bag", delay=16)
    assert one.result
    assert one.result.cell.levels["delay"] == 0.8
    four = _at(found, workers=4).result
    assert four
    assert four.cell.levels["workers"] == 1, "half as many as at the baseline, there and here"
    assert _at(found, workers=1).result is None, "an eighth there, and nothing like it here"
    assert _at(found, iterations=1).result is None
    smoke = beside(published.tables[0], _results("dask-vs-spark/incrementation", "smoke"))
    missing = _at(smoke, engine="dask-bag")
    assert missing.result is None
    assert missing.measured is None


def test_a_load_that_was_not_done_limits_ratios_from_one_side() -> None:
    published = published_for("h5spark/stripes")
    assert published
    found = beside(published.tables[0], _results("h5spark/stripes", "laptop"))
    assert [one.limit for one in found] == ["", "at most", "at most"]
    assert [one.result.cell.levels["input_tier"] for one in found if one.result] == [
        "one",
        "four",
        "eight",
    ]


@pytest.mark.parametrize(
    ("level", "tried", "found"),
    [
        (4, [1, 2, 4], 1),
        (16, [1, 2, 4], 4),
        (8, [1, 2], 2),
        (4, [2, 4], None),
        (4, [], None),
        (24, [2, 4], 4),
        (25, [2, 4], None),
        (1, [1, 2, 4], None),
    ],
)
def test_a_number_is_matched_on_its_own_side(
    level: int, tried: list[int], found: int | None
) -> None:
    assert matching(level, 8, tried, 2) == found


def test_words_are_matched_by_themselves() -> None:
    assert matching("spark", "dask", ["spark"], "processes") == "spark"
    assert matching("spark", "dask", ["dask"], "processes") is None
    assert matching(0, 4, [0, 0.2], 0.2) == 0
    assert matching(0.5, 4, [0, 0.2], 0.2) is None
