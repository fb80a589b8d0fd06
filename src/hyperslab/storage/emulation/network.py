"""Network: a file system that a server shows over a link of limited bandwidth, on this host alone.

Server and client have a network namespace each, with nothing in it but the link between the two
(veth), whose both ends let as many bytes through as asked for (tbf). The client is sshfs, which
speaks SFTP to the server without ssh, since nobody else can reach it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.asking import asked
from hyperslab.storage.emulation import program, registry
from hyperslab.storage.emulation.program import EmulationFailed
from hyperslab.storage.emulation.registry import Emulation

PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
PROGRAMS |= {"sshfs": "sshfs", "socat": "socat"}
"Programs that are needed, with their Debian packages."
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"Where root's programs are, also where the caller's PATH leaves them out."
SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
"Addresses of a network that is for examples (RFC 5737): nothing else is in these namespaces."
LINK = "veth0"
"Name of the link in either namespace."
PORT = 2222
OVERHEAD = 1.05
"""Bytes on the link for each byte of a file: 1,514 of a frame carry 1,448 of SFTP, and a reply or
request of some 30 goes with every 32 KiB or more.
"""
BURST_S = 0.004
"Time for which an end of the link may be late, and make up for it: it waits for a processor."
_READY_S = 10.0
_POLL_S = 0.02


def parts_of(name: str) -> tuple[str, ...]:
    """Names of the namespaces of a tier: the server's and the client's."""
    return (f"hyperslab-{name}-server", f"hyperslab-{name}-client")


def require() -> None:
    """Raise UsageError where no such tier can be made."""
    if os.geteuid() != 0:
        raise UsageError("a network tier needs namespaces and a mount: run the command as root")
    for name, package in PROGRAMS.items():
        if shutil.which(name, path=PATH) is None:
            raise UsageError(f"a network tier needs {name}: install the Debian package {package}")
    _sftp_server()


def _sftp_server() -> str:
    for path in SFTP_SERVERS:
        if os.access(path, os.X_OK):
            return path
    raise UsageError(
        "a network tier needs sftp-server: install the Debian package openssh-sftp-server"
    )


def start(emulation: Emulation) -> int:
    """Process of the client of a tier, which is mounted by then. Raises EmulationFailed."""
    assert emulation.settings.bandwidth is not None
    server, client = emulation.parts
    try:
        _link(server, client, emulation.settings.bandwidth)
    except subprocess.CalledProcessError as error:
        raise EmulationFailed(f"no network could be made: {error.stderr.strip()}") from error
    # Without nodelay, a short answer waits for the acknowledgement of the last, which the client
    # puts off by 40 ms. With nofork, the server has the connection itself: nobody copies for it.
    listen = f"TCP-LISTEN:{PORT},bind={SERVER},reuseaddr,fork,nodelay"
    answer = f"EXEC:{_sftp_server()},nofork"
    # The server is not to see what is mounted over the files that it shows.
    apart = ["unshare", "--mount", "--propagation", "private"]
    served = _start(emulation, server, [*apart, "socat", listen, answer])
    _await(emulation, served, lambda: _listens(server))
    options = (
        f"directport={PORT},cache=no,max_read=1048576,allow_other,default_permissions"
        f",nosuid,nodev,fsname={emulation.source}"
    )
    shown = ["sshfs", "-f", "-o", options, f"{SERVER}:{emulation.backing}", emulation.directory]
    process = _start(emulation, client, shown)
    _await(emulation, process, lambda: registry.mount_here(emulation) is not None)
    program.reap(process)
    program.reap(served)
    return process.pid


def _link(server: str, client: str, bandwidth: float) -> None:
    """Make both namespaces and the link between them."""
    for name in (server, client):
        _ip("netns", "add", name)
    peer = ("type", "veth", "peer", "name", LINK, "netns", client)
    _ip("-n", server, "link", "add", "name", LINK, *peer)
    bits = round(bandwidth * 8 * OVERHEAD)
    burst = max(round(bandwidth * BURST_S), 66_000)
    limit = max(round(bandwidth / 50), 300_000)
    for name, address in ((server, SERVER), (client, CLIENT)):
        _ip("-n", name, "address", "add", f"{address}/30", "dev", LINK)
        _ip("-n", name, "link", "set", LINK, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        shaped = f"root tbf rate {bits}bit burst {burst}b limit {limit}b"
        _call(["tc", "-n", name, "qdisc", "add", "dev", LINK, *shaped.split()])


def _ip(*words: str) -> None:
    _call(["ip", *words])


def _call(command: Sequence[str]) -> None:
    subprocess.run(
        command,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )


def _environment() -> dict[str, str]:
    return os.environ | {"PATH": PATH}


def _start(emulation: Emulation, namespace: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A program in a network namespace, and in everything else where we are."""
    with (registry.folder() / f"{emulation.name}.log").open("ab") as log:
        return subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{namespace}", *command],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )


def _listens(server: str) -> bool:
    command = ["ip", "netns", "exec", server, "cat", "/proc/net/tcp"]
    done = asked(command, environment=_environment())
    return f":{PORT:04X} 00000000:0000 0A" in done.stdout


def _await(
    emulation: Emulation, process: subprocess.Popen[bytes], is_ready: Callable[[], bool]
) -> None:
    """Wait until a program has done what it was started for. Raises EmulationFailed."""
    deadline = time.monotonic() + _READY_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            program.reap(process)
            why = program.reason(registry.folder() / f"{emulation.name}.log")
            raise EmulationFailed(f"{emulation.directory} could not be mounted: {why}")
        time.sleep(_POLL_S)


def end(emulation: Emulation) -> None:
    """End all processes in the namespaces of a tier, and remove these; what is not there is not
    missed.
    """
    for name in parts_of(emulation.name):  # also of one that is not written down any more
        if not Path(f"/run/netns/{name}").exists():
            continue
        command = ["ip", "netns", "pids", name]
        listed = subprocess.run(command, env=_environment(), capture_output=True, check=True)
        for pid in listed.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "delete", name)
