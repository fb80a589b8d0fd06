"""Shared pages: on a network file system, two writers of one page would each send the other's part
as it was before.

Clients of NFS, Lustre and their like keep pages in memory and write back what they hold; only a
writer that has a page to itself is safe there (NFS: close-to-open consistency, RFC 7530, section
10.3). On a local file system all processes share one page cache.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator

from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks.writing.forms import form_of
from hyperslab.errors import UsageError
from hyperslab.plan.compile import Plan
from hyperslab.plan.task import output_pieces
from hyperslab.storage.tiers.file_systems import network_file_system

PAGE_NBYTES = mmap.PAGESIZE


def require_whole_pages(plan: Plan, slots: int) -> None:
    """Raise UsageError where tasks at a time would write to one page of a file on a network file
    system.
    """
    output = plan.stages[-1].job.output
    if (
        output is None
        or not output.volumes
        or slots == 1
        or not (kind := network_file_system(output.folder))
    ):
        return
    for sink, edge in _shared_edges(plan):
        raise UsageError(
            f"{sink.path} is on {kind}, where two writers must not share a page, and blocks meet"
            f" at byte {edge}: use --workers 1 --threads 1, a format whose writers have files of"
            " their own (--compression gzip, .nii.gz, .zarr), or a local disk"
        )


def _shared_edges(plan: Plan) -> Iterator[tuple[ArraySink, int]]:
    """Volumes and positions at which a region of a task begins or ends within a page."""
    stage = plan.stages[-1]
    assert stage.job.output is not None
    for task in stage.tasks:
        for _, piece in output_pieces(stage.job, task):
            sink = stage.job.output.volumes[piece.source].sink
            is_alone = piece.slab == Hyperslab.full(sink.shape) and not sink.members
            if not form_of(sink).has_shared_file or is_alone:
                continue
            first, last = _reach(sink, piece.slab)
            if last - first > piece.slab.size * sink.dtype.itemsize:
                yield sink, first  # not one run: it begins and ends within pages of others
            for edge in (first, last):
                if edge % PAGE_NBYTES and edge not in (len(sink.head or b""), sink.nbytes):
                    yield sink, edge


def _reach(sink: ArraySink, slab: Hyperslab) -> tuple[int, int]:
    """First byte of a region in its file, and the one after its last."""
    stored = slab.permute(sink.axes)
    shape = [sink.shape[axis] for axis in sink.axes]
    row = [math.prod(shape[axis + 1 :]) * sink.dtype.itemsize for axis in range(len(shape))]
    low, high = stored.bounds
    base = sink.begin
    first = sum(a * n for a, n in zip(low, row, strict=True))
    last = sum((z - 1) * n for z, n in zip(high, row, strict=True)) + sink.dtype.itemsize
    return base + first, base + last
