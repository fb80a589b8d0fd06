"""What a command says as one JSON document, for programs: the facts of its lines, unrounded."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer

from hyperslab.redaction import redact


def say(document: Any) -> None:
    """Print a record, a mapping or a list of them as JSON (RFC 8259), without secrets."""
    typer.echo(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON knows it: records and mappings are objects, arrays lists, NaN and infinities
    null, all else that JSON has no word for text.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return _finite(value)
    if value is None or isinstance(value, bool | int):
        return value
    return redact(_text(value))


def _finite(value: float) -> float | None:
    if math.isfinite(value):
        return value
    return None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Path):
        return str(value).encode(errors="replace").decode()
    return str(value)
