"""Choosing: which backends work here, and which of them makes the links that are asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Protocol

from hyperslab.errors import MissingExtra, UsageError
from hyperslab.network.lab import namespaces
from hyperslab.network.lab.backends import emulator, kernel, netem
from hyperslab.network.lab.link import Link, Mode
from hyperslab.network.lab.reading import Reading
from hyperslab.network.lab.registry import Lab, Node

PROGRAMS = {"nsenter": "util-linux", "unshare": "util-linux", "mount": "mount", "umount": "mount"}
"Programs that every backend needs, with their Debian packages."
SLOWLY_ASKED = frozenset(("netem",))
"Backends that are asked for by way of a library that takes long to be imported."
INSTALL = "pip install 'hyperslab[netlab]'"


class Backend(Protocol):
    """What makes links."""

    ABOUT: str
    "What it can do, and by what."
    CUT_BITS: int
    "Rate up to which nodes have to send single packets."

    def missing(self) -> str:
        """What this host lacks for it, as a sentence; '' where it works."""

    def refusal(self, link: Link, mode: Mode) -> str:
        """Why no link can be made like that, as a clause; '' where one can."""

    def start(self, lab: Lab) -> None:
        """Make the devices of a laboratory, without limits."""

    def cut_packets(self, lab: Lab) -> None:
        """Have all nodes send single packets."""

    def shape(self, lab: Lab, node: Node) -> None:
        """Make the link of a node what the laboratory says."""

    def read(self, lab: Lab) -> Reading:
        """What all links have carried and dropped."""

    def trouble(self, lab: Lab) -> str:
        """What has become of the links since they were made; '' where nothing has."""


BACKENDS: Mapping[str, Backend] = {"netem": netem, "kernel": kernel, "emulator": emulator}
"All backends, in the order in which they are tried."


def require_means() -> None:
    """Raise UsageError where no laboratory can be made, whatever its links."""
    if os.geteuid() != 0:
        raise UsageError(
            "a laboratory needs namespaces: run the command as root, such as with sudo"
        )
    if find_spec("pyroute2") is None:
        raise MissingExtra(f"a laboratory needs pyroute2: {INSTALL}")
    for name, package in PROGRAMS.items():
        if shutil.which(name, path=namespaces.PATH) is None:
            raise UsageError(f"a laboratory needs {name}: install the Debian package {package}")


def choose(wanted: str, links: Iterable[Link], mode: Mode) -> str:
    """The name of the backend that makes such links: the one that is wanted, or, for 'auto', the
    first that can. Raises UsageError, with what each lacks.
    """
    asked = list(links)
    names = list(BACKENDS) if wanted == "auto" else [wanted]
    why = {}
    for name in names:
        why[name] = _why_not(BACKENDS[name], asked, mode)
        if not why[name]:
            return name
    if wanted != "auto":
        raise UsageError(f'backend = "{wanted}": {why[wanted]}')
    told = "; ".join(f"{name}: {clause}" for name, clause in why.items())
    raise UsageError(f"no backend can make these links here: {told}")


def require_possible(lab: Lab, link: Link) -> None:
    """Raise UsageError where the backend of a laboratory cannot make such a link."""
    if clause := BACKENDS[lab.backend].refusal(link, lab.mode):
        raise UsageError(f"the backend of '{lab.name}' is {lab.backend}: {clause}")


def _why_not(backend: Backend, links: Iterable[Link], mode: Mode) -> str:
    for link in links:
        if clause := backend.refusal(link, mode):
            return clause
    return backend.missing()
