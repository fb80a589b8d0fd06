"""Sizes, times, shapes and partitions as users write them, on the command line and in Python.

Raises UsageError with a sentence that names the flag.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hyperslab.arrays.axes import Axis
from hyperslab.arrays.partition import Rule
from hyperslab.errors import UsageError

UNITS = {"": 1, "B": 1} | {
    f"{prefix}{i}B": (1024 if i else 1000) ** (n + 1)
    for n, prefix in enumerate("KMGTP")
    for i in ("", "i")
}
UNITS |= {unit.removesuffix("B"): number for unit, number in UNITS.items() if unit not in ("", "B")}
DURATIONS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
"Seconds of each unit of time that may be written."


def parse_size(flag: str, text: str, prefix: str = "") -> int:
    """Bytes from '8GB', '512MiB', '1.5 GiB' or '1000', after a prefix."""
    match = re.fullmatch(
        r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*([A-Za-z]*)\s*", text.removeprefix(prefix)
    )
    unit = match[2].upper().replace("I", "i") if match else None
    if match is None or unit not in UNITS or (nbytes := _times(match[1], UNITS[unit])) < 1:
        raise UsageError(
            f"{flag} {text}: give a positive size such as {prefix}512MiB or {prefix}8GB"
        )
    return nbytes


def _times(number: str, unit: int) -> int:
    """A number with a decimal point, so many times, exactly; without its fraction."""
    whole, _, decimals = number.partition(".")
    ones: int = 10 ** len(decimals)
    return int(whole + decimals) * unit // ones


def parse_duration(flag: str, text: str) -> float:
    """Seconds from '300us', '2ms', '0.5s' or '0.5'."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(us|µs|ms|s|)\s*", text)
    if match is None:
        raise UsageError(f"{flag} {text}: give a time such as 300us, 2ms or 0.5s")
    return float(match[1]) * DURATIONS[match[2]]


def parse_shape(flag: str, text: str | None) -> tuple[int, ...]:
    """Integers from '64,64,64'; () where nothing was asked for."""
    if text is None:
        return ()
    return parse_numbers(flag, text)


def parse_numbers(flag: str, text: str) -> tuple[int, ...]:
    """Integers from '64,64,64' or '5x5x5'."""
    try:
        return tuple(int(part) for part in re.split(r"[,x]", text))
    except ValueError:
        raise UsageError(f"{flag} {text}: give whole numbers such as 64,64,64") from None


def parse_named_axes(flag: str, text: str | None) -> tuple[Axis, ...]:
    """Numbers and names of axes from '0,1' or 'time'; () where nothing was asked for."""
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if all(re.fullmatch(r"-?\d+(x-?\d+)*", part) for part in parts):
        return parse_numbers(flag, text)
    if not all(parts):
        raise UsageError(f"{flag} {text}: give numbers or names of axes, such as 3 or time")
    return tuple(int(part) if re.fullmatch(r"-?\d+", part) else part for part in parts)


def parse_rule(
    block_shape: str | None, blocks: str | None, partition: str | None, axes_whole: str | None
) -> Rule:
    """The one way to cut that was asked for."""
    given = {"--block-shape": block_shape, "--blocks": blocks, "--partition": partition}
    named = [flag for flag, text in given.items() if text is not None]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)} are different ways to cut: give one of them")
    whole = parse_named_axes("--axes-whole", axes_whole)
    rule = _parse_way(block_shape, blocks, partition)
    return replace(
        rule,
        axes_whole=tuple(axis for axis in whole if isinstance(axis, int)),
        names_whole=tuple(axis for axis in whole if isinstance(axis, str)),
    )


def _parse_way(block_shape: str | None, blocks: str | None, partition: str | None) -> Rule:
    if block_shape is not None:
        return Rule("block-shape", parse_numbers("--block-shape", block_shape))
    if blocks is not None:
        return Rule("blocks", parse_numbers("--blocks", blocks))
    return _parse_partition(partition)


def _parse_partition(text: str | None) -> Rule:
    match text:
        case None | "auto":
            return Rule()
        case "chunks":
            return Rule("chunks")
        case "slabs":
            return Rule("slabs")
        case str() if text.startswith("bytes="):
            return Rule("bytes", (parse_size("--partition", text, "bytes="),))
        case _:
            raise UsageError(f"--partition {text}: choose auto, chunks, slabs or bytes=SIZE")


def written(flag: str, value: str | int | Sequence[int] | None) -> str | None:
    """What Python gave for a flag as the command line would have it: '3' of 3, '3,3' of (3, 3)."""
    if value is None or isinstance(value, str):
        return value
    numbers = value if isinstance(value, Sequence) else (value,)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise UsageError(f"{flag}: {value!r} are not whole numbers")
    return ",".join(map(str, numbers))


def written_axes(flag: str, value: Axis | Sequence[Axis] | None) -> str | None:
    """The same for axes, of which some may be named: '0,time' of (0, 'time')."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return written(flag, value)
    return ",".join(axis if isinstance(axis, str) else str(written(flag, axis)) for axis in value)


def texts(given: str | Sequence[str]) -> tuple[str, ...]:
    """One text, or several, as several."""
    if isinstance(given, str):
        return (given,)
    return tuple(given)
