"""Launcher: batches as commands, for engines that start programs and wait for their ends.

Every batch is a file beside the orders, and a command that runs it and ends. Its result is in
the journal and in saved partials; the mark of a command that died tells which task it was at. An
engine says how the commands of a round are started, as many at a time as it has slots (`launch`):
by GNU Parallel, mpiexec or an array of Slurm's, on a run directory that all hosts share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from hyperslab.engines.batches import batch
from hyperslab.engines.batches.engine import BatchEngine, Ending, Work
from hyperslab.engines.batches.orders import write_secret
from hyperslab.engines.batches.tally import Tally
from hyperslab.engines.environment import program


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

    def launch(self, commands: Sequence[Sequence[str]]) -> Commands:
        """Start the commands of a round, each of them in any order and place."""
        raise NotImplementedError

    def submit(self, place: str, batches: Sequence[bytes], steps: int, reducing: bool) -> Work:
        commands = []
        for number, packed in enumerate(batches):
            path = Path(f"{place}.{number}")
            write_secret(path, packed)
            commands.append(program(__name__, [place, str(path)]))
        return Launched(self.launch(commands))


def main(place: str, path: str) -> None:
    """Run one batch with the orders at `place`."""
    packed = Path(path).read_bytes()
    batch.run(place, packed)
