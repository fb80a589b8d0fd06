"""Nodes that the program connects, whose links are free at the beginning of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.network.links.switched import Switched, switched


@pytest.fixture(scope="module")
def exact_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    with switched(tmp_path_factory.mktemp("exact"), "exact") as one:
        yield one


@pytest.fixture(scope="module")
def gso_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switched]:
    with switched(tmp_path_factory.mktemp("gso"), "gso") as one:
        yield one


@pytest.fixture
def exact(exact_nodes: Switched) -> Switched:
    exact_nodes.free()
    return exact_nodes


@pytest.fixture
def gso(gso_nodes: Switched) -> Switched:
    gso_nodes.free()
    return gso_nodes


@pytest.fixture(params=["exact", "gso"])
def either(request: pytest.FixtureRequest) -> Switched:
    one: Switched = request.getfixturevalue(request.param)
    return one
