"""The end of a conversion, when files get their names: what is there stays, and errors leave what
was written.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperslab.driver.products import Products
from hyperslab.storage import renaming
from tests.repetitions import few, repeats
from tests.system.end_to_end.command import Finished, call, save
from tests.system.faults import conversions
from tests.system.faults.conversions import (
    AFFINE,
    KINDS,
    MEMORY,
    content,
    in_bytes,
    job,
    recorded,
    refusal,
    undisturbed,
)
from tests.system.verdicts.slowfs import slow_files

pytestmark = pytest.mark.usefixtures("without_a_report")
MIB = 2**20


def before_commit(prepare: Callable[[], object], *arguments: object) -> Finished:
    """A conversion in this process, in which something happens when all its tasks are done."""
    plain = Products.commit

    def commit(*given: object) -> None:
        prepare()
        plain(*given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Products, "commit", commit)
        return call(*arguments)


MEANWHILE = ["placed", "chunks", "parts", "store"]


@pytest.mark.parametrize("kind", few(["placed", "store"], MEANWHILE, "what appears stays"))
def test_what_appears_meanwhile_stays(source: Path, kind: str) -> None:
    """And nothing that was done is lost."""
    final = source.parent / "out" / KINDS[kind][0]
    foreign = final / "mine" if kind == "store" else final

    def appear() -> None:
        foreign.parent.mkdir(exist_ok=True)
        foreign.write_text("mine")

    done = before_commit(appear, *job(source, kind))
    assert (done.code, done.err.count("\n")) == (1, 1), done
    assert (
        f"{final} was created by somebody else during the run, and is kept; the results are in"
        in done.err
    )
    assert foreign.read_text() == "mine"
    held = recorded(final.parent)
    assert f"{final} exists: give another name, or --overwrite" in refusal(
        *job(source, kind, "--resume")
    )
    final.rename(source.parent / "away")
    undisturbed(*job(source, kind, "--resume"))
    assert recorded(final.parent) == held, "no task was done again"
    assert (content(final) == conversions.values()).all()
    assert not list(final.parent.glob(".*.part"))


FINISHED = ["placed", "chunks", "runs", "parts"]


@pytest.mark.parametrize("kind", few(["chunks"], FINISHED, "another file under its name"))
def test_a_finished_file_that_is_another_one_now(source: Path, kind: str) -> None:
    final = source.parent / "out" / KINDS[kind][0]
    undisturbed(*job(source, kind))
    final.write_bytes(b"other".ljust(final.stat().st_size))
    assert f"{final} exists and is not the file that the run wrote" in refusal(
        *job(source, kind, "--resume")
    )
    assert final.read_bytes().startswith(b"other")
    undisturbed(*job(source, kind, "--resume", "--overwrite"))
    assert (content(final) == conversions.values()).all()


@pytest.fixture
def _files_have_a_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_files_have_a_limit")
@pytest.mark.parametrize("kind", ["chunks", "runs"])
def test_joining_that_has_no_room(source: Path, kind: str) -> None:
    """A file of limited size takes the same way as a full disk."""
    out = source.parent / "out"
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    done = before_commit(
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, most)), *job(source, kind)
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    assert (done.code, done.err.count("\n")) == (1, 1), done
    assert (
        f"{out / KINDS[kind][0]} cannot be finished: File too large; what was written stays in"
        in done.err
    )
    assert call("status", out / KINDS[kind][0]).out.split()[1] == "stopped"
    assert not list(out.glob(".*.part/assembled")), "copies take no room any more"
    held = recorded(out)
    undisturbed(*job(source, kind, "--resume"))
    assert recorded(out) == held
    assert (content(out / KINDS[kind][0]) == conversions.values()).all()


@pytest.mark.parametrize(("kind", "pattern"), [("runs", "*.part"), ("chunks", "*.tables")])
def test_pieces_that_are_damaged_end_with_records(source: Path, kind: str, pattern: str) -> None:
    out, name = source.parent / "out", KINDS[kind][0]

    def damage() -> None:
        part = max(out.glob(f".{name}.*.part/{pattern}"))
        with part.open("r+b") as file:
            file.seek(part.stat().st_size // 2)
            file.write(bytes(64))

    done = before_commit(damage, *job(source, kind))
    assert (done.code, done.err.count("\n")) == (1, 1), done
    assert "is damaged; remove the file and run again with --resume" in done.err
    assert call("status", out / name).out.split()[1] == "stopped"
    max(out.glob(f".{name}.*.part/{pattern}")).unlink()
    undisturbed(*job(source, kind, "--resume"))
    assert (content(out / name) == conversions.values()).all()


def test_chunks_that_are_cut_off_end_with_records(source: Path) -> None:
    """The file that they lie in is shorter than their tables say; once it is removed all is done
    again.
    """
    out = source.parent / "out"

    def cut() -> None:
        home = max(out.glob(".new.h5.*.part/home"))
        os.truncate(home, home.stat().st_size // 2)

    done = before_commit(cut, *job(source, "chunks"))
    assert (done.code, done.err.count("\n")) == (1, 1), done
    home = max(out.glob(".new.h5.*.part/home"))
    assert f"{home}: what was written up to byte" in done.err
    assert "is damaged; remove the file and run again with --resume" in done.err
    home.unlink()
    undisturbed(*job(source, "chunks", "--resume"))
    assert (content(out / "new.h5") == conversions.values()).all()


def test_chunks_that_change_before_the_end_are_noticed_by_verify(source: Path) -> None:
    """As the values of other files: what lies in its place is not read again when the file gets its
    name.
    """
    out = source.parent / "out"

    def damage() -> None:
        home = max(out.glob(".new.h5.*.part/home"))
        with home.open("r+b") as file:
            file.seek(home.stat().st_size // 2)
            file.write(bytes(64))

    assert before_commit(damage, *job(source, "chunks")).code == 0
    assert call("verify", out / "new.h5").code == 1


@repeats("names that cannot change places: of a replacement that is interrupted, above")
def test_a_store_is_replaced_where_names_cannot_change_places(source: Path) -> None:
    with slow_files(source.parent, 0, renames_plainly=True) as mount:
        line = (
            "convert",
            source,
            mount / "new.zarr",
            *KINDS["store"][1],
            *MEMORY,
            "-q",
            "--engine",
            "serial",
        )
        undisturbed(*line)
        undisturbed(*line, "--overwrite", "--dtype", "float32")
        assert content(mount / "new.zarr").dtype == "float32"
        assert (content(mount / "new.zarr") == conversions.values()).all()
        assert in_bytes(mount)
        assert not list(mount.glob(".*.part"))


@pytest.mark.parametrize("is_plain", [False, True], ids=["exchanged", "put aside"])
def test_a_store_whose_replacement_ends_before_the_old_one_is_removed(
    source: Path, is_plain: bool
) -> None:
    with slow_files(source.parent, 0, renames_plainly=is_plain) as mount:
        line = (
            "convert",
            source,
            mount / "new.zarr",
            *KINDS["store"][1],
            *MEMORY,
            "-q",
            "--engine",
            "serial",
        )
        undisturbed(*line)
        save(source, conversions.values()[::-1].copy(), AFFINE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(renaming, "remove", _interrupted)
            assert call(*line, "--overwrite").code == 130
        undisturbed(*line, "--overwrite", "--resume")
        assert (content(mount / "new.zarr") == conversions.values()[::-1]).all()
        assert not list(mount.glob(".*.part"))


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_mixture_of_blocks_is_no_source(source: Path) -> None:
    """Ended between two of its files, a replaced directory holds some that are old; so may one that
    is new.
    """
    blocks, merged = source.parent / "out" / "blocks", source.parent / "merged.nii"
    undisturbed(*job(source, "split"))
    save(source, conversions.values()[::-1].copy(), AFFINE)
    plain, renamed = renaming.rename, list[Path]()

    def rename(ready: Path, final: Path, overwrite: bool) -> None:
        if len(renamed) == 3:
            raise KeyboardInterrupt
        plain(ready, final, overwrite)
        renamed.append(final)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(renaming, "rename", rename)
        assert call(*job(source, "split", "--overwrite")).code == 130
    said = refusal("convert", blocks, merged, "-q")
    assert f"{blocks}: its files are being replaced, or that was interrupted" in said
    assert "--resume" in said
    assert "its files are being replaced" in refusal("clean", blocks)
    undisturbed(*job(source, "split", "--overwrite", "--resume"))
    undisturbed("convert", blocks, merged, "-q", "--engine", "serial")
    assert (content(merged) == conversions.values()[::-1]).all()


def test_hidden_files_of_others_stay(source: Path) -> None:
    """Only names that are made here are leftovers."""
    out = source.parent / "out"
    out.mkdir()
    mine = {".new.nii.backup.part", ".new.nii.0123456789abcdeg.part", ".new.nii.part"}
    for name in mine:
        (out / name).write_text("mine")
    undisturbed(*job(source, "placed"))
    undisturbed(*job(source, "placed", "--overwrite"))
    assert call("clean", out / "new.nii").code == 0
    assert {path.name for path in out.iterdir()} == mine | {"new.nii"}
