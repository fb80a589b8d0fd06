"""What users write on the command line, as values. Raises UsageError with a sentence that names the
flag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from hyperslab.errors import UsageError
from hyperslab.plan.written import (
    parse_duration,
    parse_named_axes,
    parse_numbers,
    parse_rule,
    parse_shape,
    parse_size,
)
from hyperslab.redaction import OPTION, is_private

__all__ = [
    "parse_duration",
    "parse_named_axes",
    "parse_numbers",
    "parse_rule",
    "parse_shape",
    "parse_size",
    "parse_storage_options",
]


def parse_axes(flag: str, text: str | None) -> dict[int, int]:
    """Positions and lengths of axes from '3' or '3:2,0:5'; a length that is not said is 1."""
    axes: dict[int, int] = {}
    for part in (text or "").split(",") if text is not None else []:
        match = re.fullmatch(r"\s*(-?\d{1,9})(?::(\d{1,9}))?\s*", part)
        if match is None:
            raise UsageError(f"{flag} {text}: give AXIS or AXIS:LENGTH, such as 3 or 3:2")
        axes[int(match[1])] = int(match[2] or 1)
    return axes


def parse_names(text: str | None) -> tuple[str, ...] | None:
    """Names from 'slope,t'; None where nothing was asked for."""
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(","))


def parse_resample(text: str | None, inputs: Collection[str]) -> str | dict[str, str] | None:
    """How each further input is resampled, from 't1=linear,mask=nearest'; a word alone is for
    all.
    """
    if text is None:
        return None
    if not inputs:
        raise UsageError(f"--resample {text}: there is no further input, such as --mask")
    if "=" not in text:
        return text
    found = {}
    for part in text.split(","):
        name, equals, how = part.partition("=")
        if not equals:
            raise UsageError(f"--resample {text}: give nearest, linear, or NAME=nearest,...")
        found[name] = how
    return found


def parse_storage_options(given: Sequence[str]) -> dict[str, Any]:
    """Options of a store from 'anon=true', 'endpoint_url=https://host' or
    'client_kwargs={"region_name": "eu"}'.

    What is JSON is taken as such; but a key or a secret of digits alone remains a text.
    """
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{OPTION}: give NAME=VALUE, such as endpoint_url=https://host")
        if name in options:
            raise UsageError(f"{OPTION} {name} is given twice")
        options[name] = _json_or_text(value, numbers=not is_private(name) and name != "key")
    return options


def _json_or_text(text: str, numbers: bool) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if is_number and not numbers else value
