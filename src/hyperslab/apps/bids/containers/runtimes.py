"""Runtimes: the programs that run containers, and the words that they are given.

- a dataset, and what others have made, is mounted read-only
- a container has the name of its attempt, by which it is removed, whoever has died

Held by tests/apps/bids/containers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyperslab.errors import UsageError
from hyperslab.plan.placeholders import literal

DATA, OUT, WORK = "/data", "/out", "/work"
"Folders in a container: the dataset, what is made of it, and scratch."
FILTERS = "/filters.json"
"File in a container that says which images are wanted."
NAME = "hyperslab-{attempt}"
NAME_OF_CALL = r"hyperslab-{call}\."
"What runtimes find the containers of a submission by, with its name: attempts begin with it."
LABEL = "hyperslab.out"
"Label of a container with the directory that its run writes to."
TAKEN_APART = ":,"
"Characters by which runtimes take the words for a folder apart."


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program that runs containers."""

    takes_files: bool
    "Whether images are files, and the processes of a container are all that there is of it."
    mount: str
    "Flag that mounts a folder, as in --volume=HERE:THERE:ro."
    start: tuple[str, ...] = ()
    "Words for every container."
    remove: tuple[str, ...] = ()
    "Words that remove containers whose names follow, whatever they are doing."


_ALONE = ("--cleanenv", "--contain", "--workdir={work}")
"""Words that keep variables, home and current directory of the caller away: programs would find
the user's packages of Python there. The home of a container, and its /tmp, are in its scratch.
"""
_OF_FILES = Runtime(takes_files=True, mount="--bind", start=_ALONE)
THREADS = "OMP_NUM_THREADS"
"Variable that tells programs how many processors they may use."
_TELLING = f'[ -z "${THREADS}" ] || export {{own}}="${THREADS}"; exec "$@"'
"Script that hands the variable on under another name, to a command in its arguments."
_START = ("--rm", "--pull=never", f"--name={NAME}", f"--env={THREADS}")
RUNTIMES: Mapping[str, Runtime] = {
    "podman": Runtime(
        takes_files=False,
        mount="--volume",
        start=_START,
        remove=("rm", "--force", "--ignore", "--time=0"),
    ),
    "docker": Runtime(
        takes_files=False,
        mount="--volume",
        start=_START,
        remove=("rm", "--force"),
    ),
    "apptainer": _OF_FILES,
    "singularity": _OF_FILES,
}


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the host in a container."""

    here: str
    there: str
    is_writable: bool = False


@dataclass(frozen=True, slots=True)
class Container:
    """An image with a BIDS App in it, and how it is run."""

    image: str
    "Name, or path of a file."
    runtime: str
    identity: str = ""
    "What the runtime knows the image by, whatever its name comes to mean; '' where nobody knows."
    memory_nbytes: int | None = None
    cpus: float | None = None
    options: tuple[str, ...] = ()
    "Further words for the runtime."
    arguments: tuple[str, ...] = ()
    "Further words for the app."
    sessions: tuple[str, ...] = ()
    "Labels of the sessions that it sees of a participant; () for all there is."
    filter_file: str = ""
    "Path of the file that tells the app which images are wanted; '' where there is none."
    user: str = ""
    "Numbers of the user and group that it runs as; '' leaves that to the runtime."

    @property
    def facts(self) -> Runtime:
        return RUNTIMES[self.runtime]

    def run_words(self, mounts: Sequence[Mount], out: str, app: Sequence[str]) -> tuple[str, ...]:
        """The command that runs the app, with the placeholders of commands; `out` is the directory
        that the run writes to.
        """
        facts = self.facts
        words = [*self.telling_words(), self.runtime, "run", *facts.start]
        if not facts.takes_files:
            words.append(literal(f"--label={LABEL}={out}"))
        words += [f"{facts.mount}={_mounted(one)}" for one in mounts]
        words.append(f"--env=TMPDIR={WORK}")
        if self.user:
            words.append(f"--user={self.user}")
        words += self.limit_words()
        options = map(literal, self.options)
        image = literal(self.identity or self.image)
        return (*words, *options, image, *app, *map(literal, self.arguments))

    def telling_words(self) -> tuple[str, ...]:
        """Words before those of a runtime that hands on no variable but what is said by a variable
        of its own, whatever --cleanenv keeps away.
        """
        if not self.facts.takes_files:
            return ()
        own = f"{self.runtime.upper()}ENV_{THREADS}"
        return ("sh", "-c", _TELLING.format(own=own), "sh")

    def limit_words(self) -> tuple[str, ...]:
        """Words that limit what the container may use."""
        words = []
        if self.memory_nbytes is not None:
            words.append(f"--memory={self.memory_nbytes}")
        if self.cpus is not None:
            words.append(f"--cpus={self.cpus:g}")
        return tuple(words)

    def remove_words(self) -> tuple[str, ...]:
        """The command that removes the container of an attempt; () where there is no need."""
        facts = self.facts
        if not facts.remove:
            return ()
        return (self.runtime, *facts.remove, NAME)


def folders(
    data: str, out: str, work: str, in_data: Mapping[str, str] | None = None
) -> list[Mount]:
    """What a container sees: a dataset, a folder for what it makes, its scratch; and in the first
    what takes the place of a name, read-only.
    """
    inner = [Mount(here, f"{DATA}/{name}") for name, here in (in_data or {}).items()]
    made = Mount(out, OUT, is_writable=True)
    return [Mount(data, DATA), made, Mount(work, WORK, is_writable=True), *inner]


def app_words(level: str, labels: Sequence[str] = ()) -> tuple[str, ...]:
    """The words of BIDS Apps for a level, and for participants by their labels; () for all."""
    if not labels:
        return (DATA, OUT, level)
    return (DATA, OUT, level, "--participant_label", *labels)


def require_mountable(*paths: str) -> None:
    """Raise UsageError for folders whose names runtimes would take apart."""
    for path in paths:
        for sign in TAKEN_APART:
            if sign in path:
                raise UsageError(
                    f"--container: '{sign}' in {path} is what runtimes take folders apart by:"
                    " rename it, or name a link to it"
                )


def _mounted(one: Mount) -> str:
    if one.is_writable:
        return f"{one.here}:{one.there}"
    return f"{one.here}:{one.there}:ro"
