"""Logins: hosts that GNU Parallel reaches by ssh, asked for what they have before jobs are sent to
them.

A host is asked in the way in which it will be given jobs, so that whatever keeps these from running
is found then: its name, its key, its Python, a folder that it does not see.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.engines.batches import survey
from hyperslab.engines.gnu_parallel.program import start
from hyperslab.errors import RunStopped

PREFIX = "ssh:"
ANSWER_LIMIT_S = 30
LATE_S = 10
"What GNU Parallel may take in addition."
NO_PYTHON = "hyperslab: no Python"


@dataclass(frozen=True, slots=True)
class Login:
    """A host, and how many jobs it is given at a time."""

    host: str
    "Host as GNU Parallel takes it: HOST, USER@HOST or a command of ssh with them."
    jobs: int
    "Number of jobs; 0: as many as it has processors."

    def __str__(self) -> str:
        return f"{self.jobs}/{self.host}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host said, or why it did not."""

    login: Login
    found: Mapping[str, Any]
    "Findings of `survey`; none where the host did not answer."
    why: str = ""
    "Reason why it did not."


def logins_of(connect: str) -> list[Login]:
    """The hosts of ssh:[N/]HOST[,[N/]HOST...]. Raises ValueError for anything else."""
    if not connect.startswith(PREFIX):
        raise ValueError(connect)
    return [_login(place) for place in connect.removeprefix(PREFIX).split(",")]


def _login(place: str) -> Login:
    jobs, slash, host = place.partition("/")
    if not slash or not jobs.isdecimal():
        jobs = ""
        host = place
    if not host or jobs == "0":
        raise ValueError(place)
    return Login(host, int(jobs or 0))


def pythons() -> tuple[str, str]:
    """Commands of Pythons that can load our functions, on any host."""
    return sys.executable, "python{}.{}".format(*sys.version_info)


def python_command(code: str) -> list[str]:
    """The command that runs a code, with arguments that follow, by a host's own Python: this one's
    if it is there under the same path, else the one of the same minor version on the PATH.
    """
    choices = shlex.join(pythons())
    run = f'command -v "$python" >/dev/null && exec "$python" -P -c {shlex.quote(code)} "$@"'
    lines = f"for python in {choices}; do {run}; done; echo {shlex.quote(NO_PYTHON)} >&2; exit 127"
    return ["sh", "-c", lines, "sh"]


def ask(logins: Sequence[Login], folder: str) -> list[Answer]:
    """Ask all hosts at the same time for what they have, and whether they see a folder; '' asks for
    none.
    """
    asked = [(login, _ask(login, folder)) for login in logins]
    return [_answer(login, process) for login, process in asked]


def _ask(login: Login, folder: str) -> subprocess.Popen[bytes]:
    source = Path(survey.__file__).read_text(encoding="utf-8")
    code = f"{source}\nimport json, sys\nprint(json.dumps(survey(sys.argv[1])))"
    line = shlex.join([*python_command(code), folder])
    process = start(
        [
            "--jobs",
            "1",
            f"--timeout={ANSWER_LIMIT_S}",
            f"--sshlogin=1/{login.host}",
            "eval exec {}",
        ],
        subprocess.PIPE,
        subprocess.PIPE,
        subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(os.fsencode(line) + b"\0")
    process.stdin.close()
    process.stdin = None
    return process


def _answer(login: Login, process: subprocess.Popen[bytes]) -> Answer:
    try:
        out, err = process.communicate(timeout=ANSWER_LIMIT_S + LATE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    for line in reversed(out.splitlines()):
        if line.startswith(b"{"):
            return Answer(login, json.loads(line))
    return Answer(login, {}, _why(login, process.returncode, err.decode(errors="replace")))


def _why(login: Login, status: int, said: str) -> str:
    if NO_PYTHON in said:
        places = " or ".join(pythons())
        return f"{login.host} has no Python of our version: install it there, as {places}"
    lines = [line.strip() for line in said.splitlines() if not line.startswith("parallel: ")]
    lines = [line for line in lines if line]
    reason = f"no answer within {ANSWER_LIMIT_S} s, status {status}"
    if lines:
        reason = lines[-1]
    return (
        f"no job can be started on {login.host} ({reason}): 'ssh {login.host} true' has to work"
        " without asking anything"
    )


def require_answers(answers: Sequence[Answer]) -> None:
    """Raise RunStopped for the first host that did not answer."""
    for answer in answers:
        if answer.why:
            raise RunStopped(answer.why)
