"""Removal of laboratories, also of those that were left half-made."""

from __future__ import annotations

from hyperslab.machine.host import boot_id
from hyperslab.network.lab import namespaces, registry
from hyperslab.network.lab.namespaces import LabFailed
from hyperslab.network.lab.registry import Lab


def remove(lab: Lab) -> int:
    """Remove a laboratory and all that runs in it: how many processes were killed.

    Nothing of it is left, and nothing else is touched. Raises LabFailed, and can be tried again.
    """
    ended = 0
    with registry.locked():
        if _is_replaced(lab):
            return 0
        if lab.boot == boot_id():
            ended = _take_away(lab)
        registry.forget(lab)
    return ended


def _is_replaced(lab: Lab) -> bool:
    """Whether it was removed by somebody else, and another one has its name."""
    same_name = [one for one in registry.recorded() if one.name == lab.name]
    return any(one.made_ns != lab.made_ns for one in same_name)


def _take_away(lab: Lab) -> int:
    is_elsewhere = lab.mounts != registry.mounts_here()
    if is_elsewhere and not namespaces.is_mounted(lab.place):
        raise LabFailed(
            f"'{lab.name}' was made where other file systems are mounted, as in a container: remove"
            " it there"
        )
    ended = namespaces.end(lab.networks)
    namespaces.unmount(lab.place)
    return ended
