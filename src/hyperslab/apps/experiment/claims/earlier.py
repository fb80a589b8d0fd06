"""Earlier: what a page of verdicts says of trials that were run with earlier specs, or by earlier
versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from hyperslab import __version__
from hyperslab.apps.experiment.trials.begun import Begun
from hyperslab.units import show_count, show_list

PACKAGE = "hyperslab "
"What versions of this package begin with, in lists of versions."


def earlier_specs(begun: Sequence[Begun]) -> Iterator[str]:
    """Name the experiments that began with another spec than there is now, in a paragraph."""
    changed = [one for one in begun if one.differences]
    if changed:
        told = " ".join(map(_changed, changed))
        yield (
            "**Some trials are of earlier specs.** Verdicts are of the specs with which their"
            f" experiments began, so that the command above makes another page elsewhere. {told}"
        )


def _changed(one: Begun) -> str:
    name = one.experiment.loaded.name
    here = len(one.experiment.trials)
    what = "; ".join(one.differences)
    if here == one.trials:
        return f"`{name}` has changed: {what}."
    return f"`{name}` has {show_count(one.trials, 'trial')} ({here} here): {what}."


def earlier_versions(packages: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Name the experiments that other versions of hyperslab have run than the one that judges
    them, in a paragraph, by what each of them used.
    """
    now = f"{PACKAGE}{__version__}"
    others = {
        name: [one for one in used if one.startswith(PACKAGE) and one != now]
        for name, used in packages.items()
    }
    told = [f"`{name}` by {show_list(own)}" for name, own in others.items() if own]
    if told:
        yield (
            f"**Some trials are of earlier versions.** They are judged by {now}, and were run:"
            f" {'; '.join(told)}."
        )
