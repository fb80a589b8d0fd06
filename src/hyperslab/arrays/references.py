"""References: attributes by which a variable of a file names others (CF conventions)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

OF_ARRAYS = ("coordinates", "grid_mapping")
"Attributes of an array that name variables (CF conventions, sections 5 and 5.6)."
OF_COORDINATES = ("bounds", "climatology")
"Attributes of coordinates that name variables (CF conventions, sections 7.1 and 7.4)."
_LISTS = ("coordinates", "ancillary_variables")
_REFERENCES = (*_LISTS, "bounds", "climatology", "grid_mapping", "cell_measures")
"All that name variables (sections 3.4, 5.6, 7.1, 7.2 and 7.4)."


def named_in(attributes: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Names of variables that some attributes list."""
    return [word.rstrip(":") for name in names for word in _words(attributes.get(name))]


def without_references(attributes: Mapping[str, Any], lost: Collection[str]) -> dict[str, Any]:
    """Attributes that name none of these variables: lists of others stay."""
    told = dict(attributes)
    for key in _REFERENCES:
        words = _words(told.get(key))
        others = [word for word in words if word.rstrip(":") not in lost]
        if len(others) == len(words):
            continue
        del told[key]
        if others and key in _LISTS:
            told[key] = " ".join(others)
    return told


def _words(said: Any) -> list[str]:
    """Words of an attribute; none of one that is no text."""
    if isinstance(said, bytes):
        said = said.decode("utf-8", "replace")
    if not isinstance(said, str):
        return []
    return said.replace("\0", " ").split()
