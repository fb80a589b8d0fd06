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
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

BLAS_TIMEOUT = "OPENBLAS_THREAD_TIMEOUT"
"Read by OpenBLAS as it is loaded: its threads look for work for 2 to this power of cycles."
_SHORT = "20"
"Longer than between the calls of a computation, shorter than anybody notices."
_set_here: list[str] = []
RARELY_USED = "urllib.request"
"Module that nibabel imports to open a URL: with its HTTP and TLS a third of nibabel's import."


class Later(ModuleType):
    """A module that is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


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
    module = Later(name)
    module.__spec__ = find_spec(name)
    sys.modules[name] = module
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
