"""Arguments of the kernel's calls that a program in the kernel looks at, and what operations on
files calls are.

The names and operations are those of `calls`, which reads what strace writes of the same calls.
"""

from __future__ import annotations

from hyperslab.accesses import KNOWN
from hyperslab.storage.accounting.calls import (
    BY_DESCRIPTOR,
    BY_FOLDER,
    BY_NAME,
    COPYING,
    OF_TWO,
    OPENING,
    UNSEEN,
)

NO_OPERATION = -1
_OPENING_AT = OPENING[2:]
# The name that counts is the second of two.
_SECOND = {
    **dict.fromkeys(("rename", "link", "symlink"), "name:1"),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), "at:2"),
    "symlinkat": "at:1",
}
_COPIES = {
    "copy_file_range": "fd:0+fd2:2",
    "sendfile": "fd:1+fd2:0",
    "splice": "fd:0+fd2:2",
}
assert _COPIES.keys() == COPYING.keys()
assert _SECOND.keys() == OF_TWO.keys()
_ARGUMENTS = {
    **dict.fromkeys(BY_DESCRIPTOR, "fd:0"),
    **dict.fromkeys(BY_NAME, "name:0"),
    **dict.fromkeys(BY_FOLDER, "at:0"),
    **_SECOND,
    **dict.fromkeys(OPENING, "name:0+opens"),
    **dict.fromkeys(_OPENING_AT, "at:0+opens"),
    **_COPIES,
    **dict.fromkeys(UNSEEN, "alone"),
    "mmap": "fd:4+length:1",
}
"Arguments that say what file a call is about, in the words of rust/filecalls."
_OPERATIONS = {
    **BY_DESCRIPTOR,
    **BY_NAME,
    **BY_FOLDER,
    **OF_TWO,
    **dict.fromkeys(OPENING, "open"),
    "mmap": "map",
}

CALLS = tuple(_ARGUMENTS)
"Names of all calls that are looked at, in the order in which the program numbers them."


def arguments() -> str:
    """What the program is told of the calls that it is to look at."""
    return ",".join(f"{name}={told}" for name, told in _ARGUMENTS.items())


def operations() -> list[tuple[int, int]]:
    """Operations of each call on its one file, or on its two; NO_OPERATION of those that have
    nothing to do with a file.
    """
    return [_of(name) for name in CALLS]


def _of(name: str) -> tuple[int, int]:
    if name in COPYING:
        return KNOWN["read"], KNOWN["write"]
    if name in UNSEEN:
        return NO_OPERATION, NO_OPERATION
    return KNOWN[_OPERATIONS[name]], NO_OPERATION
