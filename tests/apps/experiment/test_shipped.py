"""Shipped specs run: a trial of it at scale smoke, two of one, on engines of this machine
alone, with its tiers and its workloads.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.cells import Cell
from hyperslab.apps.experiment.design.shipped import find, shipped
from hyperslab.apps.experiment.design.spec import Spec
from hyperslab.apps.experiment.trials.runner import Experiment, Wish, begin
from hyperslab.cli.trials import Silent
from hyperslab.errors import UsageError
from hyperslab.plan.written import parse_size
from hyperslab.storage.emulation import program
from hyperslab.storage.scratch.program import PROGRAM
from tests.network.lab.labs import require
from tests.repetitions import few, repeats
from tests.system.clusters import dask, spark
from tests.system.clusters.required import required

LIGHT = ("processes", "h5py", "dask-arrays", "file-reads")
"Engines that start within a second; the others have tests of their own."
COMPARED = "storage-tiers/incrementation"
"Spec whose first cell is run, too: what two cells come to is the same code in all."


FEW = 10
"Operations on names in a round, which makes and opens some fifty files."


def _missing_scratch() -> str:
    try:
        PROGRAM.find()
    except UsageError as why:
        return str(why)
    return ""


def _can_emulate() -> bool:
    try:
        program.require_fuse()
        program.PROGRAM.find()
    except UsageError:
        return False
    return True


ONE_OF = {
    "dask-network/": ("dask-network/delay",),
    "spark-on-lustre/": ("spark-on-lustre/scratch", "spark-on-lustre/opening"),
}
"Specs that are run, of families whose trials take long: in laboratories, and with Spark."
PLAYED = ("dask-vs-spark/histogram", "h5spark/partitions", COMPARED)
"""One spec of each engine that starts soon, the last one with tiers and with two cells. Trials in
laboratories, with Spark and with scratch have tests of their own, test_spark_rounds.py and those of
netlab; that every spec is sound is tested in test_spec.py.
"""


@cache
def _at_every_scale() -> list[tuple[str, str, Spec]]:
    """Every shipped spec: its name, and a scale at which it is loaded."""
    return [(one.name, scale, one.load(scale).spec) for one in shipped() for scale in one.scales]


def _runs(name: str) -> bool:
    return all(name in ran for family, ran in ONE_OF.items() if name.startswith(family))


def test_what_is_said_of_a_tier_holds_at_every_scale() -> None:
    """Sizes that stand in words are those that the tier has."""
    for spec, scale, loaded in _at_every_scale():
        for name, tier in loaded.tiers.items():
            told = re.findall(r"\d[\d.]* ?[kMGT]i?B\b", tier.about)
            asked = [text for text in tier.model_dump().values() if isinstance(text, str)]
            missing = {text for text in told if text.replace(" ", "") not in asked}
            assert not missing, (spec, scale, name)


def test_what_fits_in_write_back_is_told_from_what_does_not() -> None:
    """By a fifth, whatever a unit is a multiple of."""
    for scale in find("storage-tiers/write-back").scales:
        spec = find("storage-tiers/write-back").load(scale).spec
        room = parse_size("write_back", spec.tiers["back"].write_back or "")
        sizes = [spec.baseline["size"], *spec.grid.get("size", [])]
        shares = [parse_size("size", size) / room for size in sizes]
        assert not [share for share in shares if 0.8 < share < 1.2], scale
        assert scale == "smoke" or min(shares) < 1 < max(shares)


def test_trials_are_tried_again_where_others_took_their_processors() -> None:
    """At all scales but that of smoke tests, whose times nobody reads."""
    once = [
        (spec, scale)
        for spec, scale, loaded in _at_every_scale()
        if scale != "smoke" and not loaded.starved.repeats
    ]
    assert once == []


def test_baselines_have_a_block_for_every_slot() -> None:
    told = 0
    for spec, scale, loaded in _at_every_scale():
        levels = loaded.baseline
        slots = levels.get("workers"), levels.get("threads", 1)
        if {"files", "blocks"} & levels.keys() and isinstance(slots[0], int):
            told += 1
            blocks = levels.get("files", 1) * levels.get("blocks", 1)
            assert blocks >= slots[0] * slots[1], (spec, scale)
    assert told


RUN = [spec.name for spec in shipped() if _runs(spec.name)]


@pytest.mark.parametrize("name", few(PLAYED, RUN, "a trial of a spec"))
def test_a_trial_of_a_spec(name: str, tmp_path: Path) -> None:
    """The cell that differs from the first one in most factors; it has the first one's other
    levels.
    """
    loaded = find(name).load("smoke")
    spec = loaded.spec.model_copy(update={"probe_s": 0.0})
    if any(tier.emulate for tier in spec.tiers.values()) and not _can_emulate():
        pytest.skip("this machine cannot emulate tiers")
    if name.startswith("dask-network/"):
        require("emulator")
    if spec.baseline["engine"].startswith("spark-"):
        required(spark.missing())
        required(_missing_scratch())
    asked = Experiment.of(dataclasses.replace(loaded, spec=spec), tmp_path / "out")
    cells = [cell for cell in asked.cells if _is_light(cell)] or asked.cells
    last = max(cells, key=lambda cell: len(cell.changed))
    chosen = {last.key}
    if name == COMPARED:
        chosen.add(cells[0].key)
    trials = [one for one in asked.trials if one.replicate == 1 and one.cell.key in chosen]
    record = begin(asked, Wish(trials), Silent())
    assert [(one.state, one.reason) for one in record.attempts] == [("done", "")] * len(chosen)
    assert len(chosen) == 1 + (name == COMPARED)
    assert answer_of(asked, record).decision
    if name == "spark-on-lustre/scratch":
        [attempt] = record.attempts
        assert attempt.levels["scratch"] == "image:shared"
        served = attempt.numbers["tier_operations"]
        assert served is not None
        assert served < FEW, "the tier is asked for one file alone"
    if name.startswith("dask-network/"):
        assert all(one.network["links"] and one.numbers["sent_nbytes"] for one in record.attempts)
    assert not (tmp_path / "out" / "tiers").exists() or not any(
        path.is_mount() for path in (tmp_path / "out" / "tiers").iterdir()
    )


@repeats("a trial of a spec, and that plans of all keep to a minute, in test_estimate.py")
def test_a_whole_spec_at_smoke_scale(tmp_path: Path) -> None:
    required(dask.missing())
    asked = Experiment.of(find("dask-vs-spark/histogram").load("smoke"), tmp_path / "out")
    record = begin(asked, Wish(asked.trials), Silent())
    assert {one.number for one in record.counted() if one.state == "done"} == {
        one.number for one in asked.trials
    }
    assert any("engine" in text for text in answer_of(asked, record).decision)


def _is_light(cell: Cell) -> bool:
    return cell.levels["engine"] in LIGHT
