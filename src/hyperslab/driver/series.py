"""Series: the automatic partition keeps the time axis of an image whole for functions of a user's
own, which may detrend, filter or standardise along it; nothing in a function says that it does not.
"""

from __future__ import annotations

from dataclasses import replace

from hyperslab.arrays.axes import is_time, numbered
from hyperslab.arrays.naming import axes_of
from hyperslab.arrays.partition import Rule
from hyperslab.plan.pipeline import Pipeline


def with_whole_series(pipeline: Pipeline, rule: Rule) -> Rule:
    """The rule by which a pipeline is cut: that which is asked for, and the time axis whole where
    the choice is ours. Raises UsageError.
    """
    rule = numbered_rule(pipeline, rule)
    if rule.kind != "auto" or all(step.ref.is_ours for step in pipeline.steps):
        return rule
    source = pipeline.source.sources[0]
    if source.ndim < 4 or not source.is_image:
        return rule
    files = axes_of(pipeline.source.sources)
    axes = [
        axis
        for axis in range(source.ndim)
        if any(is_time(one.dims, axis) for one in files) and not pipeline.halo[axis]
    ]
    return replace(rule, axes_whole=tuple(dict.fromkeys((*rule.axes_whole, *axes))))


def numbered_rule(pipeline: Pipeline, rule: Rule) -> Rule:
    """The rule with the numbers of axes that it has the names of. Raises UsageError for names that
    the axes of the source do not have, or not all of its files in one place.
    """
    if not rule.names_whole:
        return rule
    found = numbered("--axes-whole", rule.names_whole, axes_of(pipeline.source.sources))
    return replace(rule, axes_whole=(*rule.axes_whole, *found), names_whole=())
