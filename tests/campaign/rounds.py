"""Rounds: what each is given, and what came of it."""

from __future__ import annotations

import random
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign import jobs, shim
from tests.campaign.jobs import Job
from tests.campaign.queue import Queue
from tests.system.clusters.processes import Household

OLD = 1
"Edition of what is there before, where a job replaces something."
FAULTS = ("wrong", "torn", "lost", "hung", "orphaned", "left behind", "unhelpful", "broken")
"What may be found; the last is an error of the campaign itself."


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not right."""

    fault: str
    "One of FAULTS."
    what: str


@dataclass(frozen=True, slots=True)
class Reference:
    """What an undisturbed run of a job has left."""

    out: Path
    calls: dict[str, int]
    "How many calls of each kind it made below its output directory."


@dataclass(slots=True)
class References:
    """Undisturbed runs and sources, each made once; used by several rounds at a time."""

    folder: Path
    make: Callable[[References, Job, int], Reference]
    _locks: defaultdict[str, threading.Lock] = field(
        default_factory=lambda: defaultdict(threading.Lock)
    )
    _known: dict[str, Reference] = field(default_factory=dict)
    queue: Queue = field(init=False)
    "The batch system of those rounds whose tasks are its jobs."

    def __post_init__(self) -> None:
        self.queue = Queue(self.folder / "queue")

    def of(self, job: Job, edition: int = 0) -> Reference:
        """That of a job whose sources are of an edition."""
        key = f"{job.kind}.{edition}"
        with self._locks[key]:
            if key not in self._known:
                self._known[key] = self.make(self, job, edition)
            return self._known[key]

    def source(self, name: str, edition: int = 0) -> Path:
        """What jobs read, to be copied."""
        folder = self.folder / "sources" / f"{edition}"
        with self._locks[f"source {name} {edition}"]:
            if not (folder / name).exists():
                folder.mkdir(parents=True, exist_ok=True)
                jobs.make_source(name, folder, edition)
        return folder / name

    def library(self) -> Path:
        """The compiled shim."""
        with self._locks["shim"]:
            return shim.compiled(self.folder)


@dataclass(slots=True)
class Round:
    """One round: its job, its folder, and what is found in its course."""

    seed: int
    index: int
    folder: Path
    chance: random.Random
    job: Job
    references: References
    home: Household
    injected: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    repeated: int = 0
    edition: int = 0
    "Of the sources, by now."
    begun: int = 0
    "Commands."
    inside: tuple[str, ...] = ()
    "What stands before every command."
    elsewhere: tuple[Path, Path] | None = None
    """The output directory as commands name it and as it is seen from here, if it is on another
    file system.
    """

    @property
    def out(self) -> Path:
        """The output directory, as commands name it."""
        return self.elsewhere[0] if self.elsewhere else self.folder / "out"

    @property
    def seen(self) -> Path:
        """The output directory, as it is seen from here."""
        return self.elsewhere[1] if self.elsewhere else self.folder / "out"

    def line(self, *more: str, out: Path | None = None) -> list[str]:
        """The job's command."""
        return self.job.line(self.folder, out or self.out, *more)

    def place(self, out: Path | None = None) -> Path:
        """What the other verbs are told."""
        return self.job.place(out or self.out)

    def find(self, fault: str, what: str) -> None:
        """Take note of a fault; what is seen again is the same one."""
        if (finding := Finding(fault, what)) not in self.findings:
            self.findings.append(finding)

    def inject(self, what: str) -> None:
        self.injected.append(what)

    def reference(self) -> Reference:
        return self.references.of(self.job, self.edition)

    def lay_out(self) -> None:
        """Put the sources into the folder."""
        source = self.references.source(self.job.about.reads, self.edition)
        (self.folder / "runs").mkdir()
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, self.folder / source.name)
        if self.job.replaces:
            self._lay_out_the_old()

    def _lay_out_the_old(self) -> None:
        """Put a complete file of other values where the job's is to be."""
        old = self.job.place(self.references.of(self.job, OLD).out)
        self.out.mkdir()
        copy = shutil.copytree if old.is_dir() else shutil.copy2
        copy(old, self.place())
