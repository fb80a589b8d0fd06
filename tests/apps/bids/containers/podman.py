"""Podman with storage of its own, and an image with a small BIDS App, made of this machine's
busybox.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {"podman": "podman", "runc": "runc", "busybox": "busybox-static"}
"Debian's package of each command."
IMAGE = "localhost/toybids:1"
APPLETS = ("sh", "cat", "dd", "grep", "id", "ln", "ls", "mkdir", "sleep", "touch", "wc")
ENGINE = """\
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]
netns = "none"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
tmp_dir = "{folder}/tmp"
"""
"""Locks and states of containers are those of one storage, not of all Podmans of a user. Events are
not logged: those of images are written beside, into a folder that a reset is just removing."""
STORAGE = """\
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
rootless_storage_path = "{folder}/graph"
runroot = "{folder}/run"
[storage.options.vfs]
ignore_chown_errors = "true"
"""
"""Without root there may be one user in a container alone, to whom all files of an image belong.
Podman takes the second path there, and where it is not given one in the home of the user.
"""
APP = """\
#!/bin/sh
# data out level --participant_label LABEL
set -e
case "$3" in
participant)
    if touch "$1/written" "$1/sub-$5/written" 2> /dev/null; then
        echo "the dataset can be written to"
        exit 3
    fi
    test ! -e "$1/asleep" || sleep $(cat "$1/asleep")
    test ! -e "$1/hungry" || dd if=/dev/zero of=/dev/null bs=300M count=1
    mkdir "$2/sub-$5"
    for image in "$1/sub-$5/anat/"* "$1/sub-$5/"ses-*/anat/*; do
        test ! -e "$image" || cat "$image"
    done > "$2/sub-$5/head.txt"
    if test -e "$1/linking"; then
        ln -s "$2/sub-$5/head.txt" "$2/sub-$5/again.txt"
        ln -s /bin "$2/sub-$5/programs"
        ln -s /only/in/here "$2/sub-$5/nothing"
    fi
    echo "threads $OMP_NUM_THREADS" > "$2/sub-$5/facts.txt"
    limits="/sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu*/cpu.cfs_quota_us"
    if test -e "$1/busy" && ! cat $limits 2> /dev/null | grep -q "^[1-9]"; then
        echo "it may use all processors"
        exit 5
    fi
    touch "$TMPDIR/scratch"
    echo '{"Name": "Toy"}' > "$2/dataset_description.json"
    ;;
group)
    test ! -e "$1/asleep" || sleep $(cat "$1/asleep")
    if test -e "$1/failing"; then
        echo half > "$2/group.tsv"
        echo "no group today"
        exit 4
    fi
    if touch "$2/sub-1/head.txt" 2> /dev/null; then
        echo "results can be written to"
        exit 3
    fi
    grep -q GeneratedBy "$2/dataset_description.json"
    echo '{"Name": "of the group", "GeneratedBy": [{"Name": "Averages"}]}' \
        > "$2/dataset_description.json"
    echo '*.tsv' > "$2/.bidsignore"
    cat "$2"/sub-*/head.txt > "$2/group.tsv"
    mkdir "$2/report"
    cat "$2/group.tsv" > "$2/report/all.txt"
    ;;
esac
"""


Start = Callable[[Sequence[str]], subprocess.Popen[str]]
"What starts a command, whose output can be read."


def as_root(words: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command of this user."""
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@dataclass(frozen=True)
class Podman:
    """Podman as tests call it."""

    environment: Mapping[str, str]
    start: Start = as_root

    def __call__(self, *words: object) -> str:
        """What it prints."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        process = self.start(["env", *variables, "podman", *map(str, words)])
        out, err = process.communicate()
        assert process.returncode == 0, (words, out, err)
        return out

    def containers(self) -> list[str]:
        """All containers that there are, running or not."""
        return self("ps", "--all", "--quiet").split()


def missing() -> str:
    """Why containers cannot be tried here; '' if they can."""
    absent = sorted({package for name, package in PACKAGES.items() if shutil.which(name) is None})
    if absent:
        return f"there is no podman here: install the Debian packages {', '.join(absent)}"
    if os.geteuid():
        return "containers of one's own storage are tried as root: run the tests as root"
    return ""


def prepare(folder: Path, start: Start = as_root) -> Podman:
    """Podman of whom `start` starts commands as, with an image, which is made in some tenths of a
    second.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    (folder / "containers.conf").write_text(ENGINE.format(files=files, folder=folder))
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    podman = Podman(
        {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        },
        start,
    )
    root = folder / "root"
    for name in ("bin", "tmp", "proc", "dev", "sys", "etc", "data", "out", "work"):
        (root / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin" / "busybox")
    for name in APPLETS:
        (root / "bin" / name).symlink_to("busybox")
    app = root / "run.sh"
    app.write_text(APP)
    app.chmod(0o755)
    archive = shutil.make_archive(str(folder / "root"), "tar", root)
    podman("import", "--change", 'ENTRYPOINT ["/run.sh"]', archive, IMAGE)
    podman("import", archive, "localhost/noapp:1")
    return podman
