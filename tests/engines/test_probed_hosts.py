"""Storage that is probed from several hosts of a cluster, one at a time and all at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hyperslab.apps.probing import probe_hosts
from hyperslab.driver.options import Options
from hyperslab.errors import UsageError
from hyperslab.report.probed.page import write_probe_page
from hyperslab.storage.probing import description
from tests.engines.briefly import BRIEF_PROBE
from tests.system.clusters import dask
from tests.system.clusters.dask import ANOTHER_HOST, dask_cluster
from tests.system.clusters.required import required


def test_a_probe_from_two_hosts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker is here, the other one where the host has another name; both on one disk."""
    required(dask.missing(worker_prefix=ANOTHER_HOST))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    with dask_cluster(
        tmp_path / "cluster", workers=1, nanny=False, worker_prefix=ANOTHER_HOST
    ) as cluster:
        settings = Options(engine="dask-futures", connect=cluster.address)
        found = probe_hosts([tmp_path / "data", tmp_path / "data"], BRIEF_PROBE, settings)
        with pytest.raises(UsageError, match=r"cannot answer: .*/none: there is no such directory"):
            probe_hosts([tmp_path / "none"], BRIEF_PROBE, settings)
    hosts = sorted([socket.gethostname(), "other"])
    assert sorted(tier.host for tier in found.tiers) == hosts
    assert all(tier.curves["write"].single.rate.median > 0 for tier in found.tiers)
    (sharing,) = found.sharing
    assert sharing.hosts == hosts
    assert {way: sorted(rates.at_once) for way, rates in sharing.rates.items()} == dict.fromkeys(
        ("read", "write", "create"), hosts
    )
    machine = description.add(tmp_path / "kept.json", found.tiers, found.sharing)
    assert description.load_machine(tmp_path / "kept.json") == machine
    write_probe_page(tmp_path / "kept.html", machine)
    assert "all at once" in (tmp_path / "kept.html").read_text()
    assert list((tmp_path / "data").iterdir()) == []
