"""Links of a real Dask cluster, measured between its processes, whose workers lack hyperslab."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyperslab import engines
from hyperslab.engines.dask import link_ends
from hyperslab.errors import UsageError
from hyperslab.machine.links import MOST_NBYTES, QUICK, Effort, Network
from hyperslab.report.probed.links import details_of, lines_of
from tests.system.clusters import dask
from tests.system.clusters.dask import DaskCluster, dask_cluster
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call

NODES = ("client", "scheduler", "worker worker-0", "worker worker-1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    required(dask.missing())
    folder = tmp_path_factory.mktemp("cluster")
    with dask_cluster(folder, workers=2, bare=True, nanny=False) as made:
        yield made


def probed(address: str) -> tuple[Network, list[tuple[int, int]]]:
    told: list[tuple[int, int]] = []
    network = engines.links("processes", address, QUICK, lambda *far: told.append(far))
    return network, told


def test_every_pair_is_measured_and_nothing_is_left_behind(cluster: DaskCluster) -> None:
    network, told = probed(cluster.address)
    assert network.nodes == NODES
    assert [pair.nodes for pair in network.pairs] == [
        ("client", "scheduler"),
        ("worker worker-0", "scheduler"),
        ("worker worker-1", "scheduler"),
        ("worker worker-0", "worker worker-1"),
    ]
    assert all(min(pair.there + pair.back) > 0 for pair in network.pairs)
    assert all(0 < pair.round_trip_s < 1 for pair in network.pairs)
    assert told[:4] == [(number, 4) for number in range(4)]
    assert network.sent_nbytes >= 8 * QUICK.nbytes
    assert set(network.serialising) == set(NODES) - {"scheduler"}
    assert all(one.arrays_nbytes_per_s > 0 for one in network.serialising.values())
    assert network.notes == ()
    assert len(details_of(network)) == 1 + len(network.pairs) + len(network.serialising)
    assert lines_of(network)[0].startswith(f"network of {cluster.address}: 4 nodes, 4 pairs")
    assert listeners(cluster.address) == [0, 0, 0]


def test_fast_links_are_sent_more_until_that_takes_long_enough(cluster: DaskCluster) -> None:
    effort = Effort(1 << 16, 1.0, least_s=0.05)
    network = engines.links("processes", cluster.address, effort, lambda *_: None)
    once = len(network.pairs) * 2 * effort.nbytes
    assert network.sent_nbytes > 2 * once, "loopback carries more than 64 KiB in 50 ms"
    assert effort.longer(1 << 20) is None
    assert effort.longer(1e12) == Effort(MOST_NBYTES, 1.0)


def listeners(address: str) -> list[int]:
    """Listeners that are left in the scheduler and the workers."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        # Functions with no name of their own are sent by value: workers do not see this module.
        of_workers = client.run(
            lambda dask_worker: len(getattr(dask_worker, "_hyperslab_listeners", ()))
        )
        of_scheduler = client.run_on_scheduler(
            lambda dask_scheduler: len(getattr(dask_scheduler, "_hyperslab_listeners", ()))
        )
    return [of_scheduler, *of_workers.values()]


def test_the_command_keeps_and_tells_what_it_has_found(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    kept = tmp_path / "machine.json"
    words = ("probe", "--network", "--connect", cluster.address, "--quick", "-o", kept)
    done = call(*words, "--size", "256kB", "--verbose")
    assert done.code == 0, done.err
    assert "  rates " in done.out
    assert "  messages  made and read at" in done.out
    told = json.loads(call(*words, "--json").out)
    assert told["answer"]
    assert told["network"]["address"] == cluster.address
    record = json.loads(kept.read_text())
    assert list(record["networks"]) == [cluster.address]
    assert "A row per sender" in kept.with_suffix(".html").read_text()


def test_what_cannot_be_probed_is_told_in_a_sentence(cluster: DaskCluster) -> None:
    for words, why in (
        (("--network",), "--network: name the cluster"),
        (("--network", "/tmp", "--connect", cluster.address), "links or storage are measured"),
        ((), "give a directory whose storage is to be measured, or --network"),
        (("--network", "--connect", "tcp://127.0.0.1:9"), "no Dask scheduler answers"),
        (
            ("--network", "--connect", cluster.address, "--engine", "spark"),
            "--network: is for --engine dask-bag or --engine dask-delayed",
        ),
    ):
        done = call("probe", *words)
        assert done.code == 2, done.out
        assert why in done.err


def test_a_worker_that_does_not_answer_is_a_note(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody listens any more, the others are measured all the same."""
    from hyperslab.engines.dask import links

    ask = links._ask

    def deaf(*told: object) -> object:
        if told[1] == "worker worker-0":
            told = (*told[:2], ("127.0.0.1", 9), told[3])
        return ask(*told)  # type: ignore[arg-type]

    monkeypatch.setattr(links, "_ask", deaf)
    network, _ = probed(cluster.address)
    assert [pair.one for pair in network.pairs] == ["client", "worker worker-1"]
    assert len(network.notes) == 2
    assert "worker worker-0 does not reach scheduler at 127.0.0.1" in network.notes[0]
    assert any(line.startswith("  note ") for line in lines_of(network))


ELSEWHERE = "tcp://192.0.2.1:9"
"An address of no host (RFC 5737), as one that a service translates is none of the worker's own."


@pytest.fixture
def translated(cluster: DaskCluster) -> Iterator[str]:
    """The cluster's address, whose second worker is known by an address that is none of its own."""
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        known = client.scheduler_info(n_workers=-1)["workers"]
        (other,) = [place for place, one in known.items() if one["name"] == "worker-1"]

        def call_it(dask_worker: Any, address: str) -> None:
            dask_worker._address = address

        client.run(call_it, address=ELSEWHERE, workers=[other])
        yield cluster.address
        client.run(call_it, address=other, workers=[other])


def test_a_worker_that_cannot_listen_measures_those_that_can(translated: str) -> None:
    network, _ = probed(translated)
    assert network.nodes == NODES
    assert [pair.nodes for pair in network.pairs] == [
        ("client", "scheduler"),
        ("worker worker-1", "scheduler"),
        ("worker worker-0", "scheduler"),
        ("worker worker-1", "worker worker-0"),
    ]
    (note,) = network.notes
    assert note.startswith("nobody can connect to worker worker-1, which cannot listen: 192.0.2.1")
    assert listeners(translated) == [0, 0, 0]


def test_pairs_of_which_nobody_listens_are_notes(
    cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyperslab.engines.dask import links

    begun = links._begun

    def deaf(*told: Any) -> Any:
        made = begun(*told)
        places = {name: one for name, one in made.places.items() if name == "scheduler"}
        return dataclasses.replace(made, places=places)

    monkeypatch.setattr(links, "_begun", deaf)
    network, _ = probed(cluster.address)
    assert [pair.other for pair in network.pairs] == ["scheduler"] * 3
    (note,) = network.notes
    assert "worker worker-0 and worker worker-1 were not measured: nobody can connect to" in note


def test_a_listener_answers_who_knows_its_token_alone() -> None:
    listener = link_ends.Listener("127.0.0.1", b"t" * 16)
    trips_s, there, back = link_ends.measured(listener.place, b"t" * 16, 1 << 18, 1.0)
    assert len(trips_s) == link_ends.ROUND_TRIPS
    assert min(there, back) > 0
    with pytest.raises(ConnectionError):
        link_ends.measured(listener.place, b"x" * 16, 1 << 18, 1.0)
    listener.close()
    with pytest.raises(ConnectionError):
        link_ends.measured(listener.place, b"t" * 16, 1 << 10, 0.1)


def test_the_first_part_does_not_count() -> None:
    """What a link has saved up for comes at once, and TCP begins slowly."""
    assert link_ends.rate_of([(0.0, 250), (1.0, 500), (3.0, 1000)]) == 250
    assert link_ends.rate_of([(0.0, 10), (1.0, 250), (2.0, 1000)]) == 750
    assert link_ends.rate_of([(0.0, 1000), (2.0, 1000)]) == 500, "all at once, then silence"


def test_an_address_of_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="no Dask scheduler answers"):
        probed("tcp://127.0.0.1:9")
