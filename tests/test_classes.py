"""Classes that `hyperslab.classes` makes are those that Python makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import InitVar, field
from pathlib import Path
from typing import Any

import pytest

from hyperslab import classes
from hyperslab.classes import dataclass

REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"

Decorator = Callable[..., Any]


def _classes(decorator: Decorator) -> list[type[Any]]:
    """The same classes, made by one decorator."""

    @decorator(frozen=True, slots=True)
    class Point:
        """A place."""

        x: int
        y: float = 0.5
        names: list[str] = field(default_factory=list, compare=False)
        secret: str = field(default="", repr=False)

        @property
        def both(self) -> tuple[int, float]:
            return self.x, self.y

    @decorator(frozen=True, slots=True)
    class Single:
        """One field, checked."""

        value: float

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("it is negative")

    @decorator(frozen=True, slots=True, eq=False)
    class Alone:
        """Equal to itself alone."""

        value: int = 3

        def __repr__(self) -> str:
            return "<alone>"

    @decorator(frozen=True, slots=True)
    class Made:
        """A field that only its making is given."""

        size: int = 0
        asked: InitVar[str] = "2"  # type: ignore[assignment]  # the decorator is not known

        def __post_init__(self, asked: str) -> None:
            object.__setattr__(self, "size", int(asked))

    @decorator(frozen=True, slots=True)
    class Odd:
        """Fields that are not given by place."""

        size: int
        least: bool = field(default=False, kw_only=True)
        own: int = field(default=7, init=False)

    return [Point, Single, Alone, Made, Odd]


def _answers(kinds: list[type[Any]]) -> list[Any]:
    """What objects of these classes are and do."""
    point, single, alone, made, odd = kinds
    one = point(1, names=["a"], secret="b")
    other = point(1, names=["c"], secret="b")
    moved = dataclasses.replace(one, x=2)
    return [
        repr(one).rpartition(".")[2],
        one == other,
        hash(one) == hash(other),
        one == moved,
        one == (1, 0.5),
        one.both,
        moved.names is one.names,
        dataclasses.asdict(moved),
        [(each.name, each.type) for each in dataclasses.fields(point)],
        point.__match_args__,
        point.__doc__,
        point.__slots__,
        copy.copy(one) == one,
        copy.deepcopy(one).names,
        single(0.5) == single(0.5),
        hash(single(0.5)) == hash(single(0.5)),
        alone() == alone(),
        repr(alone()),
        made().size,
        dataclasses.is_dataclass(made),
        repr(odd(1, least=True)).rpartition(".")[2],
        dataclasses.replace(odd(1), size=2).size,
    ]


def _refusals(kinds: list[type[Any]]) -> list[str]:
    point, single, _, _, odd = kinds
    one = point(1)

    def attempt(deed: Callable[[], object]) -> str:
        try:
            deed()
        except (AttributeError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}".replace("_classes.<locals>.", "")
        return "nothing"

    return [
        attempt(lambda: setattr(one, "x", 2)),
        attempt(lambda: delattr(one, "x")),
        attempt(point),
        attempt(lambda: point(1, 2, [], "", 5)),
        attempt(lambda: point(1, z=2)),
        attempt(lambda: single(-1)),
        attempt(lambda: odd(1, True)),
        attempt(lambda: odd(1, own=3)),
        attempt(lambda: single(1) < single(2)),
    ]


def test_objects_are_those_of_pythons_own_dataclasses() -> None:
    own, pythons = _classes(dataclass), _classes(dataclasses.dataclass)
    assert _answers(own) == _answers(pythons)


def test_what_they_refuse_is_refused_in_the_same_words() -> None:
    own, pythons = _classes(dataclass), _classes(dataclasses.dataclass)
    assert _refusals(own) == _refusals(pythons)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is pickled."""

    name: str
    inner: Kept | None = None


def test_what_was_pickled_is_the_same_and_still_frozen() -> None:
    one = Kept("outer", Kept("inner"))
    again = pickle.loads(pickle.dumps(one))
    assert (again, repr(again)) == (one, repr(one))
    assert repr(one) == "Kept(name='outer', inner=Kept(name='inner', inner=None))"
    with pytest.raises(dataclasses.FrozenInstanceError):
        again.name = "other"


def test_classes_of_the_reference_are_pythons_own() -> None:
    """Its generator takes them for dataclasses by the name of their decorator."""
    lines = REFERENCE.read_text().splitlines()
    shown = [pkgutil.resolve_name(line[4:]) for line in lines if line.startswith("::: ")]
    modules = {one.__module__ for one in shown if dataclasses.is_dataclass(one)}
    assert "hyperslab.arrays.slab" in modules
    made_here = {
        name for name in modules if vars(sys.modules[name])["dataclass"] is classes.dataclass
    }
    assert made_here == set()
