"""The units of work of a round and how they hang together, by whatever call makes one: `submit`, or
a Delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hyperslab.engines.batches import batch, tally

FAN_IN = 8
"Tallies that an inner node of a reduction's tree merges."


def graph(
    call: Callable[..., Any], place: str, batches: Sequence[bytes], steps: int, reducing: bool
) -> list[Any]:
    """The last unit of every batch or, when reducing, the root of a tree over them."""
    level = [_chain(call, place, packed, steps) for packed in batches]
    while reducing and len(level) > 1:
        level = [
            call(tally.merge, place, level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)
        ]
    return level


def _chain(call: Callable[..., Any], place: str, packed: bytes, steps: int) -> Any:
    """A batch as one unit, or each of its steps as one and another that records."""
    if steps == 1:
        return call(batch.run, place, packed)
    x = None
    for number in range(steps):
        x = call(batch.step, place, packed, number, x)
    return call(batch.record_one, place, x)
