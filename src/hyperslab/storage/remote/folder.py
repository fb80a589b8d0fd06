"""Objects below a URL: whole small ones, several at a time, what lies there, and whether one is as
it was.

- an object that the store says is not there is None; any other answer than the object is an
  exception, and never taken for that (`tests/storage/remote/test_zarr_faults.py`)
- the state of an object is its ETag and the time of its change: a document that is written again
  with the same text tells that what it is about is another
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hyperslab.errors import FormatError, HyperslabError, UsageError
from hyperslab.storage.location import Remote, RemoteFolder, scheme
from hyperslab.storage.remote.connections import WEB, path_in, store_of, submit
from hyperslab.storage.remote.faults import Fault
from hyperslab.storage.remote.file import DEPTH, LARGEST_NBYTES, RemoteFile
from hyperslab.storage.remote.objects import Answer, call, finished, insist, sought, wait


def fetch(
    remotes: Sequence[Remote], nbytes: int | None = None
) -> list[Answer | FormatError | None]:
    """Objects, whole or their first `nbytes`, by requests of which up to DEPTH are under way; None:
    not there.

    What is denied or cannot be read is returned, not raised. Raises UsageError, Unavailable.
    """
    gate = asyncio.Semaphore(DEPTH)
    most = nbytes
    if most is None:
        most = LARGEST_NBYTES
    for remote in remotes[:1]:
        store_of(remote)  # opened in this thread, where opening may take its time
    futures = [submit(_admitted(gate, remote, most)) for remote in remotes]
    try:
        found = [
            _read(finished(remote, most, future))
            for remote, future in zip(remotes, futures, strict=True)
        ]
    finally:  # of those that nobody waits for any more
        for future in futures:
            future.cancel()
    if nbytes is not None:
        return found
    return list(map(_whole, remotes, found))


def check(folder: RemoteFolder, name: str) -> None:
    """Raise SourceChanged where an object below a place is not of the size and state that the place
    is described by.
    """
    remote = folder.below(name)
    (now,) = fetch(
        [remote], max(1, folder.size)
    )  # all of it, which servers without ranges give too
    if isinstance(now, FormatError):
        raise now
    if now is None:
        raise Fault("gone", "").error(remote, 1, 0)
    if (now.size, state(now)) != (folder.size, folder.tag):
        raise Fault("changed", "was written to after it was opened").error(remote, 1, 0)


def folders(folder: RemoteFolder) -> list[str]:
    """Names of the places right below one, in order. Raises UsageError for a web server, which does
    not list them.
    """
    if scheme(folder.target) in WEB:
        raise UsageError(
            f"{folder}: a web server does not list what it holds: name an array as"
            " URL::GROUP/ARRAY, or have the store consolidated (zarr.consolidate_metadata)"
        )
    store = store_of(folder)

    async def attempt() -> list[str]:
        store.fs.invalidate_cache()
        listed = await call(store, "ls", path_in(store, folder), detail=True)
        below = (str(about["name"]).rstrip("/") for about in listed if about["type"] == "directory")
        return sorted(path.rpartition("/")[2] for path in below)

    return wait(folder, 0, insist(folder, 0, attempt))


async def _admitted(
    gate: asyncio.Semaphore, remote: Remote, nbytes: int
) -> Answer | HyperslabError | None:
    async with gate:
        try:
            return await sought(remote, 0, nbytes)
        except (
            HyperslabError
        ) as error:  # asyncio would complain of one that nobody waits for any more
            return error


def _read(found: Answer | HyperslabError | None) -> Answer | FormatError | None:
    if isinstance(found, HyperslabError) and not isinstance(found, FormatError):
        raise found
    return found


def state(answer: Answer) -> str:
    """What an answer says of the state of its object; '' where it says nothing."""
    return f"{answer.tag} {answer.time}".strip()


def _whole(remote: Remote, found: Answer | FormatError | None) -> Answer | FormatError | None:
    """An object of which only the beginning has come, in the same state."""
    if not isinstance(found, Answer) or len(found.data) == found.size:
        return found
    there = len(found.data)
    size = found.size or 0
    rest = RemoteFile(Remote(remote.target, remote.options, size, found.tag)).fetch(
        [(there, size - there)]
    )
    return found._replace(data=b"".join((found.data, *rest)))
