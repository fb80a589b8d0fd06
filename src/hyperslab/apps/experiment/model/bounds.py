"""Model: how long a trial takes at least, by what its storage was probed to do.

Two bounds stand beside each measured makespan:

- `law`: bytes read / read rate + bytes written / write rate, each at the rate of a single stream.
  This is equation 1 of V. Hayot-Sasson et al., Performance benefits of Intel Optane DC persistent
  memory for the parallel processing of large neuroimaging data (2020). It is no bound where several
  streams are served at a time, and where memory holds what is read.
- `bound`: start-up, and whatever takes longest of the *resources* that all tasks share: each medium
  with what comes from and goes to it, at the best rate of so many processes as there were slots;
  the slots, each of which reads, computes, writes and waits for the engine in turn; the
  processors. Memory takes what is written up to its limit, and room in it comes free at the rate
  of the medium whatever else the slots do: they wait for what is left.

Of a run's own measurements the bound takes what no probe can know: bytes, computing, processor
time, start-up and overhead. A figure that nobody has is no other one instead: its term has no
seconds, says why, and leaves the sum, so that a bound with unknown terms is a lower one still.

Rates of a probe may be off (`rates`): both are also worked out with all of them at the low end of
their intervals, and at the high end, between which they lie.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from hyperslab.apps.experiment.model.rates import End, at_end
from hyperslab.apps.experiment.statistics.intervals import Interval
from hyperslab.storage.probing.records import Curve
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds

READ = "reading"
CACHED = "reading from memory"
WRITE = "writing"
ABSORBED = "writing into memory"
READ_BETWEEN = "reading intermediate results"
WRITTEN_BETWEEN = "writing intermediate results"
SLOTS = "slots"
PROCESSORS = "processors"
STARTUP = "start-up"


@dataclass(frozen=True, slots=True)
class Use:
    """What a trial has done and met with: bytes, seconds, shares of one. None: not known."""

    makespan_s: float
    read_nbytes: float
    written_nbytes: float
    slots: int
    tasks: int
    startup_s: float
    compute_s: float
    "Sum over slots."
    overhead_s: float
    "Sum over slots."
    runq_s: float | None = None
    "Time in which tasks could have computed, had a processor been free."
    cpu_s: float | None = None
    processors: float | None = None
    source_nbytes: float | None = None
    "Bytes of the input files: what is read beyond them is read again."
    cached_share: float | None = None
    "Share of the input files that was in the page cache when the trial began."
    free_dirty_nbytes: float | None = None
    "Bytes that memory took before writers had to wait; None also where writing goes through."
    reads_within: bool = True
    """Whether tasks read themselves; else somebody else does so before they have their data, which
    is in the overhead.
    """
    between_read_nbytes: float = 0.0
    "Bytes of intermediate results, where these have a place of their own; not among the others."
    between_written_nbytes: float = 0.0
    "Bytes of these that are written."

    @property
    def lanes(self) -> int:
        """Number of slots that can have had a task."""
        return max(1, min(self.slots, self.tasks))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trial reads or writes, and what a probe has found there."""

    path: str
    media: Collection[str] = ()
    "Names of the media that it lies on; none: not known."
    curves: Mapping[str, Curve] = field(default_factory=dict)
    "Rates of bytes, as a probe names them; none where it was not probed."
    writes_back: bool | None = None
    "Whether files are closed before they are on the medium."
    emulated: str = ""
    "What kind of tier it was made to be; '' of a real one."
    why_not: str = "it was not probed"
    "Why there are no curves."
    ceilings: Mapping[str, float] = field(default_factory=dict)
    """Rates that an emulated tier never exceeds, by curve: a short probe of few processes may not
    have come near them.
    """
    is_memory: bool = False
    "Whether the medium is memory, from which nothing can be dropped."
    room_nbytes: float | None = None
    "Bytes that an emulated tier takes before writers wait; None of one that was not asked for any."

    @property
    def label(self) -> str:
        """What it is called: an emulated tier by its name, which its folder has."""
        if self.emulated:
            return f"'{Path(self.path).name}', emulated"
        return f"at {self.path}"

    @property
    def reading(self) -> str:
        """Name of the curve that says how fast the medium itself is read."""
        if self.is_memory:
            return "read-cached"
        return "read-cold"

    def at(self, end: End) -> Place:
        """The place if all of its rates were at one end of their intervals; without curves of which
        a rate was measured once.
        """
        found = {name: at_end(curve, end) for name, curve in self.curves.items()}
        known = {name: curve for name, curve in found.items() if curve is not None}
        return replace(self, curves=known)


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a bound."""

    name: str
    seconds: float | None
    "None: a figure is missing that it needs."
    about: str
    "How it comes about, or why it is not known."


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that the tasks of a trial share, and the terms that it is busy with one after the
    other.
    """

    name: str
    terms: Sequence[Term]

    @property
    def seconds(self) -> float:
        """Sum of the terms that are known."""
        return sum(term.seconds for term in self.terms if term.seconds is not None)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A makespan that follows from a model, beside the measured one."""

    terms: Sequence[Term]
    seconds: float | None
    "None: a term is missing, without which the model says nothing."
    measured_s: float
    binding: str = ""
    "Name of the resource that sets the bound."
    least_s: float | None = None
    "What is expected with all rates as high as they may be; None: nobody knows."
    most_s: float | None = None
    "What is expected with all rates as low as they may be; None: nobody knows."

    @property
    def ratio(self) -> float | None:
        """Measured / expected."""
        if not self.seconds:
            return None
        return self.measured_s / self.seconds

    @property
    def ratios(self) -> Interval | None:
        """Measured / expected, with the bounds that the rates set; None without an expectation."""
        if self.ratio is None:
            return None
        if not self.least_s or not self.most_s:
            return Interval(self.ratio, None, None)
        return Interval(self.ratio, self.measured_s / self.most_s, self.measured_s / self.least_s)

    @property
    def unknown(self) -> list[Term]:
        """Terms of which a figure is missing."""
        return [term for term in self.terms if term.seconds is None]


@dataclass(frozen=True, slots=True)
class Model:
    """Both bounds of a trial."""

    law: Expectation
    bound: Expectation
    resources: Sequence[Resource]


def model_of(use: Use, source: Place, target: Place, between: Place | None = None) -> Model:
    """Both bounds of what a trial has done that reads in one place and writes in another, and has
    intermediate results in a third one.
    """
    usual = _model(use, source, target, between)
    ends = [
        _model(use, source.at(end), target.at(end), between and between.at(end))
        for end in get_args(End)
    ]
    law = _between(usual.law, [one.law for one in ends])
    bound = _between(usual.bound, [one.bound for one in ends])
    return replace(usual, law=law, bound=bound)


def _between(usual: Expectation, ends: Sequence[Expectation]) -> Expectation:
    """An expectation with the least and the most that it may be; without both where a rate was
    measured once, so that a term is missing at the ends.
    """
    seconds = [one.seconds for one in (usual, *ends) if one.seconds is not None]
    is_known = all(len(one.unknown) == len(usual.unknown) for one in ends)
    if not seconds or not is_known:
        return usual
    return replace(usual, least_s=min(seconds), most_s=max(seconds))


def _model(use: Use, source: Place, target: Place, between: Place | None) -> Model:
    """Both bounds by the rates as they stand."""
    law = law_of(use, source, target, between)
    slots = [*_slot_terms(use, source, target), *_between_terms(use, between)]
    resources = [
        *_media(use, source, target, between),
        Resource(SLOTS, slots),
        Resource(PROCESSORS, [_processor_term(use)]),
    ]
    longest = max(resources, key=lambda one: one.seconds)
    startup = Term(STARTUP, use.startup_s, "as measured")
    bound = Expectation(
        [startup, *(term for one in resources for term in one.terms)],
        use.startup_s + longest.seconds,
        use.makespan_s,
        longest.name,
    )
    return Model(law, bound, resources)


def law_of(use: Use, source: Place, target: Place, between: Place | None) -> Expectation:
    """Equation 1: all bytes at the rates of a single stream, from and to storage."""
    terms = [
        _at_single(READ, use.read_nbytes, source, source.reading),
        _at_single(WRITE, use.written_nbytes, target, "write"),
    ]
    if between is not None:
        terms += [
            _at_single(READ_BETWEEN, use.between_read_nbytes, between, between.reading),
            _at_single(WRITTEN_BETWEEN, use.between_written_nbytes, between, "write"),
        ]
    known = [term.seconds for term in terms if term.seconds is not None]
    seconds = None
    if len(known) == len(terms):
        seconds = sum(known)
    binding = max(terms, key=lambda term: term.seconds or 0.0).name
    return Expectation(terms, seconds, use.makespan_s, binding)


def _at_single(name: str, nbytes: float, place: Place, curve: str) -> Term:
    if not nbytes:
        return _nothing(name)
    found = place.curves.get(curve)
    if found is None:
        return _missing(name, place, curve)
    rate = found.single.rate.median
    return Term(name, nbytes / rate, f"{show_bytes(nbytes)} at {show_rate(rate)}, one stream")


def _nothing(name: str) -> Term:
    return Term(name, 0.0, "no bytes")


def _missing(name: str, place: Place, curve: str) -> Term:
    """A term without a figure."""
    why = place.why_not
    if place.curves:
        why = f"the probe of storage {place.label} has no figure for {curve}"
    return Term(name, None, f"not known: {why}")


# What storage does


def _media(use: Use, source: Place, target: Place, between: Place | None) -> Iterator[Resource]:
    """The media of a trial, each with what comes from and goes to it: one to three."""
    reading = _device_term(READ, _cold_nbytes(use), source, source.reading, use.slots)
    writing = _device_term(WRITE, use.written_nbytes, target, "write", use.slots)
    loads = [(source, reading), (target, writing)]
    if between is not None:
        loads.append((between, _kept_term(use, between)))
    while loads:
        first, _ = loads[0]
        own = [load for load in loads if are_shared(first, load[0])]
        loads = [load for load in loads if load not in own]
        last, _ = own[-1]
        yield Resource(f"storage {last.label}", [term for _, term in own])


def _kept_term(use: Use, between: Place) -> Term:
    """Intermediate results on their medium, from which nobody has to read them back: memory may
    have them still. What memory takes may be removed before it is written.
    """
    if between.writes_back and not between.is_memory:
        return Term(WRITTEN_BETWEEN, None, "not known: how much was removed before it was written")
    return _device_term(WRITTEN_BETWEEN, use.between_written_nbytes, between, "write", use.slots)


def are_shared(source: Place, target: Place) -> bool:
    """Whether what is read and what is written go to one device."""
    if source.path == target.path:
        return True
    return bool(set(source.media) & set(target.media))


def _cold_nbytes(use: Use) -> float | None:
    """Bytes that came from storage: those of the files that were not in memory, once. None where
    nobody has looked what was.
    """
    if not use.read_nbytes:
        return 0.0
    if use.cached_share is None:
        return None
    once = use.read_nbytes
    if use.source_nbytes:
        once = min(once, use.source_nbytes)
    return once * (1 - use.cached_share)


def _device_term(name: str, nbytes: float | None, place: Place, curve: str, slots: int) -> Term:
    """Bytes at the best rate of all processes together."""
    if nbytes is None:
        return Term(name, None, "not known: how much of the files was in memory")
    if not nbytes:
        return _nothing(name)
    ceiling = place.ceilings.get(curve)
    if ceiling is not None:
        about = f"{show_bytes(nbytes)} at {show_rate(ceiling)}, as the tier was asked for"
        return Term(name, nbytes / ceiling, about)
    found = place.curves.get(curve)
    if found is None:
        return _missing(name, place, curve)
    rate = best_rate(found, slots)
    processes = show_count(slots, "process", "processes")
    about = f"{show_bytes(nbytes)} at {show_rate(rate)}, up to {processes}"
    return Term(name, nbytes / rate, f"{about}{_beyond(found, slots)}")


def best_rate(curve: Curve, slots: int) -> float:
    """The best rate of up to so many processes together with requests of any size, bytes per
    second.
    """
    tried = [point.rate.median for point in curve.points if point.clients <= slots]
    return max([*tried, curve.rate_at(slots)])


def stream_rate(curve: Curve, slots: int) -> float:
    """The best rate of one of up to so many processes with requests of any size, bytes per
    second.
    """
    tried = [point.rate.median / point.clients for point in curve.points if point.clients <= slots]
    return max([*tried, curve.rate_at(slots) / slots])


def _beyond(curve: Curve, slots: int) -> str:
    """What is to be doubted of a rate of more processes than were probed."""
    tried = curve.by_clients
    most = tried[-1].clients
    if slots <= most or (len(tried) > 1 and not curve.still_grows):
        return ""
    return f"; no more than {most} of them were probed, so this may be too long"


# What slots and processors do


def _slot_terms(use: Use, source: Place, target: Place) -> Iterator[Term]:
    """What each slot does in turn, as seconds of one slot."""
    before = [*_reading(use, source), _computing(use), _overhead(use)]
    reading, cached, computing, overhead = before
    absorbed = absorbed_nbytes(use, target)
    if absorbed is None:
        why = "not known: how much memory may take before writers wait"
        writing = [Term(ABSORBED, None, why), Term(WRITE, None, why)]
    else:
        taken = _stream_term(ABSORBED, absorbed, target, "write-cached", use)
        left = use.written_nbytes - absorbed
        writing = [taken, _throttled(left, [*before, taken], target, use)]
    yield from (reading, cached, *writing, computing, overhead)


def _between_terms(use: Use, between: Place | None) -> Iterator[Term]:
    """Writing and reading back intermediate results, at the rates of memory where it takes them."""
    if between is None:
        return
    curve = "write" if between.writes_back is False else "write-cached"
    yield _stream_term(WRITTEN_BETWEEN, use.between_written_nbytes, between, curve, use)
    yield _stream_term(READ_BETWEEN, use.between_read_nbytes, between, "read-cached", use)


def _reading(use: Use, source: Place) -> Iterator[Term]:
    """Reading from storage, and from memory."""
    if not use.reads_within:
        yield from (Term(name, 0.0, "by others, within the overhead") for name in (READ, CACHED))
        return
    cold = _cold_nbytes(use)
    yield _stream_term(READ, cold, source, source.reading, use)
    cached = None
    if cold is not None:
        cached = use.read_nbytes - cold
    yield _stream_term(CACHED, cached, source, "read-cached", use)


def _overhead(use: Use) -> Term:
    overhead_s = use.overhead_s / use.lanes
    return Term(
        "engine overhead", overhead_s, f"{show_seconds(use.overhead_s)} of all, as measured"
    )


def _throttled(nbytes: float, others: Sequence[Term], target: Place, use: Use) -> Term:
    """Bytes that memory has no room for, as far as none comes free while slots do other things."""
    if not nbytes or not target.writes_back:
        return _stream_term(WRITE, nbytes, target, "write", use)
    left = nbytes - _drained_nbytes(others, target, use)
    if left <= 0:
        return Term(WRITE, 0.0, "none that waits: room in memory comes free meanwhile")
    return _stream_term(WRITE, left, target, "write", use)


def _drained_nbytes(terms: Sequence[Term], target: Place, use: Use) -> float:
    """Bytes that go from memory to the medium while slots do something else: no more than its rate
    allows, so that the bound stays one. None of them where the rate is not known.
    """
    rate = target.ceilings.get("write")
    found = target.curves.get("write")
    if rate is None and found is not None:
        rate = best_rate(found, use.slots)
    if rate is None:
        return 0.0
    return rate * sum(term.seconds for term in terms if term.seconds is not None)


def _stream_term(name: str, nbytes: float | None, place: Place, curve: str, use: Use) -> Term:
    """Bytes of one slot at the best rate of one process."""
    if nbytes is None:
        return Term(name, None, "not known: how much of the files was in memory")
    if not nbytes:
        return _nothing(name)
    slots = show_count(use.lanes, "slot")
    ceiling = place.ceilings.get(curve)
    if ceiling is not None:
        about = f"{show_bytes(nbytes)} on {slots} at {show_rate(ceiling)}, as was asked for"
        return Term(name, nbytes / ceiling / use.lanes, about)
    found = place.curves.get(curve)
    if found is None:
        return _missing(name, place, curve)
    rate = stream_rate(found, use.slots)
    about = f"{show_bytes(nbytes)} on {slots} at {show_rate(rate)} each"
    return Term(name, nbytes / rate / use.lanes, about)


def absorbed_nbytes(use: Use, target: Place) -> float | None:
    """Bytes that writers left in memory; None where that is not known."""
    if not use.written_nbytes or target.writes_back is False:
        return 0.0
    if target.writes_back is None:
        return None
    room = target.room_nbytes if target.emulated else use.free_dirty_nbytes
    if room is None:
        return None
    return min(use.written_nbytes, room)


def _computing(use: Use) -> Term:
    """Computing and sleeping of one slot, without waiting for a processor where that is known."""
    waited_s = min(use.runq_s or 0.0, use.compute_s)
    about = f"{show_seconds(use.compute_s - waited_s)} of all, as measured"
    if use.runq_s is None:
        about += ", waiting for processors included"
    return Term("computing", (use.compute_s - waited_s) / use.lanes, about)


def _processor_term(use: Use) -> Term:
    """Processor time of all tasks, on all processors."""
    name = "processor time"
    if use.cpu_s is None:
        return Term(name, None, "not known: some tasks did not know their own")
    if not use.processors:
        return Term(name, None, "not known: the number of processors")
    about = f"{show_seconds(use.cpu_s)} on {use.processors:g}, as measured"
    return Term(name, use.cpu_s / use.processors, about)
