"""Spec: the nodes of a laboratory and their links, as a TOML file says them.

A file that cannot be used is refused with its name, the line and the field of every mistake.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from hyperslab.errors import UsageError
from hyperslab.network.lab.link import Link, Mode, Role, parse_rate
from hyperslab.plan.mistakes import Mistake, Table, mistakes_of, read_toml, sentences
from hyperslab.plan.positions import line_of
from hyperslab.plan.written import parse_duration

Backend = Literal["auto", "netem", "kernel", "emulator"]
NAMED_ROLES: tuple[Role, ...] = ("scheduler", "client", "storage")
"Roles of nodes that have their names."
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
TOLERANCE = 0.1
"Share by which a link may differ from what was asked for."
LARGEST = 200
"Nodes of a laboratory, whose addresses are in one network of 254."
NO_RATE = "none"
"Rate of a link that carries as much as the machine does."
NODE_NAME = re.compile(r"[a-z][a-z0-9-]{0,11}")
"Names of nodes: host names that leave room for a prefix in the name of a device."
LAB_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
RESERVED = frozenset(("switch", "localhost"))
"Names that no node may have."


class OneWay(Table):
    """One direction of a link."""

    rate: str | None = None
    delay: str | None = None
    jitter: str | None = None
    loss: Share | None = None
    reorder: Share | None = None

    @field_validator("rate", "delay", "jitter")
    @classmethod
    def _can_be_read(cls, text: str | None, field: ValidationInfo) -> str | None:
        try:
            if field.field_name == "rate":
                _bits(text, None)
            else:
                _nanoseconds(str(field.field_name), text, 0)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return text

    def over(self, link: Link) -> Link:
        """The same link, with what is said here instead."""
        return Link(
            rate_bits=_bits(self.rate, link.rate_bits),
            delay_ns=_nanoseconds("delay", self.delay, link.delay_ns),
            jitter_ns=_nanoseconds("jitter", self.jitter, link.jitter_ns),
            loss=_share(self.loss, link.loss),
            reorder=_share(self.reorder, link.reorder),
            queue_ns=link.queue_ns,
        )


class NodeSpec(OneWay):
    """A node: the rate is that of both directions, all else is of what the node sends."""

    role: Role | None = None
    up: OneWay = OneWay()
    "What the node sends, where that is not as said for the node."
    down: OneWay = OneWay()
    "What the node receives."

    @model_validator(mode="after")
    def _can_be(self) -> NodeSpec:
        for name, link in (("up", self.up_link()), ("down", self.down_link())):
            if problem := link.problem():
                raise ValueError(self._place(name, problem))
        return self

    def _place(self, direction: str, problem: str) -> str:
        """A clause that begins with a field, with the table in which that is said before it."""
        field = problem.partition(":")[0]
        said = self.up if direction == "up" else self.down
        if getattr(said, field) is None and getattr(self, field) is not None:
            return problem
        return f"{direction}: {problem}"

    def up_link(self) -> Link:
        """What the node sends."""
        return self.up.over(self.over(Link()))

    def down_link(self) -> Link:
        """What the node receives."""
        return self.down.over(OneWay(rate=self.rate).over(Link()))


class LabSpec(Table):
    """A whole laboratory."""

    name: str | None = None
    "Name; a random one where it is left out."
    backend: Backend = "auto"
    mode: Mode | None = None
    "How the emulator hands packets on; exact wherever packets are lost or overtake each other."
    tolerance: Annotated[float, Field(gt=0, le=1)] = TOLERANCE
    network: str | None = None
    "IPv4 network of the nodes' addresses; one that is not in use where it is left out."
    seed: int = 0
    "Seed of the emulator's chance."
    nodes: Annotated[dict[str, NodeSpec], Field(min_length=1, max_length=LARGEST)]

    @model_validator(mode="after")
    def _has_names(self) -> LabSpec:
        if self.name is not None:
            require_lab_name(self.name)
        for name in self.nodes:
            if not NODE_NAME.fullmatch(name) or name in RESERVED:
                raise ValueError(
                    f"nodes.{name}: a node is named by up to 12 lower-case letters, digits and"
                    " hyphens, a letter first, and is not called switch or localhost"
                )
        if self.network is not None:
            _require_network(self.network, len(self.nodes))
        return self

    def role(self, node: str) -> Role:
        """What a node is for."""
        given = self.nodes[node].role
        if given is not None:
            return given
        return next((role for role in NAMED_ROLES if role == node), "worker")


def require_lab_name(name: str) -> None:
    """Raise ValueError for what cannot be the name of a laboratory."""
    if not LAB_NAME.fullmatch(name):
        raise ValueError(
            f"name: {name!r} has to be up to 31 lower-case letters, digits and hyphens"
        )


def _require_network(text: str, nodes: int) -> None:
    """Raise ValueError for what is no network with room for so many nodes and the switch."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"network: {error}") from error
    if network.num_addresses - 3 < nodes:
        raise ValueError(f"network: {text} has no room for {nodes} nodes and the switch")


def load_spec(path: Path) -> LabSpec:
    """The spec of a file. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text") from error
    return parse_spec(text, str(path))


def parse_spec(text: str, label: str) -> LabSpec:
    """The spec of a file's text; `label` is what errors call the file. Raises UsageError."""
    document = read_toml(text, label)
    try:
        return LabSpec.model_validate(document)
    except ValidationError as error:
        mistakes = map(_nearer, mistakes_of(error, LabSpec))
        told = sentences(list(mistakes), label, lambda field: line_of(text, field))
        raise UsageError("\n".join(told)) from error


def _nearer(mistake: Mistake) -> Mistake:
    """A mistake at the field that its clause begins with, where a table has found it."""
    fields, colon, text = mistake.text.partition(": ")
    while colon and re.fullmatch(r"[\w.-]+", fields):
        path = (*mistake.path, *fields.split("."))
        mistake = Mistake(path, text)
        fields, colon, text = text.partition(": ")
    return mistake


def _bits(text: str | None, usual: int | None) -> int | None:
    if text is None:
        return usual
    if text == NO_RATE:
        return None
    return parse_rate("rate", text)


def _share(share: float | None, usual: float) -> float:
    if share is None:
        return usual
    return share


def _nanoseconds(flag: str, text: str | None, usual: int) -> int:
    if text is None:
        return usual
    return round(parse_duration(flag, text) * 1e9)
