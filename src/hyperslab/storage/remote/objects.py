"""One object of a remote store: what it is now, and byte ranges of it.

- an answer is believed only if it says that it holds the bytes asked for, of an object of the size
  and state that were looked at; another state is SourceChanged
  (`tests/storage/remote/test_faults.py`). The answers of S3 and HTTP say so themselves; objects
  of other stores are looked at once more after a region was read (`look_again`)
- a request that fails in passing is made again after a pause whose bound doubles, with jitter, or
  as long as the server asks to wait; this, and having no answer at all, comes to an end
- no message holds a secret, and no exception of a library, which might, is kept as a cause
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from hyperslab.errors import Unavailable
from hyperslab.storage.location import Remote, scheme
from hyperslab.storage.remote.connections import (
    LONGEST_PAUSE_S,
    S3,
    WEB,
    Store,
    path_in,
    store_of,
    submit,
)
from hyperslab.storage.remote.faults import Fault, Refused, understand

_FIRST_PAUSE_S = 0.2
_STATES = (
    "ETag",
    "etag",
    "e_tag",
    "generation",
    "md5Hash",
    "version_id",
    "LastModified",
    "last_modified",
)
_TIMES = ("updated", "mtime", "modified", "created")
"What stores call the state of an object, the most telling first."
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_OUT_OF_RANGE = 416
_WHOLE, _PART = 200, 206

T = TypeVar("T")


class Answer(NamedTuple):
    """Bytes, and what the store says of them; None where it says nothing."""

    data: bytes
    first: int | None = None
    """Position of the first byte; None also where the answer is the whole object, though a part was
    asked for.
    """
    size: int | None = None
    tag: str = ""
    time: str = ""
    "Time of its last change."


def look(url: str, options: Mapping[str, Any], nbytes: int) -> tuple[Remote, bytes]:
    """Describe an object as it is now, with what the same request gave of its first `nbytes` (of
    some stores: none).

    Raises FormatError where it is not there, may not be read, or cannot be read in parts;
    UsageError for a URL or options that make no sense; MissingExtra; Unavailable.
    """
    sought = Remote(url, options)
    store = store_of(sought)
    kind = scheme(url)
    ask = _ASK.get(kind, _ask_about)
    if kind not in _ASK:
        nbytes = 0
    answer = wait(sought, nbytes, insist(sought, nbytes, lambda: ask(store, sought, 0, nbytes)))
    found = Remote(url, options, answer.size or 0, answer.tag)
    if kind in _ASK and answer.first is None and found.size > 1:  # can the server give parts, too?
        wait(found, 1, request(found, 0, 1))
    return found, answer.data


def look_again(remote: Remote) -> None:
    """Raise SourceChanged where an object is not as it was, unless the answers of its store have
    said so already.
    """
    if scheme(remote.target) in _ASK:
        return
    store = store_of(remote)

    async def attempt() -> None:
        _check_state(remote, await _gone_if_missing(_ask_about(store, remote, 0, 0)))

    wait(remote, 0, insist(remote, 0, attempt))


def start(remote: Remote, offset: int, nbytes: int) -> Future[bytes]:
    """Ask for bytes of an object; `finished` waits for them. Cancelling the future ends the
    request.
    """
    store_of(remote)  # opened in this thread, where opening may take its time
    return submit(request(remote, offset, nbytes))


def finished(remote: Remote, nbytes: int, future: Future[T]) -> T:
    """The answer to a request; its time is bounded, whatever the store and fsspec's thread do.

    Raises SourceChanged, FormatError, UsageError, Unavailable.
    """
    limit_s = store_of(remote).patience_s(nbytes)
    try:
        return future.result(limit_s)
    except TimeoutError:
        future.cancel()
        raise Unavailable(f"{remote}: no answer within {limit_s:.0f} s; try again later") from None


def wait(remote: Remote, nbytes: int, work: Coroutine[Any, Any, T]) -> T:
    """Run one request to its end."""
    return finished(remote, nbytes, submit(work))


async def insist(
    remote: Remote, nbytes: int, attempt: Callable[[], Awaitable[T]], alone: bool = False
) -> T:
    """`attempt` until it succeeds, fails for good, or has been made often enough; each one's time
    is bounded.

    One that insists by itself is made once, with the time for as many as it makes (`alone`).
    """
    store = store_of(remote)
    number = 1
    limit_s = store.limit_s(nbytes)
    if alone:
        number = store.attempts
        limit_s = store.patience_s(nbytes)
    while True:
        try:
            return await asyncio.wait_for(attempt(), limit_s)
        except Exception as error:  # noqa: BLE001  # whatever a library raises becomes a sentence
            fault = understand(error)
        if not fault.is_passing or number == store.attempts:
            raise fault.error(remote, number, store.timeout_s)
        await asyncio.sleep(_pause_s(fault, number))
        number += 1


def _pause_s(fault: Fault, number: int) -> float:
    """Full jitter: any time up to the bound, so that workers that were turned away together do not
    return together.
    """
    if fault.pause_s is not None:
        return min(fault.pause_s, LONGEST_PAUSE_S)
    return random.uniform(0, min(LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**number))


async def sought(remote: Remote, first: int, last: int) -> Answer | None:
    """Bytes of an object that was not looked at before, up to `last` or its end; its last ones for
    `first` below 0.

    None where the store says that there is no such object, which a store that denies to say so does
    not.
    """
    store = store_of(remote)
    ask = _ASK.get(scheme(remote.target), _ask_unseen)

    async def attempt() -> Answer | None:
        try:
            answer = await ask(store, remote, first, last)
        except Exception as error:
            fault = understand(error)
            if fault.is_absence:
                return None
            if scheme(remote.target) in S3 and fault.may_be_absence:
                raise Refused("hidden", fault.said) from None
            raise
        _require_all(answer, first, last)
        return answer

    return await insist(remote, abs(last - first), attempt)


def _require_all(answer: Answer, first: int, last: int) -> None:
    """Raise Refused for fewer or more bytes than the answer says that it has."""
    expected = size = answer.size or 0
    if answer.first is not None:
        begin, end = _within(size, first, last)
        expected = end - min(begin, size)
    if len(answer.data) < expected:
        raise Refused("cut", f"after {len(answer.data)} of {expected} bytes")
    if len(answer.data) > expected:
        raise Refused("wrong", f"{len(answer.data)} bytes where {expected} were asked for")


def _within(size: int, first: int, last: int) -> tuple[int, int]:
    """First byte of what is asked for of an object of this size, and the one after its last."""
    if first < 0:
        return max(0, size + first), size
    return first, min(last, size)


async def request(remote: Remote, offset: int, nbytes: int) -> bytes:
    """Bytes of an object, exactly those."""
    store = store_of(remote)
    ask = _ASK.get(scheme(remote.target), _ask_other)

    async def attempt() -> bytes:
        answer = await _gone_if_missing(ask(store, remote, offset, offset + nbytes))
        _check_state(remote, answer)
        if answer.first not in (None, offset):
            raise Refused("wrong", f"from byte {answer.first} where {offset} was asked for")
        if len(answer.data) > nbytes:
            raise Refused("wrong", f"{len(answer.data)} bytes where {nbytes} were asked for")
        if len(answer.data) < nbytes:
            raise Refused("cut", f"after {len(answer.data)} of {nbytes} bytes")
        return answer.data

    return await insist(remote, nbytes, attempt)


async def _gone_if_missing(asking: Awaitable[T]) -> T:
    """What was there when it was described, and is not now, has changed."""
    try:
        return await asking
    except Exception as error:
        if understand(error).kind == "missing":
            raise Refused("gone") from None
        raise


def _check_state(remote: Remote, answer: Answer) -> None:
    if answer.size is not None and answer.size != remote.size:
        raise Refused(
            "changed", f"was {remote.size} bytes when it was opened and is {answer.size} now"
        )
    if answer.tag and remote.tag and answer.tag != remote.tag:
        raise Refused("changed", "was written to after it was opened")


async def _ask_s3(store: Store, remote: Remote, first: int, last: int) -> Answer:
    """GetObject; what s3fs itself offers for ranges does not say what the bytes are of."""
    bucket, key, version = store.fs.split_path(remote.target)
    more = {}
    if version:
        more["VersionId"] = version
    try:
        ask = store.fs._call_s3  # noqa: SLF001  # its public name waits
        said = await ask("get_object", Bucket=bucket, Key=key, Range=_range(first, last), **more)
    except Exception as error:
        if understand(error).status == _OUT_OF_RANGE:
            return _beyond_the_end(first)
        raise
    async with said["Body"] as body:
        begin, size = _placed(said.get("ContentRange"), said.get("ContentLength"), first, last)
        tag = str(said.get("ETag", ""))
        time = str(said.get("LastModified", ""))
        return Answer(await body.read(), begin, size, tag, time)


async def _ask_http(store: Store, remote: Remote, first: int, last: int) -> Answer:
    session = await store.fs.set_session()
    asked = dict(store.fs.kwargs)
    headers = {
        **asked.pop("headers", {}),
        "Range": _range(first, last),
        "Accept-Encoding": "identity",
    }
    async with session.get(
        store.fs.encode_url(_quoted(remote.target)), headers=headers, **asked
    ) as said:
        if said.status == _OUT_OF_RANGE:
            return _beyond_the_end(first)
        if said.status not in (_WHOLE, _PART):
            raise Refused("", said.reason or "", said.status, said.headers.get("Retry-After", ""))
        given = None
        if said.status == _PART:
            given = said.headers.get("Content-Range")
        begin, size = _placed(given, said.content_length, first, last)
        time = said.headers.get("Last-Modified", "")
        tag = said.headers.get("ETag") or time
        return Answer(await said.read(), begin, size, tag, time)


def _range(first: int, last: int) -> str:
    """What a header says for the bytes from `first` on, or for `first` below 0 for so many at the
    end.
    """
    if first < 0:
        return f"bytes={first}"
    return f"bytes={first}-{last - 1}"


async def _ask_other(store: Store, remote: Remote, first: int, last: int) -> Answer:
    name = path_in(store, remote)
    data = await call(store, "cat_file", name, start=first, end=last)
    return Answer(data, first)


async def _ask_unseen(store: Store, remote: Remote, first: int, last: int) -> Answer:
    about = await _ask_about(store, remote, 0, 0)
    begin, end = _within(about.size or 0, first, last)
    if end <= begin:
        return about._replace(data=b"")
    answer = await _ask_other(store, remote, begin, end)
    return about._replace(data=answer.data)


async def _ask_about(store: Store, remote: Remote, _first: int, _last: int) -> Answer:
    """Size and state alone."""
    store.fs.invalidate_cache()
    about = await call(store, "info", path_in(store, remote))
    if about.get("type") == "directory" or about.get("size") is None:
        why = "there is a directory of this name" if about.get("type") else "it has no size"
        raise Refused("missing", why)
    tag = next((str(about[name]) for name in (*_STATES, *_TIMES) if about.get(name)), "")
    return Answer(b"", 0, int(about["size"]), tag)


_ASK: Mapping[str, Callable[[Store, Remote, int, int], Coroutine[Any, Any, Answer]]] = {
    **dict.fromkeys(S3, _ask_s3),
    **dict.fromkeys(WEB, _ask_http),
}
"The schemes whose answers say what they are of."


def _placed(given: str | None, length: int | None, first: int, last: int) -> tuple[int | None, int]:
    """First byte of an answer, or None for the whole object, and the size of the object, from
    Content-Range.

    Raises Refused for an answer that does not say what it is, or is larger than what was asked for.
    """
    if given is not None:
        found = _RANGE.fullmatch(given.strip())
        if found is not None:
            begin, last_one, size = map(int, found.groups())
            if (begin, last_one + 1) == _within(size, first, last):
                return begin, size
        asked = _range(first, last).replace("=", " ")
        raise Refused("wrong", f"{given} where {asked} were asked for")
    if length is None or first > 0 or length > max(last, -first):
        raise Refused("rangeless")
    return None, length


def _beyond_the_end(first: int) -> Answer:
    """What 416 means: nothing of the object lies in the range; only an empty one has no first
    byte.
    """
    if first > 0:
        raise Refused("changed", "is shorter than it was when it was opened")
    return Answer(b"", 0, 0)


async def call(store: Store, name: str, *args: Any, **options: Any) -> Any:
    """A method of a file system, in a thread of its own where it blocks."""
    if store.fs.async_impl:
        return await getattr(store.fs, f"_{name}")(*args, **options)
    return await in_thread(partial(getattr(store.fs, name), *args, **options))


async def in_thread(action: Callable[[], T]) -> T:
    """An action's result; given up, its thread keeps nothing waiting, not even the end of the
    process.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = partial(ended.set_result, action())
        except BaseException as error:  # noqa: BLE001  # handed to who waits
            settle = partial(ended.set_exception, error)

        def settle_unless_given_up() -> None:
            if not ended.done():
                settle()

        loop.call_soon_threadsafe(settle_unless_given_up)

    threading.Thread(target=run, daemon=True).start()
    return await ended


_SAFE = "%/:=&?~+!$,;'@()*[]"
"Characters that a URL may hold as they are."


def _quoted(url: str) -> str:
    """A URL as it was given, but for characters that no URL may hold."""
    taken = urlsplit(url)
    path = quote(taken.path, safe=_SAFE)
    query = quote(taken.query, safe=_SAFE)
    return urlunsplit((taken.scheme, taken.netloc, path, query, ""))
