"""Counting by strace under a keeper: whoever dies, nobody is left whose calls are not answered."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from hyperslab.accesses import Accesses
from hyperslab.engines import keeper
from hyperslab.engines.lifeline import workers_end
from hyperslab.storage.accounting import strace


def count_kept(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, Accesses]:
    """Run a command to its end, and that of all it has started: its exit status as a shell has it,
    and its operations. Raises UsageError where there is no such program.
    """
    lifeline = workers_end()
    prefix = [sys.executable, "-I", "-S", str(keeper.__file__), str(lifeline)]
    return strace.count(command, environment, prefix, [lifeline])
