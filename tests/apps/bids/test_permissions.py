"""Folders that an app leaves without write permission, for a user who is not root."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.nobody import as_nobody
from tests.apps.bids.datasets import make, t1w
from tests.apps.bids.test_running import files_of
from tests.nobodys import nobodys

HYPERSLAB = (sys.executable, "-c", "from hyperslab.cli import main; main()")
CLOSED = (
    "mkdir -p {out}/a/b {work}/c && cp {t1w} {out}/a/b/x && touch {work}/c/y"
    " && chmod 0 {out}/a/b && chmod 500 {out}/a {work}/c"
)
"Script of an app that closes the folders which it leaves."
GATHERED = (
    "mkdir {out}/g {work}/h && cat {results}/sub-*/anat/a/b/x > {out}/g/all && touch {work}/h/z"
    " && chmod 500 {out}/g {work}/h"
)


@pytest.fixture
def place() -> Iterator[Path]:
    with nobodys("permissions") as folder:
        yield folder


def bids(place: Path, level: str, *more: str) -> str:
    """What the command of nobody says, which has to succeed."""
    words = ("bids", place / "data", place / "out", level, "--engine", "serial", "--no-report")
    apps = ("--app", f"sh -c '{CLOSED}'", "--group-app", f"sh -c '{GATHERED}'")
    process = as_nobody([*HYPERSLAB, *map(str, words), *apps, *more], home=place)
    told, errors = process.communicate()
    assert process.returncode == 0, told + errors
    return told + errors


def test_both_levels(place: Path) -> None:
    """All results are there, and nothing else that the group level would stumble over."""
    make(place / "data", t1w("1"), t1w("2"), content=b"head\n")
    os.chmod(place / "data", 0o755)
    out = place / "out"
    bids(place, "participant")
    results = ["sub-1/anat/a/b/x", "sub-2/anat/a/b/x"]
    assert [name for name in files_of(out) if name.startswith("sub")] == results
    for _ in range(2):
        bids(place, "group")
        assert (out / "g/all").read_text() == "head\nhead\n"
    assert list(out.glob(".hyperslab/run-*/private/*")) == []
    assert not (out / ".hyperslab/group").exists()
