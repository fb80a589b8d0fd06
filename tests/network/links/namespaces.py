"""Network namespaces of a test, and sockets in them."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_FOLDER = Path("/run/netns")
_NETWORK = 0x40000000
"Flag by which the kernel is asked for a network namespace (CLONE_NEWNET)."
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count()


@contextmanager
def namespaces(count: int) -> Iterator[list[Path]]:
    """New namespaces, without anything in them, which are gone afterwards."""
    names = [f"hyperslab-test-{os.getpid()}-{next(_numbers)}" for _ in range(count)]
    try:
        for name in names:
            ip("netns", "add", name)
        yield [_FOLDER / name for name in names]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def ip(*words: str) -> None:
    """Run a command of ip; a failure is one of the test."""
    subprocess.run(["ip", *words], check=True)


def within(namespace: Path, make: Callable[[], T]) -> T:
    """What a function makes in a namespace, such as a socket, which stays there."""

    def run() -> T:
        _enter(namespace)
        return make()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


def _enter(namespace: Path) -> None:
    """Have the thread that calls this be in a namespace, for as long as it lives."""
    with namespace.open() as file:
        if _libc.setns(file.fileno(), _NETWORK) != 0:
            raise OSError(ctypes.get_errno(), f"{namespace} cannot be entered")
