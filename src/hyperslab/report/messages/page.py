"""Messages on the page of a run: how many and how large, who sent them to whom, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

from hyperslab.report.messages.chart import RECEIVED, SENT, rates_svg, transfers_svg
from hyperslab.report.messages.numbers import Numbers, Spread, numbers_of
from hyperslab.report.summary import window
from hyperslab.trace import Trace
from hyperslab.traffic import Traffic
from hyperslab.units import show_bytes, show_count, show_seconds, show_share

NODES_SHOWN = 16
OPERATIONS_SHOWN = 20
TRANSFERS_SHOWN = 8
TRANSFERS_DRAWN = 2000
_ORIGINS = {
    "recorded": "As the processes themselves have seen them; their bytes are those of the messages,"
    " without what TCP, IP and TLS add.",
    "captured": "As a capture of packets has them.",
    "logged": "As the engine's own event log says it: what it is silent about is not here.",
}


def messages_html(traffic: Traffic | None, trace: Trace) -> str:
    """The section about messages; '' for a run of which none were kept."""
    if traffic is None:
        return ""
    numbers = numbers_of(traffic)
    notes = "".join(f'<p class="hint warning">{escape(note)}.</p>\n' for note in numbers.notes)
    head = (
        f'<section class="messages">\n<h2>Messages</h2>\n<p class="hint">'
        f"{_ORIGINS[numbers.origin]}</p>\n{notes}"
    )
    if not numbers.messages:
        return f"{head}<p>There were none.</p>\n</section>"
    parts = (
        _tiles(numbers),
        _rates(numbers, trace),
        _matrix(numbers),
        _operations(numbers),
        _sizes(numbers),
        _heartbeats(numbers),
        _transfers(numbers, trace),
    )
    return f"{head}{''.join(parts)}</section>"


def messages_line(numbers: Numbers) -> str:
    """The messages of a run in one line."""
    text = f"{show_count(numbers.messages, 'message')}, {show_bytes(numbers.nbytes)}"
    if not numbers.operations:
        return text
    largest = numbers.operations[0]
    return f"{text}; {show_share(largest.nbytes_share)} of the bytes are {largest.name}"


def _tiles(numbers: Numbers) -> str:
    tiles = {
        "messages": f"{numbers.messages:,}",
        "bytes": show_bytes(numbers.nbytes),
        "from the first to the last": show_seconds(numbers.seconds),
        "mean size": show_bytes(numbers.nbytes / numbers.messages),
    }
    cells = "".join(
        f"<div><b>{escape(value)}</b><span>{escape(label)}</span></div>"
        for label, value in tiles.items()
    )
    return f'<div class="tiles">{cells}</div>\n'


def _ready_ns(trace: Trace) -> int | None:
    """The zero of the page's time axis, by the wall clock."""
    anchor = trace.meta.get("wall_anchor")
    if anchor is None:
        return None
    return int(window(trace).ready_ns + anchor["time_ns"] - anchor["monotonic_ns"])


def _rates(numbers: Numbers, trace: Trace) -> str:
    ready_ns = _ready_ns(trace)
    start_s = 0.0
    if ready_ns is not None:
        start_s = (numbers.start_ns - ready_ns) / 1e9
    key = (
        f'<p class="key"><span><i style="background:{SENT}"></i>sent</span>'
        f'<span><i style="background:{RECEIVED}"></i>received</span></p>\n'
    )
    busiest = sorted(numbers.nodes, key=lambda node: -node.sent_nbytes - node.received_nbytes)
    shown = {node.name for node in busiest[:NODES_SHOWN]}
    nodes = [node for node in numbers.nodes if node.name in shown]
    chart = rates_svg(nodes, start_s, numbers.step_s)
    return f"<h2>Bytes per second and node</h2>\n{key}{chart}\n{_left_out(numbers)}"


def _left_out(numbers: Numbers) -> str:
    if len(numbers.nodes) <= NODES_SHOWN:
        return ""
    return f'<p class="hint">The {NODES_SHOWN} busiest of {len(numbers.nodes)} nodes.</p>\n'


def _matrix(numbers: Numbers) -> str:
    """Who sent how much to whom: a row per sender, darker for more."""
    busiest = sorted(numbers.nodes, key=lambda node: -node.sent_nbytes - node.received_nbytes)
    shown = {node.name for node in busiest[:NODES_SHOWN]}
    names = [node.name for node in numbers.nodes if node.name in shown]
    pairs = {(pair.source, pair.target): pair for pair in numbers.pairs}
    most = max((pair.nbytes for pair in numbers.pairs), default=0) or 1
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = []
    for source in names:
        cells = []
        for target in names:
            pair = pairs.get((source, target))
            if pair is None:
                cells.append("<td></td>")
                continue
            shade = 0.06 + 0.44 * pair.nbytes / most
            told = show_count(pair.messages, "message")
            cells.append(
                f'<td class="number" title="{told}" style="background:rgba(0,114,178,{shade:.2f})">'
                f"{show_bytes(pair.nbytes)}</td>"
            )
        rows.append(f"<tr><th>{escape(source)}</th>{''.join(cells)}</tr>\n")
    return (
        '<h2>Who sent to whom</h2>\n<p class="hint">A row per sender, a column per receiver.</p>\n'
        f'<div class="wide"><table><thead><tr><th></th>{head}</tr></thead>\n<tbody>'
        f"{''.join(rows)}</tbody></table></div>\n"
    )


def _operations(numbers: Numbers) -> str:
    rows = [
        f"<tr><th>{escape(one.name)}</th>"
        f"{_amount(f'{one.count:,}', one.count_share)}"
        f"{_amount(show_bytes(one.nbytes), one.nbytes_share)}</tr>\n"
        for one in numbers.operations[:OPERATIONS_SHOWN]
    ]
    hint = "A batch counts each of its operations, and its bytes are shared out evenly among them."
    more = ""
    if len(numbers.operations) > OPERATIONS_SHOWN:
        more = f" The {OPERATIONS_SHOWN} largest of {len(numbers.operations)}."
    return (
        f'<h2>Operations</h2>\n<p class="hint">{hint}{more}</p>\n<div class="wide"><table><thead>'
        f"<tr><th></th><th>count</th><th></th><th>bytes</th><th></th></tr></thead>\n<tbody>"
        f"{''.join(rows)}</tbody></table></div>\n"
    )


def _amount(text: str, share: float) -> str:
    """Two cells: a value with its bar, and its share."""
    bar = f'<div class="bar"><div style="width:{100 * share:.2f}%;background:{SENT}"></div></div>'
    return f'<td class="number">{text}{bar}</td><td class="number">{show_share(share)}</td>'


def _sizes(numbers: Numbers) -> str:
    rows = "".join(
        f"<tr><th>below {show_bytes(size.below_nbytes)}</th>"
        f"{_amount(f'{size.messages:,}', size.messages / numbers.messages)}"
        f"{_amount(show_bytes(size.nbytes), size.nbytes / max(numbers.nbytes, 1))}</tr>\n"
        for size in numbers.sizes
    )
    return (
        '<h2>Sizes of messages</h2>\n<div class="wide"><table><thead><tr><th></th><th>messages</th>'
        f"<th></th><th>bytes</th><th></th></tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )


def _heartbeats(numbers: Numbers) -> str:
    if not numbers.heartbeats:
        return ""
    rows = "".join(
        f'<tr><th>{escape(one.node)}</th><td>{escape(one.operation)}</td><td class="number">'
        f"{one.count:,}</td><td>{_told(one.interval_s, show_seconds)}</td>"
        f"<td>{_told(one.request_nbytes, show_bytes)}</td>"
        f"<td>{_told(one.reply_nbytes, show_bytes)}</td></tr>\n"
        for one in numbers.heartbeats
    )
    return (
        '<h2>Heartbeats</h2>\n<p class="hint">Medians, and least to most in parentheses.</p>\n'
        '<div class="wide"><table><thead><tr><th></th><th></th><th>count</th><th>interval</th>'
        f"<th>request</th><th>reply</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )


def _told(spread: Spread | None, show: Callable[[float], str]) -> str:
    if spread is None:
        return ""
    return f"{show(spread.median)} ({show(spread.least)} to {show(spread.most)})"


def _transfers(numbers: Numbers, trace: Trace) -> str:
    """What workers have fetched from each other, on the time axis of the charts."""
    ready_ns = _ready_ns(trace)
    if not numbers.transfers or ready_ns is None:
        return ""
    when = window(trace)
    low, high = ((ns - when.ready_ns) / 1e9 for ns in (when.start_ns, when.end_ns))
    drawn = numbers.transfers[:TRANSFERS_DRAWN]
    total = sum(one.nbytes for one in numbers.transfers)
    rows = "".join(
        f'<tr><th>{escape(one.target)}</th><td class="number">{escape(one.source)}</td>'
        f'<td class="number">{show_bytes(one.nbytes)}</td>'
        f'<td class="number">{show_seconds((one.end_ns - one.start_ns) / 1e9)}</td>'
        f'<td class="text">{escape(_keys(one.keys))}</td></tr>\n'
        for one in sorted(numbers.transfers, key=lambda one: one.start_ns - one.end_ns)[
            :TRANSFERS_SHOWN
        ]
    )
    return (
        f'<h2>Values that workers fetched from each other</h2>\n<p class="hint">'
        f"{show_count(len(numbers.transfers), 'transfer')}, {show_bytes(total)}, by the workers'"
        f" own logs; the slowest are listed.</p>\n{transfers_svg(drawn, ready_ns, low, high)}\n"
        '<div class="wide"><table><thead><tr><th>to</th><th>from</th><th>bytes</th><th>time</th>'
        f"<th>for tasks</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )


def _keys(keys: Sequence[str]) -> str:
    return ", ".join(_some(keys))


def _some(keys: Sequence[str]) -> Iterator[str]:
    yield from keys[:3]
    if len(keys) > 3:
        yield f"{len(keys) - 3:,} more"
