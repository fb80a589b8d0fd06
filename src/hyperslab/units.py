"""Quantities as people read them: three significant digits and SI prefixes (1 kB = 1000 bytes),
nowhere IEC ones.
"""

from __future__ import annotations

from collections.abc import Sequence

PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def show_bytes(nbytes: float) -> str:
    """A number of bytes, such as `1.50 MB`."""
    size = float(nbytes)
    prefix = 0
    while abs(size) >= 999.5 and prefix < len(PREFIXES) - 1:
        size /= 1000
        prefix += 1
    digits = 2
    if prefix == 0 or abs(size) >= 99.95:
        digits = 0
    elif abs(size) >= 9.995:
        digits = 1
    return f"{size:.{digits}f} {PREFIXES[prefix]}B"


def enough_bytes(nbytes: int) -> str:
    """A size of no fewer bytes as flags take it, such as `1.51MB` of 1,500,001 bytes."""
    power = 0
    while nbytes > 1000 ** (power + 1) and power < len(PREFIXES) - 1:
        power += 1
    unit = 1000**power
    step = max(1, unit // 100)
    hundredths = -(-nbytes // step) * step * 100 // unit
    return f"{hundredths / 100:.15g}{PREFIXES[power]}B"


def show_rate(nbytes_per_s: float) -> str:
    """Bytes per second, such as `730 MB/s`."""
    return f"{show_bytes(nbytes_per_s)}/s"


def show_bits(rate_bits: float) -> str:
    """Bits per second as people read them, such as `95.6 Mbit/s`."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bits >= 0.9995 * size:
            return f"{rate_bits / size:.3g} {unit}"
    return f"{rate_bits:.3g} bit/s"


def show_seconds(seconds: float) -> str:
    """A duration, such as `850 ms`, `12.3 s` or `2 h 05 min`."""
    if seconds >= 3599.5:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes:02d} min"
    if seconds >= 119.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02d} s"
    if seconds == 0 or seconds >= 0.9995:
        if seconds >= 9.995 or seconds == 0:
            return f"{seconds:.1f} s"
        return f"{seconds:.2f} s"
    if seconds >= 0.9995e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"


def show_share(share: float) -> str:
    """A share of one in percent, such as `12 %`; small ones keep two digits (`0.031 %`)."""
    percent = 100 * share
    if percent >= 9.95 or percent == 0:
        return f"{percent:.0f} %"
    return f"{percent:#.2g} %"


def show_count(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun, such as `1 task` or `12,500 tasks`; `nouns` is a plural that takes
    more than an s.
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {nouns or noun + 's'}"


def show_list(words: Sequence[str]) -> str:
    """Words in a sentence: `a`, `a and b`, `a, b and c`; '' for none."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
