"""Slots by process and thread are numbered so that no two share a lane at a time, and restarts keep
it.
"""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hyperslab.driver.lanes import number
from hyperslab.trace import Slot

TIMES = st.tuples(st.integers(0, 100), st.integers(0, 30)).map(lambda t: (t[0], t[0] + t[1]))
SEEN = st.lists(
    st.tuples(st.builds(Slot, st.sampled_from("ab"), st.integers(1, 5), st.integers(1, 4)), TIMES)
)


@given(SEEN)
def test_no_two_slots_share_a_lane_at_a_time(seen: list[tuple[Slot, tuple[int, int]]]) -> None:
    given_slots = [(slot, *times) for slot, times in seen]
    lanes = number(given_slots)
    assert set(lanes) == {slot for slot, *_ in given_slots}
    lives = {
        s: (
            min(a for x, a, _ in given_slots if x == s),
            max(b for x, _, b in given_slots if x == s),
        )
        for s in lanes
    }
    for one, other in itertools.combinations(lanes, 2):
        assert lanes[one].host == one.host
        if lanes[one] == lanes[other]:
            assert lives[one][1] <= lives[other][0] or lives[other][1] <= lives[one][0]
    for host in {slot.host for slot in lanes}:
        used = {lane.worker for lane in lanes.values() if lane.host == host}
        assert used == set(range(len(used))), "the lowest numbers are used"


def test_a_restarted_worker_keeps_its_lane() -> None:
    first, second, successor = Slot("a", 100, 7), Slot("a", 101, 8), Slot("a", 230, 9)
    lanes = number([(first, 0, 10), (second, 0, 30), (successor, 15, 30)])
    assert lanes == {first: Slot("a", 0, 0), second: Slot("a", 1, 0), successor: Slot("a", 0, 0)}


def test_only_slots_are_parsed() -> None:
    assert Slot.parse("vm/w3/t4") == Slot("vm", 3, 4)
    assert [Slot.parse(text) for text in ("driver", "a/wx/t1", "")] == [None] * 3
