"""Links of a Dask cluster: measured between its processes, two at a time, from the first to the
last pair.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import cloudpickle

from hyperslab.engines.batches.patience import within
from hyperslab.engines.batches.workers import sent_by_value
from hyperslab.engines.dask import link_ends
from hyperslab.engines.dask.client import connect, workers_of
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.links import Effort, Network, Pair, Serialising, standing_out

CLIENT, SCHEDULER = "client", "scheduler"
ALL_PAIRS = 12
"Workers up to which each is measured with each other one."
PARTNERS = 3
"Workers that each of more is measured with, beside those that it is a partner of."
AGAIN = 2
"Times that pairs are measured again that stand out: other programs may have been in the way."
MOST_AGAIN = 12
"Pairs that are."
LIMIT_S = 60.0
"Time that a process may take for one measurement."

Tell = Callable[[int, int], None]
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A cluster whose processes listen."""

    client: Any
    token: bytes
    addresses: Mapping[str, str]
    "Addresses that workers have in Dask, by their names here."
    places: Mapping[str, Place]
    "Where nodes listen."
    notes: Sequence[str] = ()
    "Nodes that cannot listen, in sentences."

    def is_heard(self, name: str) -> bool:
        """Whether others can connect to a node: one to which they cannot measures them itself."""
        return name in self.places


def probe_links(place: str, effort: Effort, tell: Tell) -> Network:
    """Measure the links of the cluster at an address. Raises UsageError where no scheduler or no
    worker answers, RunStopped where nothing could be measured.
    """
    at_s = time.time()
    with ExitStack() as opened:
        client = connect(place)
        opened.callback(client.close, 2)
        cluster = opened.enter_context(_listening(client, place))
        asked = _asked(sorted(cluster.addresses, key=cluster.is_heard))
        pairs, unmeasured, sent = _measured(cluster, asked, effort, tell)
        notes = [*cluster.notes, *unmeasured]
        if not pairs:
            raise RunStopped(f"no link of {place} could be measured: {notes[0]}")
        odd = _odd_pairs(pairs)
        again = [_measured(cluster, odd, effort, tell) for _ in range(AGAIN)]
        serialising, silent = _serialising(cluster)
        notes += silent
    for later, more, nbytes in again:
        known = {pair.nodes: pair for pair in later}
        pairs = [pair.again(known.get(pair.nodes, _NOTHING)) for pair in pairs]
        notes += more
        sent += nbytes
    nodes = (CLIENT, SCHEDULER, *cluster.addresses)
    took_s = time.time() - at_s
    return Network(place, at_s, took_s, sent, nodes, tuple(pairs), serialising, tuple(notes))


_NOTHING = Pair("", "", (), (), ())


@contextmanager
def _listening(client: Any, place: str) -> Iterator[_Cluster]:
    """A block in which all processes of a cluster listen that can. Raises UsageError, and
    RunStopped where none does.
    """
    known = sorted((_name(worker), address) for address, worker in workers_of(client).items())
    workers = dict(known)
    if not workers:
        raise UsageError(f"--connect {place}: the cluster has no workers yet")
    token = os.urandom(16)
    with sent_by_value(cloudpickle, link_ends):
        try:
            yield _begun(client, place, token, workers)
        finally:
            _deafen(client, token)


def _begun(client: Any, place: str, token: bytes, workers: Mapping[str, str]) -> _Cluster:
    """A cluster whose processes listen from now on. Raises RunStopped where none can."""
    try:
        answers = within(LIMIT_S, lambda: client.run(link_ends.begin, token, on_error="return"))
        scheduler = within(LIMIT_S, lambda: _scheduler_begun(client, token))
    except OSError as error:
        raise RunStopped(f"--connect {place}: its links cannot be probed: {error}") from error
    there = {name: address for name, address in workers.items() if address in answers}
    found = {SCHEDULER: scheduler}
    found |= {name: answers[address] for name, address in there.items()}
    deaf = {name: answer for name, answer in found.items() if isinstance(answer, Exception)}
    if len(deaf) == len(found):
        raise RunStopped(f"--connect {place}: its links cannot be probed: {scheduler}")
    places = {name: tuple(answer) for name, answer in found.items() if name not in deaf}
    clause = "which cannot listen"
    notes = [f"nobody can connect to {name}, {clause}: {why}" for name, why in deaf.items()]
    return _Cluster(client, token, there, places, notes)


def _scheduler_begun(client: Any, token: bytes) -> Place | OSError:
    """Where the scheduler listens, or why it cannot."""
    try:
        found: Place = client.run_on_scheduler(link_ends.begin, token)
    except OSError as error:
        return error
    return found


def _name(worker: Mapping[str, Any]) -> str:
    return f"worker {str(worker['name']).rpartition('://')[2]}"


def _deafen(client: Any, token: bytes) -> None:
    """End all listeners; those of processes that are gone have ended with them."""
    try:
        within(LIMIT_S, lambda: client.run(link_ends.end, token, on_error="ignore"))
        within(LIMIT_S, lambda: client.run_on_scheduler(link_ends.end, token))
    except OSError:  # the cluster has gone, or is silent: listeners end by themselves
        return


def _asked(workers: Sequence[str]) -> list[tuple[str, str]]:
    """Who measures whom: client and workers the scheduler, workers one another, as far as there are
    not too many.
    """
    asked = [(name, SCHEDULER) for name in (CLIENT, *workers)]
    if len(workers) <= ALL_PAIRS:
        return [*asked, *combinations(workers, 2)]
    number = len(workers)
    return asked + [
        (name, workers[(place + step) % number])
        for place, name in enumerate(workers)
        for step in range(1, PARTNERS + 1)
    ]


def _measured(
    cluster: _Cluster, asked: Sequence[tuple[str, str]], effort: Effort, tell: Tell
) -> tuple[list[Pair], list[str], int]:
    """What was measured, pair by pair; what could not be, in sentences; and bytes sent for it."""
    pairs = []
    notes = []
    sent = 0
    for number, (one, other) in enumerate(asked):
        tell(number, len(asked))
        if not cluster.is_heard(other):
            notes.append(f"{one} and {other} were not measured: nobody can connect to {other}")
            continue
        place = cluster.places[other]
        sent += 2 * effort.nbytes
        try:
            round_trips_s, there, back = _ask(cluster, one, place, effort)
            longer = effort.longer(max(there, back))
            if longer is not None:
                sent += 2 * longer.nbytes
                _, there, back = _ask(cluster, one, place, longer)
        except OSError as error:  # TimeoutError is one, and what Dask raises of lost workers
            notes.append(f"{one} does not reach {other} at {place[0]}:{place[1]}: {error}")
            continue
        pairs.append(Pair(one, other, tuple(round_trips_s), (there,), (back,)))
    return pairs, notes, sent


def _ask(
    cluster: _Cluster, one: str, place: Place, effort: Effort
) -> tuple[list[float], float, float]:
    """Have a node measure the link to where another one listens. Raises OSError."""
    told = (place, cluster.token, effort.nbytes, effort.limit_s)
    if one == CLIENT:
        return link_ends.measured(*told)
    address = cluster.addresses[one]
    answers = within(
        LIMIT_S,
        lambda: cluster.client.run(link_ends.measured_beside, *told, workers=[address]),
    )
    found: tuple[list[float], float, float] = answers[address]
    return found


def _odd_pairs(pairs: Sequence[Pair]) -> list[tuple[str, str]]:
    """Pairs of what stands out, to be measured again."""
    odd = [set(one.nodes) for one in standing_out(pairs)]
    chosen = [pair.nodes for pair in pairs if any(one <= set(pair.nodes) for one in odd)]
    return chosen[:MOST_AGAIN]


def _serialising(cluster: _Cluster) -> tuple[dict[str, Serialising], list[str]]:
    """How fast each node makes messages of values, one after the other; and of which that could not
    be measured, in sentences.
    """
    found = {CLIENT: Serialising(*link_ends.serialised())}
    notes = []
    for name, address in cluster.addresses.items():
        try:
            answers = within(
                LIMIT_S,
                lambda where=address: cluster.client.run(  # type: ignore[misc]
                    link_ends.serialised_beside, workers=[where]
                ),
            )
        except OSError as error:  # it has gone meanwhile
            notes.append(f"{name} was not asked how fast it makes messages: {error}")
        else:
            found[name] = Serialising(*answers[address])
    return found, notes
