"""Odd results: NaN and infinite values that functions have made of others, in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hyperslab.plan.pipeline import Pipeline
from hyperslab.plan.task import Outcome


def odd_sentence(
    outcomes: Iterable[Outcome], pipeline: Pipeline, label: Callable[[int], str]
) -> str:
    """About how many values are NaN or infinite that the functions of a pipeline have made, and of
    which block first; '' where none are. `label` says where the block of a task lies.
    """
    made = {each.task: each.odd for each in outcomes if each.odd and each.status != "failed"}
    if not made:
        return ""
    names = " and ".join(step.ref.name for step in pipeline.steps)
    total = float(f"{sum(made.values()):.2g}")
    return (
        f"{names} returned NaN or infinite values, about {total:,.0f} of them, where a look at the"
        f" values before found none; first seen in {label(min(made))}"
    )
