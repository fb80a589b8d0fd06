"""One case: a dataset that is drawn from a seed and a number, and read in several ways."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from hyperslab.arrays import Array
from hyperslab.arrays.source import Values
from tests.comparison.datasets import kinds
from tests.comparison.ledger import Ledger, told, without
from tests.comparison.made import Dataset, NotMade
from tests.comparison.sameness import unlike


@dataclass(slots=True)
class Case:
    """A dataset, what its values have to be, and where notes go."""

    rng: Random
    "Of one way of reading alone: what another draws changes nothing."
    dataset: Dataset
    folder: Path
    "Of this case alone."
    expected: dict[Values, Array]
    "What the library reads, or what is known; without those that neither gives."
    refused: frozenset[Values]
    "What the library does not read: hyperslab may refuse it, too."
    ledger: Ledger


Way = Callable[[Case], None]


def examine(seed: int, number: int, folder: Path, kind: str = "") -> tuple[str, Ledger]:
    """The kind of file and the notes of case `number`; `folder` is empty, and this case's own."""
    from tests.comparison.ways.shares import chosen

    name, ledger = f"{seed}/{number}", Ledger()
    rng = Random(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = kinds.draw(rng, kind)(rng, folder)
        except NotMade as error:
            ledger.unmade[without(str(error), folder)[:100]] += 1
            return "not made", ledger
        except Exception as error:  # noqa: BLE001  # it is to be told with the number of the case
            ledger.findings.append(f"the generator failed: {told(error, folder)}")
            return "not made", ledger
        ledger.datasets = 1
        expected, refused = _expected(dataset, ledger, folder)
        for way in chosen(rng):
            case = Case(
                Random(f"{name}/{way.__module__}.{way.__name__}"),
                dataset,
                folder,
                expected,
                refused,
                ledger,
            )
            way(case)
    ledger.findings = [
        f"{finding} [{without(dataset.said, folder)[:500]}]" for finding in ledger.findings
    ]
    return dataset.kind, ledger


def _expected(
    dataset: Dataset, ledger: Ledger, folder: Path
) -> tuple[dict[Values, Array], frozenset[Values]]:
    """What the library reads, which has to be what was written, or that alone; and what it does not
    read.
    """
    found: dict[Values, Array] = {}
    kinds_of_values: tuple[Values, ...] = ("stored", "real")
    for values in kinds_of_values:
        try:
            block = dataset.reference(values)
            found[values] = block.astype(block.dtype.newbyteorder("="), copy=False)
        except Exception as error:  # noqa: BLE001  # libraries raise anything
            ledger.unknown[
                f"{values}: {type(error).__name__}: {without(str(error), folder)[:80]}"
            ] += 1
    refused = frozenset(kinds_of_values) - found.keys()
    if dataset.known is None:
        return found, refused
    if "stored" not in found:
        found["stored"] = np.asarray(dataset.known)
    elif said := unlike(found["stored"], dataset.known):
        ledger.findings.append(
            f"the format's library itself reads other values than were written: {said}"
        )
    return found, refused
