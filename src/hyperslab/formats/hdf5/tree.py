"""The datasets of an HDF5 file, as its groups hold them, and what this process itself has written
to it.
"""

from __future__ import annotations

from typing import Any


def datasets(file: Any) -> list[Any]:
    """Every dataset that hard links lead to from the root, once, by the first of its names: circles
    come to an end.

    HDF5's own visitor also adds up the sizes of all chunk indexes on its way, which is slow, and on
    a corrupt index the end of the process (libhdf5 2.0).
    """
    from h5py import h5g

    found: list[Any] = []
    seen = {tuple(h5g.get_objinfo(file.id, b".").objno)}
    waiting = _members(file)
    while waiting:
        group, name = waiting.pop()
        about = h5g.get_objinfo(group.id, name, follow_link=False)
        number = tuple(about.objno)
        if about.type not in (h5g.DATASET, h5g.GROUP) or number in seen:
            continue
        seen.add(number)
        if about.type == h5g.DATASET:
            found.append(group[name])
        else:
            waiting += _members(group[name])
    return found


def is_written_here(file: Any) -> bool:
    """Whether this process has a file open for writing, of which this is h5py's identifier, maybe
    one for reading.
    """
    from h5py import h5f

    return bool(file.get_intent() & h5f.ACC_RDWR)


def flush(file: Any) -> None:
    """Let libhdf5 write what this process has changed in a file, of which this is h5py's
    identifier.

    It does so for the datasets that were opened through a handle, so that of the writer has to be
    found.
    """
    from h5py import h5f

    if is_written_here(file):
        for other in h5f.get_obj_ids(h5f.OBJ_ALL, h5f.OBJ_FILE):
            if other.fileno == file.fileno:
                h5f.flush(other)


def _members(group: Any) -> list[tuple[Any, bytes]]:
    """The links of a group, the first one last."""
    return [(group, name) for name in reversed(list(group.id))]
