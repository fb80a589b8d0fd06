"""FUNCTION and what goes with it on the command line: a built-in, or a user's function, at the end
of a pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hyperslab import workloads
from hyperslab.arrays.axes import Axis
from hyperslab.cli.parse import parse_axes, parse_named_axes, parse_names
from hyperslab.errors import UsageError
from hyperslab.plan.function import refer
from hyperslab.plan.pipeline import Fold, Pipeline


@dataclass(frozen=True, slots=True)
class Shape:
    """What the command line says of the arrays that a function returns, beside their dtype."""

    drop_axis: tuple[Axis, ...] = ()
    new_axis: Mapping[int, int] = field(default_factory=dict)
    outputs: tuple[str, ...] | None = None

    @classmethod
    def parsed(cls, drop_axis: str | None, new_axis: str | None, outputs: str | None) -> Shape:
        """The same from what flags were given. Raises UsageError."""
        return cls(
            parse_named_axes("--drop-axis", drop_axis),
            parse_axes("--new-axis", new_axis),
            parse_names(outputs),
        )

    def given(self) -> dict[str, object]:
        """What was given, by flag; None for what was not."""
        return {
            "--drop-axis": self.drop_axis or None,
            "--new-axis": self.new_axis or None,
            "--outputs": self.outputs,
        }


def add_function(
    pipeline: Pipeline,
    name: str,
    param: Sequence[str],
    halo: tuple[int, ...] | None,
    dtype: str | None,
    shape: Shape = Shape(),  # frozen
) -> Pipeline:
    """The pipeline with the built-in, the mapped function or the fold that `name` stands for.

    Raises UsageError for a name that stands for nothing, and for parameters and inputs that the
    function does not take.
    """
    params = workloads.parse_params(param)
    own = {"--halo": halo, "--dtype": dtype, **shape.given()}
    if name in workloads.BUILTINS or ":" not in name:
        if name in workloads.BUILTINS:
            _refuse(own, f"the built-in '{name}' sets it itself; leave it out")
        return workloads.build(name, pipeline, params)
    ref = refer(name, params)
    if isinstance(ref.load(), Fold):
        _refuse(own, f"'{ref.name}' is a fold, which returns no blocks")
        return pipeline.reduce(ref)
    return pipeline.map(
        ref,
        dtype=dtype,
        halo=_around(halo),
        drop_axis=shape.drop_axis,
        new_axis=shape.new_axis,
        outputs=shape.outputs,
    )


def _around(halo: tuple[int, ...] | None) -> int | tuple[int, ...]:
    """The halo as `Pipeline.map` takes it: one number for all axes, or one for each."""
    if halo is None:
        return 0
    if len(halo) == 1:
        return halo[0]
    return halo


def _refuse(flags: Mapping[str, object], why: str) -> None:
    for flag, given in flags.items():
        if given is not None:
            raise UsageError(f"{flag}: {why}")
