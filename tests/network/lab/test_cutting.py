"""Nodes send single packets where links of their backend need that, which is written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hyperslab.network.lab import laboratory, registry
from hyperslab.network.lab.cutting import is_asked, with_cut
from hyperslab.network.lab.link import Link, Mode
from hyperslab.network.lab.namespaces import network_file, within
from hyperslab.network.lab.registry import Lab
from hyperslab.network.lab.wiring import DEVICE
from tests.network.lab.labs import TOLERANT, require, spec

MBIT = 1_000_000


@pytest.mark.parametrize(
    ("backend", "link", "mode", "expected"),
    [
        ("netem", Link(rate_bits=1000 * MBIT), "gso", True),
        ("netem", Link(rate_bits=1001 * MBIT), "gso", False),
        ("kernel", Link(rate_bits=20 * MBIT), "gso", True),
        ("kernel", Link(rate_bits=1000 * MBIT), "gso", False),
        ("emulator", Link(rate_bits=21 * MBIT), "gso", False),
        ("emulator", Link(rate_bits=21 * MBIT), "exact", True),
        ("kernel", Link(loss=0.01), "gso", True),
    ],
)
def test_each_backend_has_a_rate_for_it(
    backend: str, link: Link, mode: Mode, expected: bool
) -> None:
    assert is_asked(backend, mode, [Link(), link]) is expected


def test_nodes_are_cut_once_and_a_record_says_so() -> None:
    """By netem, whose devices are those of the kernel's other backend, which is everywhere."""
    require("kernel")
    with laboratory(spec(TOLERANT + 'backend = "kernel"\n[nodes.w1]')) as made:
        lab = replace(made, backend="netem")
        assert with_cut(lab, [Link(rate_bits=1001 * MBIT)]) == lab
        assert _sends_dozens(lab)
        cut = with_cut(lab, [Link(rate_bits=500 * MBIT)])
        assert not _sends_dozens(lab)
        assert registry.find(lab.name) == cut == replace(lab, is_cut=True)
        assert with_cut(cut, [Link(rate_bits=5 * MBIT)]) is cut


def _sends_dozens(lab: Lab) -> bool:
    """Whether the device of the node w1 takes packets that stand for dozens."""
    from pyroute2.ethtool import Ethtool

    def ask() -> bool:
        with Ethtool() as tool:
            return bool(tool.get_features(DEVICE).features["tx-tcp-segmentation"].enable)

    return within(network_file(lab.place, "w1"), ask)
