"""Lines of strace, taken apart."""

from __future__ import annotations

import pytest

from hyperslab.accesses import OPERATIONS, Accesses
from hyperslab.storage.accounting.calls import unescaped
from hyperslab.storage.accounting.threads import Threads


def of(*lines: str, directory: str = "/start") -> list[tuple[str, str, int, bool]]:
    """Operations that lines tell of: operation, path, bytes, whether it failed."""
    return rows(threads_of(lines, directory).collected.done("strace", {}))


def threads_of(lines: tuple[str, ...], directory: str = "/start") -> Threads:
    threads = Threads(directory)
    for line in lines:
        threads.take(line)
    threads.finish()
    return threads


def rows(accesses: Accesses) -> list[tuple[str, str, int, bool]]:
    each = accesses.columns
    columns = (each["operation"], each["path"], each["nbytes"], each["has_failed"])
    return [
        (OPERATIONS[operation], accesses.paths[path], int(nbytes), bool(failed))
        for operation, path, nbytes, failed in zip(*columns, strict=True)
    ]


def test_a_line_holds_time_thread_and_path() -> None:
    line = '12    1700000000.000001 read(3</data/x>, ""..., 4096) = 100 <0.000020>'
    accesses = threads_of((line,)).collected.done("strace", {})
    assert rows(accesses) == [("read", "/data/x", 100, False)]
    each = {name: int(column[0]) for name, column in accesses.columns.items()}
    assert each["start_ns"] == 1_700_000_000_000_001_000
    assert each["duration_ns"] == 20_000
    assert each["process"] == 12


def test_an_interrupted_call_is_put_together() -> None:
    assert of(
        "1 1.0 pread64(3</a>,  <unfinished ...>",
        '2 1.1 openat(AT_FDCWD</w>, "b", O_RDONLY) = 4</w/b> <0.1>',
        '1 1.2 <... pread64 resumed>""..., 10, 0) = 7 <0.2>',
    ) == [("open", "/w/b", 0, False), ("read", "/a", 7, False)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('openat(AT_FDCWD</w>, "x", O_RDONLY) = -1 ENOENT (No such file or directory)', "open"),
        ('openat(AT_FDCWD</w>, "x", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</w/x>', "create"),
        ('openat(AT_FDCWD</w>, "x", O_WRONLY|O_CREAT|O_EXCL, 0666) = 3</w/x>', "create"),
        ('openat(AT_FDCWD</w>, "x", O_RDONLY) = 3</w/x>', "open"),
        ('openat2(AT_FDCWD</w>, "x", {flags=O_RDONLY|O_CREAT, resolve=0}, 24) = 3</w/x>', "create"),
    ],
)
def test_openings(text: str, expected: str) -> None:
    found = of(f"1 1.0 {text} <0.1>")
    assert found == [(expected, "/w/x", 0, "ENOENT" in text)]


def test_a_file_that_is_made_without_opening_it_is_created() -> None:
    made = 'mknodat(AT_FDCWD</w>, "x", S_IFIFO|0600) = 0 <0.1>'
    assert of(f"1 1.0 {made}") == [("create", "/w/x", 0, False)]


def test_calls_that_lead_past_all_others_are_told() -> None:
    [note] = threads_of(("1 1.0 io_setup(8, [0x7f0000000000]) = 0 <0.1>",)).calls.notes
    assert "asynchronous reads and writes" in note


def test_an_opening_of_what_is_there_makes_nothing() -> None:
    made = 'openat(AT_FDCWD</w>, "x", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</w/x> <0.1>'
    found = of(f"1 1.0 {made}", f"1 1.1 {made}", '1 1.2 unlink("/w/x") = 0 <0.1>', f"1 1.3 {made}")
    assert [operation for operation, *_ in found] == ["create", "open", "unlink", "create"]
    renamed = '1 1.1 rename("/w/x", "/w/y") = 0 <0.1>'
    again = made.replace("x", "y")
    found = of(f"1 1.0 {made}", renamed, f"1 1.2 {made}", f"1 1.3 {again}")
    assert [operation for operation, *_ in found] == ["create", "rename", "create", "open"]


def test_the_first_calls_of_a_process_wait_for_who_started_it() -> None:
    """It is started in a directory to which only its parent has moved."""
    assert of(
        '1 1.0 chdir("/elsewhere") = 0 <0.1>',
        "1 1.1 vfork( <unfinished ...>",
        '2 1.2 unlink("x") = 0 <0.1>',
        '2 1.3 chdir("own") = 0 <0.1>',
        '2 1.4 unlink("x") = 0 <0.1>',
        "1 1.5 <... vfork resumed>) = 2 <0.1>",
        '1 1.6 unlink("x") = 0 <0.1>',
        '2 1.7 unlink("y") = 0 <0.1>',
    ) == [
        ("unlink", "/elsewhere/x", 0, False),
        ("unlink", "/elsewhere/own/x", 0, False),
        ("unlink", "/elsewhere/x", 0, False),
        ("unlink", "/elsewhere/own/y", 0, False),
    ]


def test_threads_share_a_directory_and_processes_do_not() -> None:
    thread = (
        "clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD, exit_signal=0} => {parent_tid=[2]}, 88) = 2"
    )
    process = "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7) = 3"
    threads = threads_of(
        (
            f"1 1.0 {thread} <0.1>",
            '2 1.1 chdir("/moved") = 0 <0.1>',
            '1 1.2 rmdir("x") = 0 <0.1>',
            f"1 1.3 {process} <0.1>",
            '3 1.4 chdir("..") = 0 <0.1>',
            '2 1.5 rmdir("y") = 0 <0.1>',
            "3 1.6 +++ exited with 0 +++",
        )
    )
    found = threads.collected.done("strace", {})
    assert [path for _, path, *_ in rows(found)] == ["/moved/x", "/moved/y"]
    assert set(found.columns["process"]) == {1}


def test_pipes_sockets_and_what_never_returns_are_no_files() -> None:
    assert (
        of(
            '1 1.0 read(3<pipe:[12]>, ""..., 10) = 5 <0.1>',
            "1 1.1 close(4<socket:[13]>) = 0 <0.1>",
            '1 1.2 read(5</x>, ""..., 10) = ? ERESTARTSYS (To be restarted) <0.1>',
            "1 1.3 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f12 <0.1>",
            "1 1.4 --- SIGCHLD {si_signo=SIGCHLD} ---",
        )
        == []
    )


def test_who_waits_at_a_terminal_or_serves_a_file_system_reads_no_file() -> None:
    assert of(
        '1 1.0 openat(AT_FDCWD</>, "/dev/fuse", O_RDWR) = 3</dev/fuse> <0.1>',
        '1 1.1 read(3</dev/fuse>, ""..., 10) = 5 <9.0>',
        '1 1.2 writev(3</dev/fuse>, [{iov_base=""..., iov_len=16}], 1) = 16 <0.1>',
        '1 1.3 read(0</dev/pts/7>, ""..., 10) = 5 <9.0>',
        '1 1.3 write(6</dev/pts/ptmx>, ""..., 5) = 5 <9.0>',
        "1 1.4 sendfile(1</dev/tty>, 4</a>, NULL, 9000) = 70 <0.1>",
        '1 1.5 read(5</dev/null>, ""..., 10) = 0 <0.1>',
        "1 1.6 close(0</dev/pts/7>) = 0 <0.1>",
    ) == [
        ("open", "/dev/fuse", 0, False),
        ("read", "/a", 70, False),
        ("read", "/dev/null", 0, False),
        ("close", "/dev/pts/7", 0, False),
    ]


def test_copies_read_one_file_and_write_another() -> None:
    copied = "copy_file_range(3</a>, NULL, 4</b>, NULL, 9000, 0) = 9000"
    sent = "sendfile(4</b>, 3</a>, NULL, 9000) = 70"
    assert of(f"1 1.0 {copied} <0.1>", f"1 1.1 {sent} <0.1>") == [
        ("read", "/a", 9000, False),
        ("write", "/b", 9000, False),
        ("read", "/a", 70, False),
        ("write", "/b", 70, False),
    ]


def test_lines_that_nobody_understands_are_told() -> None:
    threads = threads_of(("1 1.0 gibberish", "1 1.1 <... read resumed>) = 1 <0.1>", "nothing"))
    assert threads.lines.unread == 3
    assert threads.lines.first_unread == "gibberish"


def test_paths_are_unescaped() -> None:
    assert unescaped('/\\303\\244 \\"x\\" \\74\\n') == '/ä "x" <\n'
    assert unescaped("/plain") == "/plain"
