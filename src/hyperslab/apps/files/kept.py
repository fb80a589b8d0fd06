"""Counting under a keeper: whoever dies, nobody is left whose calls are not answered or counted."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from hyperslab.accesses import Accesses
from hyperslab.engines import keeper
from hyperslab.engines.lifeline import workers_end
from hyperslab.storage.accounting import bpf, strace

_COUNTERS = {bpf.WAY: bpf.count, strace.WAY: strace.count}
"Ways that know every operation."


def count_kept(
    command: Sequence[str], environment: Mapping[str, str], way: str
) -> tuple[int, Accesses]:
    """Run a command to its end, and that of all it has started: its exit status as a shell has it,
    and its operations, counted by a way that knows each. Raises UsageError where there is no such
    program.
    """
    lifeline = workers_end()
    prefix = [sys.executable, "-I", "-S", str(keeper.__file__), str(lifeline)]
    return _COUNTERS[way](command, environment, prefix, [lifeline])
