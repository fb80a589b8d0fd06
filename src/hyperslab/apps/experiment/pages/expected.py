"""Expected against measured, as sheets of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.answers.expectation import Expected
from hyperslab.apps.experiment.model.bounds import Expectation, Term
from hyperslab.apps.experiment.model.places import Known
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.statistics.shown import show_interval
from hyperslab.units import show_seconds

UNKNOWN = "not known"
HINT = (
    "Equation 1: bytes read / read rate + bytes written / write rate, both of one stream. Bound:"
    " start-up, and the resource that takes longest of each medium at the best rate of so many"
    " processes, the slots and the processors. A term whose figure nobody has is left out of the"
    " bound, and said below. In brackets: 95 % intervals of what the trials and the rates of the"
    " probe have together, as both vary by themselves: times over replicates, rates over the"
    " repetitions of the probe (Student's t; of rates all at one end at a time)."
)


def expected_section(answer: Answer) -> str:
    """Both models of every cell beside its makespan, their terms, and the places they rest on."""
    if not answer.expected:
        return ""
    return expected_sheet(answer).html() + _terms(answer) + places_sheet(answer).html()


def expected_sheet(answer: Answer) -> Sheet:
    """Both models of every cell beside its makespan."""
    columns = ("cell", "measured", "equation 1", "measured / it", "bound", "measured / it", "binds")
    rows = [_row(one) for one in answer.expected]
    return Sheet("Expected against measured", columns, rows, HINT)


def _row(one: Expected) -> tuple[str, ...]:
    law, bound = one.model.law, one.model.bound
    expected = _seconds(bound)
    if bound.unknown:
        expected = f"at least {expected}"
    return (
        one.result.cell.name,
        show_seconds(law.measured_s),
        _seconds(law),
        _ratio(one, law),
        expected,
        _ratio(one, bound),
        bound.binding,
    )


def _seconds(one: Expectation) -> str:
    if one.seconds is None:
        return UNKNOWN
    return show_seconds(one.seconds)


def _ratio(one: Expected, model: Expectation) -> str:
    ratios = one.ratios(model)
    if ratios is None:
        return UNKNOWN
    return show_interval(ratios)


def _terms(answer: Answer) -> str:
    """Every term of every cell, folded away."""
    blocks = "".join(
        f"<details><summary>{escape(one.result.cell.name)}</summary>\n"
        f'<div class="wide">{terms_sheet(one).table()}</div></details>\n'
        for one in answer.expected
    )
    return f'<section class="cells">\n<h2>Terms of the models</h2>\n{blocks}</section>'


def terms_sheet(one: Expected) -> Sheet:
    """Every term of both models of a cell."""
    title = f"Terms of {one.result.cell.name}"
    return Sheet(title, ("part", "term", "time", "how"), list(_term_rows(one)))


def _term_rows(one: Expected) -> Iterator[tuple[str, ...]]:
    for term in one.model.law.terms:
        yield ("equation 1", *_term(term))
    for resource in one.model.resources:
        name = f"bound: {resource.name}"
        if resource.name == one.model.bound.binding:
            name += " (binds)"
        for term in resource.terms:
            yield (name, *_term(term))
    yield ("bound: all", *_term(one.model.bound.terms[0]))


def _term(term: Term) -> tuple[str, str, str]:
    seconds = UNKNOWN
    if term.seconds is not None:
        seconds = show_seconds(term.seconds)
    return term.name, seconds, term.about


def places_sheet(answer: Answer) -> Sheet:
    """Where trials read and write, and where the figures are from."""
    columns = ("path", "made of", "emulated", "figures from")
    rows = [_place(known) for known in answer.places.values()]
    return Sheet("Where trials read and write", columns, rows)


def _place(known: Known) -> tuple[str, str, str, str]:
    tier = known.tier
    made_of = f"{tier.kind}, {tier.file_system or 'unknown file system'}"
    emulated = "no"
    if known.emulated:
        emulated = f"yes: {known.emulated}"
    return tier.path, made_of, emulated, known.origin or known.why_not
