"""Faults: what a device says in the middle of a probe, as a sentence with what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyperslab.errors import HyperslabError

_GONE = (
    "went away in the middle of the probe ({why}): probe again when it is back; what is left of the"
    " probe is removed then"
)
_WORDS = {
    errno.ENOSPC: "became full in the middle of the probe: make room, and probe again",
    errno.EDQUOT: (
        "your quota of bytes or files was reached in the middle of the probe: make room, or give a"
        " smaller --size"
    ),
    errno.EROFS: (
        "became read-only in the middle of the probe, as devices do that have failed: look into the"
        " kernel's log (dmesg); what is left of the probe is removed by the next one"
    ),
    errno.ENOTCONN: _GONE,
    errno.ENODEV: _GONE,
    errno.ENXIO: _GONE,
    errno.ESTALE: _GONE,
    errno.ENOENT: _GONE,
    errno.EIO: (
        "has failed in the middle of the probe ({why}): look into the kernel's log (dmesg) before"
        " you trust data to it"
    ),
}


@contextmanager
def told(place: Path) -> Iterator[None]:
    """A block of which a sentence tells how the storage of a place has failed in it. Raises
    HyperslabError for an OSError that means this; others are what they are.
    """
    try:
        yield
    except OSError as error:
        words = _WORDS.get(error.errno or 0)
        if words is None:
            raise
        raise HyperslabError(f"{place}: {words.format(why=error.strerror)}") from error
