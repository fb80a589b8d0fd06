"""Rounds of a workload in Spark, as an experiment starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hyperslab.apps.experiment.programs import table as programs
from hyperslab.apps.experiment.programs.spark_client import require_right
from hyperslab.apps.experiment.programs.spark_clients import Clients
from hyperslab.apps.experiment.programs.spark_work import LEARNING, PAIRS, Rounds, Work, require
from hyperslab.errors import RunStopped, UsageError
from hyperslab.report.summary import Summary
from hyperslab.storage.accounting import strace
from tests.repetitions import few
from tests.system.clusters import spark
from tests.system.clusters.required import required

Refused = Callable[..., str]
PROGRAM = (sys.executable, "-m", "hyperslab.apps.experiment.programs.table")
M, R, KEYS = 3, 2, 20
ANSWERING = """
while read word; do
    touch "$0/$1-$word"
    until test -e "$0/$2-$word"; do sleep 0.01; done
    echo '{}'
done
"""
"Script of a client, whose words are a folder, its own name, and that of another client."


def played(out: Path, *more: str, **asked: float) -> Path:
    """The records of groups that two clients make at a time."""
    sizes = {"partitions": M, "reducers": R, "keys": KEYS, "threshold": 1, "scale": 1e-4}
    params = sizes | {"clients": 2} | asked
    given = [word for name, value in params.items() for word in ("--param", f"{name}={value}")]
    line = ("spark-pairs", "group-by-worst", "--out", str(out), "--workers", "1", *given, *more)
    done = subprocess.run(
        [*PROGRAM, *line], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    return out / ".hyperslab" / "run-0001"


@pytest.mark.parametrize(
    ("clients", "threshold", "opened_again"),
    few([(1, 200, 1)], [(1, 200, 1), (2, 1, 0)], "formulas of shuffles: the first case"),
)
def test_clients_leave_the_records_of_a_run(
    tmp_path: Path, clients: int, threshold: int, opened_again: int
) -> None:
    """With its operations on files. A shuffle opens 2 M R to read them; up to the threshold each
    map task opens R again that it has made, beside the 3 that stay.
    """
    required(spark.missing())
    required(strace.why_not())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    where = ("--scratch", str(scratch), "--count-files")
    asked = {"clients": clients, "threshold": threshold, "rounds": 2, "warmups": clients - 1}
    folder = played(tmp_path / "out", *where, **asked)
    numbers = json.loads((folder / "numbers.json").read_text())
    assert 0 < numbers["round_min_s"] <= numbers["round_median_s"] <= numbers["round_max_s"]
    assert {"round_sd_s", "round_first_s", "round_last_s"} < numbers.keys()
    assert Summary.load(folder / "summary.json").tasks == 2
    [log] = (folder / "spark-events").iterdir()
    assert f'"spark.shuffle.sort.bypassMergeThreshold":"{threshold}"' in log.read_text()
    shuffles = clients * (2 + clients - 1)
    assert numbers["shuffle_read_opens"] == shuffles * 2 * M * R
    assert numbers["shuffle_opens"] == shuffles * (2 + opened_again) * M * R
    assert numbers["shuffle_creates"] == shuffles * (3 * M + opened_again * M * R)
    assert list(scratch.iterdir()) == []


def answering(*words: object) -> subprocess.Popen[str]:
    line = ["sh", "-c", ANSWERING, *map(str, words)]
    return subprocess.Popen(line, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_clients_compute_at_a_time(tmp_path: Path) -> None:
    """Two of them, of which each answers when the other one has been told, too."""
    with ExitStack() as ends:
        started = [
            ends.enter_context(answering(tmp_path, *names)) for names in (("a", "b"), ("b", "a"))
        ]
        clients = Clients(started, [])
        clients.compute()
        clients.check()
    told = {path.name for path in tmp_path.iterdir()}
    assert told == {"a-compute", "a-check", "b-compute", "b-check"}


def test_a_wrong_result_ends_a_trial() -> None:
    work = Work(lambda: 1, lambda found: "" if found == 1 else f"the result is {found}, not 1")
    require_right("count", work, work.run())
    with pytest.raises(RunStopped, match=r"count: the result is 2, not 1"):
        require_right("count", work, 2)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Calls the program with words that it does not take, and returns what it says."""

    def called(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["programs", *words])
        with pytest.raises(SystemExit) as ended:
            programs.main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return called


def test_parameters_that_there_are_not_are_refused(tmp_path: Path, refused: Refused) -> None:
    said = refused("spark-pairs", "count", "--out", str(tmp_path / "out"), "--param", "colour=1")
    assert "give scale, rounds, warmups" in said
    for wrong in (Rounds("count", columns=3), Rounds("count", clients=0), Rounds("counts")):
        with pytest.raises(UsageError):
            require(wrong, PAIRS)
    with pytest.raises(UsageError, match="keys: spark-mllib has no use of it"):
        require(Rounds("pca", keys=3), LEARNING)
    require(Rounds("pca", columns=3), LEARNING)


def test_scratch_that_there_is_not_is_refused(tmp_path: Path, refused: Refused) -> None:
    out = str(tmp_path / "out")
    nowhere = tmp_path / "nowhere"
    said = refused("spark-pairs", "count", "--out", out, "--scratch", str(nowhere))
    assert f"{nowhere}: there is no such directory" in said
    said = refused("h5py", "sum", "--out", out, "--scratch", "tmpfs")
    assert "h5py takes no --scratch" in said
