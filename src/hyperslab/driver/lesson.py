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

    @property
    def untried(self) -> str:
        """Sentence that a function could not be tried, and why; '' where all could."""
        failed = next(iter(self._failed), None)
        if failed is None:
            return ""
        return (
            f"{failed.ref.name} could not be tried on made-up numbers ({failed.trial.error}): it is"
            " taken to keep the shape and the dtype of its block, whatever its blocks are"
        )

    @property
    def failing(self) -> str:
        """Name of the function that failed in every trial; '' where none did."""
        return next((step.ref.name for step in self._failed), "")

    @property
    def slow(self) -> list[str]:
        """A sentence for every function of which nothing was learned as its trial took too long."""
        return [
            f"{step.ref.name} is too slow to be tried on made-up numbers ({step.trial.error}), so"
            " that it is not known what it returns: it is taken to keep the shape and the dtype of"
            " its block; where it does not, say so (--drop-axis, --new-axis, --dtype, --outputs)"
            for step in self.pipeline.steps
            if step.trial.is_late
        ]

    @property
    def _failed(self) -> list[Step]:
        steps = self.pipeline.steps
        return [step for step in steps if step.trial.error and not step.trial.is_late]


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
