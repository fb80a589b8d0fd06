"""A whole probe of a disk, whose rates from memory and from storage are compared."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hyperslab.storage.probing.measuring import probe
from hyperslab.storage.probing.records import Probed
from tests.storage.probing.short import SMALL, silent, tier_of


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Probed]:
    place = tmp_path_factory.mktemp("disk")
    return place, probe(place, tier_of(place), SMALL, silent)


def test_all_is_measured_as_often_as_asked_for(on_disk: tuple[Path, Probed]) -> None:
    found = on_disk[1]
    assert found.repetitions == 3
    for curve in (*found.curves.values(), *found.names.values()):
        for point in curve.points:
            assert len(point.rate.values) == 3
            assert min(point.rate.values) > 0
    assert {"read-cached", "write", "write-cached"} <= set(found.curves)
    assert set(found.names) == {"create", "stat", "open", "rename", "unlink"}
    assert [point.clients for point in found.names["create"].by_clients] == [1, 2]
    assert found.host == socket.gethostname()
    assert found.media == (f"{socket.gethostname()}/8:0",)


def test_nothing_is_left_behind(on_disk: tuple[Path, Probed]) -> None:
    assert list(on_disk[0].iterdir()) == []


def test_memory_is_faster_than_storage_that_is_synced(on_disk: tuple[Path, Probed]) -> None:
    curves = on_disk[1].curves
    assert curves["write-cached"].single.rate.median > curves["write"].single.rate.median


def test_an_open_costs_most_where_little_is_read(on_disk: tuple[Path, Probed]) -> None:
    opening = on_disk[1].opening
    assert opening[0].request_nbytes == 1
    assert opening[0].slowdown > 1.5
    assert opening[0].slowdown > opening[-1].slowdown
