"""Shipment: the source files of users' functions, sent to workers that do not see the folder they
lie in.

A worker unpacks them below its temporary folder and loads from there; a file keeps its place
relative to the others, so that a module imports its neighbours. What is installed, on the driver as
on the workers, stays behind.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hyperslab.errors import HyperslabError
from hyperslab.plan.function import FunctionRef, digest_of_bytes, is_installed, use_copies

KEPT_S = 86_400


@dataclass(frozen=True, slots=True)
class Parcel:
    """One source file."""

    path: str
    "Where it lies on the driver's host."
    root: str
    "The folder on the import path that it is found from."
    content: bytes


@dataclass(frozen=True, slots=True)
class Shipment:
    """Source files, and what they are as one."""

    parcels: tuple[Parcel, ...] = ()
    refs: tuple[FunctionRef, ...] = ()
    "The functions, without their parameters."

    @property
    def digest(self) -> str:
        parts = []
        for parcel in self.parcels:
            parts += [parcel.path.encode(), parcel.root.encode(), parcel.content]
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


def pack(refs: Iterable[FunctionRef]) -> Shipment:
    """Every source file that the functions rest on. Raises HyperslabError for one edited since they
    were planned.
    """
    parcels: dict[str, Parcel] = {}
    refs = [replace(ref, params={}) for ref in refs]
    for ref in refs:
        for path, digest in ref.files:
            if not is_installed(Path(path)):
                parcels[path] = _parcel(Path(path), digest)
        for package in _packages(ref):
            parcel = Parcel(str(package), str(_root(package)), package.read_bytes())
            parcels.setdefault(parcel.path, parcel)
    return Shipment(tuple(parcels[path] for path in sorted(parcels)), tuple(refs))


def _parcel(path: Path, digest: str) -> Parcel:
    content = path.read_bytes()
    if digest_of_bytes(content) != digest:
        raise HyperslabError(f"{path} was edited after the run was planned: start the run again")
    return Parcel(str(path), str(_root(path)), content)


def _packages(ref: FunctionRef) -> set[Path]:
    """The __init__.py of every package that holds one of its files."""
    found = set()
    for path in (Path(name) for name, _ in ref.files if not is_installed(Path(name))):
        root = _root(path)
        found |= {folder / "__init__.py" for folder in path.parents if root in folder.parents}
    return {path for path in found if path.is_file()}


def _root(path: Path) -> Path:
    """The folder from which a file is imported: the nearest above it that is not a package."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def unpack(shipment: Shipment) -> None:
    """Load the functions from copies on this process's host; what an earlier shipment brought is
    forgotten.

    Loading at once keeps two shipments in one process apart, but for what functions import while
    they run.
    """
    if not shipment.parcels:
        return
    base = Path(tempfile.gettempdir()) / f"hyperslab-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    if base.stat().st_uid != os.getuid():
        raise HyperslabError(
            f"{base} belongs to another user: its code cannot be trusted; remove it or set TMPDIR"
        )
    folder = base / shipment.digest[:32]
    copies: dict[tuple[str, str], str] = {}
    roots: dict[str, None] = {}
    for parcel in shipment.parcels:
        root = folder / _name_of(parcel.root)
        place = root / os.path.relpath(parcel.path, parcel.root)
        _write_copy(place, parcel.content)
        copies[parcel.path, digest_of_bytes(parcel.content)] = str(place)
        roots[str(root)] = None
    _remove_old(base, folder)
    _forget_others(base, folder, shipment)
    kept = [entry for entry in sys.path if not entry.startswith(f"{base}/")]
    sys.path[:] = [*roots, *kept]
    use_copies(copies)
    for ref in shipment.refs:
        with suppress(Exception):  # said by every task that needs it
            ref.load()


def _name_of(root: str) -> str:
    return hashlib.sha256(root.encode()).hexdigest()[:12]


def _write_copy(path: Path, content: bytes) -> None:
    """The file appears whole, by rename, unless it exists already."""
    with suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with open(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


def _remove_old(base: Path, folder: Path) -> None:
    """Shipments that nobody has unpacked for a day."""
    os.utime(folder)
    for other in base.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - other.stat().st_mtime > KEPT_S:
                shutil.rmtree(other, ignore_errors=True)


def _forget_others(base: Path, folder: Path, shipment: Shipment) -> None:
    """Modules of an earlier shipment, or of the original files: they may say something else by
    now.
    """
    original = {parcel.path for parcel in shipment.parcels}
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None) or ""
        if place in original or (
            place.startswith(f"{base}/") and not place.startswith(f"{folder}/")
        ):
            del sys.modules[name]
