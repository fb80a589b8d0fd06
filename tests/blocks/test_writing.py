"""sinkio: what is written lies where it belongs, appears when it is complete and on storage, and
nothing is left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xxhash
from hypothesis import given, settings

from hyperslab import Encoding, formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import checksums, reading, writing
from hyperslab.blocks.writing import Written, part_folders
from hyperslab.errors import BlockError, FormatError, UsageError
from hyperslab.formats import hdf5, nifti
from hyperslab.storage import renaming
from hyperslab.testing.formats import assert_same, slabs, traced_memory
from tests.examples import examples
from tests.system_calls import Calls

VALUES = np.random.default_rng(0).integers(0, 2**15, (30, 20, 10), dtype=np.int16)
FULL = Hyperslab.full(VALUES.shape)
HALVES = (Hyperslab((0, 0, 0), (30, 20, 5)), Hyperslab((0, 0, 5), (30, 20, 5)))
FORMS = {
    "placed": ("new.nii", Encoding()),
    "placed h5": ("new.h5", Encoding()),
    "chunks": ("new.h5", Encoding(chunks=(30, 20, 5), compression="gzip")),
    "runs": ("new.nii.gz", Encoding()),
    "parts": ("new.h5", Encoding(virtual=True)),
}


@pytest.fixture
def volume(tmp_path: Path) -> ArraySink:
    return nifti.sink(str(tmp_path / "volume.nii"), VALUES.shape, VALUES.dtype, Header())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    with monkeypatch.context() as patch:
        yield Calls(patch)


@pytest.fixture(params=FORMS)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> ArraySink:
    """A file of every form."""
    name, encoding = FORMS[request.param]
    describe = formats.module(formats.format_of_name(name)).sink
    return describe(str(tmp_path / name), VALUES.shape, VALUES.dtype, Header(), None, encoding)


def partial_of(sink: ArraySink, token: str = "0-00aa") -> str:
    return os.path.join(os.path.dirname(sink.path), f".{os.path.basename(sink.path)}.{token}.part")


def in_halves(sink: ArraySink, partial: str, values: Array = VALUES) -> list[Written]:
    writing.allocate(sink, partial)
    return [writing.write_region(sink, partial, slab, values[slab.slices()]) for slab in HALVES]


def make(sink: ArraySink, values: Array, token: str) -> None:
    """The file, with these values, by two writers."""
    partial = partial_of(sink, token)
    writing.commit(sink, partial, in_halves(sink, partial, values))


def content(sink: ArraySink) -> Array:
    return reading.read(formats.open_source(sink.path), FULL, values="stored")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_short_writes_are_continued(volume: ArraySink, calls: Calls) -> None:
    calls.most = 1000
    written = writing.write(volume, VALUES)
    assert calls.made.count("pwritev") >= 12
    assert written.checksum == checksums.of_file(volume.path)
    np.testing.assert_array_equal(reading.read(formats.open_source(volume.path), FULL), VALUES)


def test_a_fortran_block_is_written_in_one_call_without_a_copy(
    volume: ArraySink, calls: Calls
) -> None:
    block = np.asfortranarray(VALUES)
    writing.write(volume, block)  # what is looked at once for a folder is known now
    calls.made.clear()
    with traced_memory() as peak:
        writing.write(volume, block)
    assert calls.made.count("pwritev") == 1
    assert peak[0] < block.nbytes


@pytest.mark.parametrize("name", ["block.nii", "block.nii.gz", "block.h5"])
def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = formats.module(formats.format_of_name(name)).sink(
        str(tmp_path / name), VALUES.shape, VALUES.dtype, Header(), None
    )
    writing.write(sink, VALUES)
    before = checksums.of_file(sink.path)

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        patch.setattr(os, "pwrite", full)
        patch.setattr(checksums, "of_file", full)
        with pytest.raises(OSError, match="No space left") as raised:
            writing.write(sink, VALUES)
    assert raised.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert checksums.of_file(sink.path) == before, "the file of the earlier attempt stays"


def test_a_missing_folder_is_an_os_error(tmp_path: Path) -> None:
    sink = nifti.sink(str(tmp_path / "gone" / "block.nii"), VALUES.shape, VALUES.dtype, Header())
    with pytest.raises(FileNotFoundError):
        writing.write(sink, VALUES)


@pytest.mark.parametrize("block", [VALUES[1:], VALUES.astype("i4")])
def test_an_unfit_block_is_refused(volume: ArraySink, block: Array) -> None:
    with pytest.raises(
        BlockError, match=r"volume\.nii: the block is .* where \(30, 20, 10\) int16 was planned"
    ):
        writing.write(volume, block)


def test_a_volume_appears_when_all_its_regions_are_written(
    tmp_path: Path, volume: ArraySink
) -> None:
    partial = str(tmp_path / ".volume.part")
    writing.allocate(volume, partial)
    assert Path(partial).stat().st_size == volume.nbytes
    regions = [Hyperslab((x, y, 0), (10, 10, 10)) for x in (20, 0, 10) for y in (10, 0)]
    written = {
        slab: writing.write_region(volume, partial, slab, VALUES[slab.slices()]) for slab in regions
    }
    for slab, done in written.items():
        assert done.nbytes == 2000
        assert done.checksum == xxhash.xxh3_128_hexdigest(VALUES[slab.slices()].tobytes(order="F"))
        assert done.checksum == checksums.of_region_at(partial, slab)
    assert not Path(volume.path).exists()
    writing.commit(volume, partial, list(written.values()))
    assert not Path(partial).exists()
    np.testing.assert_array_equal(reading.read(formats.open_source(volume.path), FULL), VALUES)


def test_a_damaged_region_has_another_checksum(tmp_path: Path, volume: ArraySink) -> None:
    partial = str(tmp_path / ".volume.part")
    writing.allocate(volume, partial)
    slab = Hyperslab((0, 0, 2), (30, 20, 3))
    written = writing.write_region(volume, partial, slab, VALUES[slab.slices()])
    with Path(partial).open("r+b") as file:
        file.seek(352 + 2 * 30 * 20 * 3)
        file.write(b"\xff")
    assert checksums.of_region_at(partial, slab) != written.checksum


@given(slab=slabs(VALUES.shape))
@settings(max_examples=examples(60), deadline=None)
def test_any_region_is_written_to_its_place(
    tmp_path_factory: pytest.TempPathFactory, slab: Hyperslab
) -> None:
    folder = tmp_path_factory.mktemp("region")
    sink = nifti.sink(str(folder / "volume.nii"), VALUES.shape, VALUES.dtype, Header())
    writing.allocate(sink, str(folder / "part"))
    written = writing.write_region(sink, str(folder / "part"), slab, VALUES[slab.slices()])
    assert written.checksum == checksums.of_region_at(folder / "part", slab)
    writing.commit(sink, str(folder / "part"), [written])
    expected = np.zeros_like(VALUES)
    expected[slab.slices()] = VALUES[slab.slices()]
    np.testing.assert_array_equal(reading.read(formats.open_source(sink.path), FULL), expected)


def test_space_that_cannot_be_reserved_is_given_back(
    tmp_path: Path, volume: ArraySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space left.*\.part"):
        writing.allocate(volume, str(tmp_path / ".part"))
    assert list(tmp_path.iterdir()) == []


def test_an_h5_block_is_checked_by_the_bytes_on_disk(tmp_path: Path) -> None:
    sink = hdf5.sink(str(tmp_path / "block.h5"), VALUES.shape, VALUES.dtype, Header())
    written = writing.write(sink, VALUES)
    assert written.checksum == xxhash.xxh3_128_hexdigest(Path(sink.path).read_bytes())
    assert written.nbytes == Path(sink.path).stat().st_size


@pytest.mark.parametrize("name", ["block.nii", "block.nii.gz", "block.h5"])
def test_a_whole_file_is_not_seen_before_it_is_complete(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = formats.module(formats.format_of_name(name)).sink(
        str(tmp_path / name), VALUES.shape, VALUES.dtype, Header(), None
    )
    seen: list[list[str]] = []
    plain = renaming.rename

    def watched(ready: Path, final: Path, overwrite: bool) -> None:
        seen.append(names(tmp_path))
        plain(ready, final, overwrite)

    monkeypatch.setattr(renaming, "rename", watched)
    writing.write(sink, VALUES)
    assert [len(found) for found in seen] == [1]
    assert seen[0][0].startswith(f".{name}.")
    assert names(tmp_path) == [name]


def test_nothing_has_the_name_before_all_is_on_storage(
    sink: ArraySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes first, then the name, then the folder in which the name is; parts, each of which has a
    name, get their folder last.
    """
    events: list[tuple[str, str]] = []
    synchronise, rename = renaming.synchronise, renaming.rename

    def synchronised(path: Path, only_names: bool = False) -> None:
        synchronise(path, only_names)
        events.append(("on storage", path.name))

    def renamed(ready: Path, final: Path, overwrite: bool) -> None:
        rename(ready, final, overwrite)
        events.append(("named", final.name))

    monkeypatch.setattr(renaming, "synchronise", synchronised)
    monkeypatch.setattr(renaming, "rename", renamed)
    make(sink, VALUES, "0-00aa")
    final = Path(sink.path)
    before = ["on storage"]
    if sink.form == "parts":
        before = ["named", "named", "on storage", "on storage", "named"]
    assert [kind for kind, _ in events[:-2]] == before
    assert events[-2:] == [("named", final.name), ("on storage", final.parent.name)]
    assert_same(content(sink), VALUES)
    parts = ["new.h5.parts-00aa"] if sink.form == "parts" else []
    assert names(final.parent) == [final.name, *parts]


@pytest.mark.parametrize("sink", ["chunks", "runs", "parts"], indirect=True)
def test_a_piece_that_is_missing_is_an_error_and_no_file(sink: ArraySink) -> None:
    partial = partial_of(sink)
    written = in_halves(sink, partial)
    with pytest.raises(FormatError, match=r"(not written).*--resume"):
        writing.commit(sink, partial, written[:1])
    assert not Path(sink.path).exists()
    if sink.form == "parts":
        return  # those of attempts that are not named are gone
    writing.commit(sink, partial, written)
    assert_same(content(sink), VALUES)


@pytest.mark.parametrize("sink", ["chunks", "runs"], indirect=True)
def test_a_damaged_piece_is_an_error_and_no_file(sink: ArraySink) -> None:
    partial = partial_of(sink)
    written = in_halves(sink, partial)
    with Path(written[1].path).open("r+b") as file:
        file.seek(written[1].end - 20)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 4]))
    with pytest.raises(FormatError, match="is damaged"):
        writing.commit(sink, partial, written)
    assert not Path(sink.path).exists()
    again = [written[0], writing.write_region(sink, partial, HALVES[1], VALUES[HALVES[1].slices()])]
    writing.commit(sink, partial, again)
    assert_same(content(sink), VALUES)


def test_a_commit_that_was_interrupted_is_made_again(
    sink: ArraySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was: before the name, the earlier file stays; after it, only rubbish that says so
    is left.
    """
    make(sink, VALUES, "0-00aa")
    new, partial, folder = VALUES[::-1].copy(), partial_of(sink, "0-00bb"), Path(sink.path).parent
    written = in_halves(sink, partial, new)
    with monkeypatch.context() as patch:
        patch.setattr(renaming, "rename", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            writing.commit(sink, partial, written)
    assert_same(content(sink), VALUES)
    with monkeypatch.context() as patch:
        patch.setattr(part_folders, "remove", _interrupted)
        with nullcontext() if sink.form == "placed" else pytest.raises(KeyboardInterrupt):
            writing.commit(sink, partial, written)
    assert_same(content(sink), new)
    for path in folder.glob(".*.part"):
        assert ".gone-" in path.name
        part_folders.remove_stale(path)
    assert len(names(folder)) == (2 if sink.form == "parts" else 1)


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_parts_that_have_no_index_yet_are_removed_with_what_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that ends between its two renames leaves a folder that no file names, and the index
    that would.
    """
    sink = hdf5.sink(
        str(tmp_path / "new.h5"), VALUES.shape, VALUES.dtype, Header(), None, Encoding(virtual=True)
    )
    partial = partial_of(sink)
    written, plain = in_halves(sink, partial), renaming.rename

    def once(ready: Path, final: Path, overwrite: bool) -> None:
        plain(ready, final, overwrite)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(renaming, "rename", once)
        with pytest.raises(KeyboardInterrupt):
            writing.commit(sink, partial, written)
    assert names(tmp_path) == [".new.h5.index-00aa.part", "new.h5.parts-00aa"]
    assert part_folders.part_folders(Path(sink.path)) == []
    part_folders.remove_stale(tmp_path / ".new.h5.index-00aa.part")
    assert names(tmp_path) == []


def test_what_killed_attempts_left_among_parts_is_removed(tmp_path: Path) -> None:
    sink = hdf5.sink(
        str(tmp_path / "new.h5"), VALUES.shape, VALUES.dtype, Header(), None, Encoding(virtual=True)
    )
    partial = partial_of(sink)
    written = in_halves(sink, partial)
    (Path(partial) / ".0_0_5.h5.0123456789abcdef.part").write_bytes(b"half of a part")
    writing.commit(sink, partial, written)
    assert names(tmp_path / "new.h5.parts-00aa") == ["0_0_0.h5", "0_0_5.h5"]


def test_removing_an_output_takes_its_parts(tmp_path: Path) -> None:
    sink = hdf5.sink(
        str(tmp_path / "new.h5"), VALUES.shape, VALUES.dtype, Header(), None, Encoding(virtual=True)
    )
    make(sink, VALUES, "0-00aa")
    (tmp_path / "mine.parts-00aa").mkdir()
    part_folders.remove_output(tmp_path / "new.h5")
    assert names(tmp_path) == ["mine.parts-00aa"]
    (tmp_path / "new.h5").write_text("not HDF5")
    part_folders.remove_output(tmp_path / "new.h5")
    part_folders.remove_output(tmp_path / "gone.h5")
    assert names(tmp_path) == ["mine.parts-00aa"]


def test_a_file_of_another_folder_of_parts_is_no_owner_of_it(tmp_path: Path) -> None:
    """An HDF5 file that names any folder, such as '..', has that not removed."""
    for folder in ("..", "others", "new.h5.parts-x/../..", ""):
        layout = h5py.VirtualLayout((4,), "i2")
        layout[:] = h5py.VirtualSource(os.path.join(folder, "part.h5"), "data", (4,))
        with h5py.File(tmp_path / "new.h5", "w") as file:
            file.create_virtual_dataset("data", layout)
        assert part_folders.part_folders(tmp_path / "new.h5") == []


def test_a_block_alone_has_no_parts(tmp_path: Path) -> None:
    sink = hdf5.sink(
        str(tmp_path / "new.h5"), VALUES.shape, VALUES.dtype, Header(), None, Encoding(virtual=True)
    )
    with pytest.raises(
        UsageError, match="virtual dataset is for a file that several tasks write to"
    ):
        writing.write(sink, VALUES)
    assert names(tmp_path) == []
