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
from typing import Any

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


def recording_s(messages: Sequence[Any], folder: Path, turns: int) -> list[float]:
    """Seconds of a processor that recording these messages takes, at both ends: of each pair of
    turns but the first.
    """
    coin = random.Random(2)
    found = []
    for _ in range(turns + 1):
        spent = {records: _spent_s(messages, folder, records) for records in coin.sample((0, 1), 2)}
        found.append(spent[1] - spent[0])
    return found[1:]


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
