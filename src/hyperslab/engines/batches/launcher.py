"""Launcher: batches as commands, for engines that start programs and wait for their ends.

All batches of a round are one file beside the orders, and a script beside them runs the one whose
number it is given; nobody changes either once it is there. The result of a batch is in the journal
and in saved partials. An engine says how the script is started once for every number, as many at a
time as it has slots (`launch`): by GNU Parallel or an array of Slurm's, on a run directory that all
hosts share.

The script begins a batch again whose process died, after the task that its mark names, and with the
reason: so a task that kills its process costs one attempt, and no other command.
"""

from __future__ import annotations

import shlex
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol

from hyperslab.engines import scratched
from hyperslab.engines.batches import batch
from hyperslab.engines.batches.engine import BatchEngine, Ending, Work
from hyperslab.engines.batches.orders import marks_of, serve_lane, write_secret
from hyperslab.engines.batches.tally import Tally
from hyperslab.engines.environment import (
    forget_memory_variables,
    how_it_ended,
    program,
    share,
    volunteer,
)
from hyperslab.engines.stopping import stop
from hyperslab.errors import RunStopped

MOST_STARTS = 64
"How often a batch is begun; what is left then waits for the driver's next round."
SCRIPT = """\
# Runs batch $1 of a round, in lane $2 if that is given.
{exports}
status=0
start=0
while [ $start -lt {most} ]; do
    {command} "$1" "$status" "$2"
    status=$?
    start=$((start + 1))
    [ -e {marks}/{name}.b"$1" ] || break # it has not died in the middle of a task
done
exit $status
"""
WITHIN = """\
# Runs another script, with scratch of its own.
exec {command} "$@"
"""
_PLACE = struct.Struct("<QQ")


class Commands(Ending, Protocol):
    """The commands of a round, while somebody runs them."""

    def cancel(self) -> None:
        """End those that run, and start no more."""
        ...


class Launched:
    """Work that is done by commands."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def is_over(self, limit_s: float) -> bool:
        """Wait up to so many seconds; True when every command has ended."""
        return self._commands.is_over(limit_s)

    def tallies(self) -> Iterator[Tally]:
        """None: what commands have saved speaks for itself."""
        return iter(())

    def cancel(self) -> None:
        self._commands.cancel()


class CommandEngine(BatchEngine):
    """An engine that runs each batch by a command of its own."""

    batches_per_slot = 4  # a program takes longer to start than a function to be called

    def launch(self, script: Path, batches: int) -> Commands:
        """Start `sh SCRIPT NUMBER [LANE]` for every number below `batches`, in any order and place.

        A lane is the number of the slot on its host, for engines that know it; otherwise the driver
        numbers the processes by when they are seen.
        """
        raise NotImplementedError

    def python(self) -> Sequence[str]:
        """The command that runs `main` of this module with the arguments that follow."""
        return self.program(__name__, [])

    def program(self, module: str, given: Sequence[str]) -> Sequence[str]:
        """The command that runs a module's `main` with these arguments, where the batches run."""
        return program(module, given)

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Work:
        write_secret(_batches_of(place), packed_together(batches))
        script = Path(f"{place}.sh")
        text = self._script(place)
        if self.options.scratch:
            bare = Path(f"{place}.bare.sh")
            _write_script(bare, text)
            text = self._within(bare)
        _write_script(script, text)
        return Launched(self.launch(script, len(batches)))

    def _within(self, script: Path) -> str:
        """A script that runs another one with scratch of its own."""
        given = scratched.arguments(self.options.scratch, self.options.folder)
        words = self.program(scratched.MODULE, given)
        return WITHIN.format(command=shlex.join([*words, "sh", str(script)]))

    def _script(self, place: str) -> str:
        marks = marks_of(place)
        variables = share(self.options.slot_cpus).items()
        return SCRIPT.format(
            exports="\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables),
            most=MOST_STARTS,
            command=shlex.join([*self.python(), place]),
            marks=shlex.quote(str(marks)),
            name=marks.name,
        )


def _write_script(path: Path, text: str) -> None:
    write_secret(path, text.encode("utf-8", "surrogateescape"))


def packed_together(batches: Sequence[bytes]) -> bytes:
    """Batches as one: where each of them begins and ends, two numbers of 64 bits, then all."""
    head = _PLACE.size * len(batches)
    ends = [head, *accumulate(map(len, batches), initial=head)][1:]
    places = [_PLACE.pack(*place) for place in pairwise(ends)]
    return b"".join([*places, *batches])


def count_in(path: Path) -> int:
    """How many there are in a file."""
    with open(path, "rb") as file:
        begin, _ = _PLACE.unpack(file.read(_PLACE.size))
    return int(begin) // _PLACE.size


def unpacked(path: Path, number: int) -> bytes:
    """One of them."""
    with open(path, "rb") as file:
        file.seek(_PLACE.size * number)
        begin, end = _PLACE.unpack(file.read(_PLACE.size))
        file.seek(begin)
        return file.read(end - begin)


def _batches_of(place: str) -> Path:
    return Path(f"{place}.batches")


def main(how: Callable[[int], str] = how_it_ended) -> None:
    """Run one batch, as the script says: orders, number, status of the process that began it
    before, and lane, if any. `how` tells in words how one of a status ended.
    """
    place, number, status, lane = sys.argv[1:]
    forget_memory_variables()
    volunteer()
    if lane:
        serve_lane(int(lane))
    before = how(int(status))
    try:
        batch.run(place, unpacked(_batches_of(place), int(number)), before)
    except RunStopped as reason:
        stop(reason)
