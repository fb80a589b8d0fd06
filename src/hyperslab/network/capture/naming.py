"""Naming: what a message's first frame says that it is, without making objects of the rest."""

from __future__ import annotations

from typing import Any

from hyperslab.errors import MissingExtra
from hyperslab.traffic import ACK, HANDSHAKE, Said

_OK = b"\xa2OK"
_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_LISTS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_UNUSED = 0xC1
"The one first byte that msgpack never writes, https://github.com/msgpack/msgpack/blob/master/spec.md."


def require_msgpack() -> None:
    """Raise MissingExtra where frames cannot be read."""
    try:
        import msgpack  # noqa: F401
    except ImportError:
        raise MissingExtra(
            "captures are decoded with msgpack, which is not installed: pip install"
            " 'hyperslab[dask]'"
        ) from None


def may_name(first: int) -> bool:
    """Whether a frame that begins with this byte can name operations, or answer."""
    return first in _MAPS or first in _LISTS or first == _OK[0]


def said_in(frame: bytes) -> Said | None:
    """What a first frame names, as `traffic.said_by` has it of the message itself; None where it
    cannot be read.
    """
    import msgpack

    if frame == _OK:
        return (ACK,)
    if frame[0] == _UNUSED:
        return None
    # The raw bytes of keys: they need not be UTF-8, and lists of them need not be hashable.
    unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(frame))
    try:
        unpacker.feed(frame)
        said = _of_any(unpacker, frame[0])
        if unpacker.tell() != len(frame):
            return None
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException):
        return None
    return said


def _of_any(unpacker: Any, first: int) -> Said:
    if first in _MAPS:
        return _of_map(unpacker)
    if first not in _LISTS:
        unpacker.skip()
        return ()
    said: list[str] = []
    for _ in range(unpacker.read_array_header()):
        try:
            said += [one for one in _of_map(unpacker) if one != HANDSHAKE]
        except ValueError:
            unpacker.skip()
    return tuple(said)


def _of_map(unpacker: Any) -> Said:
    """What a map names. Raises ValueError for what is none."""
    operation = None
    is_handshake = False
    for _ in range(unpacker.read_map_header()):
        key = unpacker.unpack()
        if key == "op":
            operation = unpacker.unpack()
            continue
        is_handshake |= key == "pickle-protocol"
        unpacker.skip()
    if isinstance(operation, str):
        return (operation,)
    if is_handshake:
        return (HANDSHAKE,)
    return ()
