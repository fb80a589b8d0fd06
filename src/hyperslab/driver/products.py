"""Products: the files that a plan makes, from allocation to the manifest."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import checksums
from hyperslab.blocks.writing import Written
from hyperslab.blocks.writing.forms import form_of
from hyperslab.blocks.writing.part_folders import discard, part_folders, remove_stale
from hyperslab.driver import allocations, replaced
from hyperslab.driver.committed import RECORD, committed
from hyperslab.driver.directory import LEDGER, RunDirectory
from hyperslab.driver.manifest import MANIFEST, vouched_for
from hyperslab.errors import HyperslabError, RunStopped
from hyperslab.plan.compile import Plan
from hyperslab.plan.task import Job, Outcome, Task, Volume, output_pieces
from hyperslab.storage import renaming, replacement
from hyperslab.storage.renaming import remove
from hyperslab.storage.unfinished import leftovers

if TYPE_CHECKING:
    from hyperslab.driver.naming import Complete, Told

PUBLISHED = "published.json"
"Record of the files of a conversion to a URL that have been sent, see hyperslab.apps.publication."


class Products:
    """The output files of a plan, and the plan's tasks by their ids."""

    def __init__(self, directory: RunDirectory, plan: Plan) -> None:
        self._directory = directory
        self._tasks: dict[int, tuple[Job, Task]] = {
            t.id: (stage.job, t) for stage in plan.stages for t in stage.tasks
        }
        output = plan.stages[-1].job.output
        self._commands = plan.stages[-1].job.commands is not None
        self._volumes: tuple[Volume, ...] = ()
        if output:
            self._volumes = output.volumes
        self._files, self._file_of = allocations.by_file(self._volumes)
        self._blocks = [name for _, task in self._tasks.values() for name in task.outputs]

    def label(self, task_id: int) -> str:
        """Where the block of a task lies: path[region]."""
        job, task = self._tasks[task_id]
        return job.label(task)

    def _parts(self, task_id: int) -> list[tuple[int, Hyperslab]]:
        """The volumes that a task writes to, and its region of each, in the order of its
        outputs.
        """
        return [(piece.source, piece.slab) for _, piece in output_pieces(*self._tasks[task_id])]

    def begin(self, done: Collection[int], results: Mapping[int, Outcome]) -> None:
        """Make room for the files that are not complete. Raises RunStopped when the disk cannot
        hold them.
        """
        if not self._volumes:
            return
        files = self._surely_committed()
        for volume, homes in zip(self._files, self._homes(results), strict=True):
            if homes.keys() <= set(done) and _are_in(
                homes, files.get(os.path.basename(volume.sink.path))
            ):
                if os.path.exists(volume.partial):  # of somebody who began to make it again
                    discard(Path(volume.partial), Path(volume.sink.path))
            elif os.path.exists(volume.partial) or homes.keys().isdisjoint(done):
                allocations.allocate(volume)
            else:
                raise allocations.vanished(volume)

    def forget_earlier(self) -> None:
        """Drop the records of earlier submissions; what they made is noted, and stays until
        `commit` replaces it.

        So are the parts of files of any origin that are to be replaced. Files of blocks will wait
        in a folder of their own.
        """
        directory = self._directory
        there = {path.name for path in self._paths() if os.path.lexists(path)}
        parts = {folder.name for sink, _ in self._files for folder in part_folders(Path(sink.path))}
        replaced.note(directory, parts, there)
        for path in leftovers(directory.out, directory.files):
            remove_stale(path)
        records = [directory.root / name for name in (RECORD, PUBLISHED, MANIFEST, LEDGER)]
        for path in (*directory.submissions(), *records, directory.waiting):
            remove(path)
        if self._blocks:
            directory.waiting.mkdir()

    def _paths(self) -> list[Path]:
        """The files that several tasks write to, under the names that they get."""
        return [Path(sink.path) for sink, _ in self._files]

    def done(
        self, results: Mapping[int, Outcome], doubtful: Mapping[int, Outcome]
    ) -> tuple[set[int], set[int]]:
        """Find the tasks whose results count, and the tasks whose writes the machine has lost.

        A region counts only in the allocation that it was written to, or when that one was
        committed. A committed file counts only as a whole, since it is not written to again.
        `doubtful` are those that have to be read.
        """
        there = self._still_there(results)
        damaged = self._damaged({i: doubtful[i] for i in there & doubtful.keys()})
        return self._in_one_allocation(there - damaged, results), damaged

    def _still_there(self, results: Mapping[int, Outcome]) -> set[int]:
        """Tasks whose files exist with the size that was recorded."""
        known = {
            i: outcome
            for i, outcome in results.items()
            if i in self._tasks and self._is_own(outcome)
        }
        if not self._volumes:
            own = {i: self._own(outcome) for i, outcome in known.items()}
            return {i for i, written in own.items() if all(map(self._has_its_size, written))}
        files = self._surely_committed()
        return {i for i, outcome in known.items() if self._is_there(outcome, files)}

    def _is_own(self, outcome: Outcome) -> bool:
        """Whether an outcome names the outputs of its task, wherever the directory was when it was
        recorded.
        """
        if self._commands:
            return True
        if self._volumes:
            return len(outcome.outputs) == len(self._parts(outcome.task))
        _, task = self._tasks[outcome.task]
        named = tuple(os.path.basename(written.path) for written in outcome.outputs)
        return named == task.outputs

    def _own(self, outcome: Outcome) -> Sequence[Written]:
        """What a task has written, without files that are made of what several say."""
        if not self._commands:
            return outcome.outputs
        from hyperslab.driver import statements  # which runs over arrays do without

        top = self._directory.top
        return [one for one in outcome.outputs if not statements.is_of_several(top, one.path)]

    def _place(self, written: Written) -> Path:
        """The file of a block, or of a command, in this directory."""
        if self._commands:
            return self._directory.out / written.path
        return self._directory.blocks / os.path.basename(written.path)

    def _has_its_size(self, written: Written) -> bool:
        return replaced.size_of(self._place(written)) == written.nbytes

    def _in_one_allocation(self, found: set[int], results: Mapping[int, Outcome]) -> set[int]:
        """Drop tasks that wrote to a file elsewhere than where it is being made, or has to be made
        again.

        To drop a task may leave another file incomplete to which it wrote, too.
        """
        if not self._volumes:
            return found
        files = self._surely_committed()
        volumes = list(zip(self._files, self._homes(results), strict=True))
        left = found
        before = None
        while left != before:
            before = left
            for volume, homes in volumes:
                finished = files.get(os.path.basename(volume.sink.path))
                left = left - _astray(volume, homes, finished, left)
            volumes.reverse()  # neighbours share tasks: one way and back is mostly all
        return left

    def _homes(self, results: Mapping[int, Outcome]) -> list[dict[int, str]]:
        """Tasks that write to each file, and the allocation that each has written to; '' for
        none.
        """
        homes: list[dict[int, str]] = [{} for _ in self._files]
        if not self._volumes:
            return homes
        for task_id in self._tasks:
            volumes = [volume for volume, _ in self._parts(task_id)]
            written = self._written(task_id, results)
            for volume, output in zip(volumes, written, strict=True):
                home = ""
                if output is not None:
                    home = form_of(self._volumes[volume].sink).allocation(output)
                homes[self._file_of[volume]][task_id] = home
        return homes

    def _written(
        self, task_id: int, results: Mapping[int, Outcome]
    ) -> Sequence[Written] | Sequence[None]:
        """What a task wrote to each of its volumes; None where that is not known."""
        parts = self._parts(task_id)
        if task_id in results and len(results[task_id].outputs) == len(parts):
            return results[task_id].outputs
        return [None] * len(parts)

    def _is_there(self, outcome: Outcome, files: Mapping[str, str]) -> bool:
        parts = zip(self._parts(outcome.task), outcome.outputs, strict=True)
        return all(
            allocations.is_kept(self._volumes[volume], written, files)
            for (volume, _), written in parts
        )

    def _damaged(self, results: Mapping[int, Outcome]) -> set[int]:
        """Tasks of whose files or regions the bytes are no longer those that were recorded; reads
        them all.

        What was on storage before it got its name, or before the manifest named it, is not read.
        """
        if not self._volumes:
            return self._lost(results)
        files = self._surely_committed()
        return {i for i, outcome in results.items() if self._is_damaged(outcome, files)}

    def _lost(self, results: Mapping[int, Outcome]) -> set[int]:
        """Tasks of which the file of a block is not as it was written."""
        vouched = vouched_for(self._directory) if results else set()
        found = set()
        for i, outcome in results.items():
            if any(self._is_lost(written, vouched) for written in self._own(outcome)):
                found.add(i)
        return found

    def _is_lost(self, written: Written, vouched: Collection[tuple[str, str]]) -> bool:
        """Whether the file of a block is not as it was written."""
        path = self._place(written)
        if (path.relative_to(self._directory.out).as_posix(), written.checksum) in vouched:
            return False
        try:
            return checksums.of_output(path, written.checksum) != written.checksum
        except (OSError, HyperslabError):
            return True

    def _is_damaged(self, outcome: Outcome, files: Mapping[str, str]) -> bool:
        parts = zip(self._parts(outcome.task), outcome.outputs, strict=True)
        return any(
            os.path.basename(self._volumes[volume].sink.path) not in files
            and allocations.differs(self._volumes[volume], slab, written)
            for (volume, slab), written in parts
        )

    def _surely_committed(self) -> dict[str, str]:
        """The allocations of volumes, by name, whose file is none of an earlier run.

        Parts get a name of their own before their file.
        """
        found = {name: done.allocation for name, done in committed(self._directory).items()}
        for sink, _ in self._files:
            name = os.path.basename(sink.path)
            if name in found and not form_of(sink).is_of(sink, found[name]):
                del found[name]
        return found

    def commit(self, results: Mapping[int, Outcome], overwrite: bool, told: Told) -> None:
        """Let finished volumes appear under their names; then go those of a conversion that this
        one replaces.

        What is there under a name, and no earlier submission has made, stays unless `overwrite`, or
        unless the run was begun to replace it. Raises RunStopped.
        """
        if not self._volumes:
            self._commit_blocks()
            return
        from hyperslab.driver.naming import Complete, name_all  # which reductions do without

        going = replaced.may_go(self._directory)
        root = self._directory.root
        known = committed(self._directory)
        ready = []
        for unfinished, outputs in self._unfinished(results, known):
            name = os.path.basename(unfinished.sink.path)
            is_to_go = overwrite or name in known or name in going
            whole = allocations.require_complete(unfinished, outputs)
            ready.append(Complete(unfinished, whole, is_to_go))
        if not self._directory.file:
            replacement.begin(root)
        for problem in name_all(self._directory, ready, told):
            raise problem
        self._directory.unsynced.unlink(missing_ok=True)
        names = {path.name for path in self._paths()}
        for stale in leftovers(self._directory.out, names):  # of results that no longer counted
            remove_stale(stale)
        replaced.tidy(self._directory, names)
        replacement.end(root)

    def _unfinished(
        self, results: Mapping[int, Outcome], known: Collection[str]
    ) -> Iterator[tuple[Volume, list[Written | None]]]:
        """Files that have not got their names, and what each of their tasks has written to them;
        None where that is not known. `known` are those that are committed.
        """
        outputs: list[list[Written | None]] = [[] for _ in self._files]
        for task_id in self._tasks:
            written = self._written(task_id, results)
            for (volume, _), output in zip(self._parts(task_id), written, strict=True):
                outputs[self._file_of[volume]].append(output)
        for file, of_file in zip(self._files, outputs, strict=True):
            if not allocations.is_finished(file, known):
                yield file, of_file

    @property
    def makes_volumes(self) -> bool:
        """Whether there are files that several tasks may write to."""
        return bool(self._volumes)

    def complete(self, results: Mapping[int, Outcome]) -> list[Complete]:
        """The files all of whose regions are there, and that have not got their names."""
        from hyperslab.driver.naming import Complete  # likewise

        known = committed(self._directory)
        found = []
        for volume, outputs in self._unfinished(results, known):
            there = [written for written in outputs if written is not None]
            if len(there) == len(outputs):
                found.append(Complete(volume, there))
        return found

    def to_be_replaced(self) -> set[str]:
        """Names of files that are there and are to be replaced by others, which are being made."""
        both = {
            path.name: os.path.basename(volume.partial)
            for path, volume in zip(self._paths(), self._files, strict=True)
            if os.path.lexists(path) and os.path.exists(volume.partial)
        }
        if not both:
            return set()
        known = committed(self._directory)  # which may have left something of their allocations
        return {
            name
            for name, partial in both.items()
            if name not in known or known[name].allocation != partial
        }

    def there_or_missing(self) -> tuple[list[Path], list[Path]]:
        """The files that are there, and those that are not, or are still those of before."""
        old = self.to_be_replaced()
        there: list[Path] = []
        missing: list[Path] = []
        for path in self._paths():
            is_there = os.path.lexists(path) and path.name not in old
            (there if is_there else missing).append(path)
        return there, missing

    def _commit_blocks(self) -> None:
        """Let files of blocks take the places of what they replace. Raises RunStopped."""
        directory = self._directory
        if not self._blocks:
            return
        try:
            if directory.replaced.is_file():
                replacement.begin(directory.root)
                replaced.move_blocks(directory, self._blocks)
                replaced.tidy(directory, self._blocks)
            replacement.end(directory.root)
        except OSError as error:
            raise RunStopped(
                f"the files in {directory.out} cannot be replaced: {error.strerror}",
                "fix that, then use --resume",
            ) from error

    def paths(self, outcome: Outcome) -> list[Path]:
        """The finished files that an attempt wrote, or wrote to."""
        if self._volumes:
            return [
                Path(self._volumes[volume].sink.path) for volume, _ in self._parts(outcome.task)
            ]
        return [self._place(written) for written in outcome.outputs]

    def there(self, outputs: Iterable[Path]) -> list[Path]:
        """The outputs without the files that several tasks write to and not all have, and without
        those that wait until they replace others.
        """
        found = sorted(set(outputs))
        if self._directory.waiting.is_dir():
            return []
        if not self._volumes:
            return found
        old = self.to_be_replaced()
        return [path for path in found if os.path.lexists(path) and path.name not in old]

    def sweep(self) -> None:
        """Remove what interrupted attempts left half-written; call it when no worker runs."""
        for path in leftovers(self._directory.blocks, set(self._blocks)):
            remove(path)

    def secure(self, files: Collection[Path]) -> None:
        """Wait until files of blocks are on storage, before the manifest vouches for them. Raises
        OSError.
        """
        if not (self._commands or self._blocks):
            return
        try:
            if self._commands:
                renaming.synchronise(self._directory.out)
            else:
                renaming.synchronise_all(files, self._directory.blocks)
        except OSError:
            self._directory.doubt(files)
            raise
        self._directory.unsynced.unlink(missing_ok=True)

    def manifest(
        self, results: Mapping[int, Outcome], others: Sequence[Path] = ()
    ) -> list[dict[str, Any]]:
        """One entry per output: task, path relative to the directory, bytes, checksum, region of a
        volume.

        `others` are files that belong to no task, such as the result of a reduction.
        """
        entries: list[dict[str, Any]] = []
        for i in sorted(results):
            if i in self._tasks:
                entries += self._entries(results[i])
        entries += self._frames()
        for path in others:
            about = path.stat()
            checksum = checksums.of_file(path)
            entries.append({"path": path.name, "nbytes": about.st_size, "checksum": checksum})
        return entries

    def _frames(self) -> Iterator[dict[str, Any]]:
        """What finished volumes hold beside the values of their regions, without those that are to
        be replaced.
        """
        found = committed(self._directory)
        old = self.to_be_replaced()
        for name in (path.name for path in self._paths()):
            if name not in found or name in old:
                continue
            frame = found[name].frame
            if frame is not None:
                yield {
                    "path": name,
                    "nbytes": frame.nbytes,
                    "checksum": frame.checksum,
                    "frame": frame.spans,
                }

    def _entries(self, outcome: Outcome) -> Iterator[dict[str, Any]]:
        job, task = self._tasks[outcome.task]
        own = self._own(outcome)
        paths = list(task.outputs)
        if self._commands:
            paths = [written.path for written in own]
        regions: list[dict[str, Any]] = [{}] * len(own)
        if self._volumes:
            parts = self._parts(outcome.task)
            paths = [self._volumes[volume].sink.path for volume, _ in parts]
            regions = [self._region(volume, slab) for volume, slab in parts]
        for path, region, written in zip(paths, regions, own, strict=True):
            entry = {
                "task": outcome.task,
                "block": job.label(task),
                "nbytes": written.nbytes,
                "checksum": written.checksum,
                "path": os.path.relpath(self._directory.out / path, self._directory.out),
            }
            yield entry | region

    def _region(self, volume: int, slab: Hyperslab) -> dict[str, Any]:
        """A region of a volume, and the name of its array where the file holds several."""
        said: dict[str, Any] = {"region": [slab.start, slab.count]}
        name = self._volumes[volume].sink.array_name
        if name:
            said["array"] = name
        return said


def _are_in(homes: Mapping[int, str], allocation: str | None) -> bool:
    return allocation is not None and set(homes.values()) <= {allocation}


def _astray(
    volume: Volume, homes: Mapping[int, str], finished: str | None, found: Collection[int]
) -> set[int]:
    """Tasks among those found that wrote to a volume elsewhere than where it is.

    `finished` is the allocation that became the file under its name; it counts when all tasks wrote
    to that one.
    """
    present = {task_id for task_id in homes if task_id in found}
    if len(present) == len(homes) and _are_in(homes, finished):
        return set()
    if not os.path.exists(volume.partial):
        return present
    return {task_id for task_id in present if homes[task_id] != os.path.basename(volume.partial)}
