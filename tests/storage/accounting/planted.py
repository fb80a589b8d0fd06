"""Operations on files in the current directory, a known number of each: run as a program.

`os` makes one call of the kernel for each of its functions.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from contextlib import suppress

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL


def main() -> None:
    """Do all of it."""
    plain()
    in_other_directories()
    unnamed_and_mapped()
    by_others()


def plain() -> None:
    """Make a file, use it by several descriptors, miss others."""
    made = os.open("made", NEW)  # create
    again = os.dup(made)
    os.write(made, b"x" * 100)  # write 100
    os.pread(again, 40, 10)  # read 40
    os.fstat(again)  # stat
    os.ftruncate(made, 50)  # truncate
    os.fsync(made)  # sync
    os.close(made)  # close
    os.close(again)  # close
    for _ in range(2):
        with suppress(FileNotFoundError):
            os.open("missing", os.O_RDONLY)  # open, failed
    there = os.open("made", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)  # open: it is there
    os.close(there)  # close


def in_other_directories() -> None:
    """Name files by a directory, and move one to another directory."""
    os.mkdir("sub")  # mkdir
    sub = os.open("sub", os.O_RDONLY | os.O_DIRECTORY)  # open of the directory
    inner = os.open('a "b" <c>, ) = 3 ä\n', NEW, dir_fd=sub)  # create in sub
    os.write(inner, b"y" * 10)  # write 10
    os.close(inner)  # close
    os.rename("made", "sub/moved")  # rename
    os.stat("moved", dir_fd=sub)  # stat in sub
    os.close(sub)  # close of the directory


def unnamed_and_mapped() -> None:
    """A file without a name, and one in memory."""
    os.close(os.open(".", os.O_RDWR | os.O_TMPFILE))  # create, close
    os.truncate("sub/moved", 4096)  # truncate
    file = os.open("sub/moved", os.O_RDWR)  # open
    mapped = mmap.mmap(file, 4096)  # map, and what Python does: stat
    mapped[0] = 1
    mapped.close()  # close, of the descriptor that Python has duplicated
    os.close(file)  # close


def by_others() -> None:
    """A thread that changes the directory for all, a process for itself, programs."""
    mover = threading.Thread(target=os.chdir, args=("sub",))
    mover.start()
    mover.join()
    os.unlink("moved")  # unlink in sub
    child = os.fork()
    if child == 0:
        os.chdir("..")
        os.mkdir("of_child")  # mkdir, not in sub
        os.rmdir("of_child")  # unlink
        os._exit(0)
    os.waitpid(child, 0)
    os.unlink('a "b" <c>, ) = 3 ä\n')  # unlink in sub: the child has moved alone
    subprocess.run(["mkdir", "started"], cwd="..", check=True)  # mkdir, not in sub
    code = "import os; os.rmdir('../started'); os.kill(os.getpid(), 9)"  # unlink
    killed = subprocess.run([sys.executable, "-I", "-S", "-c", code], check=False)
    assert killed.returncode == -9


if __name__ == "__main__":
    main()
