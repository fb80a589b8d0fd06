"""Executing: a command as the task of a slot.

What the command makes is in a private folder, with exit status 0 whole and with checksums; whoever
names it for all to see does that behind the task (`hyperslab.driver.publishing`), and on the same
host waits then until it is on storage. On other hosts, whose memory nobody else can sync, the slot
does. Private folders lie on fast tiers as long as these have room. Where one was full or gone when
a command failed, it runs once more without them. The private folders of a command that cannot be
ended stay, as removing them may wait for what it waits for: whoever sweeps removes them.

Held by tests/apps/commands.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hyperslab.blocks.writing import Written
from hyperslab.machine import spawner
from hyperslab.machine.spawner import Ended, Refused, Unanswered
from hyperslab.machine.words import unset_in
from hyperslab.plan import contents
from hyperslab.plan.collecting import collected, tell_left_out
from hyperslab.plan.command import LOGS, PRIVATE, Commands, CommandTask, Ran, number_of, served
from hyperslab.plan.contents import FileState, Patience
from hyperslab.plan.failing import CommandFailed, after, not_started, without_outputs
from hyperslab.plan.killed import Watch
from hyperslab.plan.leaving import keep_of_failed
from hyperslab.plan.nearby import near
from hyperslab.plan.placeholders import filled, uses
from hyperslab.plan.task import Job, State, Task
from hyperslab.plan.unread import Unread
from hyperslab.redaction import redact_command
from hyperslab.storage import fence
from hyperslab.storage.beside import beside
from hyperslab.storage.permitted import remove_tree
from hyperslab.storage.staging.area import OUTPUTS, refusal
from hyperslab.storage.staging.room import Room
from hyperslab.trace import Phase, note, span

LEAST_NBYTES = 10**6
"Room that a command needs on a fast tier at least, as nobody knows what it will write."
CHECKSUM_SHARE = 0.05
"""Share of the time of a command that the checksum of its inputs may take: where it would take more
to find out that nothing has changed, it is cheap to do it again.
"""
CHECKSUM_MOST_S = 60.0
"""Time that the checksum may take at most, as a worker that is ended meanwhile has not recorded
what the command has made; and that a look at its inputs may take before it begins.
"""


class _TierShort(Exception):
    """Raised for a command that failed when a fast tier which it used was full, or gone."""


@dataclass(frozen=True, slots=True)
class _Tiers:
    """The fast tiers that one attempt uses; None: what lies there otherwise is in OUT."""

    out: Room | None = None
    work: Room | None = None
    copies: Room | None = None

    @property
    def are_short(self) -> bool:
        rooms = [room for room in (self.out, self.work, self.copies) if room is not None]
        return not all(_admits(room, 1) for room in rooms)


def execute(job: Job, state: State) -> None:
    """Run the command of a task, whose outputs are then staged. Raises CommandFailed, OSError, and
    RunStopped where the run has ended meanwhile.
    """
    assert job.commands is not None
    assert state.task.command is not None
    nbytes = _nbytes_of(state.task)
    given = (job.room, job.commands.work, job.commands.copies)
    out, work, copied = (_admitting(room, nbytes) for room in given)
    try:
        _attempt(job.commands, state, _Tiers(out, work, copied))
    except _TierShort:
        state.ran = None
        _attempt(job.commands, state, _Tiers())


def _nbytes_of(task: Task) -> int:
    """Room that a command needs on a fast tier, as far as that is known."""
    return max(LEAST_NBYTES, task.bytes_read)


def _admitting(room: Room | None, nbytes: int) -> Room | None:
    """A tier that a command may use; None where it may not, of which it leaves word there."""
    if room is None or _admits(room, nbytes):
        return room
    room.decline()
    return None


def _admits(room: Room | None, nbytes: int) -> bool:
    """Whether a command may use a tier: one on which nothing can be written has room, too."""
    if room is None or not room.is_open or not room.holds(nbytes):
        return False
    if room.has_refused(nbytes):
        return False
    return not refusal(room.area)


@dataclass(slots=True)
class _Places:
    """The private folders of one attempt."""

    name: str
    "Name of the attempt, which no other one has."
    out: Path
    work: Path
    copies: Path | None
    is_stuck: bool = False
    """Whether something of the command waits for storage that does not answer: whoever looked into
    these folders might wait for it, too.
    """


def _attempt(commands: Commands, state: State, tiers: _Tiers) -> None:
    places = _places(commands, state.task, tiers)
    try:
        for place in filter(None, (places.out, places.work, places.copies)):
            place.mkdir(parents=True)
        _run(commands, state, places)
    except BaseException as error:
        if places.is_stuck:
            raise
        is_of_tier = isinstance(error, (CommandFailed, OSError)) and tiers.are_short
        if commands.kept and isinstance(error, CommandFailed) and not is_of_tier:
            keep_of_failed(commands, state, places.name, {"out": places.out, "work": places.work})
        remove_tree(places.out)
        if is_of_tier:
            raise _TierShort from error
        raise
    finally:
        if not places.is_stuck:
            remove_tree(places.work)
            if places.copies is not None:
                remove_tree(places.copies)


def _places(commands: Commands, task: Task, tiers: _Tiers) -> _Places:
    name = f"{task.id}.{task.attempt}.{secrets.token_hex(6)}"
    slow = Path(commands.folder, PRIVATE)
    out = slow
    if tiers.out is not None:
        out = Path(tiers.out.area, OUTPUTS)
    fast = tiers.work or tiers.out or tiers.copies
    work = slow / f"{name}.work"
    if fast is not None:
        work = Path(fast.area, OUTPUTS) / f"{name}.work"
    if commands.scratch:
        work = _scratch_of_node(commands.scratch) / f"hyperslab-{name}.work"
    copied = None
    if tiers.copies is not None:
        copied = Path(tiers.copies.area, OUTPUTS) / f"{name}.in"
    return _Places(name, out / f"{name}.out", work, copied)


def _scratch_of_node(scratch: str) -> Path:
    """The folder for scratch directories on this node. Raises FileNotFoundError for variables that
    have no value here.
    """
    if unset_in(scratch):
        raise FileNotFoundError(errno.ENOENT, "has a variable that is not set here", scratch)
    return Path(os.path.expandvars(scratch))


def _run(commands: Commands, state: State, places: _Places) -> None:
    command = state.task.command
    assert command is not None
    inputs = list(command.inputs)
    if places.copies is not None:
        assert commands.copies is not None
        refuse = partial(commands.copies.refuse, _nbytes_of(state.task))
        inputs = near(inputs, places.copies, refuse)
    values = _values(commands, state.task, command, places)
    words = filled(command.argv, values, inputs)
    after_words = filled(command.after, values, inputs)
    for folder in filled(command.folders, values, inputs):
        os.makedirs(folder, exist_ok=True)
    read = _Read(command.inputs, inputs, Unread(commands.folder))
    slot = served()
    log = Path(commands.folder, LOGS, f"{slot.replace('/', '.')}.{os.getpid()}.log")
    try:
        with _beside(commands, state.task):
            watch = Watch(commands.folder, command.label, state.task.id, log)
            ended = spawner.run(
                words,
                commands.cwd,
                {**os.environ, "TMPDIR": str(places.work)},
                str(log),
                commands.limit_s,
                partial(_look, watch),
                after_words,
            )
    except Refused as error:
        places.is_stuck = isinstance(error, Unanswered)
        raise not_started(error) from error
    places.is_stuck = ended.is_stuck
    cpu_ns = int((ended.user_s + ended.system_s) * 1e9)
    note(Phase("compute", ended.start_ns, ended.end_ns, 0, cpu_ns, -1))
    state.ran = _ran(words, ended, log.name)
    if ended.status or ended.is_late:
        raise after(command, ended, commands.limit_s, watch.is_short)
    is_synced = socket.gethostname() != commands.host
    made = collected(places.out, command.mounted, is_synced)
    nbytes = ended.nbytes + tell_left_out(places.out, ended)
    _require_outputs(command, ended, made)
    state.outputs = tuple(written for written in made if written.path not in command.statements)
    state.ran = replace(
        state.ran,
        nbytes=nbytes,
        place=str(places.out),
        is_synced=is_synced,
        inputs=read.checksum(min(CHECKSUM_SHARE * state.ran.real_s, CHECKSUM_MOST_S)),
    )
    state.is_staged = True


def _look(watch: Watch) -> None:
    """What is done now and then while a command runs. Raises RunStopped where it is not to run any
    more.
    """
    fence.require_open()
    watch.look()


class _Read:
    """What an attempt reads, from before its command begins."""

    def __init__(self, inputs: Sequence[str], copies: Sequence[str], unread: Unread) -> None:
        """`copies` are the same files where the command reads them, and may write to them."""
        self._copies = copies
        self._names = dict(zip((*inputs, *copies), (*inputs, *inputs), strict=True))
        "The input that each path is, or is a copy of."
        self._unread = unread
        begun_s = time.monotonic()
        self._before = self._states(Patience(CHECKSUM_MOST_S))
        self._took_s = time.monotonic() - begun_s

    def checksum(self, limit_s: float) -> str:
        """The checksum of what the command has read; '' where that has changed meanwhile, or would
        take longer than that, with the look before the command.
        """
        if not self._copies or self._before is None:
            return ""
        patience = Patience(limit_s - self._took_s)
        with span("write"):
            found = contents.checksum(self._copies, partial(self._digest, patience))
            if not found or self._states(patience) != self._before:
                return ""
        return found

    def _states(self, patience: Patience) -> list[FileState] | None:
        """None where they cannot be known, or not in time."""
        found: list[FileState] = []
        try:
            for path, name in self._names.items():
                with self._unread.watched(name, patience):
                    found += contents.states(path, patience)
        except OSError:
            return None
        return found

    def _digest(self, patience: Patience, path: str) -> str:
        """The checksum of a copy. Raises OSError."""
        with self._unread.watched(self._names[path], patience):
            return contents.digest_of(path, patience)


@contextmanager
def _beside(commands: Commands, task: Task) -> Iterator[None]:
    """Wait until the command may run: one for which memory was not enough runs alone, and the
    others of its round wait for it.
    """
    if not task.attempt:
        yield
        return
    with ExitStack() as stack:
        with span("wait"):
            folder = Path(commands.folder, PRIVATE)
            stack.enter_context(beside(folder, task.is_alone, fence.require_open))
        yield


def _values(
    commands: Commands, task: Task, command: CommandTask, places: _Places
) -> Mapping[str, str]:
    return {
        "name": command.label,
        "out": str(places.out),
        "work": str(places.work),
        "index": str(task.id),
        "slot": str(number_of(served(), commands.threads)),
        "attempt": f"{Path(commands.folder).name}.{places.name}",
    }


def _ran(words: Sequence[str], ended: Ended, log: str) -> Ran:
    return Ran(
        redact_command(words),
        ended.status,
        (ended.end_ns - ended.start_ns) / 1e9,
        ended.user_s,
        ended.system_s,
        ended.max_rss,
        log,
        ended.offset,
        ended.nbytes,
    )


def _require_outputs(command: CommandTask, ended: Ended, made: Sequence[Written]) -> None:
    """Raise CommandFailed for a command that ended well, and has not made what it was to make."""
    names = {written.path for written in made}
    required = (*command.outputs, *command.expected)
    missing = [name for name in required if not _is_made(name, names)]
    if missing:
        raise without_outputs(command, ended, f"it has not made {missing[0]}")
    if uses((*command.argv, *command.folders), "out") and not made:
        raise without_outputs(command, ended, "it has written nothing to {out}")


def _is_made(name: str, names: Collection[str]) -> bool:
    """Whether a file of this name was made, or some in a folder."""
    return name in names or any(each.startswith(f"{name}/") for each in names)
