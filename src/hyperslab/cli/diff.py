"""`hyperslab diff`: do two volumes, or two sets of blocks, hold the same?"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any

import typer

from hyperslab.apps import difference
from hyperslab.apps.difference.found import (
    Comparison,
    Difference,
    HeaderDifference,
    ValueDifference,
)
from hyperslab.cli.flags import Axis, RealOrStored, StorageOption, memory_bytes, memory_flag
from hyperslab.cli.parse import parse_storage_options
from hyperslab.cli.verbs import TROUBLE
from hyperslab.errors import UsageError
from hyperslab.report.progress import progress_for
from hyperslab.units import show_count

Opt = typer.Option
SAME, DIFFERENT = 0, 1
LISTED = 5


def diff(
    a: Annotated[
        str,
        typer.Argument(
            help="A file, PATH::DATASET, a directory, a glob, or a list in a .txt file."
        ),
    ],
    b: Annotated[
        str,
        typer.Argument(help="Same as A; tolerances and relative differences are relative to B."),
    ],
    values: RealOrStored = "real",
    atol: Annotated[float, Opt(help="Values are equal if |A - B| <= ATOL + RTOL * |B|.")] = 0.0,
    rtol: Annotated[float, Opt(help="See --atol.")] = 0.0,
    first: Annotated[bool, Opt("--first", help="Stop at the first block that differs.")] = False,
    values_only: Annotated[bool, Opt("--values-only", help="Do not compare headers.")] = False,
    ignore_attributes: Annotated[
        bool,
        Opt(
            "--ignore-attributes",
            help="Of the headers, compare only geometry, dtypes, units and scaling.",
        ),
    ] = False,
    sources: Annotated[
        str,
        Opt(
            help=(
                "How several files belong together: mosaic or concatenated (one array), independent"
                " (each is compared "
                "with the file of the same name), or auto: independent if the names of A and B are"
                " the same, else mosaic."
            )
        ),
    ] = "auto",
    axis: Axis = None,
    storage_option: StorageOption = [],  # noqa: B006
    memory: Annotated[str | None, memory_flag("blocks", "8GB")] = None,
    threads: Annotated[
        int | None, Opt(help="Blocks at a time; by default one per processor.")
    ] = None,
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, Opt("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> int:
    """Compare the values and headers of A and B, block by block in bounded memory.

    A and B are arrays in any formats, each in one file or in several. Numbers are equal if they are
    the same number, whatever their dtypes; NaN equals NaN, and 0 equals -0. Chunks, compression and
    byte order make no difference.

    Exit status, as of diff(1): 0 they are the same, 1 they differ, 2 trouble (wrong arguments, or
    something that cannot be read), 130 interrupted.
    """
    if axis is not None and sources != "concatenated":
        raise UsageError(f"--axis {axis} is for --sources concatenated, not {sources}")
    found = difference.diff(
        a,
        b,
        values=values,  # type: ignore[arg-type]  # diff refuses other words itself
        atol=atol,
        rtol=rtol,
        first=first,
        headers=not values_only,
        attributes=not ignore_attributes,
        sources=sources,  # type: ignore[arg-type]
        axis=axis or 0,
        storage_options=parse_storage_options(storage_option),
        memory_bytes=memory_bytes(memory),
        threads=threads,
        progress=progress_for(quiet),
    )
    if as_json:
        typer.echo(json.dumps({"same": found.same, **_plain(found)}, indent=2, ensure_ascii=False))
    elif not quiet:
        typer.echo("\n".join(_lines(found)))
    for pair in found.pairs:
        if pair.trouble:
            typer.echo(f"hyperslab: {pair.trouble}", err=True)
    if any(pair.trouble for pair in found.pairs):
        return TROUBLE
    if found.same:
        return SAME
    return DIFFERENT


def _lines(found: Comparison) -> Iterator[str]:
    """A comparison in words: what differs, and for one pair also what does not."""
    several = len(found.pairs) > 1 or bool(found.only_a or found.only_b)
    for pair in found.pairs:
        if not several or not (pair.same or pair.trouble):
            yield from _pair(pair)
            if several:
                yield ""
    yield from (f"only in A   {path}" for path in found.only_a)
    yield from (f"only in B   {path}" for path in found.only_b)
    if several:
        differing = sum(not pair.same and not pair.trouble for pair in found.pairs)
        troubled = sum(bool(pair.trouble) for pair in found.pairs)
        more = f", {troubled} could not be compared" * bool(troubled)
        yield f"{differing:,} of {show_count(len(found.pairs), 'pair')} of files differ{more}"


def _pair(pair: Difference) -> Iterator[str]:
    yield f"A           {pair.a}"
    yield f"B           {pair.b}"
    if pair.values is not None:
        yield from _values(pair, pair.values)
    yield from _headers("headers", pair.headers)
    if pair.same and pair.values is not None:
        yield "the same"
    yield from _headers("stored", pair.stored, " (no difference)")


def _values(pair: Difference, values: ValueDifference) -> Iterator[str]:
    compared = show_count(values.compared, "element")
    if not values.differing:
        yield f"values      equal: {compared}"
        return
    far = "" if values.absolute is None else f"; largest difference {values.absolute:.6g}"
    far += "" if values.relative is None else f", relative to B {values.relative:.6g}"
    missing = f"; {values.one_nan:,} NaN on one side only" * bool(values.one_nan)
    yield f"values      {values.differing:,} of {compared} differ{far}{missing}"
    assert values.first is not None
    yield f"first at    {list(values.first.index)}: {values.first.a} in A, {values.first.b} in B"
    yield f"all within  {values.box}"
    yield from _files("A", values.files_a, pair.a)
    yield from _files("B", values.files_b, pair.b)


def _files(name: str, files: Mapping[str, int], named: str) -> Iterator[str]:
    """List the files that hold the differences, where these are not the one that has been named
    already.
    """
    if list(files) == [named]:
        return
    worst = sorted(files.items(), key=lambda item: -item[1])
    yield from (f"in {name}        {count:,} in {path}" for path, count in worst[:LISTED])
    if len(worst) > LISTED:
        yield f"in {name}        and in {show_count(len(worst) - LISTED, 'other file')}"


def _headers(title: str, found: Sequence[HeaderDifference], remark: str = "") -> Iterator[str]:
    for one in found:
        detail = f" ({one.detail})" * bool(one.detail)
        yield f"{title:<11} {one.what}: {one.a} in A, {one.b} in B{detail}{remark}"


def _plain(found: Any) -> Any:
    """What a comparison found, as JSON has it; numbers that JSON has not are text."""
    if is_dataclass(found):
        named = {field.name: _plain(getattr(found, field.name)) for field in fields(found)}
        return {"same": found.same, **named} if isinstance(found, Difference) else named
    if isinstance(found, Mapping):
        return {name: _plain(value) for name, value in found.items()}
    if hasattr(found, "_asdict"):
        return _plain(found._asdict())
    if isinstance(found, list | tuple):
        return [_plain(value) for value in found]
    if (
        found is None
        or isinstance(found, bool | int | str)
        or (isinstance(found, float) and math.isfinite(found))
    ):
        return found
    return str(found)
