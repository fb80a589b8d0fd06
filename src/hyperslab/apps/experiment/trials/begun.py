"""Begun: an experiment with the spec that it began with, where that is another one by now.

What trials say is judged by the levels, the tiers and the margin that they were asked for. So an
experiment that was run with an earlier spec is judged by that one, and whoever reads of it is told
what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.design.spec import Spec
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError

BESIDE = ("scale", "files")
"What an identity has beside the fields of a spec."


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """An experiment as it began."""

    experiment: Experiment
    differences: Sequence[str]
    "What its spec says differently by now, field by field."
    trials: int
    "Number of trials of its spec by now."


def as_begun(experiment: Experiment) -> Begun:
    """An experiment with the spec that it began with. Raises DamagedRecord, and UsageError for a
    spec that this version cannot read.
    """
    differences = experiment.directory.differences(experiment.loaded)
    trials = len(experiment.trials)
    told = experiment.directory.left_out()
    if not differences:
        if told is None or told == experiment.loaded.left_out:
            return Begun(experiment, (), trials)
        loaded = replace(experiment.loaded, left_out=told)
        return Begun(Experiment.of(loaded, experiment.directory.root), (), trials)
    asked = experiment.directory.identity()
    fields = {name: told for name, told in asked.items() if name not in BESIDE}
    try:
        spec = Spec.model_validate(fields)
    except ValidationError as error:
        raise UsageError(
            f"{experiment.directory.root} began with a spec that this hyperslab cannot read"
            f" ({error.error_count()} mistakes): report on it with the hyperslab that has run it"
        ) from error
    left_out = _known_then(experiment.loaded.left_out, spec) if told is None else told
    loaded = replace(
        experiment.loaded,
        spec=spec,
        digests=dict(asked["files"]),
        left_out=left_out,
        own_replicates=None,
    )
    return Begun(Experiment.of(loaded, experiment.directory.root), differences, trials)


def _known_then(
    left_out: Mapping[str, Sequence[Level]], spec: Spec
) -> Mapping[str, Sequence[Level]]:
    """What is left out by now, as far as an earlier spec can have had it: of its factors, and none
    that it varied as a whole, nor a level that it had.
    """
    found = {}
    for name, levels in left_out.items():
        own = [level for _, factor, some in spec.varied if factor == name for level in some]
        missing = [level for level in levels if level not in (*own, spec.baseline.get(name))]
        if name in spec.baseline and (missing or (not levels and not own)):
            found[name] = missing
    return found
