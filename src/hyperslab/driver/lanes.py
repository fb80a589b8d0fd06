"""Lanes: slots of engines that name them by process and thread, numbered as all engines' slots are.

On a cluster a worker knows its process and thread, not its number; a restarted one has others. The
lowest number that is free when a process (then: a thread in it) is first seen is given to it, so
lanes survive restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from hyperslab.trace import Slot

Key = TypeVar("Key")


@dataclass(slots=True)
class _Life:
    """When a process or thread was first and last seen."""

    first_ns: int
    last_ns: int


def number(seen: Iterable[tuple[Slot, int, int]]) -> dict[Slot, Slot]:
    """Slots by process and thread -> slots by number, from when each was busy: (slot, start,
    end).
    """
    workers: dict[tuple[str, int], _Life] = {}
    threads: dict[Slot, _Life] = {}
    for slot, start, end in seen:
        _extend(workers, (slot.host, slot.worker), start, end)
        _extend(threads, slot, start, end)
    by_worker: dict[tuple[str, int], int] = {}
    for host in {host for host, _ in workers}:
        by_worker |= _fill({key: life for key, life in workers.items() if key[0] == host})
    lanes: dict[Slot, Slot] = {}
    for host, worker in sorted({(host, n) for (host, _), n in by_worker.items()}):
        own = {
            s: life
            for s, life in threads.items()
            if s.host == host and by_worker[host, s.worker] == worker
        }
        lanes |= {slot: Slot(host, worker, thread) for slot, thread in _fill(own).items()}
    return lanes


def _extend(lives: dict[Key, _Life], key: Key, start: int, end: int) -> None:
    life = lives.setdefault(key, _Life(start, end))
    life.first_ns = min(life.first_ns, start)
    life.last_ns = max(life.last_ns, end)


def _fill(lives: Mapping[Key, _Life]) -> dict[Key, int]:
    """Every key's number: the lowest whose last holder had ended when it began."""
    ends: list[int] = []
    given: dict[Key, int] = {}
    for key, life in sorted(lives.items(), key=lambda item: item[1].first_ns):
        place = next((n for n, end in enumerate(ends) if end <= life.first_ns), len(ends))
        ends[place : place + 1] = [life.last_ns]
        given[key] = place
    return given
