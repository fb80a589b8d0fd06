"""Calibration: is every link what was asked for? Nobody uses a laboratory before.

Each direction of each link is measured on its own, between its node and the switch. Its rate is
measured while packets are neither delayed nor lost, since TCP would else be measured with it; then
the link is made as asked for, and its round trips and losses are measured. What is off is measured
again, since other programs may have been in the way. Jitter and reordering are not measured, nor
what links do that are all busy at once.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from hyperslab.network.lab import probes
from hyperslab.network.lab.backends.choosing import BACKENDS
from hyperslab.network.lab.backends.kernel import LARGEST_NBYTES
from hyperslab.network.lab.link import DIRECTIONS, Direction, Link
from hyperslab.network.lab.measured import MeasuredLink
from hyperslab.network.lab.namespaces import LabFailed, network_file
from hyperslab.network.lab.probes import End
from hyperslab.network.lab.registry import SWITCH, Lab, Node
from hyperslab.units import show_list

TIMES = 3
"Measurements the median of which is believed where the first one is off."
FLOOR_S = 0.0005
"Time that a round trip may take longer, or be measured shorter, whatever was asked for."
UNASKED_S = 0.02
"Time of which a link that is to have no delay may have the share that is tolerated."
NO_LOSS = 0.002
"Share of packets that may be lost on a link that is to lose none."
_RATE_S = 0.3
"Time for which a rate is measured."
_LEAST_NBYTES = 100_000
_MOST_NBYTES = 1 << 28
_LEAST_WINDOW_NBYTES = 8 * probes.PAYLOAD_NBYTES
"Bytes under way that keep a slow link busy."
_FREE_NBYTES = 1 << 25
"Bytes that are sent over a link without a rate."
_ROUND_TRIPS_S = 1.0
_FEWEST, _MOST = 8, 40
"Round trips that are measured."
_PACKETS = 4000
"Packets of which those that are lost are counted, and whose times are taken; on slow links fewer."
_LOSSY_PACKETS = 1000
"Packets of a link that loses some, at least, however long they take."
_FEWEST_PACKETS = 50
_LOSS_S = 0.3
_SHARE_OF_RATE = 0.25
"Share of a link's rate that these take at most."
_PATIENCE_S = 0.1
"Time for which a packet is waited for, beside that of its way."
_STEPS = 3
"Standard deviations by which a share that is counted may differ from that of all packets."


def calibrate(lab: Lab) -> tuple[MeasuredLink, ...]:
    """What all links of a laboratory do, which are as asked for when it returns. Raises LabFailed
    where one is not within the tolerance.
    """
    found = []
    for node in lab.nodes:
        found += measure(lab, node)
    require_asked(lab, found)
    return tuple(found)


def measure(lab: Lab, node: Node) -> list[MeasuredLink]:
    """What the link of one node does, which is as asked for when it returns. Raises LabFailed."""
    backend = BACKENDS[lab.backend]
    backend.shape(lab, replace(node, up=_rate_alone(node.up), down=_rate_alone(node.down)))
    found: list[MeasuredLink] = []
    for direction in DIRECTIONS:
        found += _believed(lambda which=direction: [_rate(lab, node, which)])  # type: ignore[misc]
    backend.shape(lab, node)
    found += _believed(lambda: [_round_trip(lab, node)])
    for direction in DIRECTIONS:
        found += _believed(lambda which=direction: _one_way(lab, node, which))  # type: ignore[misc]
    return found


def require_asked(lab: Lab, found: Sequence[MeasuredLink]) -> None:
    """Raise LabFailed where a link is not what was asked for."""
    wrong = [one for one in found if not one.is_right]
    if not wrong:
        return
    raise LabFailed(
        f"'{lab.name}' is not the laboratory that was asked for:"
        f" {show_list([one.sentence() for one in wrong])}; {_remedy(wrong)}"
    )


def _remedy(wrong: Sequence[MeasuredLink]) -> str:
    """What to do about links that are not what was asked for, as a clause."""
    off = max(map(_off, wrong))
    if off > 1:
        return "try again when the machine is less busy, or ask for less"
    return (
        "try again when the machine is less busy, ask for less, or take it as it is with tolerance"
        f" = {off:.2g} in the spec"
    )


def _off(one: MeasuredLink) -> float:
    """Tolerance that would take it as it is; more than 1 where none does."""
    asked = one.asked or 0.0
    whole = asked
    if one.unit == "s":
        whole = asked or UNASKED_S
    if not whole:
        return math.inf
    return math.ceil(abs(one.value - asked) / whole * 100) / 100


def _rate_alone(link: Link) -> Link:
    return Link(rate_bits=link.rate_bits, queue_ns=link.queue_ns)


def _believed(measure: Callable[[], Sequence[MeasuredLink]]) -> list[MeasuredLink]:
    """What is measured: once where all of it is what was asked for, else the medians."""
    found = [measure()]
    if not all(one.is_right for one in found[0]):
        found += [measure() for _ in range(TIMES - 1)]
    return [_median(tries) for tries in zip(*found, strict=True)]


def _median(tries: Sequence[MeasuredLink]) -> MeasuredLink:
    return sorted(tries, key=lambda one: one.value)[len(tries) // 2]


def _ends(lab: Lab, node: Node, direction: Direction) -> tuple[End, End]:
    """Sender and receiver of what goes in a direction."""
    own = End(network_file(lab.place, node.name), node.address)
    switch = End(network_file(lab.place, SWITCH), lab.switch_address)
    if direction == "up":
        return own, switch
    return switch, own


def _link(node: Node, direction: Direction) -> Link:
    return node.up if direction == "up" else node.down


def _rate(lab: Lab, node: Node, direction: Direction) -> MeasuredLink:
    link = _link(node, direction)
    asked = link.rate_bits
    nbytes = _FREE_NBYTES
    window = None
    if asked is not None:
        nbytes = min(max(round(asked / 8 * _RATE_S), _LEAST_NBYTES), _MOST_NBYTES)
        window = max(round(asked / 8 * link.waiting_ns / 2e9), _LEAST_WINDOW_NBYTES)
    # The bucket may be full, and holds as much again after a pause.
    warm = LARGEST_NBYTES + nbytes // 8
    value = probes.rate_bits(*_ends(lab, node, direction), warm, nbytes, window)
    allowed = lab.tolerance * (asked or 0)
    return MeasuredLink(f"rate {direction}", asked, value, "bit/s", node.name, allowed)


def _round_trip(lab: Lab, node: Node) -> MeasuredLink:
    """The median, which is what the delays of both directions are together, whatever the jitter."""
    asked_s = (node.up.delay_ns + node.down.delay_ns) / 1e9
    number = _FEWEST
    if asked_s < _ROUND_TRIPS_S / _FEWEST:
        number = min(_MOST, round(_ROUND_TRIPS_S / max(asked_s, 1e-3)))
    near, far = _ends(lab, node, "up")
    times = probes.round_trips(near, far, number, _patience_s(node))
    jitter_s = (node.up.jitter_ns + node.down.jitter_ns) / 1e9
    spread_s = _STEPS * jitter_s / math.sqrt(len(times))
    allowed_s = _tolerated_s(lab, asked_s) + spread_s + _sending_s(node)
    taken_s = statistics.median(times)
    return MeasuredLink("round trip", asked_s, taken_s, "s", node.name, allowed_s)


def _tolerated_s(lab: Lab, asked_s: float) -> float:
    """Difference from a delay that the tolerance allows."""
    return lab.tolerance * (asked_s or UNASKED_S) + FLOOR_S


def _sending_s(node: Node) -> float:
    """Time that it takes both directions to send a small packet, beside the delay."""
    rates = [link.rate_bits for link in (node.up, node.down) if link.rate_bits is not None]
    return sum(8 * probes.SMALL_FRAME_NBYTES / rate for rate in rates)


def _patience_s(node: Node) -> float:
    """Time after which a packet that is not back is lost."""
    links = (node.up, node.down)
    way_ns = sum(link.delay_ns + link.jitter_ns for link in links)
    return _PATIENCE_S + way_ns / 1e9


def _one_way(lab: Lab, node: Node, direction: Direction) -> list[MeasuredLink]:
    """Share of packets that are lost, and median of the time that the others are under way: both
    ends have one clock.
    """
    link = _link(node, direction)
    number, duration_s = _number(link)
    ends = _ends(lab, node, direction)
    times = probes.one_way(*ends, number, duration_s, _patience_s(node))
    if not times:
        raise LabFailed(f"of {number} packets that {ends[0].address} sends none arrives")
    lost = 1 - len(times) / number
    allowed = _chance(lab, link, number)
    loss = MeasuredLink(f"loss {direction}", link.loss, lost, "share", node.name, allowed)
    asked_s = link.delay_ns / 1e9
    # Of packets that follow closely, each waits for those before it that jitter holds up.
    allowed_s = _tolerated_s(lab, asked_s) + link.jitter_ns / 1e9 + _sending_s(node)
    taken_s = statistics.median(times)
    # Of thousands of packets in a row, busy processors hold up most: that a link has no delay is
    # judged by its round trips.
    delay = MeasuredLink(f"delay {direction}", asked_s or None, taken_s, "s", node.name, allowed_s)
    return [delay, loss]


def _number(link: Link) -> tuple[int, float]:
    """Packets that are sent evenly, and the seconds in which they are."""
    if link.rate_bits is None:
        return _PACKETS, _LOSS_S
    in_a_second = link.rate_bits * _SHARE_OF_RATE / 8 / probes.SMALL_FRAME_NBYTES
    fewest = _LOSSY_PACKETS if link.loss else _FEWEST_PACKETS
    number = max(fewest, min(_PACKETS, round(in_a_second * _LOSS_S)))
    return number, max(_LOSS_S, number / in_a_second)


def _chance(lab: Lab, link: Link, number: int) -> float:
    """Difference of the share that is lost that chance or the tolerance allow."""
    if not link.loss:
        return NO_LOSS
    deviation = math.sqrt(link.loss * (1 - link.loss) / number)
    return lab.tolerance * link.loss + _STEPS * deviation
