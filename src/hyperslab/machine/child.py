"""Child: a command that runs in the place of this one, until it ends."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence

FIRST_SIGNAL = 128
"What a shell adds to the number of the signal that ended a command."


def run_command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end, which hears of Ctrl-C itself; its exit status as a shell has it.
    Raises OSError where it cannot be started.
    """
    process = subprocess.Popen(words, env=environment)
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
        else:
            return FIRST_SIGNAL - status if status < 0 else status
