"""The words that container runtimes are given, and what is said before any of them starts."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.bids.containers import images
from hyperslab.apps.bids.containers.images import AUTO, remove_left, require_usable
from hyperslab.apps.bids.containers.participants import container_app, generated_by
from hyperslab.apps.bids.containers.runtimes import RUNTIMES, Container, app_words
from hyperslab.cli import bids_front
from hyperslab.errors import UsageError
from hyperslab.plan.command import CommandTask
from hyperslab.plan.commanded import digest_of
from tests.apps.bids.containers.programs import IDENTITY, described, install, words_of
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import Finished, call

NAME = "nipreps/toy:1.2"
OF_DAEMONS = ("podman", "docker")
SIF = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0" + bytes(64)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return make(tmp_path / "my data", t1w("1"), "sub-10/anat/sub-10_T2w.nii.gz")


def image_for(runtime: str, folder: Path) -> str:
    """The image that a runtime is asked for, by the word for --container."""
    if runtime in OF_DAEMONS:
        return NAME
    path = folder / "toy.sif"
    path.write_bytes(SIF)
    return str(path)


def bids(home: Path, out: Path, level: str, *more: object) -> Finished:
    serial = ("--engine", "serial", "--no-report")
    return call("bids", home, out, level, *serial, *more)


def mounted(words: list[str], flag: str) -> dict[str, str]:
    """Folders of the host, and how they are mounted, by folders of the container."""
    found = {}
    for word in words:
        if word.startswith(f"{flag}="):
            here, there, *how = word.removeprefix(f"{flag}=").split(":")
            found[there] = f"{here}:{''.join(how)}"
    return found


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_words_of_each_runtime(
    runtime: str, home: Path, programs: Path, tmp_path: Path
) -> None:
    log = install(programs, runtime)
    image = image_for(runtime, tmp_path)
    out = tmp_path / "out"
    limits = ("--container-memory", "512MiB", "--container-cpus", 1.5)
    words = ("--runtime-option=--network=none", "--app-arguments", "--one 'two {name}'")
    asked = ("--container", image, "--runtime", runtime, *limits, *words)
    done = bids(home, out, "participant", *asked)
    assert done.code == 0, done
    first, second = words_of(log, "run")
    flag = RUNTIMES[runtime].mount
    mounts = mounted(first, flag)
    assert mounts["/data"] == f"{home}:ro"
    assert mounts["/data/sub-1"] == f"{home}/sub-1:ro"
    assert mounts["/out"].startswith(f"{out}/.hyperslab/run-0001/private/0.0.")
    assert mounts["/work"].startswith(f"{out}/.hyperslab/run-0001/private/0.0.")
    assert {"--memory=536870912", "--cpus=1.5", "--network=none"} <= set(first)
    place = first.index("/data")
    assert first[place:] == [
        *("/data", "/out", "participant", "--participant_label", "1", "--one", "two {name}")
    ]
    assert second[second.index("--participant_label") + 1] == "10"
    own = [word for word in first if word.startswith(("--name=", "--label=", "--pull=", "--rm"))]
    if runtime in OF_DAEMONS:
        assert first[place - 1] == IDENTITY
        assert own[0:2] == ["--rm", "--pull=never"]
        assert own[2].startswith("--name=hyperslab-run-0001.0.0.")
        assert own[3] == f"--label=hyperslab.out={out}"
        assert own[2] not in second
    else:
        assert first[place - 1] == image
        assert "--cleanenv" in first
        assert "--contain" in first
        (scratch,) = (word for word in first if word.startswith("--workdir="))
        assert scratch.removeprefix("--workdir=") == mounts["/work"].rstrip(":")
        assert own == []
    files = {path.relative_to(out).as_posix() for path in out.rglob("*.[jt]*") if path.is_file()}
    visible = {name for name in files if not name.startswith(".")}
    assert visible == {"dataset_description.json", "sub-1/made.txt", "sub-10/made.txt"}
    said = json.loads((out / "dataset_description.json").read_text())
    assert said["Name"] == "of the app"
    toy, *others = said["GeneratedBy"]
    assert toy["Container"] == {"Type": runtime, "Tag": image}
    assert [one["Name"] for one in (toy, *others)] == ["Toy", "participant", "hyperslab"]
    group = bids(home, out, "group", *asked)
    assert group.code == 0, group
    assert f"group      1 file in {out}" in group.out
    said = json.loads((out / "dataset_description.json").read_text())
    assert [one["Name"] for one in said["GeneratedBy"]][-1] == "group"
    lines = (out / ".bidsignore").read_text().split()
    assert lines == ["participant", "group_*", "figures", "group"]
    assert (out / "group.txt").read_text() == "all"
    third = words_of(log, "run")[2]
    assert mounted(third, flag)["/out/sub-10"] == f"{out}/sub-10:ro"
    assert third[third.index("/data") :][:3] == ["/data", "/out", "group"]
    again = bids(home, out, "participant", *asked, "--resume")
    assert again.code == 0, again
    assert len(words_of(log, "run")) == 3
    assert "3 of 3 outputs unchanged" in call("verify", out).out


@pytest.mark.parametrize("runtime", ["docker", "apptainer"])
def test_sessions_and_filters(runtime: str, programs: Path, tmp_path: Path) -> None:
    """An app sees the sessions that are asked for, and nothing else of a participant; the file goes
    to it. With others of both it would replace its results.
    """
    names = (t1w("1", "a"), t1w("1", "b"), t1w("1", "c"), t1w("10", "c"))
    home = make(tmp_path / "data", *names)
    filters = tmp_path / "filters.json"
    filters.write_text('{"bold": {"task": "rest"}}')
    log = install(programs, runtime)
    out = tmp_path / "out"
    image = ("--container", image_for(runtime, tmp_path), "--runtime", runtime)
    asked = (*image, "--bids-filter-file", filters, "--session-label", "a")
    done = bids(home, out, "participant", *asked, "--session-label", "ses-b")
    assert done.code == 0, done
    (words,) = words_of(log, "run")
    assert words[words.index("/data") :] == [
        *("/data", "/out", "participant", "--participant_label", "1"),
        *("--bids-filter-file", "/filters.json"),
    ]
    mounts = mounted(words, RUNTIMES[runtime].mount)
    assert mounts["/filters.json"] == f"{filters}:ro"
    assert mounts["/data/sub-1"] == f"{mounts['/work'].rstrip(':')}/.participant:ro"
    shown = {there for there in mounts if there.startswith("/data/sub-1/")}
    assert shown == {"/data/sub-1/ses-a", "/data/sub-1/ses-b"}
    assert mounts["/data/sub-1/ses-b"] == f"{home}/sub-1/ses-b:ro"
    for others in (asked, (*image, "--session-label", "c")):
        done = bids(home, out, "participant", *others, "--resume")
        assert (done.code, "differs in the command" in done.err) == (2, True), done
    group = bids(home, out, "group", *asked)
    assert group.code == 0, group
    assert "no effect  --session-label: the group level of an app reads what" in group.err
    assert "no effect  --bids-filter-file: " in group.err
    assert (out / "group.txt").read_text() == "all"


@pytest.mark.parametrize("runtime", ["docker", "apptainer"])
def test_a_container_for_each_session(runtime: str, programs: Path, tmp_path: Path) -> None:
    """By one call or several ones; what is done is not done again, and whoever has no sessions is
    done as a whole. Of files of the participant those of the first session stay, and others are
    told.
    """
    home = make(tmp_path / "data", t1w("1", "a"), t1w("1", "b"), t1w("10"), "sub-1/sub-1_x.tsv")
    log = install(programs, runtime)
    out = tmp_path / "out"
    image = ("--container", image_for(runtime, tmp_path), "--runtime", runtime)
    asked = (*image, "--per", "session", "--resume")
    first = bids(home, out, "participant", *asked, "--session-label", "a")
    assert (first.code, "not kept" in first.err) == (0, False), first
    done = bids(home, out, "participant", *asked)
    assert done.code == 0, done
    told = "sub-1.html of sub-1_ses-b: it differs from that of another call, which is kept"
    assert f"not kept   {told}" in done.err
    assert "made.txt" not in done.err
    one, other, whole = words_of(log, "run")
    seen = [mounted(words, RUNTIMES[runtime].mount) for words in (one, other, whole)]
    for label, mounts in zip("ab", seen, strict=False):
        shown = {there: here for there, here in mounts.items() if "/sub-1/" in there}
        assert shown == {f"/data/sub-1/ses-{label}": f"{home}/sub-1/ses-{label}:ro"}
        assert mounts["/data/sub-1"] == f"{mounts['/work'].rstrip(':')}/.participant:ro"
    assert seen[2]["/data/sub-10"] == f"{home}/sub-10:ro"
    assert [words[words.index("--participant_label") + 1 :] for words in (one, other, whole)] == [
        ["1"],
        ["1"],
        ["10"],
    ]
    assert (out / "sub-1.html").read_text() == "ses-a"
    for label in "ab":
        assert (out / f"sub-1/ses-{label}/made.txt").read_text() == f"ses-{label}"
    assert (out / "sub-1/made.txt").read_text() == "1"
    assert "5 of 5 outputs unchanged" in call("verify", out).out
    make(home, t1w("1", "b"), content=b"another")
    assert bids(home, out, "participant", *asked).code == 0
    again = words_of(log, "run")[3:]
    (mounts,) = (mounted(words, RUNTIMES[runtime].mount) for words in again)
    assert "/data/sub-1/ses-b" in mounts
    assert (out / "sub-1.html").read_text() == "ses-a"
    held = bids(home, out, "participant", *image, "--resume")
    assert (held.code, "sub-1 is done there by sessions" in held.err) == (1, True), held
    assert len(words_of(log, "run")) == 4
    group = bids(home, out, "group", *image, "--per", "session", "--session-label", "a")
    assert (group.code, "no effect  --session-label" in group.err) == (0, True), group


@pytest.mark.parametrize("level", ["group", "both"])
def test_a_group_level_that_names_itself_once(
    level: str, home: Path, programs: Path, tmp_path: Path
) -> None:
    """However often it runs, it is named; what it finds does not name it."""
    make(home, "once")
    install(programs, "docker")
    out = tmp_path / "out"
    asked = ("--container", NAME, "--runtime", "docker")
    assert bids(home, out, "participant", *asked).code == 0
    for number in range(3):
        make(home, t1w("1"), content=b"%d" % number)
        more = () if level == "group" else ("--resume",)
        assert bids(home, out, level, *asked, *more).code == 0
        said = json.loads((out / "dataset_description.json").read_text())
        names = [one["Name"] for one in said["GeneratedBy"]]
        assert names == ["Toy", "participant", "hyperslab", "group"], number


def test_who_is_left_out_of_the_group_level(home: Path, programs: Path, tmp_path: Path) -> None:
    """The app is told all others, as it sees the results of all."""
    log = install(programs, "docker")
    asked = ("--container", NAME, "--runtime", "docker")
    out = tmp_path / "out"
    assert bids(home, out, "participant", *asked).code == 0
    group = bids(home, out, "group", *asked, "--exclude-participant-label", "10")
    assert group.code == 0, group
    last = words_of(log, "run")[-1]
    assert last[last.index("group") :] == ["group", "--participant_label", "1"]


@pytest.mark.parametrize("runtime", ["docker", "apptainer"])
def test_both_levels_in_one_run(runtime: str, home: Path, programs: Path, tmp_path: Path) -> None:
    log = install(programs, runtime)
    out = tmp_path / "out"
    asked = ("--container", image_for(runtime, tmp_path), "--runtime", runtime)
    done = bids(home, out, "both", *asked, "--app-arguments", "'two {name}'")
    assert done.code == 0, done
    assert (out / "group.txt").read_text() == "all"
    *_, last = words_of(log, "run")
    assert last[last.index("/data") :] == ["/data", "/out", "group", "two {name}"]
    mounts = mounted(last, RUNTIMES[runtime].mount)
    assert mounts["/out/sub-10"] == f"{out}/sub-10:ro"
    assert mounts["/out"].startswith(f"{out}/.hyperslab/run-0001/private/2.0.")
    names = [word for word in last if word.startswith("--name=")]
    assert all(name.startswith("--name=hyperslab-run-0001.2.0.") for name in names)
    assert bool(names) == (runtime in OF_DAEMONS)


def test_the_runtime_that_has_the_image_is_taken(programs: Path, tmp_path: Path) -> None:
    install(
        programs, "podman", said="[]", complaint=f"Error: {NAME}: image not known\n", status=125
    )
    install(programs, "docker")
    found = require_usable(Container(NAME, AUTO))
    assert (found.runtime, found.identity) == ("docker", IDENTITY)
    install(programs, "singularity")
    found = require_usable(Container(image_for("singularity", tmp_path), AUTO))
    assert (found.runtime, found.identity) == ("singularity", "")
    elsewhere = require_usable(Container("far/away:1", "docker"), is_here=False)
    assert elsewhere.identity == ""


OTHER = "s390x" if platform.machine() != "s390x" else "amd64"


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (None, "docker is not on PATH: install it, or choose another runtime by --runtime"),
        (
            {"complaint": f"Error: No such image: {NAME}\n", "status": 1},
            f"docker has no such image: type 'docker pull {NAME}'",
        ),
        (
            {"complaint": "warning\nCannot connect to the Docker daemon\n", "status": 1},
            "docker cannot be asked: Cannot connect to the Docker daemon",
        ),
        ({"said": "no JSON"}, "what 'docker image inspect' says of it is not understood"),
        ({"said": described(Config={"Cmd": ["sh"]})}, "is no BIDS App: it has no entrypoint"),
        ({"said": described(Architecture=OTHER)}, f"is made for {OTHER}, and this machine is"),
    ],
)
def test_what_is_said_of_runtimes_and_images(
    program: dict[str, Any] | None, sentence: str, home: Path, programs: Path, tmp_path: Path
) -> None:
    if program is not None:
        install(programs, "docker", **program)
    out = tmp_path / "out"
    done = bids(home, out, "participant", "--container", NAME, "--runtime", "docker")
    assert done.code == 2, done
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--container", "docker://x"), "every participant would fetch it: make a file of it"),
        (("--container", "gone.sif"), "gone.sif: cannot be read: No such file"),
        (("--container", "README.sif"), "is no image (SIF or squashfs)"),
        (("--container", NAME, "--app", "cp"), "--app cp: what runs is what --container names"),
        (("--container", NAME, "--runtime", "lxc"), "--runtime lxc: choose one of auto, podman"),
        (("--container", NAME, "--container-cpus", 0), "--container-cpus 0: give a number above 0"),
        (("--container", NAME, "--container-memory", "x"), "--container-memory x: give a positive"),
        (("--container", NAME, "--app-arguments", "'"), "No closing quotation; check its quotes"),
        (("--container", NAME, "--bids-filter-file", "gone.json"), "gone.json: there is no such"),
        (("--app-arguments", "x"), "--app-arguments is for --container: name an image"),
    ],
)
def test_what_is_said_of_flags(
    words: tuple[object, ...],
    sentence: str,
    home: Path,
    programs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(programs, "docker")
    install(programs, "apptainer")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.sif").write_text("# not an image\n")
    done = bids(home, tmp_path / "out", "participant", *words)
    assert done.code == 2, done
    assert sentence in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_folders_that_runtimes_would_take_apart(programs: Path, tmp_path: Path) -> None:
    install(programs, "docker")
    asked = ("--container", NAME, "--runtime", "docker")
    odd = make(tmp_path / "12:30", t1w("1"))
    done = bids(odd, tmp_path / "out", "participant", *asked)
    assert (done.code, "':' in " in done.err) == (2, True), done
    done = bids(make(tmp_path / "data", t1w("1")), tmp_path / "a,b", "participant", *asked)
    assert (done.code, "',' in " in done.err) == (2, True), done


def test_a_runtime_that_does_not_answer(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs / "docker"
    program.write_text("#!/bin/sh\nexec sleep 100\n")
    program.chmod(0o755)
    monkeypatch.setattr(images, "PATIENCE_S", 0.2)
    with pytest.raises(UsageError, match=r"docker has not answered for 0.2 s: see that it works"):
        require_usable(Container(NAME, "docker"))
    with pytest.raises(UsageError, match="docker has not answered"):
        remove_left(Container(NAME, "docker"), "/out")


def test_what_is_done_is_not_repeated_within_other_limits(
    home: Path, programs: Path, tmp_path: Path
) -> None:
    log = install(programs, "podman")
    for label, size in {1: "1GB", 10: "2GB"}.items():
        asked = ("--container", NAME, "--container-memory", size, "--participant-label", label)
        done = bids(home, tmp_path / "out", "participant", *asked, "--resume")
        assert done.code == 0, done
    memory = [word for words in words_of(log, "run") for word in words if "--memory=" in word]
    assert memory == ["--memory=1000000000", "--memory=2000000000"]


def test_memory_of_all_containers_together(
    home: Path, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = install(programs, "docker")
    asked = ("--container", NAME, "--runtime", "docker", "--engine", "threads", "--no-report")
    for out, words in (("a", ("--nprocs", "2")), ("b", ())):
        line = (home, tmp_path / out, "participant", "--mem-mb", "3000", *words, *asked)
        with pytest.raises(SystemExit) as end:
            bids_front.main([str(word) for word in line])
        assert not end.value.code
    assert "--mem-mb 3000 has no effect without --nprocs" in capsys.readouterr().err
    with_limit = [words for words in words_of(log, "run") if "--memory=1500000000" in words]
    assert len(with_limit) == 2
    assert len(words_of(log, "run")) == 4


@pytest.mark.parametrize("runtime", ["apptainer", "singularity"])
def test_processors_are_told_in_a_clean_environment(runtime: str, programs: Path) -> None:
    """Nothing is told where nothing is known."""
    programs.mkdir(exist_ok=True)
    program = programs / runtime
    program.write_text(f'#!/bin/sh\necho "${{{runtime.upper()}ENV_OMP_NUM_THREADS-unset}}" "$1"\n')
    program.chmod(0o755)
    words = Container("x.sif", runtime).run_words([], "/out", app_words("participant"))
    for told, said in (({"OMP_NUM_THREADS": "3"}, "3 run\n"), ({}, "unset run\n")):
        env = {"PATH": f"{programs}:/usr/bin:/bin", **told}
        assert (
            subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
            == said
        )


def test_words_that_tell_processors_repeat_no_task() -> None:
    """Those are done that an earlier version has run without such words."""
    asked = Container("x.sif", "apptainer")
    words = asked.run_words([], "/out", app_words("participant"))
    told = asked.telling_words()
    now = CommandTask("sub-1", tuple(words), limits=container_app(asked, "/out").limits)
    before = CommandTask("sub-1", tuple(words[len(told) :]))
    assert digest_of(now) == digest_of(before)


def test_the_description_names_the_image() -> None:
    assert generated_by(Container("ghcr.io:443/nipreps/mriqc:24.0.2", "docker")) == {
        "Name": "mriqc",
        "Version": "24.0.2",
        "Container": {"Type": "docker", "Tag": "ghcr.io:443/nipreps/mriqc:24.0.2"},
    }
    assert generated_by(Container("/images/toy.sif", "apptainer"))["Name"] == "toy"


def test_the_group_level_refuses_what_is_not_complete(
    home: Path, programs: Path, tmp_path: Path
) -> None:
    install(programs, "docker")
    out = tmp_path / "out"
    asked = ("--container", NAME, "--runtime", "docker")
    assert bids(home, out, "participant", *asked, "--participant-label", "10").code == 0
    done = bids(home, out, "group", *asked)
    assert (done.code, "has no result of sub-1: run the" in done.err) == (2, True), done
    done = bids(home, out, "group", *asked, "--allow-missing")
    assert done.code == 0, done
    assert (out / "group.txt").exists()
