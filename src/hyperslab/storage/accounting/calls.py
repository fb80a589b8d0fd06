"""Calls of the kernel, as operations on files.

Descriptors come with their paths. A few calls name a file relative to the working directory, which
is followed from thread to thread. Whether an opening has made its file no call says, unless it
asked for a new one: it has if nobody had found the file there before.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from hyperslab.accesses import Access
from hyperslab.storage.accounting.lines import Call

_STRING = r'"(?P<text>(?:[^"\\]|\\.)*)"'
_FOLDER = r"(?:AT_FDCWD|\d+)(?:<(?P<folder>[^<>]*)>)?(?:\(deleted\))?"
_AT = re.compile(rf"{_FOLDER}, {_STRING}")
_NAMED = re.compile(_STRING)
_NO_FILE = re.compile(r'\d+<(?!/)[^<>]*>, ""')
_OPENED = re.compile(r"(?:AT_FDCWD|\d+)<(?P<path>[^<>]*)>")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)", re.DOTALL)
_ASKING = re.compile(r"/dev/(?:fuse|console|tty\w*|(?:pts/)?ptmx|pts/\d+)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f", b"a": b"\a"}

BY_DESCRIPTOR = {
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "preadv2"), "read"),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2"), "write"),
    **dict.fromkeys(("fstat", "fstatfs", "fgetxattr", "flistxattr"), "stat"),
    **dict.fromkeys(("fchmod", "fchown", "fsetxattr", "fremovexattr"), "attributes"),
    **dict.fromkeys(("ftruncate", "fallocate"), "truncate"),
    **dict.fromkeys(("fsync", "fdatasync", "sync_file_range", "syncfs"), "sync"),
    **dict.fromkeys(("getdents", "getdents64"), "list"),
    "close": "close",
}
BY_NAME = {
    **dict.fromkeys(("stat", "lstat", "access", "readlink", "statfs"), "stat"),
    **dict.fromkeys(("getxattr", "lgetxattr", "listxattr", "llistxattr"), "stat"),
    **dict.fromkeys(("chmod", "chown", "lchown", "utime", "utimes"), "attributes"),
    **dict.fromkeys(("setxattr", "lsetxattr", "removexattr", "lremovexattr"), "attributes"),
    **dict.fromkeys(("unlink", "rmdir"), "unlink"),
    "mkdir": "mkdir",
    "mknod": "create",
    "truncate": "truncate",
}
BY_FOLDER = {
    **dict.fromkeys(("newfstatat", "fstatat64", "statx", "readlinkat"), "stat"),
    **dict.fromkeys(("faccessat", "faccessat2"), "stat"),
    **dict.fromkeys(("fchmodat", "fchmodat2", "fchownat", "utimensat", "futimesat"), "attributes"),
    "unlinkat": "unlink",
    "mkdirat": "mkdir",
    "mknodat": "create",
}
OF_TWO = {
    **dict.fromkeys(("rename", "renameat", "renameat2"), "rename"),
    **dict.fromkeys(("link", "linkat", "symlink", "symlinkat"), "link"),
}
OPENING = ("open", "creat", "openat", "openat2")
_BY_FOLDER = OPENING[2:]
COPYING = {"copy_file_range": (0, 1), "sendfile": (1, 0), "splice": (0, 1)}
"Calls that read one descriptor and write another: which of their descriptors is which."
FOLLOWED = ("chdir", "fchdir", "clone", "clone3", "fork", "vfork")
MAPS_NOTE = "what is read through memory maps is counted as mapped, not as read"
UNSEEN = {
    "io_uring_setup": "what goes through io_uring is not counted",
    "io_setup": "what goes through the kernel's asynchronous reads and writes is not counted",
}
"Calls that lead past all others."
MOVING = ("read", "write")
"Operations that move bytes from or to a descriptor."
NAMES = (
    *BY_DESCRIPTOR,
    *BY_NAME,
    *BY_FOLDER,
    *OF_TWO,
    *OPENING,
    *COPYING,
    *FOLLOWED,
    *UNSEEN,
    "mmap",
)
"Names of all calls that are looked at."
STARTS = FOLLOWED[2:]


class _Directory:
    """A working directory, which threads of a process share."""

    def __init__(self, path: str) -> None:
        self.path = path


class _Made(NamedTuple):
    """A thread that another one has started."""

    process: int
    directory: _Directory


class Calls:
    """What calls have done to files, in their order."""

    def __init__(self, directory: str) -> None:
        self._first = _Directory(directory)
        self._threads: dict[int, _Made] = {}
        self._there: set[str] = set()
        self.notes: set[str] = set()

    def knows(self, thread: int) -> bool:
        """Whether it is known who has started a thread."""
        return thread in self._threads

    def begin(self, thread: int) -> None:
        """Take a thread for the first of its process, where the command was started."""
        self._threads[thread] = _Made(thread, _Directory(self._first.path))

    def end(self, thread: int) -> None:
        """Forget a thread, whose number may come again."""
        self._threads.pop(thread, None)

    def accesses(self, call: Call) -> Iterator[Access]:
        """What a call has done to files: nothing, one operation, or two of a copy."""
        name = call.name
        if name in STARTS:
            self._start(call)
        elif name in FOLLOWED:
            self._move(call)
        elif name in UNSEEN:
            self.notes.add(UNSEEN[name])
        elif name in COPYING:
            yield from self._copy(call)
        elif name in OPENING:
            yield self._open(call)
        else:
            yield from self._plain(call)

    def _plain(self, call: Call) -> Iterator[Access]:
        """An operation on one file, or on two names."""
        name, first = call.name, call.arguments
        if operation := BY_DESCRIPTOR.get(name):
            if path := _moved_at(operation, first):
                yield self._of(call, operation, path, _moved(operation, call))
        elif name == "mmap":
            # The length is the second argument, the descriptor the fifth.
            if path := _opened(first.split(", ", 4)[-1]):
                yield self._of(call, "map", path, int(first.split(", ")[1]))
        elif operation := BY_NAME.get(name):
            yield self._of(call, operation, self._named(call))
        elif operation := BY_FOLDER.get(name):
            if not _NO_FILE.match(first):
                yield self._of(call, operation, self._at(call))
        else:
            yield self._of(call, OF_TWO[name], self._rename(call))

    def _of(self, call: Call, operation: str, path: str, nbytes: int = 0) -> Access:
        has_failed = bool(call.error)
        if operation == "unlink" and not has_failed:
            self._there.discard(path)
        elif not has_failed:
            self._there.add(path)
        if has_failed:
            nbytes = 0
        process = self._threads[call.thread].process
        times = (call.start_ns, call.duration_ns, process)
        return Access(*times, operation, path, nbytes, has_failed)

    def _open(self, call: Call) -> Access:
        """An opening, of what is there or of what it has made."""
        path = self._at(call) if call.name in _BY_FOLDER else self._named(call)
        if call.error:
            return self._of(call, "open", path)
        asked = call.arguments.rpartition('"')[2]
        if "O_TMPFILE" in asked:
            return self._of(call, "create", _opened(f"0<{call.path}>") or path)
        makes = "O_CREAT" in asked or call.name == "creat"
        is_new = "O_EXCL" in asked or path not in self._there
        return self._of(call, "create" if makes and is_new else "open", path)

    def _copy(self, call: Call) -> Iterator[Access]:
        """A copy from one descriptor to another."""
        words = re.findall(r"\d+<[^<>]*>", call.arguments)
        for operation, place in zip(("read", "write"), COPYING[call.name], strict=True):
            if place < len(words) and (path := _moved_at(operation, words[place])):
                yield self._of(call, operation, path, call.result)

    def _rename(self, call: Call) -> str:
        """The new name of two, or that of a link."""
        paths = list(self._all_named(call))
        if call.name.startswith("rename") and not call.error:
            self._there.discard(paths[0])
        return paths[-1]

    def _all_named(self, call: Call) -> Iterator[str]:
        found = list(_AT.finditer(call.arguments))
        if found:
            for one in found:
                yield self._joined(call, one["folder"] or "", one["text"])
            return
        for one in _NAMED.finditer(call.arguments):
            yield self._joined(call, "", one["text"])

    def _named(self, call: Call) -> str:
        """The file that a call names by a path alone."""
        found = _NAMED.match(call.arguments)
        if found is None:  # an address that is none
            return ""
        return self._joined(call, "", found["text"])

    def _at(self, call: Call) -> str:
        """The file that a call names by a directory and a path."""
        found = _AT.match(call.arguments)
        if found is None:  # the directory itself
            return _opened(call.arguments)
        return self._joined(call, found["folder"] or "", found["text"])

    def _joined(self, call: Call, folder: str, text: str) -> str:
        base = unescaped(folder) or self._threads[call.thread].directory.path
        return plain(os.path.join(base, unescaped(text)))

    def _move(self, call: Call) -> None:
        """Follow a change of the working directory."""
        if call.error:
            return
        path = _opened(call.arguments) if call.name == "fchdir" else self._named(call)
        self._threads[call.thread].directory.path = path

    def _start(self, call: Call) -> None:
        """Follow a new thread or process."""
        if call.error or call.result <= 0:
            return
        parent = self._threads[call.thread]
        made = _Made(call.result, _Directory(parent.directory.path))
        if "CLONE_FS" in call.arguments:
            made = made._replace(directory=parent.directory)
        if "CLONE_THREAD" in call.arguments:
            made = made._replace(process=parent.process)
        self._threads[call.result] = made


def waits(path: str) -> bool:
    """Whether who reads there waits for somebody, as at a terminal, or as a program that serves a
    file system does: no more a file than a pipe is.
    """
    return _ASKING.fullmatch(path) is not None


def _moved_at(operation: str, text: str) -> str:
    """The path of the descriptor that a text begins with; '' where an operation is on no file."""
    path = _opened(text)
    if operation in MOVING and waits(path):
        return ""
    return path


def _moved(operation: str, call: Call) -> int:
    if operation in MOVING:
        return call.result
    return 0


def _opened(text: str) -> str:
    """The path of the descriptor that a text begins with; '' of what is no file, as a pipe."""
    found = _OPENED.match(text)
    if found is None or not found["path"].startswith("/"):
        return ""
    return unescaped(found["path"])


@functools.lru_cache(maxsize=1 << 16)
def unescaped(text: str) -> str:
    """A path that strace has written."""
    if "\\" not in text and text.isascii():
        return text
    raw = _ESCAPE.sub(_byte, text.encode("utf-8", "surrogateescape"))
    return os.fsdecode(raw)


def _byte(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code[:1].isdigit():
        return bytes([int(code, 8)])
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    return _LETTERS.get(code, code)


def plain(path: str) -> str:
    """A path without links in its folder, as descriptors have it."""
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(_resolved(folder), name)


@functools.lru_cache(maxsize=1 << 14)
def _resolved(folder: str) -> str:
    return os.path.realpath(folder)
