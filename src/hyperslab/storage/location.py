"""Where a file is: a path on this machine, or a Remote, which is a text too: a URL that is safe to
show.

A URL with the scheme `file` is a path on this machine. Nothing here looks at a disk but
`local_path`, or at a network.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit

from hyperslab.errors import UsageError
from hyperslab.redaction import hide, redact

_URL = r"(?i)([a-z][a-z0-9+.-]*)://[^/]*"
_URL_AS_PATH = r"(?i)[a-z][a-z0-9+.-]+:/"
"What pathlib makes of a URL."
_LOCAL = ("file", "local")
_WEB = ("http", "https")


class Remote(str):
    """An object in a remote store, in one state, with what it takes to ask for it.

    As a text it is its URL without secrets, so that messages, names and records can hold it.
    Pickled it is whole: a task that gets one can read it.
    """

    __slots__ = ("options", "size", "tag", "target", "token")

    target: str
    "The URL in full, for requests only."
    options: Mapping[str, Any]
    "What fsspec is given with it: credentials, endpoint ..."
    size: int
    "Bytes."
    tag: str
    """What the store calls this state of the object: its ETag, else its time of change; '' where it
    has neither.
    """
    token: str
    """Token of this description: what was read through it is not mixed with what was read through
    another.
    """

    def __new__(
        cls,
        target: str,
        options: Mapping[str, Any] | None = None,
        size: int = 0,
        tag: str = "",
        token: str = "",
    ) -> Self:
        self = super().__new__(cls, redact(target))
        self.target = target
        self.options = dict(options or {})
        self.size = size
        self.tag = tag
        self.token = token or secrets.token_hex(8)
        return self

    def __reduce__(self) -> tuple[type[Remote], tuple[Any, ...]]:
        return Remote, (self.target, self.options, self.size, self.tag, self.token)

    def hide(self, text: str) -> str:
        """A text about a request for this object, without its secrets."""
        return hide(text.replace(self.target, self), self.options)


class RemoteFolder(Remote):
    """A place below which objects are one thing, as those of a Zarr store: `size` and `tag` are of
    one of them.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Remote], tuple[Any, ...]]:
        return RemoteFolder, super().__reduce__()[1]

    def below(self, name: str) -> Remote:
        """An object by its name from here on."""
        return Remote(self._target_of(name), self.options)

    def folder(self, name: str) -> RemoteFolder:
        """A place in this one; '' names this one."""
        if not name:
            return self
        return RemoteFolder(self._target_of(name), self.options)

    def as_of(self, size: int, tag: str) -> RemoteFolder:
        """This place, with the size and state of the object that says what it is."""
        return RemoteFolder(self.target, self.options, size, tag, self.token)

    def _target_of(self, name: str) -> str:
        """What follows a question mark in the address of a page stays at the end."""
        if scheme(self.target) not in _WEB:
            return f"{self.target.rstrip('/')}/{name}"
        path, mark, query = self.target.partition("?")
        return f"{path.rstrip('/')}/{quote(name)}{mark}{query}"


def scheme(url: str) -> str:
    """The scheme of a URL in lower case; '' for a path."""
    match = re.match(_URL, url)
    if match is None:
        return ""
    return match[1].lower()


def is_remote(url: str) -> bool:
    """Whether a text is the URL of something that is not a file of this machine."""
    return scheme(url) not in ("", *_LOCAL)


def local_path(url: str) -> str:
    """The path that a URL of this machine names; any other text is returned as it is.

    A name with per cent signs is taken as it stands if there is such a file, else decoded (RFC
    8089).
    """
    if scheme(url) not in _LOCAL:
        return url
    path = url.partition("://")[2]
    if path.startswith("localhost/"):
        path = path.removeprefix("localhost")
    if "%" not in path or os.path.lexists(path):
        return path
    return unquote(path)


def text_of(dest: str | os.PathLike[str]) -> str:
    """A path or URL as it was meant, also a URL that was made a path of pathlib."""
    text = os.fspath(dest)
    if (
        isinstance(dest, PurePath)
        and re.match(_URL_AS_PATH, text)
        and not os.path.lexists(dest.parts[0])
    ):
        return text.replace(":/", "://", 1)
    return text


def local_folder(dest: str | os.PathLike[str]) -> str:
    """The directory of this machine that a destination names. Raises UsageError for the URL of a
    store.
    """
    text = text_of(dest)
    if is_remote(text):
        raise UsageError(
            f"{redact(text)}: give a directory on this machine; copy the result to the store with"
            " 'hyperslab convert', or in Python with hyperslab.upload(path, url)"
        )
    return local_path(text)


def split_dataset(url: str) -> tuple[str, str]:
    """Split 'URL::DATASET' at the first '::' after the host into (URL, dataset)."""
    match = re.match(_URL, url)
    if match is None:
        path, _, name = url.partition("::")
        return path, name
    host = match[0]
    path, _, name = url.removeprefix(host).partition("::")
    return host + path, name


def parts(url: str) -> list[str]:
    """The parts of a path or of a URL, without scheme and query, from which files can be named."""
    if not isinstance(url, Remote):
        return [part for part in url.split("/") if part]
    if scheme(url) not in _WEB:
        return [part for part in url.partition("://")[2].split("/") if part]
    asked = urlsplit(url)
    host = asked.netloc.rpartition("@")[2]
    return [unquote(part).replace("/", "_") for part in (host + asked.path).split("/") if part]
