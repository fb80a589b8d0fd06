"""The brain app: extraction of the brain of every image, by a process each."""

from __future__ import annotations

import os
import sys

from hyperslab.apps.bids import brain
from hyperslab.apps.bids.app import OUT, App, Command, place_of
from hyperslab.apps.bids.dataset import File
from hyperslab.apps.bids.description import RAW
from hyperslab.apps.bids.extraction import FRACTION
from hyperslab.apps.bids.unit import Unit, require_distinct


def brain_app(extractor: str = brain.AUTO, fraction: float = FRACTION) -> App:
    """Extraction of the brain of every image, by a process each."""
    which = brain.chosen(extractor)

    def commands(unit: Unit, root: str) -> list[Command]:
        require_distinct(unit)
        return [
            _brain_command(place, image, root, which, fraction)
            for place, image in enumerate(unit.images)
        ]

    identity = f"brain --brain-extractor {which} --fraction {fraction:g}"
    return App("Brain extraction", commands, identity, brain.generated_by(which))


def brain_names(image: File, root: str) -> tuple[str, str]:
    """Names of the brain and of its mask below the output directory."""
    folder = os.path.dirname(place_of(image, root))
    brain_of = image.name.derived(image.name.suffix, ".nii.gz", desc="brain")
    mask = image.name.derived("mask", ".nii.gz", desc="brain")
    return os.path.join(folder, str(brain_of)), os.path.join(folder, str(mask))


def picture_of(image: File, root: str) -> str:
    """Name of the picture of a brain below the output directory."""
    participant = image.session.participant
    name = image.name.derived("mask", ".png", desc="brain")
    return os.path.join(participant.name, "figures", str(name))


def _brain_command(place: int, image: File, root: str, which: str, fraction: float) -> Command:
    found, mask = brain_names(image, root)
    site = image.session.participant.site
    origin = f"bids:{RAW}:{os.path.relpath(place_of(image, root), site or os.curdir)}"
    argv = (
        *(sys.executable, "-m", "hyperslab.apps.bids.brain"),
        *(f"{{input[{place}]}}", f"{OUT}/{found}", "--mask", f"{OUT}/{mask}"),
        *("--picture", f"{OUT}/{picture_of(image, root)}"),
        *("--brain-extractor", which, "--fraction", f"{fraction:g}", "--origin", origin),
    )
    sidecars = (brain.sidecar_of(found), brain.sidecar_of(mask))
    return Command(argv, os.path.dirname(found), (found, mask, *sidecars))
