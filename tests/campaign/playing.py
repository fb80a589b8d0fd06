"""One round after another, or several at a time: drawn, played in a folder of their own, and
judged.
"""

from __future__ import annotations

import os
import random
import shutil
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.campaign import scenarios, shim
from tests.campaign.commands import await_end, begin
from tests.campaign.jobs import Job
from tests.campaign.rounds import Finding, Reference, References, Round
from tests.campaign.scenarios import Wish
from tests.system.clusters.processes import Household, household

NOTHING_HIT = "nothing was hit"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a round."""

    index: int
    scenario: str
    job: str
    injected: tuple[str, ...]
    findings: tuple[Finding, ...]
    repeated: int
    seconds: float
    folder: Path
    "Kept if it is not right."
    why_not: str = ""
    "Why it was not played."

    @property
    def is_right(self) -> bool:
        return not self.findings


def play(seed: int, index: int, folder: Path, references: References, wish: Wish) -> Verdict:
    """Play one round: what happens depends on the seed, its number and the wish, alone."""
    chance = random.Random(f"{seed}/{index}")
    name, job = scenarios.draw(chance, wish)
    return play_job(seed, index, folder, references, name, job, chance)


def play_job(
    seed: int,
    index: int,
    folder: Path,
    references: References,
    name: str,
    job: Job,
    chance: random.Random,
) -> Verdict:
    """Play a scenario with a job; `chance` decides all that is left to it."""
    began = time.monotonic()
    own = folder / f"round-{seed}-{index}"
    shutil.rmtree(own, ignore_errors=True)
    if why_not := scenarios.SCENARIOS[name].missing():
        return Verdict(index, name, job.label, (), (), 0, 0.0, own, why_not)
    queue: Mapping[str, str] = {}
    if job.is_queued:
        try:
            queue = references.queue.variables()
        except pytest.skip.Exception as why:
            return Verdict(index, name, job.label, (), (), 0, 0.0, own, str(why))
    with home_of(own, **queue) as home:
        this = Round(seed, index, own, chance, job, references, home)
        why_not = _played(this, scenarios.SCENARIOS[name].play)
    verdict = Verdict(
        index,
        name,
        job.label,
        tuple(this.injected),
        tuple(this.findings),
        this.repeated,
        time.monotonic() - began,
        own,
        why_not,
    )
    if verdict.is_right:
        shutil.rmtree(own)
    return verdict


def play_all(
    seed: int,
    indices: list[int],
    folder: Path,
    at_a_time: int,
    wish: Wish,
    tell: Callable[[Verdict], None],
) -> list[Verdict]:
    """Play rounds, several at a time; each is told of when it ends."""
    references = References(folder / "references", undisturbed)

    def one(index: int) -> Verdict:
        verdict = play(seed, index, folder, references, wish)
        tell(verdict)
        return verdict

    try:
        with ThreadPoolExecutor(at_a_time) as pool:
            return list(pool.map(one, indices))
    finally:
        references.queue.end()


def undisturbed(references: References, job: Job, edition: int) -> Reference:
    """Run a job that nothing disturbs, one task at a time."""
    own = references.folder / f"{job.kind} {edition}"
    shutil.rmtree(own, ignore_errors=True)
    with home_of(own) as home:
        plain = Job(job.kind, "serial")
        this = Round(0, 0, own, random.Random(0), plain, references, home, edition=edition)
        this.lay_out()
        notes = own / "notes"
        variables = (
            {} if shim.missing() else shim.environment(references.library(), this.out, notes)
        )
        ended = await_end(this, begin(this, *this.line(), environment=variables))
    if ended.code or this.findings:
        raise RuntimeError(
            f"an undisturbed run is not right: {job.kind}: {ended.last_words} {this.findings}"
        )
    return Reference(this.out, shim.counted(notes) if variables else {})


def home_of(folder: Path, **more: str) -> AbstractContextManager[Household]:
    """What the processes of a round live in: a folder, and no more of our environment than they
    need; `more` joins that.
    """
    (folder / "tmp").mkdir(parents=True)
    path = os.environ.get("PYTHONPATH", "")
    return household(
        folder,
        PYTHONPATH=path,
        TMPDIR=str(folder / "tmp"),
        PYTHONFAULTHANDLER="1",
        SPARK_LOCAL_IP="127.0.0.1",
        **more,
    )


def _played(this: Round, course: Callable[[Round], None]) -> str:
    """Why a round was not played; an error of its own is a finding."""
    try:
        this.lay_out()
        course(this)
    except pytest.skip.Exception as why:
        return str(why)
    except Exception as error:  # noqa: BLE001  # the campaign goes on, and reports it
        where = traceback.extract_tb(error.__traceback__)[-1]
        this.find(
            "broken",
            f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})",
        )
    return "" if this.injected or this.findings else NOTHING_HIT
