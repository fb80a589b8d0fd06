"""The benchmark that compares this checkout with another: what it refuses, and what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.before_after import MOST, Took, parsed, played, told
from benchmarks.tree_process import REGIONS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ([], "the following arguments are required: tree"),
        (["{empty}"], "there is no src/hyperslab in it: give a checkout"),
        (["{bare}"], "has no compiled core"),
        (["{root}", "--rounds", "0"], "--rounds 0: give 1 or more"),
        (["{root}", "--only", "writing"], "invalid choice: 'writing'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    line: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    (bare / "src" / "hyperslab").mkdir(parents=True)
    (bare / "src" / "hyperslab" / "__init__.py").touch()
    words = [word.format(empty=tmp_path, bare=bare, root=ROOT) for word in line]
    with pytest.raises(SystemExit, match=r"^2$"):
        parsed(words)
    assert said in capsys.readouterr().err


def test_a_checkout_is_named_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes work in its own folder."""
    package = tmp_path / "tree" / "src" / "hyperslab"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "_native.abi3.so").touch()
    monkeypatch.chdir(tmp_path)
    assert parsed(["tree", "--only", "run"]).tree == tmp_path / "tree"


@pytest.mark.parametrize(("factor", "slower"), [(MOST + 0.01, ["b"]), (MOST - 0.01, [])])
def test_what_takes_more_processor_time_is_named(
    factor: float, slower: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """By the median of pairs: the first of these rounds was a slow one for both."""
    before = [Took(1.0, seconds, "") for seconds in (9.0, 2.0, 2.0)]
    after = [Took(5.0, took.cpu_s * factor, "") for took in before]
    equal = {"before": before, "after": before}
    assert told({"a": equal, "b": {"before": before, "after": after}}) == slower
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == 4
    assert lines[3].startswith("b ")
    assert f"{factor:.3f} ({factor:.3f} to {factor:.3f}) processor" in lines[3]


def test_sides_whose_values_differ_are_not_compared() -> None:
    def differing(side: str, checks: bool) -> Took:
        return Took(1.0, 1.0, side)

    def unseen(side: str, checks: bool) -> Took:
        return Took(1.0, 1.0, "")

    for ask in (differing, unseen):
        with pytest.raises(SystemExit, match=r"^it: the values differ"):
            played({"it": ask}, 1)


def test_rounds_ask_both_sides_for_everything() -> None:
    asked: list[tuple[str, bool]] = []

    def ask(side: str, checks: bool) -> Took:
        asked.append((side, checks))
        return Took(1.0, 1.0, "5")

    taken = played({"it": ask}, 3)
    assert asked[:2] == [("before", True), ("after", True)]
    assert sorted(asked[2:]) == 3 * [("after", False)] + 3 * [("before", False)]
    assert {side: len(took) for side, took in taken["it"].items()} == {"before": 3, "after": 3}


@pytest.mark.parametrize("what", list(REGIONS))
def test_regions_that_are_read_lie_in_the_array(what: str) -> None:
    shape = (1024, 1024, 64)
    regions = list(REGIONS[what](shape))
    assert regions
    for region in regions:
        assert all(0 <= one.start < one.stop <= n for one, n in zip(region, shape, strict=True))
