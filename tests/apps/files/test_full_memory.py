"""A shuffle of Spark whose scratch is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repetitions import repeats
from tests.storage.scratch.stage import hyperslab, needs_root, require_program
from tests.system.clusters import spark
from tests.system.clusters.required import required

SHUFFLES = """
from hyperslab.connectors.spark import session
from pyspark.sql.functions import rand

numbers = session("local[1]").range(4_000_000).select(rand(5).alias("x"))
print(round(numbers.repartition(4).agg({"x": "avg"}).first()[0], 1))
"""
"32 MB that compress to nothing less."


def shuffle(*words: object) -> subprocess.CompletedProcess[str]:
    """What becomes of the shuffle in scratch that is asked for so."""
    asked = ("scratch", "exec", "--size", "16MB", *words, "--", sys.executable, "-c", SHUFFLES)
    return subprocess.run(hyperslab(*asked), capture_output=True, text=True, check=False)


@needs_root
@repeats("scratch is full, or goes on elsewhere: storage/scratch/test_making.py")
def test_a_shuffle_fails_in_memory_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on in a fallback."""
    required(spark.missing())
    require_program()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    failed = shuffle("--way", "tmpfs")
    assert failed.returncode == 1
    assert "No space left on device" in failed.stderr
    (tmp_path / "storage").mkdir()
    done = shuffle("--on", tmp_path / "storage", "--fallback", tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "0.5")
    assert "is full: files go on in" in done.stderr
    assert os.listdir(tmp_path / "storage") == []
