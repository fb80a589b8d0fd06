"""Encoding: what users say of how a file is stored, and what they cannot have meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab.arrays.encoding import Encoding
from hyperslab.errors import UsageError


def test_a_level_may_stand_behind_the_compression() -> None:
    assert Encoding(compression="gzip:4") == Encoding(compression="gzip", level=4)
    assert Encoding(compression="gzip:4", level=4).level == 4


def test_a_number_is_the_shape_of_a_chunk_of_one_dimension(tmp_path: Path) -> None:
    chunks: Any = [np.int64(2), 3]
    assert Encoding(chunks=chunks).chunks == (2, 3)
    number: Any = 2
    hyperslab.convert(
        np.arange(5), tmp_path / "a.h5", encoding=Encoding(chunks=number, compression="gzip:1")
    )
    assert hyperslab.open(tmp_path / "a.h5").source.own_chunk_shape == (2,)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"chunks": (2, 0)}, "--chunks 2,0: give one number"),
    ({"chunks": "2x2"}, "--chunks 2x2: give one number"),
    ({"shards": 2.5}, "--shards 2.5: give one number"),
    ({"compression": "gzip:x"}, "--compression gzip:x: give none, gzip"),
    ({"compression": 4}, "--compression 4: give none, gzip"),
    ({"compression": "gzip:4", "level": 5}, "says another level than level=5"),
]


@pytest.mark.parametrize(("given", "why"), WRONG)
def test_what_cannot_be_meant_gets_a_sentence(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError) as raised:
        Encoding(**given)
    assert why in str(raised.value)


def test_wrong_arguments_of_a_conversion_are_said_to_be_its_own(tmp_path: Path) -> None:
    encoding: Any = {"chunks": (2,)}
    for convert in (
        lambda: hyperslab.convert(np.arange(5), tmp_path / "a.h5", encoding=encoding),
        lambda: hyperslab.Pipeline(np.arange(5)).write(tmp_path / "out", "h5", encoding=encoding),
    ):
        with pytest.raises(
            UsageError, match=r"encoding has to be a hyperslab\.Encoding, not a dict"
        ):
            convert()
    with pytest.raises(TypeError, match=r"convert\(\) has no setting 'compress'"):
        hyperslab.convert(np.arange(5), tmp_path / "a.h5", compress=True)  # type: ignore[call-arg]
