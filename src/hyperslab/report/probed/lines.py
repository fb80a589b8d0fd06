"""Lines about a tier that was probed, for the terminal: the answer first, all numbers if asked
for.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.storage.probing.records import (
    Compared,
    Curve,
    Latency,
    Measured,
    Opening,
    Point,
    Probed,
)
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share

TITLES = {
    "read-cold": "reading from storage",
    "read-cached": "reading from the page cache",
    "write": "writing with fsync",
    "write-cached": "writing into the page cache",
    "write-direct": "writing past the page cache (O_DIRECT)",
}
"What curves of bytes are called."
HOW = {"cold": "by way of the page cache", "direct": "past it", "cached": "from memory"}
"How small reads are made, by the kind of their latency."
HARMLESS = 1.5
"Slowdown by opening a file for every read below which nobody would notice it."


def headline(probed: Probed) -> list[str]:
    """The answer about one tier in a few lines."""
    lines = [f"{probed.path}: {_made_of(probed)}"]
    lines += [f"  {label:<9} {text}" for label, text in _answers(probed)]
    lines += [f"  note      {note}" for note in probed.notes]
    return lines


def _made_of(probed: Probed) -> str:
    tier = probed.tier
    if made := tier.get("emulated"):
        return f"an emulated tier, {made['kind']}: {made['words']}, from {probed.host}"
    words = [str(tier.get("file_system") or "an unknown file system")]
    if tier.get("source"):
        words.append(f"on {tier['source']}")
    return f"{' '.join(words)} ({tier.get('kind', 'unknown')}), from {probed.host}"


def _answers(probed: Probed) -> Iterator[tuple[str, str]]:
    """Label and text of each line of the answer."""
    curves = probed.curves
    if "read-cold" in curves:
        yield "read", f"{_rate_words(curves['read-cold'])}, from storage"
    yield "cached", f"{_rate_words(curves['read-cached'])}, from memory"
    yield "write", f"{_rate_words(curves['write'])}, with fsync"
    if "write-direct" in curves:
        yield "direct", f"{_rate_words(curves['write-direct'])}, past the page cache"
    yield "buffered", f"{_rate_words(curves['write-cached'])}, until the last write returns"
    for kind, latency in probed.latency.items():
        yield "latency", _latency_words(kind, latency)
    yield "names", _names_words(probed)
    yield "opening", opening_words(probed.opening)
    for what, rates in _by_curve(probed).items():
        said = ", ".join(f"{node} {show_rate(rate.median)}" for node, rate in rates.items())
        yield "NUMA", f"{TITLES[what]}: {said}"
    for one in probed.compared:
        yield "fio", f"{_fio_words(one)}, ours is {one.ratio:.2f} of it{_agreement(one)}"


def _agreement(one: Compared) -> str:
    """Whether we lie within what fio gave; '' where it has measured once."""
    if len(one.fio.values) == 1:
        return ""
    if one.agrees:
        return ", within its spread"
    return ", outside its spread"


def _fio_words(one: Compared) -> str:
    """What fio has measured of a point."""
    if one.what in HOW:
        size = show_bytes(one.request_nbytes)
        return f"reads of {size}, {HOW[one.what]}: {show_seconds(one.fio.median)}"
    clients = show_count(one.clients, "client")
    return f"{one.what}, {clients}: {show_rate(one.fio.median)}"


def _by_curve(probed: Probed) -> dict[str, dict[str, Measured]]:
    """Rates on the nodes by the curve that they are of."""
    turned: dict[str, dict[str, Measured]] = {}
    for node, rates in probed.nodes.items():
        for what, rate in rates.items():
            turned.setdefault(what, {})[node] = rate
    return turned


def _rate_words(curve: Curve) -> str:
    """Rate of one client, and of those from which on more do not help."""
    single = curve.single
    knee = curve.knee
    text = f"{measured_rate(single.rate)} with {show_count(single.clients, 'client')}"
    if knee.clients == single.clients:
        return f"{text}, no more with several"
    more = f"{measured_rate(knee.rate)} with {knee.clients}"
    if curve.still_grows:
        more += " and still growing"
    return f"{text}, {more}"


def measured_rate(rate: Measured) -> str:
    """Median of a rate of bytes with its spread, which a single measurement has not."""
    if len(rate.values) == 1:
        return show_rate(rate.median)
    return f"{show_rate(rate.median)} ± {show_share(rate.relative_spread)}"


def show_slowdown(times: float) -> str:
    """How many times as long something takes, such as `2,050 x` and `1.02 x`."""
    if times < 1000:
        return f"{times:.3g} x"
    digits = len(f"{times:.0f}") - 3
    return f"{round(times, -digits):,.0f} x"


def _latency_words(kind: str, latency: Latency) -> str:
    return (
        f"{show_seconds(latency.median_s.median)}, 95 % below"
        f" {show_seconds(latency.p95_s.median)}: reads of {show_bytes(latency.request_nbytes)},"
        f" {HOW[kind]}"
    )


def show_operations(rate: float) -> str:
    """Operations per second, such as `31,000/s`."""
    digits = max(0, len(f"{rate:.0f}") - 3)
    return f"{round(rate, -digits):,.0f}/s"


def _names_words(probed: Probed) -> str:
    said = []
    for operation, curve in probed.names.items():
        said.append(f"{operation} {show_operations(curve.single.rate.median)}")
    knees = {operation: curve.knee for operation, curve in probed.names.items()}
    slowest = min(knees, key=lambda operation: knees[operation].rate.median)
    most = knees[slowest]
    return (
        f"{', '.join(said)}; {slowest} at most {show_operations(most.rate.median)}, with"
        f" {show_count(most.clients, 'client')}"
    )


def opening_words(opening: tuple[Opening, ...]) -> str:
    """Size of reads from which on an open for every one of them costs little."""
    least = opening[0]
    size = show_bytes(least.request_nbytes)
    text = f"reads of {size} take {show_slowdown(least.slowdown)} as long if each opens its file"
    for one in opening:
        later = [other for other in opening if other.request_nbytes >= one.request_nbytes]
        if all(other.slowdown < HARMLESS for other in later):
            return f"{text}; less than {HARMLESS} x from {show_bytes(one.request_nbytes)} on"
    last = opening[-1]
    return f"{text}; still {show_slowdown(last.slowdown)} at {show_bytes(last.request_nbytes)}"


def details(probed: Probed) -> list[str]:
    """Every number with its spread."""
    repetitions = show_count(probed.repetitions, "repetition")
    size = show_bytes(probed.size_nbytes)
    lines = [f"  files     {size}, {repetitions}, {show_seconds(probed.took_s)} in all"]
    if probed.how_cold:
        lines.append(f"  cold      by {probed.how_cold}")
    for what, curve in probed.curves.items():
        lines.append(f"  {TITLES[what]}")
        lines += [f"    {_point_words(point)}" for point in curve.points]
    for operation, curve in probed.names.items():
        lines.append(f"  {operation}")
        for point in curve.points:
            spread = show_share(point.rate.relative_spread)
            rate = show_operations(point.rate.median)
            lines.append(f"    {show_count(point.clients, 'client'):<11} {rate} ± {spread}")
    lines.append("  a file opened for every read, against once")
    for one in probed.opening:
        times = f"{show_seconds(one.each_s.median)} against {show_seconds(one.once_s.median)}"
        lines.append(
            f"    {show_bytes(one.request_nbytes):<11} {times}, {show_slowdown(one.slowdown)}"
        )
    return lines


def _point_words(point: Point) -> str:
    clients = show_count(point.clients, "client")
    return f"{clients:<11} {show_bytes(point.request_nbytes):<9} {measured_rate(point.rate)}"
