"""What must hold in a round: nothing torn on the way, and in the end what an undisturbed run
makes.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.campaign import content
from tests.campaign.commands import Ended, call, recorded, recorded_tasks, records_of
from tests.campaign.rounds import OLD, Round

ATTEMPTS = 4
"How often --resume is tried, without further faults."
CHANGED = re.compile(r"(/\S+) exists and is not the file that the run wrote")
"What is said to a store that lost a chunk: it is made again once it was moved away."
DASKS_OWN = "dask-scratch-space/"
"In TMPDIR: Dask keeps its locks there for the next cluster."
MOST_TOLD = 5
"Differences."


def expect_nothing_torn(this: Round, *editions: int) -> None:
    """Whatever has its final name is whole, and of one of these editions; what is to be replaced
    may be there yet.
    """
    allowed = {*(editions or (this.edition,)), *([OLD] if this.job.replaces else [])}
    wholes = [
        content.entries(this.references.of(this.job, edition).out) for edition in sorted(allowed)
    ]
    for name in content.torn(content.entries(this.seen), *wholes):
        this.find("torn", f"{name} is not as any complete run makes it")


def expect_the_result(this: Round) -> None:
    """After a run that ended well: every byte, the verdict of verify, and nothing left behind."""
    expect_the_data(this)
    for path in left_behind(this.seen):
        this.find("left behind", str(path.relative_to(this.seen)))
    for _ in this.folder.glob(".hyperslab-staging-*"):
        this.find("left behind", "what was staged")


def expect_the_data(this: Round) -> None:
    """Every byte that an undisturbed run makes, and verify agrees."""
    found, expected = content.entries(this.seen), content.entries(this.reference().out)
    for difference in content.differences(found, expected)[:MOST_TOLD]:
        this.find("wrong", difference)
    expect_verdict(this, 0)


def expect_verdict(this: Round, code: int) -> None:
    """Whether verify finds the outputs as they were written."""
    verdict = call(this, "verify", str(this.place()))
    if bool(verdict.code) != bool(code):
        this.find("wrong", f"verify says {verdict.code}, not {code}: {verdict.last_words}")


def resume(this: Round) -> Ended:
    """Resume until the run succeeds or does not want to; what was already done is not to be
    repeated.
    """
    ended = Ended(1, "")
    for _ in range(ATTEMPTS):
        done, times = recorded_tasks(this), recorded(this)
        ended = call(this, *this.line("--resume"))
        if ended.code == 0:
            this.repeated += max(0, recorded(this) - times - (_tasks(this) - len(done)))
            return ended
        if ended.code == 2:
            return ended
        expect_nothing_torn(this)
    return ended


def resume_to_the_end(this: Round) -> None:
    """--resume completes what was disturbed."""
    before = _temporary(this)
    ended = resume(this)
    if changed := CHANGED.search(ended.last_words):
        Path(changed[1]).rename(this.folder / "moved-away")
        ended = resume(this)
    if ended.code:
        this.find("lost", f"--resume ends with status {ended.code}: {ended.last_words}")
        return
    expect_the_result(this)
    for name in sorted(_temporary(this) - before):
        this.find("left behind", f"TMPDIR/{name}")


def resume_or_say_why(this: Round) -> None:
    """--resume completes what was disturbed, or refuses in a sentence, and then has not harmed what
    is there.
    """
    ended = resume(this)
    if ended.code:
        expect_nothing_torn(this)
    else:
        expect_the_result(this)


def finished(this: Round) -> None:
    """Run the job to its end, undisturbed."""
    ended = call(this, *this.line())
    if ended.code:
        raise RuntimeError(f"an undisturbed run failed: {ended.last_words}")


def left_behind(out: Path) -> list[Path]:
    """What is unfinished in an output directory or among its records."""
    records = (path for folder in out.glob(".*hyperslab") for path in folder.rglob("*.part"))
    return sorted({*out.glob(".*.part"), *records})


def _tasks(this: Round) -> int:
    try:
        return int(json.loads((records_of(this) / "manifest.json").read_text())["tasks"])
    except (OSError, ValueError, KeyError):
        return 0


def _temporary(this: Round) -> set[str]:
    folder = this.folder / "tmp"
    files = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {name for name in files if not name.startswith(DASKS_OWN)}
