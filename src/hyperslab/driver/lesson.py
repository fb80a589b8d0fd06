"""Lesson: what was learned of a pipeline, and whether there is anything to be learned."""

from __future__ import annotations

from dataclasses import dataclass

from hyperslab.plan.compile import Plan
from hyperslab.plan.pipeline import Pipeline, Step


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learned of a pipeline."""

    pipeline: Pipeline
    "Pipeline with what its functions return."
    dependent: tuple[int, ...] = ()
    "Axes along which what it makes depends on where blocks are cut, as far as a sample shows."


def is_open(step: Step) -> bool:
    """Whether something is left to be learned of what a step returns."""
    if step.ref.is_ours or step.scale is not None:
        return False
    has_dtypes = all(promise.dtype for promise in step.returns)
    return not (step.changes_axes and has_dtypes)


def cut_axes(plan: Plan) -> set[int]:
    """Axes along which a plan cuts any of its arrays."""
    grids = [partition.grid for partition in plan.partitions]
    return {axis for grid in grids for axis, blocks in enumerate(grid) if blocks > 1}
