"""Records as files: JSON that appears in one step and says, by a checksum, whether it is still as
it was written.

- what is read back is what was written, or DamagedRecord: never a part of it, nor a value that has
  changed since
- every message names the file, and says what to do

Held by tests/system/faults/test_damaged_records.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xxhash

from hyperslab.errors import DamagedRecord
from hyperslab.storage.whole import appearing

_HEAD = rb'\{\n "checksum": "([0-9a-f]{32})",'
"The first lines of a record; the checksum is that of all the rest."
_EARLIER = rb'\{\s*"(?:version|state|begun)"|\['
"""How records of earlier versions begin, which had no checksum and are taken as they are; some were
lists.
"""


def save_record(path: Path, value: Mapping[str, Any]) -> None:
    """Write a record, of one field at least, under its final name in one step."""
    body = _text(value)
    checksum = xxhash.xxh3_128_hexdigest(body.encode())
    _replace(path, f'{{\n "checksum": "{checksum}",{body[1:]}')


def load_record(path: Path, remedy: str) -> dict[str, Any]:
    """Read a record back.

    `remedy` ends the sentence about a damaged one: what cannot be known now, and what to do. Raises
    DamagedRecord, and OSError where there is no such file.
    """
    record: dict[str, Any] = _load(path, dict, remedy)
    return record


def load_list(path: Path, field: str, remedy: str) -> list[Any]:
    """Read back the list that is the one field of a record; earlier versions wrote it bare.

    Raises as `load_record`.
    """
    record = _load(path, (dict, list), remedy)
    if isinstance(record, list):
        return record
    return list(record[field])


def _load(path: Path, kinds: type | tuple[type, ...], remedy: str) -> Any:
    data = path.read_bytes()
    body = _checked(data)
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, kinds):
        raise DamagedRecord(_sentence(path, data, remedy))
    return value


def _checked(data: bytes) -> bytes:
    """The JSON of a record but for its checksum; nothing, which is no JSON, when it is another
    one.
    """
    if re.match(_EARLIER, data):
        return data
    head = re.match(_HEAD, data)
    if head is None:
        return b""
    body = b"{" + data[head.end() :]
    if xxhash.xxh3_128_hexdigest(body) != head[1].decode():
        return b""
    return body


def checksum_of(path: Path) -> str:
    """Checksum of a record that is no JSON, to be kept in one that is. Raises OSError."""
    return xxhash.xxh3_128_hexdigest(path.read_bytes())


def require_intact(path: Path, checksum: str, remedy: str) -> None:
    """Raise DamagedRecord for a file that has another checksum than was kept of it."""
    data = path.read_bytes()
    if xxhash.xxh3_128_hexdigest(data) != checksum:
        raise DamagedRecord(_sentence(path, data, remedy))


def save_json(path: Path, value: Any) -> None:
    """Write JSON of any shape, for people and other programs, under its final name in one step."""
    _replace(path, _text(value))


def _sentence(path: Path, data: bytes, remedy: str) -> str:
    how = "its content was changed after it was written"
    if not data:
        how = "it is empty"
    return f"{path} is damaged ({how}): {remedy}"


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON has no word for: NumPy scalars and arrays as numbers and lists, anything else as
    its text.
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def _replace(path: Path, text: str) -> None:
    with (
        appearing(path, path.with_name(path.name + ".part")) as temporary,
        temporary.open("w", encoding="utf-8") as file,
    ):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
