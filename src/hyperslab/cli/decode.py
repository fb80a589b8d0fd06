"""`hyperslab netlab decode`: the messages of Dask in a capture of packets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.errors import UsageError
from hyperslab.report.messages.numbers import Numbers, numbers_of
from hyperslab.report.messages.page import messages_line
from hyperslab.units import show_bytes, show_count, show_share

Opt = typer.Option

SUMS = (
    "packets",
    "nbytes",
    "messages",
    "retransmissions",
    "reordered",
    "copies",
    "strays",
    "missing_nbytes",
    "cut_nbytes",
    "undecoded_nbytes",
)


def decode(
    capture: Annotated[
        Path,
        typer.Argument(metavar="FILE.pcap", help="Capture of tcpdump or Wireshark (pcap, pcapng)."),
    ],
    out: Annotated[
        Path | None, Opt("--out", "-o", help="Also write the messages, as FILE.parquet.")
    ] = None,
    json: Json = False,
) -> int:
    """Count the messages of Dask in a capture: by operation and by pair of hosts, with packets and
    retransmissions, and what could not be decoded.
    """
    from hyperslab.network.capture.decoding import decode as decoded

    if not capture.is_file():
        raise UsageError(f"{capture}: there is no such file")
    traffic = decoded(capture)
    numbers = numbers_of(traffic)
    directions: Sequence[Mapping[str, Any]] = traffic.meta["directions"]
    if out is not None:
        traffic.save(out)
    if json:
        told = {"packets": traffic.meta["packets"], "messages": numbers, "directions": directions}
        document.say(told)
        return 0
    tell(numbers)
    _tell_packets(traffic.meta["packets"], directions)
    tell_notes(numbers)
    return 0


def tell(numbers: Numbers) -> None:
    """Print operations and pairs as tables."""
    typer.echo(messages_line(numbers))
    if not numbers.messages:
        return
    rows = [("operation", "count", "", "bytes", "")]
    rows += [
        (
            one.name,
            f"{one.count:,}",
            show_share(one.count_share),
            show_bytes(one.nbytes),
            show_share(one.nbytes_share),
        )
        for one in numbers.operations
    ]
    _print(rows)
    pairs = [("from", "to", "messages", "bytes")]
    pairs += [
        (pair.source, pair.target, f"{pair.messages:,}", show_bytes(pair.nbytes))
        for pair in sorted(numbers.pairs, key=lambda pair: -pair.nbytes)
    ]
    _print(pairs)


def tell_notes(numbers: Numbers) -> None:
    """Print what to know of the numbers."""
    for note in numbers.notes:
        typer.echo(f"note       {note}")


def _print(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    typer.echo("")
    for row in rows:
        words = [row[0].ljust(widths[0])]
        words += [word.rjust(width) for word, width in zip(row[1:], widths[1:], strict=True)]
        typer.echo(f"  {'  '.join(words)}".rstrip())


def _tell_packets(packets: Mapping[str, int], directions: Sequence[Mapping[str, Any]]) -> None:
    """Say what the capture holds beside messages, and what could not be decoded."""
    speaking = [one for one in directions if one["messages"]]
    silent = [one for one in directions if one["nbytes"] and not one["messages"]]
    sums = {name: sum(one[name] for one in speaking) for name in SUMS}
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in packets.items() if number)
    typer.echo(f"\npackets    {kinds or 'none'}")
    streams = f"{show_count(sums['packets'], 'packet')} in {show_count(len(speaking), 'direction')}"
    typer.echo(
        f"Dask's     {streams}: {sums['retransmissions']:,} sent again, {sums['reordered']:,}"
        f" overtaken, {sums['copies']:,} captured twice"
    )
    typer.echo(
        f"not read   {show_bytes(sums['undecoded_nbytes'])} of no message that could be found;"
        f" {show_bytes(sums['missing_nbytes'])} in no packet, {show_bytes(sums['cut_nbytes'])} cut"
        " by the snap length"
    )
    if silent:
        nbytes = sum(one["nbytes"] for one in silent)
        told = show_count(len(silent), "direction")
        typer.echo(f"others     {told} without messages of Dask, {show_bytes(nbytes)}")
