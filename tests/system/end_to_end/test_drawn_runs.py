"""What small random runs say, on the terminal, on their page and to programs, holds together and
agrees with their plan. `python -m tests.system.end_to_end.drawn_runs` plays more of them.
"""

from __future__ import annotations

import os

import pytest

from tests.examples import part
from tests.system.end_to_end.drawn_runs import examined

SEED = int(os.environ.get("HYPERSLAB_DRAWN_SEED", "1"))
"Another seed draws other runs."
SHORT = part(15)
JUDGED = part(6)


@pytest.mark.parametrize("number", range(SHORT))
def test_short_runs_say_what_they_did(number: int) -> None:
    found = examined(SEED, number, is_judged=False)
    assert found.contradictions == [], found.command


@pytest.mark.parametrize("number", range(SHORT, SHORT + JUDGED))
def test_advice_can_be_followed(number: int) -> None:
    found = examined(SEED, number, is_judged=True)
    assert found.contradictions == [], found.command
    assert found.rules or found.refused


def test_a_terminal_that_says_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.cli.outcome.headline", lambda _: "7 tasks in no time")
    (said,) = examined(SEED, 0, is_judged=False).contradictions
    assert said.startswith("the terminal lacks: ")
