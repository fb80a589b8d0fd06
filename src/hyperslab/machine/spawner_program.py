"""What runs in a spawner: a small process that runs commands, one after the other, for a worker.

It reads requests from its standard input and answers on its standard output, a line of JSON each.
When the worker is gone, however it went, the input ends, and the command is ended with all that it
has started. It rests on the standard library alone, and starts in some 20 ms.

- a command is a session of its own: no Ctrl-C of a terminal reaches it, and a signal to its process
  group reaches what it has started
- what leaves the group, as daemons do, comes back as a child of this process
  (PR_SET_CHILD_SUBREAPER of prctl(2)), and ends with the command
- SIGTERM, which batch systems send to all processes of a job, it leaves to the worker and to the
  command, and does its work when they have ended
- should this process be killed, the kernel kills the command (PR_SET_PDEATHSIG)
- a text without `#!` is a script of the shell, as for execvp(3)
- what lies outside of its processes, as the container of a daemon does, is removed by another
  command (`after`), unless the first one ended well
- what it prints comes by a pipe, and goes to its log as it comes; of more than the log is to keep
  the beginning and the end stay
- what no signal ends, the command or something that it has started, as it waits for a server or a
  device that does not answer, is left to itself after a while; this process ends then, too

Held by tests/machine/test_spawner.py.
"""

from __future__ import annotations

import ctypes
import errno
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, NoReturn

GRACE_S = 2.0
"Time between the signal that asks a command to end and the one that makes it."
_AGAIN_S = 0.01
_MOST_S = 10.0
"How long processes that cannot be killed, as they wait for a dead server, are waited for."
_PIECE_NBYTES = 1 << 16
"What is read of a pipe at once, which is what it holds by default."
_DRAINED = 64
"Reads of what a pipe holds at most when whoever has written to it is gone."
_AFTER_S = 60.0
"How long the command that removes the rest of another one may take."
_NOTICED = (signal.SIGPIPE, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)
"""Signals that do nothing here, and to a command what they do by default: execve(2) forgets who
handles a signal, but not that it is ignored.
"""
_PDEATHSIG, _SUBREAPER = 1, 36
_SHELL = "/bin/sh"
_HEAD_NBYTES = 4096
"What is read of a file that may be a script."
_libc = ctypes.CDLL(None)


def main() -> None:
    """Run what is asked for until nobody asks any more."""
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes)
    for number in _NOTICED:
        signal.signal(number, lambda *_: None)
    for request in _requests():
        answer = _run(request, woken)
        if answer is None:
            return
        with suppress(BrokenPipeError):
            os.write(1, json.dumps(answer).encode() + b"\n")
        if answer.get("is_stuck"):
            return


def _requests() -> Iterator[dict[str, Any]]:
    held = b""
    while data := os.read(0, 1 << 16):
        held += data
        *lines, held = held.split(b"\n")
        yield from map(json.loads, lines)


def _run(request: dict[str, Any], woken: int) -> dict[str, Any] | None:
    """Run a command to its end; None where the worker is gone."""
    try:
        log = _Log(request["log"], request["kept_nbytes"])
    except OSError as error:
        return {"refusal": [0, "", f"its log {request['log']} cannot be opened: {error.strerror}"]}
    with closing(log):
        began_ns = time.monotonic_ns()
        child, refusal = _start(request, log.sink)
        log.listen()
        if refusal is not None:
            os.waitpid(child, 0)
            return {"refusal": refusal}
        usage = _Usage()
        status, why = _await(child, request["limit_s"] or math.inf, woken, usage, log)
        ended_ns = time.monotonic_ns()
        if request["after"] and (status or why):
            _clean_up(request, log)
        is_stuck = _end_the_rest(usage, log, GRACE_S if status is None else _MOST_S)
        nbytes = log.end()
    if why == "left":
        return None
    return {
        "status": os.waitstatus_to_exitcode(signal.SIGKILL if status is None else status),
        "is_late": why == "late",
        "is_stuck": is_stuck,
        "start_ns": began_ns,
        "end_ns": ended_ns,
        "user_s": usage.user_s,
        "system_s": usage.system_s,
        "max_rss": usage.max_rss,
        "log": request["log"],
        "offset": log.offset,
        "nbytes": nbytes,
    }


class _Log:
    """What a command prints, on its way from a pipe to the end of a file to which others append,
    too: all of it, or where that would be more than it keeps, a half of that from the beginning,
    and a quarter at least from the end.
    """

    def __init__(self, path: str, kept_nbytes: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._path = path
        self._kept_nbytes = kept_nbytes
        self._too_long_nbytes = kept_nbytes
        try:
            self.offset = os.fstat(self._file).st_size
        except OSError:
            os.close(self._file)
            raise
        self._nbytes = 0
        self._left_out = 0
        self._lost = 0
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)
        self.is_open = True

    def close(self) -> None:
        for end in (self._file, self.source, self.sink):
            if end >= 0:
                os.close(end)

    def listen(self) -> None:
        """Let the command alone have the end that is written to."""
        os.close(self.sink)
        self.sink = -1

    def pump(self) -> bool:
        """Bring what has come to the file; whether that was anything."""
        if not self.is_open:
            return False
        try:
            data = os.read(self.source, _PIECE_NBYTES)
        except BlockingIOError:
            return False
        self.is_open = bool(data)
        self._append(data)
        if self._length() > self._too_long_nbytes:
            self._keep_short()
        return self.is_open

    def end(self) -> int:
        """Bring the rest to the file, and say what is lacking there; bytes that were printed, or
        say so.
        """
        for _ in range(_DRAINED):
            if not self.pump():
                break
        if self._lost:
            self._append(f"\nhyperslab: {self._lost:,} bytes could not be written here\n".encode())
        return self._length()

    def _length(self) -> int:
        """Bytes that the file has of this command; of one whose server does not know it any more,
        those that it had when it was last seen.
        """
        with suppress(OSError):
            self._nbytes = os.fstat(self._file).st_size - self.offset
        return self._nbytes

    def _append(self, data: bytes) -> None:
        """Write to a disk that may be full: the command goes on, and its log lacks that."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            self._lost += len(left)

    def _keep_short(self) -> None:
        """Shorten the file, or try that again when it is twice as long: the command goes on."""
        self._too_long_nbytes *= 2
        with suppress(OSError):
            self._shorten()
            self._too_long_nbytes = self._kept_nbytes

    def _shorten(self) -> None:
        """Move the end behind the beginning, with a note of how much was between them."""
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            noted_at = self.offset + self._kept_nbytes // 2
            behind = noted_at
            if self._left_out:
                behind += len(self._note())
            size = os.fstat(file).st_size
            first = size - self._kept_nbytes // 4
            self._left_out += first - behind
            note = self._note()
            place = noted_at + len(note)
            while data := os.pread(file, _PIECE_NBYTES, first):
                os.pwrite(file, data, place)
                first += len(data)
                place += len(data)
            os.ftruncate(file, place)
            os.pwrite(file, note, noted_at)
        finally:
            os.close(file)

    def _note(self) -> bytes:
        """What stands in the place of what is left out, of one length however much that is."""
        return (
            f"\nhyperslab: {self._left_out:>24,} bytes that it printed here are left out, as all"
            f" are more than {self._kept_nbytes:,}\n"
        ).encode()


class _Usage:
    """What processes have used that were waited for."""

    def __init__(self) -> None:
        self.user_s = 0.0
        self.system_s = 0.0
        self.max_rss = 0

    def add(self, used: Any) -> None:
        self.user_s += used.ru_utime
        self.system_s += used.ru_stime
        self.max_rss = max(self.max_rss, used.ru_maxrss * 1024)


def _start(request: dict[str, Any], log: int) -> tuple[int, list[Any] | None]:
    """The process of a command, and why it is none: the number of the error, and the file."""
    told, tell = os.pipe()
    own = os.getpid()
    child = os.fork()
    if not child:
        _become(request, log, tell, own)
    os.close(tell)
    said = b""
    while data := os.read(told, 1 << 16):  # ends when the command has begun
        said += data
    os.close(told)
    refusal = None
    if said:
        refusal = json.loads(said)
    return child, refusal


def _become(request: dict[str, Any], log: int, tell: int, parent: int) -> NoReturn:
    """Be the command, in the process that was forked for it."""
    place = request["cwd"]
    try:
        os.setsid()
        _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(place)
        place = request["argv"][0]
        _execute(request["argv"], request["env"])
    except BaseException as error:  # noqa: BLE001  # told to the parent
        number = getattr(error, "errno", None) or 0
        os.write(tell, json.dumps([number, place, str(error)]).encode())
    os._exit(127)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    """Become a program, or the shell that runs a script which does not say what does. Raises
    OSError.
    """
    path = _found(argv[0], env)
    try:
        os.execve(path, argv, env)  # noqa: S606  # no shell is wanted
    except OSError as error:
        if error.errno != errno.ENOEXEC or not _is_text(path):
            raise
        os.execve(_SHELL, [_SHELL, path, *argv[1:]], env)  # noqa: S606  # nor its words


def _found(name: str, env: dict[str, str]) -> str:
    """The file that the first word of a command means, looked for as execvp(3) does."""
    if "/" in name:
        return name
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(folder, name) for folder in folders]
    files = [path for path in paths if os.path.isfile(path)]
    return next((path for path in files if os.access(path, os.X_OK)), (*files, name)[0])


def _is_text(path: str) -> bool:
    """Whether a file may be a script, and is no program for another machine."""
    with open(path, "rb") as file:
        return b"\0" not in file.read(_HEAD_NBYTES)


def _await(
    child: int, limit_s: float, woken: int, usage: _Usage, log: _Log
) -> tuple[int | None, str]:
    """Wait until a command has ended: its status, and why it was ended, 'late' or 'left' by the
    worker; '' where it was not. Without a status it has not ended, whatever it was sent.
    """
    late_at = time.monotonic() + limit_s
    kill_at = give_up_at = math.inf
    why = ""
    while (status := _reaped(child, usage)) is None:
        now = time.monotonic()
        if now >= give_up_at:
            break
        if now >= kill_at:
            _signal(child, signal.SIGKILL)
            kill_at = now + GRACE_S
        elif not why and now >= late_at:
            why = "late"
            _signal(child, signal.SIGTERM)
            kill_at = now + GRACE_S
            give_up_at = kill_at + _MOST_S
        until = kill_at if why else late_at
        if _is_left(woken, not why, until - time.monotonic(), log):
            why = "left"
            _signal(child, signal.SIGTERM)
            kill_at = time.monotonic() + GRACE_S
            give_up_at = kill_at + _MOST_S
    return status, why


def _reaped(child: int, usage: _Usage) -> int | None:
    """Status of a child that has ended; what else has ended is waited for, too."""
    while True:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if not pid:
            return None
        usage.add(used)
        if pid == child:
            return status


def _is_left(woken: int, watches: bool, limit_s: float, log: _Log) -> bool:
    """Wait until a child may have ended or has printed something, or for a time; whether the worker
    is gone instead.
    """
    ends = [woken]
    if watches:
        ends.append(0)
    if log.is_open:
        ends.append(log.source)
    timeout = None
    if limit_s < math.inf:
        timeout = max(0.0, limit_s)
    ready, _, _ = select.select(ends, [], [], timeout)
    if woken in ready:
        with suppress(BlockingIOError):
            os.read(woken, 1 << 12)
    if log.source in ready:
        log.pump()
    return 0 in ready


def _signal(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _clean_up(request: dict[str, Any], log: _Log) -> None:
    """Run the command that removes the rest of one that failed or was ended, also where the worker
    is gone. What both have started is still there.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    child, refusal = _start({**request, "argv": request["after"]}, nowhere)
    os.close(nowhere)
    if refusal is not None:
        os.waitpid(child, 0)
        return
    give_up_at = time.monotonic() + _AFTER_S
    while _reaped(child, _Usage()) is None and time.monotonic() < give_up_at:
        if not log.pump():
            time.sleep(_AGAIN_S)


def _end_the_rest(usage: _Usage, log: _Log, most_s: float) -> bool:
    """Kill what a command has left running, and itself, and wait for that, for some seconds at
    most; whether some of it is still there.
    """
    give_up_at = time.monotonic() + most_s
    while time.monotonic() < give_up_at:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid:
            usage.add(used)
            continue
        for left in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(left, signal.SIGKILL)
        if not log.pump():
            time.sleep(_AGAIN_S)
    return True


def descendants(top: int) -> list[int]:
    """Processes that one has started, and those that these have."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            parent = int(file.read().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = children.get(top, [])
    for pid in found:  # which grows
        found += children.get(pid, [])
    return found


if __name__ == "__main__":
    main()
    sys.exit(0)
