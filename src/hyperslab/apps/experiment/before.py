"""Preparation of a trial: what was asked for is done, and said to be done or impossible."""

from __future__ import annotations

import functools
import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from hyperslab.apps.experiment.spec import Before
from hyperslab.storage.probing import caches
from hyperslab.storage.tiers.looking import look
from hyperslab.units import show_count, show_share

DONE = "done"
IMPOSSIBLE = "impossible"
MOST_LEFT = 0.01
"Share of a file that may stay in the page cache where it counts as dropped."
SUDO = ("sudo", "-n", "sh", "-c", f"echo 3 > {caches.DROP_CACHES}")
SUDO_LIMIT_S = 60.0


def prepare(asked: Before, inputs: Iterable[Path]) -> dict[str, str]:
    """Do what was asked for on this host; says of each that it is done, or why it is impossible."""
    told = {}
    if asked.sync:
        os.sync()
        told["sync"] = DONE
    if asked.caches == "inputs":
        told["caches"] = _drop_inputs(list(inputs))
    if asked.caches == "all":
        told["caches"] = _drop_all()
    if asked.settle_s:
        time.sleep(asked.settle_s)
        told["settle"] = DONE
    return told


def storage_of(inputs: Iterable[Path], target: Path) -> dict[str, float | None]:
    """What storage is like right before a trial, as the model takes it: `source_nbytes`,
    `cached_share` of these in the page cache, and `free_dirty_nbytes`, which memory takes at the
    target before writers wait. None: not known.
    """
    nbytes = 0
    cached: float | None = 0.0
    for path in inputs:
        size, share = _cached(path)
        nbytes += size
        if cached is not None:
            cached = None if share is None else cached + share * size
    free = None
    tier = look(target)
    if tier.write_back and tier.dirty is not None:
        free = tier.dirty.free_nbytes
    share = None
    if cached is not None and nbytes:
        share = cached / nbytes
    return {"source_nbytes": nbytes or None, "cached_share": share, "free_dirty_nbytes": free}


def _cached(path: Path) -> tuple[int, float | None]:
    """Size of a file, and the share of it that is in the page cache. Of files that are not ours the
    kernel does not say it (mincore(2)).
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0, None
    try:
        nbytes = os.fstat(fd).st_size
        if not nbytes:
            return 0, 0.0
        if not os.access(path, os.W_OK):
            return nbytes, None
        return nbytes, caches.resident_share(fd, nbytes)
    finally:
        os.close(fd)


def impossible(preparation: Mapping[str, str]) -> list[str]:
    """What of a preparation could not be done, in words."""
    return [f"{name}: {told}" for name, told in preparation.items() if told.startswith(IMPOSSIBLE)]


def _drop_inputs(files: list[Path]) -> str:
    """Have the kernel forget the pages of files, which anybody may ask for; a few that stay are
    counted.
    """
    left = 0.0
    lasting = [path for path in files if not _is_in_memory(path.parent)]
    for path in lasting:
        try:
            left = max(left, _dropped(path))
        except OSError as error:
            return f"{IMPOSSIBLE}: {path}: {error.strerror}"
    if left > MOST_LEFT:
        return f"{IMPOSSIBLE}: up to {show_share(left)} of a file stayed in memory"
    told = f"{DONE}: {show_count(len(lasting), 'file')}"
    if len(lasting) < len(files):
        told += f"; the medium of {len(files) - len(lasting)} is memory"
    return told


@functools.cache
def _is_in_memory(folder: Path) -> bool:
    """Whether files of a folder lie in memory and nowhere else."""
    return look(folder).medium == "dram"


def _dropped(path: Path) -> float:
    """Drop a file's pages; the share of it that stays. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)  # dirty pages are not dropped
        caches.drop(fd)
        nbytes = os.fstat(fd).st_size
        if not nbytes:
            return 0.0
        return caches.resident_share(fd, nbytes) or 0.0
    finally:
        os.close(fd)


def _drop_all() -> str:
    try:
        caches.drop_all()
    except OSError as error:
        try:
            subprocess.run(SUDO, capture_output=True, check=True, timeout=SUDO_LIMIT_S)
        except (OSError, subprocess.SubprocessError):
            return f"{IMPOSSIBLE}: {error.strerror}, and 'sudo -n' does not help"
    return DONE
