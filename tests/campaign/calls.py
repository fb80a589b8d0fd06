"""Death, an error, a short write or a delay at one of the system calls that a job makes."""

from __future__ import annotations

from pathlib import Path

from tests.campaign import shim
from tests.campaign.commands import await_end, begin
from tests.campaign.judgement import expect_nothing_torn, expect_the_result, resume_to_the_end
from tests.campaign.rounds import Round
from tests.campaign.shim import Rule

SHARE_OF_SOURCES = 0.1
"How often it is reading the sources that is disturbed."
MOST_READS = 12


def play(this: Round) -> None:
    """Disturb a call, or the same again while that is made good; resume."""
    for turn in range(this.chance.choice((1, 1, 2))):
        rule, root = _drawn(this)
        notes = this.folder / f"notes-{turn}"
        variables = shim.environment(this.references.library(), root, notes, rule)
        command = begin(this, *this.line(*(["--resume"] if turn else [])), environment=variables)
        ended = await_end(this, command, is_disturbed=rule.is_deadly)
        if shim.hits(notes):
            this.inject(rule.label)
        if ended.code == 0:
            expect_the_result(this)
            return
        expect_nothing_torn(this)
    resume_to_the_end(this)


def _drawn(this: Round) -> tuple[Rule, Path]:
    """A rule, and the folder below which it holds."""
    if this.chance.random() >= SHARE_OF_SOURCES:
        return shim.draw(this.chance, this.reference().calls), this.out
    kind = this.chance.choice(("open", "pread"))
    return shim.draw(this.chance, {kind: MOST_READS}), this.folder / this.job.about.reads
