"""Unlike: what steps return for samples that is unlike their blocks, and how it is declared.

Held by tests/driver/test_unlike.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyperslab.errors import speaks_flags
from hyperslab.plan.pipeline import Pipeline, Step

NUMBERS = "biufc"
"Kinds of dtype that functions are tried on, and may return."

Pair = tuple[int, int]
"Extents of an axis in the two samples."


@dataclass(frozen=True, slots=True)
class Unlike:
    """An array that is unlike its block, and of which nothing was learned."""

    given: tuple[Pair, ...]
    "Extents of the axes of the blocks."
    made: tuple[Pair, ...]
    "Extents of the axes of what was returned; () where their number is another one each time."
    shape: tuple[int, ...]
    "Shape of what was returned for the first block."
    dtype: str
    "dtype of that."
    is_number: bool
    "Whether it is a dtype of numbers."

    @property
    def tells_axes_apart(self) -> bool:
        """Whether every axis of the blocks has extents of its own."""
        return len(set(self.given)) == len(self.given)

    @property
    def odd_axes(self) -> list[int]:
        """Axes of other extents than those of the blocks; all, where their number differs."""
        if len(self.made) != len(self.given):
            return list(range(len(self.given)))
        pairs = zip(self.given, self.made, strict=True)
        return [axis for axis, (given, made) in enumerate(pairs) if made != given]


class Unexplained(dict[tuple[int, str], tuple[Unlike, ...]]):
    """Arrays that are unlike their blocks, of all samples so far, by step and array."""

    def add(self, found: Mapping[tuple[int, str], Unlike]) -> None:
        """Take what another sample has shown to what is known."""
        for array, unlike in found.items():
            self[array] = (*self.get(array, ()), unlike)

    def of_step(self, number: int) -> dict[str, tuple[Unlike, ...]]:
        """Arrays of one step, by their names."""
        return {name: found for (step, name), found in self.items() if step == number}


class Resized(dict[tuple[int, str], set[int]]):
    """Axes that arrays have longer or shorter than their block, by step and array."""

    def add(self, found: Mapping[tuple[int, str], set[int]]) -> None:
        """Take what other samples have shown to what is known."""
        for array, axes in found.items():
            self[array] = self.get(array, set()) | axes


def indistinct(steps: Sequence[Step]) -> str:
    """Sentence that axes of what steps return are taken for each other."""
    names = " and ".join(step.ref.name for step in steps)
    return (
        f"{names}: axes of one length cannot be told apart in what it returns: say which axes it"
        " drops and which are new (--drop-axis, --new-axis)"
    )


def halved(steps: Sequence[Step]) -> str:
    """Sentence that steps return what is unlike their block only where this has a halo."""
    names = " and ".join(step.ref.name for step in steps)
    return (
        f"{names} returned neither the whole block nor the block without its halo: return either,"
        " or leave out --halo"
    )


def unexplained(pipeline: Pipeline, number: int, unlike: Unexplained, shape: Sequence[int]) -> str:
    """Sentence that a step, by its number, has returned what is unlike its block, and how that is
    declared for an array of a shape; '' where it has not, or where that was said.
    """
    found = unlike.of_step(number)
    if not found:
        return ""
    full = None if number else shape
    return _sentence(pipeline.steps[number], found, full)


def _sentence(
    step: Step, unlike: Mapping[str, Sequence[Unlike]], full: Sequence[int] | None
) -> str:
    """The sentence, for an array of the shape `full`; None: steps before may have changed it."""
    has_dtypes = all(promise.dtype for promise in step.returns)
    for name, found in unlike.items():
        said = f"{step.ref.name} returned"
        if name:
            said += f" as '{name}'"
        if not found[-1].is_number:
            if has_dtypes:
                continue
            return (
                f"{said} an array of dtype {found[-1].dtype} for a made-up block, which holds no"
                " numbers: return an array of numbers"
            )
        if step.changes_axes:
            continue
        first = found[0]
        block = tuple(n for n, _ in first.given)
        return (
            f"{said} an array of shape {first.shape} for a made-up block of shape {block}, which"
            f" does not tell what it returns for another one:{_remedy(found, full)}"
        )
    return ""


def _remedy(found: Sequence[Unlike], full: Sequence[int] | None) -> str:
    """What to declare for an array that is unlike its block, by all samples that have shown it."""
    first = next((one for one in found if one.tells_axes_apart), found[0])
    drop = first.odd_axes
    positions = drop
    if len(first.made) != len(first.given):
        positions = list(range(len(first.shape)))
    new = {position: _length(position, found, full) for position in positions}
    where_kept = ""
    if sorted(first.made) != sorted(first.given):
        where_kept = "; or --no-trial where every block keeps its shape"
    if len(first.made) < len(first.given):
        where_kept += "; use a fold (hyperslab.Fold) where all blocks together become one value"
    return (
        f" say {declared(drop, new)} together, with the lengths that the result has, and no blocks"
        f" that are cut along the dropped axes{where_kept}"
    )


def declared(drop: Sequence[int], new: Mapping[int, str]) -> str:
    """Axes that are dropped, and new ones with their lengths, in the words of whoever called."""
    if speaks_flags():
        numbers = ",".join(map(str, drop))
        lengths = ",".join(f"{position}:{length}" for position, length in new.items())
        return f"--drop-axis {numbers}" + (f" --new-axis {lengths}" if new else "")
    axes = str(drop[0]) if len(drop) == 1 else str(list(drop))
    lengths = ", ".join(f"{position}: {length}" for position, length in new.items())
    return f"drop_axis={axes}" + (f" and new_axis={{{lengths}}}" if new else "")


def _length(position: int, found: Sequence[Unlike], full: Sequence[int] | None) -> str:
    """Length of an axis of an array, made of the whole array; LENGTH where no sample shows it."""
    for one in reversed(found):
        if position >= len(one.made):
            continue
        made = one.made[position]
        if made[0] == made[1]:
            return str(made[0])
        if full is not None and one.tells_axes_apart and made in one.given:
            return str(full[one.given.index(made)])
    return "LENGTH"
