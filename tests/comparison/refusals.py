"""What hyperslab may refuse, and why: a refusal for any other reason is a finding."""

from __future__ import annotations

import re

_ALLOWED: tuple[tuple[str, str, str], ...] = (
    (
        "",
        r"its part .* is missing, for which HDF5 would read the fill value",
        "a part of a virtual dataset is missing",
    ),
    (
        "convert|run",
        r"NIfTI cannot say what these stored values mean",
        "NIfTI has one slope and intercept alone",
    ),
    (
        "convert|run",
        r"(HDF5|netCDF|Zarr) cannot say what these stored values mean",
        "no attributes say such a scaling",
    ),
    (
        "convert|run",
        r"NIfTI holds 1 to 7 axes of at least one element",
        "no image has such a shape",
    ),
    ("convert|run", r"(netCDF|NIfTI|Zarr) cannot hold", "the format has no such type or shape"),
    ("convert|run", r"NIfTI-1 rounds the slope", "slope and intercept are float32 in NIfTI-1"),
    (
        "convert|run",
        r"NIfTI makes .* which mean other",
        "NIfTI computes with slope and intercept in another way",
    ),
    (
        "convert|run",
        r"would be taken for a missing one",
        "a value that readers take for a missing one",
    ),
    ("convert|run|reduce", r"hold no elements: there is nothing to run over", "no elements"),
    ("convert|run|reduce", r"is a single number, not an array", "a single number"),
)
"""Way, words of the message, and the reason; the way and the words are regular expressions."""


def reason(way: str, message: str) -> str:
    """Why a refusal is all right; '' if it is not."""
    found = (
        why for ways, words, why in _ALLOWED if re.match(ways, way) and re.search(words, message)
    )
    return next(found, "")
