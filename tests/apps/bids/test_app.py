"""Commands that apps make for participants, run by a shell as tasks run them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hyperslab import __version__
from hyperslab.apps.bids.app import Command, in_turn, task_of
from hyperslab.apps.bids.brain import BUILTIN, sidecar_of
from hyperslab.apps.bids.brains import brain_app, brain_names
from hyperslab.apps.bids.calling import function_app, is_function
from hyperslab.apps.bids.described import describe, say
from hyperslab.apps.bids.description import derivative, read_description
from hyperslab.apps.bids.group import gather_volumes, save_group
from hyperslab.apps.bids.running import Asked, Selection, select
from hyperslab.apps.bids.template import template_app
from hyperslab.apps.bids.unit import Unit, require_content
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import FormatError, UsageError
from hyperslab.plan.command import CommandTask
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import call


def ran(task: CommandTask, out: Path) -> subprocess.CompletedProcess[str]:
    """A task, run with its private folder at `out`."""
    words = [word.replace("{out}", str(out)) for word in task.argv]
    for number, path in enumerate(task.inputs):
        words = [word.replace(f"{{input[{number}]}}", path) for word in words]
    for folder in ("{out}", *task.folders):
        Path(folder.replace("{out}", str(out))).mkdir(parents=True, exist_ok=True)
    return subprocess.run(words, capture_output=True, text=True, check=False)


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def sites(folder: Path) -> Selection:
    """A collection of two sites, in a folder that shells take apart."""
    home = folder / "my 'data' $HOME"
    make(home, f"A/{t1w('1', '1')}", f"A/{t1w('1', '2', '_run-1')}", f"A/{t1w('10', '1')}")
    make(home, f"B/{t1w('1')}", "B/sub-2/anat/sub-2_T2w.nii.gz", content=b"of site B")
    return select(home, Asked())


def test_a_unit_for_each_participant_or_session(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    labels = [unit.label for unit in selection.units]
    assert labels == ["A/sub-1", "A/sub-10", "B/sub-1"]
    assert [len(unit.images) for unit in selection.units] == [2, 1, 1]
    assert [unit.label for unit in selection.without_images] == ["B/sub-2"]
    each = select(selection.root, Asked(per="session")).units
    assert [unit.label for unit in each] == [
        "A/sub-1_ses-1",
        "A/sub-1_ses-2",
        "A/sub-10_ses-1",
        "B/sub-1",
    ]
    assert [unit.folder for unit in each][1] == "A/sub-1/ses-2"


def test_a_template_for_every_image(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    app = template_app("cp -- {t1w} '{out}/{prefix}_copy of {participant}.nii.gz'")
    task = task_of(app, selection.units[0], selection.root)
    assert task.label == "A/sub-1"
    done = ran(task, tmp_path / "out put")
    assert (done.returncode, done.stderr) == (0, "")
    assert files_below(tmp_path / "out put") == [
        "A/sub-1/ses-1/anat/sub-1_ses-1_copy of 1.nii.gz",
        "A/sub-1/ses-2/anat/sub-1_ses-2_run-1_copy of 1.nii.gz",
    ]


def test_a_template_for_every_unit(tmp_path: Path) -> None:
    selection = select(sites(tmp_path).root, Asked(per="session"))
    listing = 'sh -c \'ls "$1" > "$2"\' sh'
    app = template_app(f"{listing} {{bids_dir}}/sub-{{participant}} {{out}}/{{prefix}}.txt")
    assert not app.needs_images
    done = ran(task_of(app, selection.units[1], selection.root), tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = files_below(tmp_path / "out")
    assert name == "A/sub-1/ses-2/sub-1_ses-2.txt"
    assert (tmp_path / "out" / name).read_text() == "ses-1\nses-2\n"


def test_values_in_the_script_of_a_shell_are_quoted(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    app = template_app("sh -c 'cat {t1w} {t1w} > {out}/{prefix}.txt; x={{x}}; echo ${HOME}$x'")
    done = ran(task_of(app, selection.units[2], selection.root), tmp_path / "out put")
    assert done.returncode == 0
    assert done.stdout == f"{os.environ['HOME']}{{{{x}}}}\n"  # the run makes {x} of it
    assert (tmp_path / "out put/B/sub-1/anat/sub-1.txt").read_text() == "of site Bof site B"


FUNCTION = """
def measure(images, out):
    (out / "sizes.txt").write_text(" ".join(str(path.stat().st_size) for path in images))
"""


def test_a_function_of_python(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTION)
    app = function_app(f"{tmp_path}/mine.py:measure")
    task = task_of(app, selection.units[0], selection.root)
    assert is_function("mine.py:measure")
    assert not is_function("bet {t1w} {out}/x:y")
    assert task.inputs[-1] == str(tmp_path / "mine.py")
    done = ran(task, tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out/A/sub-1/sizes.txt").read_text() == "13 13"


def test_the_first_command_that_fails_is_the_last(tmp_path: Path) -> None:
    commands = [
        Command(("sh", "-c", 'echo one > "$1"', "sh", "{out}/a/1"), "a"),
        Command(("sh", "-c", "echo no >&2; exit 7"), "b"),
        Command(("touch", "{out}/b/3"), "b"),
    ]
    done = ran(CommandTask("x", in_turn(commands), folders=("{out}/a", "{out}/b")), tmp_path)
    assert (done.returncode, done.stderr) == (7, "no\n")
    assert files_below(tmp_path) == ["a/1"]


def test_commands_of_more_than_nine_words(tmp_path: Path) -> None:
    words = tuple(f"word {number}" for number in range(30))
    commands = [Command(("printf", "%s\n", *words), "a")] * 2
    done = ran(CommandTask("x", in_turn(commands)), tmp_path)
    assert done.stdout.splitlines() == [*words, *words]


def test_one_command_needs_no_shell() -> None:
    argv = ("cp", "my head.nii", "{out}/a/b/copy.nii")
    assert in_turn([Command(argv, "a/b")]) == argv


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("cp {t1w} {out}/{prefix}_{index}.nii", r"\{index\} is another number .* let \{prefix\}"),
        ("sh -c 'cp {t1w} {out}/x_{slot}'", r"\{out\}/x_\{slot\} is the name of a result"),
        ("cp {t1} {out}", r"\{t1\} is unknown \(did you mean 't1w'\?\)"),
        ("bet 'a", "No closing quotation; check its quotes"),
        ("  ", "give a command, such as 'bet"),
        ("no-such-program {t1w}", "no-such-program is not on PATH"),
        ("X=1 cp {t1w} {out}", "X=1 sets a variable, which is for a shell: write .env X=1"),
    ],
)
def test_what_is_said_of_templates(template: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        template_app(template)


def test_the_brain_app_names_what_it_makes(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    app = brain_app(BUILTIN)
    task = task_of(app, selection.units[0], selection.root)
    stems = ["A/sub-1/ses-1/anat/sub-1_ses-1", "A/sub-1/ses-2/anat/sub-1_ses-2_run-1"]
    kinds = ["T1w.nii.gz", "mask.nii.gz", "T1w.json", "mask.json"]
    assert task.outputs == tuple(f"{stem}_desc-brain_{kind}" for stem in stems for kind in kinds)
    assert "bids:raw:sub-1/ses-1/anat/sub-1_ses-1_T1w.nii.gz" in task.argv
    assert "not for science" in app.generated_by[0]["Name"]


def test_links_without_content_are_told_before_anything_starts(tmp_path: Path) -> None:
    home = make(tmp_path / "data", t1w("1"))
    link = home / t1w("2")
    link.parent.mkdir(parents=True)
    link.symlink_to(".git/annex/objects/a/b/c.nii.gz")
    with pytest.raises(UsageError, match=rf"1 of 2 images are links .* type 'datalad get {link}'"):
        require_content(select(home, Asked()).units)
    require_content(select(home, Asked(("1",))).units)


def test_links_of_apps_that_take_no_images_by_name(tmp_path: Path) -> None:
    """Who may need all of it is refused where there is nothing, and told what is not there."""
    home = make(tmp_path / "data", t1w("1"), "sub-2/func/sub-2_task-rest_bold.json")
    links = [home / f"sub-{label}/func/sub-{label}_task-rest_bold.nii.gz" for label in "12"]
    for link in links:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(".git/annex/objects/a/b/c.nii.gz")
    line = ("bids", home, tmp_path / "out", "participant", "--engine", "serial", "--app")
    app = "touch {out}/{prefix}.txt"
    refused = call(*line, app)
    assert refused.code == 2
    assert f"1 of 3 files are links whose content is not here: type 'datalad get {links[1]}'" in (
        refused.err
    )
    done = call(*line, app, "--participant-label", "1")
    assert done.code == 0, done
    fetch = f"if the app reads them, type 'datalad get {links[0]}'"
    assert f"not here   1 link without content: {fetch}" in done.err


def test_the_description_of_derivatives(tmp_path: Path) -> None:
    said = {"Name": "mine", "BIDSVersion": "1.8.0", "DatasetDOI": "doi:10.1/x"}
    (tmp_path / "dataset_description.json").write_text(json.dumps(said))
    made = derivative(str(tmp_path), read_description(tmp_path), "Brains", [{"Name": "x"}])
    out = tmp_path / "out"
    out.mkdir()
    directory = RunDirectory(out)
    say(directory, "", made)
    describe(directory, "")
    first = (out / "dataset_description.json").stat().st_mtime_ns
    say(directory, "", made)
    describe(directory, "")
    assert (out / "dataset_description.json").stat().st_mtime_ns == first
    own, other = read_description(out)["GeneratedBy"]
    assert (own["Name"], own["Version"]) == ("hyperslab", __version__)
    assert other == {"Name": "x"}
    assert read_description(out) == {
        "Name": "Brains of mine",
        "BIDSVersion": "1.11.0",
        "DatasetType": "derivative",
        "GeneratedBy": [own, other],
        "SourceDatasets": [{"URL": tmp_path.as_uri(), "DOI": "doi:10.1/x"}],
        "DatasetLinks": {"raw": tmp_path.as_uri()},
    }
    (tmp_path / "dataset_description.json").write_text('{"Name": ')
    with pytest.raises(FormatError, match=r"is no JSON: .* in line 1, column 10; correct the file"):
        read_description(tmp_path)


def pretend(units: Sequence[Unit], root: str, out: Path) -> None:
    """Leave volumes of 1000 ml, 1010 ml and so on, as the participant level does."""
    images = [image for unit in units for image in unit.images]
    for number, image in enumerate(images):
        path = out / sidecar_of(brain_names(image, root)[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"VolumeMillilitres": 1000 + 10 * number}))


def test_the_group_level(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    out = tmp_path / "out"
    pretend(selection.units, selection.root, out)
    where = {unit.participant.folder: unit.participant.site for unit in selection.units}
    group = gather_volumes(selection.units, selection.root, out, where, {})
    # of A/sub-1, who has two images, and of the others
    assert group.mean_ml == pytest.approx((1005 + 1020 + 1030) / 3)
    assert group.lines() == ["mean brain volume 1018 ml, of 3 participants in 4 images"]
    by_image, by_participant, by_site = save_group(group, out)
    rows = [line.split("\t") for line in by_image.read_text().splitlines()]
    assert rows[0] == ["participant_id", "session_id", "site", "image", "volume_ml"]
    image = os.path.relpath(selection.units[2].images[0].path, selection.root)
    assert rows[4] == ["sub-1", "n/a", "B", image, "1030.000"]
    assert by_participant.read_text().splitlines() == [
        "participant_id\tsite\tfolder\timages\tmean_ml",
        "sub-1\tA\tA/sub-1\t2\t1005.000",
        "sub-10\tA\tA/sub-10\t1\t1020.000",
        "sub-1\tB\tB/sub-1\t1\t1030.000",
    ]
    assert by_site.read_text().splitlines() == [
        "site\tparticipants\timages\tmean_ml\tsd_ml",
        "A\t2\t3\t1012.500\t10.607",
        "B\t1\t1\t1030.000\tn/a",
    ]


def test_one_site_in_the_tables_of_two_datasets(tmp_path: Path) -> None:
    """Each sub-1 is somebody else."""
    selection = sites(tmp_path)
    out = tmp_path / "out"
    pretend(selection.units, selection.root, out)
    where = {unit.participant.folder: "Leipzig" for unit in selection.units}
    group = gather_volumes(selection.units, selection.root, out, where, {})
    assert group.lines() == ["mean brain volume 1018 ml, of 3 participants in 4 images"]
    rows = save_group(group, out)[-1].read_text().splitlines()
    assert [row.split("\t")[:3] for row in rows[1:]] == [["Leipzig", "3", "4"]]


def test_the_group_level_refuses_what_is_not_complete(tmp_path: Path) -> None:
    selection = sites(tmp_path)
    out = tmp_path / "out"
    pretend(selection.units[:2], selection.root, out)
    with pytest.raises(UsageError, match=r"no result of B/sub-1: run .* with --allow-missing"):
        gather_volumes(selection.units, selection.root, out, {}, {})
    group = gather_volumes(selection.units, selection.root, out, {}, {}, allow_missing=True)
    assert (len(group.volumes), group.missing) == (3, ("B/sub-1",))
    assert group.lines()[1] == "left out   B/sub-1"
    with pytest.raises(UsageError, match="has no result of any participant"):
        gather_volumes(selection.units, selection.root, tmp_path, {}, {}, allow_missing=True)
