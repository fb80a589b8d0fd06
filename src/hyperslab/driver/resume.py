"""Resume: what earlier submissions of an output directory did that a plan may take over.

Tasks are matched by what they are: the same region of the same whole, cut in the same way, with no
source written to in between. So a corrupt file may be replaced, a source edited, or files added,
and only what that touches is done again. What a machine may have lost that was restarted since
is compared with its checksums (`products.damaged`). Held by tests/system/faults/test_resume.py and
tests/system/faults/test_lost_pages.py.
"""

from __future__ import annotations

import hashlib
import itertools
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyperslab import formats
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import AGAIN, OutputBusy, RunStopped
from hyperslab.machine.host import boot_id
from hyperslab.plan.compile import Plan
from hyperslab.plan.journal import Partial, Tail, load_partials
from hyperslab.plan.pipeline import PRIMARY
from hyperslab.plan.task import Outcome, Task
from hyperslab.redaction import redact
from hyperslab.units import show_count, show_list

if TYPE_CHECKING:
    from hyperslab.plan.command import CommandTask

    Holds = Callable[[int, CommandTask], bool]

_NOUNS = {
    "boundary": "the boundary",
    "command": "the command",
    "end": "the output",
    "origin": "the dataset",
    "partition": "the partition",
    "region": "the region",
    "resample": "resampling",
    "steps": "the function or its settings",
    "values": "the kind of values",
}
"What is asked for of a run, in words, by the names of its record."

_MOST_NAMES = 3
"Arrays whose tasks are repeated that are named, at most."


@dataclass(frozen=True, slots=True)
class Inherited:
    """A submission and the tasks of it that count, as ids there -> ids here; None: all, under their
    own ids.

    A task that counts no longer, because a file that it read was written to since, has ~id here.
    """

    folder: Path
    ids: Mapping[int, int] | None = None
    is_sure: bool = True
    """False when what it wrote may have been lost: this machine was restarted since, or it is
    another one.
    """


def record(plan: Plan, done: Collection[int] = ()) -> dict[str, Any]:
    """What a submission keeps of its plan, for a later one to match its own with; `done` are tasks
    that earlier ones have done.
    """
    tasks = {
        "tasks": len(plan.stages[0].tasks),
        "wholes": list(_wholes(plan)),
        "suffix": _suffix(plan),
    }
    if plan.stages[0].job.commands is not None:
        from hyperslab.plan.commanded import digest_of  # which runs over arrays do without

        asked_for = [task.id for task in plan.stages[0].tasks if not task.is_kept]
        tasks["found"] = sorted(set(done).intersection(asked_for))
        later = [task.command for stage in plan.stages[1:] for task in stage.tasks]
        commands = [command for command in later if command is not None]
        tasks["then"] = [command.label for command in commands]
        tasks["then_digests"] = list(map(digest_of, commands))
    return plan.record() | tasks | {"boot": boot_id()}


def inherit(
    directory: RunDirectory, plan: Plan, accept_changed_function: bool, tell: Tell = unheard
) -> list[Inherited]:
    """The submissions that this plan continues; that inputs are read to compare them is told.
    Raises OutputBusy when their results do not belong to it.

    One that has recorded no result counts, too: it may have written, and was killed before it could
    say so.
    """
    if not any(directory.submissions()):
        return []
    from hyperslab.driver.grown import require_as_before  # which first submissions do without
    from hyperslab.driver.touched import Touched

    now = record(plan)
    counted: list[tuple[Path, dict[str, Any]]] = []
    for folder, kept in directory.plans():
        if has_results := _has_results(folder):
            require_as_before(directory, kept, now)
            _require_same_job(directory, kept, now, plan)
            if not accept_changed_function:
                _require_same_code(directory, kept, plan)
        if has_results or _is_same_job(kept, plan):
            _mark_kept(folder, kept)
            needed = _needed(directory, folder, kept, plan, has_results)
            _require_among_sources(directory, kept, now, needed)
            counted.append((folder, kept))
    touched = Touched(tell)
    if plan.stages[0].job.commands is not None:
        touched.read(
            (folder, there, command)
            for folder, kept in counted
            for there, command in _in_doubt(kept, now, plan)
        )
    of_each = [
        _matching(kept, now, plan, partial(touched.holds, folder)) for folder, kept in counted
    ]
    if now.get("then"):
        from hyperslab.driver.later import resting  # which runs over arrays do without

        of_each = resting(of_each, counted)
    boot = now["boot"]
    is_sure = bool(boot) and not directory.unsynced.exists()
    return [
        Inherited(folder, ids, is_sure and kept.get("boot") == boot)
        for (folder, kept), ids in zip(counted, of_each, strict=True)
    ]


def results(inherited: Sequence[Inherited]) -> dict[int, Outcome]:
    """The newest success of every task: what is on disk is what was written last."""
    return {task: outcome for task, (outcome, _) in _newest(inherited).items()}


def doubtful(inherited: Sequence[Inherited]) -> dict[int, Outcome]:
    """Successes whose bytes may have been in memory only when the machine stopped."""
    return {task: outcome for task, (outcome, is_sure) in _newest(inherited).items() if not is_sure}


def repeated(inherited: Sequence[Inherited], plan: Plan) -> list[str]:
    """A sentence on tasks over arrays that were done, and are not any more since a file that they
    read has another time or size; none where there are none.
    """
    if plan.stages[0].job.commands is not None:
        return []
    was_done = set(itertools.chain.from_iterable(map(_outdated, inherited)))
    again = was_done - results(inherited).keys()
    if not again:
        return []
    wholes = plan.inputs[PRIMARY].wholes
    changed = dict.fromkeys(wholes[task.whole].name for task in plan.tasks if task.id in again)
    names = list(changed)[:_MOST_NAMES]
    if len(changed) > len(names):
        names.append(f"{len(changed) - len(names):,} more")
    why = f"what they read was changed or touched since they were done ({show_list(names)})"
    return [f"{show_count(len(again), 'task')} will be repeated: {why}"]


def _outdated(submission: Inherited) -> set[int]:
    """Tasks that a submission has done, and that count no longer."""
    there = {number: ~task for number, task in (submission.ids or {}).items() if task < 0}
    if not there:
        return set()
    outcomes = Tail(submission.folder).poll()
    done = {outcome.task for outcome in outcomes if outcome.status == "done"}
    return {there[number] for number in done & there.keys()}


def _newest(inherited: Sequence[Inherited]) -> dict[int, tuple[Outcome, bool]]:
    done: dict[int, tuple[Outcome, bool]] = {}
    for submission in inherited:
        touched = [~task for task in (submission.ids or {}).values() if task < 0]
        for task in touched:
            # it may have written over what an earlier one had written, and not said so
            done.pop(task, None)
        for outcome in Tail(submission.folder).poll():
            task = outcome.task
            if submission.ids is not None:
                task = submission.ids.get(task, -1)
            if outcome.status == "done" and task >= 0:
                done[task] = (replace(outcome, task=task), submission.is_sure)
    return done


def partials(inherited: Sequence[Inherited], wanted: Sequence[int]) -> list[Partial]:
    """Saved partials that hold wanted tasks only, and no task twice."""
    return load_partials([(i.folder, i.ids) for i in inherited], wanted)


def whole_partials(inherited: Sequence[Inherited], wanted: Sequence[Task]) -> list[Partial]:
    """Partials that together hold every wanted task once; raises RunStopped when records are
    damaged.
    """
    found = partials(inherited, [task.id for task in wanted])
    held = sum(len(partial.tasks) for partial in found)
    if held != len(wanted):
        missing = show_count(len(wanted) - held, "result")
        raise RunStopped(f"{missing} missing from the saved partials", AGAIN)
    return found


def lacking(inherited: Sequence[Inherited], wanted: Sequence[Task]) -> list[Task]:
    """Wanted tasks of a reduction that no partial which counts holds."""
    found = partials(inherited, [task.id for task in wanted])
    held = {i for partial in found for i in partial.tasks}
    return [task for task in wanted if task.id not in held]


def _suffix(plan: Plan) -> str:
    """What ends the names of files of blocks; '' where tasks write no files of their own."""
    output = plan.stages[-1].job.output
    if output is None or output.volumes:
        return ""
    return formats.written()[output.format]


def _wholes(plan: Plan) -> Iterator[dict[str, Any]]:
    first, count = _extents(plan)
    kept = {task.whole for task in plan.stages[0].tasks if task.is_kept}
    sets = list(plan.inputs.values())
    for index, whole in enumerate(sets[0].wholes):
        members = [
            (inputs.sources[m.source], m.box)
            for inputs in sets
            for m in inputs.beside(index).members
        ]
        cut = repr((whole.shape, plan.partitions[index].cuts, [box for _, box in members]))
        yield {
            "name": whole.name,
            "cuts": plan.partitions[index].cuts,
            "cut": hashlib.sha256(cut.encode()).hexdigest(),
            "first": first.get(index, 0),
            "tasks": count.get(index, 0),
            "kept": index in kept,
            "broken": any(source.broken for source, _ in members),
            "states": [_state(source) for source, _ in members],
            "made": _made_of(plan, index),
        }


def _made_of(plan: Plan, index: int) -> list[str]:
    """What a plan makes of one of its wholes: dtype and shape of each array. Nothing of commands,
    whose files nobody knows before.
    """
    job = plan.stages[0].job
    if job.commands is not None:
        return []
    outputs = job.becoming[index].outputs
    return [f"{made.name} {made.dtype} of shape {made.shape}".lstrip() for made in outputs]


def _extents(plan: Plan) -> tuple[dict[int, int], dict[int, int]]:
    """First task and number of tasks of every whole, in the first stage."""
    first: dict[int, int] = {}
    count: dict[int, int] = {}
    for task in plan.stages[0].tasks:
        first.setdefault(task.whole, task.id)
        count[task.whole] = count.get(task.whole, 0) + 1
    return first, count


def _state(source: ArraySource) -> str:
    """What changes when a file is written to, at least its time."""
    return f"{source.file_size} {source.mtime_ns} {source.version}"


def _has_results(folder: Path) -> bool:
    if any((folder / "partials").glob("*.pickle")):
        return True
    return any(outcome.status == "done" for outcome in Tail(folder).poll())


def _is_same_job(kept: dict[str, Any], plan: Plan) -> bool:
    return kept["fingerprint"] in (plan.fingerprint, plan.earlier_fingerprint)


def _require_same_job(
    directory: RunDirectory, kept: dict[str, Any], now: dict[str, Any], plan: Plan
) -> None:
    if not _is_same_job(kept, plan):
        before = kept["summary"]
        aside = {"sources"}
        if plan.stages[0].job.commands is not None:
            aside |= {"partition", "is_all"}  # which is how many there are
        differs = [
            _NOUNS.get(key, key) + _was(key, before.get(key))
            for key, value in now["summary"].items()
            if before.get(key) != value and key not in aside and _is_comparable(key, before)
        ]
        raise OutputBusy(
            f"--resume: {directory.place} holds the results of a run that differs in"
            f" {show_list(differs or ['parameters'])}; choose another output,"
            f"{_on_moving(before, now['summary'])} or remove them with"
            f" 'hyperslab clean --all {directory.place}'"
        )


def _is_comparable(key: str, before: Mapping[str, Any]) -> bool:
    """Whether what was asked for before is known: earlier versions recorded no origin."""
    return key != "origin" or bool(before.get(key))


def _was(key: str, before: Any) -> str:
    """What was asked for of a run before, where that is told in few words."""
    if key in ("command", "origin") and before:
        return f", which was '{redact(before)}'"
    return ""


def _on_moving(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What to do about files that have another path now."""
    origin = before.get("origin")
    if not origin or now.get("origin") in (None, origin):
        return ""
    return f" add --moved-from {shlex.quote(origin)} where it is the same one at another path,"


def _require_same_code(directory: RunDirectory, kept: dict[str, Any], plan: Plan) -> None:
    """Raise OutputBusy where functions have other code, also those of another version of this
    package; of a conversion there is no earlier result to be accepted.
    """
    if kept["code"] in (plan.code, plan.earlier_code):
        return
    place = directory.place
    why = f"the function was edited after {place} was begun"
    if all(ref.is_ours for ref in plan.refs):
        why = f"{place} was begun by another version of hyperslab, which makes other results"
    accept = " add --accept-changed-function if the earlier results are still right; otherwise"
    if all(ref.is_cast for ref in plan.refs):
        accept = ""
    raise OutputBusy(
        f"--resume: {why};{accept} choose another output or remove it with 'hyperslab clean --all"
        f" {place}'"
    )


def _needed(
    directory: RunDirectory, folder: Path, kept: dict[str, Any], plan: Plan, has_results: bool
) -> set[str]:
    """Names of the wholes of a submission that have to be among the sources: all of them, once it
    has results; of commands, which make nothing together, those that have one, but of a call none:
    others may be done elsewhere.
    """
    if not has_results or directory.call:
        return set()
    if plan.stages[0].job.commands is not None:
        from hyperslab.driver.tried import done_wholes  # which first submissions do without

        return done_wholes(folder, kept)
    return {whole["name"] for whole in kept["wholes"]}


def _same_wholes(
    kept: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], int, dict[str, Any] | None]]:
    """The wholes of a submission, each with its place here and the one in that place, if that is
    cut in the same way.
    """
    here = {whole["name"]: (index, whole) for index, whole in enumerate(now["wholes"])}
    for whole in kept["wholes"]:
        index, own = here.get(whole["name"], (-1, None))
        if own is not None and own["cut"] != whole["cut"]:
            own = None
        yield whole, index, own


def _require_among_sources(
    directory: RunDirectory, kept: Mapping[str, Any], now: Mapping[str, Any], needed: set[str]
) -> None:
    """Raise OutputBusy for wholes that are needed and have no place here."""
    for whole, _, own in _same_wholes(kept, now):
        if own is None and whole["name"] in needed and not whole["broken"]:
            raise OutputBusy(
                f"--resume: {whole['name']} of {directory.place} is no longer among the sources, or"
                " has another shape; choose another output"
            )


def _matching(
    kept: dict[str, Any], now: dict[str, Any], plan: Plan, holds: Holds
) -> dict[int, int]:
    """Ids there -> ids here, of the tasks that are the same; `holds` says of a task of commands
    whose inputs have other times whether these are what they were.
    """
    first: dict[int, int] = {}
    for whole, index, here in _same_wholes(kept, now):
        if here is not None:
            first |= _same_tasks(plan, index, whole, here, holds)
    step = kept["tasks"]
    own_step = now["tasks"]
    stages = 1
    is_same_later = kept.get("then_digests") == now.get("then_digests")
    if is_same_later and sum(own >= 0 for own in first.values()) == step == own_step:
        # a later stage rests on the result of all of the first
        stages = len(plan.stages)
    if now.get("then"):
        from hyperslab.driver.later import matching  # which runs over arrays do without

        return first | matching(kept, now, do_count=stages > 1)
    ids: dict[int, int] = {}
    for s in range(stages):
        for there, own in first.items():
            ours = own
            if own >= 0:
                ours += s * own_step
            ids[s * step + there] = ours
    return ids


def _same_tasks(
    plan: Plan, index: int, kept: dict[str, Any], own: dict[str, Any], holds: Holds
) -> dict[int, int]:
    tasks = plan.stages[0].tasks[own["first"] : own["first"] + own["tasks"]]
    ids = {there: task.id for there, task in enumerate(tasks, kept["first"])}
    for there, task, states in _changed(plan, index, kept, own):
        command = _doubtful(task, states)
        if command is None or not holds(there, command):
            ids[there] = ~task.id
    return ids


def _changed(
    plan: Plan, index: int, kept: dict[str, Any], own: dict[str, Any]
) -> Iterator[tuple[int, Task, list[tuple[str, str]]]]:
    """Tasks of a whole of which a source has another state, with their number there and the states
    of these sources, then and now.
    """
    from hyperslab.plan.contents import is_as_before

    states = list(zip(kept["states"], own["states"], strict=True))
    changed = {place for place, both in enumerate(states) if not is_as_before(*both)}
    if not changed or own["kept"] or kept.get("kept"):
        return
    tasks = plan.stages[0].tasks[own["first"] : own["first"] + own["tasks"]]
    positions = _positions(plan, index)
    for there, task in enumerate(tasks, kept["first"]):
        if own_places := changed & set(_sources_of(task, positions)):
            yield there, task, [states[place] for place in own_places]


def _doubtful(task: Task, states: Sequence[tuple[str, str]]) -> CommandTask | None:
    """The command of a task that may read what it has read, though its inputs have other states."""
    from hyperslab.plan.contents import differs_in_times

    if all(differs_in_times(*both) for both in states):
        return task.command
    return None


def _in_doubt(
    kept: dict[str, Any], now: dict[str, Any], plan: Plan
) -> Iterator[tuple[int, CommandTask]]:
    """The commands of a submission whose inputs have other times now, by their number there."""
    for whole, index, own in _same_wholes(kept, now):
        if own is not None:
            for there, task, states in _changed(plan, index, whole, own):
                command = _doubtful(task, states)
                if command is not None:
                    yield there, command


def _mark_kept(folder: Path, kept: dict[str, Any]) -> None:
    """Say of each whole that a submission was to keep whether it has left alone what was there."""
    marked = [whole for whole in kept["wholes"] if whole.get("kept")]
    if not marked:
        return
    attempted = {outcome.task for outcome in Tail(folder).poll()}
    for whole in marked:
        tasks = range(whole["first"], whole["first"] + whole["tasks"])
        whole["kept"] = attempted.isdisjoint(tasks)


def _positions(plan: Plan, index: int) -> dict[tuple[int, int], int]:
    """(input, source) -> its position among the states of a whole."""
    members = [
        (i, m.source)
        for i, inputs in enumerate(plan.inputs.values())
        for m in inputs.beside(index).members
    ]
    return {key: position for position, key in enumerate(members)}


def _sources_of(task: Task, positions: Mapping[tuple[int, int], int]) -> Iterator[int]:
    return (positions[i, piece.source] for i, pieces in enumerate(task.reads) for piece in pieces)
