"""Namespaces: a place for each node of a laboratory, and ways into it.

A node has a network of its own and a host name of its own (a UTS namespace), held by files in the
laboratory's folder, which is a file system of its own: whoever unmounts it lets go of all of them.
What is done here to a network is done by a thread in the node's namespace, which looks where it is
before it does anything, so that no mistake can reach this host's own devices.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from hyperslab.errors import HyperslabError
from hyperslab.storage.mounts import mounts

T = TypeVar("T")

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"Where root's programs are, also where the caller's PATH leaves them out."
HOSTS = "hosts"
"File that tells nodes each other's addresses."
_NETWORK = 0x40000000
"CLONE_NEWNET: the kind of namespace, for setns(2)."
_ENTER = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
"What is done in a node before a program: it reads its names in the laboratory's file."
_NAME = "hyperslab"
"How the shell that does it calls itself where there is no such program."
_END_S = 5.0
_POLL_S = 0.01


class LabFailed(HyperslabError):
    """A laboratory that could not be made, is not what was asked for, or has lost a part."""


def network_file(folder: Path, node: str) -> Path:
    """The file that holds the network of a node."""
    return folder / f"{node}.net"


def uts_file(folder: Path, node: str) -> Path:
    """The file that holds the host name of a node."""
    return folder / f"{node}.uts"


def mount(folder: Path, source: str) -> None:
    """Make the folder of a laboratory a file system of its own. Raises LabFailed."""
    folder.mkdir(mode=0o755, exist_ok=True)
    run(["mount", "-t", "tmpfs", "-o", "mode=755,size=4m", source, str(folder)])


def unmount(folder: Path) -> None:
    """Let go of all that is in the folder of a laboratory, and remove it; what is not there is not
    missed. Raises LabFailed.
    """
    while is_mounted(folder):
        run(["umount", "--lazy", str(folder)])
    with suppress(FileNotFoundError):
        folder.rmdir()


def is_mounted(folder: Path) -> bool:
    """Whether something is mounted there, as this process sees it."""
    place = os.path.realpath(folder)
    return any(one.mount_point == place for one in mounts())


def make(folder: Path, node: str) -> None:
    """Make the namespaces of a node. Raises LabFailed."""
    network = network_file(folder, node)
    uts = uts_file(folder, node)
    network.touch()
    uts.touch()
    name_it = f"echo {node} > /proc/sys/kernel/hostname"
    run(["unshare", f"--net={network}", f"--uts={uts}", "sh", "-c", name_it])


def is_there(folder: Path, node: str) -> bool:
    """Whether the namespaces of a node are there."""
    try:
        home = folder.stat().st_dev
        files = (network_file(folder, node), uts_file(folder, node))
        return all(file.stat().st_dev != home for file in files)
    except FileNotFoundError:
        return False


def prefix(folder: Path, node: str) -> list[str]:
    """Words that, before those of a command, have it run in a node.

    The process that they start becomes the command's, and keeps its number; it sees the files of
    this host, but for /etc/hosts.
    """
    return [
        "nsenter",
        f"--net={network_file(folder, node)}",
        f"--uts={uts_file(folder, node)}",
        "--",
        "unshare",
        "--mount",
        "--propagation=slave",
        "--",
        "sh",
        "-c",
        _ENTER,
        _NAME,
        str(folder / HOSTS),
    ]


def within(file: Path, act: Callable[[], T]) -> T:
    """What a function returns that is called in a network, by a thread that is nowhere else.

    Sockets stay in the network in which they were made, whoever uses them. Raises LabFailed where
    the network is not there, and what the function raises.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run_there() -> None:
        try:
            _enter(file)
            returned.append(act())
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            raised.append(error)

    thread = threading.Thread(target=run_there, name=f"in {file.stem}")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return returned[0]


def _enter(file: Path) -> None:
    """Move this thread into a network, and see that it is there. Raises LabFailed."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if library.setns(descriptor, _NETWORK) != 0:
            why = os.strerror(ctypes.get_errno())
            raise LabFailed(f"the network of {file.stem} cannot be entered: {why}")
        wanted = os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
    here = os.stat("/proc/thread-self/ns/net").st_ino
    if here != wanted or here == os.stat("/proc/self/ns/net").st_ino:
        raise LabFailed(f"the network of {file.stem} is not one of its own")


def processes(files: Sequence[Path]) -> Iterator[int]:
    """Processes that are in one of these networks. Raises LabFailed where this one is."""
    for number, _ in located(files):
        yield number


def located(files: Sequence[Path]) -> Iterator[tuple[int, Path]]:
    """Processes that are in one of these networks, each with that network's file. Raises LabFailed
    where this one is.
    """
    networks = {}
    for file in files:
        with suppress(FileNotFoundError):
            about = file.stat()
            networks[about.st_dev, about.st_ino] = file
    here = os.stat("/proc/self/ns/net")
    if (here.st_dev, here.st_ino) in networks:
        raise LabFailed("this process runs in the laboratory itself: do it from outside")
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            about = os.stat(f"/proc/{entry}/ns/net")
            network = about.st_dev, about.st_ino
            if network in networks:
                yield int(entry), networks[network]


def end(files: Sequence[Path]) -> int:
    """Kill all processes in these networks, and wait until they are gone: how many there were.
    Raises LabFailed of one that does not end.
    """
    seen: set[int] = set()
    deadline = time.monotonic() + _END_S
    while found := set(processes(files)):
        seen |= found
        for number in found:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise LabFailed(
                f"process {min(found)} of the laboratory does not end: it waits for a device; try"
                " again later"
            )
        time.sleep(_POLL_S)
    return len(seen)


def run(command: Sequence[str], text: str = "") -> str:
    """What a program of the system prints; `text` is what it reads. Raises LabFailed."""
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"PATH": PATH},
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip() or f"exit status {error.returncode}"
        raise LabFailed(f"{command[0]} failed: {why}") from error
    except FileNotFoundError as error:
        raise LabFailed(f"{command[0]} is missing") from error
    return done.stdout
