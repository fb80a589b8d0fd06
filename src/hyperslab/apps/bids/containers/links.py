"""Links that the app of a group level has left: the container knows its folder, and others, by
other paths than tasks do.

- absolute links into its own folder become relative ones, which lead to the same files
- absolute links to elsewhere, as to files of the image or to results that were shown, are no
  results, and go
- relative ones stay as they are

Held by tests/apps/bids/containers/test_links.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hyperslab.apps.bids.containers.runtimes import OUT
from hyperslab.storage.permitted import open_folders


def settle_links(private: Path) -> list[str]:
    """Let absolute links lead to what is meant below the folder that a container knew as /out;
    names of those that lead elsewhere, which are removed.
    """
    with suppress(OSError):  # of somebody else: whoever collects results says so
        open_folders(private)
    links = list(_absolute_links(private))
    for link in links:
        _make_relative(private, link)
    removed = _removed(links)
    return [link.relative_to(private).as_posix() for link in removed]


def _absolute_links(private: Path) -> Iterator[Path]:
    for top, folders, files in os.walk(private):
        for path in (Path(top, name) for name in sorted((*folders, *files))):
            if path.is_symlink() and os.path.isabs(os.readlink(path)):
                yield path


def _make_relative(private: Path, link: Path) -> None:
    """Let a link into the folder lead there from where it is."""
    target = os.path.normpath(os.readlink(link))
    if os.path.commonpath([target, OUT]) != OUT:
        return
    here = private / os.path.relpath(target, OUT)
    link.unlink()
    link.symlink_to(os.path.relpath(here, link.parent))


def _removed(links: list[Path]) -> list[Path]:
    """Remove links that lead out of the folder, or to nothing in it, and those to such links."""
    removed: list[Path] = []
    before = -1
    while before != len(removed):
        before = len(removed)
        for link in links:
            if link.is_symlink() and _leads_out(link):
                link.unlink()
                removed.append(link)
    return sorted(removed)


def _leads_out(link: Path) -> bool:
    return os.path.isabs(os.readlink(link)) or not link.exists()
