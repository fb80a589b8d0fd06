"""Description: what a plan will do, in words for people, and as the checksums by which runs know
each other.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hyperslab.arrays.partition import Partition, Rule
from hyperslab.arrays.sets import SourceSet
from hyperslab.plan.command import Execute
from hyperslab.plan.function import digest_of
from hyperslab.plan.pipeline import Pipeline, Reduce, Step, Write
from hyperslab.plan.promise import Promise
from hyperslab.redaction import is_private
from hyperslab.units import show_count


def summarise(pipeline: Pipeline, rule: Rule, partitions: Sequence[Partition]) -> dict[str, Any]:
    """What was asked for, as plain values by name."""
    sources = {
        name or "source": _describe_sources(inputs) for name, inputs in pipeline.inputs.items()
    }
    more: dict[str, Any] = {}
    if pipeline.resample:
        more["resample"] = dict(pipeline.resample)
    if pipeline.region is not None:
        more["region"] = pipeline.region.text
    return {
        "sources": sources,
        **more,
        "values": pipeline.values,
        "boundary": pipeline.boundary,
        "steps": [_describe_step(step) for step in pipeline.steps],
        "end": _describe_end(pipeline.end),
        "partition": {
            "rule": str(rule),
            "blocks": sum(map(len, partitions)),
            "largest": _largest(partitions),
        },
    }


def _describe_step(step: Step) -> dict[str, Any]:
    more: dict[str, Any] = {"dtype": step.dtype, "scale": step.scale, "halo": step.halo}
    # so that records of runs of functions which keep the axes of their blocks are still the same
    if step.returns != (Promise(dtype=step.dtype),):
        more["returns"] = [str(promise) for promise in step.returns]
    return _describe_function(step.ref) | more


def _describe_end(end: Write | Reduce | Execute | None) -> dict[str, Any]:
    if end is None or isinstance(end, Execute):
        return {}
    if isinstance(end, Reduce):
        return _describe_function(end.ref)
    return _describe_write(end)


def _describe_write(end: Write) -> dict[str, Any]:
    """What differs from the defaults, so that records of older runs are still the same."""
    encoding = {name: value for name, value in asdict(end.encoding).items() if value}
    described: dict[str, Any] = {"format": end.format, "keep": end.keep}
    if encoding:
        described["encoding"] = encoding
    if end.grid:
        described["grid"] = str(end.grid)
    if end.name:
        described["name"] = end.name
    return described


def _describe_sources(inputs: SourceSet) -> dict[str, Any]:
    first = inputs.sources[0]
    return {
        "kind": inputs.kind,
        "files": len({str(source.url) for source in inputs.sources}),
        "first": str(first.url),
        "shape": inputs.wholes[0].shape,
    }


def _shown(name: str, value: Any) -> str:
    """A parameter as records show it; those whose name says that they are secret are left out."""
    if is_private(name):
        return "(not shown)"
    return str(value)[:200]


def _describe_function(ref: Any) -> dict[str, Any]:
    return {
        "function": ref.target,
        "params": {name: _shown(name, value) for name, value in ref.params.items()},
    }


def _largest(partitions: Sequence[Partition]) -> tuple[int, ...]:
    return max((p.largest for p in partitions), key=math.prod)


def fingerprint(pipeline: Pipeline, summary: Mapping[str, Any]) -> str:
    """SHA-256 over everything that decides the results, but the sources and the code."""
    steps = [
        {**described, "function": step.ref.known_as}
        for described, step in zip(summary["steps"], pipeline.steps, strict=True)
    ]
    end = summary["end"]
    if isinstance(pipeline.end, Reduce):
        end = {**end, "function": pipeline.end.ref.known_as}
    return earlier_fingerprint(pipeline, {**summary, "steps": steps, "end": end})


def earlier_fingerprint(pipeline: Pipeline, summary: Mapping[str, Any]) -> str:
    """The same as an earlier version of the package said it: over the paths of functions, too."""
    asked = {key: value for key, value in summary.items() if key not in ("sources", "partition")}
    parts = {
        "inputs": [(name, inputs.kind, inputs.ndim) for name, inputs in pipeline.inputs.items()],
        "params": [digest_of(dict(ref.params)) for ref in pipeline.refs],
        "rule": summary["partition"]["rule"],
        "summary": asked,
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def code_digest(pipeline: Pipeline) -> str:
    """SHA-256 over the code of all functions."""
    return _over([(ref.known_as, ref.digest) for ref in pipeline.refs])


def earlier_code_digest(pipeline: Pipeline) -> str:
    """The same as an earlier version of the package said it."""
    return _over([(ref.target, ref.earlier_digest or ref.digest) for ref in pipeline.refs])


def _over(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def to_html(
    title: str,
    summary: Mapping[str, Any],
    partitions: Sequence[Partition],
    inputs: Mapping[str, SourceSet],
    numbers: Mapping[str, str],
) -> str:
    """A plan for notebooks: what is done, in which blocks, and a picture of the first array's."""
    from hyperslab.markup import fragment, grid_svg

    primary = next(iter(inputs.values()))
    steps = [_call(step) for step in summary["steps"]]
    end = summary["end"]
    last = f"write {end.get('format', '')}, {end.get('keep', '')}"
    if "function" in end:
        last = _call(end)
    if "command" in summary:
        last = summary["command"] or "commands"
    partition = summary["partition"]
    largest = " x ".join(map(str, partition["largest"]))
    rows = {
        "does": " → ".join(["read", *steps, last]),
        "over": (
            f"{show_count(len(primary.wholes), 'array')} in"
            f" {show_count(len(primary.sources), 'file')}, {summary['values']} values"
        ),
        "blocks": f"{partition['blocks']:,} by {partition['rule']}, the largest {largest}",
        **numbers,
    }
    return fragment(title, rows, grid_svg(partitions[0].cuts, primary.sources[0].dims))


def _call(function: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in function["params"].items())
    return f"{function['function'].rpartition(':')[2]}({given})"
