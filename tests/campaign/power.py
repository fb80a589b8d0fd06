"""A loss of power: what was not synced is gone, the machine has another boot id, and nothing else
has changed.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path

from tests.campaign import shim
from tests.campaign.commands import await_end, await_moment, begin
from tests.campaign.judgement import expect_nothing_torn, expect_the_result, resume_to_the_end
from tests.campaign.rounds import Round
from tests.system.clusters.processes import signal_all


def play(this: Round) -> None:
    """Lose power after a run has ended, or in its middle; resume after the restart."""
    notes, boot = this.folder / "notes", this.folder / "boot"
    variables = shim.environment(this.references.library(), this.out, notes)
    variables |= {"SHIM_TRACK": "1", "SHIM_BOOT": str(boot)}
    boot.write_text("the first start of the machine\n")
    command = begin(this, *this.line(), environment=variables)
    is_killed = this.chance.random() < 0.5
    if is_killed:
        await_moment(this, command)
        workers = command.workers()
        command.process.send_signal(signal.SIGKILL)
        signal_all(workers, signal.SIGKILL)
    ended = await_end(this, command, is_disturbed=is_killed)
    lost = _cut(this.chance, this.seen, shim.unsynced(notes))
    this.inject("loss of power " + ("in the middle" if ended.code else "after the end"))
    (this.folder / "lost").write_text("\n".join(lost) + "\n")
    boot.write_text("the second start of the machine\n")
    if ended.code == 0:
        expect_the_result(this)
    if this.job.about.file:  # files of blocks have their names before they are synced
        expect_nothing_torn(this)
    resume_to_the_end(this)


def _cut(chance: random.Random, out: Path, inodes: set[int]) -> list[str]:
    """Lose the end of what was written to some files, or all of it; returns what was lost."""
    lost = []
    for path in sorted(out.rglob("*")):
        if not path.is_file() or path.stat().st_ino not in inodes:
            continue
        size = path.stat().st_size
        kept, has_zeros = chance.choice((0, 0, size // 2)), chance.random() < 0.3
        path.write_bytes(path.read_bytes()[:kept] + bytes(size - kept if has_zeros else 0))
        lost.append(f"{path} from {kept}, {'zeros' if has_zeros else 'cut'}")
    return lost
