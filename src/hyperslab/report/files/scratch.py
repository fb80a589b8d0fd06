"""Whether what is shuffled or evicted waits for names and attributes, and what to do about that.

Cause and size of it on Lustre: Chaimov et al., Scaling Spark on HPC Systems (HPDC 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hyperslab.accesses import ON_NAMES
from hyperslab.report.files.numbers import Group
from hyperslab.report.files.phases import EVICTION, REREAD, SHUFFLE_READ, SHUFFLE_WRITE
from hyperslab.units import show_count, show_list, show_seconds, show_share

PHASES = (SHUFFLE_WRITE, SHUFFLE_READ, EVICTION, REREAD)
SLOW_S = 3e-4
"""Time by which an operation on names of scratch space takes longer than one on other files, above
which that space is slow at them: both hold what counts and a busy machine add, a local file system
takes some microseconds, and a server a round trip and its queue.
"""
ADVICE = (
    "Put what is shuffled and evicted into an image on that storage, or into memory (--scratch"
    " image:DIR, --scratch tmpfs; --scratch auto chooses). Fewer partitions help, too: the number"
    " of files grows with the product of map and reduce tasks. Spark's setting"
    " spark.shuffle.sort.bypassMergeThreshold=1 saves a third of the opens of a shuffle with up to"
    " 200 reduce tasks, and nearly all files that it makes; spark.shuffle.checksum.enabled=false"
    " saves a file for each map task. hyperslab sets neither."
)


@dataclass(frozen=True, slots=True)
class SlowScratch:
    """Time that shuffling or evicting took for names and attributes."""

    phases: tuple[str, ...]
    operations: int
    seconds: float
    "Time of all threads together."
    data_s: float
    "Time of the bytes."
    elsewhere_s: float
    "Mean time of an operation on names of other files; 0 where there were none."

    @property
    def each_s(self) -> float:
        """Mean time of an operation."""
        return self.seconds / self.operations

    @property
    def excess_s(self) -> float:
        """Time beyond that of as many operations elsewhere."""
        return self.seconds - self.operations * self.elsewhere_s

    def sentence(self, share: float) -> str:
        """What limited a run, of whose slots' time it is so much."""
        return (
            f"The metadata of the scratch space limited this run: {show_share(share)} of the slots'"
            f" time went into names and attributes of files for {show_list(self.phases)}, not into"
            " their bytes."
        )

    def sentence_of_command(self) -> str:
        """The same of a command, whose threads nobody has counted."""
        return (
            "The scratch space is slow at metadata: threads waited for names and attributes of"
            f" files for {show_list(self.phases)}, not for their bytes."
        )

    def evidence(self) -> str:
        """The numbers that this rests on."""
        return (
            f"{show_count(self.operations, 'operation')} took {show_seconds(self.each_s)} each,"
            f" {show_seconds(self.seconds)} in all ({show_seconds(self.elsewhere_s)} each on other"
            f" files); reading and writing took {show_seconds(self.data_s)}."
        )


def slow_scratch(groups: Sequence[Group]) -> SlowScratch | None:
    """What the phases of groups say of the scratch space; None where it is fast, or nothing is
    shuffled or evicted.
    """
    chosen = [group for group in groups if group.names.get("phase") in PHASES]
    others = [group for group in groups if group not in chosen]
    operations, seconds = _names_of(chosen)
    if not operations:
        return None
    number, elsewhere_s = _names_of(others)
    data_s = sum(group.seconds("read", "write") or 0.0 for group in chosen)
    phases = tuple(name for name in PHASES if any(one.names["phase"] == name for one in chosen))
    each_elsewhere_s = elsewhere_s / max(1, number)
    found = SlowScratch(phases, operations, seconds, data_s, each_elsewhere_s)
    if found.excess_s < SLOW_S * operations or seconds < data_s:
        return None
    return found


def _names_of(groups: Sequence[Group]) -> tuple[int, float]:
    """Number of operations on names, and their time."""
    number = sum(group.requested(*ON_NAMES) for group in groups)
    return number, sum(group.seconds(*ON_NAMES) or 0.0 for group in groups)
