"""A process that runs a command, waits for all that it has started, and says what they have moved.

It is started as `python -m hyperslab.storage.accounting.waiting RECORD COMMAND...`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hyperslab.errors import UsageError
from hyperslab.machine.foreground import SIGNAL, run_in_foreground

_PR_SET_CHILD_SUBREAPER = 36
_OWN = Path("/proc/self/io")


def main(record: Path, command: list[str]) -> int:
    """Run the command, and write down what it came to: {"refused": why} where it could not."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _terminate)
    first, second = _moved(), _moved()
    try:
        status = run_in_foreground(command, os.environ)
    except UsageError as why:
        record.write_text(json.dumps({"refused": str(why)}))
        return 0
    with suppress(ChildProcessError):  # nobody is left
        while True:
            os.wait()
    last = _moved()
    # Asking is reading, too.
    moved = {name: last[name] - second[name] - (second[name] - first[name]) for name in last}
    record.write_text(json.dumps({"status": status, "moved": moved}))
    return 0


def _terminate(*_: object) -> NoReturn:
    """End by an exception, which ends the command, too."""
    raise SystemExit(SIGNAL + signal.SIGTERM)


def _moved() -> dict[str, int]:
    """What this process, and those it has waited for, have moved: proc(5), /proc/PID/io."""
    pairs = (line.split(":") for line in _OWN.read_text().splitlines())
    return {name: int(value) for name, value in pairs}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
