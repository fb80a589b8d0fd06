"""Stream: one direction of a connection, its segments put in order, and what is missing skipped."""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from typing import Protocol

from hyperslab.network.capture.segments import SYN, Segment

WINDOW_NBYTES = 2**30
"Distance of a segment from the next one, beyond which it belongs to no window of TCP's."
KEPT_NBYTES = 64 * 2**20
KEPT_SEGMENTS = 4096
"What is kept of segments that come too early, before the gap before them is taken for lost."
PATIENCE_SEGMENTS = 64
"Segments after which a gap is taken for lost that the receiver has acknowledged."
REORDERED_NS = 3_000_000
"Time within which a late segment has been overtaken; a later one was sent again."
_RECENT = 256


class Reader(Protocol):
    """Whoever reads the bytes of a stream in their order."""

    def feed(self, data: bytes, time_ns: int) -> None:
        """Take the next bytes, which begin a segment."""
        ...

    def skip(self, nbytes: int, time_ns: int) -> None:
        """Take it that so many bytes are not there."""
        ...


class Stream:
    """One direction of a connection."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._next: int | None = None
        self._done = 0
        self._early: list[tuple[int, int, Segment]] = []
        self._early_nbytes = 0
        self._gap_since_ns = 0
        self._waited = 0
        self._acknowledged: deque[tuple[int, int]] = deque(maxlen=KEPT_SEGMENTS)
        "Places in the stream that the other end has confirmed, and when: the last ones."
        self._recent: OrderedDict[tuple[int, int, int], None] = OrderedDict()
        self.is_from_start = False
        self.packets = 0
        self.nbytes = 0
        "Payload, each byte once, with those that are missing."
        self.retransmissions = 0
        self.reordered = 0
        self.strays = 0
        "Segments that no window of the connection holds."
        self.copies = 0
        "Packets that were captured twice on their way."
        self.missing_nbytes = 0
        "Bytes that no packet has."
        self.cut_nbytes = 0
        "Bytes that packets had, and that were not kept."

    def take(self, segment: Segment) -> None:
        """Take the next segment of the capture."""
        self.packets += 1
        if segment.flags & SYN:
            self._begin(segment)
            return
        if segment.nbytes == 0 or self._is_copy(segment):
            return
        if self._next is None:
            self._next = segment.sequence
        ahead = (segment.sequence - self._next + 2**31) % 2**32 - 2**31
        if ahead + segment.nbytes <= 0:
            self.retransmissions += 1
        elif ahead > WINDOW_NBYTES:
            self.strays += 1
        elif ahead > 0:
            self._keep(segment, ahead)
        else:
            self._fill(segment, -ahead)

    def acknowledge(self, number: int, time_ns: int) -> None:
        """Take note of what the other end has received."""
        if self._next is None:
            return
        place = self._done + (number - self._next + 2**31) % 2**32 - 2**31
        known = self._done
        if self._acknowledged:
            known = self._acknowledged[-1][0]
        if place > known:
            self._acknowledged.append((place, time_ns))

    def end(self, time_ns: int) -> None:
        """Give the reader what is left, without what is missing before it."""
        while self._early:
            self._give_up(time_ns)

    def _begin(self, segment: Segment) -> None:
        self._next = (segment.sequence + 1) % 2**32
        self.is_from_start = True

    def _is_copy(self, segment: Segment) -> bool:
        """Whether the same packet was seen before: not one that was sent again."""
        if segment.identity == 0:
            return False
        key = (segment.identity, segment.sequence, segment.nbytes)
        if key in self._recent:
            self.copies += 1
            self.packets -= 1
            return True
        self._recent[key] = None
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return False

    def _keep(self, segment: Segment, ahead: int) -> None:
        place = self._done + ahead
        if any(place == at and segment.nbytes <= one.nbytes for at, _, one in self._early):
            self.retransmissions += 1
            return
        if not self._early:
            self._gap_since_ns = segment.time_ns
            self._waited = 0
        heapq.heappush(self._early, (place, self.packets, segment))
        self._early_nbytes += len(segment.data)
        self._waited += 1
        is_known = bool(self._acknowledged) and self._acknowledged[-1][0] >= self._early[0][0]
        is_lost = is_known and self._waited > PATIENCE_SEGMENTS
        is_full = self._early_nbytes > KEPT_NBYTES or len(self._early) > KEPT_SEGMENTS
        if is_lost or is_full:
            self._give_up(segment.time_ns)

    def _fill(self, segment: Segment, known: int) -> None:
        """Give a segment to the reader whose first bytes may be known, and what was waiting."""
        is_late = bool(self._early) and segment.time_ns - self._gap_since_ns > REORDERED_NS
        self.retransmissions += known > 0 or is_late
        self.reordered += bool(self._early) and not known and not is_late
        self._give(segment, known)
        self._go_on(segment.time_ns)

    def _give(self, segment: Segment, known: int) -> None:
        kept = segment.data[known:]
        cut = segment.nbytes - max(known, len(segment.data))
        if kept:
            self._reader.feed(kept, segment.time_ns)
        if cut > 0:
            self.cut_nbytes += cut
            self._reader.skip(cut, segment.time_ns)
        self._advance(segment.nbytes - known)

    def _advance(self, nbytes: int) -> None:
        assert self._next is not None
        self._next = (self._next + nbytes) % 2**32
        self._done += nbytes
        self.nbytes += nbytes
        while self._acknowledged and self._acknowledged[0][0] <= self._done:
            self._acknowledged.popleft()

    def _go_on(self, time_ns: int) -> None:
        """Give the reader what follows now."""
        while self._early and self._early[0][0] <= self._done:
            place, _, segment = heapq.heappop(self._early)
            self._early_nbytes -= len(segment.data)
            known = self._done - place
            if known < segment.nbytes:
                self._give(segment, known)
        self._gap_since_ns = time_ns
        self._waited = 0

    def _confirmed_ns(self, place: int, time_ns: int) -> int:
        """The time before which all up to a place had arrived, at most `time_ns`."""
        for confirmed, when_ns in self._acknowledged:
            if confirmed >= place:
                return min(when_ns - 1, time_ns)
        return time_ns

    def _give_up(self, time_ns: int) -> None:
        """Skip the gap before the first segment that waits."""
        place, _, segment = self._early[0]
        missing = place - self._done
        if missing > 0:
            self.missing_nbytes += missing
            self._reader.skip(missing, self._confirmed_ns(place, segment.time_ns))
            self._advance(missing)
        self._go_on(time_ns)
