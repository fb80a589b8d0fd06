"""Removal of laboratories, also of those that were left half-made."""

from __future__ import annotations

from hyperslab.machine.host import boot_id
from hyperslab.network.lab import namespaces, registry
from hyperslab.network.lab.registry import Lab


def remove(lab: Lab) -> int:
    """Remove a laboratory and all that runs in it: how many processes were killed.

    Nothing of it is left, and nothing else is touched. Raises LabFailed, and can be tried again.
    """
    ended = 0
    with registry.locked():
        if lab.boot == boot_id():
            ended = _take_away(lab)
        registry.forget(lab)
    return ended


def _take_away(lab: Lab) -> int:
    ended = namespaces.end(lab.networks)
    namespaces.unmount(lab.place)
    return ended
