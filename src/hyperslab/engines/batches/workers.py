"""Workers of somebody else's cluster: can they do the job, and how do they get hyperslab?"""

from __future__ import annotations

import platform
import threading
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from hyperslab.errors import RunStopped
from hyperslab.native import CORE

_SENT: Counter[tuple[ModuleType, ModuleType]] = Counter()
"How many runs of this process send a module by value at the moment, per pickler."
_COUNTING = threading.Lock()


@contextmanager
def sent_by_value(pickler: ModuleType, module: ModuleType) -> Iterator[None]:
    """What a copy of cloudpickle pickles of a module goes by value; runs in several threads may
    overlap.
    """
    with _COUNTING:
        pickler.register_pickle_by_value(module)
        _SENT[pickler, module] += 1
    try:
        yield
    finally:
        with _COUNTING:
            _SENT[pickler, module] -= 1
            if not _SENT[pickler, module]:
                pickler.unregister_pickle_by_value(module)


def require_able(answers: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Raise RunStopped for workers that could not do the job, saying which and what to do."""
    version = import_module("hyperslab").__version__
    here = ".".join(platform.python_version_tuple()[:2])
    for answer in answers:
        host = answer["host"]
        if not answer["sees"]:
            raise RunStopped(
                f"the workers on {host} cannot write to {folder}: choose an output directory (-o),"
                " and for 'hyperslab tiers' a current one, on a file system that driver and workers"
                " share"
            )
        if answer["python"] != here:
            raise RunStopped(
                f"the workers on {host} run Python {answer['python']}, this is {here}: functions"
                " cannot be sent between them; use the same version on both sides"
            )
        if answer["missing"]:
            raise RunStopped(
                f"the workers on {host} lack {', '.join(answer['missing'])}: install them there, or"
                " install hyperslab there"
            )
        if answer["hyperslab"] not in ("", version):
            raise RunStopped(
                f"the workers on {host} have hyperslab {answer['hyperslab']}, this is {version}:"
                " install the same version there, or remove it so that this one is sent to them"
            )


def pack_hyperslab(folder: Path) -> Path:
    """This package as a zip file that Python can import from, for workers that have none."""
    package = Path(__file__).parents[2]
    path = folder / "hyperslab.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted([*package.rglob("*.py"), *package.glob(CORE)]):
            archive.write(file, file.relative_to(package.parent))
    return path
