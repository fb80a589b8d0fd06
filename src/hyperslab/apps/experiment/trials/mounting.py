"""Mounting: the emulated tiers of an experiment are there while its trials run, and at no other
time, also where its runner is killed; their files stay beneath them, for `resume`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.apps.experiment.design.setting import Setting
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.errors import UsageError
from hyperslab.storage.emulation import program, registry
from hyperslab.storage.emulation.making import emulate
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.removing import remove


def require_emulation(inputs: Inputs, settings: Sequence[Setting]) -> None:
    """Raise UsageError where settings have emulated tiers, and none can be made here."""
    names = inputs.emulated(settings)
    if not names:
        return
    try:
        program.require_fuse()
        program.PROGRAM.find()
    except UsageError as error:
        raise UsageError(
            f"the tier '{names[0]}' is to be emulated, but {error}; or give a real one by --tier"
            f" {names[0]}=DIR"
        ) from error


def clear_left(inputs: Inputs, settings: Sequence[Setting]) -> None:
    """Take away the emulated tiers of settings that a runner has left which died together with
    their programs: nobody sees their files until then.
    """
    places = [inputs.tier(Path(name)) for name in inputs.emulated(settings)]
    left = {str(place.parent.resolve() / place.name) for place in places}
    for emulation in registry.known() if left else ():
        if emulation.directory in left:
            remove(emulation, by_force=True)


@contextmanager
def mounted(
    inputs: Inputs, settings: Sequence[Setting], tell: Callable[[str], None]
) -> Iterator[None]:
    """A block in which the emulated tiers of settings are there. Raises UsageError where none can
    be made, and EmulationFailed for one that is not what was asked for.
    """
    made: list[tuple[Emulation, Path]] = []
    try:
        for name in inputs.emulated(settings):
            tell(f"emulating the tier '{name}'")
            made.append((_made(inputs, name), inputs.backing(name)))
        yield
    finally:
        for emulation, backing in made:
            remove(emulation, by_force=True)
            _remove_empty(Path(emulation.directory), backing)


def _made(inputs: Inputs, name: str) -> Emulation:
    """An emulated tier."""
    place = inputs.tier(Path(name))
    asked = inputs.loaded.spec.tiers[name]
    assert asked.emulate is not None
    backing = inputs.backing(name)
    for folder in (place.parent, backing):
        folder.mkdir(parents=True, exist_ok=True)
    settings = asked.settings()
    return emulate(asked.emulate, place, settings, backing, asked.tolerance, has_lifeline=True)


def _remove_empty(place: Path, backing: Path) -> None:
    """Remove folders of a tier that is gone, as far as nothing is in them."""
    for folder in (place, backing, place.parent, backing.parent, backing.parent.parent):
        with suppress(OSError):
            folder.rmdir()
