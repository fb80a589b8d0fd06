"""Descriptions that apps write of their datasets, at both levels, and what comes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.bids.described import DRIVER, GROUP, adopt, describe, merged, say
from hyperslab.driver import statements
from hyperslab.driver.directory import RunDirectory
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import Finished, call

OURS = {
    "Name": "ours",
    "BIDSVersion": "1.11.0",
    "DatasetType": "derivative",
    "GeneratedBy": [
        {"Name": "hyperslab", "Version": "1"},
        {"Name": "toy", "Version": "2", "Container": {"Tag": "toy:2"}},
    ],
    "SourceDatasets": [{"URL": "file:///study"}],
    "DatasetLinks": {"raw": "file:///study"},
}
THEIRS = {
    "Name": "Toy - as it calls itself",
    "BIDSVersion": "1.4.0",
    "License": "CC0",
    "GeneratedBy": [{"Name": "Toy", "Version": "2", "CodeURL": "https://toy"}],
    "SourceDatasets": [{"URL": "file:///templates"}],
    "DatasetLinks": {"raw": "/data", "templates": "/templates"},
}
GROUPS = {"Name": "a group", "GeneratedBy": [{"Name": "averages"}], "Funding": ["somebody"]}
FILE = "dataset_description.json"


def said(out: Path) -> dict[str, Any]:
    found = json.loads((out / FILE).read_text())
    assert isinstance(found, dict)
    return found


def names(out: Path) -> list[str]:
    """Who has made a dataset, by its description."""
    return [entry["Name"] for entry in said(out)["GeneratedBy"]]


def writing(folder: Path, name: str, fields: Mapping[str, Any] | str, beside: str) -> Path:
    """A program that writes a description, and something else, below a folder."""
    text = fields if isinstance(fields, str) else json.dumps(fields)
    program = folder / name
    program.write_text(
        f"#!/bin/sh\ncat > \"$1/{FILE}\" << 'END'\n{text}\nEND\n"
        f'echo "$2" > "$1/.bidsignore"\n{beside}\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path / "data", t1w("1"), t1w("10"), content=b"head\n")


@pytest.fixture
def app(tmp_path: Path) -> str:
    """An app that describes its dataset from each of its participants."""
    beside = 'mkdir -p "$1/$2" && echo done > "$1/$2/$2.txt"'
    program = writing(tmp_path, "toy", THEIRS, beside)
    return f"sh -c '{program} $(dirname {{out}}) sub-{{participant}}'"


@pytest.fixture
def gather(tmp_path: Path) -> str:
    program = writing(tmp_path, "averages", GROUPS, 'cat "$3"/sub-*/*.txt > "$1/all.txt"')
    return f"{program} {{out}} averages {{results}}"


def both(home: Path, out: Path, level: str, *more: object) -> Finished:
    return call("bids", home, out, level, "--engine", "threads", "--no-report", *more)


def test_of_fields_that_several_have_those_of_the_app_come_first() -> None:
    whole = merged([("", THEIRS), (DRIVER, OURS), (GROUP, GROUPS)])
    assert whole == {
        "Name": "Toy - as it calls itself",
        "BIDSVersion": "1.4.0",
        "DatasetType": "derivative",
        "License": "CC0",
        "Funding": ["somebody"],
        "GeneratedBy": [
            {
                "Name": "Toy",
                "Version": "2",
                "CodeURL": "https://toy",
                "Container": {"Tag": "toy:2"},
            },
            {"Name": "hyperslab", "Version": "1"},
            {"Name": "averages"},
        ],
        "SourceDatasets": [{"URL": "file:///study"}, {"URL": "file:///templates"}],
        "DatasetLinks": {"raw": "file:///study", "templates": "/templates"},
    }
    assert merged([(DRIVER, OURS)]) == OURS
    assert list(merged([(DRIVER, OURS)])) == list(OURS)


def test_programs_of_one_name_that_differ_are_two() -> None:
    other = {"GeneratedBy": [{"Name": "toy", "Version": "3"}, {"no": "name"}, "toy"]}
    found = merged([(DRIVER, OURS), (GROUP, other)])["GeneratedBy"]
    assert found == [*OURS["GeneratedBy"], {"Name": "toy", "Version": "3"}]


@pytest.mark.parametrize("in_one_run", [True, False])
def test_both_levels_describe_the_dataset(
    home: Path, tmp_path: Path, app: str, gather: str, in_one_run: bool
) -> None:
    """As BIDS Apps do, whatever is there; the results of both are there, and all is as recorded."""
    out = tmp_path / "out"
    asked = ("--app", app, "--group-app", gather)
    calls = ("both",) if in_one_run else ("participant", "group")
    *_, done = [both(home, out, level, *asked) for level in calls]
    assert done.code == 0, done
    assert (out / "all.txt").read_text() == "done\ndone\n"
    assert said(out)["Name"] == "Toy - as it calls itself"
    assert said(out)["DatasetLinks"]["raw"] == home.as_uri()
    assert names(out) == ["Toy", "hyperslab", "sh", "averages"]
    *theirs, one, other, last = (out / ".bidsignore").read_text().split()
    assert (sorted(theirs), one, other) == (["sub-1", "sub-10"], "group_*", "figures")
    assert last == "averages"
    told = [line for line in done.err.splitlines() if line.startswith("described ")]
    assert len(told) == 1, done
    assert told[0].endswith("made by Toy, hyperslab, sh, averages")
    assert " outputs unchanged" in call("verify", out).out
    again = both(home, out, calls[-1], *asked, *(("--resume",) if in_one_run else ()))
    assert again.code == 0, again
    assert "described" not in again.err
    assert names(out) == ["Toy", "hyperslab", "sh", "averages"]


@pytest.mark.parametrize("in_one_run", [True, False])
def test_another_group_level_takes_its_words_back(
    home: Path, tmp_path: Path, app: str, gather: str, in_one_run: bool
) -> None:
    out = tmp_path / "out"
    level, more = ("both", ("--resume",)) if in_one_run else ("group", ())
    if not in_one_run:
        assert both(home, out, "participant", "--app", app).code == 0
    assert both(home, out, level, "--app", app, "--group-app", gather).code == 0
    silent = "sh -c 'ls {results} > {out}/list.txt'"
    done = both(home, out, level, "--app", app, "--group-app", silent, *more)
    assert done.code == 0, done
    assert names(out) == ["Toy", "hyperslab", "sh"]
    assert not (out / "all.txt").exists()


@pytest.mark.parametrize("text", ["[1]", "{", "no JSON"])
def test_a_description_that_is_none_is_left_out(home: Path, tmp_path: Path, text: str) -> None:
    """It costs nobody a result."""
    program = writing(tmp_path, "toy", text, 'echo all > "$1/all.txt"')
    out = tmp_path / "out"
    copy = "cp {t1w} {out}/{prefix}_copy.nii.gz"
    done = both(home, out, "both", "--app", copy, "--group-app", f"{program} {{out}} x")
    assert done.code == 0, done
    assert "left out   what the group level says in " in done.err
    assert (out / "all.txt").read_text() == "all\n"
    assert names(out) == ["hyperslab", "cp"]


def test_a_description_that_nobody_of_ours_has_written_stays(tmp_path: Path) -> None:
    told: list[str] = []
    directory = RunDirectory(tmp_path)
    (tmp_path / FILE).write_text('{"Name": "by hand"}')
    say(directory, "", OURS)
    describe(directory, "", told.append)
    assert said(tmp_path) == {"Name": "by hand"}
    assert told == [f"kept       {tmp_path / FILE}, which hyperslab has not written"]
    assert sorted(one.name for one in tmp_path.iterdir()) == [".bidsignore", ".hyperslab", FILE]


def test_a_description_of_an_earlier_version_is_added_to(tmp_path: Path) -> None:
    """It kept no record of what it says."""
    directory = RunDirectory(tmp_path)
    (tmp_path / FILE).write_text(json.dumps(OURS))
    adopt(directory, "")
    statements.keep(directory.top, FILE, json.dumps(GROUPS), GROUP)
    describe(directory, "")
    assert said(tmp_path)["Name"] == "ours"
    assert names(tmp_path) == ["hyperslab", "toy", "averages"]


def test_what_another_call_says_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so after all was read, and has ended before that is written."""
    directory = RunDirectory(tmp_path)
    say(directory, "", OURS)
    real = statements.said

    def late(top: Path, name: str) -> list[statements.Statement]:
        found = real(top, name)
        monkeypatch.setattr(statements, "said", real)
        statements.keep(top, FILE, json.dumps(THEIRS))
        return found

    monkeypatch.setattr(statements, "said", late)
    describe(directory, "")
    assert names(tmp_path) == ["Toy", "hyperslab"]
