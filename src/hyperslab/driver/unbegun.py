"""Unbegun: a run that a full disk has stopped before it had done anything leaves nothing behind.

Its records would be of no use to anybody, and what its tasks had begun to write could not be
completed. Held by tests/system/faults/test_disk.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.driver.admission import RECORDS_NBYTES, Needs
from hyperslab.driver.cleaning import clean
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import DoesNotFit, HyperslabError, OutputBusy, RunStopped
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.storage import fence
from hyperslab.storage.full import free, has_room, is_full, says_full
from hyperslab.units import show_bytes


@contextmanager
def leaving_nothing(
    directory: RunDirectory, needs: Needs, outcomes: Collection[Outcome]
) -> Iterator[None]:
    """A block that runs in a directory; where a disk is full before there are any `outcomes`, it
    raises DoesNotFit, and all that it has made is gone.

    What was there before stays, and so does what workers may still write to.
    """
    missing = directory.missing()
    try:
        yield
    except (OSError, HyperslabError) as error:
        is_ours = directory.root.absolute() in missing and not isinstance(error, OutputBusy)
        if outcomes or not is_ours or not _is_of_full_disk(error, directory):
            raise
        if any(Tail(folder).poll() for folder in directory.submissions()):
            raise  # of which nobody has heard yet
        if not all(fence.is_left(folder, 0) for folder in directory.submissions()):
            raise
        _forget(directory, missing)
        raise DoesNotFit(
            f"the run cannot begin, as the disk of {directory.place} is full: {_needed(needs)},"
            f" with {free(directory.place)}; free some space or choose another output"
        ) from error


def _is_of_full_disk(error: Exception, directory: RunDirectory) -> bool:
    """Whether a full disk is behind an error; those of other processes say it at most in words."""
    if is_full(error):
        return True
    return isinstance(error, RunStopped) and (says_full(error) or not has_room(directory.out))


def _needed(needs: Needs) -> str:
    outputs = show_bytes(needs.bytes_written)
    if needs.compressed:
        outputs += ", less as far as they can be compressed,"
    return f"the outputs take {outputs} and the records about {show_bytes(RECORDS_NBYTES)}"


def _forget(directory: RunDirectory, missing: Sequence[Path]) -> None:
    """Remove all that was made in a directory, and those of its folders that were not there."""
    with suppress(OSError, HyperslabError):  # what can be removed is gone, and the reason is told
        clean(directory, outputs_too=True)
        for folder in missing[1:]:
            folder.rmdir()
