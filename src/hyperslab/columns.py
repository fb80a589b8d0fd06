"""Columns of numbers and of words, as Arrow keeps them in a file."""

from __future__ import annotations

from typing import Any


def number_column(values: Any, arrow_type: Any) -> Any:
    """An array of Arrow, from a buffer: Arrow imports pandas to convert what is none."""
    import pyarrow as pa

    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(values)])


def word_column(places: Any, words: list[str]) -> Any:
    """Words by their places in a list, as Arrow keeps words that occur often."""
    import pyarrow as pa

    encoded = [word.encode(errors="backslashreplace") for word in words]
    ends = [0]
    for word in encoded:
        ends.append(ends[-1] + len(word))
    offsets = b"".join(end.to_bytes(4, "little") for end in ends)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    dictionary = pa.Array.from_buffers(pa.string(), len(words), buffers)
    return pa.DictionaryArray.from_arrays(number_column(places, pa.int32()), dictionary)


def places_of(column: Any, known: dict[str, int]) -> Any:
    """Places of a column's words among those that are known, to which new ones are added."""
    import numpy as np

    found = [np.empty(0, np.int32)]
    for chunk in column.chunks:
        words = chunk.dictionary.to_pylist()
        numbers = np.array([known.setdefault(word, len(known)) for word in words], np.int32)
        found.append(numbers[chunk.indices.to_numpy()])
    return np.concatenate(found)
