"""Functions that let go of the interpreter's lock: what they return, and that the program fails
aloud.
"""

from __future__ import annotations

import gzip
import subprocess

import numpy as np
import pytest

from hyperslab.apps.experiment import lock


def test_what_they_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "SLEEP_S", 0.0)
    block = np.arange(4000, dtype=np.uint16).reshape(40, 100)
    block[:30] = 7
    assert lock.compiled.lift(block) == 3001 - 1
    assert lock.sleep.lift(block) == 4000
    packed = lock.program.lift(block)
    assert abs(packed - len(gzip.compress(block.tobytes(), 9))) < 100
    assert lock.program.merge(3, packed) == packed


def test_a_program_that_fails_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PROGRAM", ("false",))
    with pytest.raises(subprocess.CalledProcessError):
        lock.program.lift(np.zeros(3, np.uint16))
