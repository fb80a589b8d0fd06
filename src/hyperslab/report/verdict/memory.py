"""Rule about memory: stalls, swapping, the out-of-memory killer, and workers that outgrow what they
were given.
"""

from __future__ import annotations

from hyperslab.machine.host import WORKER_BASE_BYTES
from hyperslab.report.summary import Summary
from hyperslab.report.verdict import remedies
from hyperslab.report.verdict.evidence import Evidence
from hyperslab.report.verdict.finding import Finding, listed
from hyperslab.report.verdict.processors import MEMORY_STALLED, memory_stalled
from hyperslab.units import show_bytes, show_count, show_share

SWAPPED_NBYTES = 64 * 2**20
"Less than this is what the kernel puts away on a quiet machine, too."
OUTGROWN = 1.0
"""Share of the memory that was allowed, interpreters aside: the plan is an upper bound, so this
should never happen.
"""


def pressure(evidence: Evidence, summary: Summary) -> list[Finding]:
    """Memory that was short while the run went on."""
    load = evidence.load if evidence.is_local else {}
    group = load.get("group") or {}
    stalled = memory_stalled(evidence) if load else 0.0
    elsewhere = (
        load.get("oom_kills") if summary.lost_attempts else 0
    )  # of the whole machine: they may be another's
    killed = max(elsewhere or 0, group.get("oom_kill") or 0)
    swapped = sum(load.get(f"swapped_{way}_nbytes") or 0 for way in ("in", "out"))
    said = []
    share = 0.0
    if stalled >= MEMORY_STALLED:
        said.append(
            f"some process on the machine waited for memory for {show_share(stalled)} of the time"
        )
        computing = evidence.classes["compute"]
        share = max(stalled, evidence.share(computing.waited) if computing.is_known else 0.0)
    if swapped >= SWAPPED_NBYTES:
        said.append(f"{show_bytes(swapped)} were swapped")
    if killed:
        said.append(
            f"the kernel's out-of-memory killer ended {show_count(killed, 'process', 'processes')}"
        )
        share = max(
            share, min(1.0, summary.lost_s / (evidence.total / 1e9)) if evidence.total else 0.0
        )
    said += _outgrown(evidence, summary)
    if not said:
        return []
    said += _circumstances(load)
    return [
        Finding(
            "memory-pressure",
            _sentence(stalled, killed, swapped),
            listed(said),
            _advice(evidence),
            share,
        )
    ]


def _advice(evidence: Evidence) -> str:
    less = "smaller blocks (--block-shape, --partition bytes=...)"
    if remedies.can_use_fewer(evidence):
        less = f"{remedies.fewer_slots(evidence)} or {less}"
    return (
        f"Use {less}; if the function needs more than its input and output, say so"
        " (temporaries=...), so that the plan counts it."
    )


def _sentence(stalled: float, killed: int, swapped: int) -> str:
    if stalled >= MEMORY_STALLED or killed or swapped >= SWAPPED_NBYTES:
        return "Memory was short during this run."
    return "The workers needed more memory than they were allowed."


def _outgrown(evidence: Evidence, summary: Summary) -> list[str]:
    """What the workers came to, if it is more than --memory and an interpreter each; unknown in a
    shared process.
    """
    allowed = evidence.run.get("memory_nbytes")
    if not allowed or not summary.max_rss_nbytes or evidence.is_in_caller:
        return []
    used = sum(summary.max_rss_nbytes.values()) - len(summary.max_rss_nbytes) * WORKER_BASE_BYTES
    if used <= OUTGROWN * float(allowed):
        return []
    peaks = f"the workers' peaks were {show_bytes(used)} without their interpreters"
    return [f"{peaks}, {show_bytes(allowed)} were allowed"]


def _circumstances(load: object) -> list[str]:
    """Counts that mean something only beside a shortage."""
    if not isinstance(load, dict):
        return []
    named = (
        ("major_faults", "major fault"),
        ("refaults", "refault"),
        ("allocation_stalls", "allocation stall"),
    )
    return [show_count(int(load[key]), noun) for key, noun in named if load.get(key)]
