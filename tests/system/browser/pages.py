"""Pages to be looked at, of made traces and names that are long."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hyperslab.driver.submission import Records
from hyperslab.report.compare import write_comparison
from hyperslab.report.failures import Failed, grouped
from hyperslab.report.html import write_page
from hyperslab.report.pictures import Made
from hyperslab.report.summary import summarise
from hyperslab.trace import Span, Trace

REMEDY = "try again with --accept-changed-function, --fail-fast, --axes-whole 0,1 or --memory 8GB"
COMMAND = f"hyperslab run module:smooth /data/{'long_name' * 9}.nii --workers 4 --check-locality"
MS = 10**6
KINDS = ("read", "compute", "write")
PLAN = {
    "summary": {
        "sources": {
            "source": {"kind": "independent", "files": 1, "first": "/data/brain.nii", "shape": [9]}
        },
        "steps": [{"function": "module:smooth", "params": {}}],
        "end": {"format": "nii", "keep": "blocks"},
    }
}


def made_trace(tasks: int, slots: int, longest_ms: int = 200) -> Trace:
    """Tasks that read, compute and write, back to back on every slot; the last slot is never
    used.
    """
    draw = random.Random(tasks)
    names = [f"node{i // 16:02d}/w{i % 16}/t0" for i in range(slots)]
    now = dict.fromkeys(names[:-1], 0)
    spans = []
    for task in range(tasks):
        slot = names[task % (slots - 1)]
        for kind in KINDS:
            end = now[slot] + draw.randrange(longest_ms * MS // 4, longest_ms * MS)
            nbytes = 0 if kind == "compute" else draw.randrange(10**8)
            spans.append(Span(task, 0, slot, kind, now[slot], end, nbytes, MS, 0))
            now[slot] = end
    labels = [f"brain.nii[{i}:{i + 1}]" for i in range(tasks)]
    meta = {
        "start_ns": -500 * MS,
        "ready_ns": 0,
        "end_ns": max(now.values()) + 100 * MS,
        "labels": labels,
    }
    run = {
        "engine": "processes",
        "workers": slots,
        "threads": 1,
        "memory_nbytes": slots * 2 * 10**8,
    }
    return Trace(spans, names, meta=meta | {"max_rss": dict.fromkeys(names, 10**8), "run": run})


def write(path: Path, trace: Trace, made: Sequence[Made] = ()) -> Path:
    plan = PLAN | {"tasks": len(trace.meta["labels"])}
    facts = {"engine": "processes", "plan fingerprint": "0123456789abcdef" * 4, "command": COMMAND}
    task = f"/data/{'long_name' * 9}.nii[0:64, 0:64]"
    failed = Failed(task, "FormatError", f"truncated; {REMEDY}", 1, traceback="line\n" * 9)
    failures = grouped([failed, replace(failed, task="/data/b.nii")])
    title = f"smooth over {'brain_of_a_very_long_name' * 4}.nii"
    write_page(path, trace, summarise(trace), title, facts, failures, plan, made=made)
    return path


def compare(path: Path, runs: int) -> Path:
    """Write the comparison of so many runs."""
    write_comparison(path, [_records(path.parent, n) for n in range(runs)])
    return path


def _records(folder: Path, n: int) -> Records:
    trace = made_trace(20 + n, 3)
    source = f"/data/{'long_name' * 5}{n}.nii"
    facts = {"engine": f"engine{n}", "source": source, "command": f"{COMMAND} --blocks {n}"}
    plan = PLAN | {"fingerprint": "f" * 64, "code": "c" * 64, "tasks": 20 + n}
    own = folder / f"{'a_long_name' * 6}{n}" / ".hyperslab" / "run-0001"
    return Records(own, trace, summarise(trace), "smooth", facts, (), "done", plan)
