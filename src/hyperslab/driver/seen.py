"""Seen: values of a pipeline's inputs that are quick to read, for the trial of its functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.glimpse import glimpse, glimpse_box
from hyperslab.driver.sample import Region, largest_extents
from hyperslab.plan.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Seen:
    """Some values of each input, where they are quick to read; whatever was not seen is not
    there.
    """

    ordered: Mapping[str, Array]
    "Finite values in their order."
    regions: Mapping[str, Region]
    "Neighbours, with the place where they lie."


def seen_of(pipeline: Pipeline) -> Seen:
    """What is quick to read of the first array of each input."""
    ordered = {}
    regions = {}
    for name, inputs in pipeline.inputs.items():
        source = inputs.sources[0]
        parts = glimpse(source, pipeline.values)
        values = np.concatenate(
            [np.empty(0, source.dtype(pipeline.values)), *(part.ravel() for part in parts)]
        )
        values = values[np.isfinite(values)]
        if values.dtype.kind in "iuf" and values.size:
            ordered[name] = np.sort(values)
        region = _region_of(source, parts, pipeline)
        if region is not None:
            regions[name] = region
    return Seen(ordered, regions)


def _region_of(source: ArraySource, parts: Sequence[Array], pipeline: Pipeline) -> Region | None:
    """Neighbours in an array of which these parts were seen; None where none are quick to read."""
    if not parts:
        return None
    if len(parts) == 1:  # all of it, or the front of a stream
        return Hyperslab.full(parts[0].shape), parts[0]
    halo = pipeline.halo if source.ndim == pipeline.source.ndim else (0,) * source.ndim
    most = [n + 2 * h for n, h in zip(largest_extents(source.ndim), halo, strict=True)]
    return glimpse_box(source, most, pipeline.values)
