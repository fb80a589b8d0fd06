"""Products: the files that a plan makes, from allocation to the manifest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import xxhash

from hyperslab import blockio, formats, sinkio
from hyperslab.errors import HyperslabError, RunStopped
from hyperslab.journal import Tail
from hyperslab.plan import Plan
from hyperslab.rundir import RunDirectory, load_json, save_json
from hyperslab.sinkio import Written
from hyperslab.slab import Hyperslab
from hyperslab.task import Job, Outcome, Task, Volume, output_pieces

_COMMITTED = "committed.jsonl"
_REPLACED = "replaced.json"
PUBLISHED = "published.json"
"What of a conversion to a URL has been sent, see hyperslab.publication."
LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9A-Za-z_-]+\.part")
"Name of an unfinished block, as hyperslab.sinkio.write makes it."


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
            if not writers <= set(done) and not os.path.exists(partial):
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
            sinkio.remove(path)

    def still_there(self, results: Mapping[int, Outcome]) -> set[int]:
        """Tasks whose files exist with the size that was recorded.

        A region counts only in the allocation that it was written to, or when that one was committed; and a committed
        volume counts only as a whole, since it is not written to again.
        """
        known = {i: outcome for i, outcome in results.items() if i in self._tasks}
        if not self._volumes:
            return {i for i, outcome in known.items() if all(_size(w.path) == w.nbytes for w in outcome.outputs)}
        committed = self._surely_committed()
        found = {i for i, outcome in known.items() if self._is_there(outcome, committed)}
        for (_, partial), writers in zip(self._volumes, self._writers(), strict=True):
            if not os.path.exists(partial) and not writers <= found:
                found -= writers
        return found

    def _is_there(self, outcome: Outcome, committed: Mapping[str, str]) -> bool:
        parts = zip(self._parts(outcome.task), outcome.outputs, strict=True)
        return all(_is_kept(self._volumes[volume], written, committed) for (volume, _), written in parts)

    def _surely_committed(self) -> dict[str, str]:
        """Those of which the file is not an older one of the name: parts get a name of their own before their file."""
        committed = committed_volumes(self._directory)
        for sink in (sink for sink, _ in self._volumes if sink.form == "parts"):
            allocation = committed.get(os.path.basename(sink.path), "")
            if sinkio.parts_of_allocation(sink, allocation) not in sinkio.parts(Path(sink.path)):
                committed.pop(os.path.basename(sink.path), None)
        return committed

    def commit(self, results: Mapping[int, Outcome]) -> None:
        """Let finished volumes appear under their names; then go those of a conversion that this one replaces."""
        if not self._volumes:
            return
        written: list[list[Written]] = [[] for _ in self._volumes]
        for task_id in self._tasks:
            for (volume, _), output in zip(self._parts(task_id), results[task_id].outputs, strict=True):
                written[volume].append(output)
        out, record = self._directory.out, self._directory.root / _COMMITTED
        with record.open("a", encoding="utf-8") as file:
            for (sink, partial), outputs in zip(self._volumes, written, strict=True):
                if os.path.exists(partial):
                    line = json.dumps([os.path.basename(sink.path), os.path.basename(partial)])
                    file.write(f"\n{line}\n")  # the last line may have been cut off
                    file.flush()
                    os.fsync(file.fileno())
                    sinkio.commit(sink, partial, outputs)
        names = {os.path.basename(sink.path) for sink, _ in self._volumes}
        for stale in leftovers(out, names):  # of a run whose results no longer counted
            sinkio.remove_stale(stale)
        for name in made(self._directory) - names:
            sinkio.remove_output(out / name)
        (self._directory.root / _REPLACED).unlink(missing_ok=True)

    def paths(self, outcome: Outcome) -> list[Path]:
        """The finished files that an attempt wrote, or wrote to."""
        if self._volumes:
            return [Path(self._volumes[volume].sink.path) for volume, _ in self._parts(outcome.task)]
        return [Path(written.path) for written in outcome.outputs]

    def sweep(self) -> None:
        """Remove what interrupted attempts left half-written; call it when no worker runs."""
        for path in leftovers(self._directory.out, {task.output for _, task in self._tasks.values()}):
            sinkio.remove(path)

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


def committed_volumes(directory: RunDirectory) -> dict[str, str]:
    """Which allocation every finished volume was, by its name."""
    path = directory.root / _COMMITTED
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return dict(json.loads(line) for line in lines if line.endswith("]"))


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
    if allocation == os.path.basename(partial):
        if apart:
            return (_size(os.path.join(partial, path.name)) or 0) >= written.offset + written.nbytes
        if os.path.isdir(partial) if form == "store" else _size(partial) == sink.nbytes:
            return True
    is_there = _size(sink.path) == sink.nbytes if form == "placed" else os.path.exists(sink.path)
    return committed.get(os.path.basename(sink.path)) == allocation and is_there


def leftovers(out: Path, names: set[str] | None = None) -> Iterator[Path]:
    """Half-written files in an output directory, or folders of their parts: of these outputs, or all."""
    for path in sorted(out.iterdir()) if out.is_dir() else []:
        match = LEFTOVER.fullmatch(path.name)
        if match and (names is None or match["name"] in names):
            yield path


def save_manifest(directory: RunDirectory, entries: list[dict[str, Any]], counts: Mapping[str, Any]) -> None:
    save_json(directory.root / "manifest.json", {"version": 1, **counts, "outputs": entries})


def verify(directory: RunDirectory) -> Iterator[tuple[str, str | None]]:
    """Compare every output with the manifest: (path, None) when equal, (path, what is wrong) otherwise."""
    manifest = directory.root / "manifest.json"
    directory.latest()
    if not manifest.is_file():
        raise RunStopped(f"{directory.out} has no manifest yet: its run has not ended; finish it with --resume")
    kept = load_json(manifest)
    if kept["done"] < kept["tasks"]:
        yield (
            "the run",
            f"{kept['tasks'] - kept['done']} of {kept['tasks']} tasks are not done; finish it with --resume",
        )
    for entry in kept["outputs"]:
        yield (
            entry["path"] if "region" not in entry else f"{entry['path']} (task {entry['task']})",
            _mismatch(directory.out, entry),
        )


def _mismatch(out: Path, entry: Mapping[str, Any]) -> str | None:
    path = out / entry["path"]
    try:
        found = _region_checksum(path, entry["region"]) if "region" in entry else sinkio.file_checksum(str(path))
    except FileNotFoundError:
        return "missing"
    except (OSError, HyperslabError) as error:
        return str(error)
    return (
        None if found == entry["checksum"] else f"checksum {found}, not {entry['checksum']}: it was changed or damaged"
    )


def _region_checksum(path: Path, region: tuple[list[int], list[int]]) -> str:
    source = formats.open_source(str(path))
    block = blockio.read(source, Hyperslab(tuple(region[0]), tuple(region[1])), values="stored")
    stored = block.astype(source.stored, copy=False).transpose(source.axes)
    return xxhash.xxh3_128_hexdigest(stored.tobytes())


def clean(directory: RunDirectory, outputs_too: bool) -> list[Path]:
    """Remove leftovers and records of all runs, and on request what they wrote; returns what is gone."""
    doomed = list(leftovers(directory.out, {directory.file} if directory.file else None))
    if outputs_too:
        doomed += [path for path in _written(directory) if directory.out in path.parents]
    doomed = [path for path in dict.fromkeys(doomed) if path.exists()]
    for path in doomed:
        sinkio.remove_stale(path) if LEFTOVER.fullmatch(path.name) else sinkio.remove_output(path)
    sinkio.remove(directory.root)
    return doomed


def _written(directory: RunDirectory) -> Iterator[Path]:
    """All that any run wrote, by the journals; a killed run has no manifest."""
    for folder in directory.submissions():
        yield from (directory.out / Path(w.path).name for outcome in Tail(folder).poll() for w in outcome.outputs)
    if (directory.root / "manifest.json").is_file():
        yield from (directory.out / entry["path"] for entry in load_json(directory.root / "manifest.json")["outputs"])


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
