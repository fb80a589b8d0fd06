"""Pages of verdicts in the documents: they judge the claims that the code has, all of them and no
others.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hyperslab.apps.experiment.claims.page import PAPERS

FOLDER = Path(__file__).parents[3] / "docs" / "papers"
MADE = ["dask-vs-spark", "h5spark", "spark-on-lustre", "storage-tiers"]
"Papers whose pages are in the documentation."


@pytest.mark.parametrize("name", MADE)
def test_a_page_has_the_claims_of_the_code(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text()
    claims = text.partition("## Claims\n")[2]
    table, _, sections = claims.partition("\n### ")
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    heads = re.findall(r"^### (.+)$", f"### {sections}", re.MULTILINE)
    stated = [claim.text for claim in PAPERS[name].claims]
    assert rows[2:] == [text.replace("|", "/") for text in stated], "below two lines of its head"
    assert heads == stated
