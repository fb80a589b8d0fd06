"""Published numbers: every table holds, each of its rows finds its cell, and claims have them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.comparison import CellResult, results_of
from hyperslab.apps.experiment.answers.published import (
    Beside,
    beside,
    matching,
    published_for,
    splits,
)
from hyperslab.apps.experiment.claims import dask_network
from hyperslab.apps.experiment.design.cells import cells_of, on_machines
from hyperslab.apps.experiment.design.shipped import find, shipped
from hyperslab.apps.experiment.pages.published import published_sheets
from hyperslab.apps.experiment.statistics.intervals import Interval
from hyperslab.apps.experiment.trials.record import Attempt, Record, Session
from hyperslab.apps.experiment.trials.runner import Experiment
from tests.apps.experiment.specs import record_of


def _results(name: str, scale: str, processors: int = 96) -> list[CellResult]:
    """All cells of a spec, each a second longer than the one before it, on so many processors."""
    cells = cells_of(find(name).load(scale).spec)
    return [
        CellResult(on_machines(one.cell, [processors]), (), Interval(1.0 + n, None, None))
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


def test_shares_of_the_processors_are_joined_by_what_they_come_to() -> None:
    """25 and 96 processes are 3.84 times apart: so are 1 and 4, and 1 and 2 are not."""
    published = published_for("storage-tiers/bids")
    assert published
    (table,) = published.tables

    def joined(processors: int) -> list[bool]:
        found = beside(table, _results("storage-tiers/bids", "paper", processors))
        rows = [_at(found, workers="1x"), _at(found, tier="isilon"), _at(found, **table.baseline)]
        return [one.result is not None for one in rows]

    assert joined(96) == [True, True, True]
    assert joined(4) == [True, True, True]
    assert joined(2) == [False, True, True]
    assert joined(1) == [False, True, True], "a share of one processor is that one"


def test_processor_time_and_input_and_output_are_ratios_to_two_cells() -> None:
    """Those of the paper's Fig. 10: 1.45; 2.68, 7.31 and 31.9, and 4.36 beside few processes."""
    published = published_for("storage-tiers/bids")
    assert published
    (table,) = published.tables
    found = splits(table, _results("storage-tiers/bids", "paper"))
    many = {"workers": "1x"}
    isilon = {"tier": "isilon"}
    assert [(one.levels, one.base) for one in found] == [
        (many, table.baseline),
        (isilon, table.baseline),
        (isilon | many, table.baseline),
        (isilon | many, isilon),
    ]
    assert [one.cpu for one in found] == [pytest.approx(1.4535, rel=1e-4), None, None, None]
    assert [one.io for one in found] == pytest.approx([2.6814, 7.3057, 31.867, 4.3619], rel=1e-4)
    assert all(one.result and one.reference for one in found)


def test_time_off_the_processor_that_is_none_has_no_ratio(tmp_path: Path) -> None:
    """Tasks of which some used more processor time than they were busy for."""
    asked = Experiment.of(find("storage-tiers/bids").load("paper"), tmp_path)
    cpu_s = {"dram": 1.1, "isilon": 0.5}

    def change(one: Attempt) -> Attempt:
        own = {"busy_s": 1.0, "cpu_s": cpu_s.get(str(one.levels["tier"]), 0.75)}
        return dataclasses.replace(one, numbers={**one.numbers, **own})

    attempts = [change(one) for one in record_of(asked, {}, {}).attempts]
    record = Record(
        [Session(1, 0.0, {"processors": 96})],
        attempts,
        0,
        {one.number: [one] for one in attempts},
    )
    answer = answer_of(asked, record)
    _, sheet = published_sheets(answer, published_for("storage-tiers/bids"))
    assert sheet.title.endswith("processor time and input and output")
    rows = {(row[0], row[1]): row for row in sheet.rows}
    many, few = "tier isilon, workers 1x (96)", "tier isilon"
    assert rows[many, few][2:6] == ("-", "1.00 x", "4.36 x", "1.00 x")
    base = "tier dram, workers 0.25x (25)"
    there = "(there: tmpfs in persistent memory, behind DRAM)"
    row = rows[f"workers 1x (96) {there}", base]
    assert row[2:6] == ("1.45 x", "1.00 x", "2.68 x", "- (there is no time off the processor)")


def test_all_makespans_of_increments_on_tiers_are_shipped() -> None:
    """In both modes of persistent memory."""
    published = published_for("storage-tiers/incrementation")
    assert published
    assert sum(len(table.rows) for table in published.tables) == 30


def test_at_another_scale_numbers_are_joined_by_their_distance_from_the_baseline() -> None:
    published = published_for("dask-vs-spark/incrementation")
    assert published
    found = beside(published.tables[0], _results("dask-vs-spark/incrementation", "laptop"))
    few = _at(found, engine="dask-bag", files=30).result
    assert few
    assert few.cell.levels["files"] == 4, "about a quarter of the baseline, there and here"
    many = _at(found, files=750).result
    assert many
    assert many.cell.levels["files"] == 64, "six times as many there, four times here"
    assert _at(found, workers=4).result is None, "half as many there, and only more here"
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


def _seconds_of(name: str, place: str) -> dict[str, float]:
    """Published times of a spec by their levels: of one place by its delays or losses."""
    told = published_for(name)
    assert told is not None
    (table,) = told.tables
    found = {}
    for row in table.rows:
        (level,) = map(str, table.levels_of(row).values())
        if level.startswith(place):
            assert row.makespan_s is not None
            found[level.removeprefix(place)] = row.makespan_s
    return found


def _numbers_of(text: str) -> list[float]:
    """All numbers that are published of a claim, but for where they stand."""
    (claim,) = [one for one in dask_network.CLAIMS if one.text == text]
    words, _, where = claim.published.partition(" (")
    assert where.endswith(")"), text
    return [float(one) for one in re.findall(r"[\d.]+", words)]


def test_claims_have_the_published_times_of_the_tables() -> None:
    times = _seconds_of(dask_network.PLACEMENT, "")
    places = {
        dask_network.FAST_PORTS: ("worker", "scheduler"),
        dask_network.OWN_LINK: ("scheduler", "none"),
        dask_network.EVERYWHERE: ("all", "worker"),
        dask_network.TEN_TIMES: ("all", "none"),
    }
    for text, levels in places.items():
        assert _numbers_of(text) == [times[level] for level in levels], text
    workers = _seconds_of(dask_network.WORKERS, "")
    assert _numbers_of(dask_network.FEWER) == [workers["2"], workers["3"]]
    loss = _seconds_of(dask_network.LOSS, "")
    both = [loss["worker 10%"], 10, loss["scheduler 15%"], 15]
    assert _numbers_of(dask_network.LOSSES) == both
    assert _numbers_of(dask_network.TOLERATED) == [loss["scheduler 15%"], 15, loss["none"]]


def test_claims_have_the_published_delays_of_the_tables() -> None:
    bare = _seconds_of(dask_network.DELAY, "none")[""]
    of_worker, of_scheduler = (
        {float(delay.removesuffix("ms")): taken for delay, taken in found.items()}
        for found in (_seconds_of(dask_network.DELAY, f"{one} ") for one in ("worker", "scheduler"))
    )
    for text, own in (
        (dask_network.FAR_WORKER, of_worker),
        (dask_network.FAR_SCHEDULER, of_scheduler),
    ):
        assert _numbers_of(text) == [*own.values(), *own, bare]
    for text, own in (
        (dask_network.MORE_THAN_THAT, of_worker),
        (dask_network.IN_PROPORTION, of_scheduler),
    ):
        assert _numbers_of(text) == [*(round(taken - bare, 2) for taken in own.values()), *own]
    ratios = [round(taken / of_scheduler[delay], 2) for delay, taken in of_worker.items()]
    assert _numbers_of(dask_network.DISTANCE) == pytest.approx([*ratios, *of_worker], abs=0.006)
    first, *_, last = of_scheduler.items()
    assert _numbers_of(dask_network.GROWS) == [first[1], first[0], last[1], last[0]]


def test_claims_have_the_published_traffic_of_the_authors_records() -> None:
    """Packets by their kind, and bytes of all pairs in both directions, of the stored notebook."""
    packets = {"48 %": 1595 / 3329, "98 %": 21991 / 22398}
    said = {claim.published.partition(" of its packets")[0] for claim in dask_network.CLAIMS}
    assert packets.keys() <= said
    assert all(f"{share:.0%}" == told.replace(" ", "") for told, share in packets.items())
    between = 669.8 + 686.7 + 709.0 + 703.7 + 657.5 + 668.7
    beside = 3.2 + 3.1 + 3.3 + 3 * 0.4
    told = f"{between / 1000:.2f} GB beside {beside:.1f} MB (recomputed)"
    assert told in [claim.published for claim in dask_network.CLAIMS]


def test_every_claim_has_what_is_published_of_it() -> None:
    assert [claim.text for claim in dask_network.CLAIMS if not claim.published] == []
