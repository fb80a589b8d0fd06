"""Cutting: nodes send packets as they go over a wire, and none that stand for dozens.

Nothing undoes it, also where all links are fast again later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hyperslab.network.lab import registry
from hyperslab.network.lab.backends.choosing import BACKENDS
from hyperslab.network.lab.link import Link, Mode, mode_for
from hyperslab.network.lab.registry import Lab


def with_cut(lab: Lab, links: Iterable[Link]) -> Lab:
    """The same laboratory, whose nodes send single packets from now on if such links ask for that;
    it is written down, then.
    """
    if lab.is_cut or not is_asked(lab.backend, lab.mode, links):
        return lab
    BACKENDS[lab.backend].cut_packets(lab)
    cut = replace(lab, is_cut=True)
    registry.record(cut)
    return cut


def is_asked(backend: str, mode: Mode, links: Iterable[Link]) -> bool:
    """Whether nodes have to send single packets: where that was asked for, where chance is to meet
    each of them, and where dozens would hold up a link of this backend for long.
    """
    return mode == "exact" or mode_for(links, BACKENDS[backend].CUT_BITS) == "exact"
