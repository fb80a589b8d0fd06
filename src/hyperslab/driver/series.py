"""Series: the automatic partition keeps the time axis of an image whole for functions of a user's
own, which may detrend, filter or standardise along it; nothing in a function says that it does not.
"""

from __future__ import annotations

from dataclasses import replace

from hyperslab.arrays.partition import Rule
from hyperslab.arrays.source import ArraySource
from hyperslab.plan.pipeline import Pipeline

TIME = ("t", "time")
"Names of the axis along which the volumes of a series follow each other."


def with_whole_series(pipeline: Pipeline, rule: Rule) -> Rule:
    """The rule by which a pipeline is cut: that which is asked for, and the time axis whole where
    the choice is ours.
    """
    if rule.kind != "auto" or all(step.ref.is_ours for step in pipeline.steps):
        return rule
    source = pipeline.source.sources[0]
    axes = [
        axis
        for axis, name in enumerate(source.dims)
        if name in TIME and not pipeline.halo[axis] and _is_series(source)
    ]
    return replace(rule, axes_whole=tuple(dict.fromkeys((*rule.axes_whole, *axes))))


def _is_series(source: ArraySource) -> bool:
    """Whether an array is a series of volumes that have a place in space."""
    header = source.header
    return source.ndim > 3 and (header.native is not None or header.space_affine is not None)
