"""Kinds of files by their names, and by what was done to them."""

from __future__ import annotations

import sys

import pytest

from hyperslab.storage.accounting.kinds import place_of

MANAGER = "/scratch/spark-1f/blockmgr-0a1b2c3d-0000-4e5f-8a9b-0c1d2e3f4a5b"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"{MANAGER}/0c/shuffle_0_1_0.index", ("shuffle", MANAGER)),
        (f"{MANAGER}/0c/shuffle_0_1_0.data.8d1f", ("shuffle", MANAGER)),
        (f"{MANAGER}/3f/temp_shuffle_9d2c", ("shuffle", MANAGER)),
        (f"{MANAGER}/3f", ("shuffle", MANAGER)),
        (f"{MANAGER}/00/rdd_4_2", ("eviction", MANAGER)),
        (f"{MANAGER}/00/temp_local_77", ("eviction", MANAGER)),
        (f"{MANAGER}/00/broadcast_3", ("eviction", MANAGER)),
        ("/w/dask-scratch-space/worker-ab/storage/x%20y", ("eviction", "/w/dask-scratch-space")),
        ("/w/dask-scratch-space/worker-ab/shuffle-1/2", ("shuffle", "/w/dask-scratch-space")),
        ("/w/dask-scratch-space/worker-ab.dirlock", ("other", "/w/dask-scratch-space")),
        ("/out/.hyperslab/run-0001/journal/x.jsonl", ("own records", "/out/.hyperslab")),
        ("/out/.hyperslab-staging-1/x", ("own records", "/out/.hyperslab-staging-1")),
        ("/proc/self/status", ("other", "/proc")),
        ("/dev/null", ("other", "/dev")),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", ("libraries", "/usr")),
        (f"{sys.prefix}/pyvenv.cfg", ("libraries", sys.prefix)),
        ("/home/me/functions/clip.py", ("libraries", "/home/me/functions")),
        ("/home/me/lib/libown.so.1.2", ("libraries", "/home/me/lib")),
    ],
)
def test_names_decide(path: str, expected: tuple[str, str]) -> None:
    for is_written in (False, True):
        assert place_of(path, is_written, True) == expected


def test_of_data_what_was_done_decides() -> None:
    assert place_of("/dev/shm/x/scan.nii", False, True) == ("reader", "/dev/shm/x")
    temporary = "/lustre/.hyperslab-scratch-node1-0123abcd"
    assert place_of(f"{temporary}/a", True, True) == ("output", temporary)
    assert place_of(f"{temporary}/.hyperslab/a", True, True).kind == "own records"
    assert place_of("/data/scan.nii", True, True) == ("output", "/data")
    assert place_of("/data/scan.nii", False, False) == ("other", "/data")
    assert place_of("/data", False, True, is_directory=True) == ("other", "/data")
