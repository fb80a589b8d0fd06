"""Pipeline: what to do with some arrays, never where: read -> map ... -> write, or read -> map ...
-> reduce.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hyperslab.arrays.encoding import DEFAULT_ENCODING, Encoding, require_encoding
from hyperslab.arrays.partition import Rule
from hyperslab.arrays.sets import SourceSet
from hyperslab.arrays.source import Values
from hyperslab.blocks.gathering import Named, gather
from hyperslab.errors import UsageError
from hyperslab.plan.function import FunctionRef, refer
from hyperslab.storage.location import local_folder

Boundary = Literal["reflect", "nearest", "constant"]
"""What a halo holds beyond the array's edge, in scipy.ndimage's terms: (d c b a | a b c d), (a a a
| a b c d), zeros.
"""
Keep = Literal["blocks", "volume"]

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
    """A fold over the same blocks that is finished first, such as the minimum and maximum before a
    histogram.
    """
    save: Callable[[Any, Path], Sequence[Path]] | None = None
    "(result, folder) -> files written; without it the result is saved as a pickle."


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One function applied to every block."""

    ref: FunctionRef
    dtype: str | None = None
    "dtype of the blocks it returns; None: that of the blocks it gets."
    scale: tuple[int, ...] | None = None
    "Voxels that become one, per axis; None: the shape stays."
    halo: tuple[int, ...] = ()
    "Voxels it needs around its block, per axis; empty: none."
    temporaries: float = 2.0
    "Memory it takes beside its input and output, in multiples of its block: an upper bound."

    def shape(self, given: Sequence[int]) -> tuple[int, ...]:
        """Shape of what it returns for a block of the given shape."""
        if self.scale is None:
            return tuple(given)
        return tuple(math.ceil(n / s) for n, s in zip(given, self.scale, strict=True))


@dataclass(frozen=True, slots=True)
class Write:
    """End of a pipeline: every block becomes a file, or all become one volume."""

    dest: str
    "Output directory."
    format: str = "nii"
    "nii, nii.gz, h5, nc or zarr."
    keep: Keep = "blocks"
    encoding: Encoding = DEFAULT_ENCODING
    "How the files store their arrays."
    grid: Rule | None = None
    "Rule by which keep='volume' cuts every array into files; None: one file each."
    name: str = ""
    "Name of the file of keep='volume' and one array; '': after the source."
    overwrite: bool = False
    "Whether a finished file may take the place of one that is there."
    encodings: tuple[Encoding, ...] = ()
    """Encodings of the arrays of keep='volume', where they are not the same for all; (): as
    `encoding` says.
    """


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
    end: Write | Reduce | None = None

    def __init__(
        self,
        source: Named | Sequence[Named] | SourceSet,
        *,
        values: Values = "real",
        boundary: Boundary = "reflect",
        storage_options: Mapping[str, Any] | None = None,
        **others: Named | Sequence[Named] | SourceSet,
    ) -> None:
        """`others` are further inputs of the same shape, such as `mask="mask.nii"`, passed to
        functions by name.

        `storage_options` are what fsspec is given with URLs.
        """
        given = {PRIMARY: source, **others}
        object.__setattr__(self, "inputs", _gathered(given, storage_options))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "boundary", boundary)
        object.__setattr__(self, "steps", ())
        object.__setattr__(self, "end", None)

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
    def refs(self) -> list[FunctionRef]:
        """Every function of the pipeline."""
        found = [step.ref for step in self.steps]
        if isinstance(self.end, Reduce):
            found.append(self.end.ref)
        return found

    def map(
        self,
        function: Any,
        params: Mapping[str, Any] | None = None,
        *,
        dtype: str | None = None,
        scale: Sequence[int] | None = None,
        halo: int | Sequence[int] = 0,
        temporaries: float = 2.0,
    ) -> Pipeline:
        """Apply a function to every block: `function(block, **params)` returns a block of the same
        shape.

        It also gets `slab=` (the Hyperslab of its block) if it has such a parameter, and every
        further input by name. `dtype` says what it returns if that is not what it gets; `scale`
        that it merges so many voxels per axis into one; `halo` how many voxels around its block it
        needs. The halo is cut off after the last step; a function may do that itself unless a later
        one has a halo, too. With two such steps, the second one's voxels beyond the array's edge
        are what the first one made of its own. Raises UsageError when the function cannot be sent
        to a worker, and for a halo and a scale in one pipeline.
        """
        self._must_be_open("map")
        around = _per_axis(halo, self.source.ndim, "--halo", least=0)
        merged = None
        if scale is not None:
            merged = _per_axis(scale, self.source.ndim, "scale", least=1)
        merges = merged is not None or any(n > 1 for n in self.scale)
        if merges and any((*around, *self.halo)):
            raise UsageError(
                "a halo and a scale in one pipeline: write the first result, then run the second"
                " over it"
            )
        step = Step(refer(function, params), _dtype_name(dtype), merged, around, temporaries)
        return self._with(steps=(*self.steps, step))

    def write(
        self,
        dest: str | os.PathLike[str],
        format: str = "nii",
        keep: Keep = "blocks",
        encoding: Encoding = DEFAULT_ENCODING,
        **more: Any,
    ) -> Pipeline:
        """End with files in the directory `dest`: one per block, or one `volume` per array.

        `encoding` says how they store their arrays, such as `hyperslab.Encoding(chunks=(64, 64,
        64), compression="gzip")`; `more` are further fields of hyperslab.plan.pipeline.Write.
        Raises UsageError for a URL of a store: `hyperslab.convert` and `hyperslab.upload` write
        there.
        """
        self._must_be_open("write")
        require_encoding(encoding)
        return self._with(end=Write(local_folder(dest), format, keep, encoding, **more))

    def reduce(
        self, fold: Any, params: Mapping[str, Any] | None = None, temporaries: float = 2.0
    ) -> Pipeline:
        """End with one result; `fold` is a Fold or a reference to one. Raises UsageError when it is
        not.
        """
        self._must_be_open("reduce")
        ref = refer(fold, params)
        if not isinstance(ref.load(), Fold):
            raise UsageError(
                f"{ref.target} is not a Fold: build one with hyperslab.Fold(lift, merge)"
            )
        return self._with(end=Reduce(ref, temporaries))

    def _with(self, **changes: Any) -> Pipeline:
        new = object.__new__(Pipeline)
        for name in ("inputs", "values", "boundary", "steps", "end"):
            object.__setattr__(new, name, changes.get(name, getattr(self, name)))
        return new

    def _must_be_open(self, verb: str) -> None:
        if self.end is not None:
            raise UsageError(f"{verb}() after write() or reduce(): the pipeline has ended")


def _gathered(
    given: Mapping[str, Named | Sequence[Named] | SourceSet],
    storage_options: Mapping[str, Any] | None,
) -> dict[str, SourceSet]:
    return {name: gather(value, storage_options=storage_options) for name, value in given.items()}


def _per_axis(given: int | Sequence[int], ndim: int, flag: str, least: int) -> tuple[int, ...]:
    each = (given,) * ndim if isinstance(given, int) else tuple(given)
    if len(each) != ndim or any(n < least for n in each):
        raise UsageError(
            f"{flag} {given}: give one number of at least {least}, or one for each of the {ndim}"
            " axes"
        )
    return each


def _dtype_name(dtype: str | None) -> str | None:
    if dtype is None:
        return None
    try:
        return np.dtype(dtype).name
    except TypeError:
        raise UsageError(
            f"--dtype {dtype}: not a NumPy dtype such as uint8, int16 or float32"
        ) from None
