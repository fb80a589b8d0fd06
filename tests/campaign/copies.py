"""Output directories that are copied or moved: what is done to the copy is done to the copy
alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.campaign import content
from tests.campaign.commands import call
from tests.campaign.interruption import interrupt
from tests.campaign.judgement import finished, resume_to_the_end
from tests.campaign.rounds import Round


def play(this: Round) -> None:
    """Copy or move a directory of a run, damage one of the two, and use the copy."""
    is_done = this.chance.random() < 0.6
    if is_done:
        finished(this)
    else:
        is_done = not interrupt(this)
    first, second = this.out, this.folder / "copy"
    is_moved = this.chance.random() < 0.3
    if is_moved:
        first.rename(second)
    else:
        subtree = shutil.copytree(first, second, symlinks=True)
        assert subtree == second
    before = _snapshot(first)
    this.elsewhere = (second, second)
    use = this.chance.choice(("verify", "resume", "resume without a file", "clean --all"))
    this.inject(f"{'moved' if is_moved else 'copied'}, then {use}")
    _use(this, use, is_done=is_done)
    for name in sorted(before.items() ^ _snapshot(first).items())[:3]:
        this.find("wrong", f"the original was touched: {name[0]}")


def _use(this: Round, use: str, *, is_done: bool) -> None:
    if use == "clean --all":
        ended = call(this, "clean", str(this.place()), "--all")
        left = [path.name for path in this.out.glob("*")]
        if ended.code == 0 and left:
            this.find("wrong", f"clean --all of the copy left {', '.join(left)}")
        return
    if use == "resume without a file" and is_done:
        _lose_one(this)
    if use == "verify" and is_done:
        _expect_a_verdict_on_the_copy(this)
    resume_to_the_end(this)


def _expect_a_verdict_on_the_copy(this: Round) -> None:
    whole = call(this, "verify", str(this.place()))
    if whole.code:
        this.find("wrong", f"verify of the copy says {whole.code}: {whole.last_words}")
    _lose_one(this)
    lacking = call(this, "verify", str(this.place()))
    if lacking.code == 0:
        this.find("wrong", "verify of the copy does not see that a file of it is gone")


def _lose_one(this: Round) -> None:
    """Remove a file under its final name."""
    name = this.chance.choice(sorted(content.entries(this.seen)))
    (this.seen / name).unlink()


def _snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """All files of a directory, records too, with their times."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        os.path.relpath(path, folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in files
    }
