"""Commands as tasks: what they are asked, what they make, how they fail and go on."""

from __future__ import annotations

import json
import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab
from hyperslab import CommandTask
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import logged
from hyperslab.driver.result import Result
from hyperslab.errors import OutputBusy, TasksFailed, UsageError
from hyperslab.plan.command import Ran
from tests.system.end_to_end.command import Finished, call


def run(tasks: Sequence[CommandTask], out: Path, **settings: Any) -> Result:
    defaults: dict[str, Any] = {"engine": "serial", "report": False, "check": False, "retries": 0}
    return hyperslab.run_commands(tasks, out, **{**defaults, **settings})


def sh(label: str, script: str, *words: str, **more: Any) -> CommandTask:
    return CommandTask(label, ("sh", "-c", script, *words), **more)


def names(out: Path) -> list[str]:
    found = (path.relative_to(out) for path in out.rglob("*") if not path.is_dir())
    return sorted(path.as_posix() for path in found if path.parts[0] != ".hyperslab")


def typed(template: str, *words: object) -> Finished:
    return call("run", "--command", template, *words, "--engine", "serial", "--no-report")


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    """A folder of files of two participants, with a name that shells would split."""
    for number in (1, 10):
        place = tmp_path / "the heads" / f"sub-{number}" / "anat"
        place.mkdir(parents=True)
        (place / f"sub-{number}_T1w.nii.gz").write_text(f"head {number}\n")
        (place / f"sub-{number}_T1w.json").write_text("{}")
    return tmp_path / "the heads"


def test_a_command_for_every_file_of_a_folder(heads: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    template = "sh -c 'cat {input} > {out}/{name}.txt'"
    done = typed(template, heads, "--match", "*.nii.gz", "-o", out)
    assert done.code == 0, done.err
    assert "sh over 2 files: 2 tasks" in done.out
    assert names(out) == ["sub-10_T1w.txt", "sub-1_T1w.txt"]
    assert (out / "sub-1_T1w.txt").read_text() == "head 1\n"
    manifest = json.loads((out / ".hyperslab" / "manifest.json").read_text())
    assert [(one["block"], one["path"]) for one in manifest["outputs"]] == [
        ("sub-1_T1w", "sub-1_T1w.txt"),
        ("sub-10_T1w", "sub-10_T1w.txt"),
    ]
    assert call("verify", out).out == "2 of 2 outputs unchanged since the run\n"
    (out / "sub-1_T1w.txt").write_text("head 2\n")
    assert "wrong: sub-1_T1w.txt: checksum" in call("verify", out).out


def test_patterns_and_files_of_one_name_in_several_folders(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "scan.nii").write_text(folder)
    out = tmp_path / "out"
    done = typed("cp {input} {out}/{name}.nii", f"{tmp_path}/*/scan.nii", "-o", out)
    assert done.code == 0, done.err
    assert names(out) == ["a_scan.nii", "b_scan.nii"]


def test_what_will_be_done_is_told_before(heads: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = typed("cp {input} {out}", heads, "--match", "*.json", "-o", out, "--dry-run")
    assert done.code == 0, done.err
    lines = dict(line.split(None, 1) for line in done.out.splitlines())
    assert lines["tasks"] == "2 to do"
    assert lines["command"] == "cp '{input}' '{out}', for sub-1_T1w first"
    assert not out.exists()


@pytest.mark.parametrize(
    ("template", "more", "sentence"),
    [
        ("cp {input} {output}", (), "there is no placeholder {output} (did you mean 'out'?)"),
        ("cp {input[1]} {out}", (), "{input[1]}: a task has 1 inputs, counted from 0"),
        ("cp 'a {out}", (), "--command cp 'a {out}: No closing quotation; check its quotes"),
        ("true", (), "every task would do the same"),
        ("cp {input} {out}/{index}.txt", (), "{index} is another number when a run is resumed"),
        (" ", (), "it is empty"),
        ("no-such-program {input}", (), "no-such-program is not found, which 2 tasks would run"),
        ("cp {input} {out}/all.txt", (), "would both write all.txt"),
        ("cp {input} {out}", ("--blocks", "2"), "--blocks is for functions over blocks"),
        ("cp {input} {out}", ("-p", "low=1"), "--param is for functions over blocks"),
        ("cp {input} {out}", ("--match", "*.mgz"), "no file below"),
        ("cp {input} {out}", ("--match", "/x"), "give a pattern for names below"),
        ("cp {input} {out}", ("--work-tier", "/nowhere"), "there is no such directory"),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    heads: Path, tmp_path: Path, template: str, more: Sequence[str], sentence: str
) -> None:
    out = tmp_path / "out"
    done = typed(template, heads, "--match", "*.nii.gz", "-o", out, *more)
    assert done.code == 2
    assert sentence in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert not out.exists()


def test_sources_that_are_none(heads: Path, tmp_path: Path) -> None:
    sentences = {
        str(heads): "is a directory: say by --match which files",
        str(tmp_path / "gone.nii"): "there is no such file",
        str(tmp_path / "*.nii"): "no file matches this pattern",
        "s3://bucket/key": "is a URL",
    }
    for source, sentence in sentences.items():
        done = typed("cp {input} {out}", source, "-o", tmp_path / "out")
        assert (done.code, sentence in " ".join(done.err.split())) == (2, True), done.err
    done = typed("cp {input} {out}", heads / "sub-1", "--match", "*.json", "-o", tmp_path / "a.nii")
    assert "commands write files of their own: name a directory" in " ".join(done.err.split())
    assert "--match is for --command" in call("run", "stats", heads, "--match", "x", "-o", "o").err
    assert "SOURCE is missing" in call("run", "stats", "-o", tmp_path / "o").err


@pytest.mark.parametrize(
    ("tasks", "sentence"),
    [
        ([], "there is no command"),
        ([sh("a", "true"), sh("a", "true")], "two tasks are called 'a'"),
        ([sh("a", "true", outputs=("x",)), sh("b", "true", outputs=("x",))], "would both write x"),
        ([sh("a", "true", outputs=("../x",))], "'../x' is no name below the output directory"),
        ([sh("a", "true", outputs=(".hyperslab/x",))], "no name below"),
        ([sh("a", "true", inputs=("/nowhere",))], "a: the input /nowhere cannot be read"),
        ([sh("a", "{input}")], "{input}: a has no inputs"),
        ([sh("a", "true", folders=("{input}",))], "{input}: a has no inputs"),
        ([CommandTask("a", ())], "a: the command is empty"),
    ],
)
def test_tasks_that_cannot_be(tmp_path: Path, tasks: list[CommandTask], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(tasks, tmp_path / "out")
    assert sentence in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_settings_of_blocks_are_refused(tmp_path: Path) -> None:
    for settings in ({"blocks": 2}, {"granularity": "stepwise"}, {"readers_per_device": 1}):
        with pytest.raises(UsageError, match="is for functions over blocks"):
            run([sh("a", "true")], tmp_path / "out", **settings)
    with pytest.raises(UsageError, match="work_tier is for commands"):
        hyperslab.run(hyperslab.Pipeline(np.zeros(3)).write(tmp_path / "o"), work_tier=tmp_path)


def test_folders_are_there_when_a_command_begins(tmp_path: Path) -> None:
    """Something is to be made in them; one that stays empty is no result."""
    folders = ("{out}/{name}/first", "{out}/{name}/second")
    write = sh("a b", 'touch "$1/file"', "sh", folders[0], folders=folders)
    result = run([write, sh("c", "true", folders=folders)], tmp_path / "out")
    assert names(tmp_path / "out") == ["a b/first/file"]
    (failure,) = result.failures
    assert failure.task == "c"
    assert "it has written nothing to {out}" in failure.message


def test_placeholders(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one file", "two")]
    for path in files:
        path.write_text(path.name)
    script = '{ printf "%s\n" "$@"; pwd; test -d "$TMPDIR" && echo "$TMPDIR"; } > "$0/said"'
    words = ("{name}/{index}/{slot}", "{input[1]}", "{inputs}", "{{name}}", "${x y}", "{work}")
    task = sh("é 1", script, "{out}", *words, inputs=tuple(map(str, files)))
    result = run([task], tmp_path / "out")
    assert result.ok, result.failures
    *said, here, work = (tmp_path / "out" / "said").read_text().splitlines()
    assert work
    both = list(map(str, files))
    assert said == ["é 1/0/0", both[1], *both, "{name}", "${x y}", work]
    assert here == str(Path.cwd())
    assert not Path(work).exists()


def test_failures_say_why_and_leave_nothing(tmp_path: Path) -> None:
    tasks = [
        sh("status", "echo first; echo last >&2; echo x > $0/x; exit 9", "{out}"),
        sh("signal", "kill -SEGV $$"),
        sh("nothing", "echo fine", "{out}"),
        sh("missing", "echo x > $0/y", "{out}", outputs=("z.txt",)),
        sh("link", "ln -s /etc/passwd $0/link", "{out}"),
        sh("records", "mkdir $0/.hyperslab; echo x > $0/.hyperslab/x", "{out}"),
        sh("good", "mkdir -p $0/a/b; echo x > $0/a/b/c; chmod 750 $0/a/b/c", "{out}"),
    ]
    result = run(tasks, tmp_path / "out")
    assert {one.task: one.message for one in result.failures} == {
        "status": "exit status 9: first | last",
        "signal": "ended by signal 11 (SIGSEGV), and it printed nothing",
        "nothing": "exit status 0, but it has written nothing to {out}: fine",
        "missing": "exit status 0, but it has not made z.txt, and it printed nothing",
        "link": "it has left link in {out}, a link to what is no file of {out}: let it write files",
        "records": ".hyperslab/x: the records of runs have this name",
    }
    assert names(tmp_path / "out") == ["a/b/c"]
    assert stat.S_IMODE((tmp_path / "out" / "a" / "b" / "c").stat().st_mode) == 0o750
    assert [path.name for path in result.outputs] == ["c"]
    assert list(result.folder.glob("private*")) == []
    table = call("logs", tmp_path / "out").out
    assert re.search("^missing +exit 0, failed ", table, re.MULTILINE)
    assert re.search("^good +exit 0 ", table, re.MULTILINE)


def test_equal_failures_are_one_reason_and_raise(tmp_path: Path) -> None:
    tasks = [sh(f"sub-{n}", f"echo no sub-{n}; exit 2") for n in range(1, 12)]
    with pytest.raises(TasksFailed, match="11 of 11 tasks failed: exit status 2: no sub-1"):
        run(tasks, tmp_path / "out", check=True, fail_fast=False)


def test_names_of_others_are_not_taken(tmp_path: Path) -> None:
    """Nobody could know before which names they would use."""
    out = tmp_path / "out"
    tasks = [sh(f"t{n}", f"echo {n} > $0/same", "{out}") for n in range(2)]
    result = run(tasks, out)
    (failure,) = result.failures
    assert "another task has written same already" in failure.message
    assert (out / "same").read_text() == "0\n"
    foreign = [sh("t", f"echo mine > {out / 'own'}; echo task > $0/own", "{out}")]
    assert call("clean", "--all", out).code == 0
    assert not (out / "same").exists()
    result = run(foreign, out)
    assert "no run has written it" in result.failures[0].message
    assert (out / "own").read_text() == "mine\n"


def test_files_that_several_tasks_may_make(tmp_path: Path) -> None:
    """The first one stays, whoever is done again."""
    out = tmp_path / "out"

    def tasks(word: str = "") -> list[CommandTask]:
        script = "mkdir $0/$1; for name in $1/own $1.txt all.txt; do echo $1$2 > $0/$name; done"
        words = ("{out}", "{name}")
        first = sh("sub-1", script, *words, word, stem="sub-1")
        return [first, sh("sub-10", script, *words, stem="sub-10")]

    result = run(tasks(), out)
    assert result.ok, result.failures
    own = ["sub-1.txt", "sub-1/own", "sub-10.txt", "sub-10/own"]
    assert names(out) == ["all.txt", *own]
    assert (out / "all.txt").read_text() == "sub-1\n"
    assert call("verify", out).out == "5 of 5 outputs unchanged since the run\n"
    assert run(tasks("!"), out, resume=True).ok
    assert (out / "all.txt").read_text() == "sub-1!\n"
    (out / "sub-10" / "own").unlink()
    assert run(tasks("!"), out, resume=True).ok
    assert (out / "all.txt").read_text() == "sub-1!\n"
    assert call("verify", out).out == "5 of 5 outputs unchanged since the run\n"


def test_commands_that_wait_for_all_others(tmp_path: Path) -> None:
    """They read what these have made, and do so again when that changes."""
    out = tmp_path / "out"
    all_of_them = sh("all", 'cat "$0"/*.txt | tee "$1/all.tsv"', str(out), "{out}")

    def tasks(*labels: str) -> list[CommandTask]:
        script = 'test "$0" != "$FAILS" && echo "$0" > "$1/$0.txt"'
        return [sh(label, script, "{name}", "{out}") for label in labels]

    def once(*labels: str, **settings: Any) -> Result:
        two = {"engine": "threads", "workers": 2}
        return run(tasks(*labels), out, then=[all_of_them], **{**two, **settings})

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAILS", "b")
        failed = once("a", "b")
        assert [one.task for one in failed.failures] == ["b"]
        assert names(out) == ["a.txt"]
        assert not once("a", "b", resume=True, despite_failures=True).ok
        assert (out / "all.tsv").read_text() == "a\n"
    whole = once("a", "b", resume=True, report=True, levels=("participant", "group"))
    assert whole.ok, whole.failures
    assert (out / "all.tsv").read_text() == "a\nb\n"
    assert whole.summary.barrier_s > 0
    assert whole.page is not None
    assert '"participant"' in whole.page.read_text()
    more = once("a", "b", "c", resume=True)
    assert more.ok, more.failures
    assert (out / "all.tsv").read_text() == "a\nb\nc\n"
    again = once("a", "b", "c", resume=True)
    assert again.ok
    assert again.summary.attempts == 0
    listed = [(one.label, one.printed()) for one in logged(RunDirectory(out))]
    assert listed[-1] == ("all", b"a\nb\nc\n")
    assert call("verify", out).out == "4 of 4 outputs unchanged since the run\n"


def test_a_changed_input_or_command_is_done_again_and_replaces_what_it_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = tmp_path / "in"
    file.write_text("1")
    count = tmp_path / "count"

    def tasks(word: str = "x") -> list[CommandTask]:
        script = 'echo run >> "$1"; cp "$0" "$2/$(cat "$0")$3"'
        words = (str(file), str(count), "{out}")
        other = sh("same", "echo run >> $0; echo x > $1/same", str(count), "{out}")
        return [sh("file", script, *words, word, inputs=(str(file),)), other]

    def runs() -> int:
        return len(count.read_text().splitlines())

    assert run(tasks(), out).ok
    with pytest.raises(OutputBusy, match="holds an earlier run"):
        run(tasks(), out)
    assert run(tasks(), out, resume=True).ok
    assert (runs(), names(out)) == (2, ["1x", "same"])
    file.write_text("22")
    assert run(tasks(), out, resume=True).ok
    assert (runs(), names(out)) == (3, ["22x", "same"])
    assert run(tasks("y"), out, resume=True).ok
    assert (runs(), names(out)) == (4, ["22y", "same"])
    (out / "same").unlink()
    assert run(tasks("y"), out, resume=True).ok
    assert (runs(), names(out)) == (5, ["22y", "same"])


def test_a_changed_template_is_another_run(heads: Path, tmp_path: Path) -> None:
    where = (heads, "--match", "*.json", "-o", tmp_path / "out")
    assert typed("cp {input} {out}", *where).code == 0
    done = typed("cp -p {input} {out}", *where, "--resume")
    assert done.code == 2
    assert "holds the results of a run that differs in the command" in " ".join(done.err.split())
    assert typed("cp {input} {out}", *where, "--resume").code == 0


def test_logs(heads: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = 'echo for $1; test $1 != sub-10_T1w && cp "$0" $2'
    template = f"sh -c {shlex.quote(script)} {{input}} {{name}} {{out}}"
    done = typed(template, heads, "--match", "*.json", "-o", out, "--retries", 0)
    assert done.code == 1
    assert "failed: sub-10_T1w: exit status 1: for sub-10_T1w (after 1 attempt)" in done.err
    table = call("logs", out)
    assert table.code == 1
    rows = [line.split("  ")[0] for line in table.out.splitlines()]
    assert rows[0].startswith("task")
    assert [row.strip() for row in rows[1:]] == ["sub-10_T1w", "sub-1_T1w"]
    one = call("logs", out, "sub-1_T1w")
    assert one.code == 0
    words = shlex.join(["sh", "-c", script, f"{heads}/sub-1/anat/sub-1_T1w.json"])
    assert f"command    {words} sub-1_T1w " in one.out
    assert "I/O wait" in one.out
    facts = json.loads(call("logs", out, "--json").out)
    assert [(fact["task"], fact["status"]) for fact in facts] == [
        ("sub-1_T1w", 0),
        ("sub-10_T1w", 1),
    ]
    for fact in facts:
        left_s = fact["real_s"] - fact["user_s"] - fact["system_s"]
        assert fact["io_wait_s"] == max(0.0, left_s)
    assert "did you mean 'sub-1_T1w'" in call("logs", out, "sub-1").err
    first = logged(RunDirectory(out))[0]
    assert first.printed() == b"for sub-1_T1w\n"


@pytest.mark.parametrize(
    ("real_s", "user_s", "system_s", "waited_s"),
    [(5.0, 1.5, 0.5, 3.0), (5.0, 0.0, 0.0, 5.0), (2.0, 3.0, 0.5, 0.0)],
)
def test_io_wait_is_real_time_less_that_of_processors(
    real_s: float, user_s: float, system_s: float, waited_s: float
) -> None:
    """As paper 001 has it with the sign corrected; of several processors nobody knows."""
    assert Ran("true", 0, real_s, user_s, system_s, 1, "log", 0, 0).waited_s == waited_s


def test_report_verdict_and_status_know_commands(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tasks = [sh(f"t{n}", "sleep 0.3; echo $0 > $1/$0", "{index}", "{out}") for n in range(8)]
    result = run(tasks, out, engine="threads", workers=2, report=True, title="naps")
    assert result.ok
    assert result.page is not None
    assert "naps" in result.page.read_text()
    assert result.summary.compute_s > 2
    for one in logged(RunDirectory(out)):
        assert one.ran.waited_s > one.ran.real_s / 2, "it sleeps"
    assert call("status", out).code == 0
    done = call("report", out)
    assert done.code == 0, done.err
    assert "interpreter lock" not in done.out


def test_clean_removes_what_commands_have_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run([sh("t", "mkdir -p $0/a/b; echo x > $0/a/b/c", "{out}")], out)
    (out / "a" / "kept").write_text("mine")
    assert call("clean", "--all", out).code == 0
    assert [path.name for path in out.rglob("*")] == ["a", "kept"]
