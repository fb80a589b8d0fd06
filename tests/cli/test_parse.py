"""What users write on the command line, as values."""

from __future__ import annotations

import pytest

from hyperslab.arrays.partition import Rule
from hyperslab.cli.inputs import Typed, parse_inputs
from hyperslab.cli.parse import parse_numbers, parse_rule, parse_size
from hyperslab.errors import UsageError


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1", 1),
        ("1000", 1000),
        ("12B", 12),
        ("8GB", 8 * 10**9),
        ("8 GB", 8 * 10**9),
        ("8g", 8 * 10**9),
        ("1.5kB", 1500),
        ("1.5 GiB", 3 * 2**29),
        ("512MiB", 2**29),
        ("512mib", 2**29),
        ("512Mi", 2**29),
        ("2T", 2 * 10**12),
        ("1PiB", 2**50),
        (" 3 MB ", 3 * 10**6),
        ("0.5kB", 500),
    ],
)
def test_sizes(text: str, nbytes: int) -> None:
    assert parse_size("--memory", text) == nbytes


@pytest.mark.parametrize(
    "text", ["", "0", "0.2", "-1GB", "GB", "8 G B", "1e9", "8XB", "8iB", "1,5GB", "nan", "8GB8"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(
        UsageError, match=f"^--memory {text}: give a positive size such as 512MiB or 8GB$"
    ):
        parse_size("--memory", text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("64,64,64", (64, 64, 64)), ("5x5x5", (5, 5, 5)), ("7", (7,)), ("-1, 2", (-1, 2))],
)
def test_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_numbers("--blocks", text) == numbers


@pytest.mark.parametrize("text", ["", "5x", "a", "1.5", "3,,3", "5X5"])
def test_what_are_no_numbers(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--blocks {text}: give whole numbers such as 64,64,64$"):
        parse_numbers("--blocks", text)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ((None, None, None, None), Rule()),
        ((None, None, "auto", None), Rule()),
        ((None, None, "auto", "0,2"), Rule(axes_whole=(0, 2))),
        (("4,5,6", None, None, None), Rule("block-shape", (4, 5, 6))),
        ((None, "125", None, None), Rule("blocks", (125,))),
        ((None, "5x1x5", None, "1"), Rule("blocks", (5, 1, 5), (1,))),
        ((None, None, "chunks", None), Rule("chunks")),
        ((None, None, "slabs", "3"), Rule("slabs", (), (3,))),
        ((None, None, "slabs", "2,time"), Rule("slabs", (), (2,), ("time",))),
        ((None, None, "bytes=64MiB", None), Rule("bytes", (2**26,))),
    ],
)
def test_rules(given: tuple[str | None, str | None, str | None, str | None], rule: Rule) -> None:
    assert parse_rule(*given) == rule


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("4,4,4", "3", None, None),
            "^--block-shape and --blocks are different ways to cut: give one of them$",
        ),
        (
            (None, "3", "auto", None),
            "^--blocks and --partition are different ways to cut: give one of them$",
        ),
        (
            (None, None, "halves", None),
            "^--partition halves: choose auto, chunks, slabs or bytes=SIZE$",
        ),
        ((None, None, "bytes=x", None), "^--partition bytes=x: give a positive size"),
        ((None, None, "bytes=", None), "^--partition bytes=: give a positive size"),
        ((None, None, "slabs", "z,"), "^--axes-whole z,: give numbers or names of axes, such as"),
        ((None, None, "slabs", ""), "^--axes-whole : give numbers or names of axes, such as"),
    ],
)
def test_what_is_no_rule(
    given: tuple[str | None, str | None, str | None, str | None], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        parse_rule(*given)


def test_inputs() -> None:
    assert parse_inputs([]) == {}
    assert parse_inputs(["mask=a=b.nii", "weights=w.h5::x"]) == {
        "mask": Typed("--with mask", "--with mask=a=b.nii", "a=b.nii"),
        "weights": Typed("--with weights", "--with weights=w.h5::x", "w.h5::x"),
    }
    assert parse_inputs([], "m.nii", "l.nii") == {
        "mask": Typed("--mask", "--mask m.nii", "m.nii"),
        "labels": Typed("--labels", "--labels l.nii", "l.nii"),
    }
    with pytest.raises(UsageError, match=r"^--mask m\.nii is also given as --with mask"):
        parse_inputs(["mask=a.nii"], "m.nii")


@pytest.mark.parametrize("text", ["mask", "mask=", "=a.nii", "my-mask=a.nii", "2=a.nii"])
def test_what_is_no_input(text: str) -> None:
    with pytest.raises(
        UsageError, match=f"^--with {text}: give NAME=SOURCE, NAME being the function's parameter$"
    ):
        parse_inputs([text])


def test_an_input_given_twice() -> None:
    with pytest.raises(UsageError, match=r"^--with mask is given twice$"):
        parse_inputs(["mask=a.nii", "mask=b.nii"])
