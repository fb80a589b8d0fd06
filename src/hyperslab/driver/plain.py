"""Plain values: what a reduction may come to that JSON has words for."""

from __future__ import annotations

from typing import Any

import numpy as np

PLAIN = (str, bool, int, float, np.bool_, np.integer, np.floating)
"What a value, and the key of a dict, may be."


def is_plain(value: Any) -> bool:
    """Whether JSON holds a value: a number, a text, true, false or None; a tuple of such; a list,
    or a dict with numbers or texts as keys, of such and of arrays.
    """
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    if isinstance(value, list):
        return all(isinstance(one, np.ndarray) or is_plain(one) for one in value)
    if isinstance(value, dict):
        return all(isinstance(key, PLAIN) for key in value) and is_plain(list(value.values()))
    if isinstance(value, np.longdouble):
        return False  # its digits are more than those of JSON's readers
    return value is None or isinstance(value, PLAIN)


def plain(value: Any) -> Any:
    """The value for JSON: a namedtuple is a dict of its fields, keys of NumPy's are Python's."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {_plain_key(key): plain(one) for key, one in value.items()}
    return value


def _plain_key(key: Any) -> Any:
    if isinstance(key, np.generic):
        return key.item()
    return key
