"""Bounds of makespans by made-up probes, in numbers that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.answers.expectation import NEEDED
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.model.bounds import (
    Expectation,
    Place,
    Use,
    absorbed_nbytes,
    are_shared,
    model_of,
)
from hyperslab.apps.experiment.model.places import Known
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.storage.tiers.tier import Emulated, Tier
from hyperslab.trace import Span, Trace
from tests.apps.experiment.specs import record_of
from tests.storage.probing.made import curve

MB = 10**6
CURVES = {
    "read-cold": curve({1: (100e6,), 2: (180e6,), 4: (160e6,)}),
    "read-cached": curve({1: (1000e6,), 2: (2000e6,)}),
    "write": curve({1: (50e6,), 2: (60e6,)}),
    "write-cached": curve({1: (500e6,), 2: (1000e6,)}),
}
DISK = Place("/disk", ("here/8:0",), CURVES, writes_back=False)
OTHER = Place("/other", ("here/8:16",), CURVES, writes_back=False)
USE = Use(
    makespan_s=30.0,
    read_nbytes=720 * MB,
    written_nbytes=600 * MB,
    slots=2,
    tasks=8,
    startup_s=1.0,
    compute_s=4.0,
    overhead_s=1.0,
    runq_s=0.0,
    cpu_s=6.0,
    processors=2,
    source_nbytes=720 * MB,
    cached_share=0.0,
)


def test_the_law_takes_the_rates_of_one_stream() -> None:
    law = model_of(USE, DISK, DISK).law
    assert [term.seconds for term in law.terms] == [7.2, 12.0]
    assert law.seconds == pytest.approx(19.2)
    assert law.binding == "writing"
    assert law.ratio == pytest.approx(30 / 19.2)


def test_a_shared_device_does_one_after_the_other() -> None:
    model = model_of(USE, DISK, DISK)
    storage, slots, processors = model.resources
    assert [term.seconds for term in storage.terms] == [4.0, 10.0]  # at 180 and 60 MB/s
    assert slots.seconds == pytest.approx(3.6 + 0 + 0 + 6 + 2 + 0.5)
    assert processors.seconds == 3.0
    assert model.bound.binding == "storage at /disk"
    assert model.bound.seconds == 1.0 + 14.0
    assert model.bound.ratio == 2.0


def test_an_emulated_tier_is_called_by_its_name() -> None:
    emulated = replace(DISK, path="/somewhere/tiers/saturated", emulated="throttled")
    assert model_of(USE, emulated, emulated).bound.binding == "storage 'saturated', emulated"


def test_two_devices_work_at_a_time() -> None:
    model = model_of(USE, OTHER, DISK)
    assert [one.name for one in model.resources[:2]] == ["storage at /other", "storage at /disk"]
    assert model.bound.binding == "slots"
    assert model.bound.seconds == pytest.approx(1.0 + 12.1)


def test_paths_of_one_medium_share_it_and_unknown_media_share_nothing() -> None:
    assert are_shared(DISK, replace(OTHER, media=DISK.media))
    assert not are_shared(DISK, OTHER)
    assert not are_shared(replace(DISK, media=()), replace(OTHER, media=()))
    assert are_shared(Place("/a"), Place("/a"))


def test_what_was_in_memory_comes_from_there() -> None:
    model = model_of(replace(USE, cached_share=0.75, source_nbytes=360 * MB), DISK, DISK)
    reading = model.resources[0].terms[0]
    assert reading.seconds == pytest.approx(90 / 180)  # a quarter of the file, once
    cached = model.resources[1].terms[1]
    assert cached.seconds == pytest.approx(630 / 1000 / 2)


def test_memory_takes_what_is_written_up_to_its_limit() -> None:
    """Room comes free at 60 MB/s in the 6.2 s that slots read, compute and write into memory."""
    back = replace(DISK, writes_back=True)
    use = replace(USE, free_dirty_nbytes=100 * MB)
    assert absorbed_nbytes(use, back) == 100 * MB
    _, slots, _ = model_of(use, back, back).resources
    absorbed, throttled = slots.terms[2:4]
    assert absorbed.seconds == 0.1
    assert throttled.seconds == pytest.approx((500 - 6.2 * 60) / 50 / 2)
    assert absorbed_nbytes(use, DISK) == 0.0
    assert absorbed_nbytes(USE, back) is None
    busy = model_of(replace(use, compute_s=100.0), back, back).resources[1]
    assert busy.terms[3].seconds == 0.0, "all else takes so long that nobody waits"
    full = model_of(replace(use, free_dirty_nbytes=0.0), back, back).resources[1]
    assert full.terms[3].seconds == pytest.approx((600 - 6.1 * 60) / 50 / 2), "from the start on"


def test_an_emulated_tier_takes_what_it_was_asked_to() -> None:
    """Whatever the kernel's limits are, of which pages of such a tier are no part."""
    settings = {"bandwidth": 6e7, "write_back_nbytes": 24 * MB}
    tier = Tier("/t", "here", write_back=True)
    made = replace(tier, emulated=Emulated("throttled", "/b", settings, "throttled"))
    place = replace(Known(made, emulated="throttled").place(), curves=CURVES)
    assert absorbed_nbytes(USE, place) == 24 * MB
    assert not model_of(USE, DISK, place).bound.unknown
    through = replace(made, emulated=Emulated("throttled", "/b", {}, "throttled"), write_back=None)
    assert absorbed_nbytes(USE, Known(through, emulated="throttled").place()) is None


def test_what_others_read_is_in_the_overhead(tmp_path: Path) -> None:
    """Java reads whole files before tasks of Spark have them: no slot reads them once more."""
    slots = model_of(replace(USE, reads_within=False), DISK, DISK).resources[1]
    assert slots.seconds == pytest.approx(6 + 2 + 0.5)
    asked = Experiment.of(find("storage-tiers/incrementation").load("quick"), tmp_path)
    numbers = dict.fromkeys(NEEDED, 1.0)
    attempts = [replace(one, numbers=numbers) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})
    by_engine = {
        str(one.result.cell.levels["engine"]): one.model.resources[-2].terms[0].about
        for one in answer_of(asked, record).expected
    }
    assert by_engine["spark-binary-files"] == "by others, within the overhead"
    assert "by others" not in by_engine["processes"]


def test_more_processes_than_the_best_number_do_not_slow_the_bound() -> None:
    model = model_of(replace(USE, slots=4), DISK, DISK)
    assert model.resources[0].terms[0].seconds == 4.0


def test_rates_that_grew_to_the_end_of_the_probe_are_doubted() -> None:
    growing = {**CURVES, "read-cold": curve({1: (100e6,), 2: (200e6,)})}
    model = model_of(replace(USE, slots=8), replace(DISK, curves=growing), DISK)
    assert "no more than 2 of them" in model.resources[0].terms[0].about
    steady = model_of(replace(USE, slots=8), DISK, DISK)
    assert "no more than" not in steady.resources[0].terms[0].about


def test_an_emulated_tier_is_as_fast_as_it_was_asked_to_be() -> None:
    """Whatever a short probe has reached; with no probe at all the bound is known all the same."""
    place = Place("/t", ("here/0:9",), CURVES, False, ceilings={"read-cold": 360e6, "write": 120e6})
    model = model_of(USE, place, place)
    assert [term.seconds for term in model.resources[0].terms] == [2.0, 5.0]
    assert model.law.seconds == pytest.approx(19.2)
    bare = model_of(USE, replace(place, curves={}), replace(place, curves={}))
    assert bare.resources[0].seconds == 7.0
    assert bare.law.seconds is None


def test_the_medium_of_memory_is_read_from_memory() -> None:
    """Nothing can be dropped from a tmpfs, which has no curve of cold reads."""
    memory = {name: CURVES[name] for name in CURVES if name != "read-cold"}
    place = Place("/dev/shm", ("here/0:5",), memory, writes_back=False, is_memory=True)
    law = model_of(USE, place, place).law
    assert law.terms[0].seconds == pytest.approx(0.72)


def test_no_figure_takes_the_place_of_one_that_is_missing() -> None:
    """Nothing of DRAM's for a disk, nothing of reading for writing."""
    partial = {name: CURVES[name] for name in ("read-cached", "write")}
    model = model_of(USE, replace(DISK, curves=partial), DISK)
    assert model.law.seconds is None
    assert model.law.ratio is None
    unknown = model.law.unknown
    assert [term.name for term in unknown] == ["reading"]
    assert "no figure for read-cold" in unknown[0].about
    assert model.bound.seconds == 1.0 + 10.0  # writing is known
    assert "reading" in [term.name for term in model.bound.unknown]
    nowhere = Place("/nowhere", why_not="there is no room for a probe")
    told = model_of(USE, nowhere, nowhere)
    assert told.bound.binding == "processors"
    assert "no room for a probe" in told.bound.unknown[0].about


def test_what_nobody_has_looked_at_is_not_known() -> None:
    use = replace(USE, cached_share=None, cpu_s=None)
    model = model_of(use, DISK, DISK)
    assert {term.name for term in model.bound.unknown} >= {"reading", "processor time"}
    assert "how much of the files was in memory" in model.bound.unknown[0].about
    nothing = replace(use, read_nbytes=0, written_nbytes=0)
    assert model_of(nothing, Place("/a"), Place("/b")).law.seconds == 0.0


def test_waiting_for_processors_is_not_computing() -> None:
    _, slots, _ = model_of(replace(USE, runq_s=3.0), DISK, DISK).resources
    assert slots.terms[4].seconds == 0.5
    few = model_of(replace(USE, tasks=1), DISK, DISK)
    assert few.resources[1].terms[4].seconds == 4.0


def test_intermediate_results_are_charged_to_where_they_lie() -> None:
    """By hand: 400 MB there at 60 MB/s, and at 50 MB/s of one stream; back from memory."""
    use = replace(USE, between_read_nbytes=200 * MB, between_written_nbytes=400 * MB)
    model = model_of(use, DISK, DISK, OTHER)
    assert [term.seconds for term in model.law.terms] == [7.2, 12.0, 2.0, 8.0]
    disk, other, slots, _ = model.resources
    assert disk.terms == model_of(USE, DISK, DISK).resources[0].terms
    assert other.name == "storage at /other"
    assert [term.seconds for term in other.terms] == [pytest.approx(400 / 60)]
    assert [term.seconds for term in slots.terms[-2:]] == [4.0, 0.1]
    unknown = Place("/unknown")
    bare = model_of(use, DISK, DISK, unknown)
    assert bare.law.seconds is None
    assert [term.name for term in bare.law.unknown] == [
        "reading intermediate results",
        "writing intermediate results",
    ]
    assert "it was not probed" in bare.law.unknown[0].about
    back = model_of(use, DISK, DISK, replace(OTHER, writes_back=True))
    assert "removed before it was written" in back.resources[1].terms[0].about


@pytest.mark.parametrize("tier", ["shared", "fast"])
def test_bytes_of_a_chain_are_told_apart_by_its_traces(tmp_path: Path, tier: str) -> None:
    """Each cell reads and writes 10 bytes, and 5 on its way; a cell without traces has no model
    where these lie elsewhere.
    """
    asked = Experiment.of(find("storage-tiers/intermediates").load("quick"), tmp_path)
    numbers = {**dict.fromkeys(NEEDED, 1.0), "read_nbytes": 15.0, "written_nbytes": 15.0}
    attempts = [replace(one, numbers=numbers) for one in record_of(asked, {}, {}).attempts]
    record = Record([], attempts, 0, {one.number: [one] for one in attempts})

    def laws() -> list[Expectation]:
        found = answer_of(asked, record).expected
        wanted = [one for one in found if one.result.cell.levels["intermediates"] == tier]
        return [one.model.law for one in wanted]

    assert bool(laws()) == (tier == "shared")
    kinds = {"read": (0, 1, 10), "compute": (1, 8, 0), "write": (8, 9, 10)}
    inner = {"write": (2, 3, 5), "read": (4, 5, 5)}
    spans = [
        Span(0, 1, "a/w0/t0", kind, start * MB, end * MB, nbytes, 0, 0)
        for kind, (start, end, nbytes) in [*kinds.items(), *inner.items()]
    ]
    for one in attempts:
        folder = asked.directory.trial(one.number, one.attempt)
        folder.mkdir(parents=True)
        Trace(spans, ["a/w0/t0"]).save(folder / "trace.parquet")
    names = [[term.name for term in law.terms] for law in laws()]
    own = ["reading intermediate results", "writing intermediate results"]
    assert names
    assert all((one[2:] == own) == (tier == "fast") for one in names)
