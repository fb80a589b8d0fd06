"""Content of the files of a probe: it cannot be made smaller, and says where it belongs."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator

import pytest

from hyperslab.storage.probing.content import (
    PAGE_NBYTES,
    WINDOW_NBYTES,
    Content,
    random_window,
)


@pytest.fixture(scope="module")
def window() -> Iterator[int]:
    fd = random_window(7)
    yield fd
    os.close(fd)


def test_it_is_the_same_whatever_parts_it_is_asked_for_in(window: int) -> None:
    one, other = Content(window), Content(window)
    one.number(3, 2**20)
    other.number(3, 2**20)
    whole = bytes(one.part(0, 2**20))
    parts = [bytes(other.part(n, PAGE_NBYTES)) for n in range(0, 2**20, PAGE_NBYTES)]
    assert b"".join(parts) == whole
    assert len(zlib.compress(whole)) > len(whole) * 0.99


def test_every_page_of_every_file_is_another_one(window: int) -> None:
    content = Content(window)
    pages = set()
    for file in (1, 2):
        content.number(file, 2 * WINDOW_NBYTES)
        for offset in (0, PAGE_NBYTES, WINDOW_NBYTES, 2 * WINDOW_NBYTES - PAGE_NBYTES):
            pages.add(bytes(content.part(offset, PAGE_NBYTES)))
    assert len(pages) == 8


def test_other_seeds_give_other_bytes(window: int) -> None:
    fd = random_window(8)
    try:
        assert os.pread(fd, 64, 0) != os.pread(window, 64, 0)
    finally:
        os.close(fd)
