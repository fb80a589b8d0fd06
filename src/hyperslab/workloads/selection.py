"""Selection: folds over the values within a mask, or of each label of a label image.

A mask is inside where it is neither 0 nor NaN, or where it is above a number, `mask_above`; labels
are whole numbers, of which 0 (and NaN) is background. Both are inputs of the pipeline, named `mask`
and `labels`; a fold over labels also heeds a mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.partition import Layout, Rule, cut
from hyperslab.blocks.glimpse import glimpse
from hyperslab.errors import BlockError, UsageError
from hyperslab.plan.asked import SELECTING
from hyperslab.plan.becoming import input_dtype
from hyperslab.plan.pipeline import Fold, Pipeline
from hyperslab.workloads import kernels

INPUTS = SELECTING
"Names of the inputs that select."
ABOVE = "mask_above"
PARAMS: Mapping[str, str] = {ABOVE: "number above which the mask is inside; else where it is not 0"}
"The parameter of these folds."
TEMPORARIES = 3.0
"Memory of these folds, in multiples of their block."
NOTHING_INSIDE = "nothing was measured: a mask is 0 wherever the source has voxels"
NOTHING_LABELLED = "nothing was measured: labels are 0 wherever the source has voxels"
"Warnings of results that hold nothing."
_PIECE_ELEMENTS = 2**18
"Elements that are selected from at a time."


def kind_of(pipeline: Pipeline) -> str:
    """What a pipeline selects by: 'labels', 'mask' or ''. Raises UsageError for inputs that cannot
    select.
    """
    given = [name for name in INPUTS if name in pipeline.inputs]
    for name in given:
        dtype = input_dtype(pipeline, name, None)
        if dtype.kind not in "biuf":
            raise UsageError(f"the input '{name}' holds {dtype}, no numbers that could select")
        if pipeline.resample.get(name) == "linear":
            raise UsageError(f"--resample {name}=linear: masks and labels are not interpolated")
    return given[-1] if given else ""


def params_of(pipeline: Pipeline, mask_above: float | None) -> dict[str, Any]:
    """The parameters of a fold that selects. Raises UsageError for a number that none can be above,
    and for one without a mask.
    """
    if mask_above is None:
        return {}
    if "mask" not in pipeline.inputs:
        raise UsageError(f"--param {ABOVE}={mask_above}: there is no --mask that it could be of")
    if not math.isfinite(mask_above):
        raise UsageError(f"--param {ABOVE}={mask_above}: give a finite number")
    return {ABOVE: mask_above}


def notes_of(pipeline: Pipeline, mask_above: float | None) -> tuple[str, ...]:
    """What is taken for granted of a mask that holds fractions, as far as a glimpse tells."""
    if "mask" not in pipeline.inputs or mask_above is not None:
        return ()
    for source in pipeline.inputs["mask"].sources:
        if source.dtype(pipeline.values).kind != "f":
            continue
        fraction = _fraction_of(glimpse(source, pipeline.values))
        if fraction is not None:
            note = (
                f"{source.label} holds fractions, such as {fraction:.3g}: as a mask it is inside"
                f" wherever it is not 0; --param {ABOVE}=0.5 has it inside above 0.5"
            )
            return (note,)
    return ()


def _fraction_of(blocks: Sequence[Array]) -> float | None:
    """A value that is no whole number; None where there is none."""
    for block in blocks:
        odd = block[(block != np.rint(block)) & np.isfinite(block)]
        if odd.size:
            return float(odd.flat[odd.size // 2])
    return None


def within_mask(fold: Fold) -> Fold:
    """The same fold over the values within the input `mask`."""
    prior = None
    if fold.prior is not None:
        prior = within_mask(fold.prior)
    lift = partial(_lift_within, fold)
    return Fold(lift, fold.merge, fold.finish, prior=prior, save=fold.save, takes=PARAMS)


def of_labels(
    fold: Fold,
    result: Callable[[Mapping[int, Any]], Any],
    save: Callable[[Any, Path], Sequence[Path]],
) -> Fold:
    """A fold for each label of the input `labels`; `result` makes one of label -> its result. What
    comes before it is found over all labels together.
    """
    prior = None
    if fold.prior is not None:
        prior = _within_labels(fold.prior)
    return Fold(
        partial(_lift_labels, fold),
        partial(_merge_labels, fold),
        partial(_finish_labels, fold, result),
        prior=prior,
        save=save,
        takes=PARAMS,
    )


def _within_labels(fold: Fold) -> Fold:
    return Fold(partial(_lift_within, fold), fold.merge, fold.finish, takes=PARAMS)


def _lift_within(
    fold: Fold,
    block: Array,
    mask: Array | None = None,
    labels: Array | None = None,
    mask_above: float | None = None,
    **more: Any,
) -> Any:
    """Lift of the values that are inside."""
    found = fold.lift(np.empty(0, block.dtype), **more)
    for values, _ in _selected(block, mask, labels, mask_above):
        found = fold.merge(found, fold.lift(values, **more))
    return found


def _lift_labels(
    fold: Fold,
    block: Array,
    labels: Array,
    mask: Array | None = None,
    mask_above: float | None = None,
    **more: Any,
) -> dict[int, Any]:
    """Lift of each label's values."""
    found: dict[int, Any] = {}
    for values, kept in _selected(block, mask, labels, mask_above):
        for label, own in _grouped(values, _whole_numbers(kept)):
            lifted = {label: fold.lift(own, **more)}
            found = _merge_labels(fold, found, lifted)
    return found


def _merge_labels(fold: Fold, a: dict[int, Any], b: dict[int, Any]) -> dict[int, Any]:
    for label, value in b.items():
        if label in a:
            a[label] = fold.merge(a[label], value)
        else:
            a[label] = value
    return a


def _finish_labels(
    fold: Fold, result: Callable[[Mapping[int, Any]], Any], found: Mapping[int, Any]
) -> Any:
    finish = fold.finish or _itself
    return result({label: finish(found[label]) for label in sorted(found)})


def _itself(value: Any) -> Any:
    return value


def _selected(
    block: Array, mask: Array | None, labels: Array | None, mask_above: float | None
) -> Iterator[tuple[Array, Array]]:
    """(values, their labels) of the voxels inside, as 1-D arrays, some at a time in the order of
    the block's memory; without labels, values twice.
    """
    order = kernels.storage_order(block)
    stored = block.transpose(order)
    layout = Layout(stored.shape, tuple(range(stored.ndim)), 1, None)
    for box in cut(layout, Rule("bytes", (_PIECE_ELEMENTS,)), 0):
        piece = box.slices()
        chosen = np.ones(box.count, np.bool_)
        for selecting, above in ((mask, mask_above), (labels, None)):
            if selecting is not None:
                chosen &= inside(selecting.transpose(order)[piece], above)
        values = stored[piece][chosen]
        kept = values
        if labels is not None:
            kept = labels.transpose(order)[piece][chosen]
        if values.size:
            yield values, kept


def inside(mask: Array, above: float | None = None) -> Array:
    """Where a mask is above a number; without one, where it is neither 0 nor NaN."""
    if above is not None:
        return np.asarray(mask > above)
    chosen: Array = mask != 0
    if mask.dtype.kind == "f":
        chosen &= ~np.isnan(mask)
    return chosen


def _whole_numbers(labels: Array) -> Array:
    """Labels as integers. Raises BlockError for others."""
    if labels.dtype.kind != "f":
        return labels
    odd = (labels != np.rint(labels)) | (np.abs(labels) >= 2**63)
    if odd.any():
        raise BlockError(
            f"the label {labels[odd][0]} is no whole number: give an image of labels, or a mask"
        )
    return labels.astype(np.int64)


def _grouped(values: Array, labels: Array) -> Iterator[tuple[int, Array]]:
    """Each label with its values."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    firsts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    for own, first in zip(np.split(values[order], firsts[1:]), firsts, strict=True):
        yield int(ordered[first]), own
