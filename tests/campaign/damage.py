"""Records that are damaged, cut, emptied or removed, of runs that were killed or are done."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

from tests.campaign.commands import call, records_of
from tests.campaign.interruption import interrupt
from tests.campaign.judgement import finished, resume_or_say_why
from tests.campaign.rounds import Round

DEEDS = ("flip", "cut", "empty", "remove", "digit", "zeros", "repeat")
VERBS = ("status", "verify", "report")


def play(this: Round) -> None:
    """Damage one record or two, ask all verbs about the run, and resume it."""
    if this.chance.random() < 0.5:
        finished(this)
    else:
        interrupt(this)
    records = records_of(this)
    for _ in range(this.chance.choice((1, 1, 2))):
        path = _chosen(this.chance, records)
        deed = this.chance.choice(DEEDS)
        if path is not None and _damage(this.chance, path, deed):
            this.inject(f"{deed} of {_sort(path)}")
    shutil.copytree(records, this.folder / "records-damaged")
    for verb in this.chance.sample(VERBS, 2):
        call(this, verb, str(this.place()))
    resume_or_say_why(this)


def _chosen(chance: random.Random, records: Path) -> Path | None:
    """A record of a sort that there is; each sort is as likely as another, however many files it
    has.
    """
    files = [path for path in sorted(records.rglob("*")) if path.is_file() and _sort(path)]
    sorts = sorted({_sort(path) for path in files})
    if not sorts:
        return None
    sort = chance.choice(sorts)
    return chance.choice([path for path in files if _sort(path) == sort])


def _sort(path: Path) -> str:
    """What kind of record a file is; '' for one that tells nothing to later commands."""
    if path.suffix in (".pickle", ".jsonl") and path.parent.name in ("journal", "partials"):
        return path.parent.name
    return (
        path.name
        if path.suffix in (".json", ".jsonl") or path.name in ("replacing", "lock")
        else ""
    )


def _damage(chance: random.Random, path: Path, deed: str) -> bool:
    """Whether there was something to be damaged."""
    raw = path.read_bytes()
    if deed == "remove":
        path.unlink()
        return True
    changed = _changed(chance, raw, deed)
    path.write_bytes(changed)
    return changed != raw


def _changed(chance: random.Random, raw: bytes, deed: str) -> bytes:
    first = chance.randrange(len(raw)) if raw else 0
    last = min(len(raw), first + chance.choice((1, 4, 40)))
    if deed == "flip":
        return (
            raw[:first]
            + bytes(byte ^ (1 << chance.randrange(8)) for byte in raw[first:last])
            + raw[last:]
        )
    if deed == "zeros":
        return raw[:first] + bytes(last - first) + raw[last:]
    if deed == "digit":
        return _with_another_digit(chance, raw)
    if deed == "repeat":
        return raw[:last] + raw[first:]
    return raw[:first] if deed == "cut" else b""


def _with_another_digit(chance: random.Random, raw: bytes) -> bytes:
    places = [match.start() for match in re.finditer(rb"\d", raw)]
    if not places:
        return raw
    at = chance.choice(places)
    other = chance.choice([digit for digit in b"0123456789" if digit != raw[at]])
    return raw[:at] + bytes([other]) + raw[at + 1 :]
