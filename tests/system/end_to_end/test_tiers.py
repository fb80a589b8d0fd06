"""`hyperslab tiers` as people and programs read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.cli import tiers, verbs
from hyperslab.storage.tiers.tier import Dirty, Disk, Tier
from tests.system.end_to_end.command import call, succeed


def test_a_table_with_a_sentence_for_each_path(tmp_path: Path) -> None:
    head, *rows = succeed("tiers", "/dev/shm", tmp_path / "new", "s3://bucket/x").splitlines()
    assert head.split() == ["kind", "path", "file", "system", "medium", "free"]
    assert rows[0].split()[:4] == ["dram", "/dev/shm", "tmpfs", "memory"]
    assert rows[1].startswith("  memory: nothing is written behind")
    assert rows[2].split()[1] == str(tmp_path / "new")
    assert rows[3].startswith("  does not exist: what ")
    assert rows[4].split() == ["object", "s3://bucket/x", "s3", "s3://bucket", "?"]
    assert len(rows) == 6


def test_json_says_more(tmp_path: Path) -> None:
    (first, second) = json.loads(succeed("tiers", "--json", "/dev/shm/a", "/dev/shm"))
    assert (first["kind"], first["exists"], second["exists"]) == ("dram", False, True)
    assert first["shares_a_medium_with"] == [{"path": "/dev/shm", "host": first["host"]}]
    assert first["meaning"].startswith("does not exist: what /dev/shm is made of; ")
    names = {"meaning", "shares_a_medium_with"}
    assert Tier.from_json({k: v for k, v in first.items() if k not in names}).looked_at


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'PATH...'; see 'hyperslab tiers --help'"),
        ([""], "give the paths that are to be looked at"),
        (["/", "--connect", "nowhere"], "--connect nowhere is for"),
        (["/", "--engine", "gnu-parallel", "--connect", "node"], "ssh:"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str) -> None:
    done = call("tiers", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_word_may_be_a_verb_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a path of that name is still to be had."""
    monkeypatch.setitem(
        verbs.SUB_VERBS, "tiers", {"about": "functions:functions", "of": "status:status"}
    )
    assert succeed("tiers", "about", "stats").startswith("stats")
    assert "see 'hyperslab tiers of --help'" in call("tiers", "of").err
    assert "does not exist" in succeed("tiers", "./about")
    assert "hyperslab tiers about" in succeed("tiers", "--help")


DISK = Tier(
    "/scratch",
    "n1",
    "disk",
    True,
    "/scratch",
    "/scratch",
    "xfs",
    device="8:0",
    disks=(Disk("sda", "8:0", "disk", "Platter 3"),),
    shared=False,
    write_back=True,
    dirty=Dirty(0, 10**9, 3 * 10**9, 2 * 10**9),
    total_nbytes=4 * 10**12,
    free_nbytes=10**12,
)


def told(monkeypatch: pytest.MonkeyPatch, *found: Tier) -> list[str]:
    monkeypatch.setattr(tiers, "looked_at", lambda *_: list(found))
    return succeed("tiers", "/scratch").splitlines()


def on(host: str, **fields: object) -> Tier:
    return replace(DISK, host=host, **fields)  # type: ignore[arg-type]


def test_hosts_that_are_alike_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the least that is free on any of them."""
    lines = told(monkeypatch, on("n1"), on("n2", free_nbytes=10**9))
    assert lines[0].startswith("hosts  kind  path")
    assert lines[1].split() == [
        *("all", "2", "disk", "/scratch", "xfs", "sda", "(Platter", "3)"),
        *("1.00", "GB", "of", "4.00", "TB"),
    ]
    assert lines[2] == (
        "  write-back: as fast as memory for 2.00 GB (limit 3.00 GB), then at the pace of the"
        " device"
    )
    assert len(lines) == 3


def test_hosts_that_differ_show_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "no task of the engine has come to this host"
    lines = told(
        monkeypatch,
        on("n1"),
        on("n2"),
        on("n3", exists=False, looked_at="/", mount_point="/"),
        on("n4", kind="nvme"),
        Tier("/scratch", "n5", reasons={"kind": why, "exists": why}),
    )
    assert lines[1].startswith("n1 and n2  disk     /scratch  xfs")
    assert lines[4] == "  does not exist: what / is made of; " + lines[2].strip()
    assert lines[-1] == (
        "/scratch is not the same on all hosts: disk (xfs) on n1 and n2; missing on n3; nvme (xfs)"
        " on n4; not known on n5"
    )


def test_many_hosts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [on(f"n{i}") for i in range(9)] + [on("n9", exists=False)]
    lines = told(monkeypatch, *found)
    assert lines[1].startswith("9 hosts  disk")
    assert lines[3].startswith("n9       disk")
