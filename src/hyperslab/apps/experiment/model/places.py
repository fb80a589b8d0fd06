"""Places: the directories that an experiment reads from and writes to, what they are made of, and
what a probe has found there.

Where nobody has probed a medium before, a short probe is made before the first trial, in places
that are the experiment's to write to. It is kept with the experiment, so that a report says the
same at any time, and wherever the experiment has been moved or copied to: places in its folder are
called by their paths from there.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from hyperslab.apps.experiment.model.bounds import Place
from hyperslab.driver.probed import origin
from hyperslab.errors import HyperslabError
from hyperslab.storage.emulation import registry
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.location import is_remote
from hyperslab.storage.probing import description, measuring
from hyperslab.storage.probing.place import default_path
from hyperslab.storage.probing.preparing import FULL, Effort, Options
from hyperslab.storage.probing.records import Probed
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.storage.tiers.looking import look
from hyperslab.storage.tiers.tier import Tier
from hyperslab.units import show_seconds

VERSION = 2
OWN = "the experiment's folder"
"Name of the folder of the experiment, which has no path from itself."
LEAST_S = 0.02
"Time of one measurement of the shortest probe."
MEASUREMENTS = 240
"Number of measurements that a probe has time for, about."
_REMEDY = "remove it; 'hyperslab experiment resume' looks at the places again"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a place."""

    tier: Tier
    probe: Probed | None = None
    origin: str = ""
    "Words on where the probe is from."
    why_not: str = ""
    "Why there is no probe; '' where there is one."
    emulated: str = ""
    "Kind and settings of the tier that was made there; '' of a real one."
    ceilings: Mapping[str, float] = field(default_factory=dict)
    "Rates that this tier never exceeds, by curve; none of a real one."

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read back what `asdict` made."""
        told = dict(record)
        told["tier"] = Tier.from_json(told["tier"])
        if told["probe"] is not None:
            told["probe"] = Probed.from_json(told["probe"])
        return cls(**told)

    def place(self) -> Place:
        """The same, as the model takes it."""
        curves = {} if self.probe is None else self.probe.curves
        return Place(
            self.tier.path,
            tuple(sorted(self.tier.media)),
            curves,
            self.tier.write_back,
            self.emulated,
            self.why_not,
            self.ceilings,
            self.tier.medium == "dram",
            self._room_nbytes(),
        )

    def _room_nbytes(self) -> float | None:
        """Bytes that an emulated tier takes before writers wait."""
        if self.tier.emulated is None:
            return None
        asked: float | None = self.tier.emulated.settings.get("write_back_nbytes")
        return asked


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of an experiment, from which its places are named."""

    root: Path

    def holds(self, path: str) -> bool:
        """Whether a place lies in the folder, or is the folder itself."""
        return not is_remote(path) and Path(path).is_relative_to(self.root)

    def key(self, path: str) -> str:
        """What the record calls a place: by its path from the folder if it lies in there."""
        if not self.holds(path):
            return path
        return str(Path(path).relative_to(self.root))

    def path(self, key: str) -> str:
        """Where a place of the record is now."""
        if is_remote(key):
            return key
        return str(self.root / key)

    def name(self, path: str) -> str:
        """What people are told of a place, wherever the folder is."""
        key = self.key(path)
        if key == ".":
            return OWN
        return key


def load(path: Path) -> dict[str, Known]:
    """What is known of the places of an experiment, by their paths; nothing where nobody has
    looked. Raises DamagedRecord.
    """
    known, _ = _load(path)
    return known


def _load(path: Path) -> tuple[dict[str, Known], bool]:
    """What is known of places, and whether the experiment lay elsewhere when it was written down.
    Raises DamagedRecord.
    """
    home = Home(path.parent)
    try:
        record = load_record(path, _REMEDY)
    except FileNotFoundError:
        return {}, False
    known = {home.path(key): Known.from_json(one) for key, one in record["places"].items()}
    return known, record.get("root", str(home.root)) != str(home.root)


def survey(
    record: Path,
    asked: Mapping[str, bool],
    probe_s: float,
    tell: Callable[[str], None],
    machine: Path | None = None,
) -> dict[str, Known]:
    """Look at places, and write down what is known of them. Of each path `asked` says whether it
    may be written to, and so be probed here for about `probe_s` seconds; nothing is probed for 0.

    Probes of the user's are taken from the description of the machine. Raises DamagedRecord, and
    OSError where the record cannot be written.
    """
    home = Home(record.parent)
    before, has_moved = _load(record)
    if has_moved:
        before = {path: known for path, known in before.items() if _is_still(path, known)}
    found: dict[str, Known] = {}
    for path, is_ours in asked.items():
        known = before.get(path)
        if known is None or known.probe is None:
            others = [*before.values(), *found.values()]
            known = _known(path, home, others, machine or default_path())
            if known.probe is None and is_ours and probe_s:
                known = _probed(path, home, known, probe_s, tell)
        found[path] = known
    everything = {**before, **found}
    places = {home.key(path): asdict(known) for path, known in everything.items()}
    save_record(record, {"version": VERSION, "root": str(home.root), "places": places})
    return everything


def _is_still(path: str, known: Known) -> bool:
    """Whether a place lies on the media that it lay on; an emulated one is what it was asked to
    be.
    """
    return bool(known.emulated) or known.tier.media == look(path).media


def _known(path: str, home: Home, others: Iterable[Known], machine: Path) -> Known:
    """What is known of a place without measuring anything."""
    tier = look(path)
    if home.holds(path):
        tier = replace(tier, path=home.name(path))
    known = Known(tier)
    emulation = emulation_of(path)
    if emulation is not None:
        words = words_of(emulation)
        known = Known(tier, emulated=words, ceilings=ceilings_of(emulation.settings))
    for other in others:
        if other.probe is not None and set(other.tier.media) & set(tier.media):
            return replace(known, probe=other.probe, origin=other.origin)
    try:
        probe = description.load_machine(machine).of(socket.gethostname(), tier.media)
    except (HyperslabError, OSError) as error:
        return replace(known, why_not=f"{tier.path} was not probed: {error}")
    if probe is not None:
        return replace(known, probe=probe, origin=origin(probe, machine))
    why_not = f"{tier.path} was not probed ('hyperslab probe' does so)"
    return replace(known, why_not=why_not)


def _probed(
    path: str, home: Home, known: Known, probe_s: float, tell: Callable[[str], None]
) -> Known:
    """The same, with a probe that is made now; with the reason where that is not possible."""
    if is_remote(path):
        return known
    place = _nearest(Path(path))
    tell(f"probing {place}, about {show_seconds(probe_s)}")
    name = home.name(str(place))
    try:
        probe = measuring.probe(place, look(place), Options(effort=effort_of(probe_s)), _unheard)
    except (HyperslabError, OSError) as error:
        return replace(known, why_not=f"{name} cannot be probed: {error}")
    words = f"probe of {name}, {show_seconds(probe.took_s)}, made by the experiment"
    return replace(known, probe=probe, origin=words, why_not="")


def effort_of(seconds: float) -> Effort:
    """How much is measured in about so many seconds."""
    if seconds >= FULL.budget_s:
        return replace(FULL, budget_s=seconds)
    each_s = max(LEAST_S, seconds / MEASUREMENTS)
    return Effort(each_s, 3, 2, seconds)


def _unheard(done: int, total: int) -> None:
    """Tell nobody how far a probe is."""


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above that is there."""
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    return folder


def emulation_of(path: str) -> Emulation | None:
    """The emulated tier that a path lies in; None where it lies in none."""
    place = Path(path).absolute()
    for emulation in registry.known():
        tier = Path(emulation.directory)
        if tier == place or tier in place.parents:
            return emulation
    return None


def ceilings_of(settings: Settings) -> dict[str, float]:
    """Rates that a tier of these settings never exceeds, by curve; none where memory is filled
    before the device.
    """
    if settings.bandwidth is None or settings.fast_nbytes:
        return {}
    write = settings.write_bandwidth or settings.bandwidth
    return {
        "read-cold": settings.bandwidth * settings.targets,
        "write": write * settings.targets,
    }


def words_of(emulation: Emulation) -> str:
    """What a tier was made to be, in words."""
    asked = emulation.settings.asked()
    settings = ", ".join(f"{name} {value:g}" for name, value in asked.items())
    return f"{emulation.kind} ({settings})"
