"""Complete: when tasks of a run have failed, the files all of whose regions are there get their
names all the same.

- not where a file is to be replaced: old and new ones would lie side by side, of which a run that
  is killed in between leaves no mark; nor is anything written over
- not while an attempt that was given up may still write
- what keeps a file from its name is told, and changes nothing for others: what has failed are the
  tasks

Held by tests/system/faults/test_complete_files.py.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from hyperslab.driver import naming, replaced, resume
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.naming import Complete, Told
from hyperslab.driver.products import Products
from hyperslab.driver.resume import Inherited
from hyperslab.errors import HyperslabError
from hyperslab.storage import fence
from hyperslab.storage.full import why

LEAVE_LIMIT_S = 5.0
"How long to wait for attempts that were given up: names can wait for --resume."
_MOST_NAMES = 10
"Files that are named, at most."


def name_complete(
    directory: RunDirectory,
    products: Products,
    inherited: Sequence[Inherited],
    done: Collection[int],
    told: Told,
) -> list[str]:
    """Let complete files appear, of which `told` is told; returns what people have to know of it, a
    sentence each.

    `done` are the tasks that are done. `inherited` are the submissions that have done them, the
    last of which has just ended.
    """
    try:
        if not _complete(products, inherited, done):
            return _what_is_there(products)
        obstacle = _obstacle(directory, products, inherited[-1].folder)
        if not obstacle:
            for one in inherited:
                directory.secure(one.folder)
    except (HyperslabError, OSError) as error:
        obstacle = _reason(directory, error)
    if obstacle:
        return [f"complete files have not got their names, --resume gives them: {obstacle}"]
    files = _complete(products, inherited, done)  # attempts may have ended meanwhile
    problems = list(map(str, naming.name_all(directory, files, told)))
    return [*_what_is_there(products), *problems]


def _complete(
    products: Products, inherited: Sequence[Inherited], done: Collection[int]
) -> list[Complete]:
    results = resume.results(inherited)
    return products.complete({i: outcome for i, outcome in results.items() if i in done})


def _obstacle(directory: RunDirectory, products: Products, folder: Path) -> str:
    """Why no file may get its name; '' where they may. Raises HyperslabError, OSError."""
    old = products.to_be_replaced()
    old.update(name for name in replaced.may_go(directory) if _is_there(directory, name))
    if old:
        return f"what is there stays until all that replaces it is there ({_listed(old)})"
    if not fence.is_left(folder, LEAVE_LIMIT_S):
        return "a worker that was given up may still write"
    return ""


def _is_there(directory: RunDirectory, name: str) -> bool:
    return os.path.lexists(directory.out / name)


def _what_is_there(products: Products) -> list[str]:
    """How many files there are, and which are missing; nothing where there are none, or all."""
    there, missing = products.there_or_missing()
    if not there or not missing:
        return []
    share = f"{len(there):,} of {len(there) + len(missing):,} files"
    names = _listed([path.name for path in missing])
    return [f"{share} are written; missing: {names}"]


def _listed(names: Collection[str]) -> str:
    ordered = sorted(names)
    listed = ", ".join(ordered[:_MOST_NAMES])
    if len(ordered) > _MOST_NAMES:
        listed += f" and {len(ordered) - _MOST_NAMES:,} more"
    return listed


def _reason(directory: RunDirectory, error: HyperslabError | OSError) -> str:
    if isinstance(error, OSError):
        return why(error, directory.root)
    return str(error)
