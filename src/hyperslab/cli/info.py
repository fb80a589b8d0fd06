"""`hyperslab info`: what is in a file, and how it would be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from hyperslab import formats
from hyperslab.arrays.affines import why_placeless
from hyperslab.arrays.header import FIRST
from hyperslab.arrays.source import ArrayInfo, ArraySource, Scaling, Values
from hyperslab.blocks.gathering import expand
from hyperslab.blocks.reading import gzipindex
from hyperslab.blocks.reading.ways import way_of
from hyperslab.cli import document
from hyperslab.cli.flags import Json, StorageOption
from hyperslab.cli.parse import parse_storage_options
from hyperslab.errors import HyperslabError
from hyperslab.formats.conventions.uncut import SAID
from hyperslab.machine.host import MEMORY_SHARE, Host
from hyperslab.plan.cutting import preview
from hyperslab.plan.pipeline import Pipeline
from hyperslab.redaction import redact
from hyperslab.units import show_bytes, show_count


def info(
    path: Annotated[
        list[str],
        typer.Argument(
            help="PATH, PATH::DATASET or URL::DATASET; a directory or a glob stands for its files."
        ),
    ],
    storage_option: StorageOption = [],  # noqa: B006
    json: Json = False,
) -> int:
    """Say what arrays are in PATH: shape, dtypes, chunks, codecs, scaling, and which read path is
    used and why.

    Of several in a file, that which a run would take is shown in full. Exit status 1 when a file
    among several cannot be read; the others are shown all the same.
    """
    urls = [url for each in path for url in expand(each)]
    options = parse_storage_options(storage_option)
    if json:
        return _say_all(urls, options)
    if len(urls) == 1:
        _show_file(urls[0], options)
        return 0
    return 1 if [url for url in urls if not _is_shown(url, options)] else 0


def _is_shown(url: str, options: Mapping[str, Any]) -> bool:
    try:
        _show_file(url, options)
    except HyperslabError as error:
        typer.echo(f"hyperslab: {error}", err=True)
        return False
    return True


def _say_all(urls: Sequence[str], options: Mapping[str, Any]) -> int:
    """One list of all arrays; what cannot be read is reported apart, and by the exit status."""
    found: list[dict[str, Any]] = []
    broken = 0
    for url in urls:
        try:
            found += _documents(url, options)
        except HyperslabError as error:
            typer.echo(f"hyperslab: {error}", err=True)
            broken = 1
    document.say(found)
    return broken


@dataclass(frozen=True, slots=True)
class _Contents:
    """What is to be said of a file."""

    meant: ArraySource | None
    "The array that is shown in full; None where none of several is meant."
    others: tuple[ArrayInfo, ...]


def _contents(url: str, options: Mapping[str, Any]) -> _Contents:
    """The array that is named, or that a run would take, and those beside it."""
    entries = formats.arrays(url, options)
    if len(entries) == 1 or formats.split_url(url)[1]:
        return _Contents(formats.open_source(url, options), ())
    name = formats.only_array(url, options)
    if not name:
        return _Contents(None, tuple(entries))
    others = tuple(entry for entry in entries if entry.name.strip("/") != name.strip("/"))
    return _Contents(formats.open_source(url, options), others)


def _documents(url: str, options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Everything about the array that is meant, and a line of the table of contents for each
    other.
    """
    contents = _contents(url, options)
    found = []
    if contents.meant is not None:
        found.append(_document(contents.meant))
    found += [
        {"url": url, "name": entry.name, "shape": entry.shape, "dtype": entry.dtype}
        for entry in contents.others
    ]
    return found


def _document(source: ArraySource) -> dict[str, Any]:
    """The facts of `_rows`, as numbers where they are numbers. Sizes are in bytes."""
    real = None
    if not source.unscalable:
        real = source.real.str
    return {
        "url": source.url,
        "name": source.name,
        "format": source.format,
        "shape": source.shape,
        "dims": source.dims,
        "stored_dtype": source.stored.str,
        "dtype": real,
        "axes": source.axes,
        "chunks": source.own_chunk_shape,
        "codecs": source.codecs,
        "scaling": source.scaling,
        "fill": source.fill,
        "nbytes_stored": source.nbytes_stored,
        "nbytes": source.nbytes,
        "affine": source.header.affine,
        "space": source.header.space,
        "read_by": _reader(source),
        "reason": source.reason,
        "attributes": source.header.attributes,
    }


def _show_file(url: str, options: Mapping[str, Any]) -> None:
    """The array that is meant in full, and the table of contents of the others."""
    contents = _contents(url, options)
    if contents.meant is not None:
        _show(contents.meant)
        if not contents.others:
            return
    where = redact(url)
    if contents.meant is not None:
        where = "also in this file"
    remedy = "; add ::NAME to see one" if contents.others else ""
    typer.echo(f"{where}: {show_count(len(contents.others), 'array')}{remedy}")
    for entry in contents.others:
        typer.echo(
            f"  {entry.name:<32} {entry.dtype:<10} {'x'.join(map(str, entry.shape)) or 'scalar'}"
        )


def _show(source: ArraySource) -> None:
    typer.echo(f"{source.url}::{source.name}" if source.name else source.url)
    for name, text in _rows(source).items():
        typer.echo(f"  {name:<12} {text}")


def _rows(source: ArraySource) -> dict[str, str]:
    codecs = [f"{codec.name}{list(codec.options) or ''}" for codec in source.codecs]
    rows = {
        "format": source.format,
        "shape": "x".join(map(str, source.shape)) or "scalar",
        "dims": ", ".join(source.dims),
        "stored as": f"{source.stored.name}, {_byte_order(source)}",
        "real dtype": _real(source),
        "axes": f"slowest to fastest in the file: {', '.join(source.dims[a] for a in source.axes)}",
        "chunks": _chunks(source),
        "codecs": " then ".join(codecs) or "none",
        "scaling": _scaling(source.scaling),
        "fill": _fill(source),
        "bytes": f"{show_bytes(source.nbytes_stored)} stored, {show_bytes(source.nbytes)} decoded",
        "affine": _affine(source),
        "read by": f"{_reader(source)}: {source.reason}",
        "partition": _partition(source),
    }
    said = {n: _text(value) for n, value in source.header.attributes.items() if n not in SAID}
    return rows | said


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").rstrip("\0")
    return str(value)


def _reader(source: ArraySource) -> str:
    return way_of(gzipindex.expected(source)).words


def _byte_order(source: ArraySource) -> str:
    if source.stored.byteorder == ">":
        return "big-endian"
    if source.stored.itemsize > 1:
        return "little-endian"
    return "one byte"


def _real(source: ArraySource) -> str:
    if source.unscalable:
        return f"none: {source.unscalable}"
    return source.real.name


def _fill(source: ArraySource) -> str:
    if source.fill is None:
        return "none"
    return str(source.fill)


def _affine(source: ArraySource) -> str:
    affine = source.header.affine
    if affine is None:
        return "; ".join(("none", *source.header.unplaced))
    rows = "; ".join(" ".join(f"{number:.6g}" for number in row) for row in affine[:3])
    if source.header.space != FIRST:
        rows += f" (of {', '.join(source.dims[axis] for axis in source.header.space)})"
    if why := why_placeless(affine):
        rows += f": it gives no place, as it {why}"
    return rows


def _chunks(source: ArraySource) -> str:
    if not source.chunk_shape:
        is_one = source.chunks is not None and source.chunks.chunk_shape == source.stored_shape
        return "contiguous" if is_one else "none"
    number = f"{len(source.chunks):,} of " if source.chunks is not None else ""
    return number + "x".join(map(str, source.own_chunk_shape))


def _scaling(scaling: Scaling | None) -> str:
    """What turns stored values into real ones, in words."""
    if scaling is None:
        return "none"
    low, high = scaling.valid or (None, None)
    words = [f"real = {_linear(scaling)}"]
    if scaling.clip is not None:
        words.append(f"stored clipped to {scaling.clip[0]:g} .. {scaling.clip[1]:g}")
    if scaling.missing:
        missing = ", ".join(f"{value:g}" for value in scaling.missing)
        words.append(f"{missing} -> NaN")
    if low is not None:
        words.append(f"below {low:g} -> NaN")
    if high is not None:
        words.append(f"above {high:g} -> NaN")
    return ", ".join(words)


def _linear(scaling: Scaling) -> str:
    """Slope and intercept, each with its extremes where it differs by slice; nothing for those that
    change nothing.
    """
    stored = "stored (read without sign)" if scaling.unsigned else "stored"
    if (
        np.ndim(scaling.slope) == np.ndim(scaling.inter) == 0
        and scaling.slope == 1
        and scaling.inter == 0
    ):
        return stored
    return f"{stored} x {_factor(scaling.slope)} + {_factor(scaling.inter)}"


def _factor(factor: Any) -> str:
    if np.size(factor) == 1:
        return f"{np.ravel(factor)[0]:g}"
    return f"({np.min(factor):g} .. {np.max(factor):g}, by slice)"


def _partition(source: ArraySource) -> str:
    """How `hyperslab run` would cut it here, left to itself."""
    if source.size == 0:
        return "nothing to cut"
    host = Host.here()
    slot_nbytes = int(host.memory_bytes * MEMORY_SHARE) // host.cpus
    values: Values = "stored" if source.unscalable else "real"
    (cut,) = preview(Pipeline(source, values=values), host.cpus, slot_nbytes)
    largest = "x".join(map(str, cut.largest))
    return (
        f"{show_count(len(cut), 'block')}, the largest {largest}, on"
        f" {show_count(host.cpus, 'processor')}"
    )
