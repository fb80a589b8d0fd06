"""Further inputs: what --with, --mask and --labels name, and errors that name them so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hyperslab.arrays.sets import SourceSet
from hyperslab.blocks.gathering import Tell, expand, gather
from hyperslab.errors import HyperslabError, RefusedInput, UsageError


@dataclass(frozen=True, slots=True)
class Typed:
    """A further input as it was typed."""

    flag: str
    "The flag with the input's name: '--with mask', or '--mask'."
    text: str
    "All that was typed: '--with mask=m.nii', or '--mask m.nii'."
    source: str


def parse_inputs(
    given: Sequence[str], mask: str | None = None, labels: str | None = None
) -> dict[str, Typed]:
    """Further inputs by their names, from 'mask=path' and the two flags that name theirs."""
    inputs: dict[str, Typed] = {}
    for text in given:
        name, equals, source = text.partition("=")
        if not equals or not source or not name.isidentifier():
            raise UsageError(
                f"--with {text}: give NAME=SOURCE, NAME being the function's parameter"
            )
        if name in inputs:
            raise UsageError(f"--with {name} is given twice")
        inputs[name] = Typed(f"--with {name}", f"--with {text}", source)
    for name, named in (("mask", mask), ("labels", labels)):
        if named is not None and name in inputs:
            raise UsageError(f"--{name} {named} is also given as --with {name}; leave one out")
        if named is not None:
            inputs[name] = Typed(f"--{name}", f"--{name} {named}", named)
    return inputs


def gather_inputs(
    typed: Mapping[str, Typed], sources: str, axis: int, stores: Mapping[str, Any], tell: Tell
) -> dict[str, SourceSet]:
    """The arrays of further inputs, put together as the source's are. Raises UsageError."""
    return {name: _gathered(one, sources, axis, stores, tell) for name, one in typed.items()}


def _gathered(
    typed: Typed, sources: str, axis: int, stores: Mapping[str, Any], tell: Tell
) -> SourceSet:
    kind = sources
    try:
        if len(expand(typed.source)) == 1:
            kind = "independent"
        # gather refuses other words itself
        return gather(typed.source, kind, axis, None, stores, tell)  # type: ignore[arg-type]
    except HyperslabError as error:
        raise UsageError(f"{typed.text}: {error}") from error


@contextmanager
def naming_flags(typed: Mapping[str, Typed]) -> Iterator[None]:
    """A block whose errors name an input by the flag that was typed."""
    try:
        yield
    except RefusedInput as error:
        raise UsageError(f"{typed[error.name].flag}{error.why}") from error
