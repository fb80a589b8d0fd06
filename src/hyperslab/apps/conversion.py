"""Conversion: the arrays of some files as other files: another format, other chunks, split, merged,
joined.

A conversion is a pipeline without steps, whose blocks are cut for long runs on both sides and whose
files are written by all tasks together. So it runs on every engine, resumes, verifies and reports
as any run does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack, get_args

import numpy as np

from hyperslab import formats
from hyperslab.apps.publication import publish, require_unfinished, staged
from hyperslab.apps.together import (
    has_groups,
    holds_several,
    named_apart,
    no_place,
    renamed_axes,
    require_room,
    surrounded_together,
)
from hyperslab.apps.variables import Chosen, variables_of
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding, require_encoding
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.sets import Kind, SourceSet, Whole, in_order_of_space, independent
from hyperslab.arrays.source import ArraySource, Values
from hyperslab.blocks.gathering import Named, Tell, gather, unheard
from hyperslab.blocks.surroundings import Asked, own_name, surrounded
from hyperslab.driver.options import Options, chosen, spelled_out
from hyperslab.driver.prepare import Prepared, prepare
from hyperslab.driver.result import Result, checked
from hyperslab.driver.run import run
from hyperslab.driver.vacancy import require_elsewhere
from hyperslab.errors import UsageError, told_in_python
from hyperslab.formats.deflating import FASTEST
from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.settings import Settings
from hyperslab.plan.sinks import require_short
from hyperslab.redaction import redact
from hyperslab.report.progress import Progress
from hyperslab.storage.location import is_remote, scheme, text_of
from hyperslab.storage.remote.connections import S3
from hyperslab.storage.remote.uploading import Uploaded
from hyperslab.workloads.cast import cast

CARRIED_CHUNK_NBYTES = 64 * 1024
"Stored chunks that are smaller are not asked for again where many files become one."
_NUMBERS = "biufc"
"Kinds of NumPy's dtypes."
"A dataset below it would be taken for a MINC image."


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a conversion makes of its sources, and how these belong together."""

    format: str = ""
    "Name of the output format; empty: that of the file's name, or the source's own."
    grid: Rule | None = None
    "Blocks that every array is split into, as the files of a directory; None: arrays stay whole."
    kind: Kind | None = None
    """Way in which several files belong together: 'mosaic' (one array by their affines),
    'concatenated' (one along `axis`) or 'independent'; None: concatenated if there is an axis, else
    a mosaic in a file and independent in a directory. Several arrays of one file are independent in
    a file that holds several.
    """
    axis: int | None = None
    "Axis along which files are joined; None: 0 where they are concatenated."
    values: Values | None = None
    """Values that are written: the stored numbers and what they mean, or the real ones; None: the
    stored ones, or the real ones where the new format cannot say what those mean.
    """
    dtype: str | None = None
    "dtype of real values that is asked for; None: that of the source."
    encoding: Encoding = DEFAULT_ENCODING
    "Chunks and compression; those of the source where it leaves them out."
    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)
    "Options that fsspec is given with URLs among the sources, and with the destination's."


USUAL = Wanted()
"Everything as the source has it."


def conversion(
    source: Named | Sequence[Named] | SourceSet,
    dest: str | os.PathLike[str],
    wanted: Wanted = USUAL,
) -> Pipeline:
    """The pipeline that writes the arrays of `source` to `dest`, a file if its name ends as one,
    else a directory. Raises UsageError.
    """
    pipeline, _ = _drafted(source, dest, wanted)
    return pipeline


class _Draft(NamedTuple):
    pipeline: Pipeline
    notes: tuple[str, ...]


def _drafted(
    source: Named | Sequence[Named] | SourceSet,
    dest: str | os.PathLike[str],
    wanted: Wanted,
    tell: Tell = unheard,
) -> _Draft:
    """The pipeline of a conversion, and what its user has to know of it."""
    path = os.fspath(dest)
    name = os.path.basename(path) if formats.is_file_name(path) else ""
    _check(path, name, wanted)
    found = None
    if name and wanted.kind is None and wanted.axis is None and not isinstance(source, SourceSet):
        found = variables_of(source, has_groups(path))
    sources = _gathered(source, path, wanted, found, tell)
    _require_elsewhere(sources, source, path)
    is_found = found is not None and holds_several(path)
    are_together = bool(name) and (is_found or len(sources.wholes) > 1)
    if are_together:
        require_room(path, wanted.encoding, sources)
    written = _format(path, name, wanted.format, sources)
    sources = _in_order(sources, written)
    carried = tuple(_carried(wanted.encoding, written, sources, whole) for whole in sources.wholes)
    if are_together:
        carried = named_apart(sources, carried)
        sources, left = surrounded_together(sources, written, found.asked if found else Asked())
    else:
        sources, left = surrounded(sources, written)
    values, notes = _values(wanted, written, sources, carried)
    pipeline = Pipeline(sources, values=values)
    if wanted.dtype is not None:
        named = _dtype_name(wanted.dtype, sources)
        pipeline = pipeline.map(cast, {"dtype": named}, dtype=named)
    folder = os.path.dirname(os.path.abspath(path)) if name else path
    each = carried if len(set(carried)) > 1 or are_together else ()
    pipeline = pipeline.write(
        folder,
        written,
        "volume",
        carried[0],
        grid=wanted.grid,
        name=name,
        encodings=each,
        are_together=are_together,
        is_alone=True,  # it has its surroundings
    )
    return _Draft(pipeline, (*notes, *left))


def _gathered(
    source: Named | Sequence[Named] | SourceSet,
    path: str,
    wanted: Wanted,
    found: Chosen | None,
    tell: Tell,
) -> SourceSet:
    """The arrays that are converted: those of one file that were found, or all that is named."""
    if found is not None and (holds_several(path) or len(found.arrays) == 1):
        opened = [gather(url, tell=tell).sources[0] for url in found.urls]
        return independent(opened, formats.stem_of, alike=False)
    kind = wanted.kind or _kind(formats.is_file_name(path), wanted.axis)
    try:
        return gather(source, kind, wanted.axis or 0, None, wanted.storage_options, tell)
    except UsageError as error:
        raise no_place(path, source, found, error) from error


def _check(path: str, name: str, wanted: Wanted) -> None:
    """Raise UsageError for what is wrong whatever the sources are."""
    require_encoding(wanted.encoding)
    require_short([name])
    if wanted.values is not None and wanted.values not in get_args(Values):
        raise UsageError(f"--values {wanted.values}: choose one of {', '.join(get_args(Values))}")
    if name and wanted.grid is not None:
        raise UsageError(
            f"{path}: a split array becomes several files: name a directory, and say --format"
        )
    if not name:
        formats.require_known_suffix(path)


def _in_order(sources: SourceSet, written: str) -> SourceSet:
    """The same arrays, the axes of space first where the new format knows axes by their order."""
    _, facts = formats.written_as(written)
    if facts.has_named_axes:
        return sources
    return in_order_of_space(sources, formats.stem_of)


def _values(
    wanted: Wanted, written: str, sources: SourceSet, encodings: Sequence[Encoding]
) -> tuple[Values, tuple[str, ...]]:
    """The values that are written, and what is to be said of them."""
    if wanted.dtype is not None:
        return "real", ()
    if wanted.values is not None:
        return wanted.values, ()
    suffix, _ = formats.written_as(written)
    for whole, encoding in zip(sources.wholes, encodings, strict=True):
        source = sources.first(whole)
        why = _why_real(source, whole, suffix.text, encoding)
        if why:
            stored = source.stored.newbyteorder("=")
            note = (
                f"real values, as {source.real}, for the stored {stored} of {source.label}: {why}"
            )
            return "real", (note,)
    return "stored", ()


def _why_real(source: ArraySource, whole: Whole, suffix: str, encoding: Encoding) -> str:
    """Why files of this end can hold an array's real values, but not its stored ones with what they
    mean; '' where they can hold both, or neither.
    """
    if source.broken or source.scaling is None or source.unscalable:
        return ""
    describe = formats.module(formats.format_of_name(suffix)).sink
    path = f"new{suffix}"
    try:
        stored = source.dtype("stored")
        header = replace(whole.header, real=source.real)
        describe(path, whole.shape, stored, header, source.scaling, encoding)
    except UsageError as error:
        reason, _, _ = str(error).removeprefix(f"{path}: ").partition("; use ")
    else:
        return ""
    try:
        describe(path, whole.shape, source.real, whole.header, None, encoding)
    except UsageError:
        return ""
    return reason


@spelled_out
@told_in_python
def convert(
    source: Named | Sequence[Named] | SourceSet,
    dest: str | os.PathLike[str],
    options: Options | None = None,
    *,
    format: str = "",
    grid: Rule | None = None,
    kind: Kind | None = None,
    axis: int | None = None,
    values: Values | None = None,
    dtype: str | None = None,
    encoding: Encoding = DEFAULT_ENCODING,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    check: bool = True,
    **settings: Unpack[Settings],
) -> Result:
    """Write the arrays of `source` to `dest` and return when they are on storage.

    A file of several variables, PATH::/GROUP, or a list of PATH::DATASET of one file become several
    arrays of one file, where `dest` is a name of a format that holds several (.h5, .nc, .zarr).
    `format` to `storage_options` are fields of `hyperslab.apps.conversion.Wanted`, `settings` those
    of Options (engine, workers, threads, memory, overwrite, ...) where that is left
    out. What goes to a URL is made in the directory for temporary files (TMPDIR) first, see
    `hyperslab.apps.publication`. Raises what `hyperslab.run` and `hyperslab.upload` raise;
    `check` is that of `hyperslab.run`.
    """
    wanted = Wanted(
        format=format,
        grid=grid,
        kind=kind,
        axis=axis,
        values=values,
        dtype=dtype,
        encoding=encoding,
        storage_options=storage_options,
    )
    named = replace(chosen("convert", options, settings), verb="convert")
    conversion = planned(source, text_of(dest), named, wanted)
    result = conversion.run(progress)
    conversion.publish(result)
    if check:
        return checked(result)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """A conversion that nothing stands in the way of: to be run, and then published."""

    dest: str
    "Path or URL that is asked for."
    options: Options
    pipeline: Pipeline
    prepared: Prepared
    wanted: Wanted
    notes: tuple[str, ...] = ()
    "What is not as in the source, and why, a sentence each."

    @property
    def place(self) -> Path:
        """What the run writes on this machine."""
        assert self.prepared.directory is not None
        return self.prepared.directory.place

    def run(self, progress: Progress | None = None) -> Result:
        """Write what is asked for, for a URL in the directory for temporary files. Raises what
        `hyperslab.run` with `check=False` raises.
        """
        return run(
            self.pipeline, self.options, progress=progress, prepared=self.prepared, check=False
        )

    def publish(self, result: Result) -> Uploaded | None:
        """Send what was made for a URL; None for a path. Raises what `hyperslab.upload` raises."""
        return publish(result, self.dest, self.wanted.storage_options, self.options.overwrite)


def planned(
    source: Named | Sequence[Named] | SourceSet,
    dest: str,
    options: Options,
    wanted: Wanted,
    *,
    dry: bool = False,
    tell: Tell = unheard,
) -> Conversion:
    """The conversion to a path or URL; a `dry` one is not to be run, and any path will do. What
    takes long is told. Raises UsageError, and AlreadyDone where all of it has arrived at a URL
    before.
    """
    stores = wanted.storage_options
    place = staged(dest, stores, options.overwrite, options.resume)
    pipeline, notes = _drafted(source, place, wanted, tell)
    if is_remote(dest):
        _require_other_objects(pipeline.source, dest)
        _require_one_object(wanted.encoding, dest)
    prepared = prepare(pipeline, options, dry=dry, tell=tell)
    prepared = replace(prepared, hands_over=is_remote(dest))
    require_unfinished(prepared, dest, stores)
    notes += renamed_axes(pipeline.source, prepared.plan.stages[-1].job.output)
    return Conversion(dest, options, pipeline, prepared, wanted, notes)


def _require_one_object(encoding: Encoding, dest: str) -> None:
    if encoding.virtual:
        raise UsageError(
            f"{redact(dest)}: a file with a virtual dataset needs its parts in the same place:"
            " leave out --virtual"
        )


def _kind(one_file: bool, axis: int | None) -> Kind:
    if axis is not None:
        return "concatenated"
    return "mosaic" if one_file else "independent"


def _format(path: str, name: str, format: str, sources: SourceSet) -> str:
    """The name of the output format: that of the file's name, the one asked for, or the source's
    own.
    """
    if name:
        ending = formats.word_of(name)
        if format and format != ending:
            raise UsageError(
                f"--format {format}: {path} is a name of another format; leave one of them out"
            )
        if not ending:
            raise UsageError(
                f"{path}: files of this kind cannot be written; give a name that ends in"
                f" {', '.join(_endings())}"
            )
        return ending
    same = format or formats.word_of(sources.sources[0].url)
    if not same:
        raise UsageError(
            f"{path}: say --format, one of {', '.join(formats.written())}, or name a file"
        )
    return same


def _endings() -> list[str]:
    """Ends of the names of files that can be written, the usual ones first."""
    every = [suffix.text for suffix, _ in formats.suffixes().values() if suffix.word]
    return list(dict.fromkeys([*formats.written().values(), *every]))


def _require_elsewhere(sources: SourceSet, named: object, path: str) -> None:
    """Raise UsageError where the result would replace, or lie among, what it is made from, links
    followed.
    """
    urls = [source.url for source in sources.sources]
    require_elsewhere(urls, path)
    dest = Path(path).resolve()
    origins = [Path(url).resolve() for url in urls if not is_remote(url) and os.path.exists(url)]
    names = [
        n
        for n in (named if isinstance(named, list | tuple) else [named])
        if isinstance(n, str | Path)
    ]
    folders = [
        Path(formats.split_url(os.fspath(name))[0]).resolve()
        for name in names
        if not is_remote(str(name))
    ]
    for folder in (f for f in (*folders, *origins) if f.is_dir()):
        if folder == dest or folder in dest.parents:
            raise UsageError(
                f"{path} lies inside the source {folder}: the files would mix; choose another place"
            )


def _require_other_objects(sources: SourceSet, dest: str) -> None:
    """Raise UsageError where an upload would replace what it is made from."""
    target = _address(dest)
    for source in sources.sources:
        inside = f"{_address(source.url)}/{source.name if source.document else ''}/"
        if is_remote(source.url) and inside.startswith(f"{target}/"):
            raise UsageError(f"{redact(dest)} is the source itself, or holds it: give another name")


def _address(url: str) -> str:
    """What tells one object from another, whatever its store is called."""
    kind = scheme(url)
    named = getattr(url, "target", url).partition("://")[2].partition("?versionId=")[0]
    return f"{'s3' if kind in S3 else kind}://{named.rstrip('/')}"


def _carried(encoding: Encoding, format: str, sources: SourceSet, whole: Whole) -> Encoding:
    """What is asked for, and where nothing is, how an array's first source is stored, as far as the
    format can.
    """
    source = sources.sources[min(member.source for member in whole.members)]
    _, facts = formats.written_as(format)
    if not facts.has_chunks:
        return encoding
    encoding = replace(encoding, name=encoding.name or own_name(sources, whole))
    chunks = encoding.chunks
    if (
        not chunks
        and _is_worth_carrying(source, len(whole.members))
        and encoding.compression != "none"
    ):
        chunks = source.own_chunk_shape
    compressed = any(codec.name not in ("shuffle", "fletcher32") for codec in source.codecs)
    if encoding.compression or not compressed or not facts.has_deflate:
        return replace(encoding, chunks=chunks)
    level = next(
        (codec.options[0] for codec in source.codecs if codec.name == "deflate" and codec.options),
        None,
    )
    return replace(
        encoding,
        chunks=chunks,
        compression="gzip",
        level=None if level is None else max(level, FASTEST),
    )


def _is_worth_carrying(source: ArraySource, files: int) -> bool:
    nbytes = int(np.prod(source.own_chunk_shape or (0,))) * source.stored.itemsize
    return len(source.own_chunk_shape) == source.ndim and (
        files == 1 or nbytes >= CARRIED_CHUNK_NBYTES
    )


def _dtype_name(dtype: str, sources: SourceSet) -> str:
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        raise UsageError(
            f"--dtype {dtype}: not a NumPy dtype such as uint8, int16 or float32"
        ) from None
    odd = next((source for source in sources.sources if source.real.kind not in _NUMBERS), None)
    if wanted.kind not in _NUMBERS or odd is not None:
        what = (
            f"{odd.url}: holds {odd.real}, which is"
            if odd and wanted.kind in _NUMBERS
            else "that is"
        )
        raise UsageError(
            f"--dtype {dtype}: {what} not a number; only numbers can be converted to numbers"
        )
    return wanted.name
