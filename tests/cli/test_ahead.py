"""Which lines a worker is started for before their verb is imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import pytest

from hyperslab import cli
from hyperslab.cli.ahead import _number, _value, worker_ahead


@pytest.mark.parametrize(
    "line",
    [
        "",
        "info a.nii",
        "status run",
        "run --help",
        "run increment a.nii -o out --dry-run",
        "run increment a.nii -o out --engine serial",
        "run increment a.nii -o out --engine=mpi --connect=world",
        "run increment a.nii -o out --engine unheard-of",
        "convert a.nii b.nii --engine threads",
    ],
)
def test_no_worker_starts_for_a_line_that_needs_none(line: str) -> None:
    assert isinstance(worker_ahead(line.split()), nullcontext)


def test_a_flag_means_what_it_says_last() -> None:
    line = "run --engine serial a --workers 2 --workers=x --engine=mpi --threads"
    words = line.split()
    assert _value(words, "--engine") == "mpi"
    assert _value(words, "--out") == ""
    assert _number(words, "--workers") is None
    assert _number(words[:6], "--workers") == 2
    assert _number(words, "--threads") is None


@contextmanager
def _interrupting(words: Sequence[str]) -> Iterator[None]:
    raise KeyboardInterrupt
    yield


def test_who_interrupts_it_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "worker_ahead", _interrupting)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "stats", "a.nii", "-o", "out"])
    assert ended.value.code == 130
    assert capsys.readouterr().err.endswith(
        "interrupted: run the same command with --resume to continue\n"
    )
