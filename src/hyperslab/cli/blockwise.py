"""What `hyperslab run FUNCTION SOURCE...` makes: a pipeline of a function over blocks."""

from __future__ import annotations

import functools
from typing import Any

from hyperslab.arrays.encoding import Encoding
from hyperslab.blocks.gathering import gather
from hyperslab.cli.commands import Given
from hyperslab.cli.destination import with_end
from hyperslab.cli.function import Shape, add_function
from hyperslab.cli.inputs import gather_inputs, naming_flags, parse_inputs
from hyperslab.cli.parse import parse_resample, parse_shape, parse_storage_options
from hyperslab.cli.telling import mention
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline


def of_function(given: Given) -> Pipeline:
    """The pipeline of a function over blocks, from the arguments of `run`. Raises UsageError."""
    if not given["source"]:
        raise UsageError("SOURCE is missing: hyperslab run FUNCTION SOURCE... -o OUT")
    given.refuse(("match",), "is for --command")
    sources, axis = given["sources"], given["axis"]
    if axis is not None and sources != "concatenated":
        raise UsageError(f"--axis {axis} is for --sources concatenated, not {sources}")
    stores = parse_storage_options(given["storage_option"])
    typed = parse_inputs(given["other"], given["mask"], given["labels"])
    tell = functools.partial(mention, quiet=given["quiet"])
    inputs: dict[str, Any] = gather_inputs(typed, sources, axis or 0, stores, tell)
    pipeline = Pipeline(
        gather(given["source"], sources, axis or 0, None, stores, tell),
        values=given["values"],
        boundary=given["boundary"],
        resample=parse_resample(given["resample"], inputs),  # type: ignore[arg-type]
        region=given["region"],
        **inputs,
    )
    shape = Shape.parsed(given["drop_axis"], given["new_axis"], given["outputs"])
    around = parse_shape("--halo", given["halo"]) or None
    with naming_flags(typed):
        pipeline = add_function(
            pipeline, given["function"], given["param"], around, given["dtype"], shape
        )
    encoding = Encoding(parse_shape("--chunks", given["chunks"]), given["compression"])
    return with_end(pipeline, given["out"], given["format"], given["keep"], encoding)
