"""Delivery: what a task has made goes to its files, at once or by way of a fast tier.

On the tier an array of a block is a file of its values in the order and the dtype of the file that
they go to. Whoever flushes it does what the task would have done, with the same outcome, and then
reads back what has arrived:

- bytes, names and records are those of a run without a fast tier
  (`tests/system/end_to_end/test_staging.py`)
- an array that is not on the tier as it was written is not delivered, but Lost
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.sets import Piece
from hyperslab.arrays.sink import ArraySink
from hyperslab.blocks import checksums, writing
from hyperslab.blocks.positioned import opened, stored_bytes, write_at
from hyperslab.blocks.writing import Written
from hyperslab.plan.sinks import block_sink
from hyperslab.plan.task import Job, Outcome, Task, Volume, output_pieces
from hyperslab.storage import fence
from hyperslab.trace import VERIFY, span


class Lost(Exception):
    """Raised for a block that is no longer on the fast tier as it was written there."""


def deliver(
    job: Job, task: Task, made: Sequence[Array], is_checked: bool = False
) -> tuple[Written, ...]:
    """Write the arrays of a task to their files, or into those that several tasks write to; if
    asked for, what has arrived is read back.

    Raises OSError, BlockError.
    """
    output = job.output
    assert output is not None
    if output.volumes:
        written = [
            _write_region(output.volumes[piece.source], piece, made[number], is_checked)
            for number, piece in output_pieces(job, task)
        ]
    else:
        check = _require_arrived if is_checked else None
        written = [
            writing.write(block_sink(job, task, number), block, check)
            for number, block in enumerate(made)
        ]
    return tuple(_within(output.folder, each) for each in written)


def _write_region(volume: Volume, piece: Piece, made: Array, is_checked: bool) -> Written:
    written = writing.write_region(*volume, piece.slab, made[piece.place.slices()])
    if not is_checked:
        return written
    with span(VERIFY):
        if not writing.is_as_written(*volume, piece.slab, written):
            raise _differs(volume.sink.path)
    return written


def _require_arrived(path: Path, checksum: str) -> None:
    """Raise OSError for a file that, read back from storage, is not what was written."""
    with span(VERIFY):
        writing.settle(path)
        if checksums.of_output(path, checksum) != checksum:
            raise _differs(str(path))


def _differs(path: str) -> OSError:
    return OSError(errno.EIO, "what was read back is not what had been written", path)


def _within(folder: str, written: Written) -> Written:
    """The same write, named from the output directory on: that one may be copied or moved before a
    run goes on.
    """
    return replace(written, path=os.path.relpath(written.path, folder))


def stage(job: Job, task: Task, made: Sequence[Array]) -> tuple[Written, ...]:
    """Write the arrays of a task to the fast tier; () where it has none, no room, or is gone.

    Raises BlockError for what their files cannot hold.
    """
    room = job.room
    if room is None or not room.is_open:
        return ()
    sinks = [_fitting(job, task, made, number) for number in range(len(made))]
    nbytes = sum(block.size * sink.dtype.itemsize for sink, block in zip(sinks, made, strict=True))
    if room.passes(task.id, nbytes) or not room.holds(nbytes):
        return ()
    from hyperslab.storage.staging.area import OUTPUTS

    staged: list[Written] = []
    try:
        for number, (sink, block) in enumerate(zip(sinks, made, strict=True)):
            name = f"{task.id}.{task.attempt}.{number}.{secrets.token_hex(6)}"
            staged.append(Written(os.path.join(room.area, OUTPUTS, name), 0, ""))
            staged[-1] = _put(staged[-1].path, sink, block)
    except OSError:  # it is full, or gone
        forget(staged)
        return ()
    fence.require_open()
    return tuple(staged)


def recover(job: Job, task: Task, staged: Sequence[Written]) -> list[Array]:
    """The arrays of a task from the fast tier. Raises Lost."""
    return [_get(each, *_stored(job, task, number)) for number, each in enumerate(staged)]


def forget(staged: Sequence[Written]) -> None:
    """Remove what is on the fast tier, as far as it is there."""
    for each in staged:
        with suppress(OSError):
            os.unlink(each.path)


def flush(job: Job, task: Task, outcome: Outcome) -> tuple[Written, ...]:
    """Deliver what a task has staged, and read back what has arrived. Raises Lost, OSError,
    BlockError.
    """
    made = recover(job, task, outcome.outputs)
    return deliver(job, task, made, is_checked=True)


def drop(outcome: Outcome) -> None:
    """Remove what a task has staged, as far as it is there."""
    forget(outcome.outputs)


def _fitting(job: Job, task: Task, made: Sequence[Array], number: int) -> ArraySink:
    """A file that an array goes to; all that it goes to hold it, and store it alike."""
    assert job.output is not None
    if not job.output.volumes:
        sink = block_sink(job, task, number)
        writing.require_block(sink, made[number], sink.shape)
        return sink
    volumes = list(_volumes_of(job, task, number))
    for volume, piece in volumes:
        writing.require_block(volume.sink, made[number][piece.place.slices()], piece.slab.count)
    return volumes[0][0].sink


def _volumes_of(job: Job, task: Task, number: int) -> Iterator[tuple[Volume, Piece]]:
    assert job.output is not None
    for of_array, piece in output_pieces(job, task):
        if of_array == number:
            yield job.output.volumes[piece.source], piece


def _put(path: str, sink: ArraySink, block: Array) -> Written:
    stored = block.transpose(sink.axes)
    with span("stage") as mark, opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as fd:
        for data in stored_bytes(stored, sink.dtype):
            mark.nbytes += write_at(fd, [data], mark.nbytes)
        checksum = checksums.of_values(stored, sink.dtype)
    return Written(path, mark.nbytes, checksum)


def _stored(job: Job, task: Task, number: int) -> tuple[ArraySink, tuple[int, ...]]:
    """A file that an array goes to, and the array's shape."""
    assert job.output is not None
    shape = job.becoming[task.whole].outputs[number].shape_of(task.core.count)
    if not job.output.volumes:
        return block_sink(job, task, number), shape
    volume, _ = next(_volumes_of(job, task, number))
    return volume.sink, shape


def _get(staged: Written, sink: ArraySink, shape: tuple[int, ...]) -> Array:
    """The array that a file on the tier holds, which is not mapped: pages of a device that is gone
    would end the process.
    """
    stored = np.empty([shape[axis] for axis in sink.axes], sink.dtype)
    try:
        with open(staged.path, "rb", buffering=0) as file:
            left = stored.reshape(-1).view(np.uint8).data
            while left and (count := file.readinto(left)):
                left = left[count:]
    except OSError as error:
        raise Lost(str(error)) from error
    if left or checksums.of_values(stored, sink.dtype) != staged.checksum:
        raise Lost(f"{staged.path} is not as it was written")
    return stored.transpose(np.argsort(sink.axes))
