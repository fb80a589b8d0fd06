"""Program: hyperslab-tierfs, found, started and asked for its counters."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from hyperslab.errors import HyperslabError, UsageError
from hyperslab.machine.asking import asked
from hyperslab.machine.built import Built
from hyperslab.storage.emulation import registry
from hyperslab.storage.emulation.registry import Emulation, folder, recorded
from hyperslab.storage.emulation.settings import options

PROGRAM = Built("hyperslab-tierfs", "HYPERSLAB_TIERFS", "tierfs", "an emulated tier")
DEVICE = Path("/dev/fuse")
_READY = b"ready\n"
_REPORT_S = 5.0
_OF_DATA = ("read", "write")
"Counters of operations that are not on names or attributes."
_lifelines: dict[str, IO[bytes]] = {}
"Ends of pipes that this process holds, by names of tiers whose programs end with it."


class EmulationFailed(HyperslabError):
    """A tier that could not be made, or is not what was asked for."""


class NotReady(HyperslabError):
    """A program that has ended before it was ready, and why."""


def require_fuse() -> None:
    """Raise UsageError where this user cannot mount a file system that is a program."""
    require_device()
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise UsageError("without root, this needs fusermount3: install the Debian package fuse3")


def require_device() -> None:
    """Raise UsageError where this user cannot be what answers for a file system."""
    if not DEVICE.exists():
        raise UsageError(
            f"there is no {DEVICE}: load the kernel's module (modprobe fuse), or give the"
            f" container the device (--device {DEVICE})"
        )
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        raise UsageError(
            f"{DEVICE} may not be opened by this user: have root allow it (chmod 666 {DEVICE})"
        )


def command(emulation: Emulation, has_lifeline: bool = False) -> list[str]:
    """How the program is started for a tier."""
    lifeline = []
    if has_lifeline:
        lifeline = ["--lifeline", "yes"]
    allow_other = "no"
    if os.geteuid() == 0:
        allow_other = "yes"
    return [
        PROGRAM.find(),
        emulation.backing,
        emulation.directory,
        *options(emulation.settings),
        *("--name", emulation.source),
        *("--type", emulation.subtype),
        *("--control", f"{emulation.name}.sock"),
        *("--allow-other", allow_other),
        *lifeline,
    ]


def start(emulation: Emulation, has_lifeline: bool = False) -> int:
    """Process that serves a tier, which is mounted by then; with a lifeline, until this process is
    gone. Raises EmulationFailed.
    """
    stdin = subprocess.DEVNULL
    if has_lifeline:
        stdin = subprocess.PIPE
    log = folder() / f"{emulation.name}.log"
    try:
        process = begun(command(emulation, has_lifeline), log, stdin)
    except NotReady as why:
        raise EmulationFailed(f"{emulation.directory} could not be mounted: {why}") from None
    if process.stdin is not None:
        _lifelines[emulation.name] = process.stdin
    return process.pid


def lifelines(emulation: Emulation) -> list[int]:
    """Descriptors with which its program ends once nobody has them any more; [] where it ends with
    nobody.
    """
    return [lifeline.fileno() for name, lifeline in _lifelines.items() if name == emulation.name]


def let_go(emulation: Emulation) -> None:
    """Close what this process holds of a program that is there as long as itself."""
    lifeline = _lifelines.pop(emulation.name, None)
    if lifeline is not None:
        lifeline.close()


def begun(
    command: Sequence[str],
    log: Path,
    stdin: int = subprocess.DEVNULL,
    limit_s: float | None = None,
) -> subprocess.Popen[bytes]:
    """Process of a program that has said that it is ready, in so many seconds if they are limited;
    it runs in the folder of its log. Raises NotReady.
    """
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        with process.stdout as told:
            _require_word(told, limit_s)
            is_ready = told.readline() == _READY
    except BaseException:
        process.kill()
        if process.stdin is not None:
            process.stdin.close()
        raise
    finally:
        reap(process)
    if is_ready:
        return process
    process.wait()
    raise NotReady(reason(log))


def _require_word(told: IO[bytes], limit_s: float | None) -> None:
    """Raise NotReady where a program says nothing in time, and does not end."""
    heard = select.poll()  # `select.select` knows no descriptor beyond 1023
    heard.register(told, select.POLLIN)
    if not heard.poll(None if limit_s is None else 1000 * limit_s):
        raise NotReady(
            f"its program was not ready in {limit_s} s, as where storage does not answer"
        )


def reap(process: subprocess.Popen[bytes]) -> None:
    """See to the end of a process that outlives this one, or ends before it."""
    threading.Thread(target=process.wait, daemon=True).start()


def reason(log: Path) -> str:
    """Why a program has failed, by the last line that it wrote."""
    lines = log.read_text(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    if not said:
        return "its program said nothing"
    return said[-1].removeprefix("fusermount3: ")


def counters(emulation: Emulation) -> dict[str, Any]:
    """What the program has counted: operations by name, and bytes. Raises OSError where nobody
    answers.
    """
    descriptor = os.open(folder(), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The folder's own name may be longer than the address of a socket.
        address = f"/proc/self/fd/{descriptor}/{emulation.name}.sock"
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_REPORT_S)
            client.connect(address)
            report: dict[str, Any] = json.loads(_all(client))
    finally:
        os.close(descriptor)
    return report


def last_counters(emulation: Emulation) -> dict[str, Any]:
    """What the program had counted when it ended. Raises OSError where it was killed."""
    text = (folder() / f"{emulation.name}.{registry.LAST}").read_text()
    report: dict[str, Any] = json.loads(text)
    return report


def names_served(directory: str) -> int | None:
    """Number of operations on names and attributes that the emulated tier at a directory, named
    without links, has served so far; None where none is there. Raises OSError where it does not
    answer.
    """
    for made in recorded():
        if made.directory == directory:
            counted = counters(made)["operations"]
            return sum(int(count) for name, count in counted.items() if name not in _OF_DATA)
    return None


def _all(client: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := client.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def unmount(place: str, lazily: bool = False) -> str:
    """Unmount a file system: what kept it from being, or ''."""
    way = ["umount", *(["--lazy"] if lazily else []), "--", place]
    if os.geteuid() != 0:
        way = ["fusermount3", "-u", *(["-z"] if lazily else []), "--", place]
    return _run(way)


def _run(command: Sequence[str]) -> str:
    try:
        done = asked(command)
    except FileNotFoundError:
        return f"{command[0]} is missing"
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"{command[0]} failed"
