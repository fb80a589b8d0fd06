"""Description: what the probes of a machine, or of a cluster, have found, in one file of JSON.

It lies in `$HYPERSLAB_MACHINE` if that is set, else in `$XDG_DATA_HOME/hyperslab/machine.json` (by
default `~/.local/share`). A tier that is probed again takes the place of its earlier record.
Several hosts may share the file: what each has probed is kept by its name.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.machine.links import Network
from hyperslab.storage.probing.folder import lock
from hyperslab.storage.probing.records import Probed
from hyperslab.storage.probing.sharing import Sharing
from hyperslab.storage.recordfile import load_record, save_record

VERSION = 1
_DAMAGED = "remove it, then probe again with 'hyperslab probe'"


@dataclass(frozen=True, slots=True)
class Machine:
    """All that was probed, by host and media."""

    tiers: Mapping[str, Probed]
    sharing: Mapping[str, Sharing] = field(default_factory=dict)
    "What hosts do together, by their names and the path."
    networks: Mapping[str, Network] = field(default_factory=dict)
    "Links of clusters, by the addresses of their schedulers."

    def of(self, host: str, media: Iterable[str]) -> Probed | None:
        """What was probed from a host on media of which the path has one at least; the newest."""
        wanted = frozenset(media)
        found = [one for one in self.tiers.values() if one.host == host and wanted & set(one.media)]
        return max(found, key=lambda one: one.at_s, default=None)


def load_machine(path: Path) -> Machine:
    """Read a description; an empty one where there is none.

    Raises DamagedRecord, and UsageError for one of a newer version.
    """
    try:
        record = load_record(path, _DAMAGED)
    except FileNotFoundError:
        return Machine({})
    if record["version"] > VERSION:
        raise UsageError(
            f"{path} was written by a newer hyperslab (version {record['version']} of machine"
            " descriptions): upgrade hyperslab, or remove the file"
        )
    tiers = {key: Probed.from_json(one) for key, one in record["tiers"].items()}
    sharing = {key: Sharing.from_json(one) for key, one in record.get("sharing", {}).items()}
    networks = {key: Network.from_json(one) for key, one in record.get("networks", {}).items()}
    return Machine(tiers, sharing, networks)


def add(
    path: Path,
    probed: Iterable[Probed] = (),
    sharing: Iterable[Sharing] = (),
    networks: Iterable[Network] = (),
) -> Machine:
    """Put what was probed into a description, in place of what it held of the same tiers, of the
    same hosts, and of clusters at the same addresses.

    Raises as `load_machine`, and OSError where it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        before = load_machine(path)
        machine = Machine(
            {**before.tiers, **{one.key: one for one in probed}},
            {**before.sharing, **{one.key: one for one in sharing}},
            {**before.networks, **{one.address: one for one in networks}},
        )
        save_record(path, {"version": VERSION, **asdict(machine)})
    return machine


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """A block in which nobody else changes a description, as far as its file system has locks."""
    fd = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
