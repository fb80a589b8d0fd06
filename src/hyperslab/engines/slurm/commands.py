"""Slurm's commands: what they are asked, and what they answer, in words of the project.

Variables of the job that the driver may run in are left out, as they would speak for the jobs that
it submits, and those that would hide jobs from `squeue`. Times are seconds since the epoch.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from hyperslab.errors import CONTINUES, HyperslabError, RunStopped, UsageError

ANSWER_LIMIT_S = 120.0
"How long Slurm's commands may try to reach a controller that is busy."
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CONF_SERVER", "SLURM_JWT")
"Variables that say where Slurm is, and by which token it knows the user."
HIDING = (
    "SBATCH_ARRAY_INX",
    "SBATCH_ERROR",
    "SBATCH_EXPORT",
    "SBATCH_JOB_NAME",
    "SBATCH_TEST_ONLY",
    "SBATCH_WAIT",
)
"Variables that would make another job of what is submitted."
CLUSTERS = "SBATCH_CLUSTERS"
"Variable that sbatch alone obeys; all commands are to mean the same cluster."
FIELDS = "%i|%T|%r|%N|%V|%S|%e"
"What `squeue` prints of a job: id, state, reason, nodes; submitted, begun, ended."
ACCOUNTED = "--format=JobID,State,Reason,NodeList,Submit,Start,End"
"The same of `sacct`."
_ELSEWHERE = (
    "without a cluster you need none; on a cluster, run it where jobs are submitted, such as on a"
    " login node, or"
)
GET = (
    f"{_ELSEWHERE} install Slurm's commands (Debian package slurm-client) with your cluster's"
    " slurm.conf"
)
"What to do where they are not installed."
CONFIGURE = f"{_ELSEWHERE} name your cluster's slurm.conf in the variable SLURM_CONF"
"What to do where they know no cluster."
NOWHERE_TO_ASK = re.compile(
    r"could not establish a configuration source"
    r"|(cannot stat|unable to status) file .*no such file",
    re.IGNORECASE,
)
"What commands say that find no settings of a cluster, in some lines on how they looked for them."
FORGOTTEN = "FORGOTTEN"
"Our word for the state of a job that Slurm knows no longer."
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
        FORGOTTEN,
    }
)
"States that a job does not leave."
SECONDS = "%s"
"Format of times: seconds since the epoch, whatever the zone."
NOWHERE = ("(", "None assigned")
"Beginnings of what is printed for the nodes of a job that has none."
GONE = "Invalid job id"
"Part of what is said of jobs that Slurm has forgotten."
NUMBER = re.compile(r"^(\d+)(;\S*)?$", re.MULTILINE)
"What sbatch prints of a job, with its cluster; sites may have it print more."
SILENCE = re.compile(
    r"unable to contact slurm controller|timed out|zero bytes were transmitted|not responding"
    r"|connection (refused|reset)|temporarily unavailable",
    re.IGNORECASE,
)
"What commands say whom the controller does not answer at the moment."


@dataclass(frozen=True, slots=True)
class Job:
    """A job, or an element of an array, as the queue has it."""

    id: str
    "Number of the job, or of its array and its own in that, such as 12_3."
    state: str
    reason: str = ""
    "Why it waits, or why it failed, in Slurm's word."
    host: str = ""
    submitted_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


class Unanswered(HyperslabError):
    """A command of Slurm's that failed, or is not there; the text says why."""


class Unconfigured(Unanswered):
    """A command that finds no settings of any cluster."""


class Silent(Unanswered):
    """A command whom the controller does not answer at the moment; it may have heard all the
    same.
    """


def require_commands() -> None:
    """Raise UsageError where Slurm's commands are not installed, or know no cluster."""
    try:
        _call(["sbatch", "--version"])
    except Unconfigured as error:
        raise UsageError(f"--engine slurm: {error}; {CONFIGURE}") from error
    except Unanswered as error:
        raise UsageError(f"--engine slurm: {error}; {GET}") from error


def submit(script: str, arguments: Sequence[str], without: Sequence[str] = ()) -> str:
    """Submit a job, whatever these of our variables would add to it; returns its number. Raises
    Silent where nobody answers, RunStopped for a job that is rejected.
    """
    try:
        said = _call(["sbatch", "--parsable", *arguments], script, without)
    except Silent:
        raise
    except Unanswered as error:
        raise RunStopped(f"Slurm does not take the jobs: {error}", CONTINUES) from error
    numbers: list[str] = [number for number, _ in NUMBER.findall(said)]
    if not numbers:
        first = said.strip().partition("\n")[0]
        raise RunStopped(
            f"sbatch prints no number of a job, but {first!r}: look at --slurm-option and at what"
            " stands for sbatch on the PATH",
            CONTINUES,
        )
    return numbers[-1]


def try_out(script: str, arguments: Sequence[str]) -> None:
    """Raise UsageError for an array that Slurm would reject; none is submitted."""
    try:
        _call(["sbatch", "--test-only", "--array=0", *arguments], script)
    except Unanswered as error:
        raise UsageError(f"--engine slurm: Slurm would not take the jobs: {error}") from error


def would_take(script: str, arguments: Sequence[str], without: Sequence[str] = ()) -> bool:
    """Whether Slurm would take a job that is submitted so; none is. Raises Silent."""
    try:
        _call(["sbatch", "--test-only", *arguments], script, without)
    except Silent:
        raise
    except Unanswered:
        return False
    return True


def jobs(numbers: Sequence[str]) -> list[Job]:
    """Every job of these numbers, and every element of arrays, that Slurm has not forgotten. Raises
    Unanswered.
    """
    return _queue(f"--jobs={','.join(numbers)}")


def named(names: Sequence[str], user: int) -> list[Job]:
    """The same of a user's jobs of these names, also where a partition is hidden. Raises
    Unanswered.
    """
    return _queue("--all", f"--name={','.join(names)}", f"--user={user}")


def _queue(*which: str) -> list[Job]:
    line = ["squeue", "--noheader", "--array", "--states=all", f"--format={FIELDS}"]
    try:
        said = _call([*line, *which], SLURM_TIME_FORMAT=SECONDS)
    except Unanswered as error:
        if GONE in str(error):
            return []
        raise
    return _jobs_in(said)


def accounted(numbers: Sequence[str]) -> list[Job]:
    """The same by Slurm's accounting, which remembers longer; none where there is none."""
    try:
        return _jobs_in(_accounts(numbers))
    except Unanswered:
        return []


def _accounts(numbers: Sequence[str]) -> str:
    """What the accounting says of jobs, a line each, and one for each element of arrays that has
    begun. Raises Unanswered where there is none.
    """
    line = ["sacct", "--noheader", "--allocations", "--parsable2"]
    which = f"--jobs={','.join(numbers)}"
    return _call([*line, ACCOUNTED, which], SLURM_TIME_FORMAT=SECONDS)


def cancel(name: str, limit_s: float) -> None:
    """End all jobs of this name, also those that wait. Raises Unanswered where that takes longer
    than the limit, too.
    """
    _call(["scancel", f"--name={name}"], limit_s=limit_s)


def largest_array() -> int:
    """Number of elements that an array may have. Raises Unanswered."""
    return int(_setting("MaxArraySize") or 1001)


def cluster() -> str:
    """Name of the cluster that the commands mean. Raises Unanswered."""
    return _setting("ClusterName")


def hides_jobs() -> bool:
    """Whether users see no jobs of each other. Raises Unanswered."""
    return "jobs" in _setting("PrivateData").split(",")


def controller() -> str | None:
    """Host of Slurm's controller; None where it is not told."""
    try:
        told = _setting("SlurmctldHost[0]")
    except Unanswered:
        return None
    host, _, address = told.partition("(")
    return address.rstrip(")") or host or None


def _setting(name: str) -> str:
    """A setting of the cluster; '' where there is none of the name. Raises Unanswered."""
    told = _call(["scontrol", "show", "config"])
    found = re.search(rf"^{re.escape(name)}\s*=\s*(\S+)", told, re.MULTILINE)
    if found is None:
        return ""
    return found[1]


def _jobs_in(said: str) -> list[Job]:
    """The jobs that are told, a line each; where clusters are named, other lines name them."""
    return [_read(line) for line in said.splitlines() if "|" in line]


def _read(line: str) -> Job:
    number, state, reason, host, *times = line.split("|")
    submitted_s, start_s, end_s = map(_seconds, times)
    if host.startswith(NOWHERE):
        host = ""
    if not host:
        start_s = None  # but for when it may begin, or was cancelled
    word = state.partition(" ")[0]  # the accounting adds who cancelled it
    return Job(number, word, reason, host, submitted_s, start_s, end_s)


def _seconds(text: str) -> float | None:
    if not text.isdigit():
        return None
    return float(text)


def _environment(without: Sequence[str]) -> dict[str, str]:
    """Our own variables without these, and those of a job that we may run in."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not name.startswith(("SLURM_", "SQUEUE_", "SACCT_", "SCANCEL_"))
    }
    for name in (*HIDING, *without):
        kept.pop(name, None)
    if CLUSTERS in kept:
        kept["SLURM_CLUSTERS"] = kept.pop(CLUSTERS)
    return kept


def _call(
    line: Sequence[str],
    text: str = "",
    without: Sequence[str] = (),
    limit_s: float = ANSWER_LIMIT_S,
    **more: str,
) -> str:
    """What a command prints; of our variables it gets none of `without`, and `more` beside them.
    Raises Unanswered with what it says when it fails.
    """
    try:
        done = subprocess.run(
            line,
            input=os.fsencode(text),
            env={**_environment(without), **more},
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError:
        raise Unanswered(
            f"there is no {line[0]} here, a command of Slurm, the batch system of clusters"
        ) from None
    except subprocess.TimeoutExpired:
        raise Silent(f"{line[0]} got no answer within {limit_s:.0f} s") from None
    if done.returncode:
        raise _refusal(line[0], _text(done.stderr or done.stdout))
    return _text(done.stdout)


def _text(said: bytes) -> str:
    return said.decode(errors="replace")


def _refusal(command: str, said: str) -> Unanswered:
    """What a command that failed is told by."""
    if NOWHERE_TO_ASK.search(said):
        return Unconfigured(
            f"{command}, a command of Slurm, the batch system of clusters, is installed here, but"
            " finds no slurm.conf that names a cluster"
        )
    complaint = _complaint(command, said)
    if SILENCE.search(complaint):
        return Silent(complaint)
    return Unanswered(complaint)


def _complaint(command: str, said: str) -> str:
    """What a command complains of, as one clause."""
    lines = [line.strip() for line in said.splitlines()]
    parts = [re.sub(r"^\w+: (error|fatal): ", "", line) for line in lines if line]
    parts = [part for part in parts if not part.startswith("Try ")]
    return "; ".join(parts) or f"{command} fails without a word"
