"""Hosts that are reached by ssh: an sshd on loopback with keys, settings and a port of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.system.clusters.ports import free_ports
from tests.system.clusters.processes import MARK, Household, household, signal_all
from tests.system.clusters.slurm import ADOPTING

PACKAGES = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
"Debian's package of each command."
DAEMONS = "/usr/sbin"
SEPARATION = Path("/run/sshd")
"Where Debian's sshd of root locks in its children; made at each boot."
SERVER = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
AuthenticationMethods publickey
PidFile none
StrictModes no
UsePAM no
"""
CLIENT = """\
Host {names}
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/user_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
Host keyless
    HostName 127.0.0.1
    Port {port}
    IdentityFile {folder}/host_key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
Host stranger
    HostName 127.0.0.1
    Port {port}
    UserKnownHostsFile /dev/null
    StrictHostKeyChecking yes
"""


@dataclass(frozen=True)
class Hosts:
    """Names under which ssh reaches this host; `keyless` lets nobody in, `stranger` is not
    known.
    """

    environment: dict[str, str]
    "What GNU Parallel needs, to use settings of ssh that are not the user's own."
    household: Household

    def vanish(self) -> None:
        """Break all connections, and take no more."""
        signal_all(self.household.running("sshd: "), signal.SIGKILL)

    def fall_silent(self) -> None:
        """Keep all connections, and take others, but answer nothing."""
        signal_all(self.household.running("sshd: "), signal.SIGSTOP)


def missing() -> str:
    """Why there can be no such hosts here, with what to do about it; empty if there can."""
    absent = {PACKAGES[name] for name in PACKAGES if not shutil.which(name, path=_path())}
    if absent:
        return f"there is no ssh here: install the Debian packages {' '.join(sorted(absent))}"
    if os.geteuid() == 0 and not SEPARATION.is_dir():
        SEPARATION.mkdir(mode=0o755)
    return ""


@contextmanager
def hosts(folder: Path, names: Sequence[str], prefix: Sequence[str] = ()) -> Iterator[Hosts]:
    """Start an sshd, and wait until it listens; it ends with the block, and all that it serves.

    `prefix` stands before its command.
    """
    with household(folder) as home:
        (port,) = free_ports(1)
        for key in ("host_key", "user_key"):
            line = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(line, check=True)
        known = (folder / "host_key.pub").read_text().rpartition(" ")[0]
        (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {known}\n")
        server = folder / "sshd_config"
        server.write_text(SERVER.format(port=port, folder=folder))
        client = folder / "ssh_config"
        client.write_text(CLIENT.format(names=" ".join(names), port=port, folder=folder))
        sshd = shutil.which("sshd", path=_path())
        assert sshd is not None
        # It writes over its environment, by which the household knows its own: its parent has one.
        home.start("sshd", [*ADOPTING, *prefix, sshd, "-D", "-e", "-f", str(server)])
        home.wait_until("a listening sshd", lambda: "Server listening" in home.log("sshd"))
        ssh = shlex.join(["ssh", "-F", str(client)])
        yield Hosts({"PARALLEL_SSH": ssh, MARK: home.environment[MARK]}, home)


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", os.defpath), DAEMONS])
