"""Kept records: what a page of verdicts is made from, as one compressed file beside it, so that the
same page, or one by other rules, is made of it anywhere.

It is lines of JSON: a head; of every experiment what was asked for, its places, its looks and its
record; and of every trial its phases and the versions that it used, in the place of its trace. No
name of a host or a user is in it, and no path of the experiment's folder. The page is made from
what is kept, also the first time.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.answers.phases import PHASES, recorded_phases
from hyperslab.apps.experiment.trials import record as records
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.errors import UsageError
from hyperslab.storage.recordfile import load_record, save_record
from hyperslab.storage.whole import replace_text

VERSION = 1
FOLDER = "records"
"Folder of these files, beside the pages."
SUFFIX = ".jsonl.gz"
SAVED = ("experiment.json", "places.json", "looks.json")
"Records of an experiment beside that of its trials."
USED = ("versions", "python")
"Facts of a run that pages tell."
REMEDY = "restore it, or begin the experiment anew"
FOR_FOLDER = "/EXPERIMENT"
"What stands for the folder of an experiment."
FOR_HOME = "/HOME"
"What stands for the folder of a user."
NOWHERE = ("looked_at", "mount_point", "source")
"Facts of a tier that say where it is on its host, and that no page tells."
MEDIA = "media"
"Field of a probe that names its host, for probes that are still to be made."
EXPORT = ":/"
"What stands between the server and the path of a file system of a network."


@dataclass(frozen=True, slots=True)
class Head:
    """What a page is of."""

    paper: str
    scale: str
    tiers: Sequence[str]
    "Real tiers in the place of those of the specs, as NAME=DIR."
    command: str
    "What made the page for the first time."

    def packed(self, experiments: Mapping[str, ExperimentDirectory]) -> str:
        """What is kept, the same for the same records. Raises OSError and DamagedRecord."""
        lines: list[Mapping[str, Any]] = [{"kind": "head", "version": VERSION, **asdict(self)}]
        for name, directory in experiments.items():
            anonymous = _Anonymous(_roots(directory))
            lines += [anonymous.of(line) for line in _lines(name, directory)]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        return text.replace(f"{Path.home()}/", f"{FOR_HOME}/")


@dataclass(slots=True)
class _Anonymous:
    """Names of hosts and paths of a folder, replaced by words that say nothing."""

    roots: Sequence[str]
    hosts: dict[str, str] = field(default_factory=dict)

    def of(self, told: Any, name: str = "") -> Any:
        """A value of a field of this name."""
        if isinstance(told, dict):
            return {key: self.of(value, key) for key, value in told.items()}
        if isinstance(told, list | tuple):
            return [self.of(value) for value in told if name != MEDIA]
        if not isinstance(told, str):
            return told
        if name == "host" or (EXPORT in told and name in ("source", "device")):
            return self.hosts.setdefault(told, f"host {len(self.hosts) + 1}")
        if name in NOWHERE and told.startswith("/"):
            return ""
        for root in self.roots:
            told = told.replace(root, FOR_FOLDER)
        return told


def _roots(directory: ExperimentDirectory) -> list[str]:
    """The folder of an experiment, and where it was when its places were looked at."""
    here = str(directory.root)
    if not directory.places.exists():
        return [here]
    return [here, load_record(directory.places, REMEDY).get("root", here)]


def _lines(name: str, directory: ExperimentDirectory) -> Iterator[dict[str, Any]]:
    """What is kept of an experiment."""
    record = records.load(directory.record)
    saved = {file: _saved(directory.root / file) for file in SAVED}
    yield {"kind": "experiment", "name": name, "damaged": record.damaged, "saved": saved}
    for session in record.sessions:
        told = asdict(session)
        told["machine"] = {key: value for key, value in told["machine"].items() if key != "boot"}
        yield {"kind": "session", **told}
    for attempt in record.attempts:
        yield {"kind": "attempt", **asdict(attempt)}
    yield from _trials(directory, record)


def _saved(path: Path) -> dict[str, Any] | None:
    """What a record says, without the folder that it was in; None where there is none."""
    if not path.exists():
        return None
    told = load_record(path, REMEDY)
    return {key: value for key, value in told.items() if key != "root"}


def _trials(directory: ExperimentDirectory, record: Record) -> Iterator[dict[str, Any]]:
    """Phases and versions of the trials that count, of those whose folders are there."""
    for attempt in record.counted():
        folder = directory.trial(attempt.number, attempt.attempt)
        if folder.is_dir():
            phases = recorded_phases(directory, attempt)
            yield {
                "kind": "trial",
                "number": attempt.number,
                "attempt": attempt.attempt,
                "phases": None if phases is None else asdict(phases),
                "provenance": _used(folder / "provenance.json"),
            }


def _used(path: Path) -> dict[str, Any] | None:
    """What pages tell of the provenance of a run; None of one that has none."""
    if not path.exists():
        return None
    facts = json.loads(path.read_bytes()).get("facts", {})
    return {"facts": {name: facts[name] for name in USED if name in facts}}


def kept_in(path: Path) -> str:
    """What a file keeps. Raises UsageError."""
    try:
        return gzip.decompress(path.read_bytes()).decode()
    except OSError as error:
        why = error.strerror or "it is not compressed by gzip"
    except (EOFError, UnicodeDecodeError, zlib.error):
        why = "it is not whole"
    raise UsageError(f"--from {path}: {why}; give the records that are kept beside a page")


def unpacked(text: str, root: Path) -> tuple[Head, dict[str, Path]]:
    """Make the folders of experiments again below `root`, from what was kept: what the page is of,
    and the folders by the names of their specs. Raises UsageError.
    """
    try:
        head, *lines = map(json.loads, text.splitlines())
        if head.pop("kind") == "head" and head.pop("version") == VERSION:
            return Head(**head), dict(_folders(lines, root))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError("--from: the file holds no records of verdicts, or not all") from error
    raise UsageError("--from: another version of hyperslab has kept these records")


def _folders(lines: Iterable[dict[str, Any]], root: Path) -> Iterator[tuple[str, Path]]:
    for own in _by_experiment(lines):
        about, *others = own
        directory = ExperimentDirectory(root / about["name"].replace("/", "-"))
        directory.root.mkdir(parents=True)
        for name, saved in about["saved"].items():
            if saved is not None:
                save_record(directory.root / name, saved)
        recorded = [json.dumps(one) for one in others if one["kind"] != "trial"]
        directory.record.write_text("\n".join([*recorded, *["damaged"] * about["damaged"], ""]))
        for one in others:
            if one["kind"] == "trial":
                _keep_trial(directory, one)
        yield about["name"], directory.root


def _by_experiment(lines: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Lines of each experiment, that on it first. Raises ValueError where that is missing."""
    found: list[list[dict[str, Any]]] = []
    for line in lines:
        if line["kind"] == "experiment":
            found.append([])
        if not found:
            raise ValueError("a line of no experiment")
        found[-1].append(line)
    return found


def _keep_trial(directory: ExperimentDirectory, told: Mapping[str, Any]) -> None:
    folder = directory.trial(told["number"], told["attempt"])
    folder.mkdir(parents=True)
    for name, kept in ((PHASES, told["phases"]), ("provenance.json", told["provenance"])):
        if kept is not None:
            (folder / name).write_text(json.dumps(kept))


def keep(folder: Path, paper: str, text: str) -> None:
    """Write the file of a paper beside its page. Raises UsageError."""
    path = folder / FOLDER / f"{paper}{SUFFIX}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
