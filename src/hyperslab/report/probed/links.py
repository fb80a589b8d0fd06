"""Links of a cluster that was probed: the answer in a few lines, a table of all pairs for the
page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from statistics import median

from hyperslab.machine.links import Network, Odd, Serialising, distances, rates, standing_out
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds

NAMED = 3
"Links and nodes that stand out and are named; the others are counted."


def odd_sentence(odd: Odd, network: Network) -> str:
    """What stands out, by how much, without a full stop."""
    if odd.way == "distance":
        return _far_sentence(odd, network)
    times = f"{show_times(odd.times)} slower than"
    if len(odd.nodes) == 1:
        what = "what is sent to it" if odd.way == "receives" else "what it sends"
        return (
            f"{odd.nodes[0]} is slow: {what} arrives at {show_rate(odd.value)}, {times} the median"
            f" ({show_rate(odd.usual)})"
        )
    source, target = odd.nodes
    return (
        f"the link from {source} to {target} is slow: {show_rate(odd.value)}, {times} what both"
        f" reach elsewhere ({show_rate(odd.usual)})"
    )


def _far_sentence(odd: Odd, network: Network) -> str:
    times = f"{show_times(odd.times)} as long as"
    if len(odd.nodes) == 2:
        return (
            f"{odd.nodes[0]} and {odd.nodes[1]} are distant from each other: a round trip takes"
            f" {show_seconds(odd.value)}, {times} to others ({show_seconds(odd.usual)})"
        )
    (node,) = odd.nodes
    best = max(rate for (source, _), rate in rates(network.pairs).items() if source == node)
    return (
        f"{node} is distant: a round trip to the nearest node takes {show_seconds(odd.value)},"
        f" {times} the median ({show_seconds(odd.usual)}); one connection carries"
        f" {show_rate(best)} from there"
    )


def show_times(times: float) -> str:
    """How many times as much, such as `84 times` and `3.2 times`."""
    return f"{times:.2g} times" if times < 100 else f"{times:,.0f} times"


def answer_of(network: Network) -> list[str]:
    """What stands out, in sentences; one that nothing does where that can be told."""
    odd = standing_out(network.pairs)
    told = [odd_sentence(one, network) for one in odd[:NAMED]]
    if len(odd) > NAMED:
        told.append(f"{show_count(len(odd) - NAMED, 'other link')} or nodes stand out, too")
    if told:
        return told
    if len(network.nodes) <= NAMED:
        return ["a cluster of one worker has nothing that its link could be compared with"]
    return ["no node, and no link, is three times slower or farther than the others"]


def lines_of(network: Network) -> list[str]:
    """The answer about the links of a cluster in a few lines."""
    about = [
        show_count(len(network.nodes), "node"),
        f"{show_count(len(network.pairs), 'pair')} measured in {show_seconds(network.took_s)}",
        f"{show_bytes(network.sent_nbytes)} sent",
    ]
    lines = [f"network of {network.address}: {', '.join(about)}"]
    lines += [f"  {label:<9} {text}" for label, text in _answers(network)]
    return lines


def _answers(network: Network) -> Iterator[tuple[str, str]]:
    """Label and text of each line of the answer."""
    for sentence in answer_of(network):
        yield "answer", sentence
    speeds = list(rates(network.pairs).values())
    yield "rates", f"{show_rate(median(speeds))}, {_span(speeds, show_rate)}"
    far = list(distances(network.pairs).values())
    yield "trips", f"{show_seconds(median(far))} there and back, {_span(far, show_seconds)}"
    yield "messages", _serialising_words(network, median(speeds))
    for note in network.notes:
        yield "note", note


def _span(values: Sequence[float], show: Callable[[float], str]) -> str:
    return f"{show(min(values))} to {show(max(values))}"


def _serialising_words(network: Network, link: float) -> str:
    """What making messages of values costs beside sending them."""
    known = network.serialising
    slowest = min(known, key=lambda node: known[node].objects_nbytes_per_s)
    arrays = median(one.arrays_nbytes_per_s for one in known.values())
    objects = median(one.objects_nbytes_per_s for one in known.values())
    text = f"made and read at {show_rate(arrays)} of arrays, {show_rate(objects)} of objects"
    least = known[slowest].objects_nbytes_per_s
    if least * 2 < objects:
        text += f" ({slowest} at {show_rate(least)})"
    if objects < link:
        text += ": of objects that takes longer than sending them"
    return text


def details_of(network: Network) -> list[str]:
    """Every pair of nodes, and what each node makes messages at."""
    lines = ["  pairs     there, back, round trip"]
    for pair in network.pairs:
        both = ", ".join(show_rate(max(way)) for way in (pair.there, pair.back))
        ends = f"{pair.one} - {pair.other}"
        lines.append(f"    {ends:<28} {both}, {show_seconds(pair.round_trip_s)}")
    for node, one in network.serialising.items():
        lines.append(f"    {node:<28} {_made(one)}")
    return lines


def _made(one: Serialising) -> str:
    arrays = show_rate(one.arrays_nbytes_per_s)
    return f"messages of arrays {arrays}, of objects {show_rate(one.objects_nbytes_per_s)}"


def network_section(network: Network) -> str:
    """The same as a section of a page, with a table of who reaches whom."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(network.at_s))
    title, *lines = lines_of(network)
    rows = "".join(_row(*line.strip().split(None, 1)) for line in lines)
    numbers = escape("\n".join(details_of(network)))
    return (
        f'<section>\n<h2>{escape(title)}</h2>\n<p class="hint">probed {when}</p>\n'
        f"<table>{rows}</table>\n{_matrix(network)}<details><summary>All numbers</summary>"
        f"<pre>{numbers}</pre></details>\n</section>"
    )


def _row(label: str, text: str) -> str:
    return f'<tr><th>{escape(label)}</th><td class="text">{escape(text)}</td></tr>\n'


def _matrix(network: Network) -> str:
    """Rates from the node of a row to that of a column, over their round trips."""
    speeds = rates(network.pairs)
    far = distances(network.pairs)
    head = "".join(f"<th>{escape(node)}</th>" for node in network.nodes)
    rows = []
    for source in network.nodes:
        cells = "".join(_cell(speeds, far, (source, target)) for target in network.nodes)
        rows.append(f"<tr><th>{escape(source)}</th>{cells}</tr>\n")
    return (
        '<p class="hint">A row per sender, a column per receiver: the best rate, and the shortest'
        f' round trip.</p>\n<div class="wide"><table><thead><tr><th></th>{head}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div>\n"
    )


def _cell(
    speeds: Mapping[tuple[str, str], float],
    far: Mapping[tuple[str, str], float],
    nodes: tuple[str, str],
) -> str:
    if nodes not in speeds:
        return "<td></td>"
    return f'<td class="number">{show_rate(speeds[nodes])}<br>{show_seconds(far[nodes])}</td>'
