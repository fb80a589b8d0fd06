"""What must hold of the verdict on any run: it gives no advice that the array, the slots or the
planner leave no room for, and names what took most.
"""

from __future__ import annotations

import re

from hyperslab.report.summary import Summary, split
from hyperslab.report.verdict import EXPLAINS, Verdict
from hyperslab.report.verdict.finding import SHORT_S
from hyperslab.report.verdict.remedies import COSTLY_S
from hyperslab.trace import Trace


def number_in(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    if found is None:
        return None
    return int(found[1].replace(",", ""))


def assert_sound(trace: Trace, summary: Summary, verdict: Verdict) -> None:
    """What must hold of any verdict."""
    if summary.makespan_s < SHORT_S:
        assert not verdict.findings
        assert "too short" in verdict.paragraph
        return
    assert_possible(trace, summary, verdict)
    assert_agreed(trace, verdict)
    assert_largest(summary, verdict)


def assert_possible(trace: Trace, summary: Summary, verdict: Verdict) -> None:
    """No advice beyond the array, beyond the slots, or against the plan's own choice."""
    run = trace.meta["run"]
    text = " ".join(finding.text for finding in verdict.findings)
    slots = len(trace.slots)
    larger = number_in(r"([\d,]+) times larger", text)
    blocks = number_in(r"--blocks (\d+)", text)
    workers = number_in(r"--workers (\d+)", text)
    if larger is not None:
        assert run["rule"] != "auto"
        assert run["blocks"] / larger >= max(slots, run["arrays"])
    if run["rule"] == "auto":
        assert not re.search("arger blocks", text)
    if blocks is not None:
        assert run["blocks"] < blocks * run["arrays"] <= run["most_blocks"]
        assert run["rule"] != "auto" or summary.busy_s / summary.tasks >= COSTLY_S / 6
    if workers is not None:
        threads = number_in(r"--threads (\d+)", text) or run["threads"]
        assert workers * threads <= max(run["cpus"], slots)
    if summary.tasks <= slots:
        assert "more slots" not in text
    if slots == 1:
        assert "fewer --workers" not in text
        assert "half the --workers" not in text
    if run.get("has_one_slot"):
        assert re.search(r"(?<!--engine processes )--workers", text) is None
    if run.get("connect") and not run.get("takes_slots"):
        assert "--workers" not in text, "a cluster has the slots that it has"
    if re.search(r"\blong\b", text):
        assert summary.busy_s / summary.tasks > 0.1
    assert not ("larger" in verdict.remedy and "smaller blocks" in verdict.remedy)


OPPOSITE = (
    ("more slots", "fewer slots"),
    ("more slots", "a quiet machine"),
    ("larger blocks", "smaller blocks"),
    ("processes", "threads"),
    ("compressed", "plain"),
    ("nothing is wrong", "something is"),
)
SAYS = {
    "more slots": r"use more slots|more slots would|a cluster with more slots|more slots \(",
    "fewer slots": r"fewer --workers|half the |a smaller cluster|no more slots than|serial:",
    "a quiet machine": r"when it is quiet",
    "larger blocks": r"arger blocks|times larger",
    "smaller blocks": r"smaller blocks|Cut about",
    "processes": r"processes instead of threads",
    "threads": r"--engine (processes or )?threads",
    "compressed": r"compressed chunks",
    "plain": r"to \.nii\b",
    "nothing is wrong": r"Nothing is wrong",
    "something is": r"\b(Use|Cut|Put|Make|Convert|Fix)\b",
}
"How advice pulls in a direction, in its words."


def assert_agreed(trace: Trace, verdict: Verdict) -> None:
    """No two pieces of advice on one page that cannot both be followed."""
    advice = " ".join(finding.advice for finding in verdict.findings)
    pulls = {name for name, words in SAYS.items() if re.search(words, advice)}
    slots = len(trace.slots)
    for workers, threads in re.findall(r"--workers (\d+)(?: --threads (\d+))?", advice):
        asked = int(workers) * int(threads or trace.meta["run"]["threads"])
        if asked != slots:
            pulls.add("more slots" if asked > slots else "fewer slots")
    for pair in OPPOSITE:
        assert not pulls.issuperset(pair), (pair, advice)


def assert_largest(summary: Summary, verdict: Verdict) -> None:
    """The cause that is named first claims most, and no other part of the time was larger unless
    the start-up was.
    """
    if not verdict.findings:
        assert summary.makespan_without_startup_s < SHORT_S
        return
    first = verdict.findings[0]
    total = summary.slots * summary.makespan_without_startup_s
    largest = max(split(summary), key=lambda part: part.seconds)
    share = largest.seconds / total
    if summary.makespan_without_startup_s < SHORT_S:
        assert first.rule == "start-up"
        return
    explained = EXPLAINS.get(first.rule, (largest.label,))
    whole = share * summary.makespan_without_startup_s / summary.makespan_s
    assert largest.label in explained or first.share >= whole - 1e-9
