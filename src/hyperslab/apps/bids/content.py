"""Whether the content of files is here: links of git-annex may lead nowhere, and files be empty."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

_OBJECTS = os.path.join(".git", "annex", "objects")
_POINTER = b"/annex/objects/"
"What the content of an unlocked file of git-annex begins with while its own is elsewhere."
_LARGEST_POINTER_NBYTES = 32768
_NAMED = 8
"Paths that a line lists; of more it names the folder that holds all."


def fault_of(path: str) -> str:
    """Why the content of a file is not here, in words that follow its path; '' where it is."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return _fault_of_link(path)
    except OSError as error:
        return f"cannot be looked at ({error.strerror})"
    if found.st_size == 0:
        return "is empty (0 bytes); fetch or copy it again"
    if found.st_size < _LARGEST_POINTER_NBYTES and _is_pointer(path):
        return f"is not here; type '{line_to_get([path])}'"
    return ""


def is_absent(path: str) -> bool:
    """Whether a file is a link of git-annex whose content is elsewhere; looks at links alone."""
    return os.path.islink(path) and not os.path.exists(path) and _is_of_annex(path)


def line_to_get(paths: Sequence[str]) -> str:
    """The command that fetches the content of some files."""
    named = paths
    if len(paths) > _NAMED:
        named = [os.path.commonpath(paths)]
    return shlex.join(["datalad", "get", *named])


def _fault_of_link(path: str) -> str:
    if not os.path.islink(path):
        return "is not there"
    if _is_of_annex(path):
        return f"is not here; type '{line_to_get([path])}'"
    return f"is a link to {os.readlink(path)}, which is not there"


def _is_of_annex(path: str) -> bool:
    return _OBJECTS in os.readlink(path)


def _is_pointer(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_POINTER)) == _POINTER
