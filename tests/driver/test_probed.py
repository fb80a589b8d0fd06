"""What a run takes of a description: that of its own host and media, and never silently."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hyperslab
from hyperslab.driver.probed import look_up, probe_of
from hyperslab.report.circumstances import circumstances
from hyperslab.storage.probing.description import Machine, add
from hyperslab.trace import Trace
from tests.storage.probing.made import probed
from tests.system.end_to_end.command import ANATOMICAL

USED = {
    "read": {"host": "here", "media": ["here/8:0"]},
    "write": {"host": "here", "media": ["here/8:0"]},
}
SLOTS = ["here/w0/t0", "here/w1/t0"]


def probe_for(slots: list[str], used: dict[str, Any], **given: Any) -> dict[str, Any]:
    one = probed(at_s=time.time() - 3 * 86400, **given)
    return probe_of(used, slots, Machine({one.key: one}), Path("m.json"))


def test_rates_are_those_of_as_many_processes_as_there_were_slots() -> None:
    probe = probe_for(SLOTS, USED)
    assert probe["read_nbytes_per_s"] == 2.1e8
    assert probe["write_nbytes_per_s"] == 6e7
    assert probe["buffered_nbytes_per_s"] == 2e9
    assert probe["open_s"] == pytest.approx(1 / 3e4)
    assert probe["opens_per_s"] == 5e4
    assert probe["latency_s"] == 1e-4
    assert probe["clients"] == 2
    assert probe["from"] == "probe of /data on here, 3 days ago, in m.json"
    assert probe_for(SLOTS[:1], USED)["read_nbytes_per_s"] == 1.1e8


def test_another_host_or_medium_is_not_used() -> None:
    assert probe_for(SLOTS, USED, host="there") == {}
    assert probe_for(SLOTS, USED, media=("here/9:0",)) == {}
    assert probe_for([*SLOTS, "there/w0/t0"], USED) == {}


def test_only_what_is_known_is_said() -> None:
    elsewhere = {**USED, "write": {"host": "here", "media": ["here/9:0"]}}
    probe = probe_for(SLOTS, elsewhere)
    assert "read_nbytes_per_s" in probe
    assert "write_nbytes_per_s" not in probe


def test_inputs_on_several_media_have_no_one_rate() -> None:
    """The first one's would be said to be that of all."""
    read = {**USED["read"], "path": "/data/a", "others": ["/scratch/b"]}
    probe = probe_for(SLOTS, {**USED, "read": read})
    assert "read_nbytes_per_s" not in probe
    assert "open_s" not in probe
    assert probe["write_nbytes_per_s"] == 6e7
    told = circumstances(Trace([], SLOTS, meta={"probe": probe}))["device"]
    assert "60.0 MB/s" in told
    assert "inputs are on several media (/data/a and /scratch/b)" in told
    alone = probe_for(SLOTS, {**USED, "read": read, "write": {"host": "here", "media": []}})
    assert list(alone) == ["why_not"]


def test_a_run_keeps_all_media_that_it_reads_from(tmp_path: Path, in_memory: Path) -> None:
    paths = [folder / f"{n}.nii" for n, folder in enumerate((tmp_path, in_memory, tmp_path))]
    for path in paths:
        shutil.copy(ANATOMICAL, path)
    pipeline = hyperslab.Pipeline([str(path) for path in paths]).map("increment")
    used = hyperslab.run(
        pipeline.write(tmp_path / "out"), blocks=1, engine="serial", report=False
    ).trace.meta["storage"]
    assert used["read"]["path"] == str(paths[0])
    assert used["read"]["others"] == [str(paths[1])]
    assert "others" not in used["write"]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no tmpfs at /dev/shm: mount one")
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hyperslab-test-") as folder:
        yield Path(folder)


def test_an_old_probe_says_that_it_is_old(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    add(place, [probed(at_s=time.time() - 100 * 86400)])
    trace = Trace([], SLOTS, meta={"storage": USED})
    look_up(trace, place)
    assert trace.meta["probe"]["from"].endswith("(old: probe again)")


def test_a_damaged_description_is_told_and_nothing_of_it_taken(tmp_path: Path) -> None:
    place = tmp_path / "machine.json"
    place.write_text("?")
    trace = Trace([], SLOTS, meta={"storage": USED})
    look_up(trace, place)
    assert "is damaged" in trace.meta["probe"]["why_not"]
    look_up(trace, tmp_path / "none.json")
    assert "is damaged" in trace.meta["probe"]["why_not"]
    older = Trace([], SLOTS, meta={})
    look_up(older, place)
    assert "probe" not in older.meta
