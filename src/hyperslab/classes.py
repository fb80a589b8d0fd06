"""Frozen dataclasses with slots, made in a quarter of the time.

Python's own decorator (before 3.13) compiles six functions for every class, which takes two fifths
of the import of our modules, in the driver and in each worker. Here it is `__init__` alone; the
others are the same code for all classes. What a class is and does is as with Python's own. Classes
in the reference of the documentation are made by that, which its generator knows.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["dataclass"]

Kind = type[Any]


def _dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, **more: Any
) -> Callable[[Kind], Kind]:
    """Class decorator, as `dataclasses.dataclass`: for frozen classes with slots in less time."""

    def decorate(kind: Kind) -> Kind:
        if more or not (frozen and slots) or not _is_plain(kind):
            return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq, **more)(kind)
        return _made(kind, eq)

    return decorate


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _is_plain(kind: Kind) -> bool:
    """Whether a class has fields, all of them its own and given to its making by place, and no
    methods in place of those that are the same for all.
    """
    kinds = inspect.get_annotations(kind).values()
    if not kinds or any("InitVar" in str(one) for one in kinds):
        return False
    if any(hasattr(base, "__dataclass_fields__") for base in kind.__bases__):
        return False
    told = [one for one in kind.__dict__.values() if isinstance(one, Field)]
    if any(not one.init or one.kw_only is True or one.hash is not None for one in told):
        return False
    return kind.__dict__.keys().isdisjoint(("__init__", "__eq__", "__hash__", "__setattr__"))


def _made(kind: Kind, eq: bool) -> Kind:
    has_words = "__repr__" in kind.__dict__
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(kind)
    made.__dataclass_params__.frozen = True
    known = dataclasses.fields(made)
    methods = {"__init__": _init(made, known), **_OF_ALL}
    if has_words:
        del methods["__repr__"]
    if eq:
        methods |= _comparing([one.name for one in known if one.compare])
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def _init(made: Kind, known: Sequence[Field[Any]]) -> Callable[..., None]:
    """What makes an object of its fields, compiled."""
    names: dict[str, Any] = {"MISSING": MISSING}
    parameters = []
    lines = []
    for one in known:
        name = one.name
        names[f"set_{name}"] = made.__dict__[name].__set__
        value = name
        if one.default is not MISSING:
            names[f"default_{name}"] = one.default
            parameters.append(f"{name}=default_{name}")
        elif one.default_factory is not MISSING:
            names[f"make_{name}"] = one.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"make_{name}() if {name} is MISSING else {name}"
        else:
            parameters.append(name)
        lines.append(f"    set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("    self.__post_init__()")
    text = "\n".join([f"def __init__(self, {', '.join(parameters)}):", *lines])
    exec(text, names)  # noqa: S102  # of names of fields alone
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {one.name: one.type for one in known} | {"return": None}
    return init


def _comparing(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """What compares two objects of a class, and hashes one, by these fields."""
    values = _values_of(names)

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed}


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


@reprlib.recursive_repr()
def _words(self: Any) -> str:
    known = [one.name for one in dataclasses.fields(self) if one.repr]
    told = ", ".join(f"{name}={getattr(self, name)!r}" for name in known)
    return f"{self.__class__.__qualname__}({told})"


def _refuse_to_set(self: Any, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _restore(self: Any, state: Sequence[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_OF_ALL: dict[str, Callable[..., Any]] = {
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _restore,
    "__repr__": _words,
}
"Methods that are the same for all classes."
