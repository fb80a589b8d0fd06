"""Readings: whether the links of an emulator were what was asked for."""

from __future__ import annotations

import pytest

from hyperslab.network.lab.reading import Carried, Reading, Strain


def reading(late: tuple[int, ...] | None, **drops: int) -> Reading:
    """What links have done, by whom packets were so late, and dropped for these causes."""
    strain = None if late is None else Strain("rr", 5, 5, late)
    quiet = Carried(1000, 10_000, {})
    return Reading({"w1": {"up": Carried(1000, 10_000, drops), "down": quiet}}, strain)


def lateness(milliseconds: int) -> tuple[int, ...]:
    """A thousand packets, so many of them a millisecond late or later."""
    return (0, 1000 - milliseconds, *(0,) * 9, milliseconds, 0)


def test_links_that_kept_up_are_believed() -> None:
    assert reading(None, loss=10, queue=20).starved() == ""
    assert reading(lateness(0), loss=10, queue=20).starved() == ""
    assert reading(lateness(10)).starved() == "", "one in a hundred"


def test_packets_that_were_late_are_told() -> None:
    said = "1.1 % of the packets were handed on 1 ms late or later"
    assert reading(lateness(11)).starved() == said


@pytest.mark.parametrize("cause", ["tap", "memory"])
def test_packets_that_no_link_was_to_drop_are_told(cause: str) -> None:
    said = "w1, up: 3 packets dropped because the emulator was late"
    assert reading(lateness(0), **{cause: 3}).starved() == said


def test_what_was_late_before_counts_no_more() -> None:
    now = reading(lateness(500), tap=7)
    assert now.starved()
    assert now.since(now).starved() == ""


@pytest.mark.parametrize(("scheduling", "is_put_off"), [("other", True), ("rr", False)])
def test_a_program_that_may_not_go_before_others_is_told(scheduling: str, is_put_off: bool) -> None:
    strain = Strain(scheduling, 5, 5, lateness(0))
    assert Reading({}, strain).is_put_off() == is_put_off
    assert not Reading({}, None).is_put_off(), "the kernel is late for nobody"
