"""Framing: messages in the bytes of a stream, as Dask writes them there.

    nosplit_bytes | nframes | lengths of the frames | frame 0 | frame 1 ...     u64, little-endian

Frame 0 is msgpack, and names operations; the others are skipped. A reader that has lost its place
takes it up where a segment begins with what can only be the beginning of a message.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

from hyperslab.network.capture.naming import may_name, said_in
from hyperslab.traffic import Said

MOST_FRAMES = 2**20
LARGEST_NBYTES = 2**50
_HEAD_NBYTES = 16
NAMING_NBYTES = 64 * 2**20
"Size of a frame 0 beyond which it is not read."

Heard = Callable[[int, Said | None, int], None]
"Takes the time of a message, what it names (None where that cannot be read), and its size."


class Messages:
    """Reads the bytes of a stream as messages; a Reader of `streams`."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._is_lost = True
        self._held = bytearray()
        "Bytes of a message up to the end of frame 0."
        self._goal = _HEAD_NBYTES
        "How many of these are needed to go on."
        self._size = 0
        "Size of the message, once its header was read; 0 before that."
        self._naming = 0
        "Size of frame 0."
        self._left = 0
        "Bytes that are still to come, once frame 0 was read."
        self._said: Said | None = None
        self.messages = 0
        self.undecoded_nbytes = 0
        "Bytes that belong to no message that could be found."

    def begin(self) -> None:
        """Take it that a message begins where the stream does."""
        self._is_lost = False

    def feed(self, data: bytes, time_ns: int) -> None:
        """Take the next bytes, which begin a segment."""
        if self._is_lost:
            if not _may_begin(data):
                self.undecoded_nbytes += len(data)
                return
            self._is_lost = False
        rest = memoryview(data)
        while rest and not self._is_lost:
            rest = self._take(rest, time_ns)
        self.undecoded_nbytes += len(rest)

    def skip(self, nbytes: int, time_ns: int) -> None:
        """Take it that so many bytes are not there."""
        if self._is_lost:
            self.undecoded_nbytes += nbytes
            return
        if self._size and not self._left:
            self._leave_unnamed()
        inside = min(nbytes, self._left)
        self._pass(inside, time_ns)
        if inside < nbytes:
            self._lose(nbytes - inside)

    def end(self) -> None:
        """Count the bytes of a message that has begun and has no end."""
        if self._left:
            self.undecoded_nbytes += self._size - self._left
        self.undecoded_nbytes += len(self._held)

    def _take(self, data: memoryview, time_ns: int) -> memoryview:
        """Read on; returns what is left for the next message."""
        if self._left:
            inside = min(len(data), self._left)
            self._pass(inside, time_ns)
            return data[inside:]
        wanted = self._goal - len(self._held)
        self._held += data[:wanted]
        if len(self._held) == self._goal:
            self._understand(time_ns)
        return data[wanted:]

    def _understand(self, time_ns: int) -> None:
        """Go on with what is held: the first two numbers, the header, or all up to the end of
        frame 0.
        """
        if self._size:
            self._said = said_in(bytes(self._held[-self._naming :]))
            self._left = self._size - len(self._held)
            self._held.clear()
            if not self._left:
                self._tell(time_ns)
        elif self._goal > _HEAD_NBYTES:
            self._measure()
        elif _is_sound(self._held):
            self._goal += 8 * struct.unpack_from("<Q", self._held, 8)[0]
        else:
            self._lose(0)

    def _measure(self) -> None:
        """Read the lengths of the frames."""
        lengths = _lengths(self._held)
        if lengths is None or lengths[0] == 0:
            self._lose(0)
            return
        self._size = len(self._held) + sum(lengths)
        self._naming = lengths[0]
        self._goal += self._naming
        if self._naming > NAMING_NBYTES:
            self._leave_unnamed()

    def _leave_unnamed(self) -> None:
        """Pass over a frame 0 that is cut, or too large."""
        self._said = None
        self._left = self._size - len(self._held)
        self._held.clear()

    def _pass(self, nbytes: int, time_ns: int) -> None:
        """Pass over bytes of the message that name nothing."""
        if nbytes:
            self._left -= nbytes
            if not self._left:
                self._tell(time_ns)

    def _tell(self, time_ns: int) -> None:
        self.messages += 1
        self._heard(time_ns, self._said, self._size)
        self._size = 0
        self._goal = _HEAD_NBYTES

    def _lose(self, nbytes: int) -> None:
        """Forget the place in the stream, with what is held and so many bytes behind it."""
        self.undecoded_nbytes += nbytes + len(self._held)
        self._is_lost = True
        self._size = 0
        self._left = 0
        self._goal = _HEAD_NBYTES
        self._held.clear()


def _is_sound(head: bytes | bytearray) -> bool:
    """Whether the first two numbers may begin a message."""
    nosplit: int
    frames: int
    nosplit, frames = struct.unpack_from("<QQ", head)
    return 0 < frames <= MOST_FRAMES and 8 + 8 * frames <= nosplit <= LARGEST_NBYTES


def _lengths(head: bytes | bytearray) -> tuple[int, ...] | None:
    """Lengths of the frames, by a whole header; None for one that contradicts itself."""
    if not _is_sound(head):
        return None
    nosplit, frames = struct.unpack_from("<QQ", head)
    lengths = struct.unpack_from(f"<{frames}Q", head, 16)
    together = nosplit - 8 - 8 * frames
    if sum(lengths) > LARGEST_NBYTES:
        return None
    reached = itertools.accumulate(lengths, initial=0)
    if together not in set(reached):
        return None
    return lengths


def _may_begin(data: bytes) -> bool:
    """Whether a segment can only be the beginning of a message."""
    if len(data) < 25 or not _is_sound(data):
        return False
    frames: int = struct.unpack_from("<Q", data, 8)[0]
    start = 16 + 8 * frames
    if len(data) <= start:
        return False
    lengths = _lengths(data[:start])
    if lengths is None or lengths[0] == 0:
        return False
    return may_name(data[start])
