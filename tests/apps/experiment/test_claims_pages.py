"""Pages of verdicts in the documents: they judge the claims that the code has, all of them and no
others, by its rules and in its words; a page that was made by other ones is to be made again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import get_args

import pytest

from hyperslab.apps.experiment.answers.answer import Answer
from hyperslab.apps.experiment.claims.block_limit import HANDED_OVER
from hyperslab.apps.experiment.claims.claim import Claim, Evidence, Outcome, outcome_of
from hyperslab.apps.experiment.claims.page import HOW_JUDGED, PAPERS
from hyperslab.apps.experiment.design.cells import trials_of
from hyperslab.apps.experiment.design.shipped import find

FOLDER = Path(__file__).parents[3] / "docs" / "papers"
MADE = ["dask-network", "dask-vs-spark", "h5spark", "spark-on-lustre", "storage-tiers"]
"Papers whose pages are in the documentation."
NOTHING = Evidence(Answer((), (), (), (), ()), 0.0)
COUNTED = re.compile(
    r"(\d+) of (\d+) (?:comparison|engine)s told: (\d+) as the paper states, (\d+) otherwise"
)
TRIALS = re.compile(
    r"Made by `[^`]* --scale (\w+) [^`]*`,"
    r" of (?:[\d,]+ trials that were done, of )?([\d,]+) trials\."
)
"The scale of a page, and the number of its trials."
CHANGED = re.compile(r"`([\w/-]+)` has (\d+) trials \((\d+) here\)")
"A spec that has other trials now, with the number of those and of what the page has."
LEFT = re.compile(r"\*\*Not run at this scale:\*\* (.*)\.")
"The specs that a page has nothing of."
OF_ALL = ("by construction", "not tested")
"Outcomes that say more than the comparisons do."
CAVEATS = {"reproduced": "in part", "refuted": "refuted in part"}
"Outcomes that are left of others where something else speaks for them, too."


def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def _claims(text: str) -> tuple[str, dict[str, str]]:
    """The table of claims on a page, and the section of each, by its text."""
    table, _, rest = text.partition("## Claims\n")[2].partition("\n### ")
    sections = rest.partition("\n## ")[0].split("\n### ")
    parted = [section.partition("\n") for section in sections]
    return table, {head: body for head, _, body in parted}


def _run(name: str) -> set[str]:
    """The specs whose trials a page has; of any other one it says so."""
    left = {spec for told in LEFT.findall(_text(name)) for spec in re.findall(r"`([^`]+)`", told)}
    assert left < set(PAPERS[name].specs)
    return set(PAPERS[name].specs) - left


def _rows(table: str) -> list[list[str]]:
    """Rows of a table of Markdown below its head."""
    return _rows_with_head(table)[1:]


def _rows_with_head(table: str) -> list[list[str]]:
    head, _, *lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in (head, *lines)]


@pytest.mark.parametrize("name", MADE)
def test_a_page_has_the_claims_of_the_code(name: str) -> None:
    table, sections = _claims(_text(name))
    stated = [claim.text for claim in PAPERS[name].claims]
    assert [row[0] for row in _rows(table)] == [text.replace("|", "/") for text in stated]
    assert list(sections) == stated


@pytest.mark.parametrize("name", MADE)
def test_a_page_has_the_published_numbers_of_the_code(name: str) -> None:
    head, *rows = _rows_with_head(_claims(_text(name))[0])
    column = head.index("published")
    assert [row[column] for row in rows] == [claim.published for claim in PAPERS[name].claims]


@pytest.mark.parametrize("name", MADE)
def test_a_page_has_the_trials_of_its_specs_or_says_what_has_changed(name: str) -> None:
    """In numbers, spec by spec: the command on a page whose specs have changed makes another."""
    text = _text(name)
    (made,) = TRIALS.findall(text)
    scale, asked = made
    now = {spec: len(trials_of(find(spec).load(scale).spec)) for spec in _run(name)}
    changed = {spec: (int(trials), int(here)) for spec, trials, here in CHANGED.findall(text)}
    assert {spec: now[spec] for spec in changed} == {
        spec: trials for spec, (trials, _) in changed.items()
    }
    here = {spec: there for spec, (_, there) in changed.items() if there != now[spec]}
    assert here.keys() == changed.keys()
    assert sum({**now, **here}.values()) == int(asked.replace(",", ""))


@pytest.mark.parametrize("name", MADE)
def test_a_page_has_the_words_of_the_code(name: str) -> None:
    text = _text(name)
    assert HOW_JUDGED in text
    assert all(f"- {one}" in text for one in PAPERS[name].errata)
    _, sections = _claims(text)
    for claim in PAPERS[name].claims:
        said = set(sections[claim.text].splitlines())
        assert set(_fixed(claim, _run(name))) <= said
        assert (f"- `{claim.spec}` has not been run." in said) == (
            bool(claim.spec) and claim.spec not in _run(name)
        )


def _fixed(claim: Claim, run: Collection[str]) -> Iterator[str]:
    """Lines of a claim's section that depend on no trial."""
    if claim.published:
        yield f"- Published: {claim.published}."
    if not claim.spec:
        found = claim.judge(NOTHING)
        yield f"**{found.outcome}**"
        yield from (f"- {text}" for text in found.evidence)
    if "2 GiB" in claim.text and claim.spec in run:
        yield f"- {HANDED_OVER}"


@pytest.mark.parametrize("name", ["h5spark", "spark-on-lustre", "storage-tiers"])
def test_what_a_tier_was_asked_to_be_is_by_construction(name: str) -> None:
    """Trials of the other papers, on the pages that there are, have no such tier."""
    head, *rows = _rows_with_head(_claims(_text(name))[0])
    column = head.index("emulated tiers")
    asked_for = {claim.text for claim in PAPERS[name].claims if claim.is_asked_for}
    found = [row for row in rows if row[0] in asked_for and row[column]]
    assert found
    assert {row[1] for row in found} <= {"by construction", "open", "not tested"}


def test_a_claim_names_the_emulated_tiers_that_it_is_about() -> None:
    head, *rows = _rows_with_head(_claims(_text("storage-tiers"))[0])
    column = head.index("emulated tiers")
    told = {row[0]: row[column] for row in rows}
    assert told["More processes pay on dram."] == ""
    isilon = told["More processes do not pay on isilon."]
    assert isilon.startswith("isilon (")
    assert "optane" not in isilon


@pytest.mark.parametrize("name", MADE)
def test_a_verdict_is_what_its_comparisons_say(name: str) -> None:
    """The same in the table and in its section, and what follows from the tests that are counted
    there.
    """
    table, sections = _claims(_text(name))
    for (text, outcome, *_), section in zip(_rows(table), sections.values(), strict=True):
        assert outcome in get_args(Outcome)
        assert section.startswith(f"\n**{outcome}**"), text
        for told, of, agree, differ in COUNTED.findall(section):
            assert int(told) == int(agree) + int(differ)
            signs = [True] * int(agree) + [False] * int(differ) + [None] * (int(of) - int(told))
            found = outcome_of(signs)
            assert outcome in (*OF_ALL, found, CAVEATS.get(found)), text
