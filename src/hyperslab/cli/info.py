"""`hyperslab info`: what is in a file, and how it would be read."""

from __future__ import annotations

from typing import Annotated

import typer

from hyperslab import formats
from hyperslab.admission import MEMORY_SHARE, size
from hyperslab.array import ArraySource, Scaling
from hyperslab.gather import expand
from hyperslab.machine import Host
from hyperslab.partition import Rule
from hyperslab.pipeline import Pipeline
from hyperslab.plan import Budget, preview


def info(
    path: Annotated[str, typer.Argument(help="PATH or PATH::DATASET; a directory or a glob stands for its files.")],
) -> int:
    """Say what arrays are in PATH: shape, dtypes, chunks, codecs, scaling, and which read path is used and why."""
    for url in expand(path):
        named = formats.split_url(url)[1]
        found = formats.arrays(url)
        if len(found) == 1 or named:
            _show(formats.open_source(url))
            continue
        typer.echo(f"{url}: {len(found)} arrays; add ::NAME to see one")
        for entry in found:
            typer.echo(f"  {entry.name:<32} {entry.dtype:<10} {'x'.join(map(str, entry.shape)) or 'scalar'}")
    return 0


def _show(source: ArraySource) -> None:
    typer.echo(f"{source.url}::{source.name}" if source.name else source.url)
    for name, text in _rows(source).items():
        typer.echo(f"  {name:<12} {text}")


def _rows(source: ArraySource) -> dict[str, str]:
    affine = source.header.affine
    rows = {
        "format": source.format,
        "shape": "x".join(map(str, source.shape)) or "scalar",
        "dims": ", ".join(source.dims),
        "stored as": f"{source.stored.name}, {_byte_order(source)}",
        "real dtype": f"unknown: {source.packing} cannot be applied yet" if source.packing else source.real.name,
        "axes": f"slowest to fastest in the file: {', '.join(source.dims[a] for a in source.axes)}",
        "chunks": _chunks(source),
        "codecs": " then ".join(f"{c.name}{list(c.options) or ''}" for c in source.codecs) or "none known",
        "scaling": _scaling(source.scaling),
        "fill": "none" if source.fill is None else str(source.fill),
        "bytes": f"{size(source.nbytes_stored)} stored, {size(source.nbytes)} decoded",
        "affine": "none" if affine is None else "; ".join(" ".join(f"{v:.6g}" for v in row) for row in affine[:3]),
        "read by": ("positioned reads: " if source.chunks is not None else "the reference library: ") + source.reason,
        "partition": _partition(source),
    }
    return rows | {name: str(value) for name, value in source.header.attributes.items()}


def _byte_order(source: ArraySource) -> str:
    order = source.stored.byteorder
    return "big-endian" if order == ">" else "little-endian" if source.stored.itemsize > 1 else "one byte"


def _chunks(source: ArraySource) -> str:
    if source.chunks is None:
        return "unknown: no chunk table"
    if source.chunks.chunk_shape == source.stored_shape:
        return "contiguous"
    by_axis = dict(zip(source.axes, source.chunks.chunk_shape, strict=True))
    return f"{len(source.chunks)} of {'x'.join(str(by_axis[a]) for a in range(source.ndim))}"


def _scaling(scaling: Scaling | None) -> str:
    return "none" if scaling is None else f"real = stored x {scaling.slope:g} + {scaling.inter:g}"


def _partition(source: ArraySource) -> str:
    """How `hyperslab run` would cut it here, left to itself."""
    if source.size == 0:
        return "nothing to cut"
    host = Host.here()
    budget = Budget(int(host.memory_bytes * MEMORY_SHARE), host.cpus)
    (cut,) = preview(Pipeline(source, values="stored"), Rule(), budget)
    largest = "x".join(map(str, cut.largest))
    return f"{len(cut)} blocks, the largest {largest}, on {host.cpus} processors"
