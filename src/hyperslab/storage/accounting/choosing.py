"""Ways to count operations on files, the best that works here first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.storage.accounting import bpf, fuse, moved, strace

WAYS = {
    bpf.WAY: "a program in the kernel (eBPF) that looks at every call",
    fuse.WAY: "a file system of ours over one directory",
    strace.WAY: "stops at every call that has to do with files",
    moved.WAY: "sums of the kernel for every process: reads and writes alone",
}
"Ways, and what each is."
OF_EACH = (bpf.WAY, strace.WAY)
"Ways that know every operation, rather than sums alone."


@dataclass(frozen=True, slots=True)
class Chosen:
    """The way that was taken, and why no better one was."""

    way: str
    passed_over: dict[str, str]
    "Reasons against better ways, by their names."
    directory: Path | None = None
    "Directory that a file system of ours counts on."

    @property
    def knows_each(self) -> bool:
        """Whether every operation is known, rather than sums alone."""
        return self.way in OF_EACH


def choose(asked: str | None, directory: Path | None) -> Chosen:
    """The way that is asked for, or the best one that works here. Raises UsageError where none
    does.
    """
    if directory is not None and asked not in (None, fuse.WAY):
        raise UsageError(f"--on {directory} is for --way {fuse.WAY}, not {asked}")
    if asked is None and directory is not None:
        asked = fuse.WAY
    hindrances = hindrances_on(directory)
    if asked is not None:
        return _asked(asked, hindrances, directory)
    return _best(hindrances, directory)


def choose_of_each() -> Chosen:
    """The best way that works here and knows every operation. Raises UsageError where none does."""
    hindrances = hindrances_on(None)
    return _best({way: hindrances[way] for way in OF_EACH}, None)


def hindrances_on(directory: Path | None) -> dict[str, Callable[[], str]]:
    """Functions that say why a way cannot count, '' for nothing, by the ways, the best first."""
    return {
        bpf.WAY: bpf.why_not,
        fuse.WAY: lambda: fuse.why_not(directory),
        strace.WAY: strace.why_not,
        moved.WAY: moved.why_not,
    }


def _best(hindrances: Mapping[str, Callable[[], str]], directory: Path | None) -> Chosen:
    """The first way that nothing hinders."""
    passed_over: dict[str, str] = {}
    for way, why_not in hindrances.items():
        why = why_not()
        if not why:
            return Chosen(way, passed_over, directory)
        passed_over[way] = why
    reasons = "; ".join(f"{way}: {why}" for way, why in passed_over.items())
    raise UsageError(f"operations on files cannot be counted here: {reasons}")


def _asked(
    asked: str, hindrances: Mapping[str, Callable[[], str]], directory: Path | None
) -> Chosen:
    if asked not in WAYS:
        raise UsageError(f"--way {asked}: give one of {', '.join(WAYS)}")
    if why := hindrances[asked]():
        raise UsageError(f"--way {asked}: {why}")
    return Chosen(asked, {}, directory)
