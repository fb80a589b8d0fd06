"""What waits while a command is imported, so that it starts sooner.

The collector of garbage waits: of what imports make, nothing is garbage. The threads of OpenBLAS,
which NumPy starts, go to sleep at once: by default each of them keeps a processor busy for 2^26
cycles before it does, as long as NumPy's import takes. What libraries import for one function that
no verb calls is imported when somebody looks into it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

BLAS_TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
"Read by OpenBLAS as it is loaded: its threads look for work for 2 to this power of cycles."
_SHORT = "20"
"Longer than between the calls of a computation, shorter than anybody notices."
_set_here: list[str] = []
RARELY_USED = "urllib.request"
"Module that nibabel imports to open a URL: with its HTTP and TLS a third of nibabel's import."
_filling = RLock()
"Held while such a module is executed, by the first of the threads that ask for it."


class Later(ModuleType):
    """A module that is executed when something of it is asked for, and then one like others."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__file__ = spec.origin
        self.__package__ = spec.parent

    def __getattr__(self, name: str) -> Any:
        with _filling:
            if type(self) is Later:
                self._fill()
        return getattr(self, name)

    def _fill(self) -> None:
        kind: type[ModuleType] = ModuleType
        self.__class__ = _Filled
        try:
            assert self.__spec__ is not None
            assert self.__spec__.loader is not None
            self.__spec__.loader.exec_module(self)
        except BaseException:
            kind = Later
            raise
        finally:
            object.__setattr__(self, "__class__", kind)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)


class _Filled(Later):
    """One that is being executed."""

    def __getattr__(self, name: str) -> Any:
        with _filling:  # others wait until it is
            pass
        return ModuleType.__getattribute__(self, name)


def begin() -> None:
    """Let both wait until `end`, and that module until it is used."""
    gc.disable()
    if RARELY_USED not in sys.modules:
        _put_off(RARELY_USED)
    if BLAS_TIMEOUT not in os.environ:
        os.environ[BLAS_TIMEOUT] = _SHORT
        _set_here.append(BLAS_TIMEOUT)


def _put_off(name: str) -> None:
    """Let a module be imported when it is used."""
    package, _, word = name.partition(".")
    spec = find_spec(name)
    assert spec is not None
    sys.modules[name] = module = Later(spec)
    setattr(import_module(package), word, module)


def end() -> None:
    """Let the collector of garbage begin, where it waited, and pass over what was imported; what
    was said to OpenBLAS is not for programs that the command starts.
    """
    while _set_here:
        os.environ.pop(_set_here.pop(), None)
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
