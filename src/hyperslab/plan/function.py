"""FunctionRef: a user's function, or any object, by a name that another process can load it
from.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import pickle
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hyperslab.errors import HyperslabError, UsageError, of_code, suggest
from hyperslab.plan.builtin import digest_of_parts, earlier_digest, version_of
from hyperslab.plan.definitions import parsed, unnamed

_loading = threading.RLock()
_BUILTINS = "hyperslab.workloads."
"Place of the built-ins' modules."
CAST = f"{_BUILTINS}cast:cast"
"The function by which a conversion gets another dtype: no function of its user's."
_USER_MODULE = "hyperslab_user_"
"Beginning of the names of modules that are loaded from users' files."
LAMBDA = "<lambda>"
"End of the name of every function that is an expression."
_PACKAGES = frozenset({"site-packages", "dist-packages"})
"Names of folders that installers fill."


@dataclass(frozen=True, slots=True, eq=False)
class FunctionRef:
    """Where a function comes from, what it was when the plan was made, and the parameters it
    gets.
    """

    target: str
    "module:name, /path/file.py:name, or the name of an object that travels as a pickle."
    digest: str
    "SHA-256 of the source files, of the pickle, or of a built-in's name and version."
    params: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    "Source file of the function and those of its neighbours that it imports, with their SHA-256."
    payload: bytes | None = None
    """The pickle, for what has no importable name (lambdas, closures, functions of a script or
    notebook).
    """
    earlier_digest: str = ""
    "Digest by which records of earlier versions know the same function, where that is another."

    def __repr__(self) -> str:
        return f"<hyperslab.FunctionRef: {self.target}>"

    @property
    def is_ours(self) -> bool:
        """Whether it is one of this package, which says by itself what it needs and returns."""
        return self.target.startswith("hyperslab.")

    @property
    def is_cast(self) -> bool:
        """Whether it gives values another dtype, and changes none."""
        return self.target == CAST

    @property
    def is_built_in(self) -> bool:
        """Whether it is a built-in, whose lines mean nothing to who uses it."""
        return self.target.startswith(_BUILTINS)

    @property
    def known_as(self) -> str:
        """What records know it by beside its code: its own name, whether it is given by a path or
        as one of a module, and wherever its file lies; all of `target` where there is no file.
        """
        if self.is_ours or not self.files:
            return self.target
        return self.name

    @property
    def name(self) -> str:
        """The function's own name; of a built-in that which users call it by."""
        return called(self.target)

    def load(self) -> Any:
        """The object itself. Raises HyperslabError when its file changed after planning."""
        # a module that another thread is about to import has not all of its names yet
        with _loading:
            found = _load(self.target, self.files, self.payload)
        if len(self.files) > 1 and ".py:" in self.target:
            from hyperslab.plan.neighbours import bring  # which others do without

            bring(_user_module(self.files))
        return found


def called(target: str) -> str:
    """A function's own name; a built-in goes by that of its module."""
    place, _, name = target.rpartition(":")
    built_in = place.removeprefix(_BUILTINS)
    if built_in == place:
        return name
    return built_in.replace("_", "-")


def refer(what: Any, params: Mapping[str, Any] | None = None) -> FunctionRef:
    """Make a reference to `module:name`, `file.py:name` or an object; loads it once, so that
    mistakes show early.

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
        import cloudpickle  # whose own imports take long; workers of built-ins need none

        return bytes(cloudpickle.dumps(what))
    except Exception as error:
        raise UsageError(
            f"{label} cannot be sent to a worker: {error}; "
            "keep open files, locks and connections out of it, or open them inside the function"
        ) from error


def _refer_by_name(text: str, params: Mapping[str, Any]) -> FunctionRef:
    place, colon, name = text.rpartition(":")
    if not name and Path(place).is_file():
        raise UsageError(unnamed(text, Path(place)))
    if not colon or not place or not name:
        raise UsageError(
            f"FUNCTION '{text}': give a built-in's name, module:function or file.py:function"
        )
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise UsageError(f"FUNCTION '{text}': there is no file {path}")
        target = f"{path}:{name}"
        files = _with_those_beside(path)
    else:
        target = text
        files = _module_file(place, text)
    try:
        _load(target, files, None)
    except HyperslabError as error:
        of_code(error)
        raise
    except SystemExit as error:
        raise of_code(
            UsageError(
                f"FUNCTION '{text}' cannot be loaded: its file calls sys.exit({error.code!r}) as it"
                " is imported: put that below if __name__ == '__main__':"
            )
        ) from error
    except Exception as error:
        raise of_code(
            UsageError(f"FUNCTION '{text}' cannot be loaded: {type(error).__name__}: {error}")
        ) from error
    return _with_neighbours(target, files, params)


def _with_neighbours(
    target: str, files: tuple[tuple[str, str], ...], params: Mapping[str, Any]
) -> FunctionRef:
    """The reference, resting on the function's file and on what that imports from beside it."""
    if not files:
        return FunctionRef(target, digest_of_parts(target, []), params)
    place = target.rpartition(":")[0]
    if place.endswith(".py"):
        place = _user_module(files)
    module = sys.modules[place]
    if (version := version_of(module)) is not None:
        digest = digest_of_parts(target, version)
        before = earlier_digest(target, module)
        return FunctionRef(target, digest, params, files, earlier_digest=before)
    imported = imported_files(str(module.__file__), module.__package__ or "", _origin)
    beside = {name: _file_digest(Path(name)) for name in imported}
    beside.pop(files[0][0], None)
    files = (files[0], *sorted(beside.items()))
    parts = [digest for _, digest in files]
    before = digest_of_parts(target, parts)
    ref = FunctionRef(target, before, params, files)
    return replace(ref, digest=digest_of_parts(ref.known_as, parts), earlier_digest=before)


def _with_those_beside(path: Path) -> tuple[tuple[str, str], ...]:
    """A user's file and what it imports from beside it, each with its digest."""
    first = (str(path), _file_digest(path))
    try:
        found = imported_files(str(path), "", _origin_beside)
    except (OSError, SyntaxError, ValueError):
        return (first,)  # loading it tells what is wrong
    others = sorted(found - {str(path)})
    return (first, *((name, _file_digest(Path(name))) for name in others))


def imported_files(file: str, package: str, find: Callable[[str, Path], str | None]) -> set[str]:
    """Source files below a module's folder that it imports, anywhere in its text, and they in turn,
    its own among them; none of what is installed. `find` says where the file of a module is, by its
    name and that folder. Raises OSError, SyntaxError and ValueError.
    """
    folder = Path(file).parent
    found: set[str] = set()
    waiting = [(file, package)]
    while waiting:
        place, package = waiting.pop()
        if place in found or not _is_own(Path(place), folder):
            continue
        found.add(place)
        for name in _imported_names(Path(place), package):
            origin = find(name, folder)
            if origin is not None:
                waiting.append((origin, package_of(name, origin)))
    return found


def package_of(name: str, origin: str) -> str:
    """The package that relative imports of a module begin from."""
    if origin.endswith("__init__.py"):
        return name
    return name.rpartition(".")[0]


def _imported_names(path: Path, package: str) -> Iterator[str]:
    """Every module that a source file may mean by what it imports."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _base(node: ast.ImportFrom, package: str) -> str:
    """The module that names are imported from."""
    parts: list[str] = []
    if node.level:
        above = package.split(".")
        parts = above[: len(above) - node.level + 1]
    if node.module:
        parts.append(node.module)
    return ".".join(parts)


def _origin(name: str, folder: Path) -> str | None:
    """The file of a module that lies beside, or that is loaded: nothing is imported to find out."""
    if beside := _origin_beside(name, folder):
        return beside
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if not loaded:
        return None
    return str(loaded)


def _origin_beside(name: str, folder: Path) -> str | None:
    """The file of a module that lies beside."""
    base = folder.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return str(path)
    return None


def _is_own(path: Path, folder: Path) -> bool:
    return path.suffix == ".py" and folder in path.parents and not is_installed(path)


def is_installed(path: Path) -> bool:
    """True for a file of Python, of an installed package, or of hyperslab itself."""
    return not _installed_places().isdisjoint(path.parents)


@functools.cache
def _installed_places() -> frozenset[Path]:
    """Folders of Python, of installed packages, and of hyperslab itself."""
    places = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    return frozenset({*places, Path(__file__).parents[1]})


def is_library(path: Path) -> bool:
    """True for a file that nobody edits: an installed one, also where another interpreter's folder
    of packages is on the path.
    """
    return is_installed(path) or not _PACKAGES.isdisjoint(path.parts[:-1])


def _refer_to_object(what: Any, params: Mapping[str, Any]) -> FunctionRef:
    module = getattr(what, "__module__", None)
    name = getattr(what, "__qualname__", "")
    if module and module != "__main__" and getattr(sys.modules.get(module), name, None) is what:
        return _with_neighbours(f"{module}:{name}", _module_file(module, name), params)
    label = name or type(what).__name__
    # the same function of another cell, or of a script that was moved, is the same one
    digest = hashlib.sha256(_pickled(what, f"the function {label}")).hexdigest()
    from hyperslab.plan.byvalue import pickled_with_places  # likewise

    return FunctionRef(label, digest, params, payload=pickled_with_places(what))


@functools.lru_cache(maxsize=64)
def _load(target: str, files: tuple[tuple[str, str], ...], payload: bytes | None) -> Any:
    if payload is not None:
        return pickle.loads(payload)
    for name, digest in files:
        # what is installed may lie elsewhere on a worker's host: see _require_from
        path = _here(name, digest)
        is_needed = name == files[0][0] and ".py:" in target
        if (path.exists() or is_needed) and _file_digest(path) != digest:
            raise HyperslabError(
                f"{name} was edited after the run was planned: start the run again"
            )
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        module = _module_from_file(_here(*files[0]), files)
    else:
        module = importlib.import_module(place)
        _require_from(module, files)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(
                f"FUNCTION '{target}': {place} has no '{part}'{suggest(part, _usable(found))}"
            )
        found = getattr(found, part)
    return found


def _usable(place: Any) -> list[str]:
    """Names in a module, or a class, of what may be run: no modules that it has imported."""
    return [name for name in dir(place) if not isinstance(getattr(place, name, None), ModuleType)]


_copies: dict[tuple[str, str], str] = {}


def use_copies(copies: Mapping[tuple[str, str], str]) -> None:
    """Load source files from copies of theirs: (path on the driver's host, SHA-256) -> path
    here.
    """
    _copies.update(copies)
    importlib.invalidate_caches()


def original_of(path: str) -> str:
    """Where a source file, or a copy of it here, lies on the driver's host."""
    for (name, _), copy in _copies.items():
        if copy == path:
            return name
    return path


def _require_from(module: ModuleType, files: tuple[tuple[str, str], ...]) -> None:
    """Raise HyperslabError when the module was imported from another file than the one whose
    content was compared.
    """
    place = getattr(module, "__file__", None)
    if files and place and Path(place).is_file() and _file_digest(Path(place)) != files[0][1]:
        raise HyperslabError(
            f"{module.__name__} comes from {place}, which is not what was planned with:"
            f" {files[0][0]}"
        )


def _here(path: str, digest: str) -> Path:
    """Where a source file of this content is to be read."""
    return Path(_copies.get((path, digest), path))


def _user_module(files: tuple[tuple[str, str], ...]) -> str:
    """Name of the module of a user's file: another one for each path and content of it and of what
    lies beside it.
    """
    return f"{_USER_MODULE}{digest_of_bytes(repr(files).encode())[:16]}"


def is_users_module(name: str) -> bool:
    """Whether it is the name of a module that was loaded from a user's file."""
    return name.startswith(_USER_MODULE)


def module_now(name: str, needed: str) -> str:
    """The one module of a user's file that has what one from before the file was edited is needed
    for; the same name for others, and where none or several have it.
    """
    if not is_users_module(name) or name in sys.modules:
        return name
    first = needed.partition(".")[0]
    loaded = {other: module for other, module in sys.modules.items() if is_users_module(other)}
    found = [other for other, module in loaded.items() if hasattr(module, first)]
    if len(found) != 1:
        return name
    return found[0]


def _module_from_file(path: Path, files: tuple[tuple[str, str], ...]) -> ModuleType:
    name = _user_module(files)
    folder = path.parent
    if name in sys.modules:
        return sys.modules[name]
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # for what is imported by its name in a text
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    if len(files) > 1:
        from hyperslab.plan.neighbours import builtins_of  # which others do without

        vars(module)["__builtins__"] = builtins_of(name, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _file_digest(path: Path) -> str:
    try:
        return digest_of_bytes(path.read_bytes())
    except OSError as error:
        raise HyperslabError(f"{path} cannot be read: {error.strerror}") from error


def digest_of_bytes(content: bytes) -> str:
    """SHA-256 of a source file."""
    return hashlib.sha256(content).hexdigest()


def _module_file(module: str, text: str) -> tuple[tuple[str, str], ...]:
    """The source file of an importable module with its digest; none for what is compiled in."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise UsageError(f"FUNCTION '{text}': {error}") from error
    if spec is None:
        raise UsageError(f"FUNCTION '{text}': there is no module '{module}' on the Python path")
    if not spec.has_location or not spec.origin:
        return ()
    return ((spec.origin, _file_digest(Path(spec.origin))),)


def digest_of(value: Any) -> str:
    """SHA-256 of a parameter: equal values have equal ones in every process. Raises UsageError for
    what has none.
    """
    return hashlib.sha256(_canonical(value)).hexdigest()


def _canonical(value: Any) -> bytes:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return f"{type(value).__name__} {value!r}".encode()
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        head = f"array {value.dtype.str} {value.shape}".encode()
        return head + np.ascontiguousarray(value).tobytes()
    if isinstance(value, Mapping):
        fields = [_canonical(name) + b":" + _canonical(each) for name, each in value.items()]
        return b"{" + b",".join(sorted(fields)) + b"}"
    if isinstance(value, (set, frozenset)):
        return b"s(" + b",".join(sorted(map(_canonical, value))) + b")"
    if isinstance(value, (list, tuple)):
        return b"(" + b",".join(map(_canonical, value)) + b")"
    return _pickled(value, f"the parameter {value!r:.60}")
