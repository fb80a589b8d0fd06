"""`hyperslab info`: what is in a file, and how it would be read."""

from __future__ import annotations

from typing import Annotated

import typer

from hyperslab import formats
from hyperslab.admission import MEMORY_SHARE
from hyperslab.array import ArraySource, Scaling, Values
from hyperslab.errors import HyperslabError
from hyperslab.gathering import expand
from hyperslab.machine import Host
from hyperslab.partition import Rule
from hyperslab.pipeline import Pipeline
from hyperslab.plan import Budget, preview
from hyperslab.units import show_bytes, show_count


def info(
    path: Annotated[str, typer.Argument(help="PATH or PATH::DATASET; a directory or a glob stands for its files.")],
) -> int:
    """Say what arrays are in PATH: shape, dtypes, chunks, codecs, scaling, and which read path is used and why.

    Exit status 1 when a file among several cannot be read; the others are shown all the same.
    """
    urls = expand(path)
    if len(urls) == 1:
        _show_file(urls[0])
        return 0
    return 1 if [url for url in urls if not _is_shown(url)] else 0


def _is_shown(url: str) -> bool:
    try:
        _show_file(url)
    except HyperslabError as error:
        typer.echo(f"hyperslab: {error}", err=True)
        return False
    return True


def _show_file(url: str) -> None:
    """One array in full, or the table of contents of a file of several."""
    found = formats.arrays(url)
    if len(found) == 1 or formats.split_url(url)[1]:
        _show(formats.open_source(url))
        return
    typer.echo(f"{url}: {show_count(len(found), 'array')}" + ("; add ::NAME to see one" if found else ""))
    for entry in found:
        typer.echo(f"  {entry.name:<32} {entry.dtype:<10} {'x'.join(map(str, entry.shape)) or 'scalar'}")


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
        "codecs": " then ".join(f"{c.name}{list(c.options) or ''}" for c in source.codecs) or "none",
        "scaling": _scaling(source.scaling),
        "fill": "none" if source.fill is None else str(source.fill),
        "bytes": f"{show_bytes(source.nbytes_stored)} stored, {show_bytes(source.nbytes)} decoded",
        "affine": "none" if affine is None else "; ".join(" ".join(f"{v:.6g}" for v in row) for row in affine[:3]),
        "read by": ("positioned reads: " if source.chunks is not None else "the reference library: ") + source.reason,
        "partition": _partition(source),
    }
    return rows | {name: str(value) for name, value in source.header.attributes.items()}


def _byte_order(source: ArraySource) -> str:
    order = source.stored.byteorder
    return "big-endian" if order == ">" else "little-endian" if source.stored.itemsize > 1 else "one byte"


def _chunks(source: ArraySource) -> str:
    if source.chunks is not None and source.chunks.chunk_shape == source.stored_shape:
        return "contiguous"
    if not source.chunk_shape:
        return "none"
    number = f"{len(source.chunks)} of " if source.chunks is not None else ""
    return number + "x".join(map(str, source.own_chunk_shape))


def _scaling(scaling: Scaling | None) -> str:
    return "none" if scaling is None else f"real = stored x {scaling.slope:g} + {scaling.inter:g}"


def _partition(source: ArraySource) -> str:
    """How `hyperslab run` would cut it here, left to itself."""
    if source.size == 0:
        return "nothing to cut"
    host = Host.here()
    budget = Budget(int(host.memory_bytes * MEMORY_SHARE), host.cpus)
    values: Values = "stored" if source.packing else "real"
    (cut,) = preview(Pipeline(source, values=values), Rule(), budget)
    largest = "x".join(map(str, cut.largest))
    return f"{show_count(len(cut), 'block')}, the largest {largest}, on {show_count(host.cpus, 'processor')}"
