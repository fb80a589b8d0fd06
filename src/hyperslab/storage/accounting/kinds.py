"""Kinds of files, by their names and by what was done to them.

Names decide where they can: of Spark and Dask, which keep what they shuffle or evict in files of
their own; of records of hyperslab; of libraries and programs. What is left are data: output where
anybody has written there, else input of a reader.

Spark's names: org.apache.spark.storage.BlockId. Dask's: distributed.spill and distributed.shuffle.
"""

from __future__ import annotations

import re
import sys
from typing import Literal, NamedTuple

Kind = Literal["reader", "output", "shuffle", "eviction", "own records", "libraries", "other"]
MEANINGS: dict[Kind, str] = {
    "reader": "files that were read and never written",
    "output": "files that were written",
    "shuffle": "what Spark or Dask exchange between tasks",
    "eviction": "what did not fit into the memory of Spark or Dask",
    "own records": "records of a run of hyperslab",
    "libraries": "programs, modules and settings",
    "other": "devices, the kernel's files, and names of which nobody read or wrote a file",
}
"""Kinds, and what is of each."""

_BLOCK_MANAGER = re.compile(r"(?P<root>.*/blockmgr-[0-9a-f-]+)(?:/[0-9a-f]{2})?(?:/(?P<name>.*))?")
_SHUFFLED = re.compile(r"(temp_shuffle_|shuffle_|merged_shuffle_|.*_shuffle_)")
_DASK = re.compile(r"(?P<root>.*/dask-(?:scratch-space|worker-space)[^/]*)/(?P<rest>.*)")
_OWN = re.compile(r"(?P<root>.*?/\.hyperslab(?!-scratch-)[^/]*)(?:/|$)")
_KERNEL = re.compile(r"/(proc|sys|dev(?!/shm/)|memfd:[^/]*)(/|$)")
_INSTALLED = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/var/lib/apt")
_MODULES = re.compile(
    r"(?P<root>.*/(?:site-packages|dist-packages|__pycache__|lib/python3\.\d+|jars))(?:/|$)"
)
_CODE = re.compile(r".*\.(so(\.[\d.]+)?|py|pyc|pyi|pth|jar|jmod|class|pyd)$")


class Place(NamedTuple):
    """The kind of a file, and the directory that it counts for."""

    kind: Kind
    directory: str


def place_of(path: str, is_written: bool, is_read: bool, is_directory: bool = False) -> Place:
    """Kind of a file that was written, or opened for reading, as long as operations were
    counted.
    """
    named = _by_name(path)
    if named is not None:
        return named
    folder = path
    if not is_directory:
        folder = path.rpartition("/")[0] or "/"
    if is_written:
        return Place("output", folder)
    if is_read and not is_directory:
        return Place("reader", folder)
    return Place("other", folder)


def _by_name(path: str) -> Place | None:
    if found := _KERNEL.match(path):
        return Place("other", f"/{found[1]}")
    if found := _BLOCK_MANAGER.fullmatch(path):
        kind: Kind = "eviction"
        if not found["name"] or _SHUFFLED.match(found["name"]):
            kind = "shuffle"
        return Place(kind, found["root"])
    if found := _DASK.fullmatch(path):
        return _of_dask(found["root"], found["rest"])
    if found := _OWN.match(path):
        return Place("own records", found["root"])
    return _library(path)


def _of_dask(root: str, rest: str) -> Place:
    if "/storage/" in rest:
        return Place("eviction", root)
    if "shuffle" in rest:
        return Place("shuffle", root)
    return Place("other", root)


def _library(path: str) -> Place | None:
    if found := _MODULES.match(path):
        return Place("libraries", found["root"])
    for root in (*_INSTALLED, sys.prefix, sys.base_prefix):
        if path == root or path.startswith(f"{root}/"):
            return Place("libraries", root)
    if _CODE.match(path):
        return Place("libraries", path.rpartition("/")[0])
    return None
