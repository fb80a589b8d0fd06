"""A Dask program as users write them: a cluster of two processes, values that go between them."""

import time

import numpy as np
from distributed import Client, LocalCluster


def made(number: int) -> np.ndarray:
    time.sleep(0.02)
    return np.full(100_000 + number, number, np.uint8)


def summed(parts: list[np.ndarray]) -> int:
    return sum(int(part.sum(dtype=np.int64)) for part in parts)


def await_heartbeats(cluster: LocalCluster, times: int) -> None:
    """Wait until the scheduler has heard so many heartbeats of every worker."""
    for _ in range(times):
        seen = moments(cluster)
        while any(moment == seen[address] for address, moment in moments(cluster).items()):
            time.sleep(0.02)


def moments(cluster: LocalCluster) -> dict[str, float]:
    """When the scheduler has heard of each worker for the last time."""
    assert cluster.scheduler is not None
    return {address: state.last_seen for address, state in cluster.scheduler.workers.items()}


if __name__ == "__main__":
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        parts = client.map(made, range(40))
        total = client.submit(summed, parts).result()
        await_heartbeats(cluster, 2)
    assert total == sum(number * (100_000 + number) for number in range(40))
