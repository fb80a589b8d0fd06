"""What jobs have made, in a form in which two can be compared: what may differ from run to run is
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

GZIP = b"\x1f\x8b"
"""Chunks of a Zarr store that begin so have the time at which they were written in bytes 4 to 7
(RFC 1952).
"""
Entries = dict[str, bytes]
"By name below the output directory: the bytes of a file, or what it holds if these may differ."


def entries(out: Path) -> Entries:
    """All files under final names."""
    return {str(path.relative_to(out)): _held(path) for path in _files(out)}


def differences(found: Entries, expected: Entries) -> list[str]:
    """How a complete result differs from the one expected."""
    missing = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    more = [f"{name} should not be there" for name in sorted(found.keys() - expected.keys())]
    return missing + more + _changed(found, expected)


def torn(found: Entries, *expected: Entries) -> list[str]:
    """What has its final name and is not what one of these complete results has there; much may be
    missing.
    """
    tops = sorted({_top(name) for name in found})
    return [
        top for top in tops if all(_below(found, top) != _below(whole, top) for whole in expected)
    ]


def _files(out: Path) -> Iterator[Path]:
    """Not the records, nor what is unfinished, nor the parts behind a file of HDF5, which is read
    with them.
    """
    for top in sorted(out.iterdir()) if out.is_dir() else []:
        if top.name.startswith(".") or ".parts-" in top.name:
            continue
        yield from (path for path in sorted([top, *top.rglob("*")]) if path.is_file())


def _held(path: Path) -> bytes:
    if path.suffix in (".h5", ".nc"):
        return _datasets(path) or path.read_bytes()
    raw = path.read_bytes()
    is_chunk = path.suffix == ""
    return raw[:4] + bytes(4) + raw[8:] if is_chunk and raw.startswith(GZIP) else raw


def _datasets(path: Path) -> bytes:
    """All datasets with their attributes, whose places in the file are nobody's business; b'' if it
    is not HDF5.
    """
    if not h5py.is_hdf5(path):
        return b""
    held: list[bytes] = []

    def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
        held.append(repr((name, _attributes(item))).encode())
        if isinstance(item, h5py.Dataset):
            stored = (item.shape, item.dtype, item.chunks, item.compression, item.is_virtual)
            held.extend((repr(stored).encode(), np.asarray(item[()]).tobytes()))

    try:
        with h5py.File(path, "r", locking=False) as file:
            visit("/", file)
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        return f"cannot be read: {error}".encode()
    return b"\n".join(held)


def _attributes(item: h5py.Dataset | h5py.Group) -> list[tuple[str, str]]:
    """References to other objects are addresses, which may differ."""
    plain = {
        name: value
        for name, value in item.attrs.items()
        if "reference" not in str(getattr(value, "dtype", ""))
    }
    return sorted(
        (name, repr(value))
        for name, value in plain.items()
        if "REFERENCE" not in name and "DIM" not in name
    )


def _changed(found: Entries, expected: Entries) -> list[str]:
    names = sorted(found.keys() & expected.keys())
    return [
        f"{name} differs{_where(found[name], expected[name])}"
        for name in names
        if found[name] != expected[name]
    ]


def _where(found: bytes, expected: bytes) -> str:
    if len(found) != len(expected):
        return f": {len(found)} bytes instead of {len(expected)}"
    places = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(expected, np.uint8))
    return f" in {len(places)} of {len(found)} bytes, from {places[0]} to {places[-1]}"


def _top(name: str) -> str:
    return name.partition("/")[0]


def _below(found: Entries, top: str) -> Entries:
    return {name: held for name, held in found.items() if _top(name) == top}
