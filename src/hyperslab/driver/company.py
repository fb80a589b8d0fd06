"""Company: hosts of a cluster that do something together, by files in a folder that all see.

What one of them says is a file with its name. Each says every few seconds that it lives, so that
nobody waits for one that has died; and whoever fails says so, for the others to end as well. A
folder that is gone means that the driver is.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperslab.errors import RunStopped
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_seconds

POLL_S = 0.02
"Time between two looks of one host, for each host that there is."
BEAT_S = 5.0
SILENT_S = 60.0
"Time without a sign of life after which a host is given up."
FAILED = "failed"
_BEAT = "beat"


class Company:
    """All hosts that take part, as one of them sees them."""

    def __init__(self, folder: Path, host: str, hosts: Sequence[str]) -> None:
        self._folder = folder
        self.host = host
        self.hosts = tuple(hosts)
        self._beats: dict[str, tuple[str, float]] = {}
        "Last sign of life of a host, and when it was first seen here."

    def say(self, what: str, value: Any = None) -> None:
        """Tell the others something, once for each `what`: a value that JSON has words for."""
        replace_text(self._folder / f"{what}@{self.host}", json.dumps(value))

    def hear(self, what: str, hosts: Sequence[str]) -> dict[str, Any]:
        """Wait until these hosts have said it; what each has said. Raises RunStopped where one of
        the company fails or dies.
        """
        while not self._said(what, hosts):
            time.sleep(POLL_S * len(self.hosts))
        return {host: self._read(what, host) for host in hosts}

    def have_said(self, what: str) -> bool:
        """Whether all hosts have said it. Raises as `hear`."""
        return self._said(what, self.hosts)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A block in which the others see that this host lives; if it fails, they hear of it."""
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(ended,), daemon=True)
        beating.start()
        try:
            yield
        except Left:
            raise
        except BaseException:
            self.say(FAILED)
            raise
        finally:
            ended.set()
            beating.join()

    def _said(self, what: str, hosts: Sequence[str]) -> bool:
        names = set(os.listdir(self._folder))  # asks a server anew, unlike a look for one name
        missing = [host for host in hosts if f"{what}@{host}" not in names]
        failed = sorted(name for name in names if name.startswith(f"{FAILED}@"))
        if missing and failed:
            raise Left(f"{failed[0].partition('@')[2]} has failed")
        for host in missing:
            self._require_life(host, names)
        return not missing

    def _require_life(self, host: str, names: set[str]) -> None:
        """Raise Left where a host has not been heard of for too long."""
        now_s = time.monotonic()
        beat = max((name for name in names if _is_beat(name, host)), default="")
        known, since_s = self._beats.get(host, ("none", now_s))
        if beat != known:
            since_s = now_s
        self._beats[host] = (beat, since_s)
        if now_s - since_s > SILENT_S:
            raise Left(f"{host} has not been heard of for {show_seconds(SILENT_S)}")

    def _beat(self, ended: threading.Event) -> None:
        """Say again and again that this host lives, as long as the folder is there."""
        number = 0
        path = self._folder / f"{_BEAT}{number:08d}@{self.host}"
        try:
            path.touch()
            while not ended.wait(BEAT_S):
                number += 1
                path = path.rename(self._folder / f"{_BEAT}{number:08d}@{self.host}")
        except OSError:  # of whatever kind: who is heard of no more is given up by the others
            return

    def _read(self, what: str, host: str) -> Any:
        return json.loads((self._folder / f"{what}@{host}").read_text(encoding="utf-8"))


class Left(RunStopped):
    """One of a company that goes because another one has gone."""


def _is_beat(name: str, host: str) -> bool:
    return name.startswith(_BEAT) and name.endswith(f"@{host}")
