"""Wrong arguments get one sentence that names the flag, and exit status 2; help, version and
--debug.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hyperslab.cli import app
from hyperslab.cli.verbs import load
from hyperslab.workloads import BUILTINS
from tests.repetitions import each_value
from tests.system.end_to_end.command import (
    ANATOMICAL,
    DATA,
    FUNCTIONAL,
    LAYOUT,
    ROOT,
    call,
    call_program,
    tree,
)

EXAMPLE = f"{ROOT}/examples/brighten.py"
LISTED: dict[str, Any] = vars(typer.main.get_command(app))["commands"]
VERBS = {name: load(name) for name in LISTED}

WRONG_FLAGS = [
    ("--accept-changed-function", ["--accept-changed-function"], "needs --resume"),
    ("--out", ["-o", f"{ANATOMICAL}"], "is the source itself: give another name"),
    ("--out", ["-o", f"{ANATOMICAL}", "--resume"], "is the source itself: give another name"),
    ("--out", ["-o", f"{ANATOMICAL}/out"], "is a file: give a directory"),
    ("--out", ["-o", f"{DATA}"], "-o "),
    ("--param", ["-p", "iterations"], "--param iterations: write it as name=value"),
    ("--param", ["-p", "iterations=many"], "--param iterations=many: give an integer"),
    ("--param", ["-p", "iteration=2"], "did you mean 'iterations'?"),
    ("--param", ["-p", "delay=1", "-p", "delay=2"], "--param delay is given twice"),
    (
        "--connect",
        ["--connect", "tcp://localhost:1"],
        "--connect tcp://localhost:1 is for Dask and Spark",
    ),
    ("--storage-option", ["--storage-option", "anon"], "--storage-option: give NAME=VALUE"),
    ("--mask", ["--mask", "/missing.nii"], "there is no such file"),
    ("--labels", ["--labels", "/missing.nii"], "there is no such file"),
    ("--resample", ["--resample", "linear"], "there is no further input, such as --mask"),
    ("--region", ["--region", "10-20"], "'10-20' is not a range"),
    ("--check-locality", ["--check-locality", "--dry-run"], "--check-locality and --dry-run"),
    ("--with", ["--with", "mask"], "--with mask: give NAME=SOURCE"),
    ("--with", ["--with", "mask=/missing.nii"], "there is no such file"),
    ("--with", ["--with", f"mask={DATA}/README.md"], "its format is unknown"),
    ("--with", ["--with", "1=a.nii"], "--with 1=a.nii: give NAME=SOURCE"),
    ("--sources", ["--sources", "stacked"], "choose one of independent, concatenated, mosaic"),
    ("--axis", ["--axis", "z"], "integer"),
    ("--axis", ["--axis", "1"], "is for --sources concatenated"),
    ("--axis", ["--sources", "concatenated", "--axis", "3"], "the sources have axes 0 to 2"),
    ("--engine", ["--engine", "spork"], "slurm (did you mean 'spark'?)"),
    ("--engine", ["--engine", "serial", "--workers", "2"], "leave out --workers"),
    ("--workers", ["--workers", "0"], "give 1 or more"),
    ("--workers", ["--workers", "two"], "integer"),
    ("--threads", ["--threads", "-1"], "give 1 or more"),
    (
        "--block-shape",
        ["--block-shape", "4,4"],
        "give one positive extent for each of shape (33, 41, 25)",
    ),
    ("--block-shape", ["--block-shape", "4,4,0"], "give one positive extent"),
    ("--block-shape", ["--block-shape", "4;4"], "give whole numbers such as 64,64,64"),
    ("--blocks", ["--blocks", "0"], "give one number, or 3 joined by x"),
    ("--blocks", ["--blocks", "2x2"], "or 3 joined by x, as in 2x2x1"),
    ("--blocks", ["--blocks", "5x"], "give whole numbers"),
    ("--partition", ["--partition", "thirds"], "choose auto, chunks, slabs or bytes=SIZE"),
    ("--partition", ["--partition", "bytes=few"], "give a positive size"),
    ("--partition", ["--partition", "slabs", "--blocks", "2"], "are different ways to cut"),
    ("--axes-whole", ["--axes-whole", "3"], "the array has axes 0 to 2"),
    ("--axes-whole", ["--axes-whole", "q"], "the array has no axis of this name"),
    ("--halo", ["--halo", "1"], "the built-in 'increment' sets it itself; leave it out"),
    ("--halo", ["--halo", "one"], "give whole numbers"),
    ("--boundary", ["--boundary", "wrap"], "choose one of reflect, nearest, constant"),
    ("--memory", ["--memory", "lots"], "give a positive size such as 512MiB or 8GB"),
    ("--memory", ["--memory", "0"], "give a positive size"),
    ("--memory", ["--memory", "1MB"], "a task needs"),
    ("--values", ["--values", "raw"], "choose one of real, stored"),
    ("--dtype", ["--dtype", "float32"], "the built-in 'increment' sets it itself; leave it out"),
    ("--drop-axis", ["--drop-axis", "2"], "the built-in 'increment' sets it itself; leave it out"),
    ("--new-axis", ["--new-axis", "3:z"], "give AXIS or AXIS:LENGTH, such as 3 or 3:2"),
    (
        "--outputs",
        ["--outputs", "slope,t"],
        "the built-in 'increment' sets it itself; leave it out",
    ),
    ("--format", ["--format", "png"], "choose one of nii, nii.gz, h5"),
    (
        "--chunks",
        ["--format", "h5", "--chunks", "8"],
        "give one extent of at least 1 for each axis",
    ),
    ("--compression", ["--format", "h5", "--compression", "gzip:0"], "gzip:1 to gzip:9, or none"),
    ("--compression", ["--compression", "gzip:fast"], "a name with a level such as gzip:4"),
    ("--keep", ["--keep", "all"], "choose one of blocks, volume"),
    ("--granularity", ["--granularity", "coarse"], "choose one of fused, stepwise"),
    ("--retries", ["--retries", "-1"], "give 0 or more"),
    ("--retries", ["--retries", "some"], "integer"),
    ("--task-timeout", ["--task-timeout", "0"], "give a positive number of seconds"),
    ("--task-timeout", ["--task-timeout", "1m"], "number"),
    (
        "--task-timeout",
        ["--task-timeout", "5", "--engine", "threads"],
        "a thread cannot be stopped from outside",
    ),
    ("--resume", ["--resume=yes"], "does not take a value"),
    ("--overwrite", ["--overwrite=yes"], "does not take a value"),
    ("--dry-run", ["--dry-run=yes"], "does not take a value"),
    ("--json", ["--json"], "is for --dry-run"),
    ("--live", ["--live=yes"], "does not take a value"),
    ("--netlab", ["--netlab", "a.toml", "--workers", "2"], "the nodes of the laboratory are"),
    ("--record-messages", ["--record-messages"], "not for --engine processes"),
    ("--count-files", ["--count-files", "--engine", "slurm"], "this host's processes"),
    ("--quiet", ["--quiet=yes"], "does not take a value"),
    ("--verbose", ["--verbose=yes"], "does not take a value"),
    ("--report", ["--report=yes"], "does not take a value"),
    ("--trial", ["--trial=yes"], "does not take a value"),
    ("--fail-fast", ["--fail-fast=yes"], "does not take a value"),
    ("--stage-in", ["--stage-in", "/nonexistent"], "there is no such directory"),
    ("--stage-in", ["--stage-in", ""], "has no value: give a directory"),
    ("--stage-out", ["--stage-out", "/nonexistent"], "there is no such directory"),
    ("--stage-out", ["--stage-out="], "has no value: give a directory"),
    ("--work-tier", ["--work-tier", "/nonexistent"], "there is no such directory"),
    ("--work-tier", ["--work-tier", "/tmp"], "--work-tier is for commands"),
    ("--keep-failed", ["--keep-failed", "/tmp"], "--keep-failed is for commands"),
    ("--keep-failed", ["--keep-failed", "/etc/hostname/x"], "is no folder that can be written to"),
    ("--command", ["--command", "cp {input} {outt}"], "there is no placeholder {outt}"),
    ("--match", ["--match", "*.nii"], "--match is for --command"),
    ("--scratch", ["--scratch", "/nonexistent"], "there is no such directory; give auto, tmpfs"),
    ("--readers-per-device", ["--readers-per-device", "0"], "give 1 or more"),
    ("--stagger", ["--stagger", "-1"], "give a number of seconds"),
    ("--throttle", ["--throttle", "2"], "is for --engine slurm, not for --engine processes"),
    ("--slurm-option", ["--slurm-option", "time=1"], "is for --engine slurm"),
    ("--detach", ["--detach"], "is for --engine slurm"),
    ("--wrokers", ["--wrokers", "2"], "--workers"),
]
"Flag, what to add to a sound `run increment`, and part of what is said."


def refuse(*arguments: object, program: bool = False) -> str:
    """Run a command that must be refused; returns the one sentence that it says, and the line of
    the user's file that may follow.
    """
    done = (call_program if program else call)(*arguments)
    assert done.code == 2, done
    assert done.out == ""
    assert done.err.startswith("hyperslab: ")
    line = done.err.splitlines()[1:]
    assert not line or (len(line) == 1 and "mine.py:" in line[0]), done.err
    assert "Traceback" not in done.err
    return done.err


@pytest.mark.parametrize(
    ("flag", "more", "said"), WRONG_FLAGS, ids=lambda value: value if "-" in value else None
)
def test_a_wrong_flag_of_run(tmp_path: Path, flag: str, more: list[str], said: str) -> None:
    out = [] if flag == "--out" else ["-o", tmp_path / "out"]
    sentence = refuse("run", "increment", ANATOMICAL, *out, *more)
    named = more[1] if flag == "--out" else flag
    assert named in sentence
    assert said in sentence
    assert tree(tmp_path) == []


def test_every_flag_of_run_has_a_wrong_value_above() -> None:
    flags = {
        option for param in VERBS["run"].params for option in param.opts if option.startswith("--")
    }
    assert {flag for flag, _, _ in WRONG_FLAGS} == (flags | {"--wrokers"}) - {"--help"}


@pytest.mark.parametrize(
    ("function", "more", "said"),
    [
        (
            "incremnt",
            [],
            "FUNCTION 'incremnt': there is no such built-in (did you mean 'increment'?)",
        ),
        (
            "nothing",
            [],
            f"{', '.join(BUILTINS)}, or name your own as module:function or ",
        ),
        (
            "nomodule:f",
            [],
            "FUNCTION 'nomodule:f': there is no module 'nomodule' on the Python path",
        ),
        ("no.such:f", [], "FUNCTION 'no.such:f'"),
        ("missing.py:f", [], "there is no file"),
        (f"{EXAMPLE}:brihgten", [], f"{EXAMPLE} has no 'brihgten' (did you mean 'brighten'?)"),
        (EXAMPLE, [], f"name its function, for example {EXAMPLE}:brighten; the file defines "),
        (f"{EXAMPLE}:np", [], "is of type module, neither a function nor a Fold"),
        (f"{EXAMPLE}:", [], f"name its function, for example {EXAMPLE}:brighten"),
        (
            f"{EXAMPLE}:brighten",
            ["-p", "gian=2"],
            "--param gian: 'brighten' has no parameter 'gian' (did you mean",
        ),
        (
            f"{EXAMPLE}:brighten",
            ["--with", f"mask={ANATOMICAL}"],
            "--with mask: 'brighten' has no parameter 'mask'",
        ),
        (
            f"{EXAMPLE}:brighten",
            ["--mask", f"{ANATOMICAL}"],
            "--mask: 'brighten' has no parameter 'mask'; it has gain; add it to the function",
        ),
        (
            f"{EXAMPLE}:brighten",
            ["--with", f"mask={ANATOMICAL}", "--labels", f"{ANATOMICAL}"],
            "hyperslab: --with mask: 'brighten' has no parameter 'mask'",
        ),
        (
            f"{EXAMPLE}:inside",
            ["--mask", f"{ANATOMICAL}", "-p", "mask=3"],
            "hyperslab: --mask is also given as --param mask; leave one out",
        ),
        (f"{EXAMPLE}:brighten", ["--dtype", "flaot"], "--dtype flaot: not a NumPy dtype"),
        (
            f"{EXAMPLE}:brighten",
            ["--halo", "1,2"],
            "--halo 1,2: give one number of at least 0, or one for each of the 3 axes",
        ),
        (f"{EXAMPLE}:brighten", ["--halo", "-1"], "--halo"),
        (
            f"{EXAMPLE}:inside",
            [],
            "FUNCTION 'inside' needs 'mask': give --param mask=VALUE, or --with mask=SOURCE",
        ),
        (
            f"{EXAMPLE}:inside",
            ["--with", f"mask={FUNCTIONAL}"],
            "the input 'mask' has shape (17, 21, 3, 20)",
        ),
        (f"{EXAMPLE}:head_volume", ["-p", "treshold=3"], "(did you mean 'threshold'?)"),
        (f"{EXAMPLE}:head_volume", ["--halo", "1"], "--halo: 'head_volume' is a fold"),
        (
            f"{EXAMPLE}:head_volume",
            ["--keep", "volume"],
            "--keep volume: the function reduces all blocks to one value",
        ),
        ("stats", ["--format", "h5"], "--format h5: the function reduces all blocks to one value"),
        (
            "stats",
            ["--with", f"t1={ANATOMICAL}"],
            "the built-in 'stats' takes one input beside mask and labels; leave out t1",
        ),
    ],
)
def test_a_wrong_function(tmp_path: Path, function: str, more: list[str], said: str) -> None:
    assert said in refuse("run", function, ANATOMICAL, "-o", tmp_path / "out", *more)
    assert tree(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(): pass", "takes no block; its first parameter must take the block"),
        ("def f(block, slab): pass\nimport missing_module", "No module named 'missing_module'"),
        ("def f(:", "SyntaxError"),
        ("f = 3", "is of type int, neither a function nor a Fold"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    assert said in refuse("run", f"{tmp_path}/mine.py:f", ANATOMICAL, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("missing.nii", "SOURCE 'missing.nii': there is no such file"),
        (f"{DATA}/mri/anatomicl.nii", "there is no such file (did you mean 'anatomical.nii'?)"),
        ("missing*.nii", "SOURCE 'missing*.nii': no file matches this pattern"),
        ("missing.txt", "SOURCE 'missing.txt': there is no such file"),
        (f"{DATA}/hdf5", "the directory holds no array file (.nii .nii.gz .h5"),
        (f"{LAYOUT}/tfilters.h5", "holds 15 arrays; choose one as '"),
        (f"{LAYOUT}/tfilters.h5::nope", "holds no 'nope'"),
        (f"{LAYOUT}/tfilters.h5::deflat", "holds no 'deflat' (did you mean '"),
        (f"{ANATOMICAL}::x", "leave out '::x'"),
        (f"{FUNCTIONAL}", "has 4 dimensions"),
    ],
)
def test_a_wrong_source(tmp_path: Path, source: str, said: str) -> None:
    assert said in refuse("run", "increment", ANATOMICAL, source, "-o", tmp_path / "out")
    assert tree(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a.nii\nmissing.nii\n", "missing.nii; a file that ends in .txt is read as a list of"),
        (b"\n# nothing\n", "the list names no file"),
        (b"\xff\xfe\x00", "is not a text file of one 'path' or 'path,dataset' a line"),
    ],
)
def test_a_wrong_list(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.nii").write_bytes(ANATOMICAL.read_bytes())
    (tmp_path / "list.txt").write_bytes(content)
    assert said in refuse("run", "increment", tmp_path / "list.txt", "-o", tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "Missing argument 'function'; see 'hyperslab run --help'"),
        (["run", "increment"], "Missing option '--out' / '-o'"),
        (["run", "increment", "-o", "/missing"], "SOURCE is missing"),
        (["logs", "/missing"], "/missing holds no run"),
        (["run", "increment", f"{ANATOMICAL}"], "Missing option '--out'"),
        (["rnu"], "Did you mean 'run'?"),
        (["info"], "Missing argument 'path'"),
        (["info", "--all", "x"], "--all"),
        (["status", "/missing"], "/missing holds no run"),
        (["cancel", "/missing"], "/missing holds no run"),
        (["verify", "/missing"], "/missing holds no run"),
        (["clean", "/missing", "--all"], "/missing holds no run"),
        (["clean", "/missing", "--all=yes"], "does not take a value"),
        (["doctor", "me"], "me"),
        (["synth", "mouse", "-o", "/missing"], "KIND 'mouse': choose one of bigbrain, climate"),
        (["synth", "bigbrain"], "Missing option '--out'"),
        (["synth", "bigbrain", "-o", f"{ANATOMICAL}"], "is a file"),
        (
            ["synth", "bigbrain", "-o", "/missing", "--size", "big"],
            "--size big: give a positive size",
        ),
        (["synth", "bigbrain", "-o", "/missing", "--blocks", "0"], "--blocks 0: give 1 or more"),
        (["synth", "bigbrain", "-o", "/missing", "--blocks", "x"], "--blocks"),
        (
            ["synth", "bigbrain", "-o", "/missing", "--format", "png"],
            "--format png: choose one of nii, h5",
        ),
        (["synth", "bigbrain", "-o", "/missing", "--workers", "0"], "--workers 0: give 1 or more"),
        (["synth", "bigbrain", "-o", "/missing", "--seed", "x"], "--seed"),
    ],
)
def test_wrong_arguments_of_the_verbs(arguments: list[str], said: str) -> None:
    assert said in refuse(*arguments)
    assert not Path("/missing").exists()


def test_a_refusal_by_the_program_itself(tmp_path: Path) -> None:
    assert "--blocks 0" in refuse(
        "run", "increment", ANATOMICAL, "-o", tmp_path, "--blocks", "0", program=True
    )


@pytest.mark.parametrize(
    "arguments", [["--debug", "run", "incremnt"], ["run", "incremnt", "--debug"]]
)
def test_debug_shows_the_traceback_and_the_sentence(tmp_path: Path, arguments: list[str]) -> None:
    done = call(*arguments, ANATOMICAL, "-o", tmp_path / "out")
    assert done.code == 2
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert done.err.splitlines()[-1].startswith("hyperslab: FUNCTION 'incremnt': ")


def test_debug_of_a_corrupt_file_and_of_typer(tmp_path: Path) -> None:
    done = call("info", DATA / "README.md", "--debug")
    assert done.code == 1
    assert "hyperslab.errors.FormatError: " in done.err
    done = call("run", "increment", ANATOMICAL, "-o", tmp_path, "--workers", "x", "--debug")
    assert done.code == 2
    assert done.err.startswith("Traceback")


def test_an_unforeseen_error_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_path: str) -> list[str]:
        raise KeyError("a defect\nof ours")

    monkeypatch.setattr(sys.modules["hyperslab.cli.info"], "expand", broken)
    done = call("info", ANATOMICAL)
    assert done.code == 1
    assert re.fullmatch(
        r"hyperslab: KeyError: .*run again with --debug and report the traceback\n", done.err
    )
    assert "Traceback" in call("info", ANATOMICAL, "--debug").err


@each_value("every verb, and both flags")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_every_verb(verb: str, flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = call(verb, flag)
    assert done.code == 0
    assert done.err == ""
    for param in VERBS[verb].params:
        assert max(param.opts, key=len) in done.out or param.metavar in done.out
        assert param.help, f"{verb} {param.name} has no help"
    assert "--debug" in done.out


def test_without_arguments_the_help_lists_every_verb() -> None:
    done = call_program()
    assert done.code == 0
    assert done.err == ""
    verbs = "info run convert diff status wait report bids logs cancel verify clean synth"
    verbs += " tiers experiment netlab scratch trace-files functions probe doctor"
    assert list(VERBS) == verbs.split()
    assert all(re.search(rf"│ {verb} +[A-Z]", done.out) for verb in VERBS)
    assert "--debug" in done.out
    assert call("--help").out == call().out


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_verbs_says_what_their_own_help_begins_with(verb: str) -> None:
    own = VERBS[verb].help.partition("\n\n")[0]
    assert LISTED[verb].help == " ".join(own.split())
    assert (VERBS[verb].epilog or "").endswith(LISTED[verb].epilog or "")


def test_version() -> None:
    done = call("--version")
    assert done.code == 0
    assert re.fullmatch(r"hyperslab \d+\.\d+\.\d+\S*\n", done.out)
