"""Said again: the messages of a run, sent once more between two ends in one process, with a
recorder and without it, in turns.

A recorder takes some microseconds of a processor for a message, and two runs of a cluster differ by
far more, whatever they do. Of the same messages alone, by Dask's own transport, the turns differ by
what the recorder takes: until its rows are written, put together, and kept as Parquet.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from distributed.comm.core import Comm, connect, listen

from hyperslab.engines.dask import recorder, recording
from hyperslab.traffic import FILE, Traffic

ANSWER = "reply:"
"How the names of answers begin, which name nothing themselves."
KEY = "sleep-0123456789abcdef0123456789abcdef"


def messages_of(traffic: Traffic) -> list[Any]:
    """Messages that name what those of a run have named, each once."""
    once = traffic.seen_once()
    names = ("message", "operation", "count")
    said: dict[int, list[str]] = defaultdict(list)
    columns = (once.columns[name].tolist() for name in names)
    for number, operation, count in zip(*columns, strict=True):
        said[number] += [once.operations[operation]] * count
    return [*map(_message, said.values())]


def _message(operations: Sequence[str]) -> Any:
    if operations[0].startswith(ANSWER):
        return {"status": "OK"}
    return [{"op": name, "key": KEY} for name in operations]


class Turns(NamedTuple):
    """Seconds of a processor that the same messages have taken, by pairs of turns."""

    plain_s: list[float]
    recorded_s: list[float]

    @property
    def differences_s(self) -> list[float]:
        """What recording took, of each pair."""
        pairs = zip(self.plain_s, self.recorded_s, strict=True)
        return [recorded_s - plain_s for plain_s, recorded_s in pairs]

    @property
    def least_s(self) -> float:
        """What recording takes by the shortest turns: others on a machine make them longer, also in
        processor time, and never shorter.
        """
        return min(self.recorded_s) - min(self.plain_s)


def turns_of(messages: Sequence[Any], folder: Path, number: int) -> Turns:
    """Send messages with a recorder at both ends and without it, in so many pairs of turns, and one
    before that does not count.
    """
    coin = random.Random(2)
    found = Turns([], [])
    for _ in range(number + 1):
        spent = {records: _spent_s(messages, folder, records) for records in coin.sample((0, 1), 2)}
        found.plain_s.append(spent[0])
        found.recorded_s.append(spent[1])
    return Turns(found.plain_s[1:], found.recorded_s[1:])


def _spent_s(messages: Sequence[Any], folder: Path, records: int) -> float:
    if records:
        recorder.start(str(folder))
    began_s = time.process_time()
    asyncio.run(_exchange(messages))
    if records:
        _keep(folder, 2 * len(messages))
    return time.process_time() - began_s


def _keep(folder: Path, records: int) -> None:
    """Keep what was recorded. Raises RuntimeError where that is less than it should be."""
    recorder.stop(str(folder))
    traffic = recording.gathered(folder, remove=True)
    traffic.save(folder.with_name(FILE))
    if len(traffic) < records:
        raise RuntimeError(f"{len(traffic)} records of messages, and not {records}")


async def _exchange(messages: Sequence[Any]) -> None:
    have_arrived = asyncio.Event()

    async def hear(comm: Comm) -> None:
        for _ in messages:
            await comm.read()
        have_arrived.set()
        await comm.close()

    async with listen("tcp://127.0.0.1", hear) as listener:
        comm = await connect(listener.contact_address)
        for message in messages:
            await comm.write(message)
        await have_arrived.wait()
        await comm.close()
