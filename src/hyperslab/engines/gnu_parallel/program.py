"""Program: GNU Parallel as it is found here, checked, and started so that nothing outlives the
driver.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from hyperslab.engines import keeper
from hyperslab.engines.lifeline import workers_end
from hyperslab.errors import UsageError
from hyperslab.machine.asking import asked
from hyperslab.machine.words import words_of

NAME = "parallel"
OLDEST = 20210222
"Version of Debian 11; nobody has tried an older one."
INSTALL = "install GNU Parallel (Debian package parallel)"
SETTINGS = ("PARALLEL", "PARALLEL_CSH")
"Variables of options for commands that people type."
OPTIONS = ("--profile", "/dev/null", "--null", "--ungroup")
"""Options of every command: a profile takes the place of the user's own, whose options are for
commands that people type; arguments may hold line ends; what jobs print goes to the log at once.
"""
SSH = "PARALLEL_SSH"
"Variable that names the command which GNU Parallel reaches other hosts by."
NOTICING = ("ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4")
"""Options by which ssh finds that a host is silent, within a minute: one without power, or behind a
cut cable, closes no connection. What stands before them in the command holds.
"""


def require_parallel(who: str) -> None:
    """Raise UsageError, for who needs it, when there is no GNU Parallel that can be used, or no
    command for it to reach hosts by, with what to do.
    """
    _require_readable(os.environ.get(SSH, "ssh"))
    path = shutil.which(NAME)
    if path is None:
        raise UsageError(
            f"{who} needs GNU Parallel, and there is no parallel on the PATH: {INSTALL}"
        )
    number = version(path)
    if number is None:
        raise UsageError(
            f"{who} needs GNU Parallel, and {path} is another program (moreutils has one of that"
            f" name): {INSTALL}, or put it first on the PATH"
        )
    if number < OLDEST:
        raise UsageError(
            f"{who} needs GNU Parallel {OLDEST} or newer, and {path} is version {number}: {INSTALL}"
        )


def _require_readable(command: str) -> None:
    """Raise UsageError for a command that no shell could read."""
    words_of(command, f"{SSH}=")


def version_here() -> int | None:
    """The version of the one that is found here; None for none, and for another program."""
    path = shutil.which(NAME)
    if path is None:
        return None
    return version(path)


@functools.lru_cache(maxsize=4)
def version(path: str) -> int | None:
    """The date that is its version, such as 20221122; None for another program."""
    done = asked([path, *OPTIONS, "--version"], environment=environment())
    found = re.match(r"GNU parallel (\d{8})", done.stdout)
    if found:
        return int(found[1])
    return None


def environment() -> dict[str, str]:
    """Our environment as GNU Parallel is to have it: jobs run in the shell that their commands are
    written for, and ssh asks nobody.
    """
    variables: Mapping[str, str] = os.environ
    kept = {name: value for name, value in variables.items() if name not in SETTINGS}
    kept[SSH] = _noticing(variables.get(SSH, "ssh"))
    return {**kept, "PARALLEL_SHELL": "/bin/sh", "SSH_ASKPASS_REQUIRE": "never"}


def _noticing(command: str) -> str:
    """A command that reaches hosts, which finds by itself that one is silent if it is ssh."""
    program = words_of(command, f"{SSH}=")[:1]
    if list(map(os.path.basename, program)) != ["ssh"]:
        return command
    return " ".join([command, *(f"-o{option}" for option in NOTICING)])


def start(
    arguments: Sequence[str],
    stdin: int,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> subprocess.Popen[bytes]:
    """Start GNU Parallel under a keeper: all ends with the driver, or with the keeper's SIGTERM.

    It is given no terminal, to which it would print a notice that is for people who type commands,
    and at which ssh would ask for a password.
    """
    lifeline = workers_end()
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", str(keeper.__file__), str(lifeline)),
            *(NAME, *OPTIONS, *arguments),
        ],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=[lifeline],
        start_new_session=True,
        env=environment(),
    )
