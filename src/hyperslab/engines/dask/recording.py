"""Recording: the recorder switched on in the processes of a cluster, and what they have written put
together.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import cloudpickle

from hyperslab import traffic
from hyperslab.engines.batches.patience import within
from hyperslab.engines.batches.workers import sent_by_value
from hyperslab.engines.dask import recorder
from hyperslab.traffic import Message, Operations, Traffic
from hyperslab.units import show_count

PRELOAD = "hyperslab.engines.dask.preload"
KINDS = ("scheduler", "worker", "nanny", "client")
"Kinds of processes, for each of which Dask's configuration lists modules to be preloaded."
FOLDER = "messages"
LIMIT_S = 15.0
KILLED = "its process was killed, or its disk was full"
SLOW = "the disk did not take them as fast as they came"
LENGTH_OF_LOGS = "distributed.admin.low-level-log-length"
_SAYS_WHO = {"register-client": "client", "register_nanny": "nanny"}
"Operations by which one end says what it is, where a process is several things."


class Recording:
    """The recorders of a run."""

    def __init__(self, client: Any, folder: Path) -> None:
        self._client = client
        self.folder = folder / FOLDER
        self._plugin = f"hyperslab-recorder-{os.urandom(4).hex()}"
        "Name of this run's own: other runs may record on the same cluster."
        self.notes: list[str] = []
        self.transfers: list[dict[str, Any]] = []
        self._since_ns = time.time_ns()
        self._begin(str(self.folder))

    def _begin(self, folder: str) -> None:
        """Record here, on the scheduler, and on all workers, also on those that join later."""
        with suppress(OSError):  # every recorder tells of it
            self.folder.mkdir(parents=True, exist_ok=True)
        recorder.start(folder, "driver")
        with (
            sent_by_value(cloudpickle, recorder),
            sent_by_value(cloudpickle, traffic),
        ):
            try:
                within(
                    LIMIT_S, lambda: self._client.run_on_scheduler(recorder.start, folder, "led")
                )
            except OSError as error:  # TimeoutError is one
                why = f"the scheduler does not record its messages ({error})"
                self.notes.append(f"{why}: they are as the other ends have seen them")
            plugin = _plugin(self._plugin, recorder.start, recorder.stopped, folder)
            try:
                within(LIMIT_S, lambda: self._client.register_plugin(plugin))
            except OSError as error:
                why = f"workers may not record their messages ({error})"
                self.notes.append(f"{why}: those that do not are as the other ends have seen them")

    def end(self, is_lost: bool) -> None:
        """End them; of a cluster that is out of reach, in this process alone."""
        folder = str(self.folder)
        if not is_lost:
            with sent_by_value(cloudpickle, recorder), sent_by_value(cloudpickle, traffic):
                try:
                    self._keep_transfers()
                    within(LIMIT_S, lambda: self._client.unregister_worker_plugin(self._plugin))
                    within(LIMIT_S, lambda: self._client.run_on_scheduler(recorder.stopped, folder))
                    self.notes += _lost(self._client, folder)
                except Exception as error:  # noqa: BLE001  # whatever a dying cluster raises
                    self.notes.append(f"the recorders were not ended ({error})")
        recorder.stop(folder)
        self.notes += _cut({"this process": recorder.lost(folder)})

    def _keep_transfers(self) -> None:
        """Keep what workers have fetched from each other, as far as their own logs have it."""
        told = within(LIMIT_S, lambda: self._client.run(_incoming, on_error="ignore"))
        for address, (is_full, transfers) in told.items():
            own = [*_transfers(address, transfers, self._since_ns)]
            self.transfers += own
            if is_full and len(own) == len(transfers):
                self.notes.append(
                    f"{address} keeps its last {len(own):,} transfers alone: earlier ones are"
                    f" missing; start the cluster with more by {LENGTH_OF_LOGS}"
                )

    def traffic(self) -> Traffic:
        """What all processes have written, whose files are removed."""
        found = gathered(self.folder, remove=True)
        found.meta["notes"] = [*self.notes, *found.meta["notes"]]
        found.meta["transfers"] = self.transfers
        return found


def _plugin(called: str, begin: Any, end: Any, folder: str) -> Any:
    """What Dask sets up on every worker, those that join later included."""
    from distributed import WorkerPlugin

    class Recorder(WorkerPlugin):
        name = called

        def setup(self, worker: Any) -> None:
            begin(folder, "led")

        async def teardown(self, worker: Any) -> None:
            await end(folder)

    return Recorder()


def _lost(client: Any, folder: str) -> Iterator[str]:
    """What processes of the cluster did not record, of those that know."""
    of_scheduler = within(LIMIT_S, lambda: client.run_on_scheduler(recorder.lost, folder))
    yield from _cut({"the scheduler": of_scheduler})
    of_workers = within(LIMIT_S, lambda: client.run(recorder.lost, folder, on_error="ignore"))
    yield from _cut(of_workers)


def _cut(reasons: Mapping[str, str]) -> Iterator[str]:
    for who, why in reasons.items():
        if why:
            yield f"{who} could not record all of its messages ({why})"


def _transfers(
    address: str, transfers: Iterable[tuple[Any, ...]], since_ns: int
) -> Iterator[dict[str, Any]]:
    """What a worker has fetched from others since then."""
    for start_s, stop_s, who, nbytes, keys in transfers:
        if stop_s * 1e9 < since_ns:
            continue  # of somebody before
        yield {
            "start_ns": int(start_s * 1e9),
            "end_ns": int(stop_s * 1e9),
            "source": who.rpartition("://")[2],
            "target": address.rpartition("://")[2],
            "nbytes": nbytes,
            "keys": keys,
        }


def _incoming(dask_worker: Any) -> tuple[bool, list[tuple[Any, ...]]]:
    """Whether the log of a worker forgets its first transfers from now on; and what it has."""
    log = dask_worker.transfer_incoming_log
    told = [
        (one["start"], one["stop"], one["who"], one["total"], [*map(str, one["keys"])])
        for one in log
    ]
    return len(log) == log.maxlen, told


def settings(folder: Path) -> dict[str, str]:
    """Variables of the environment with which a Dask program of the user's own is recorded."""
    from dask import config

    variables = {"HYPERSLAB_MESSAGES": str(folder.absolute())}
    for kind in KINDS:
        loaded = config.get(f"distributed.{kind}.preload", [])
        if isinstance(loaded, str):
            loaded = [loaded]
        others = [module for module in loaded if module != PRELOAD]
        variables[f"DASK_DISTRIBUTED__{kind.upper()}__PRELOAD"] = repr([*others, PRELOAD])
    return variables


def gathered(*folders: Path, remove: bool = False) -> Traffic:
    """Put together what the processes of a cluster have written into folders. Raises ValueError for
    what no recorder has written.
    """
    nodes: dict[str, str] = {}
    notes: list[str] = []
    messages: list[Message] = []
    found = [path for folder in folders for path in sorted(folder.glob(f"*{recorder.SUFFIX}"))]
    files = {path.name: path for path in found}  # a folder may be there under two names
    for path in files.values():
        told = _Process(path)
        messages += told.messages
        nodes |= told.nodes()
        if told.torn:
            notes.append(f"{path.name} ends in the middle of a line: {KILLED}")
        if told.missed:
            notes.append(f"{path.name} misses {show_count(told.missed, 'message')}: {SLOW}")
    if remove:
        _remove([*folders], found)
    messages.sort(key=attrgetter("time_ns"))
    meta = {"nodes": nodes, "notes": notes, "processes": len(files)}
    return Traffic.of(messages, "recorded", meta)


def _rows(line: Mapping[str, Any]) -> Iterator[tuple[int, Any, Operations, int]]:
    """Time, way, operations and size of each message of a line."""
    if "rows" not in line:
        return
    said = [tuple((name, count) for name, count in one) for one in line["said"]]
    for since_ns, way, place, nbytes in zip(*line["rows"], strict=True):
        yield line["from_ns"] + since_ns, line["ways"][way], said[place], nbytes


def _remove(folders: Iterable[Path], files: Iterable[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)
    for folder in folders:
        (folder / recorder.LEASE).unlink(missing_ok=True)
        with suppress(OSError):  # a worker that has come in the meantime
            folder.rmdir()


class _Process:
    """What one process has written."""

    def __init__(self, path: Path) -> None:
        self.messages: list[Message] = []
        self.torn = False
        self.missed = 0
        self.roles: dict[str, str] = {}
        self._locals: dict[str, str] = {}
        with path.open(encoding="utf-8") as file:
            for line in file:
                if not line.endswith("\n"):
                    self.torn = True
                    return
                self._require(path, line)

    def _require(self, path: Path, text: str) -> None:
        try:
            self._take(json.loads(text))
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(f"{path}: has lines that no recorder of messages wrote") from error

    def _take(self, line: Mapping[str, Any]) -> None:
        self.roles |= line.get("roles", {})
        self.missed += line.get("missed", 0)
        for time_ns, (is_sent, local, peer), named, nbytes in _rows(line):
            said_who = self._locals.setdefault(local, "")
            if is_sent:
                self.messages.append(Message(time_ns, local, peer, named, nbytes, "sent"))
                self._locals[local] = said_who or _SAYS_WHO.get(named[0][0], "")
                continue
            self.messages.append(Message(time_ns, peer, local, named, nbytes, "received"))

    def nodes(self) -> dict[str, str]:
        """What the process is called, by the addresses of its ends."""
        own = self.roles.get("", "client")
        nodes = {}
        for address, said_who in self._locals.items():
            nodes[address] = self.roles.get(address) or said_who or own
        listening = {address: role for address, role in self.roles.items() if address}
        return {**listening, **nodes}
