"""Whole pages: which plans have two writers of one page, and which file systems are shared by
machines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab import formats
from hyperslab.apps.conversion import Wanted, conversion
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.partition import Rule
from hyperslab.driver import shared_pages
from hyperslab.errors import UsageError
from hyperslab.plan.compile import Budget, Plan, compile_plan


@pytest.fixture
def on_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pages, "network_file_system", lambda _: "nfs4")


def source(path: Path, shape: tuple[int, ...], dtype: str = "u1") -> str:
    sink = formats.module(formats.format_of_name(str(path))).sink(
        str(path), shape, np.dtype(dtype), Header()
    )
    path.write_bytes((sink.head or b"") + bytes(sink.nbytes - len(sink.head or b"")))
    return str(path)


def plan_of(path: str, dest: Path, limit: int, **options: Any) -> Plan:
    pipeline = conversion(path, str(dest), Wanted(**options))
    return compile_plan(pipeline, Rule(), Budget(2**30, 2), limit)


@pytest.mark.usefixtures("on_nfs")
def test_blocks_that_meet_within_a_page_are_refused_for_several_writers(tmp_path: Path) -> None:
    plan = plan_of(
        source(tmp_path / "in.nii", (100, 100, 100)), tmp_path / "out" / "new.nii", 250_000
    )
    assert len(plan.stages[0].tasks) > 1
    with pytest.raises(
        UsageError, match=r"new\.nii is on nfs4, .* blocks meet at byte \d+: use --workers 1"
    ) as raised:
        shared_pages.require_whole_pages(plan, 2)
    edge = int(str(raised.value).partition("at byte ")[2].partition(":")[0])
    assert edge % 4096
    shared_pages.require_whole_pages(plan, 1)


@pytest.mark.usefixtures("on_nfs")
@pytest.mark.parametrize(
    ("dest", "options"),
    [
        ("new.h5", {"encoding": Encoding(chunks=(100, 100, 10), compression="gzip")}),
        ("new.h5", {"encoding": Encoding(virtual=True)}),
        ("new.nii.gz", {}),
    ],
    ids=str,
)
def test_writers_with_files_of_their_own_share_no_page(
    tmp_path: Path, dest: str, options: Any
) -> None:
    plan = plan_of(
        source(tmp_path / "in.nii", (100, 100, 100)), tmp_path / "out" / dest, 250_000, **options
    )
    assert len(plan.stages[0].tasks) > 1
    shared_pages.require_whole_pages(plan, 8)


@pytest.mark.usefixtures("on_nfs")
def test_files_that_one_task_writes_share_no_page(tmp_path: Path) -> None:
    path = source(tmp_path / "in.nii", (64, 64, 64))
    whole = plan_of(path, tmp_path / "out" / "new.nii", 10**9)
    shared_pages.require_whole_pages(whole, 8)
    split = plan_of(path, tmp_path / "blocks", 10**9, grid=Rule("blocks", (2, 2, 2)))
    assert len(split.stages[0].tasks) == 1
    shared_pages.require_whole_pages(split, 8)


@pytest.mark.usefixtures("on_nfs")
def test_a_block_that_is_not_one_run_shares_pages(tmp_path: Path) -> None:
    """Of another order, its runs begin and end within pages, wherever its first and last byte
    are.
    """
    path = source(tmp_path / "in.h5", (64, 64, 4096))
    plan = plan_of(path, tmp_path / "out" / "new.nii", 2 * 2**20)
    assert len(plan.stages[0].tasks) > 1
    with pytest.raises(UsageError, match="two writers must not share a page"):
        shared_pages.require_whole_pages(plan, 2)


@pytest.mark.usefixtures("on_nfs")
def test_blocks_that_meet_between_pages_are_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a head of 352 bytes and planes of 4096, no edge is one of a page; with pages of 32
    bytes, each is.
    """
    plan = plan_of(source(tmp_path / "in.nii", (64, 64, 64)), tmp_path / "out" / "new.nii", 65536)
    with pytest.raises(UsageError, match="byte"):
        shared_pages.require_whole_pages(plan, 2)
    monkeypatch.setattr(shared_pages, "PAGE_NBYTES", 32)
    shared_pages.require_whole_pages(plan, 2)
