"""Processors and locks, planted: pure Python on threads, sound work, and a machine that is too
busy.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab import workloads
from hyperslab.machine.host import Host
from hyperslab.report.verdict.finding import LONGER
from tests.system.verdicts.planted import TOTAL, count_up, finding, first, naming, spin, verdict_of

VOLUME = np.random.default_rng(0).integers(0, 3000, (36, 512, 1536), dtype=np.int16)

pytestmark = pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(),
    reason=(
        "this kernel does not tell how long threads queue for a processor; run on Linux with"
        " schedstats"
    ),
)


def histogram() -> hyperslab.Pipeline:
    return workloads.build("histogram-python", hyperslab.Pipeline(VOLUME), {})


def test_pure_python_on_threads_is_bound_by_the_lock_and_on_processes_it_is_not() -> None:
    on_threads = naming("gil", lambda: verdict_of(histogram(), blocks=8, workers=1, threads=2))
    assert first(on_threads) == "gil"
    assert "--workers 2 --threads 1" in on_threads.paragraph
    on_processes = naming("compute-bound", lambda: verdict_of(histogram(), blocks=8, threads=1))
    assert first(on_processes) == "compute-bound"
    assert "gil" not in {f.rule for f in on_processes.findings}


def test_the_engine_of_threads_is_told_to_become_processes() -> None:
    verdict = naming(
        "gil", lambda: verdict_of(histogram(), blocks=8, engine="threads", workers=1, threads=2)
    )
    assert first(verdict) == "gil"
    assert "--engine processes --workers 2 --threads 1" in verdict.paragraph


def test_sound_work_is_called_so() -> None:
    pipeline = hyperslab.Pipeline(VOLUME).map(count_up).reduce(TOTAL)
    verdict = naming("compute-bound", lambda: verdict_of(pipeline, blocks=16))
    assert first(verdict) == "compute-bound"
    assert finding(verdict, "compute-bound").share > 0.5
    assert not {"stragglers", "too-few-partitions", "engine-overhead"} & {
        f.rule for f in verdict.findings
    }


@contextmanager
def crowd(processes: int) -> Iterator[None]:
    """Other programs that want a processor: no descendants of this process, so not of the run
    either.
    """
    one = 'timeout 60 sh -c "while :; do :; done" >/dev/null 2>&1 & echo $!'
    # The shell ends at once, which leaves its children to the system.
    script = f"for i in $(seq {processes}); do {one}; done"
    pids = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    try:
        yield
    finally:
        subprocess.run(["kill", *pids], check=True)


def test_a_machine_that_others_use_is_called_so_beside_the_verdict() -> None:
    with crowd(2 * Host.here().cpus):
        pipeline = hyperslab.Pipeline(VOLUME).map(spin, params={"seconds": 0.1}).reduce(TOTAL)
        verdict = naming("compute-bound", lambda: verdict_of(pipeline, blocks=16))
    assert first(verdict) == "compute-bound"
    starved = finding(verdict, "cpu-starved")
    assert starved.sentence in verdict.paragraph
    assert "took longer than it need have" in starved.sentence
    is_cautious = verdict.is_doubtful or starved.share >= LONGER
    assert verdict.caution.startswith(starved.sentence) == is_cautious
    assert "less certain" not in verdict.paragraph, "processor work is that, whoever queues for it"
    assert "queued for a processor" in starved.evidence
    assert "with other processes" in starved.evidence
