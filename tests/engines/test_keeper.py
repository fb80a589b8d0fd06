"""A keeper ends processes that look as if they had ended, and waits for all of them, so that their
processor time is that of whoever started it.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from hyperslab.engines import keeper
from tests.system.faults.command import PATIENCE_S

BURN_S = 0.3
ORPHAN = (
    "import ctypes, os, sys, threading, time\n"
    "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
    f"while time.process_time() < {BURN_S}: pass\n"
    "print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True)\n"
    "ctypes.CDLL(None).pthread_exit(None)\n"
)
"Works for a while, and ends its first thread alone: the kernel calls it a zombie from then on."


def test_a_process_whose_first_thread_has_ended_is_ended_too(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    said = tmp_path / "pid"
    begin = f'"{sys.executable}" -S -c "$0" "$1" &'
    script = f'{begin} while ! [ -s "$1" ]; do sleep 0.05; done; sleep 0.2'
    command = [sys.executable, "-I", "-S", keeper.__file__, str(reading), "sh", "-c", script]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*command, ORPHAN, str(said)], pass_fds=[reading], timeout=PATIENCE_S, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    os.close(reading)
    os.close(writing)
    assert done.returncode == 0
    assert not Path(f"/proc/{int(said.read_text())}").exists()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime > BURN_S
