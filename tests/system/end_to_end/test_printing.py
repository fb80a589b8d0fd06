"""What functions print: where it goes, and that a run which ends well says so once."""

from __future__ import annotations

from pathlib import Path

import pytest

import hyperslab
from hyperslab.driver import computing
from tests.system.end_to_end.command import ANATOMICAL, call

QUICK = ("--workers", "1", "--no-report")
TALKING = """
def talking(block):
    print("a block of", block.shape)
    print("its mean is", block.mean())
    return block

def silent(block):
    return block

def failing(block):
    print("on its way")
    return block.missing
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(TALKING)
    return path


def test_a_run_says_once_where_the_function_has_printed(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = call("run", f"{mine}:talking", ANATOMICAL, "-o", out, "--blocks", "3", *QUICK)
    assert done.code == 0
    log = out / ".hyperslab" / "run-0001" / "worker.log"
    (line,) = [line for line in done.out.splitlines() if line.startswith("printed")]
    assert line == f"printed    6 lines, by the function: {log}"
    assert log.read_text().count("its mean is") == 3


def test_a_function_that_prints_nothing_is_not_spoken_of(mine: Path, tmp_path: Path) -> None:
    done = call("run", f"{mine}:silent", ANATOMICAL, "-o", tmp_path / "out", *QUICK)
    assert done.code == 0
    assert "printed" not in done.out


def test_python_knows_it_as_well(mine: Path, tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(f"{mine}:talking").write(tmp_path / "out")
    result = hyperslab.run(pipeline, blocks=2, workers=1, report=False)
    assert result.printed is not None
    assert result.printed.read_text().count("a block of") == 2
    assert str(result.printed) in result._repr_html_()
    assert ", printed lines in worker.log, records in " in repr(result)


def test_what_is_printed_while_an_array_is_computed_is_shown(
    mine: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "MOST_LINES", 3)
    pipeline = hyperslab.Pipeline(ANATOMICAL)
    pipeline.map(f"{mine}:talking").compute(blocks=2, workers=1)
    shown = capsys.readouterr().out
    assert shown.startswith("a block of (33, 41, ")
    assert shown.count("a block of") == 2
    assert "\n... and 1 further line: hyperslab.run keeps all in the file" in shown
    with pytest.raises(hyperslab.TasksFailed, match="has no attribute 'missing'"):
        pipeline.map(f"{mine}:failing").compute(blocks=1, workers=1)
    assert capsys.readouterr().out == "on its way\n"
