"""What `hyperslab experiment list` shows."""

from __future__ import annotations

import json

import pytest

from hyperslab.apps.experiment.claims.page import PAPERS as JUDGED
from hyperslab.apps.experiment.design import spec as specs
from hyperslab.apps.experiment.design.factors import FACTORS
from hyperslab.apps.experiment.design.shipped import PAPERS, shipped
from tests.system.end_to_end.command import call


def test_the_list_is_short_and_says_what_to_type_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """No spec is loaded for it, which takes as long as all else together."""

    def never(*_: object) -> None:
        raise AssertionError("a spec was loaded")

    monkeypatch.setattr(specs, "load_spec", never)
    monkeypatch.setattr("hyperslab.apps.experiment.design.shipped.load_spec", never)
    listed = call("experiment", "list")
    assert listed.code == 0, listed.err
    lines = listed.out.splitlines()
    assert len(lines) < len(shipped()) + 20
    for spec in shipped():
        assert spec.question in listed.out
    assert "  incrementation   Which engine is fastest for maps with transfers" in listed.out
    assert "next     hyperslab experiment plan dask-vs-spark/incrementation --scale quick" in lines
    assert "--scale smoke   does it work here? a few trials, under a minute" in lines
    assert set(PAPERS) == set(JUDGED)
    assert {spec.paper for spec in shipped()} == set(PAPERS)
    told = json.loads(call("experiment", "list", "--json").out)
    assert told["specs"][0]["question"] == shipped()[0].question


def test_more_is_told_of_a_name() -> None:
    one = call("experiment", "list", "dask-vs-spark/block-limit").out.splitlines()
    assert one[0] == "dask-vs-spark/block-limit: Spark's limit on blocks"
    assert one[2].startswith("  smoke   4 trials, about ")
    assert one[2].endswith("(a guess; 'plan' says what of)")
    both = call("experiment", "list", "h5spark").out
    assert "h5spark/partitions: " in both
    assert "h5spark/stripes: " in both
    factors = call("experiment", "list", "factors").out
    assert len(factors.splitlines()) == len(FACTORS)
    wrong = call("experiment", "list", "h5sparc")
    assert wrong.code == 2
    assert "(did you mean 'h5spark'?)" in wrong.err
