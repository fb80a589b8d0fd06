"""The documents of a Zarr store in an object store or on a web server.

- an array whose path is known is read by its own documents, in one round of requests; nothing is
  listed
- what a store holds is said by its consolidated metadata, which are a copy; where there are none,
  groups are listed
- a document that is denied counts as missing only where another says what the place is
  (`tests/storage/remote/test_zarr_faults.py`)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from hyperslab.errors import FormatError
from hyperslab.formats.zarr.metadata import Node, parsed, understood
from hyperslab.storage.location import Remote, RemoteFolder
from hyperslab.storage.remote.folder import fetch, folders, state
from hyperslab.storage.remote.objects import Answer
from hyperslab.storage.zarr_names import ROOTS

_DOCUMENTS = (*ROOTS, ".zattrs")
_CONSOLIDATED2 = ".zmetadata"
_KEPT = 16
"Places whose documents are kept from detection to description."

_Asked = Answer | FormatError | None


def node(folder: RemoteFolder) -> Node | None:
    """What a place is in a Zarr store, or None. Raises FormatError for documents that are denied or
    wrong.
    """
    return _node(folder, _documents(folder))


def is_node(folder: RemoteFolder) -> bool:
    """Whether a place is in a Zarr store, as far as one may know."""
    return any(isinstance(found, Answer) for found in _documents(folder)[: len(ROOTS)])


def place(store: RemoteFolder, name: str) -> RemoteFolder:
    """The place of an array in a store; '' names the store itself."""
    return store.folder(name)


def walk(folder: RemoteFolder) -> Iterator[tuple[str, Node]]:
    """The arrays of a store by their names, '' for one that is the store itself."""
    root = node(folder)
    if root is None:
        documents = ", ".join(ROOTS[:-1]) + f" or {ROOTS[-1]}"
        raise FormatError(
            f"{folder}: there is no such Zarr store, which has {documents}; check its name and its"
            " place"
        )
    if root.is_array:
        yield "", root
        return
    copies = _consolidated(folder, root)
    if copies is None:
        yield from _listed(folder, "")
        return
    for name in sorted(copies, key=lambda name: name.split("/")):
        yield name, copies[name]


def _documents(folder: RemoteFolder) -> list[_Asked]:
    """The documents of a place, as they were when they were first asked for by this description of
    it.
    """
    kept = _kept(folder.token)
    if not kept:
        kept.extend(fetch([folder.below(name) for name in _DOCUMENTS]))
    return kept


@lru_cache(_KEPT)
def _kept(token: str) -> list[_Asked]:
    return []


def _nodes(places: Sequence[RemoteFolder]) -> list[Node | None]:
    """What each of some places is."""
    asked = [[place.below(name) for name in _DOCUMENTS] for place in places]
    found = fetch([remote for remotes in asked for remote in remotes])
    number = len(_DOCUMENTS)
    return [_node(place, found[number * i : number * (i + 1)]) for i, place in enumerate(places)]


def _node(folder: RemoteFolder, found: Sequence[_Asked]) -> Node | None:
    answers = dict(zip(_DOCUMENTS, found, strict=True))
    attributes = answers.pop(".zattrs")
    for document, answer in answers.items():
        if isinstance(answer, Answer):
            where = folder.below(document)
            said = parsed(where, answer.data)
            raw = answer.data
            more = None
            if document != "zarr.json":
                more, added = _attributes(folder.below(".zattrs"), attributes)
                raw += added
            return understood(
                folder.as_of(answer.size or 0, state(answer)), document, said, more, raw
            )
    for answer in answers.values():
        if isinstance(answer, FormatError):
            raise answer
    return None


def _attributes(where: Remote, found: _Asked) -> tuple[dict[str, Any], bytes]:
    """The attributes of a node of version 2, which may have none."""
    if isinstance(found, FormatError):
        raise found
    if found is None:
        return ({}, b"")
    return (parsed(where, found.data), found.data)


def _consolidated(folder: RemoteFolder, root: Node) -> dict[str, Node] | None:
    """The arrays of a store by its consolidated metadata; None where it has none."""
    if root.document == "zarr.json":
        return _consolidated3(folder, root.said)
    where = folder.below(_CONSOLIDATED2)
    (found,) = fetch([where])
    if isinstance(found, FormatError):
        raise found
    if found is None:
        return None
    said = _entries(where, parsed(where, found.data))
    names = [key.rpartition("/")[0] for key in said if key.endswith("/.zarray")]
    return {
        name: understood(
            folder.folder(name),
            ".zarray",
            said[f"{name}/.zarray"],
            said.get(f"{name}/.zattrs"),
            b"",
        )
        for name in names
    }


def _consolidated3(folder: RemoteFolder, said: dict[str, Any]) -> dict[str, Node] | None:
    copy = said.get("consolidated_metadata")
    if copy is None:
        return None
    found = _entries(folder.below("zarr.json"), copy)
    nodes = {
        name: understood(folder.folder(name), "zarr.json", one, None, b"")
        for name, one in found.items()
    }
    return {name: one for name, one in nodes.items() if one.is_array}


def _entries(where: str, copy: Any) -> dict[str, dict[str, Any]]:
    found = None
    if isinstance(copy, dict):
        found = copy.get("metadata")
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise FormatError(
            f"{where}: its consolidated metadata are no JSON objects; consolidate the store again"
        )
    return found


def _listed(folder: RemoteFolder, name: str) -> Iterator[tuple[str, Node]]:
    """The arrays of a group by what is listed there."""
    names = [f"{name}/{below}".lstrip("/") for below in folders(folder.folder(name))]
    for below, found in zip(names, _nodes([folder.folder(below) for below in names]), strict=True):
        if found is not None and found.is_array:
            yield below, found
        elif found is not None:
            yield from _listed(folder, below)
