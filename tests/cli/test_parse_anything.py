"""Whatever is written on the command line is understood as meant, or refused with a sentence that
names the flag.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.cli.inputs import parse_inputs
from hyperslab.cli.parse import parse_numbers, parse_rule, parse_size
from hyperslab.errors import UsageError
from hyperslab.plan.written import UNITS
from hyperslab.workloads import parse_params
from tests.examples import of_each

written = st.text() | st.from_regex(
    r"[-+]?[0-9]{1,400}([.][0-9]{1,9})?( ?[kKmMgGtTpP]?i?[bB]?)", fullmatch=True
)
PARSERS: dict[str, Callable[[str], Any]] = {
    "--memory": lambda text: parse_size("--memory", text),
    "--halo": lambda text: parse_numbers("--halo", text),
    "--block-shape": lambda text: parse_rule(text, None, None, None),
    "--blocks": lambda text: parse_rule(None, text, None, None),
    "--partition": lambda text: parse_rule(None, None, text, None),
    "--axes-whole": lambda text: parse_rule(None, None, None, text),
    "--with": lambda text: parse_inputs([text]),
    "--param": lambda text: parse_params([text]),
}


@pytest.mark.parametrize("flag", PARSERS)
@given(written)
@settings(max_examples=of_each(100))
def test_any_text_is_understood_or_refused(flag: str, text: str) -> None:
    said = [flag]
    try:
        PARSERS[flag](text)
    except UsageError as error:
        said.append(str(error))
    assert said[-1].startswith(flag)


@given(st.integers(1, 2**50), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_sizes(number: int, unit: str, gap: str) -> None:
    assert parse_size("--memory", f"{number}{gap}{unit}") == number * UNITS[unit]
    assert parse_size("--memory", f"{number}{gap}{unit.lower()}") == number * UNITS[unit]


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1), st.sampled_from(",x"))
def test_numbers(numbers: list[int], joint: str) -> None:
    assert parse_numbers("--halo", joint.join(map(str, numbers))) == tuple(numbers)


@given(
    st.from_regex(r"[a-z_]{1,9}", fullmatch=True),
    st.text(),
    st.integers() | st.floats(allow_nan=False),
)
def test_params(name: str, text: str, number: float) -> None:
    assert parse_params([f"{name}={number}"]) == {name: number}
    with contextlib.suppress(UsageError):
        assert list(parse_params([f"{name}={text}"])) == [name]
