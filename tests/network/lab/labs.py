"""Laboratories of tests, and what is looked at beside them."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.network.lab import parse_spec
from hyperslab.network.lab.backends.choosing import BACKENDS, require_means
from hyperslab.network.lab.link import Link
from hyperslab.network.lab.registry import Lab, Node
from hyperslab.network.lab.spec import LabSpec
from tests.system.clusters.required import required

TOLERANT = "tolerance = 0.4\n"
"Tolerance of laboratories in which a test looks at something else than the links."


NODE = Node("w1", "worker", "10.0.0.2", "02:00:00:00:00:02", Link(), Link())
LAB = Lab(
    name="x",
    folder="/x",
    backend="kernel",
    mode="exact",
    seed=0,
    tolerance=0.1,
    network="10.0.0.0/24",
    switch_address="10.0.0.254",
    switch_hardware_address="02:00:00:00:00:ff",
    nodes=(NODE,),
    made_ns=0,
    boot="",
    mounts=0,
    owner=None,
    owner_started=None,
)
"A laboratory of which there is nothing but the record."
RARE = 1e-6
"Probability of fewer or more losses than chance explains."
OF_THE_KERNEL = ("netem",)
"Backends that nothing can be installed for, so that their tests may be skipped in CI, too."


def require(*backends: str) -> None:
    """Go on where laboratories can be made by these backends; otherwise skip the test, or fail if
    CI is set.
    """
    try:
        require_means()
    except UsageError as why:
        required(str(why))
    for backend in backends:
        _require_backend(backend)


def _require_backend(backend: str) -> None:
    why_not = BACKENDS[backend].missing()
    if not why_not:
        return
    sentence = f"no laboratory of the backend {backend}: {why_not}"
    if backend in OF_THE_KERNEL:
        pytest.skip(sentence)
    required(sentence)


def require_program(name: str, package: str) -> None:
    """Go on where a program is installed; otherwise skip the test, or fail if CI is set."""
    if shutil.which(name) is None:
        required(f"{name} is missing: install the Debian package {package}")


def spec(text: str) -> LabSpec:
    """The spec that a text says."""
    return parse_spec(text, "spec.toml")


def run(lab: Lab, node: str, command: Sequence[str]) -> str:
    """What a command prints in a node; one that fails is a failure of the test."""
    return subprocess.run(
        [*lab.prefix(node), *command], capture_output=True, text=True, check=True, timeout=200
    ).stdout


def host() -> tuple[str, ...]:
    """What this host's own network is like: devices, addresses, routes, queues, rules."""
    commands = ["ip -br link", "ip -br addr", "ip route show table all", "ip rule", "tc qdisc"]
    if shutil.which("nft") is not None:
        commands.append("nft --stateless list ruleset")
    said = [
        subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout
        for command in commands
    ]
    folders = map(Path, ("/run/netns", "/etc/netns"))
    return (*said, *chain.from_iterable(map(_in_folder, folders)), *_settings())


def _settings() -> list[str]:
    """Settings of this host's network (sysctl net.*), but for what only counts."""
    paths = sorted(path for path in Path("/proc/sys/net").rglob("*") if path.is_file())
    settings = [path for path in paths if path.stat().st_mode & 0o600 == 0o600]
    return [f"{path}: {_text(path)}" for path in settings]


def _text(path: Path) -> str:
    """A setting; '' of one that this host has and does not tell."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _in_folder(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(name for name in os.listdir(folder) if not name.startswith("hyperslab-"))


def by_chance(share: float, number: int) -> tuple[int, int]:
    """How many of so many packets are lost at least and at most where each is with that
    probability: beyond either end lies a millionth of the binomial distribution.
    """
    each = [
        math.comb(number, lost) * share**lost * (1 - share) ** (number - lost)
        for lost in range(number + 1)
    ]
    upto = list(accumulate(each))
    least = bisect_left(upto, RARE)
    most = bisect_left(upto, 1 - RARE)
    return least, most
