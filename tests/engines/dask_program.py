"""A Dask program as users write them: a cluster of two processes, values that go between them."""

import time

import numpy as np
from distributed import Client, LocalCluster


def made(number: int) -> np.ndarray:
    time.sleep(0.02)
    return np.full(100_000 + number, number, np.uint8)


def summed(parts: list[np.ndarray]) -> int:
    return sum(int(part.sum(dtype=np.int64)) for part in parts)


if __name__ == "__main__":
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        parts = client.map(made, range(40))
        total = client.submit(summed, parts).result()
        time.sleep(2.0)  # heartbeats
    assert total == sum(number * (100_000 + number) for number in range(40))
