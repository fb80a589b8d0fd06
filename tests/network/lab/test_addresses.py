"""Addresses of laboratories, beside those that this host knows."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from hyperslab.errors import UsageError
from hyperslab.network.lab import addresses
from tests.network.lab.labs import require


def test_the_first_network_that_is_free_is_taken() -> None:
    assert addresses.choose([]) == IPv4Network("198.18.0.0/24")
    taken = [IPv4Network("198.18.0.7/32"), IPv4Network("198.18.1.0/24"), IPv4Network("10.0.0.0/8")]
    assert addresses.choose(taken) == IPv4Network("198.18.2.0/24")
    assert addresses.choose([IPv4Network("198.0.0.0/8")]) == IPv4Network("100.64.0.0/24")


def test_without_a_free_network_the_spec_can_name_one() -> None:
    with pytest.raises(UsageError, match=r"network = \"10\.77\.0\.0/24\" in its spec"):
        addresses.choose(list(addresses.RANGES))
    network = IPv4Network("10.77.0.0/24")
    addresses.require_free(network, [IPv4Network("10.78.0.0/16")])
    with pytest.raises(UsageError, match=r"10\.77\.0\.128/25 is in use here"):
        addresses.require_free(network, [IPv4Network("10.77.0.128/25")])


def test_the_host_says_which_addresses_it_has() -> None:
    require()
    found = addresses.of_host()
    assert any(network.overlaps(IPv4Network("127.0.0.1/32")) for network in found)
    assert IPv4Network("0.0.0.0/0") not in found
