"""Operations counted by a program in the kernel: as by strace, and nothing lost in silence."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from hyperslab.accesses import OPERATIONS, Accesses
from hyperslab.storage.accounting import bpf, strace
from hyperslab.storage.accounting.looked import arguments
from tests.system.clusters.required import required_to_count

OBJECT = Path(__file__).parents[3] / "rust" / "filecalls" / "src" / "calls.bpf.o"
M, R = 4, 5
SHUFFLE = f"""
import os
def each(number, work):
    for one in range(number):
        if os.fork() == 0:
            work(one)
            os._exit(0)
    while number:
        os.wait()
        number -= 1
def write(m):
    for r in range({R}):
        with open(f"part-{{m}}-{{r}}.tmp", "xb") as file:
            file.write(b"x" * (10 * m + r))
        os.rename(f"part-{{m}}-{{r}}.tmp", f"part-{{m}}-{{r}}")
def read(r):
    os.chdir("..")
    for m in range({M}):
        with open(f"place/part-{{m}}-{{r}}", "rb") as file:
            file.read()
        os.unlink(f"place/part-{{m}}-{{r}}")
each({M}, write)
each({R}, read)
"""
READER = """
set -e
seq 20000 > text
ln -s . link
cd link
head -c 3000 text | tail -c 10 > out
cp text other
sort -r < other > sorted
mv sorted ../place/other
cat missing text 2> /dev/null || rm text out
ls -l > /dev/null
"""


@pytest.fixture(scope="module", autouse=True)
def _bpf_works() -> None:
    required_to_count(bpf)


@pytest.mark.parametrize(
    "command",
    [[sys.executable, "-I", "-S", "-B", "-c", SHUFFLE], ["sh", "-c", READER]],
    ids=["shuffle", "reader"],
)
def test_both_ways_count_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    required_to_count(strace)
    by_way = {}
    for way in (strace, bpf):
        place = tmp_path / "place"
        place.mkdir()
        monkeypatch.chdir(place)
        status, accesses = way.count(command, os.environ)
        assert status == 0
        by_way[way.WAY] = told(accesses)
        shutil.rmtree(place)
    assert by_way["bpf"] == by_way["strace"]
    opened = [path for (operation, path, *_) in by_way["bpf"] if operation == "open"]
    assert str(tmp_path / "place") in {str(Path(path).parent) for path in opened}


def told(accesses: Accesses) -> Counter[tuple[str, str, int, bool]]:
    """How often there was each operation, path, number of bytes and refusal; but those on what the
    kernel tells of a process, which has another number each time.
    """
    each = accesses.columns
    columns = (each["operation"], each["path"], each["nbytes"], each["has_failed"])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Counter(
        (OPERATIONS[operation], accesses.paths[path], nbytes, bool(failed))
        for operation, path, nbytes, failed in rows
        if not accesses.paths[path].startswith("/proc/")
    )


def test_what_was_made_the_kernel_says_itself(tmp_path: Path) -> None:
    """Calls do not: strace takes a file that is overwritten for a new one."""
    (tmp_path / "there").touch()
    script = f"echo x > {tmp_path}/there; echo y > {tmp_path}/new"
    counts = told(bpf.count(["sh", "-c", script], os.environ)[1])
    assert counts["open", str(tmp_path / "there"), 0, False] == 1
    assert counts["create", str(tmp_path / "new"), 0, False] == 1
    assert counts["create", str(tmp_path / "there"), 0, False] == 0


def test_deep_paths_are_whole_or_told_of(tmp_path: Path) -> None:
    """A path of 3,000 characters fits; beyond 127 folders it is cut, and that is said."""
    name = "n" * 250
    code = (
        "import os, sys\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    os.mkdir(sys.argv[2])\n"
        "    os.chdir(sys.argv[2])\n"
        "os.close(os.open('file', os.O_CREAT | os.O_RDWR))\n"
    )
    words = [sys.executable, "-I", "-S", "-c", f"import os; os.chdir({str(tmp_path)!r})\n{code}"]
    _, whole = bpf.count([*words, "12", name], os.environ)
    assert str(tmp_path.joinpath(*[name] * 12, "file")) in whole.paths
    assert len(whole.meta["notes"]) == 1
    _, cut = bpf.count([*words, "140", "x"], os.environ)
    assert "too long, of which only the end is kept" in cut.meta["notes"][-1]


def test_what_nobody_has_taken_is_lost_and_told(tmp_path: Path) -> None:
    """The counter stands still while the command does more than there is room for."""
    null = "import os; f = os.open('/dev/null', os.O_WRONLY)\n"
    many = f"{null}for _ in range(3000): os.write(f, b'x')"
    script = f'kill -STOP $PPID; "{sys.executable}" -I -S -c "{many}"; kill -CONT $PPID'
    words = [bpf.PROGRAM.find(), "--ring", "65536", str(tmp_path), arguments(), "sh", "-c", script]
    subprocess.run(words, check=True, timeout=60)
    lost = json.loads((tmp_path / "faults").read_text())["lost_calls"]
    accesses = bpf.read(tmp_path)
    assert lost > 2000
    written = accesses.columns["operation"] == OPERATIONS.index("write")
    assert np.count_nonzero(written) + lost >= 3000
    [said] = [note for note in accesses.meta["notes"] if "are not counted" in note]
    assert said.startswith(f"{lost:,} calls came faster")


def test_calls_of_other_numbers_are_told_and_not_taken_for_others() -> None:
    """Call 6 is close of 32-bit programs, and lstat of others."""
    code = (
        "import ctypes, mmap\n"
        "text = mmap.mmap(-1, 4096, prot=7)\n"
        "text.write(bytes([0xB8, 6, 0, 0, 0, 0xBB, 99, 0, 0, 0, 0xCD, 0x80, 0xC3]))\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(text)))()\n"
    )
    status, accesses = bpf.count([sys.executable, "-c", code], os.environ)
    if status:
        pytest.skip("this kernel runs no 32-bit programs (CONFIG_IA32_EMULATION)")
    assert "1 call of 32-bit programs" in accesses.meta["notes"][-1]


def test_who_may_not_ask_the_kernel_is_told_why() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
    done = subprocess.run(
        [*words, bpf.PROGRAM.find(), "--try"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "not permitted" in done.stderr


def test_the_object_is_of_its_source() -> None:
    digest = hashlib.sha256(OBJECT.with_suffix(".c").read_bytes()).hexdigest()
    assert digest.encode() in OBJECT.read_bytes(), "run make filecalls-object"
