"""Seals: checksums by which a line of a record tells that it is as it was written.

A sealed line is the xxh3_64 of its text in hexadecimal, a space, and the text. Lines of earlier
versions have no seal, and are taken as they are. Records of one JSON object have theirs in
`recordfile`.

Held by tests/storage/test_sealing.py.
"""

from __future__ import annotations

import xxhash

_DIGEST_NBYTES = 16
_OPENING = (b"{", b"[")
"What a text of JSON begins with; no checksum does."


def seal(text: bytes) -> bytes:
    """A line of JSON with its checksum before it."""
    return b"%s %s" % (xxhash.xxh3_64_hexdigest(text).encode(), text)


def unseal(line: bytes) -> bytes | None:
    """The text of a line; None for one that is not as it was written."""
    if line.startswith(_OPENING):
        return line
    digest, space, text = (
        line[:_DIGEST_NBYTES],
        line[_DIGEST_NBYTES : _DIGEST_NBYTES + 1],
        line[_DIGEST_NBYTES + 1 :],
    )
    if space != b" " or digest != xxhash.xxh3_64_hexdigest(text).encode():
        return None
    return text
