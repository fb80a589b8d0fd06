"""Naming: what a message's first frame says that it is, without making objects of the rest."""

from __future__ import annotations

from typing import Any

from hyperslab.errors import MissingExtra
from hyperslab.traffic import ACK, HANDSHAKE, Said

_OK = b"\xa2OK"
_MAPS = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])
_LISTS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_TEXTS = frozenset([*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB])
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
    unpacker = msgpack.Unpacker(max_buffer_size=len(frame))
    try:
        unpacker.feed(frame)
        said = _of_any(unpacker, frame)
        if unpacker.tell() != len(frame):
            return None
    except (
        ValueError,
        TypeError,
        OverflowError,
        IndexError,
        RecursionError,
        msgpack.UnpackException,
    ):
        return None
    return said


def _of_any(unpacker: Any, frame: bytes) -> Said:
    if frame[0] in _MAPS:
        return _of_map(unpacker, frame)
    if frame[0] not in _LISTS:
        unpacker.skip()
        return ()
    said: list[str] = []
    for _ in range(unpacker.read_array_header()):
        try:
            said += [one for one in _of_map(unpacker, frame) if one != HANDSHAKE]
        except ValueError:
            unpacker.skip()
    return tuple(said)


def _of_map(unpacker: Any, frame: bytes) -> Said:
    """What a map names. Raises ValueError for what is none."""
    operation = None
    is_handshake = False
    for _ in range(unpacker.read_map_header()):
        key = _text(unpacker, frame)
        if key == "op":
            operation = _text(unpacker, frame)
            continue
        is_handshake |= key == "pickle-protocol"
        unpacker.skip()
    if operation is not None:
        return (operation,)
    if is_handshake:
        return (HANDSHAKE,)
    return ()


def _text(unpacker: Any, frame: bytes) -> str | None:
    """The next value if it is a text. Others are passed over: msgpack would make room for as many
    values as a list says that it has, before it looks for them.
    """
    if frame[unpacker.tell()] in _TEXTS:
        text: str = unpacker.unpack()
        return text
    unpacker.skip()
    return None
