"""Whether the content of files is here: links of git-annex may lead nowhere, and files be empty.

The line that fetches what is not here names files, or patterns that stand for these alone among all
that are not here, or a list of them. Held by tests/apps/bids/test_dataset.py.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Sequence

_OBJECTS = os.path.join(".git", "annex", "objects")
_POINTER = b"/annex/objects/"
"What the content of an unlocked file of git-annex begins with while its own is elsewhere."
_LARGEST_POINTER_NBYTES = 32768
_NAMED = 8
"Paths, or patterns, that a line lists."
_MOST_NBYTES = 10**6
"Bytes of all paths that patterns stand for: a half of what a shell hands to a program by default."
_LIST = "hyperslab-get-"
"What the names of lists of paths begin with."
_OF_SOMEBODY = re.compile("(sub|ses)-")
_PLAIN = re.compile(r"[\w.+*/-]+", re.ASCII)
"Patterns of which a shell changes nothing but *."


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
    """The command that fetches the content of some files, and of no others. Where neither their
    names nor patterns tell these in a line, they are listed in a temporary file.
    """
    if len(paths) <= _NAMED:
        return shlex.join(["datalad", "get", *paths])
    home = os.path.commonpath(paths)
    patterns = _patterns(home, paths)
    if patterns:
        return " ".join(["datalad get", *(f"{shlex.quote(home)}/{one}" for one in patterns)])
    listed = _listed(b"".join(os.fsencode(path) + b"\0" for path in paths))
    return f"xargs --null --arg-file={shlex.quote(listed)} datalad get"


def _listed(content: bytes) -> str:
    """Path of a temporary file with this content, which is written once."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = os.path.join(tempfile.gettempdir(), f"{_LIST}{digest}")
    if _is_own(path, content):
        return path
    with tempfile.NamedTemporaryFile(prefix=_LIST, delete=False) as file:
        file.write(content)
    try:
        os.link(file.name, path)
    except OSError:  # a file of somebody else has that name, or there are no links
        return file.name
    os.unlink(file.name)
    return path


def _is_own(path: str, content: bytes) -> bool:
    """Whether this is a file of this user, which nobody else may change, with some content."""
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
            return False
        with open(path, "rb") as file:
            return file.read() == content
    except OSError:
        return False


def _patterns(home: str, paths: Sequence[str]) -> list[str]:
    """Patterns below a folder that stand for some files, and for none else that is not here; none
    where there are no such.
    """
    found = sorted({_pattern(os.path.relpath(path, home)) for path in paths})
    if len(found) > _NAMED or sum(map(len, paths)) > _MOST_NBYTES:
        return []
    if not all(_PLAIN.fullmatch(pattern) for pattern in found):
        return []
    wanted = set(paths)
    for pattern in found:
        others = set(glob.iglob(os.path.join(glob.escape(home), pattern))) - wanted
        if any(map(is_absent, others)):
            return []
    return found


def _pattern(name: str) -> str:
    """A path with what differs between participants, sessions and sites left open, such as
    sub-*/anat/*_T1w.nii.gz.
    """
    *folders, file = name.split(os.sep)
    parts = list(map(_opened, folders))
    if len(parts) > 1 and parts[0] == folders[0] and parts[1] != folders[1]:
        parts[0] = "*"  # of sites
    return "/".join([*parts, f"*_{file.rpartition('_')[2]}"])


def _opened(folder: str) -> str:
    found = _OF_SOMEBODY.match(folder)
    if found is None:
        return folder
    return f"{found[0]}*"


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
