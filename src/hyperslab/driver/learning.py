"""Learning: what functions return, where nobody has said it, from samples of made-up numbers.

A function is called with two blocks whose extents differ along every axis, so that the axes of what
it returns are known by their extents. First no axis is whole; then, for functions that fit one
length alone, such as that of a series, some are: then it is called with every length that arrays
have, or their regions. Where it fails on made-up numbers it gets values that were seen of the
array; whether it depends on where blocks are cut is asked of both, since only the array's own are
on both sides of a threshold, and of these as they lie in the array, since only neighbours stay
there when they are smoothed; and of clusters of known sizes, as those of the array may all be
larger than what a function asks for. It is called in a process of its own, which is forked for
that: neither what it changes nor how it ends reaches the driver. A function of which nothing is
learned is taken to keep the axes and the dtype of its block, and its tasks are held to that.

Held by tests/driver/test_learning.py.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn

from hyperslab.arrays import Array, DType
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver.attempt import FIRST, Attempt, best_of, extents_of, kinds_of, tried
from hyperslab.driver.dependence import dependent_axes
from hyperslab.driver.inferred import (
    of_any_dtype,
    require_arrays_of,
    with_continued,
)
from hyperslab.driver.lengths import distinct, resizes, some_of, with_lengths
from hyperslab.driver.lesson import Lesson, is_open
from hyperslab.driver.longer import Misfits, is_mistaken, misfits, resized_wholes
from hyperslab.driver.picked import refused
from hyperslab.driver.sample import SPACE, Sample, dtypes_of, extents_amid
from hyperslab.driver.seen import Seen, seen_of
from hyperslab.driver.unlike import NUMBERS, Resized, Unexplained, halved, indistinct, unexplained
from hyperslab.engines.environment import volunteer
from hyperslab.errors import UsageError
from hyperslab.plan.becoming import taken_of
from hyperslab.plan.pipeline import PRIMARY, Pipeline, Step, axes_after
from hyperslab.plan.promise import Promise, Trial, require_names

LIMIT_S = 10
"Functions that take longer for the samples are not learned from."
_LEAST_S, _MOST_S = 1.0, 2.0
"""Seconds that the trial of where blocks are cut may take: in any case, and at most; between them
as long as learning has taken.
"""
_TOLD_S = 1.0
"Seconds of a trial after which it is told."


def learned(pipeline: Pipeline, axes_whole: Sequence[int] = ()) -> Pipeline:
    """The pipeline with what its functions return. Raises UsageError where that contradicts what
    was said of it.
    """
    return learn(pipeline, axes_whole).pipeline


def learn(
    pipeline: Pipeline,
    axes_whole: Sequence[int] = (),
    uncut: Iterable[int] | None = None,
    tell: Tell = unheard,
) -> Lesson:
    """What the functions of a pipeline return, and whether that depends on where blocks are cut
    along other axes than those `uncut`; None: nobody asks. A trial that takes long is told. Raises
    UsageError where it contradicts what was said.
    """
    if not any(map(is_open, pipeline.steps)):
        return Lesson(pipeline)
    dtypes = dtypes_of(pipeline)
    kinds = {dtype.kind for of_whole in dtypes for dtype in of_whole}
    ndim = pipeline.source.ndim
    if not 0 < ndim <= len(FIRST) or not kinds.issubset(NUMBERS):
        return Lesson(pipeline)
    whole = {axis % ndim for axis in axes_whole}
    if uncut is not None:
        uncut = {axis % ndim for axis in uncut}
    shapes = [taken_of(pipeline, each) for each in pipeline.source.wholes]
    names = " and ".join(step.ref.name for step in pipeline.steps)
    said = f"trying {names} on made-up numbers, for {LIMIT_S + _MOST_S:g} s at most (or --no-trial)"
    seen = seen_of(pipeline)
    answers, is_late = _in_a_fork(
        lambda: _answers(pipeline, dtypes, shapes, whole, uncut, seen),
        functools.partial(tell, said),
    )
    attempts = [answer for answer in answers if isinstance(answer, Attempt)]
    attempt = attempts[-1] if attempts else Attempt()
    if attempt.has_lengths_left and resizes(pipeline.steps, attempt.promises):
        raise UsageError(
            f"{names}: the trial ended before it had shown what it returns for arrays of"
            f" {len(distinct(shapes, attempt.whole))} lengths: run over those of one length at a"
            " time"
        )
    steps = list(pipeline.steps)
    for number, promises in enumerate(attempt.promises):
        if is_open(steps[number]):
            require_arrays_of(steps[number], promises, axes_after(steps[:number], ndim)[0].ndim)
        steps[number] = _told(steps[number], promises)
    if len(attempt.promises) < len(steps):
        first = len(attempt.promises)
        if attempt.is_refused:
            raise UsageError(attempt.error)
        if attempt.odd:
            raise UsageError(attempt.odd)
        steps[first] = replace(steps[first], trial=_trial(attempt, is_late))
    dependent = {axis for answer in answers[len(attempts) :] for axis in answer}
    return Lesson(pipeline.altered(steps=tuple(steps)), tuple(sorted(dependent)))


def _trial(attempt: Attempt, is_late: bool) -> Trial:
    """Why the last attempt before the trial ended has not shown what a step returns."""
    if attempt.error or attempt.is_last:
        return Trial(attempt.error)
    if is_late:
        return Trial(f"it did not end within {LIMIT_S:g} s", is_late=True)
    return Trial("it ended the process in which it was tried")


def _answers(
    pipeline: Pipeline,
    dtypes: Sequence[tuple[DType, ...]],
    shapes: Sequence[tuple[int, ...]],
    whole: set[int],
    uncut: Iterable[int] | None,
    seen: Seen,
) -> Iterator[Any]:
    """The best attempt so far, until it is the last; then the axes along which the result depends
    on where blocks are cut, as made-up numbers show, then also as values show that were seen, in
    random places and in their own.
    """
    attempt = Attempt()
    first, *others = dtypes
    for one in _attempts(pipeline, first, shapes, whole, seen.ordered):
        attempt = one
        if one.is_last and _depends_on_length(pipeline, one, shapes, whole):
            attempt = replace(one, has_lengths_left=True, is_last=False)
        yield attempt
    if attempt.has_lengths_left:
        attempt = _of_lengths(pipeline, attempt, first, shapes, seen.ordered)
        yield attempt
    if others and attempt.promises:
        attempt = _of_all(pipeline, attempt, dtypes, shapes[0], seen.ordered)
        yield attempt
    if len(attempt.promises) < len(pipeline.steps):
        return
    pairs = zip(pipeline.steps, attempt.promises, strict=True)
    steps = [_told(step, promises) for step, promises in pairs]
    samples = functools.partial(_samples, pipeline, first, shapes[0], attempt.whole, seen)
    if unplaced := refused(pipeline, steps, attempt, samples()):
        yield unplaced
        return
    if uncut is None:
        return
    found: set[int] = set()
    for sample in samples():
        with suppress(Exception):  # its tasks will tell what a function raises
            found.update(dependent_axes(steps, sample, {*uncut, *found}))
        yield sorted(found)


def _samples(
    pipeline: Pipeline,
    dtypes: Sequence[DType],
    shape: Sequence[int],
    whole: Collection[int],
    seen: Seen,
) -> Iterator[Sample]:
    """Samples of numbers that are made up, of values that were seen, all over, and of these as they
    lie; then of the extremes among these, as clusters.
    """
    sample = Sample.of(pipeline, dtypes, [more for _, more in extents_of(shape, whole)])
    if sample is not None:
        yield from (sample.like(values) for values in kinds_of(seen.ordered))
    if PRIMARY not in seen.regions:
        return
    _, region = seen.regions[PRIMARY]
    extents = extents_amid(region.shape, pipeline.halo, {axis: shape[axis] for axis in whole})
    sample = Sample.of(pipeline, dtypes, extents) if extents else None
    if sample is None:
        return
    sample = sample.like(seen.ordered)
    yield sample.amid(seen.regions)
    if PRIMARY in seen.ordered:
        values = seen.ordered[PRIMARY]
        for across in _crossed(pipeline.source.ndim):
            yield sample.with_clusters(across, values[0], values[-1])


def _crossed(ndim: int) -> Iterator[tuple[int, ...]]:
    """One or two axes of space, of those that an array has, and at least one of which is left."""
    space = range(min(SPACE, ndim))
    for count in range(1, min(SPACE, len(space))):
        yield from itertools.combinations(space, count)


def _told(step: Step, promises: Sequence[Promise]) -> Step:
    """A step with what was learned of it, where nothing was said."""
    if not is_open(step):
        return step
    said = list(step.returns)
    names = [promise.name for promise in promises]
    if not said[0].name:
        said = [replace(said[0], name=name) for name in names]
        if names != [""]:
            require_names(names)
    elif len(said) != len(names):
        raise UsageError(
            f"--outputs {','.join(promise.name for promise in said)}: {step.ref.name} returned"
            f" {len(names)} for a sample ({', '.join(filter(None, names)) or 'an array'}): name"
            " each of them"
        )
    by_name = {promise.name: promise for promise in promises}
    returns = []
    for place, promise in enumerate(said):
        seen = by_name.get(promise.name, promises[place])
        more = replace(promise, dtype=promise.dtype or seen.dtype)
        if not more.dtype:
            more = replace(more, of_dtypes=seen.of_dtypes)
        if not step.changes_axes:
            more = replace(more, drop_axis=seen.drop_axis, new_axis=seen.new_axis)
            more = replace(more, continued=seen.continued, of_lengths=seen.of_lengths)
        returns.append(more)
    return replace(step, returns=tuple(returns))


def _in_a_fork(
    ask: Callable[[], Iterator[Any]], tell: Callable[[], None]
) -> tuple[list[Any], bool]:
    """What `ask` yields in a process of its own, until that ends or takes too long: longer than
    LIMIT_S for its attempts, or for all that follows than for these or _MOST_S. Tells once that it
    takes long. Returns also whether it was ended for that.

    The process is none of multiprocessing's, which daemons such as Dask's workers may not start.
    """
    ours, theirs = Pipe(duplex=False)
    began = time.monotonic()
    try:
        with warnings.catch_warnings():
            # threads that hold locks at this moment can make it hang: then the limit ends it
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except OSError:
        return [], False
    if pid == 0:
        _answer(theirs, ask)
    theirs.close()
    try:
        return _heard(ours, began, tell)
    finally:
        ours.close()
        _end(pid)


def _heard(pipe: Connection, began: float, tell: Callable[[], None]) -> tuple[list[Any], bool]:
    """What comes through a pipe until it is closed, or for too long, and whether it was that."""
    answers: list[Any] = []
    end = began + LIMIT_S
    is_bounded = False
    silent_until = began + _TOLD_S
    while (now := time.monotonic()) < end:
        if now >= silent_until:
            tell()
            silent_until = math.inf
        if not pipe.poll(min(silent_until, end) - now):
            continue
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            return answers, False
        answers.append(answer)
        if isinstance(answer, Attempt) and answer.is_last and not is_bounded:
            is_bounded = True
            took = time.monotonic() - began
            end = began + took + min(max(took, _LEAST_S), _MOST_S)
    return answers, True


def _end(pid: int) -> None:
    """End a process that was forked, and what functions have started in it."""
    with suppress(ProcessLookupError):  # it had no time to become a group
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):  # somebody has taken note of all that end
        os.waitpid(pid, 0)


def _answer(pipe: Connection, ask: Callable[[], Iterator[Any]]) -> NoReturn:
    try:
        os.setpgrp()
        volunteer()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 2 * LIMIT_S + 1)  # should the driver be gone
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # until the process ends
        for answer in ask():
            pipe.send(answer)
    finally:
        os._exit(0)


def _attempts(
    pipeline: Pipeline,
    dtypes: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    whole: set[int],
    seen: Mapping[str, Array],
) -> Iterator[Attempt]:
    """What the steps return, of as many as anything was learned of so far. Where something is
    missing, the error is that of the samples that are most like the array.
    """
    shape = shapes[0]
    best = Attempt(whole=frozenset(whole))
    of_best: Mapping[str, Array] = {}
    failed = Attempt()
    resized = Resized()
    unlike = Unexplained()
    if whole:
        # axes that are whole are told apart from others of their length, old or new, by no extents
        unlike.add(tried(pipeline, dtypes, extents_of(shape, ()), {}, unlike).unlike)
    samples = list(itertools.product(kinds_of(seen), _choices(pipeline.source.ndim, whole)))
    for left, (values, axes) in zip(reversed(range(len(samples))), samples, strict=True):
        attempt = tried(pipeline, dtypes, extents_of(shape, axes), values, unlike)
        if attempt.error:
            failed = attempt
        resized.add(attempt.resized)
        unlike.add(attempt.unlike)
        if len(attempt.promises) > len(best.promises):
            best = replace(attempt, whole=frozenset(axes))
            of_best = values
        is_complete = len(best.promises) == len(pipeline.steps)
        is_last = not left or is_complete or attempt.is_hopeless
        if is_last and _has_new_lengths(best):
            resized.add(resized_wholes(pipeline, best, dtypes, shape, of_best))
        known = [with_continued(made, n, resized) for n, made in enumerate(best.promises)]
        odd = unexplained(pipeline, len(known), unlike, shape)
        last = replace(failed, promises=known, whole=best.whole, odd=odd, is_last=is_last)
        if odd and is_last and any(pipeline.halo):
            last = _without_halo(pipeline, dtypes, shapes, whole, seen, last)
        yield last
        if is_last:
            break
    if len(best.promises) == len(pipeline.steps):
        yield from _confirmed(pipeline, best, dtypes, shapes, of_best, unlike, resized)


def _without_halo(
    pipeline: Pipeline,
    dtypes: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    whole: set[int],
    seen: Mapping[str, Array],
    attempt: Attempt,
) -> Attempt:
    """An attempt that has shown what is odd, as it is where steps get no halo: they have none along
    axes that they drop.
    """
    steps = tuple(replace(step, halo=()) for step in pipeline.steps)
    *_, bare = _attempts(pipeline.altered(steps=steps), dtypes, shapes, whole, seen)
    dropped = {axis for promise in itertools.chain(*bare.promises) for axis in promise.drop_axis}
    if len(bare.promises) == len(steps):
        if any(pipeline.halo[axis] for axis in dropped):
            return bare
        return replace(attempt, odd=halved(steps))
    return replace(attempt, odd=bare.odd or attempt.odd)


def _confirmed(
    pipeline: Pipeline,
    attempt: Attempt,
    dtypes: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    seen: Mapping[str, Array],
    unlike: Unexplained,
    resized: Resized,
) -> Iterator[Attempt]:
    """An attempt that replaces a complete one, whose promises do not hold for samples as long as
    the arrays: with those axes whole along which they did not, or, where that is `unlike` what can
    be learned, without promises. None where they hold.
    """
    best = attempt
    while found := _misfits(pipeline, best, dtypes, shapes, seen):
        unlike.add(found.unlike)
        whole = best.whole | found.axes
        again = tried(pipeline, dtypes, extents_of(shapes[0], whole), seen, unlike)
        if len(again.promises) < len(best.promises):
            unlike.add(again.unlike)
            known = best.promises[: min(number for number, _ in unlike)]
            odd = unexplained(pipeline, len(known), unlike, shapes[0])
            yield replace(best, promises=known, odd=odd, is_last=True)
            return
        best = replace(again, whole=whole)
    if is_mistaken(pipeline, best, dtypes, shapes[0], seen):
        said = indistinct(pipeline.steps)
        yield replace(best, promises=[], error=said, is_refused=True, is_last=True)
    elif best is not attempt:
        resized.add(resized_wholes(pipeline, best, dtypes, shapes[0], seen))
        known = [with_continued(made, n, resized) for n, made in enumerate(best.promises)]
        yield replace(best, promises=known, is_last=True)


def _misfits(
    pipeline: Pipeline,
    attempt: Attempt,
    dtypes: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    seen: Mapping[str, Array],
) -> Misfits | None:
    """What steps return for samples as long as the arrays that an attempt does not promise."""
    pairs = zip(pipeline.steps, attempt.promises, strict=True)
    steps = [_told(step, promises) for step, promises in pairs]
    found = misfits(pipeline, steps, dtypes, shapes, attempt, seen)
    return found if found.axes else None


def _of_all(
    pipeline: Pipeline,
    attempt: Attempt,
    dtypes: Sequence[tuple[DType, ...]],
    shape: Sequence[int],
    seen: Mapping[str, Array],
) -> Attempt:
    """An attempt that has been made for the first of these dtypes, with the dtypes that the steps
    return for each of them: one that is the same for all is no longer that of the block.
    """
    promised = [attempt.promises]
    extents = extents_of(shape, attempt.whole)
    promised.extend(best_of(pipeline, others, extents, seen) for others in dtypes[1:])
    blocks = [of_whole[0] for of_whole in dtypes]
    return replace(attempt, promises=of_any_dtype(promised, blocks))


def _depends_on_length(
    pipeline: Pipeline, attempt: Attempt, shapes: Sequence[tuple[int, ...]], asked: Collection[int]
) -> bool:
    """Whether what steps return may be another for other arrays, of other lengths along axes that
    they need whole.
    """
    if len(distinct(shapes, attempt.whole)) < 2:
        return False
    return attempt.whole > set(asked) or resizes(pipeline.steps, attempt.promises)


def _of_lengths(
    pipeline: Pipeline,
    attempt: Attempt,
    dtypes: Sequence[DType],
    shapes: Sequence[tuple[int, ...]],
    seen: Mapping[str, Array],
) -> Attempt:
    """An attempt that has been made for the first of the arrays, with what steps return for those
    of all lengths.
    """
    each = distinct(shapes, attempt.whole)
    shown = {
        shape: best_of(pipeline, dtypes, extents_of(shape, attempt.whole), seen)
        for shape in some_of(each)
    }
    ended = replace(attempt, has_lengths_left=False, is_last=True)
    try:
        promises = with_lengths(pipeline.steps, attempt.promises, each, shown)
    except UsageError as error:
        return replace(ended, promises=[], error=str(error), is_refused=True)
    return replace(ended, promises=promises)


def _has_new_lengths(attempt: Attempt) -> bool:
    """Whether an array has lost an axis, and has a new one in its place."""
    promises = itertools.chain.from_iterable(attempt.promises)
    return any(set(one.drop_axis).intersection(dict(one.new_axis)) for one in promises)


def _choices(ndim: int, whole: set[int]) -> list[set[int]]:
    """Axes of the samples that are whole: none, those after space, each one, all; each once."""
    each = [{axis} for axis in range(ndim)]
    more: list[set[int]] = [set(), set(range(3, ndim)), *each, set(range(ndim))]
    choices: list[set[int]] = []
    for axes in more:
        if whole | axes not in choices:
            choices.append(whole | axes)
    return choices
