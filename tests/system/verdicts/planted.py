"""Runs in which one bottleneck was planted, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

import hyperslab
from hyperslab.arrays import Array
from hyperslab.report.verdict import Finding, Verdict, judge

TRIALS = 4
TOTAL = hyperslab.Fold(lift=lambda block: int(block.sum(dtype=np.int64)), merge=lambda a, b: a + b)


def save(path: Path, shape: tuple[int, ...]) -> Path:
    """Write an int16 image; nobody looks at its values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(np.ones(shape, np.int16), np.eye(4)), path)  # type: ignore[no-untyped-call]
    return path


def run_and_judge(
    pipeline: hyperslab.Pipeline, **settings: Any
) -> tuple[hyperslab.Result, Verdict]:
    """Run on two workers, unless `settings` say otherwise, and judge; what was said is printed."""
    result = hyperslab.run(
        pipeline, **{"engine": "processes", "workers": 2, "check": False, **settings}
    )
    verdict = judge(result.trace, result.summary)
    print(verdict.paragraph, *verdict.findings, sep="\n")
    return result, verdict


def verdict_of(pipeline: hyperslab.Pipeline, blocks: int, **settings: Any) -> Verdict:
    """Run in so many blocks along the first axes and judge."""
    return run_and_judge(pipeline, rule=hyperslab.Rule("blocks", (blocks,)), **settings)[1]


def naming(rule: str, run: Callable[[], Verdict]) -> Verdict:
    """The verdict on a run that is repeated while a machine short of processors keeps it from
    putting `rule` first.

    The bottleneck is then another one, and such a verdict says that the machine was short.
    """
    for _ in range(TRIALS - 1):
        verdict = run()
        if first(verdict) == rule or "cpu-starved" not in {f.rule for f in verdict.findings}:
            return verdict
    return run()


def first(verdict: Verdict) -> str:
    """The rule that the verdict puts first, but for the engine's start, which these short runs do
    not hide.
    """
    return next((found.rule for found in verdict.findings if found.rule != "start-up"), "none")


def finding(verdict: Verdict, rule: str) -> Finding:
    """What a rule found; fails when it found nothing."""
    return next(f for f in verdict.findings if f.rule == rule)


def count_up(block: Array, steps: int = 4_000_000) -> Array:
    """A pure Python loop: uses the processor, keeps the interpreter's lock."""
    number = 0
    for step in range(steps):
        number += step
    return block


def spin(block: Array, seconds: float) -> Array:
    """Use the processor for so many seconds of its time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return block
