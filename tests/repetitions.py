"""Tests that make a point once more: on another engine, of another spec, in another format, by
another reader. `make test` leaves them out, `make test-all` plays them.

What is marked says which point it makes, and what makes it in `make test`. A test that is the only
one to notice a fault, such as that of a mutant, is no repetition.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

ALL = "HYPERSLAB_ALL_TESTS"
"Environment variable that has repetitions played, too, if it is set."
MARK = "repetition"
CROSSED = "each_value"
LEFT_OUT = pytest.StashKey[int]()
"Number of repetitions that this session leaves out."
Suite = TypeVar("Suite", bound=type)


def repeats(point: str) -> pytest.MarkDecorator:
    """Mark a test, or one of its cases, as a repetition of a point."""
    return pytest.mark.repetition(point)


def few(played: Collection[object], cases: Iterable[Any], point: str) -> list[Any]:
    """The cases of a test, of which all but these few repeat a point."""
    listed = list(cases)
    missing = [case for case in played if case not in listed]
    assert not missing, f"there are no such cases: {missing}"
    return [case if case in played else _repetition(case, point) for case in listed]


def _repetition(case: Any, point: str) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=repeats(point))


def each_value(point: str) -> pytest.MarkDecorator:
    """Mark a test that is parametrised several times, of whose combinations all but the first
    values together, the second ones, and so on, repeat a point: each value comes once at least.
    """
    return pytest.mark.each_value(point)


def only(names: Collection[str]) -> Callable[[Suite], Suite]:
    """Have a class play these tests, or cases `test[case]`, of the suite that it inherits; the
    others are repetitions.
    """
    tests = {name.partition("[")[0] for name in names}

    def chosen(cls: Suite) -> Suite:
        suite = {name for name in dir(cls) if name.startswith("test_")} - vars(cls).keys()
        assert suite.issuperset(tests), tests - suite
        cls.inherited = frozenset(suite)  # type: ignore[attr-defined]
        cls.played = frozenset(names)  # type: ignore[attr-defined]
        return cls

    return chosen


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take repetitions out of what is collected, unless all is to be played."""
    if ALL in os.environ:
        return
    single = [item for item in items if not is_repetition(item)]
    played = set(single) - set(further_combinations(single))
    repeated = [item for item in items if item not in played]
    items[:] = [item for item in items if item in played]
    config.stash[LEFT_OUT] = len(repeated)
    if repeated:
        config.hook.pytest_deselected(items=repeated)


def is_repetition(item: pytest.Item) -> bool:
    """Whether a test is marked as one, or its class leaves it to others."""
    if item.get_closest_marker(MARK):
        return True
    suite = getattr(item, "cls", None)
    test = getattr(item, "originalname", item.name)
    if test not in getattr(suite, "inherited", ()):
        return False
    return not {test, item.name} & getattr(suite, "played", set())


def further_combinations(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those of tests that are marked by `each_value` which bring no value that is not played."""
    tests = defaultdict(list)
    for item in items:
        if item.get_closest_marker(CROSSED):
            tests[item.nodeid.partition("[")[0]].append(item)
    return [item for cases in tests.values() for item in _further(cases)]


def _further(cases: Sequence[Any]) -> list[pytest.Item]:
    """Cases of a test but the first values together, the second ones, and so on; of arguments with
    fewer values than others the first one comes again behind the last one.
    """
    values = [list(dict.fromkeys(names)) for names in zip(*map(_values, cases), strict=True)]
    most = max(map(len, values))
    played = {tuple(names[n % len(names)] for names in values) for n in range(most)}
    return [case for case in cases if _values(case) not in played]


def _values(case: Any) -> tuple[str, ...]:
    """The name of each value of a case: its own name joins them by what may be in one."""
    return tuple(case.callspec._idlist)


def told(config: pytest.Config) -> str:
    """What the summary says of those that were left out; nothing if none were."""
    left = config.stash.get(LEFT_OUT, 0)
    if not left:
        return ""
    return f"{left} repetitions were left to 'make test-all' ({ALL}=1, tests/repetitions.py)"
