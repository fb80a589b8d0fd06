"""Names in a Zarr store: which are its own, and so may go when another takes its place."""

from __future__ import annotations

import re
from collections.abc import Collection

from hyperslab.errors import OutputBusy

ROOTS = ("zarr.json", ".zarray", ".zgroup")
"""Names of the documents of which one says what a directory is; the first that is there counts
(Zarr 3 core specification; Zarr 2, 'Storage').
"""
DOCUMENTS = frozenset({*ROOTS, ".zattrs", ".zmetadata"})
"Names of the files that say what is in a directory."
_CHUNK = r"(?:.+/)?(?:c(?:[./]\d+)*|\d+(?:[./]\d+)*)"
_UNFINISHED = r"(?:.+/)?\.[^/]+\.[0-9a-f]+\.part"


def is_own(name: str) -> bool:
    """Whether a path in a store is one of a document, a chunk or a shard, or of one that was not
    finished.
    """
    if name.rpartition("/")[2] in DOCUMENTS:
        return True
    return bool(re.fullmatch(_CHUNK, name) or re.fullmatch(_UNFINISHED, name))


def require_replaceable(where: str, names: Collection[str], is_store: bool = False) -> None:
    """Raise OutputBusy for a place that is no Zarr store, or holds other files too; an empty one is
    free.

    `is_store` says that it is known to be one, whatever it lacks.
    """
    odd = min((name for name in names if not is_own(name)), default=None)
    if odd is None and names and not is_store and set(ROOTS).isdisjoint(names):
        odd = min(names)
    if odd is not None:
        what = f"holds {odd}, which is not of a Zarr store"
        if odd == "":
            what = "is a file, not a Zarr store"
        raise OutputBusy(
            f"{where} {what}: only a Zarr store with nothing else in it is replaced; choose"
            " another name, or remove what is there"
        )
