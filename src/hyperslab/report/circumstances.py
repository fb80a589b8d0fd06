"""Circumstances: under what a run's numbers came about, in words: load, clocks, cache, the engine's
own times.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from hyperslab.report.curves import device_words
from hyperslab.trace import Trace
from hyperslab.units import show_bytes, show_count, show_seconds, show_share

CACHE_POLICY = (
    "caches as they were: hyperslab drops none, so data read or written shortly before may come"
    " from memory"
)

STALLS = {"cpu": "a processor", "io": "input and output"}


def circumstances(trace: Trace) -> dict[str, str]:
    """What `trace.meta` tells of the run (keys wall_anchor, run, load, clocks, own_times, probe,
    storage), by name, in words.
    """
    meta = trace.meta
    known = {
        "started": started(trace),
        "slots": _slots(meta.get("run", {})),
        "connected to": str(meta.get("run", {}).get("connect") or ""),
        "load during the run": "; ".join(_load(meta.get("load") or {})),
        "clocks": "; ".join(_clocks(meta.get("clocks") or {})),
        "the engine's own times": _own_times(meta.get("own_times") or {}),
        "device": "; ".join(filter(None, (device_words(trace), _why_not_probed(meta)))),
        "staging": "; ".join(staged(meta)),
        "cache policy": "",
    }
    if trace.origin == "measured":
        known["cache policy"] = CACHE_POLICY
    return {name: text for name, text in known.items() if text}


def started(trace: Trace) -> str:
    """When the run began, by the wall clock of its driver; '' when the trace does not tell."""
    anchor = trace.meta.get("wall_anchor")
    start_ns = trace.meta.get("start_ns")
    if not anchor or start_ns is None:
        return ""
    wall_ns = anchor["time_ns"] - (anchor["monotonic_ns"] - start_ns)
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(wall_ns / 1e9))


def _why_not_probed(meta: Mapping[str, Any]) -> str:
    """Why nothing is known of storage that was probed; '' where that is not so."""
    return str((meta.get("probe") or {}).get("why_not") or "")


def _slots(run: Mapping[str, Any]) -> str:
    if not run.get("workers"):
        return ""
    words = [
        f"{show_count(run['workers'], 'worker')} x {show_count(run.get('threads', 1), 'thread')}"
    ]
    if run.get("cpus"):
        words.append(f"on {show_count(run['cpus'], 'processor')}")
    if run.get("memory_nbytes"):
        words.append(f"with {show_bytes(run['memory_nbytes'])} for all tasks")
    text = " ".join(words)
    if run.get("granularity"):
        text += f"; {run['granularity']}"
    return text


def _load(load: Mapping[str, Any]) -> Iterator[str]:
    """What else kept the driver's machine busy; what it could not tell is left out."""
    parts = {
        "by this run": "own_share",
        "by others": "others_share",
        "taken by the hypervisor": "stolen_share",
    }
    shares = [f"{show_share(load[key])} {who}" for who, key in parts.items() if load.get(key)]
    if shares:
        yield f"{show_count(load['cpus'], 'processor')} busy: {', '.join(shares)}"
    if load.get("load_average") is not None:
        yield f"load average {load['load_average']:.2f}"
    for name, share in (load.get("stalled_shares") or {}).items():
        resource, _, extent = name.partition("_")
        if share:
            who = "some"
            if extent == "full":
                who = "all"
            yield (
                f"{who} programs waited for {STALLS.get(resource, resource)} {show_share(share)} of"
                " the time"
            )
    for way in ("in", "out"):
        if load.get(f"swapped_{way}_nbytes"):
            yield f"{show_bytes(load[f'swapped_{way}_nbytes'])} swapped {way}"
    if (load.get("group") or {}).get("throttled_share"):
        yield (
            f"throttled by the control group for {show_share(load['group']['throttled_share'])} of"
            " the time"
        )


def staged(meta: Mapping[str, Any]) -> list[str]:
    """What staging came to; none where nothing was staged."""
    if not meta.get("staging"):
        return []
    from hyperslab.report.staging import staging_lines

    return staging_lines(meta)


def _clocks(clocks: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for host, clock in clocks.items():
        if clock["how"] == "same clock":
            yield f"{host}: the driver's own"
            continue
        error = clock.get("error_ns")
        bound = ""
        if error is not None:
            bound = f" ± {error / 1e6:.3g} ms"
        yield (
            f"{host}: {clock['offset_ns'] / 1e6:+.3g} ms{bound} against the driver,"
            f" {_how(clock['how'])}"
        )


def _how(how: str) -> str:
    if how == "wall clocks":
        return "by wall clocks, not measured"
    return how


def _own_times(own: Mapping[str, Any]) -> str:
    if not own:
        return ""
    return (
        f"{own['source']}: {show_count(own['tasks'], 'task')} took {show_seconds(own['engine_s'])},"
        f" by our spans {show_seconds(own['ours_s'])}; at most {own['worst_outside_ms']:.3g} ms of"
        " a span lie outside its task"
    )
