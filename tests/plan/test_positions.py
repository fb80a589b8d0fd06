"""Where a field stands in a TOML file."""

from __future__ import annotations

import pytest

from hyperslab.plan.positions import Path, line_of

TEXT = '''# a comment
title = "[vary]"

[vary]
# of workers
workers = [
    1,   # one
    2,
]
about = """
[vary]
delay = 3
"""
source.kind = "x"
delay = 4

[[rows]]
a = 1
[[rows]]
a = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("vary",), 4),
        (("vary", "workers"), 6),
        (("vary", "workers", 1), 6),
        (("vary", "about"), 10),
        (("vary", "source", "kind"), 14),
        (("vary", "delay"), 15),
        (("vary", "missing"), 4),
        (("rows", 1, "a"), 20),
        (("nothing",), 1),
        ((), 1),
    ],
)
def test_a_field_is_on_the_line_where_its_statement_begins(path: Path, line: int) -> None:
    assert line_of(TEXT, path) == line
