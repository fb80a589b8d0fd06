"""Pipeline: what to do with some arrays, never where: read -> map ... -> write, or read -> map ...
-> reduce.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from hyperslab import formats
from hyperslab.arrays.axes import Axes, Axis
from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding, require_encoding
from hyperslab.arrays.naming import axes_of
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.resampling import Resampling
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.source import Values
from hyperslab.errors import UsageError, told_in_python
from hyperslab.plan.asked import (
    folded,
    gathered,
    is_built_in,
    mapped,
    notes_of,
    parameters,
    require_choice,
    require_inputs_fit,
    require_of_write,
    require_writable,
    resampling_of,
    with_built_in,
)
from hyperslab.plan.command import Execute
from hyperslab.plan.function import FunctionRef, refer
from hyperslab.plan.promise import PLAIN, UNTRIED, NewAxis, Promise, Trial, dtype_name, promised
from hyperslab.plan.promise import Named as NamedOutputs
from hyperslab.plan.settings import Settings
from hyperslab.storage.location import local_folder

if TYPE_CHECKING:
    from hyperslab.blocks.gathering import Named
    from hyperslab.plan.region import Region, Slice

Boundary = Literal["reflect", "nearest", "constant"]
"""What a halo holds beyond the array's edge, in scipy.ndimage's terms: (d c b a | a b c d), (a a a
| a b c d), zeros.
"""
Keep = Literal["blocks", "volume"]

COMPUTING = "hyperslab.driver.computing"
"Place of what runs pipelines, which is imported when one is to be run."
PRIMARY = ""
"Name of a pipeline's first input; the others are passed to the functions by their names."


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """A reduction: blocks become values, values merge into one.

    `merge` is associative and commutative, and may change and return its first argument. Nothing is
    merged into an empty value: a merge always joins the values of two blocks or more.
    """

    lift: Callable[..., Any]
    "block -> value; gets the parameters, and `prior=` when there is one."
    merge: Callable[[Any, Any], Any]
    "(value, value) -> value"
    finish: Callable[[Any], Any] | None = None
    "value -> result, once at the end."
    prior: Fold | None = None
    "A fold over the same blocks that is finished first, such as the extremes before a histogram."
    save: Callable[[Any, Path], Sequence[Path]] | None = None
    """(result, folder) -> files written; without it the result is result.json, result.npy or
    result.pickle, whichever holds it.
    """
    takes: Collection[str] = ()
    "Names of parameters of the fold after it that the lift of a prior gets, too."

    @told_in_python
    def __post_init__(self) -> None:
        for name in ("lift", "merge", "finish", "save"):
            given = getattr(self, name)
            is_left_out = given is None and name in ("finish", "save")
            if not is_left_out and not callable(given):
                raise UsageError(f"the {name} of a Fold: {given!r} is not a function")


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One function applied to every block."""

    ref: FunctionRef
    dtype: str | None = None
    "dtype that is asked for of what it returns; None: `returns` says which."
    scale: tuple[int, ...] | None = None
    "Voxels that become one, per axis; None: the shape stays."
    halo: tuple[int, ...] = ()
    "Voxels it needs around its block, per axis; empty: none."
    temporaries: float = 2.0
    "Most memory it takes in addition to its input and output, in multiples of its block."
    returns: tuple[Promise, ...] = PLAIN
    "Every array that it returns: one, or several by their names."
    trial: Trial = UNTRIED
    "What its trial on made-up numbers came to, where that has not shown what it returns."

    def shapes(self, given: Sequence[int]) -> list[tuple[int, ...]]:
        """Shapes of what it returns for a block of the given shape."""
        merged = tuple(given)
        if self.scale is not None:
            merged = tuple(math.ceil(n / s) for n, s in zip(given, self.scale, strict=True))
        return [promise.axes(len(merged), merged).shape(merged) for promise in self.returns]

    @property
    def changes_axes(self) -> bool:
        """Whether an array that it returns has other axes than the block."""
        return any(promise.changes_axes for promise in self.returns)


def _region_of(asked: str | Sequence[Slice] | Region | None) -> Region | None:
    if asked is None:
        return None
    from hyperslab.plan.region import region_of

    return region_of(asked)


def axes_after(steps: Sequence[Step], ndim: int, shape: Sequence[int] = ()) -> list[Axes]:
    """The axes of every array that the last of some steps returns, seen from a source of `ndim`
    axes, whose shape says how long new ones are where they follow from it. Raises UsageError for
    axes that cannot be, and where more than one step follows.
    """
    made = [Axes.same(ndim)]
    for step in steps:
        if len(made) > 1:
            raise UsageError(
                f"several arrays go into {step.ref.name}, which takes one block: write them, and"
                " run over the files"
            )
        block = made[0].shape(shape) if shape else ()
        made = [each.axes(made[0].ndim, block).after(made[0]) for each in step.returns]
    return made


@dataclass(frozen=True, slots=True)
class Write:
    """End of a pipeline: every block becomes a file, or all become one volume."""

    dest: str
    "Output directory."
    format: str = "nii"
    "nii, nii.gz, h5, nc or zarr."
    keep: Keep | None = "blocks"
    "None: volumes of arrays that have other axes than the source, or names; blocks of others."
    encoding: Encoding = DEFAULT_ENCODING
    "How the files store their arrays."
    grid: Rule | None = None
    "Rule by which keep='volume' cuts every array into files; None: one file each."
    name: str = ""
    "Name of the file of keep='volume' and one array; '': after the source."
    encodings: tuple[Encoding, ...] = ()
    "Encodings of what is made of each array, where they differ; (): as `encoding` says."
    are_together: bool = False
    "All arrays of keep='volume' go to the file `name`, by the names of their encodings."
    is_alone: bool = False
    "Nothing is looked for that lies around the source, such as coordinates, to go with it."


@dataclass(frozen=True, slots=True, eq=False)
class Reduce:
    """End of a pipeline: all blocks become one result."""

    ref: FunctionRef
    "Refers to a Fold."
    temporaries: float = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Inputs, the steps over their blocks, and where the blocks end. Immutable: every method
    returns a new one.

    >>> Pipeline("brain.nii").map(denoise, halo=2).write("out")   # doctest: +SKIP
    """

    inputs: Mapping[str, SourceSet]
    values: Values = "real"
    boundary: Boundary = "reflect"
    steps: tuple[Step, ...] = ()
    end: Write | Reduce | Execute | None = None
    resample: Mapping[str, Resampling] = field(default_factory=dict)
    "How further inputs are brought into the space of the first one, by their names."
    region: Region | None = None
    "The part of every array that it runs over; None: all."
    notes: tuple[str, ...] = ()
    "What its user has to know of it, a sentence each."

    @told_in_python
    def __init__(
        self,
        source: Named | Sequence[Named] | SourceSet,
        *,
        values: Values = "real",
        boundary: Boundary = "reflect",
        storage_options: Mapping[str, Any] | None = None,
        resample: Resampling | Mapping[str, Resampling] | None = None,
        region: str | Sequence[Slice] | Region | None = None,
        **others: Named | Sequence[Named] | SourceSet,
    ) -> None:
        """`others` are further inputs, such as `mask="mask.nii"`, passed to functions by name: one
        array for each of the source's, or one for all. An axis that one of them lacks is broadcast:
        with a series of shape (x, y, z, t) a function gets a mask of shape (x, y, z) as a read-only
        block of the series' shape.

        Arrays with affines have to lie in one space; `resample`, "nearest" or "linear", for all or
        by name, brings further inputs into the space of the first, as
        `nibabel.processing.resample_from_to` does with order 0 and 1. `region` is the part of every
        array that is worked on: "10:40,20:60,5:25" in voxels, as NumPy's slices, or
        "mm:-30:30,-20:40,0:50" in millimetres. `storage_options` are fsspec's. Raises UsageError.
        """
        require_choice("--values", values, get_args(Values))
        require_choice("--boundary", boundary, get_args(Boundary))
        inputs = gathered({PRIMARY: source, **others}, storage_options)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "boundary", boundary)
        object.__setattr__(self, "steps", ())
        object.__setattr__(self, "end", None)
        object.__setattr__(self, "resample", resampling_of(resample, others))
        object.__setattr__(self, "region", _region_of(region))
        object.__setattr__(self, "notes", notes_of(inputs, self.resample))
        require_inputs_fit(self, others)

    @property
    def source(self) -> SourceSet:
        """The first input."""
        return self.inputs[PRIMARY]

    @property
    def halo(self) -> tuple[int, ...]:
        """Voxels read around every block, per axis: what all steps need together."""
        none = (0,) * self.source.ndim
        each = [step.halo or none for step in self.steps]
        return tuple(sum(axis) for axis in zip(none, *each, strict=True))

    @property
    def scale(self) -> tuple[int, ...]:
        """Voxels of the input that become one of the output, per axis."""
        one = (1,) * self.source.ndim
        each = [step.scale or one for step in self.steps]
        return tuple(math.prod(axis) for axis in zip(one, *each, strict=True))

    @property
    def returns(self) -> tuple[Promise, ...]:
        """What the last step returns."""
        if not self.steps:
            return PLAIN
        return self.steps[-1].returns

    @property
    def axes(self) -> list[Axes]:
        """The axes of every array that the steps make, seen from the source. Raises UsageError."""
        return axes_after(self.steps, self.source.ndim)

    @property
    def dropped(self) -> tuple[int, ...]:
        """Axes of the source that a step drops, which every block holds whole. Raises
        UsageError.
        """
        found: set[int] = set()
        for number in range(len(self.steps)):
            for axes in axes_after(self.steps[: number + 1], self.source.ndim):
                found |= set(axes.dropped(self.source.ndim))
        return tuple(sorted(found))

    @property
    def refs(self) -> list[FunctionRef]:
        """Every function of the pipeline."""
        found = [step.ref for step in self.steps]
        if isinstance(self.end, Reduce):
            found.append(self.end.ref)
        return found

    @told_in_python
    def map(
        self,
        function: Any,
        params: Mapping[str, Any] | None = None,
        *,
        dtype: str | None = None,
        scale: Sequence[int] | None = None,
        halo: int | Sequence[int] = 0,
        temporaries: float = 2.0,
        drop_axis: Axis | Sequence[Axis] = (),
        new_axis: NewAxis = (),
        outputs: NamedOutputs | None = None,
        **more: Any,
    ) -> Pipeline:
        """Apply a function to every block: a built-in by its name, such as "smooth", or a function
        of your own, itself or as "module:function" or "file.py:function".

        `function(block, **params)` returns an array, or several as a dict or tuple. `more` are
        further parameters of it, as sigma=1; one that has the name of an option goes into `params`.
        It also gets `slab=` (the Hyperslab of its block) if it has such a parameter, and every
        further input by name. `dtype` says what it returns if that is not what it gets; `scale`
        that it merges so many voxels per axis into one; `halo` how many voxels around its block it
        needs, for all axes of the source or one number for each. The halo is cut off after the last
        step; a function may do that itself unless a later one has a halo, too. With two such steps,
        the second one's voxels beyond the array's edge are what the first one made of its own.

        `drop_axis` are axes of the block that the result does not have, by number or by name, as
        "time": blocks are not cut along them. `new_axis` are positions in the result of axes that
        the block does not have, of one element, or position -> length. `outputs` names several
        arrays, which it returns as a tuple in this order or as a dict: ["slope", "t"], or {"slope":
        {"drop_axis": 3}, "fit": {"dtype": "float32"}} where they differ. What is not said a run
        learns from a sample. Raises UsageError when the function cannot be sent to a worker, for a
        halo and a scale in one pipeline, and for axes that are not there.
        """
        self._must_be_open("map")
        params = parameters(params, more)
        if is_built_in(function):
            return self._mapped_built_in(function, params, {"dtype": dtype, "halo": halo})
        function = mapped(function, params, list(self.inputs)[1:], more)
        around = _per_axis(halo, self.source.ndim, "--halo", least=0)
        merged = None
        if scale is not None:
            merged = _per_axis(scale, self.source.ndim, "scale", least=1)
        merges = merged is not None or any(n > 1 for n in self.scale)
        if merges and any((*around, *self.halo)):
            raise UsageError(
                "a pipeline cannot have both a halo and a scale: write the first result, then"
                " run the second over it"
            )
        named = dtype_name(dtype)
        named_axes = axes_of(self.source.sources, self.axes[0])
        returns = promised(named, drop_axis, new_axis, outputs, named_axes)
        step = Step(refer(function, params), named, merged, around, temporaries, returns)
        extended = self.altered(steps=(*self.steps, step))
        require_fitting(extended)
        return extended

    @told_in_python
    def write(
        self,
        dest: str | os.PathLike[str],
        format: str = "",
        keep: Keep | None = None,
        encoding: Encoding = DEFAULT_ENCODING,
        **more: Any,
    ) -> Pipeline:
        """End with files in the directory `dest`: one per block, or one `volume` per array.

        By default it writes NIfTI, blocks where the function keeps the axes of its block, and
        volumes where it changes them or returns several arrays. A `dest` that ends as a file does,
        such as 'map.nii.gz', is that one file; a .nc, .h5 or .zarr holds all arrays of a function.
        `encoding` is how files store their arrays, as `hyperslab.Encoding(compression="gzip")`;
        `more` are further fields of hyperslab.plan.pipeline.Write. Raises UsageError for a URL, to
        which `hyperslab.convert` and `hyperslab.upload` write.
        """
        self._must_be_open("write")
        require_of_write(more)
        require_encoding(encoding)
        require_writable(format, keep)
        place = local_folder(dest)
        if "name" not in more:
            if formats.is_file_name(place):
                return self.altered(end=_one_file(place, format, keep, encoding, more))
            formats.require_known_suffix(place)
        return self.altered(end=Write(place, format or "nii", keep, encoding, **more))

    def settled(self) -> Pipeline:
        """The same, that also says whether blocks or volumes are written. Raises UsageError for
        axes that cannot be.
        """
        require_fitting(self)
        if not isinstance(self.end, Write) or self.end.keep is not None:
            return self
        keep: Keep = "volume"
        is_like_source = all(axes.is_same(self.source.ndim) for axes in self.axes)
        if is_like_source and not any(promise.name for promise in self.returns):
            keep = "blocks"
        return self.altered(end=replace(self.end, keep=keep))

    @told_in_python
    def reduce(
        self,
        fold: Any,
        params: Mapping[str, Any] | None = None,
        temporaries: float = 2.0,
        **more: Any,
    ) -> Pipeline:
        """End with one result; `fold` is a Fold, a reference to one, or the name of a built-in one
        such as "stats". `more` are further parameters of it. Raises UsageError when it is not.
        """
        self._must_be_open("reduce")
        params = parameters(params, more)
        if is_built_in(fold):
            return self._reduced_by_built_in(fold, params)
        ref = folded(fold, params, list(self.inputs)[1:])
        if not isinstance(ref.load(), Fold):
            raise UsageError(
                f"{ref.target} is not a Fold: build one with hyperslab.Fold(lift, merge)"
            )
        return self.altered(end=Reduce(ref, temporaries))

    def compute(self, **settings: Unpack[Settings]) -> Any:
        """Run it and return the result in memory: the value of a reduction, otherwise the array
        that the steps make, and a list of arrays where there are several sources. What functions
        have printed is shown at the end.

        `settings` are those of `hyperslab.run`, whose errors it raises.
        """
        return import_module(COMPUTING).compute(self, settings)

    def __repr__(self) -> str:
        told = [repr(self.source), *(ref.name for ref in self.refs)]
        if isinstance(self.end, Write):
            told.append(f"{self.end.dest} ({self.end.format})")
        return f"<hyperslab.Pipeline: {' -> '.join(told)}>"

    def _mapped_built_in(
        self, name: str, params: Mapping[str, Any] | None, own: Mapping[str, Any]
    ) -> Pipeline:
        built: Pipeline = with_built_in(self, name, params, own)
        if isinstance(built.end, Reduce):
            raise UsageError(f"'{name}' makes one value of all blocks: use reduce('{name}')")
        return built

    def _reduced_by_built_in(self, name: str, params: Mapping[str, Any] | None) -> Pipeline:
        built: Pipeline = with_built_in(self, name, params, {})
        if not isinstance(built.end, Reduce):
            raise UsageError(f"'{name}' makes blocks of blocks: use map('{name}')")
        return built

    def altered(self, **changes: Any) -> Pipeline:
        """The same but for these fields."""
        new = object.__new__(Pipeline)
        for name in ("inputs", "values", "boundary", "steps", "end", "resample", "region", "notes"):
            object.__setattr__(new, name, changes.get(name, getattr(self, name)))
        return new

    def _must_be_open(self, verb: str) -> None:
        if self.end is not None:
            raise UsageError(f"{verb}() after write() or reduce(): the pipeline has ended")


def _per_axis(given: int | Sequence[int], ndim: int, flag: str, least: int) -> tuple[int, ...]:
    each = tuple(given) if isinstance(given, Sequence) else (given,) * ndim
    if len(each) != ndim or not all(isinstance(n, Integral) and n >= least for n in each):
        told = str(given)
        if isinstance(given, Sequence):
            told = ",".join(map(str, given))
        raise UsageError(
            f"{flag} {told}: give one number of at least {least}, or one for each of the {ndim}"
            " axes"
        )
    return each


def _one_file(
    path: str, format: str, keep: Keep | None, encoding: Encoding, more: Mapping[str, Any]
) -> Write:
    """The end of a pipeline that writes one volume under a name of its own. Raises UsageError."""
    word = formats.word_of(path)
    if format and format != word:
        raise UsageError(
            f"--format {format}: {path} is a name of another format; leave one of them out"
        )
    if not word:
        raise UsageError(
            f"{path}: files of this kind cannot be written; give a name that ends in"
            f" {', '.join(formats.written().values())}, or a directory"
        )
    if keep == "blocks":
        raise UsageError(
            f"--keep blocks: {path} is the name of one file; name a directory for files of blocks"
        )
    folder, name = os.path.split(os.path.abspath(path))
    return Write(folder, word, "volume", encoding, name=name, **more)


def require_fitting(pipeline: Pipeline) -> None:
    """Raise UsageError for steps whose axes, halo and merged voxels do not go together."""
    dropped = pipeline.dropped
    if any(step.changes_axes for step in pipeline.steps) and any(n > 1 for n in pipeline.scale):
        raise UsageError(
            "a pipeline cannot both scale and change axes: write the first result, then run the"
            " second over it"
        )
    if any(pipeline.halo[axis] for axis in dropped):
        least = [n * (axis not in dropped) for axis, n in enumerate(pipeline.halo)]
        raise UsageError(
            f"--halo: {pipeline.steps[-1].ref.name} drops axis {dropped[0]}, which is never"
            f" cut and has no halo: say --halo {','.join(map(str, least))}"
        )
