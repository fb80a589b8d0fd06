"""What the storage of every host of a cluster does, one host at a time and all at once."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import NamedTuple

from hyperslab.driver.hosts import meet_hosts
from hyperslab.driver.options import Options
from hyperslab.storage.probing import preparing
from hyperslab.storage.probing.records import Probed
from hyperslab.storage.probing.sharing import Sharing
from hyperslab.storage.probing.turns import probe_together


class Found(NamedTuple):
    """What the hosts have found."""

    tiers: list[Probed]
    "What each host has measured, path by path."
    sharing: list[Sharing]
    "What the hosts do together, for each path; nothing where there is one host."
    silent: tuple[str, ...]
    "Hosts of the cluster that have taken no part."


def probe_hosts(
    paths: Sequence[str | os.PathLike[str]], how: preparing.Options, cluster: Options
) -> Found:
    """Probe paths from every host that the engine of `cluster` has workers on.

    The current directory has to be one that all hosts see. Raises UsageError, RunStopped where a
    host cannot do its part, and StorageDamages' sentence as RunStopped.
    """
    names = [os.path.abspath(path) for path in paths]
    act = functools.partial(probe_together, names, how)
    answers = meet_hosts(act, cluster)
    said = answers.by_host.values()
    return Found(
        [Probed.from_json(tier) for one in said for tier in one["tiers"]],
        [Sharing.from_json(one) for host in said for one in host["sharing"]],
        answers.silent,
    )
