"""What is found in a dataset, and what is said of one that is not as it should be."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.corr_dataset import make as make_corr
from hyperslab.apps.bids import content
from hyperslab.apps.bids.dataset import derivatives, files, find_datasets, sessions
from hyperslab.apps.bids.names import parse
from hyperslab.apps.bids.running import Asked, select, units_of
from hyperslab.apps.bids.table import site_of_participants
from hyperslab.apps.bids.template import template_app
from hyperslab.apps.bids.wanted import (
    Kind,
    choose_participants,
    choose_sessions,
    images,
    read_filters,
)
from hyperslab.errors import FormatError, HyperslabError, Missing, UsageError
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import call


def found(folder: Path, labels: Iterable[str] = (), wanted: Iterable[str] = ()) -> list[str]:
    """Names of the T1-weighted images of participants and sessions."""
    participants = choose_participants(find_datasets(folder), labels)
    chosen = choose_sessions(participants, wanted)
    several = (images(session) for each in chosen.values() for session in each)
    return [os.path.basename(file.path) for each in several for file in each]


def test_images_of_participants_with_and_without_sessions(tmp_path: Path) -> None:
    make(tmp_path, t1w("02"), t1w("01", "a"), t1w("01", "b", "_run-1"), t1w("01", "b", "_run-2"))
    make(tmp_path, "sub-02/func/sub-02_task-rest_bold.nii.gz", "sub-02/anat/sub-02_T2w.nii.gz")
    make(tmp_path, "sub-02/anat/sub-02_T1w.json", "sub-02/anat/notes.txt", "sub-03/anat/.keep")
    assert found(tmp_path) == [
        "sub-01_ses-a_T1w.nii.gz",
        "sub-01_ses-b_run-1_T1w.nii.gz",
        "sub-01_ses-b_run-2_T1w.nii.gz",
        "sub-02_T1w.nii.gz",
    ]
    assert found(tmp_path, (), ["ses-b"]) == [
        "sub-01_ses-b_run-1_T1w.nii.gz",
        "sub-01_ses-b_run-2_T1w.nii.gz",
    ]


def test_images_beside_sessions(tmp_path: Path) -> None:
    """They belong to the participant, and to none of its sessions."""
    make(tmp_path, t1w("1"), t1w("1", "2"), "sub-2/figures/sub-2_T1w.png", t1w("2", "1"))
    everything = ["sub-1_T1w.nii.gz", "sub-1_ses-2_T1w.nii.gz", "sub-2_ses-1_T1w.nii.gz"]
    assert found(tmp_path) == everything
    assert found(tmp_path, (), ["2"]) == ["sub-1_ses-2_T1w.nii.gz"]
    dry = call("bids", tmp_path, tmp_path / "out", "participant", "--dry-run")
    assert "images     3\ntasks      2, of" in dry.out
    dry = call("bids", tmp_path, tmp_path / "out", "participant", "--dry-run", "--per", "session")
    assert "images     2\ntasks      2, of" in dry.out
    assert "left out   what sub-1 has in no session: ask without --per session" in dry.out


def test_labels_are_compared_as_a_whole(tmp_path: Path) -> None:
    make(tmp_path, *(t1w(label) for label in ("1", "10", "100", "01")))
    assert found(tmp_path, ["1"]) == ["sub-1_T1w.nii.gz"]
    assert found(tmp_path, ["sub-10", "1"]) == ["sub-1_T1w.nii.gz", "sub-10_T1w.nii.gz"]
    with pytest.raises(UsageError, match=r"has no sub-1000 \(did you mean 'sub-100'\?\)"):
        found(tmp_path, ["1000"])
    with pytest.raises(UsageError, match=r"has no sub-0010 \(did you mean 'sub-10'\?\)"):
        found(tmp_path, ["0010"])
    with pytest.raises(UsageError, match=r"has no sub-01,1 .*, and no comma divides them: "):
        found(tmp_path, ["01,1"])


def test_a_label_with_other_zeros_is_meant_before_one_that_looks_alike(tmp_path: Path) -> None:
    make(tmp_path, t1w("10"), t1w("11"), t1w("001"))
    with pytest.raises(UsageError, match=r"did you mean 'sub-001'\?"):
        found(tmp_path, ["1"])


def test_sites_are_datasets_in_one_folder(tmp_path: Path) -> None:
    make(tmp_path, f"BNU 1/{t1w('1')}", f"Zürich/{t1w('1')}", f"Zürich/{t1w('2')}")
    make(tmp_path, f"derivatives/{t1w('9')}", "code/run.sh", ".git/config")
    datasets = find_datasets(tmp_path)
    assert [(one.site, len(one.participants)) for one in datasets] == [("BNU 1", 1), ("Zürich", 2)]
    names = [one.name for one in choose_participants(datasets, ["1"])]
    assert names == ["BNU 1/sub-1", "Zürich/sub-1"]
    assert site_of_participants(datasets[1]) == {"1": "Zürich", "2": "Zürich"}


def test_the_table_says_the_site(tmp_path: Path) -> None:
    make(tmp_path, t1w("1"), t1w("2"), t1w("3"))
    table = "participant_id\tSite\tage\nsub-1\tÅrhus\t20\nsub-2\tn/a\t30\nsub-7\tX\t1\n"
    (tmp_path / "participants.tsv").write_text(table, encoding="utf-8-sig")
    (dataset,) = find_datasets(tmp_path)
    assert site_of_participants(dataset) == {"1": "Århus", "2": "", "3": ""}


def test_derivatives_lie_in_the_dataset_and_are_datasets(tmp_path: Path) -> None:
    make(tmp_path, t1w("1"), "derivatives/fmriprep/sub-1/anat/sub-1_desc-brain_mask.nii.gz")
    (dataset,) = find_datasets(tmp_path)
    (folder,) = derivatives(dataset)
    (made,) = find_datasets(folder)
    (session,) = sessions(made.participants[0])
    (file,) = files(session, suffixes=["mask"])
    assert (file.datatype, dict(file.name.entities)) == ("anat", {"sub": "1", "desc": "brain"})
    assert str(file.name) == os.path.basename(file.path)
    dry = call("bids", tmp_path, tmp_path / "out", "participant", "--dry-run")
    assert "beside     derivatives/fmriprep\n" in dry.out


def test_links_to_folders_and_files_are_followed(tmp_path: Path) -> None:
    there = make(tmp_path / "there", t1w("1"), t1w("2"))
    here = make(tmp_path / "here", "sub-2/anat/README")
    (here / "sub-1").symlink_to(there / "sub-1")
    (here / t1w("2")).symlink_to(there / t1w("2"))
    (here / "sub-1" / "loop").symlink_to(here)
    assert found(here) == ["sub-1_T1w.nii.gz", "sub-2_T1w.nii.gz"]
    assert content.fault_of(str(here / t1w("2"))) == ""


def test_content_that_git_annex_has_elsewhere(tmp_path: Path) -> None:
    """As DataLad leaves a dataset whose files nobody has fetched."""
    home = make(tmp_path / "my data", t1w("1"), content=b"/annex/objects/MD5E-s9--0.nii.gz\n")
    link = home / t1w("2")
    link.parent.mkdir(parents=True)
    link.symlink_to("../../.git/annex/objects/xx/yy/MD5E-s9--0.nii.gz/MD5E-s9--0.nii.gz")
    assert content.is_absent(str(link))
    assert not content.is_absent(str(home / t1w("1")))
    for path in (home / t1w("1"), link):
        said = re.fullmatch(r"is not here; type '(datalad get .*)'", content.fault_of(str(path)))
        assert said
        assert shlex.split(said[1]) == ["datalad", "get", str(path)]


def absent(home: Path, *names: str) -> list[str]:
    """Links of git-annex whose content is elsewhere."""
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).symlink_to("../../.git/annex/objects/xx/yy/MD5E-s9--0/MD5E-s9--0")
    return [str(home / name) for name in names]


def fetched(line: str, folder: Path) -> list[str]:
    """What a line would have DataLad fetch, as a shell takes the line apart."""
    program = folder / "datalad"
    program.write_text(f"#!/bin/sh\nshift\nprintf '%s\\n' \"$@\" >> '{folder}/asked'\n")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", line], check=True, env=environment)
    asked = (folder / "asked").read_text().splitlines()
    (folder / "asked").unlink()
    return sorted(asked)


def test_many_files_are_fetched_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By patterns where these tell them from what else is not here, else by a list."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    home = tmp_path / "my data"
    labels = [f"{number:02}" for number in range(20)]
    heads = absent(home, *map(t1w, labels[:10]), *(t1w(label, "a") for label in labels[10:]))
    others = absent(home, *(f"sub-{label}/func/sub-{label}_bold.nii.gz" for label in labels))
    line = content.line_to_get(heads)
    assert line == (
        f"datalad get '{home}'/sub-*/anat/*_T1w.nii.gz '{home}'/sub-*/ses-*/anat/*_T1w.nii.gz"
    )
    assert fetched(line, tmp_path) == sorted(heads)
    some = heads[1:]
    line = content.line_to_get(some)
    assert line.startswith(f"xargs --null --arg-file={tmp_path}/hyperslab-get-")
    assert fetched(line, tmp_path) == sorted(some)
    assert content.line_to_get(some) == line  # the list is written once
    assert len(list(tmp_path.glob("hyperslab-get-*"))) == 1
    (written,) = tmp_path.glob("hyperslab-get-*")
    written.unlink()
    written.symlink_to(tmp_path / "of-somebody-else")
    assert fetched(content.line_to_get(some), tmp_path) == sorted(some)
    assert fetched(content.line_to_get(heads + others), tmp_path) == sorted(heads + others)
    sites = absent(tmp_path / "sites", *(f"S{label}/{t1w('1')}" for label in labels))
    line = content.line_to_get(sites)
    assert line == f"datalad get {tmp_path}/sites/*/sub-*/anat/*_T1w.nii.gz"
    assert fetched(line, tmp_path) == sorted(sites)


def test_images_that_are_not_whole(tmp_path: Path) -> None:
    make(tmp_path, t1w("1"), content=b"")
    (tmp_path / "gone").symlink_to("nowhere")
    assert "is empty (0 bytes)" in content.fault_of(str(tmp_path / t1w("1")))
    assert "is a link to nowhere, which is not there" in content.fault_of(str(tmp_path / "gone"))
    assert content.fault_of(str(tmp_path / "none")) == "is not there"


def chosen(folder: Path, **query: Any) -> list[str]:
    """Names of the images that a filter file chooses, of the only session of a dataset."""
    (session,) = sessions(find_datasets(folder)[0].participants[0])
    path = folder / "filters.json"
    path.write_text(json.dumps({"t1w": query}))
    return [os.path.basename(file.path) for file in images(session, read_filters(path)["t1w"])]


def test_filters_with_several_suffixes(tmp_path: Path) -> None:
    make(tmp_path, t1w("1"), *(f"sub-1/anat/sub-1_{name}.nii.gz" for name in ("T2w", "PDw")))
    make(tmp_path, "sub-1/func/sub-1_task-rest_bold.nii.gz")
    both = ["sub-1_T1w.nii.gz", "sub-1_T2w.nii.gz"]
    assert chosen(tmp_path, suffix=["T1w", "T2w"]) == both
    several = chosen(tmp_path, suffix=["T1w", "bold"], datatype=["anat", "func"])
    assert several == [both[0], "sub-1_task-rest_bold.nii.gz"]


def test_results_that_would_have_one_name(tmp_path: Path) -> None:
    """Nothing is done, unless the app names its results by the whole name of the image."""
    home = make(tmp_path / "data", t1w("1"), "sub-1/anat/sub-1_T2w.nii.gz")
    path = tmp_path / "filters.json"
    path.write_text('{"t1w": {"suffix": ["T1w", "T2w"]}}')
    line = ("bids", home, tmp_path / "out", "participant", "--bids-filter-file", path)
    for app in ("brain", "cp {t1w} {out}/{prefix}_copy.nii.gz"):
        refused = call(*line, "--app", app, "--engine", "serial")
        said = "sub-1: results of sub-1_T1w.nii.gz and sub-1_T2w.nii.gz would have the same names"
        assert (refused.code, said in refused.err) == (2, True), refused
    done = call(*line, "--app", "cp {t1w} {out}", "--engine", "serial", "--no-report")
    assert done.code == 0, done
    assert len(list((tmp_path / "out").glob("sub-1/anat/*"))) == 2


def test_filters_that_search(tmp_path: Path) -> None:
    """As pybids does it, for whatever is said, in upper or lower case; what is not said is what it
    was.
    """
    more = ("", "_acq-mprage", "_acq-MPRAGE2", "_acq-fast")
    make(tmp_path, *(t1w("1", "", one) for one in more), "sub-1/anat/sub-1_acq-mp_T2w.nii.gz")
    make(tmp_path, "sub-1/anat/sub-1_acq-mprage_T1w.nii.gz.part")
    of_two = ["sub-1_acq-MPRAGE2_T1w.nii.gz", "sub-1_acq-mprage_T1w.nii.gz"]
    assert chosen(tmp_path, regex_search=True, acquisition="^mp") == of_two
    assert chosen(tmp_path, regex_search=True, acquisition=["2$", "x"]) == of_two[:1]
    assert chosen(tmp_path, regex_search=False, acquisition="mprage") == of_two[1:]
    assert len(chosen(tmp_path, regex_search=True, acquisition="^mp", suffix="t[12]w")) == 3
    assert chosen(tmp_path, regex_search=True, datatype="func") == []
    assert chosen(tmp_path, regex_search=True, acquisition=None) == ["sub-1_T1w.nii.gz"]


def test_records_of_kinds_are_those_of_earlier_versions() -> None:
    """With another record, results into the same directory would be refused."""
    assert json.dumps(Kind(("bold",), ("func",), {"run": ("1",)}).record(), sort_keys=True) == (
        '{"datatype": "func", "entities": {"run": ["1"]}, "extensions": [".nii", ".nii.gz"],'
        ' "suffix": "bold"}'
    )


def test_filters_choose_by_entities(tmp_path: Path) -> None:
    for more in ("", "_acq-fast", "_run-01", "_run-02", "_run-10"):
        make(tmp_path, t1w("1", "", more))
    (session,) = sessions(find_datasets(tmp_path)[0].participants[0])
    query = tmp_path / "filters.json"
    query.write_text(json.dumps({"T1w": {"acquisition": None, "run": [1, "02"]}}))
    names = [os.path.basename(file.path) for file in images(session, read_filters(query)["t1w"])]
    assert names == ["sub-1_run-01_T1w.nii.gz", "sub-1_run-02_T1w.nii.gz"]
    query.write_text(json.dumps({"T1w": {"run": "*", "extension": ".nii.gz"}}))
    assert len(images(session, read_filters(query)["t1w"])) == 3
    assert len(images(session, Kind(entities={"acq": ("fast",)}))) == 1
    assert images(session, Kind(extensions=(".nii",))) == []


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "holds no participants: neither it nor a folder in it has a folder named sub-LABEL"),
        ([".gitmodules"], "datalad get --no-data --recursive"),
        ([t1w("1"), "sub-2/anat/sub-20_T1w.nii"], "is named for sub-20 but lies with"),
        (
            [t1w("1", "a"), "sub-1/ses-a/anat/sub-1_T1w.nii"],
            "is named for ses- but lies with files",
        ),
        (["sub-1/anat/sub-1_ses-2_T1w.nii"], "named for ses-2 but lies with files of no ses-"),
        ([t1w("1"), "sub-1/anat/sub-1_T1w.nii"], "are the same image of sub-1; remove one"),
        ([t1w("a b"), t1w("ö"), t1w("1")], "'sub-a b', 'sub-ö': a label of BIDS has letters"),
    ],
)
def test_what_is_said_of_bad_datasets(tmp_path: Path, names: list[str], sentence: str) -> None:
    make(tmp_path, "README", *names)
    with pytest.raises(HyperslabError) as caught:
        found(tmp_path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_said_of_places_that_are_no_datasets(tmp_path: Path) -> None:
    make(tmp_path, t1w("1"))
    with pytest.raises(Missing, match="there is no such folder"):
        find_datasets(tmp_path / "none")
    with pytest.raises(UsageError, match="is a file"):
        find_datasets(tmp_path / t1w("1"))
    with pytest.raises(UsageError, match=r"give .* and --participant-label 1"):
        find_datasets(tmp_path / "sub-1")


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (b"participant_id\tage\nsub-1\t2\nsub-1\t3\n1\t3\n", "more than one row of sub-1;"),
        (b"id,age\n1,2\n", "has no column participant_id"),
        (b"", "has no column participant_id"),
        (b"participant_id\nsub-\xff\n", "is not UTF-8"),
    ],
)
def test_what_is_said_of_bad_tables(tmp_path: Path, table: bytes, sentence: str) -> None:
    make(tmp_path, t1w("1"))
    make(tmp_path, "participants.tsv", content=table)
    with pytest.raises(FormatError, match=sentence):
        site_of_participants(find_datasets(tmp_path)[0])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"t1w": {"run": 1,}}', "is no JSON: .* in line 1, column"),
        ("[1]", "give filters by kinds of images"),
        ('{"t1w": {"run": {"a": 1}}}', "t1w: run: give a label, a list of them, or null"),
        ('{"t1w": {"run": []}}', r"t1w: run: give a label, a list of them, or null, not \[\]"),
        ('{"t1w": {"suffix": 1}}', "suffix: give a text, or a list of them, not 1"),
        ('{"t1w": {"suffix": []}}', "suffix: give a text, or a list of them, not"),
        ('{"t1w": {"regex_search": "yes"}}', 'regex_search has to be true or false, not "yes"'),
        ('{"t1w": {"regex_search": true, "run": "("}}', r"run: '\(' is no regular expression"),
        ('{"t1w": {"sesion": 1}}', r"sesion is no entity of BIDS \(did you mean 'session'\?\)"),
        ('{"t1w": {"run": "Query.NONE"}}', "run: 'Query.NONE' is no label: null wants images"),
    ],
)
def test_what_is_said_of_bad_filters(tmp_path: Path, text: str, sentence: str) -> None:
    query = tmp_path / "filters.json"
    query.write_text(text)
    with pytest.raises(FormatError, match=sentence):
        read_filters(query)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"t1w": {"session": "9"}}', "no image has session 9: they have a, b"),
        ('{"t1w": {"session": "a", "run": [1, 2]}}', "no image has run 1, 2: they have no run"),
        ('{"t1w": {"session": null}}', "every image has a session: a, b"),
        ('{"t1w": {"suffix": "T2w"}}', "no image has suffix T2w: they have T1w"),
        (
            '{"t1w": {"datatype": "func", "suffix": "T1w"}}',
            "no image has suffix T1w: they have bold",
        ),
        ('{"t1w": {"extension": "nii"}}', "no image has extension nii: they have .nii.gz"),
        ('{"t1w": {"session": "^c", "regex_search": true}}', "no image has session ^c: they have"),
    ],
)
def test_what_is_said_where_a_filter_wants_none(tmp_path: Path, text: str, sentence: str) -> None:
    home = make(tmp_path / "data", t1w("1", "a"), t1w("2", "b"))
    make(home, "sub-1/ses-a/func/sub-1_ses-a_task-rest_bold.nii.gz")
    query = tmp_path / "filters.json"
    query.write_text(text)
    selection = select(home, Asked(filter_file=str(query)))
    with pytest.raises(
        UsageError, match=f"^{re.escape(f'{query}: {sentence}')}.*; correct the filter$"
    ):
        units_of(selection, template_app("cp {t1w} {out}/{prefix}.nii"))


def test_names_that_are_not_of_bids() -> None:
    for text in ("T1w.nii.gz", "sub-1.nii", "sub-1_run-_T1w.nii", "a_T1w.nii", "sub-1_sub-1_T1w.x"):
        assert parse(text) is None


def test_a_dataset_like_corr(tmp_path: Path) -> None:
    number = make_corr(tmp_path, participants=60, sites=5)
    names = found(tmp_path)
    assert len(names) == len(set(names)) == number > 60
    assert len(find_datasets(tmp_path)) == 5
