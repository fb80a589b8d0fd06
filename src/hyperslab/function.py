"""FunctionRef: a user's function, or any object, by a name that another process can load it from."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from hyperslab.errors import HyperslabError, UsageError


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRef:
    """Where a function comes from, what it was when the plan was made, and the parameters it gets."""

    target: str
    "module:name, /path/file.py:name, or the name of an object that travels as a pickle."
    digest: str
    "SHA-256 of the source file or of the pickle: part of a plan's fingerprint."
    params: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes | None = None
    "The pickle, for what has no importable name (lambdas, closures, functions of a script or notebook)."

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.target.rpartition(":")[2]

    def load(self) -> Any:
        """The object itself. Raises HyperslabError when its file changed after planning."""
        return _load(self.target, self.digest, self.payload)


def refer(what: Any, params: Mapping[str, Any] | None = None) -> FunctionRef:
    """Make a reference to `module:name`, `file.py:name` or an object; loads it once, so that mistakes show early.

    Raises UsageError when it cannot be found, imported or pickled.
    """
    if isinstance(what, FunctionRef):
        return what
    _pickled(params, "a parameter of the function")
    if isinstance(what, str):
        return _refer_by_name(what, params or {})
    return _refer_to_object(what, params or {})


def _pickled(what: Any, label: str) -> bytes:
    try:
        return bytes(cloudpickle.dumps(what))
    except Exception as error:
        raise UsageError(
            f"{label} cannot be sent to a worker: {error}; "
            "keep open files, locks and connections out of it, or open them inside the function"
        ) from error


def _refer_by_name(text: str, params: Mapping[str, Any]) -> FunctionRef:
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(f"FUNCTION '{text}': give a built-in's name, module:function or file.py:function")
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"FUNCTION '{text}': there is no file {path}")
        ref = FunctionRef(f"{path}:{name}", _file_digest(path), params)
    else:
        ref = FunctionRef(text, _module_digest(place, text), params)
    try:
        ref.load()
    except HyperslabError:
        raise
    except Exception as error:
        raise UsageError(f"FUNCTION '{text}' cannot be loaded: {type(error).__name__}: {error}") from error
    return ref


def _refer_to_object(what: Any, params: Mapping[str, Any]) -> FunctionRef:
    module, name = getattr(what, "__module__", None), getattr(what, "__qualname__", "")
    if module and module != "__main__" and getattr(sys.modules.get(module), name, None) is what:
        return FunctionRef(f"{module}:{name}", _module_digest(module, name), params)
    label = name or type(what).__name__
    payload = _pickled(what, f"the function {label}")
    return FunctionRef(label, hashlib.sha256(payload).hexdigest(), params, payload)


@functools.lru_cache(maxsize=64)
def _load(target: str, digest: str, payload: bytes | None) -> Any:
    if payload is not None:
        return pickle.loads(payload)
    place, _, name = target.rpartition(":")
    module = _module_from_file(Path(place), digest) if place.endswith(".py") else importlib.import_module(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"FUNCTION '{target}': {place} has no '{part}'")
        found = getattr(found, part)
    return found


def _module_from_file(path: Path, digest: str) -> ModuleType:
    if _file_digest(path) != digest:
        raise HyperslabError(f"{path} was edited after the run was planned: start the run again")
    name = f"hyperslab_user_{digest[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # so that the file can import its neighbours
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _file_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HyperslabError(f"{path} cannot be read: {error.strerror}") from error


def _module_digest(module: str, text: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise UsageError(f"FUNCTION '{text}': {error}") from error
    if spec is None:
        raise UsageError(f"FUNCTION '{text}': there is no module '{module}' on the Python path")
    return _file_digest(Path(spec.origin)) if spec.has_location and spec.origin else module
