"""Sources that are written to while a run reads them, or before it is resumed; some are damaged,
and mended.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.campaign import content, jobs
from tests.campaign.commands import await_end, await_moment, begin, call
from tests.campaign.deaths import slower
from tests.campaign.interruption import interrupt, interrupt_resume
from tests.campaign.judgement import expect_nothing_torn, resume_to_the_end
from tests.campaign.rounds import Round

WAYS = ("edited during the run", "edited before --resume", "damaged, then mended")


def play(this: Round) -> None:
    """Change what the job reads; in the end the result is that of what is there then."""
    way = this.chance.choice(WAYS)
    this.inject(way)
    if way == "edited during the run":
        _edit_while_running(this)
    elif way == "edited before --resume":
        interrupt(this)
        _edit(this)
        if this.chance.random() < 0.5 and interrupt_resume(this):
            this.inject("SIGKILL to --resume")
    else:
        _damage_and_mend(this)
    resume_to_the_end(this)


def _edit(this: Round) -> None:
    jobs.edit_source(this.job.about.reads, this.folder)
    this.edition = 1


def _edit_while_running(this: Round) -> None:
    command = begin(this, *this.line(), environment=slower(this))
    await_moment(this, command)
    _edit(this)
    ended = await_end(this, command)
    found = content.entries(this.seen)
    results = [content.entries(this.references.of(this.job, edition).out) for edition in (0, 1)]
    if ended.code == 0 and all(content.differences(found, result) for result in results):
        this.find(
            "wrong",
            "the run ended well, and its result is neither that of the old sources nor of the new",
        )
    if this.job.about.file:
        expect_nothing_torn(this, 0, 1)


def _damage_and_mend(this: Round) -> None:
    """Half of a source is missing in the first run."""
    source = this.folder / this.job.about.reads
    path = sorted(source.iterdir())[this.chance.randrange(3)] if source.is_dir() else source
    kept = this.folder / "kept"
    shutil.copy2(path, kept)
    raw = path.read_bytes()
    path.write_bytes(raw[: this.chance.randrange(len(raw))])
    ended = call(this, *this.line())
    if ended.code == 0:
        this.find("wrong", f"a run over a source that is cut ended well: {path.name}")
    _put_back(this, kept, path)


def _put_back(this: Round, kept: Path, path: Path) -> None:
    """With its old time, or a new one."""
    if this.chance.random() < 0.5:
        shutil.copy2(kept, path)
    else:
        shutil.copyfile(kept, path)
