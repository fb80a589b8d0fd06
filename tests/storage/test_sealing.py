"""Seals: no damaged line is taken for what was written."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hyperslab.storage.sealing import seal, unseal

TEXTS = st.dictionaries(st.text(), st.integers() | st.text() | st.none()).map(
    lambda d: json.dumps(d).encode()
)


@given(TEXTS)
def test_a_sealed_line_says_what_was_written(text: bytes) -> None:
    assert unseal(seal(text)) == text
    assert b"\n" not in seal(text)


@given(TEXTS, st.data())
def test_one_changed_byte_is_seen(text: bytes, data: st.DataObject) -> None:
    line = bytearray(seal(text))
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    assert unseal(bytes(line)) in (None, text, bytes(line))
    assert unseal(bytes(line)) != bytes(line) or bytes(line[:1]) in (
        b"{",
        b"[",
    )  # no text of ours begins so


@given(TEXTS, st.data())
def test_a_line_that_lost_some_bytes_is_seen(text: bytes, data: st.DataObject) -> None:
    line = seal(text)
    first = data.draw(st.integers(0, len(line) - 1))
    last = data.draw(st.integers(first + 1, len(line)))
    left = line[:first] + line[last:]
    assert unseal(left) in (None, text) or left.startswith((b"{", b"["))


def test_lines_of_earlier_versions_are_taken_as_they_are() -> None:
    assert unseal(b'{"task": 1}') == b'{"task": 1}'
    assert unseal(b'["a.nii", ".a.part", 1, 2]') == b'["a.nii", ".a.part", 1, 2]'
