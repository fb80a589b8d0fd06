"""The picture of all tiers: curves as they were measured, dashed as they were asked for."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks.storage_picture import TARGETS, tiers
from hyperslab.report.probed.overview import overview_svg
from hyperslab.storage.emulation.settings import KINDS
from hyperslab.storage.probing.records import Measured, Opening, Probed
from hyperslab.storage.tiers.tier import Emulated, Tier
from tests.storage.probing.made import curve, probed

COST_S = 0.002
DASHED, SOLID = r'<polyline points="([^"]*)"[^>]*dasharray', r'<polyline points="([^"]*)"[^>]*"/>'


def emulated(kind: str, settings: dict[str, Any], **given: Any) -> Probed:
    made = Emulated(kind, "/real", settings, f"{settings}")
    tier = Tier("/tier", "here", "emulated", device="hyperslab-1", emulated=made)
    return probed(tier=tier.as_json(), **given)


def names(opens: dict[int, float]) -> dict[str, Any]:
    plain = probed().names
    return {**plain, "open": curve({n: (rate,) * 3 for n, rate in opens.items()}, 0)}


def chart(svg: str, title: str) -> str:
    """The part of a picture that is a chart of this title."""
    return next(part for part in svg.split('<g transform="translate(0 26)">') if title in part)


def test_all_tiers_are_in_one_picture() -> None:
    svg = overview_svg("Storage", [probed(), emulated("throttled", {"bandwidth": 1e8}), probed()])
    ET.fromstring(svg)
    assert svg.count("ext4 (ssd)") == 2
    assert "ext4 (ssd), /data of here" in svg
    assert "throttled, emulated: " in svg
    for title in ("Reading from storage", "Writing, until", "Opening a file", "An open for every"):
        assert f"{title}" in svg


def test_large_slowdowns_are_whole_numbers() -> None:
    opening = (Opening(1, Measured((3e-3,)), Measured((1e-6,))),)
    drawn = chart(overview_svg("Storage", [probed(opening=opening)]), "<title>An open for")
    assert ">2,050 x<" in drawn
    assert "e+" not in drawn


def test_a_metadata_server_that_is_what_it_claims_lies_on_its_dashed_line() -> None:
    right = emulated("metadata", {"metadata_s": COST_S}, names=names({1: 500.0, 2: 500.0}))
    drawn = chart(overview_svg("Storage", [right]), "<title>Opening a file takes (dashed")
    assert re.findall(DASHED, drawn) == re.findall(SOLID, drawn)[-1:]
    fast = emulated("metadata", {"metadata_s": COST_S}, names=names({1: 500.0, 2: 900.0}))
    drawn = chart(overview_svg("Storage", [fast]), "<title>Opening a file takes (dashed")
    assert re.findall(DASHED, drawn) != re.findall(SOLID, drawn)[-1:]


def test_stores_make_one_curve_by_their_targets() -> None:
    stores = [
        emulated(
            "striped",
            {"bandwidth": 1e7, "targets": 4, "stripe_count": count},
            curves={"read-cold": curve({1: (count * 1e7,)}), "write": curve({1: (5e6,)})},
        )
        for count in (4, 1, 2)
    ]
    svg = overview_svg("Storage", stores)
    drawn = chart(svg, "<title>A striped file, read (blue)")
    lines = re.findall(r'<polyline points="([^"]*)"', drawn)
    dashed, reading, writing = [line.split() for line in lines]
    assert dashed == reading
    assert len(reading) == len(writing) == 3
    # files of the others do not lie on all targets: these are no tiers of their own
    assert svg.count("striped, emulated: ") == 1


def test_the_picture_of_the_pages_has_this_machine_and_a_tier_of_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that `make storage-picture` makes: where it makes others, it is to be made anew."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    made = list(tiers())
    assert {kind for kind, _ in made} == KINDS.keys()
    drawn = (Path(__file__).parents[2] / "docs" / "storage.svg").read_text()
    shown = set(re.findall(r">([^<>]+, emulated: [^<>]+)<", drawn))
    assert shown == {
        f"{kind}, emulated: {settings.words()}"
        for kind, settings in made
        if settings.stripe_count in (None, TARGETS)  # others are points of one curve
    }
    here = re.findall(r">\w+ \((\w+)\)<", drawn)
    assert "dram" in here
    assert len(here) > here.count("dram")
