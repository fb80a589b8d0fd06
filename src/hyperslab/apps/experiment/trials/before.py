"""Preparation of a trial: what was asked for is done on every host on which its tasks may run, and
said to be done or impossible.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from hyperslab.apps.experiment.design.spec import Before
from hyperslab.driver.hosts import ask_hosts
from hyperslab.driver.options import Options
from hyperslab.engines.facts import facts_of
from hyperslab.errors import RunStopped, UsageError
from hyperslab.storage.probing import caches
from hyperslab.storage.tiers.looking import look
from hyperslab.units import show_count, show_share

DONE = "done"
IMPOSSIBLE = "impossible"
HERE = socket.gethostname()
MOST_LEFT = 0.01
"Share of a file that may stay in the page cache where it counts as dropped."
SUDO = ("sudo", "-n", "sh", "-c", f"echo 3 > {caches.DROP_CACHES}")
SUDO_LIMIT_S = 60.0


def prepare(
    asked: Before, inputs: Iterable[Path], options: Options, shared: Path
) -> dict[str, str]:
    """Do what was asked for before a trial that is run with these options; says of each that it is
    done, or why it is impossible. `shared` is a folder that all hosts see.
    """
    act = functools.partial(_prepared, asked.sync, asked.caches, list(inputs))
    if options.connect or facts_of(options.engine).batch_system:
        told = _on_every_host(act, options, shared)
    else:
        told = act()
    if asked.settle_s:
        time.sleep(asked.settle_s)
        told["settle"] = DONE
    return told


def _prepared(sync: bool, caches_asked: str, inputs: Sequence[Path]) -> dict[str, str]:
    """Do it on this host."""
    told = {}
    if sync:
        os.sync()
        told["sync"] = DONE
    if caches_asked == "inputs":
        told["caches"] = _drop_inputs(inputs)
    if caches_asked == "all":
        told["caches"] = _drop_all()
    return told


def _on_every_host(
    act: Callable[[], dict[str, str]], options: Options, shared: Path
) -> dict[str, str]:
    """Do it here and on every host of a cluster, by a task of its engine."""
    here = act()
    if not here:
        return here
    try:
        answers = ask_hosts(act, options, shared)
    except (RunStopped, UsageError) as error:
        return dict.fromkeys(here, f"{IMPOSSIBLE} on other hosts: {error}")
    others = {host: told for host, told in answers.by_host.items() if host != HERE}
    silent = dict.fromkeys(answers.silent, dict.fromkeys(here, f"{IMPOSSIBLE}: no task came to it"))
    return {name: _joined(name, told, others | silent) for name, told in here.items()}


def _joined(name: str, here: str, others: Mapping[str, Mapping[str, str]]) -> str:
    """What came of one thing on all hosts: how it was impossible on the first where it was."""
    if here.startswith(IMPOSSIBLE) or not others:
        return here
    for host, told in others.items():
        if told[name].startswith(IMPOSSIBLE):
            return f"{IMPOSSIBLE} on {host}{told[name].removeprefix(IMPOSSIBLE)}"
    return f"{here}; on {show_count(len(others), 'other host')}, too"


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
    """What could not be done of a preparation, in words."""
    return [f"{name}: {told}" for name, told in preparation.items() if told.startswith(IMPOSSIBLE)]


def _drop_inputs(files: Sequence[Path]) -> str:
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
