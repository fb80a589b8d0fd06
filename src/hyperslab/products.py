"""Products: the files that a plan makes, from allocation to the manifest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab import renaming, replacement, segments, sinkio
from hyperslab.errors import HyperslabError, RunStopped
from hyperslab.journal import Tail
from hyperslab.plan import Plan
from hyperslab.renaming import remove
from hyperslab.rundir import RunDirectory, load_json, save_json
from hyperslab.sinkio import Written
from hyperslab.slab import Hyperslab
from hyperslab.task import Job, Outcome, Task, Volume, output_pieces
from hyperslab.verification import file_checksum, region_checksum

_COMMITTED = "committed.jsonl"
_REPLACED = "replaced.json"
PUBLISHED = "published.json"
"What of a conversion to a URL has been sent, see hyperslab.publication."
LEFTOVER = re.compile(
    r"\.(?P<name>.+)\.(?:[0-9a-f]{16}|[0-9a-f]{12}-[0-9a-f]{12}|(?:gone|index|old)-[0-9a-f]{12})\.part"
)
"Name of what is unfinished or has been replaced, as hyperslab.sinkio, outputs and renaming make it."


class Products:
    """The output files of a plan, and the plan's tasks by their ids."""

    def __init__(self, directory: RunDirectory, plan: Plan) -> None:
        self._directory = directory
        self._tasks: dict[int, tuple[Job, Task]] = {t.id: (stage.job, t) for stage in plan.stages for t in stage.tasks}
        output = plan.stages[-1].job.output
        self._volumes = output.volumes if output else ()

    def label(self, task_id: int) -> str:
        """Where the block of a task lies: path[region]."""
        job, task = self._tasks[task_id]
        return job.label(task)

    def _parts(self, task_id: int) -> list[tuple[int, Hyperslab]]:
        """The volumes that a task writes to, and its region of each, in the order of its outputs."""
        return [(piece.source, piece.slab) for piece in output_pieces(*self._tasks[task_id])]

    def _writers(self) -> list[set[int]]:
        """Per volume, the tasks that write to it."""
        writers: list[set[int]] = [set() for _ in self._volumes]
        for task_id in self._tasks:
            for volume, _ in self._parts(task_id):
                writers[volume].add(task_id)
        return writers

    def begin(self, done: Collection[int]) -> None:
        """Make room for the volumes that are not complete. Raises RunStopped when the disk cannot hold them."""
        if not self._volumes:
            return
        for (sink, partial), writers in zip(self._volumes, self._writers(), strict=True):
            if not writers <= set(done) or os.path.exists(partial):
                try:
                    sinkio.allocate(sink, partial)
                except OSError as error:
                    raise RunStopped(f"{sink.path} cannot be created: {error.strerror}") from error

    def forget_earlier(self) -> None:
        """Drop the records of earlier submissions; what they made is noted, and stays until `commit` replaces it.

        So are the parts of files of any origin that are to be replaced.
        """
        directory = self._directory
        parts = {folder.name for sink, _ in self._volumes for folder in sinkio.parts(Path(sink.path))}
        save_json(directory.root / _REPLACED, sorted(made(directory) | parts))
        for path in leftovers(directory.out, {directory.file} if directory.file else None):
            sinkio.remove_stale(path)
        records = (_COMMITTED, PUBLISHED, "manifest.json")
        for path in (*directory.submissions(), *(directory.root / name for name in records)):
            remove(path)

    def still_there(self, results: Mapping[int, Outcome]) -> set[int]:
        """Tasks whose files exist with the size that was recorded.

        A region counts only in the allocation that it was written to, or when that one was committed; and a committed
        volume counts only as a whole, since it is not written to again.
        """
        known = {i: outcome for i, outcome in results.items() if i in self._tasks}
        if not self._volumes:
            return {i for i, outcome in known.items() if all(_nbytes(w.path) == w.nbytes for w in outcome.outputs)}
        committed = self._surely_committed()
        found = {i for i, outcome in known.items() if self._is_there(outcome, committed)}
        for (_, partial), writers in zip(self._volumes, self._writers(), strict=True):
            if not os.path.exists(partial) and not writers <= found:
                found -= writers
        return found

    def _is_there(self, outcome: Outcome, committed: Mapping[str, str]) -> bool:
        parts = zip(self._parts(outcome.task), outcome.outputs, strict=True)
        return all(_is_kept(self._volumes[volume], written, committed) for (volume, _), written in parts)

    def damaged(self, results: Mapping[int, Outcome]) -> set[int]:
        """Tasks of whose files or regions the bytes are no longer those that were recorded; reads them all.

        What was on storage before it got its name, or before the manifest named it, is not read.
        """
        if not self._volumes:
            vouched = _vouched(self._directory)
            return {i for i, outcome in results.items() if any(_is_lost(w, vouched) for w in outcome.outputs)}
        committed = self._surely_committed()
        return {i for i, outcome in results.items() if self._is_damaged(outcome, committed)}

    def _is_damaged(self, outcome: Outcome, committed: Mapping[str, str]) -> bool:
        parts = zip(self._parts(outcome.task), outcome.outputs, strict=True)
        return any(
            os.path.basename(self._volumes[volume].sink.path) not in committed
            and _differs(self._volumes[volume], slab, written)
            for (volume, slab), written in parts
        )

    def _surely_committed(self) -> dict[str, str]:
        """Those of which the file is not an older one of the name: parts get a name of their own before their file."""
        committed = committed_volumes(self._directory)
        for sink in (sink for sink, _ in self._volumes if sink.form == "parts"):
            allocation = committed.get(os.path.basename(sink.path), "")
            if sinkio.parts_of_allocation(sink, allocation) not in sinkio.parts(Path(sink.path)):
                committed.pop(os.path.basename(sink.path), None)
        return committed

    def commit(self, results: Mapping[int, Outcome], overwrite: bool) -> None:
        """Let finished volumes appear under their names; then go those of a conversion that this one replaces.

        What is there under a name, and no earlier submission has made, stays unless `overwrite`. Raises RunStopped.
        """
        if not self._volumes:
            return
        written: list[list[Written]] = [[] for _ in self._volumes]
        for task_id in self._tasks:
            for (volume, _), output in zip(self._parts(task_id), results[task_id].outputs, strict=True):
                written[volume].append(output)
        root, committed = self._directory.root, committed_volumes(self._directory)
        if not self._directory.file:
            replacement.begin(root)
        for unfinished, outputs in zip(self._volumes, written, strict=True):
            if os.path.exists(unfinished.partial):
                own = os.path.basename(unfinished.sink.path) in committed
                _commit(unfinished, outputs, overwrite or own, root / _COMMITTED)
        self._tidy()
        replacement.end(root)

    def _tidy(self) -> None:
        """Remove what finished volumes have replaced."""
        names = {os.path.basename(sink.path) for sink, _ in self._volumes}
        for stale in leftovers(self._directory.out, names):  # of a run whose results no longer counted
            sinkio.remove_stale(stale)
        for name in made(self._directory) - names:
            sinkio.remove_output(self._directory.out / name)
        (self._directory.root / _REPLACED).unlink(missing_ok=True)

    def paths(self, outcome: Outcome) -> list[Path]:
        """The finished files that an attempt wrote, or wrote to."""
        if self._volumes:
            return [Path(self._volumes[volume].sink.path) for volume, _ in self._parts(outcome.task)]
        return [Path(written.path) for written in outcome.outputs]

    def sweep(self) -> None:
        """Remove what interrupted attempts left half-written; call it when no worker runs."""
        for path in leftovers(self._directory.out, {task.output for _, task in self._tasks.values()}):
            remove(path)

    def secure(self) -> None:
        """Wait until files of blocks are on storage, before the manifest vouches for them. Raises OSError."""
        if not self._volumes and any(task.output for _, task in self._tasks.values()):
            renaming.synchronise(self._directory.out)

    def manifest(self, results: Mapping[int, Outcome], others: Sequence[Path] = ()) -> list[dict[str, Any]]:
        """One entry per output: task, path relative to the directory, bytes, checksum, region of a volume.

        `others` are files that belong to no task, such as the result of a reduction.
        """
        entries = [entry for i in sorted(results) if i in self._tasks for entry in self._entries(results[i])]
        return entries + [
            {"path": path.name, "nbytes": path.stat().st_size, "checksum": sinkio.file_checksum(str(path))}
            for path in others
        ]

    def _entries(self, outcome: Outcome) -> Iterator[dict[str, Any]]:
        job, task = self._tasks[outcome.task]
        parts = self._parts(outcome.task) if self._volumes else [None] * len(outcome.outputs)
        for part, written in zip(parts, outcome.outputs, strict=True):
            path = written.path if part is None else self._volumes[part[0]].sink.path
            entry = {
                "task": outcome.task,
                "block": job.label(task),
                "nbytes": written.nbytes,
                "checksum": written.checksum,
                "path": os.path.relpath(path, self._directory.out),
            }
            yield entry if part is None else entry | {"region": [part[1].start, part[1].count]}


def _commit(volume: Volume, outputs: Sequence[Written], overwrite: bool, record: Path) -> None:
    """Let a file appear under its name, and note which one it is before. Raises RunStopped."""
    sink, partial = volume

    def note(ready: Path) -> None:
        line = json.dumps([os.path.basename(sink.path), os.path.basename(partial), *_identity(ready)])
        with record.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # the last line may have been cut off
            file.flush()
            os.fsync(file.fileno())

    try:
        sinkio.commit(sink, partial, outputs, overwrite, note)
    except FileExistsError as error:
        raise RunStopped(
            f"{sink.path} has appeared since the start, and stays; all that was to be written is in {partial}: give "
            "the one that is there another name and use --resume, or use --resume --overwrite"
        ) from error
    except HyperslabError as error:
        raise RunStopped(str(error)) from error
    except Exception as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise RunStopped(
            f"{sink.path} cannot be finished: {why}; what was written stays in {partial}: mend that, then use --resume"
        ) from error


def committed_volumes(directory: RunDirectory) -> dict[str, str]:
    """Which allocation every finished volume was, by its name; those that are not as they were then are left out."""
    path = directory.root / _COMMITTED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    noted = {name: about for name, *about in (json.loads(line) for line in lines if line.endswith("]"))}
    return {name: allocation for name, (allocation, *seen) in noted.items() if seen == _identity(directory.out / name)}


def discard_replaced(directory: RunDirectory) -> None:
    """Remove what is left in the allocations of finished volumes, after a commit that ended early."""
    for name, allocation in committed_volumes(directory).items():
        if (directory.out / allocation).exists():
            sinkio.discard(directory.out / allocation, directory.out / name)


def _identity(path: Path) -> list[int]:
    """Size and time of a file, the time alone of a directory; a new name changes neither."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return []
    return [0 if path.is_dir() else about.st_size, about.st_mtime_ns]


def made(directory: RunDirectory) -> set[str]:
    """Names of what runs in a directory have finished, with what one under way is going to replace."""
    path = directory.root / _REPLACED
    return {*committed_volumes(directory), *(load_json(path) if path.is_file() else ())}


def _is_kept(volume: Volume, written: Written, committed: Mapping[str, str]) -> bool:
    """Whether what a task wrote to a volume is in its allocation, or in the file that this one became."""
    sink, partial = volume
    form, path = sink.form, Path(written.path)
    apart = form in ("pieces", "parts")
    allocation = path.parent.name if apart else path.name
    if committed.get(os.path.basename(sink.path)) == allocation:
        return True
    if allocation != os.path.basename(partial):
        return False
    if apart:
        return sinkio.has_part(sink, partial, written)
    return os.path.isdir(partial) if form == "store" else _size(partial) == sink.nbytes


def _differs(volume: Volume, slab: Hyperslab, written: Written) -> bool:
    """Whether an allocation holds in a region something else than was written there."""
    sink, partial = volume
    try:
        if sink.form == "pieces":
            for _ in segments.pieces([sinkio.segment(partial, written)]):
                pass  # each is compared with its checksum
            return False
        if sink.form == "parts":
            part = os.path.join(partial, os.path.basename(written.path))
            return region_checksum(part, Hyperslab.full(slab.count)) != written.checksum
        return region_checksum(partial, slab) != written.checksum
    except (OSError, HyperslabError):
        return True


def _is_lost(written: Written, vouched: Collection[tuple[str, str]]) -> bool:
    """Whether the file of a block is not as it was written."""
    if (os.path.basename(written.path), written.checksum) in vouched:
        return False
    try:
        return file_checksum(Path(written.path)) != written.checksum
    except (OSError, HyperslabError):
        return True


def _vouched(directory: RunDirectory) -> set[tuple[str, str]]:
    """Name and checksum of the files that the manifest names, before which they were on storage."""
    path = directory.root / "manifest.json"
    entries = load_json(path)["outputs"] if path.is_file() else []
    return {(entry["path"], entry["checksum"]) for entry in entries if "region" not in entry}


def leftovers(out: Path, names: set[str] | None = None) -> Iterator[Path]:
    """Half-written files in an output directory, or folders of their parts: of these outputs, or all."""
    for path in sorted(out.iterdir()) if out.is_dir() else []:
        match = LEFTOVER.fullmatch(path.name)
        if match and (names is None or match["name"] in names):
            yield path


def save_manifest(directory: RunDirectory, entries: list[dict[str, Any]], counts: Mapping[str, Any]) -> None:
    save_json(directory.root / "manifest.json", {"version": 1, **counts, "outputs": entries})


def clean(directory: RunDirectory, outputs_too: bool) -> list[Path]:
    """Remove leftovers and records of all runs, and on request what they wrote; returns what is gone."""
    doomed = list(leftovers(directory.out, {directory.file} if directory.file else None))
    if not outputs_too:
        replacement.require_ended(directory.out)
    if outputs_too:
        doomed += [path for path in _written(directory) if directory.out in path.parents]
    doomed = [path for path in dict.fromkeys(doomed) if path.exists()]
    for path in doomed:
        sinkio.remove_stale(path) if LEFTOVER.fullmatch(path.name) else sinkio.remove_output(path)
    remove(directory.root)
    return doomed


def _written(directory: RunDirectory) -> Iterator[Path]:
    """All that any run wrote, by the journals; a killed run has no manifest."""
    for folder in directory.submissions():
        yield from (directory.out / Path(w.path).name for outcome in Tail(folder).poll() for w in outcome.outputs)
    yield from (directory.out / name for name in made(directory))
    if (directory.root / "manifest.json").is_file():
        yield from (directory.out / entry["path"] for entry in load_json(directory.root / "manifest.json")["outputs"])


def _nbytes(path: str) -> int | None:
    """Of a file, or of all files of a directory."""
    return sinkio.stored_nbytes(Path(path)) if os.path.isdir(path) else _size(path)


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
