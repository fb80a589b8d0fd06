"""Spawners run commands, and leave nothing of them behind, whoever dies."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from hyperslab.machine import spawner, spawner_program
from hyperslab.machine.spawner import Ended, Refused, Unanswered
from hyperslab.plan.command import CommandTask
from hyperslab.plan.failing import after
from tests.system.faults.command import PATIENCE_S, await_that

LATE_S = 4.0
"Longer than a shell takes to say that it does not listen."


@pytest.fixture(autouse=True)
def _end() -> Iterator[None]:
    yield
    spawner.end()


def quiet() -> None:
    """Nothing is looked for."""


def run(
    tmp_path: Path,
    *argv: str,
    limit_s: float | None = None,
    watch: Callable[[], None] = quiet,
    after: Sequence[str] = (),
) -> Ended:
    environment = {**os.environ, "OWN": "value"}
    log = str(tmp_path / "log")
    return spawner.run(argv, str(tmp_path), environment, log, limit_s, watch, after)


def await_none(word: str) -> None:
    await_that(f"the end of {word}", lambda: not with_word(word))


def with_word(word: str) -> list[psutil.Process]:
    """Processes that have this word on their command line."""
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if word in (process.info["cmdline"] or ())]


def test_a_command_runs_and_says_what_it_took(tmp_path: Path) -> None:
    first = run(tmp_path, "sh", "-c", 'echo "$OWN"; pwd; cat; exit 7')
    second = run(tmp_path, sys.executable, "-c", "x = bytearray(50_000_000); print(sum(x))")
    assert first.status == 7
    said = f"value\n{tmp_path}\n"
    assert (first.offset, first.nbytes) == (0, len(said))
    assert (second.offset, second.nbytes) == (len(said), 2)
    assert (tmp_path / "log").read_text() == f"{said}0\n"
    assert second.status == 0
    assert second.max_rss > 50_000_000 > first.max_rss > 0
    assert 0 < second.user_s <= (second.end_ns - second.start_ns) / 1e9 * (os.cpu_count() or 1)


def test_a_signal_and_output_that_is_no_text(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", r"printf '\377\000'; kill -9 $$")
    assert ended.status == -signal.SIGKILL
    assert (tmp_path / "log").read_bytes() == b"\xff\0"


def test_what_cannot_be_started_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file or directory: 'no-such-program'"):
        run(tmp_path, "no-such-program")
    (tmp_path / "text").write_text("no program\n")
    with pytest.raises(Refused, match="Permission denied"):
        run(tmp_path, str(tmp_path / "text"))
    with pytest.raises(Refused, match="No such file or directory: '/nowhere'"):
        spawner.run(["true"], "/nowhere", os.environ, str(tmp_path / "log"), None, quiet)
    assert run(tmp_path, "true").status == 0


def test_a_text_without_a_first_line_that_says_so_is_a_script_of_the_shell(tmp_path: Path) -> None:
    """Named by its path or found by its name; what is no text is no script."""
    script = executable(tmp_path / "own-script", b'echo "$0 $1 $OWN"; exit 7\n')
    assert run(tmp_path, str(script), "a b").status == 7
    log = tmp_path / "log"
    env = {**os.environ, "PATH": f"{tmp_path}/nowhere:{tmp_path}:{os.defpath}", "OWN": "other"}
    found = spawner.run(["own-script", "c"], str(tmp_path), env, str(log), None, quiet)
    assert found.status == 7
    assert log.read_text() == f"{script} a b value\n{script} c other\n"
    executable(tmp_path / "foreign", b"\x7fELF\0")
    with pytest.raises(Refused, match="Exec format error"):
        run(tmp_path, str(tmp_path / "foreign"))


def executable(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def test_words_that_are_no_unicode_arrive(tmp_path: Path) -> None:
    assert run(tmp_path, "printf", "%s", os.fsdecode(b"a\xffb")).status == 0
    assert (tmp_path / "log").read_bytes() == b"a\xffb"


def test_what_a_command_leaves_ends_with_it(tmp_path: Path) -> None:
    """Also what has left its process group, as daemons do."""
    word = f"7{os.getpid()}"
    script = f"setsid sleep {word} & sleep {word} & echo begun"
    ended = run(tmp_path, "sh", "-c", script)
    assert ended.status == 0
    await_none(word)


def test_a_late_command_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    word = f"8{os.getpid()}"
    ended = run(tmp_path, "sh", "-c", f"sleep {word} & sleep {word}; true", limit_s=0.3)
    assert ended.is_late
    assert ended.status == -signal.SIGTERM
    await_none(word)


def test_a_late_command_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    word = f"81{os.getpid()}"
    script = f"trap '' TERM; while true; do sleep 0.05; done; sleep {word}"
    ended = run(tmp_path, "sh", "-c", script, limit_s=LATE_S)
    assert ended.is_late
    assert ended.status == -signal.SIGKILL


def test_a_command_that_cannot_be_killed_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a dead server is not: here nothing is sent to it."""
    word = f"85{os.getpid()}"
    impatient = altered(
        ("os.killpg(group, number)", "pass"), ("os.kill(left, signal.SIGKILL)", "pass")
    )
    monkeypatch.setattr(spawner, "_text", lambda: impatient)
    script = f"trap '' HUP TERM; echo said; sleep {word}"
    began_s = time.monotonic()
    ended = run(tmp_path, "sh", "-c", script, limit_s=0.3)
    assert time.monotonic() - began_s < PATIENCE_S
    assert (ended.is_late, ended.is_stuck, ended.nbytes) == (True, True, len("said\n"))
    failed = after(CommandTask("sub-1", ("sh",)), ended, 0.3, is_short=False)
    assert "took longer than 0.3 s, and could not be ended: it waits for storage" in str(failed)
    monkeypatch.undo()
    assert not run(tmp_path, "true").is_stuck
    for left in with_word(word):
        left.kill()


def altered(*lines: tuple[str, str]) -> str:
    """The program of spawners, which wait for little, with other lines in place of some."""
    text = inspect.getsource(spawner_program)
    shorter = (("GRACE_S = 2.0", "GRACE_S = 0.1"), ("_MOST_S = 10.0", "_MOST_S = 0.3"))
    for line, other in (*shorter, *lines):
        assert line in text
        text = text.replace(line, other)
    return text


@pytest.mark.parametrize(("end", "limit_s", "status"), [("sleep 1000", 0.3, -15), ("exit 3", 9, 3)])
def test_what_a_command_has_started_and_cannot_be_killed_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, limit_s: float, status: int
) -> None:
    """Its failure says so, and another spawner runs the next command, which waits for nothing."""
    word = f"86{os.getpid()}"
    deaf = altered(("os.kill(left, signal.SIGKILL)", "pass"))
    monkeypatch.setattr(spawner, "_text", lambda: deaf)
    script = f"setsid sleep {word} & until pgrep -f '^sleep {word}$'; do sleep 0.01; done; {end}"
    ended = run(tmp_path, "sh", "-c", script, limit_s=limit_s)
    try:
        assert with_word(word)
        assert (ended.status, ended.is_stuck) == (status, True)
        failed = str(after(CommandTask("sub-1", ("sh",)), ended, limit_s, is_short=False))
        assert "could not be ended: it waits for storage" in failed
        assert not run(tmp_path, "true").is_stuck
    finally:
        for left in with_word(word):
            left.kill()


def test_a_log_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(Refused, match=f"its log {tmp_path}/log cannot be opened: Is a directory"):
        run(tmp_path, "true")
    (tmp_path / "log").rmdir()
    assert run(tmp_path, "true").status == 0


def test_a_command_goes_on_when_its_log_is_not_known_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server of files forgets one that somebody has removed (ESTALE)."""
    line = "self._nbytes = os.fstat(self._file).st_size - self.offset"
    stale = altered((line, "raise OSError(errno.ESTALE, 'Stale file handle')"))
    monkeypatch.setattr(spawner, "_text", lambda: stale)
    ended = run(tmp_path, "sh", "-c", "echo said; exit 3")
    assert (ended.status, ended.nbytes) == (3, 0)
    assert (tmp_path / "log").read_text() == "said\n"


HUNG = "data = os.read(self.source, _PIECE_NBYTES)"


def test_a_log_that_hangs_ends_the_time_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the server of the log does not answer: what the command has started ends, too."""
    word = f"87{os.getpid()}"
    hung = altered((HUNG, f"{HUNG}; time.sleep(1000)"))
    monkeypatch.setattr(spawner, "_text", lambda: hung)
    monkeypatch.setattr(spawner, "OVER_S", 0.3)
    with pytest.raises(Unanswered, match="waits for storage of its log"):
        run(tmp_path, "sh", "-c", f"echo said; setsid sleep {word}; true", limit_s=0.3)
    await_none(word)
    monkeypatch.undo()
    assert run(tmp_path, "true").status == 0


def test_a_log_that_hangs_keeps_nobody_who_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hung = altered((HUNG, f"{HUNG}; time.sleep(1000)"))
    monkeypatch.setattr(spawner, "_text", lambda: hung)
    monkeypatch.setattr(spawner, "LEAVE_S", 0.3)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "sh", "-c", "echo said; sleep 1000", watch=stop)


def test_of_much_that_is_printed_the_beginning_and_the_end_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each command by itself; the log says how much is left out, and others may write there."""
    monkeypatch.setattr(spawner, "KEPT_NBYTES", 4000)
    assert run(tmp_path, "echo", "before").status == 0
    count = 200_000
    ended = run(tmp_path, "seq", str(count))
    assert ended.status == 0
    with (tmp_path / "log").open("a") as log:
        log.write("behind\n")
    assert run(tmp_path, "echo", "after").status == 0
    text = (tmp_path / "log").read_text()
    assert (text.startswith("before\n1\n2\n"), text.endswith("behind\nafter\n")) == (True, True)
    own = text[ended.offset : ended.offset + ended.nbytes]
    assert len(own) <= 4000
    head, _, rest = own.partition("\nhyperslab: ")
    said, _, end = rest.partition("\n")
    printed = "".join(f"{number}\n" for number in range(1, count + 1))
    left_out = int(said.split()[0].replace(",", ""))
    assert printed.startswith(head)
    assert printed.endswith(end)
    assert len(head) + left_out + len(end) == len(printed)
    assert min(len(head), 2 * len(end)) >= 2000


def test_a_command_goes_on_when_its_log_is_full(tmp_path: Path) -> None:
    """What it makes may have room elsewhere."""
    environment = dict(os.environ)
    script = ["sh", "-c", f"seq 1000; touch {tmp_path}/made"]
    ended = spawner.run(script, str(tmp_path), environment, "/dev/full", None, quiet)
    assert ended.status == 0
    assert (tmp_path / "made").exists()


def test_what_the_watch_raises_ends_the_command(tmp_path: Path) -> None:
    word = f"82{os.getpid()}"

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "sleep", word, watch=stop)
    await_none(word)
    assert run(tmp_path, "true").status == 0


def test_what_removes_the_rest_runs_unless_all_is_well(tmp_path: Path) -> None:
    """It still finds what the command has started."""
    word = f"83{os.getpid()}"
    rest = tmp_path / "rest"
    script = f'pgrep -f "^sleep {word}$" > "$0"; echo "$OWN"'
    after = ("sh", "-c", script, str(rest))
    assert run(tmp_path, "sh", "-c", f"sleep {word} & true", after=after).status == 0
    assert not rest.exists()
    begun = f'until pgrep -f "^sleep {word}$" > /dev/null; do sleep 0.01; done'
    failing = f"setsid sleep {word} & {begun}; exit 3"
    assert run(tmp_path, "sh", "-c", failing, after=after).status == 3
    assert len(rest.read_text().split()) == 1
    rest.unlink()
    assert run(tmp_path, "sleep", word, limit_s=0.2, after=after).is_late
    assert rest.exists()
    assert (tmp_path / "log").read_text() == ""
    assert run(tmp_path, "false", after=("no-such-program",)).status == 1
    await_none(word)


def test_what_removes_the_rest_runs_when_the_spawner_is_killed(tmp_path: Path) -> None:
    rest = tmp_path / "rest"
    with pytest.raises(Refused, match="the process that runs it was killed"):
        run(tmp_path, "sh", "-c", "kill -9 $PPID; sleep 1000", after=("touch", str(rest)))
    assert rest.exists()


WORKER = """
import os, sys
from hyperslab.machine import spawner
script = f"setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}; true"
after = ["touch", f"{sys.argv[1]}.after"]
spawner.run(["sh", "-c", script], "/", os.environ, sys.argv[1], None, lambda: None, after)
"""


@pytest.mark.parametrize("victim", ["worker", "both", "all, asked to end"])
def test_commands_end_with_a_worker_that_is_killed(tmp_path: Path, victim: str) -> None:
    word = f"9{os.getpid()}"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "log"), word])
    seen = psutil.Process(worker.pid)
    # the spawner, the shell, both that it started
    await_that("commands under way", lambda: len(seen.children(recursive=True)) == 4)
    (started,) = seen.children()
    (shell,) = started.children()
    if victim == "all, asked to end":  # as batch systems ask the processes of a job
        for process in (started, seen):
            process.terminate()
    else:
        worker.kill()
    if victim == "both":
        started.kill()
    worker.wait()
    if victim != "both":
        await_none(word)
        assert (tmp_path / "log.after").exists()
    gone, alive = psutil.wait_procs([shell], timeout=PATIENCE_S)
    assert gone, alive
    for left in with_word(word):
        left.kill()


def test_each_thread_has_a_spawner_of_its_own(tmp_path: Path) -> None:
    """Two commands of two threads wait for each other."""
    for name in ("a", "b"):
        os.mkfifo(tmp_path / name)
    scripts = ("echo one > a; cat b", "cat a; echo two > b")
    ended = []

    def work(script: str) -> None:
        ended.append(run(tmp_path, "sh", "-c", script, limit_s=PATIENCE_S).status)
        spawner.end()

    threads = [threading.Thread(target=work, args=(script,)) for script in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [0, 0]
