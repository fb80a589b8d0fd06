"""The file systems of fsspec that a process holds, with their connections, one for each set of
storage options.

They are used from fsspec's own thread. A forked child has neither that thread nor a right to its
parent's connections: it begins with none (`tests/storage/remote/test_processes.py`).
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from hyperslab.errors import MissingExtra, UsageError
from hyperslab.storage.location import Remote, scheme

TIMEOUT_S = 30.0
"""Time without a byte from the server after which an attempt has failed; storage option
hyperslab_timeout_s.
"""
ATTEMPTS = 5
"Attempts at one request; storage option hyperslab_attempts."
SLOWEST_NBYTES_PER_S = 64 * 1024
"A connection that is slower for all of a request counts as dead."
LONGEST_PAUSE_S = 20.0
"Longest pause between two attempts."
KEPT = 16
"File systems of a process; that which was used longest ago is closed for another."
WEB = ("http", "https")
S3 = ("s3", "s3a")
_CONNECTIONS = 64
_CLOSING_S = 1.0
_OWN = ("hyperslab_timeout_s", "hyperslab_attempts")

T = TypeVar("T")


class Store(NamedTuple):
    """A file system of fsspec, and how long to wait for it."""

    fs: Any
    timeout_s: float
    attempts: int

    def limit_s(self, nbytes: int) -> float:
        """The longest that one attempt at a request of so many bytes may take."""
        return self.timeout_s + nbytes / SLOWEST_NBYTES_PER_S

    def patience_s(self, nbytes: int) -> float:
        """Longer than all attempts and the pauses between them can take together."""
        return self.attempts * (self.limit_s(nbytes) + LONGEST_PAUSE_S) + self.timeout_s


_stores: OrderedDict[str, Store] = OrderedDict()
_lock = threading.Lock()


def store_of(remote: Remote) -> Store:
    """The store of an object, opened now if it was not.

    Raises MissingExtra for a scheme whose package is not installed, UsageError for an unknown one
    and for options that it cannot be opened with.
    """
    key = repr((scheme(remote.target), sorted(remote.options.items()), _said_by_url(remote)))
    with _lock:
        if key not in _stores:
            _stores[key] = _opened(remote)
            while len(_stores) > KEPT:
                submit(_close(_stores.popitem(last=False)[1]))
        _stores.move_to_end(key)
        return _stores[key]


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine in fsspec's thread."""
    from fsspec.asyn import get_loop

    return asyncio.run_coroutine_threadsafe(work, get_loop())


def path_in(store: Store, remote: Remote) -> str:
    """What the store itself calls an object."""
    # fsspec has no public name for it
    return str(store.fs._strip_protocol(remote.target))  # noqa: SLF001


def _opened(remote: Remote) -> Store:
    options = dict(remote.options)
    timeout_s, attempts = _patience(remote)
    theirs = {name: value for name, value in options.items() if name not in _OWN}
    cls = _class_of(remote)
    try:
        given = {**_said_by_url(remote), **_with_defaults(scheme(remote.target), theirs, timeout_s)}
        fs = cls(**given, skip_instance_cache=True)
    except Exception as error:  # noqa: BLE001  # whatever a library raises becomes a sentence
        said = remote.hide(f"{type(error).__name__}: {error}")
        raise UsageError(
            f"{remote}: its store cannot be opened ({said}); check the storage options"
        ) from None
    if scheme(remote.target) in S3:
        fs.retries = 1  # failures are judged here, for all stores alike
    return Store(fs, timeout_s, attempts)


def _with_defaults(kind: str, options: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """What a store is opened with: the user's options before ours."""
    if kind not in S3 + WEB:
        return dict(options)
    from fsspec.asyn import get_loop

    # So fsspec leaves the closing to us: its own would disturb the connections of a forked child's
    # parent.
    ours: dict[str, Any] = {"asynchronous": True, "loop": get_loop()}
    if kind in S3:
        config = {
            "retries": {"total_max_attempts": 1},
            "connect_timeout": timeout_s,
            "read_timeout": timeout_s,
        }
        config = {
            **config,
            "max_pool_connections": _CONNECTIONS,
            **options.get("config_kwargs", {}),
        }
        return {**ours, **options, "config_kwargs": config}
    from aiohttp import ClientTimeout

    # Of a file that a server sends compressed, ranges are of what it sends.
    client: dict[str, Any] = {
        "timeout": ClientTimeout(total=None, sock_connect=timeout_s, sock_read=timeout_s)
    }
    client = {**client, "auto_decompress": False, **options.get("client_kwargs", {})}
    return {**ours, **options, "client_kwargs": client, "encoded": True}


def _patience(remote: Remote) -> tuple[float, int]:
    timeout_s, attempts = (
        remote.options.get(name, ours)
        for name, ours in zip(_OWN, (TIMEOUT_S, ATTEMPTS), strict=True)
    )
    with suppress(TypeError, ValueError):
        if float(timeout_s) > 0 and int(attempts) >= 1:
            return float(timeout_s), int(attempts)
    raise UsageError(
        f"{remote}: hyperslab_timeout_s has to be more than 0 and hyperslab_attempts at least 1"
    )


def _class_of(remote: Remote) -> Any:
    kind = scheme(remote.target)
    extra = "pip install 'hyperslab[remote]'"
    try:
        import fsspec
    except ImportError:
        raise MissingExtra(f"{remote}: reading {kind}:// needs fsspec: {extra}") from None
    try:
        return fsspec.get_filesystem_class(kind)
    except ImportError as error:
        remedy = extra if kind in S3 + WEB else str(error)
        raise MissingExtra(f"{remote}: reading {kind}:// needs another package: {remedy}") from None
    except ValueError:
        raise UsageError(
            f"{remote}: '{kind}' is not a scheme that fsspec knows; use s3://, https://, gs:// ..."
        ) from None


def _said_by_url(remote: Remote) -> dict[str, Any]:
    """Options that a URL itself gives, such as the host of sftp://HOST/PATH."""
    # as above
    found: dict[str, Any] = _class_of(remote)._get_kwargs_from_urls(remote.target)  # noqa: SLF001
    return found


async def _close(store: Store) -> None:
    fs = store.fs
    if getattr(fs, "_session", None) is not None or getattr(fs, "_s3", None) is not None:
        await (await fs.set_session()).close()


@atexit.register
def _close_all() -> None:
    """Closed in time, connections do not complain."""
    ending = [
        submit(_close(store))
        for store in _stores.values()
        if getattr(store.fs, "asynchronous", False)
    ]
    for future in ending:
        with suppress(Exception):
            future.result(_CLOSING_S)


def _begin_anew() -> None:
    """Begin anew in a forked child: open connections again, and never close those of the parent,
    not even when all ends.
    """
    global _lock, _stores  # noqa: PLW0603  # what they held can only be replaced
    if _stores:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_stores))
    _lock = threading.Lock()
    _stores = OrderedDict()


os.register_at_fork(after_in_child=_begin_anew)
