"""CommandTask: a command over files, as a task of its own; what all commands of a run share, and
what became of one.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyperslab.trace import Slot

if TYPE_CHECKING:
    from hyperslab.storage.staging.room import Room

LOGS, PRIVATE = "logs", "private"
"""Folders of a submission: what commands have printed, a file for each slot; and their private
folders, unless these are on a fast tier.
"""
OWN_SCRATCH = "$TMPDIR"
"Folder of each node in which scratch directories are made, where each worker has its own scratch."

_WORD = re.compile(r"[^/_.]+")
"A word in the path of a file, such as sub-01 in sub-01/anat/sub-01_T1w.nii.gz."


@dataclass(frozen=True, slots=True)
class CommandTask:
    """One command, the files that it reads, and the files that it makes.

    In the words of `argv` stand placeholders for what is known only where the command runs:

    - `{out}`: a private, empty directory. With exit status 0 all that is in it goes to the output
      directory, under the names that it has there; otherwise nothing of it does.
    - `{work}`: a scratch directory, which is removed however the command ends. Programs that ask
      for TMPDIR get it, too.
    - `{input}`, `{input[1]}` ...: the first of `inputs`, the second ...: the file itself, or its
      copy on a fast tier. A word `{inputs}` becomes all of them, a word each.
    - `{name}`: the label.
    - `{index}`, `{slot}`: the number of the task, and of the slot that runs it, from 0 on.
    - `{attempt}`: a name that no other attempt has, of this task or another one.

    In a word that is the script of a shell (sh -c SCRIPT) they are quoted as shlex does it.
    `{{name}}` stands for `{name}` itself.
    """

    label: str
    "Name of the task in messages, logs and reports; every task has its own."
    argv: tuple[str, ...]
    "The command and its arguments, which no shell sees."
    inputs: tuple[str, ...] = ()
    """Paths of the files, or directories, that it reads: a resumed run repeats tasks of which one
    has changed.
    """
    outputs: tuple[str, ...] = ()
    """Names below the output directory, with '/' between folders, that it makes for certain, of
    files or of folders with files: it fails without them, and no two tasks may share one. It may
    make others, too.
    """
    stem: str = ""
    """What the names of its own files have in them as a whole word, such as sub-01, or as several
    ones, such as sub-01_ses-2. Other files may be made by several tasks, of which those of the
    first one stay. '': all are its own.
    """
    after: tuple[str, ...] = ()
    """A command that removes what this one leaves outside of its processes, such as a container,
    when it fails or is ended; with the same placeholders.
    """

    limits: tuple[str, ...] = ()
    """Words of `argv` that limit what it may use, such as --memory=8G, and change nothing that it
    makes: a resumed run does not repeat tasks that have other ones.
    """

    mounted: tuple[str, str] = ("", "")
    """A folder of `{out}`, such as '', and the path by which the command knows it, such as /out in
    a container: first that path. Absolute links to what is elsewhere there are left out.
    """

    folders: tuple[str, ...] = ()
    "Folders that are there when it begins, such as {out}/sub-01, with the same placeholders."

    statements: tuple[str, ...] = ()
    """Names below the output directory of files in which it may say something of all that is there,
    as others do, such as the description of a dataset: they are no results, and are kept for
    whoever makes one file of what all have said (`hyperslab.driver.statements`).
    """
    speaker: str = ""
    """Name of who says that, whose last statement counts; '': one of many, of whose statements each
    different one does.
    """

    replaces: tuple[str, ...] = ()
    """Names below the output directory of files that no task has made, and that it may take the
    place of: those that it does not make go when it is done.
    """
    expected: tuple[str, ...] = ()
    """Names as those of `outputs` that follow from its words and inputs, as by a description of its
    program: a resumed run does not repeat tasks of which others were said before, or none.
    """
    made_of: str = ""
    "What it reads beside its inputs, in a word: a resumed run repeats it where that has changed."

    is_kept: bool = False
    """Whether a resumed run keeps what it has made, although the command or its inputs have changed
    since, or are gone.
    """

    def owns(self, name: str) -> bool:
        """Whether no other task may make a file of this name."""
        if not self.stem:
            return True
        return set(_WORD.findall(name)).issuperset(_WORD.findall(self.stem))


def nothing() -> None:
    """Nothing is to be done."""


@dataclass(frozen=True, slots=True)
class Execute:
    """End of a pipeline whose tasks are commands."""

    tasks: tuple[CommandTask, ...]
    title: str
    "What the run is called."
    template: str
    "What a user has typed of which all commands were made; '': each is as it is."
    cwd: str
    "Directory that commands run in."
    limit_s: float | None = None
    "Seconds that one may take."
    then: tuple[CommandTask, ...] = ()
    "Commands that begin when all others have ended."
    despite_failures: bool = False
    "Whether they begin although some of the others have failed."
    levels: tuple[str, str] = ("each", "then")
    "What the commands are called that come first, and that come then."
    between: Callable[[], None] = nothing
    "What the driver does when all others have ended, before these begin."
    only_gathers: bool = False
    """Whether they only put together what is in the output directory, which may hold files that no
    run has written.
    """
    is_all: bool = False
    """Whether there is nothing else to do: what earlier runs were asked for beside it nobody misses
    any more.
    """
    origin: str = ""
    """What their files are of, such as the folder of a dataset: results of another one are no
    results of this run. '' where each file is by itself.
    """


@dataclass(frozen=True, slots=True)
class Commands:
    """What all commands of a run share. Plain data, which travels to workers."""

    cwd: str
    limit_s: float | None = None
    folder: str = ""
    "Folder of the submission; '' before there is one."
    threads: int = 1
    "Slots of one worker, by which slots are numbered."
    scratch: str = ""
    """Folder of each node in which scratch directories are made, with variables of its environment,
    where nobody else looks after it; '' where they are elsewhere.
    """
    work: Room | None = None
    "Where on a fast tier scratch directories are; None: where the outputs are made."
    copies: Room | None = None
    "Where on a fast tier inputs are copied to; None: they are not."
    kept: str = ""
    "Folder that gets what commands leave which fail; '': that is removed."
    host: str = ""
    """Name of the host on which somebody waits, behind the tasks, until what commands have made
    there is on storage; '': no slot leaves that to anybody.
    """


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command has ended, and where what it printed is."""

    command: str
    "The command as it ran, for a shell, without secrets."
    status: int
    "Exit status, or minus the number of the signal that ended it."
    real_s: float
    user_s: float
    system_s: float
    max_rss: int
    "Peak resident memory of its largest process, bytes."
    log: str
    "Name of the file in the folder of logs."
    offset: int
    nbytes: int
    "Place in that file, and length, of what it printed."
    place: str = ""
    "Private folder with what it made, until that is in the output directory."
    is_synced: bool = True
    "Whether what it made was on storage when this was recorded."
    inputs: str = ""
    """Checksum of what it read (`plan.contents`); '' where that is not known, as of inputs that
    were written to meanwhile.
    """

    @property
    def waited_s(self) -> float:
        """Time in which it did not compute: it waited for files, mostly. Processes that compute
        side by side may have used more than the real time.
        """
        return max(0.0, self.real_s - self.user_s - self.system_s)


class _Here(threading.local):
    """The slot that the thread serves."""

    slot: str = ""


_here = _Here()


def serve(slot: str) -> None:
    """This thread serves a slot from now on."""
    _here.slot = slot


def served() -> str:
    """The slot that this thread serves."""
    return _here.slot


def number_of(slot: str, threads: int) -> int:
    """The number of a slot among those of its cluster, from 0 on."""
    parsed = Slot.parse(slot)
    if parsed is None:
        return 0
    return parsed.worker * threads + parsed.thread
