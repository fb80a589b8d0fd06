"""Experiments that are interrupted, and what is said of that."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from hyperslab.apps.experiment.claims.claim import Claim
from hyperslab.apps.experiment.claims.page import Paper
from hyperslab.apps.experiment.design.shipped import SpecFile
from hyperslab.apps.experiment.trials import runner
from hyperslab.cli import verdicts as command
from tests.apps.experiment.specs import TEXT
from tests.system.end_to_end.command import call


def judge(*_: object) -> NoReturn:
    """What no trial comes to."""
    raise AssertionError


def test_who_interrupts_is_told_the_command_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a page of verdicts it is the same one; of an experiment another verb."""

    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    small = SpecFile("small", "small.toml", f"{TEXT}\n[scales.laptop]\n", tmp_path)
    paper = Paper("page", "Small", "Nobody, 2019", (Claim("Nothing.", "small", judge),))
    monkeypatch.setattr(command, "find", lambda _: small)
    monkeypatch.setattr(command, "paper_of", lambda _: paper)
    monkeypatch.setattr(runner, "mounted", interrupted)
    verdicts = ("verdicts", "small", "--in", tmp_path, "-o", tmp_path / "pages", "--run")
    spec = tmp_path / "spec.toml"
    spec.write_text(TEXT)
    for words, told in (
        (verdicts, "the same command, with --run, goes on from here"),
        (("run", spec, "--out", tmp_path / "out"), "'hyperslab experiment resume' with the same"),
    ):
        done = call("experiment", *words)
        assert done.code == 130
        assert "interrupted" in done.err
        assert told in done.err
