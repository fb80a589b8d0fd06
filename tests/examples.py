"""How many examples a test draws: a fifth of those that it names in `make test`, other ones each
time, and all of them where HYPERSLAB_EXAMPLES is "all".
"""

from __future__ import annotations

import os

VARIABLE = "HYPERSLAB_EXAMPLES"
ALL = "all"
SHARE = 5
LEAST = 10


def examples(number: int) -> int:
    """So many of hypothesis, or a fifth of them; LEAST at least, as the first ones are simple."""
    return min(number, max(LEAST, part(number)))


def of_each(number: int) -> int:
    """So many for each case of a parameter, or a tenth of them: the cases draw from the same."""
    if part(number) == number:
        return number
    return min(number, max(LEAST, part(number) // 2))


def part(number: int) -> int:
    """So many, or a fifth of them."""
    if os.environ.get(VARIABLE) == ALL:
        return number
    return number // SHARE


def spread(number: int) -> range:
    """The first so many whole numbers, or a fifth of them, from the first one on."""
    return range(0, number, number // part(number))
