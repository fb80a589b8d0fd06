"""Mpiexec and the library of MPI: what is found, what fits, and what is said where nothing does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hyperslab.cli.doctor import doctor
from hyperslab.engines import EngineOptions, require
from hyperslab.engines.facts import MPI
from hyperslab.engines.mpi import joined, mpiexec
from hyperslab.engines.mpi.ending import refusal
from hyperslab.engines.mpi.ranks import Ranks
from hyperslab.errors import RunStopped, UsageError

OPTIONS = EngineOptions(Path(), 2)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of one empty folder, without an mpiexec beside Python, and nothing known so far."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    for name in (mpiexec.VARIABLE, "MPI4PY_LIBMPI", "SLURM_JOB_ID", *mpiexec.AS_ROOT):
        monkeypatch.delenv(name, raising=False)
    for name in mpiexec.WORLD_SIZES:
        monkeypatch.delenv(name, raising=False)
    mpiexec.library_of.cache_clear()
    return tmp_path


def program(path: Path, says: str, status: int = 0) -> Path:
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_without_an_mpiexec_it_is_said_how_to_get_one(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        UsageError, match="needs mpiexec, and there is none here: pip install mpich"
    ):
        require("mpi", OPTIONS)
    monkeypatch.setattr("hyperslab.engines.facts.ENGINES", {"mpi": MPI})
    assert doctor(start=True) == 0
    assert "needs mpiexec, and there is none here: pip install mpich" in capsys.readouterr().out
    assert doctor(start=False) == 0
    assert "needs mpiexec, and there is none here: pip install mpich" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ({}, 0),
        ({"PMI_RANK": "3", "MPI_LOCALRANKID": "1"}, 3),
        ({"OMPI_COMM_WORLD_RANK": "2", "SLURM_PROCID": "0"}, 2),
        ({"SLURM_PROCID": "5"}, 5),
        ({"PMIX_RANK": "", "MPI_LOCALRANKID": "1"}, 1),
    ],
)
def test_launchers_tell_which_rank_this_is(
    monkeypatch: pytest.MonkeyPatch, told: Mapping[str, str], rank: int
) -> None:
    for name in mpiexec.RANKS:
        monkeypatch.delenv(name, raising=False)
    for name, number in told.items():
        monkeypatch.setenv(name, number)
    assert mpiexec.own_rank() == rank


def test_srun_starts_ranks_where_an_allocation_has_no_mpiexec(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    srun = program(bare / "srun", "slurm 23.02.7")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert mpiexec.command() == [str(srun)]
    found = program(bare / "mpiexec", "HYDRA")
    assert mpiexec.command() == [str(found)]
    monkeypatch.setenv(mpiexec.VARIABLE, "srun --mpi='pmi2'")
    assert mpiexec.command() == ["srun", "--mpi=pmi2"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("mpiexec 'x", "=mpiexec 'x: No closing quotation; check its quotes"),
        (" ", " names no command"),
    ],
)
def test_a_command_that_no_shell_reads_is_a_sentence(
    bare: Path, monkeypatch: pytest.MonkeyPatch, asked: str, said: str
) -> None:
    monkeypatch.setenv(mpiexec.VARIABLE, asked)
    with pytest.raises(UsageError, match=f"^{mpiexec.VARIABLE}{said}"):
        require("mpi", OPTIONS)


@pytest.mark.parametrize(
    ("launcher", "library", "said"),
    [
        ("mpiexec (OpenRTE) 4.1.4", "MPICH Version: 4.3", "is of Open MPI, but mpi4py finds MPICH"),
        ("HYDRA build details:", "Open MPI v4.1.4, x", "is of MPICH, but mpi4py finds Open MPI v4"),
        ("Intel(R) MPI Library for Linux", "MPICH Version: 4.3", ""),
        ("HYDRA build details:", "MPICH Version: 5.0.2", ""),
        ("something else", "MPICH Version: 5.0.2", ""),
    ],
)
def test_a_launcher_of_another_mpi_is_refused(
    bare: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, library: str, said: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv(mpiexec.VARIABLE, str(program(bare / "mpiexec", launcher)))
    program(bare / "python", library)
    if not said:
        require("mpi", OPTIONS)
        return
    with pytest.raises(UsageError, match=f"{said}.*MPI4PY_LIBMPI.*{mpiexec.VARIABLE}"):
        require("mpi", OPTIONS)


def test_a_library_that_cannot_be_loaded_is_a_sentence(bare: Path) -> None:
    program(bare / "mpiexec", "HYDRA")
    (bare / "python").write_text(
        "#!/bin/sh\necho 'RuntimeError: cannot load MPI library' >&2\nexit 1\n"
    )
    (bare / "python").chmod(0o755)
    with pytest.raises(UsageError, match=r"cannot load .* \(RuntimeError: cannot.*MPI4PY_LIBMPI$"):
        require("mpi", OPTIONS)


def test_a_library_that_says_nothing_is_a_sentence(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bare / "mpiexec", "HYDRA")
    (bare / "python").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (bare / "python").chmod(0o755)
    monkeypatch.setattr(mpiexec, "LIMIT_S", 0.1)
    with pytest.raises(UsageError, match=r"mpi4py has not told within 0 s which library"):
        require("mpi", OPTIONS)


def test_open_mpi_for_root_is_asked_for_by_the_user(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    launcher = program(bare / "mpiexec", "mpiexec (OpenRTE) 4.1.4")
    program(bare / "python", "Open MPI v4.1.4")
    with pytest.raises(UsageError, match=r"starts nothing for root: .*_ROOT=1 and .*_CONFIRM=1$"):
        require("mpi", OPTIONS)
    monkeypatch.setenv(mpiexec.VARIABLE, f"{launcher} {mpiexec.ALLOW}")
    require("mpi", OPTIONS)
    monkeypatch.delenv(mpiexec.VARIABLE)
    for name in mpiexec.AS_ROOT:
        monkeypatch.setenv(name, "1")
    require("mpi", OPTIONS)


def test_too_many_slots_for_open_mpi_are_a_sentence() -> None:
    said = "There are not enough slots available in the system to satisfy the 8\nslots"
    assert "--workers 8: give fewer, or" in refusal(said, 8, "V")
    assert "V='mpiexec --oversubscribe'" in refusal(said, 8, "V")
    assert refusal("anything else", 8, "V") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("'There are not enough slots available'", "Open MPI has fewer slots than --workers 2"),
        ("bang", "ended with status 3 before its ranks were ready; see .*worker.log"),
    ],
)
def test_a_launcher_that_starts_nothing_is_a_sentence(
    bare: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    program(bare / "mpiexec", words.strip("'"), status=3)
    ranks = Ranks(EngineOptions(bare, 2))
    with pytest.raises(RunStopped, match=said):
        ranks.survey()


def test_srun_is_told_to_end_all_ranks_with_one(bare: Path) -> None:
    """By itself it lets them wait for the one that has died."""
    program(bare / "mpiexec", "'; echo kill: $SLURM_KILL_BAD_EXIT; : '", status=3)
    ranks = Ranks(EngineOptions(bare, 2))
    with pytest.raises(RunStopped, match="ended with status 3"):
        ranks.survey()
    assert "kill: 1\n" in ranks.log.read_text()


@pytest.mark.parametrize(
    ("launcher", "said"),
    [("mpiexec", f"name the mpiexec .* {mpiexec.VARIABLE}"), ("srun", "the --mpi=... of that")],
)
def test_worlds_of_one_rank_each_are_a_sentence(
    bare: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, said: str
) -> None:
    """As when a library of another MPI does not hear of the launcher's others."""
    monkeypatch.setenv(mpiexec.VARIABLE, str(bare / launcher))
    answer = r'printf "\036hyperslab {\"size\": 1}\n"; exec /bin/sleep 30'
    (bare / launcher).write_text(f"#!/bin/sh\n{answer}\n")
    (bare / launcher).chmod(0o755)
    ranks = Ranks(EngineOptions(bare, 2))
    with pytest.raises(RunStopped, match=f"{launcher} and .* do not find each other: .*{said}"):
        ranks.survey()
    ranks.kill()


def test_a_process_that_mpi_knows_alone_is_told_who_has_started_more(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(mpiexec.STEP_SIZE, raising=False)
    assert "this process is alone: start the command by mpiexec" in joined._alone()
    monkeypatch.setenv(mpiexec.STEP_SIZE, "3")
    assert "srun has started 3 ranks, but" in joined._alone()
    monkeypatch.setenv("PMI_SIZE", "4")
    assert "mpiexec has started 4 ranks, but" in joined._alone()
