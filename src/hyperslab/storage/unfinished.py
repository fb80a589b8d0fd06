"""Unfinished: names of what is not complete yet, or has been replaced. All of them are hidden."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

LEFTOVER = (
    r"\.(?P<name>.+)\.(?:[0-9a-f]{16}|[0-9a-f]{12}-[0-9a-f]{12}"
    r"|(?:gone|index|old)-[0-9a-f]{12})\.part"
)
"""Name of what is unfinished or has been replaced: one of those below, or of an allocation, whose
name `plan.sinks` makes.
"""
_BESIDE = r"\..+\.[0-9a-f]{16}\.part"
_ASIDE = r"\.(?P<name>.+)\.old-[0-9a-f]{12}\.part"
_INDEX = r"\.(?P<name>.+)\.index-(?P<token>[0-9a-f]*)\.part"


def beside(final: Path) -> Path:
    """A name under which a file can be written, and which nobody else uses."""
    return final.with_name(f".{final.name}.{secrets.token_hex(8)}.part")


def is_beside(name: str) -> bool:
    """Whether a name is one that `beside` has made."""
    return re.fullmatch(_BESIDE, name) is not None


def gone(final: Path) -> Path:
    """A name for what the file needs no longer, until it is removed."""
    return final.with_name(f".{final.name}.gone-{secrets.token_hex(6)}.part")


def aside(final: Path) -> Path:
    """A name for a directory that another one is about to replace."""
    return final.with_name(f".{final.name}.old-{secrets.token_hex(6)}.part")


def put_aside_from(path: Path) -> Path | None:
    """The name that a directory had before it was put aside; None for any other one."""
    match = re.fullmatch(_ASIDE, path.name)
    if match is None:
        return None
    return path.with_name(match["name"])


def index(final: Path, token: str) -> Path:
    """The name of a file that says where the parts of an allocation are, before it has its own."""
    return final.with_name(f".{final.name}.index-{token}.part")


def indexed(path: Path) -> tuple[Path, str] | None:
    """The file and the token of which a name is the index; None for any other name."""
    match = re.fullmatch(_INDEX, path.name)
    if match is None:
        return None
    return path.with_name(match["name"]), match["token"]


def leftovers(out: Path, names: set[str] | None = None) -> Iterator[Path]:
    """Half-written files in an output directory, or folders of their parts: of these outputs, or
    all.
    """
    if not out.is_dir():
        return
    for path in sorted(out.iterdir()):
        match = re.fullmatch(LEFTOVER, path.name)
        if match and (names is None or match["name"] in names):
            yield path
