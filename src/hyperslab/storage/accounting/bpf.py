"""Whether programs in the kernel (eBPF) could count operations on files here.

They would cost least, and know the times best. None is written: at the kernel's calls descriptors
have no paths, so that it would have to follow them itself.
"""

from __future__ import annotations

import shutil
import subprocess

from hyperslab.storage.accounting.trying import complaint

WAY = "bpf"
_TRIED = "tracepoint:raw_syscalls:sys_enter { exit(); }"
_LIMIT_S = 10.0


def why_not() -> str:
    """What keeps eBPF from counting here, in a sentence."""
    if shutil.which("bpftrace") is None:
        return "bpftrace is not installed, which would tell whether eBPF is allowed here"
    try:
        said = complaint(["bpftrace", "-e", _TRIED], _LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"bpftrace does not begin within {_LIMIT_S:.0f} s"
    if said:
        return f"eBPF is not allowed here ({said})"
    return "eBPF is allowed here, but hyperslab has no program for it"
