"""Run a command to its end, see its files to storage, and print what that took as a line of JSON.

    python -m benchmarks.timed_command OUT COMMAND...

OUT is the file, or the directory of files, that the command makes. This is a process of its own,
and a small one, because a child's peak of memory begins with its parent's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time


def main() -> None:
    out, *command = sys.argv[1:]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=sys.stderr)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(process.returncode)
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(out) for name in names] or [
        out
    ]
    for path in paths:
        to_storage(path)
    wall = time.perf_counter() - began
    taken = {
        "wall_s": wall,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_nbytes": used.ru_maxrss * 1024,
    }
    print(json.dumps(taken))


def to_storage(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


if __name__ == "__main__":
    main()
