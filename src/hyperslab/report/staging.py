"""What staging came to, in words: what went by way of fast tiers, and what that gained or cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperslab.units import show_bytes, show_count, show_seconds


def staging_lines(meta: Mapping[str, Any]) -> list[str]:
    """Clauses about copies, blocks, and what has become of the tiers, of the trace's meta; none
    where nothing was staged.
    """
    told = meta.get("staging") or {}
    return [*_copied(told.get("in")), *_flushed(told.get("out")), *told.get("notes", ())]


def degraded(meta: Mapping[str, Any]) -> Sequence[str]:
    """Why a tier was not used for all that it was asked for; none where it was."""
    told = meta.get("staging") or {}
    if not told.get("is_degraded"):
        return ()
    return tuple(told["notes"])


def _copied(told: Mapping[str, Any] | None) -> Iterator[str]:
    if told is None:
        return
    text = f"{show_count(told['files'], 'file')} ({show_bytes(told['nbytes'])}) copied ahead"
    text += f" to {told['tier']}"
    if told["files"]:
        text += f" in {show_seconds(told['read_s'] + told['write_s'])}"
    if told["evicted_files"]:
        text += f", {told['evicted_files']:,} of them removed when no task needed them any more"
    yield text


def _flushed(told: Mapping[str, Any] | None) -> Iterator[str]:
    if told is None:
        return
    text = f"{show_count(told['blocks'], 'block')} ({show_bytes(told['nbytes'])}) by way of"
    text += f" {told['tier']}"
    if told["blocks"]:
        left = show_seconds(told["stage_s"])
        written = show_seconds(told["write_s"])
        text += f": tasks left them there in {left}, and they were written behind them in {written}"
    yield text
    if told["direct_tasks"]:
        tasks = show_count(told["direct_tasks"], "task")
        yield f"{tasks} wrote {show_bytes(told['direct_nbytes'])} directly"
    if told["lost"]:
        yield f"{show_count(told['lost'], 'task')} done again, whose blocks the tier had lost"
