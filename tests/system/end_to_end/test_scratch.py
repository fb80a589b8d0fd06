"""`run --scratch`: what engines spill and shuffle goes there, and is gone with the run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.repetitions import few
from tests.storage.scratch.stage import require_program
from tests.system.end_to_end.command import ANATOMICAL, call, succeed

LOOK = """
import json, os, pathlib, tempfile

def look(block, log=""):
    spark = os.environ["SPARK_LOCAL_DIRS"].split(",")[0]
    told = {"temporary": tempfile.gettempdir(), "spark": spark}
    told["is_mounted"] = os.path.ismount(tempfile.gettempdir())
    told["names"] = os.listdir(tempfile.gettempdir())
    pathlib.Path(log).write_text(json.dumps(told))
    return block
"""
"A function that keeps what it sees of temporary files."


NAMED = [("spark", "blockmgr-"), ("dask-futures", "hyperslab-dask-")]
OF_SPARK = "an engine keeps its scratch where it is told: Spark's, test_spark_rounds.py"


@pytest.mark.parametrize(("engine", "named"), few(NAMED[1:], NAMED, OF_SPARK))
def test_engines_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, named: str
) -> None:
    require_program()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "look.py").write_text(LOOK)
    storage = tmp_path / "storage"
    storage.mkdir()
    log = tmp_path / "log.json"
    words = ("run", f"{tmp_path / 'look.py'}:look", ANATOMICAL, "-o", tmp_path / "out", "-q")
    given = ("-p", f"log={log}", "--no-trial", "--dtype", "int16", "--engine", engine)
    succeed(*words, *given, "--workers", "1", "--scratch", f"image:{storage}")
    told = json.loads(log.read_text())
    assert told["is_mounted"]
    assert any(name.startswith(named) for name in told["names"])
    assert told["spark"].startswith(told["temporary"])
    assert os.listdir(storage) == []
    assert not Path(told["temporary"]).exists()


def test_it_is_for_workers_of_this_host(tmp_path: Path) -> None:
    words = ("run", "increment", ANATOMICAL, "-o", tmp_path / "out", "--scratch", "auto")
    refused = call(*words, "--engine", "slurm")
    assert refused.code == 2
    assert "--scratch is for workers of this host" in refused.err
