"""`hyperslab run --dry-run`: the numbers it prints, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab.driver.admission import Machine, admit
from hyperslab.errors import DoesNotFit
from tests.repetitions import each_value
from tests.system.end_to_end.command import ANATOMICAL, ROOT, Finished, call, save, succeed, tree

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
MIB = 2**20


def dry_run(*arguments: object) -> dict[str, str]:
    """The rows that it prints."""
    return rows_of(succeed("run", *arguments, "--dry-run"))


def refused(*arguments: object) -> dict[str, str]:
    """The rows that it prints where the run would be refused."""
    done = call("run", *arguments, "--dry-run")
    assert done.code == 2, "as the run would"
    rows = rows_of(done.out)
    assert rows["refused"].startswith("a run would be: ")
    assert "fits" not in rows
    return rows


def rows_of(printed: str) -> dict[str, str]:
    return {line[:10].strip(): line[11:] for line in printed.splitlines()}


def sizes(text: str) -> list[float]:
    """All sizes in a text, in bytes."""
    return [
        float(n) * UNITS[unit]
        for n, unit in re.findall(r"(\d+(?:\.\d+)?(?:e\+\d+)?) ([kMGT]?B)\b", text)
    ]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 MB of uint16."""
    return save(tmp_path_factory.mktemp("in") / "image.nii", np.zeros((200, 200, 100), np.uint16))


def test_every_number(image: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    rows = dry_run(
        "increment",
        image,
        "-o",
        tmp_path / "out",
        "--blocks",
        "1x1x20",
        "--workers",
        "2",
        "--memory",
        "1GB",
    )
    assert tree(tmp_path) == before
    assert list(rows) == [
        "plan",
        "partition",
        "tasks",
        "reads",
        "writes",
        "memory",
        "runs on",
        "fits",
    ]
    assert rows["plan"] == "increment over image.nii"
    assert rows["partition"] == "blocks=1x1x20: 20 blocks, the largest 200x200x5"
    assert rows["tasks"] == "20 to do"
    assert sizes(rows["reads"]) == [8e6]
    written, free = sizes(rows["writes"])
    assert 8e6 <= written <= 8.2e6
    disk = os.statvfs(tmp_path)
    assert free == pytest.approx(disk.f_bavail * disk.f_frsize, rel=0.1)
    assert " in 20 operations to 20 files, " in rows["writes"]
    assert rows["writes"].endswith(f"free at {tmp_path}/out")
    task, tasks, allowed, interpreters, everything = sizes(rows["memory"])
    assert 2 * 400_000 <= task <= 16 * MIB  # the block, its file, and buffers
    assert tasks == pytest.approx(2 * task, rel=0.01)
    assert allowed == 1e9
    assert interpreters > 1e8
    assert everything == pytest.approx(tasks + interpreters, rel=0.01)
    assert rows["runs on"].startswith("2 workers x 1 thread (")
    needed, available = sizes(rows["fits"])
    assert rows["fits"].startswith("yes, ")
    assert needed == everything < available


def test_a_reduction_and_threads(image: Path, tmp_path: Path) -> None:
    rows = dry_run(
        "stats",
        image,
        "-o",
        tmp_path / "out",
        "--blocks",
        "4",
        "--engine",
        "threads",
        "--threads",
        "3",
    )
    assert rows["tasks"] == "4 to do"
    assert " in 0 operations, " in rows["writes"]
    assert rows["runs on"].startswith("1 worker x 3 threads (")
    assert dry_run("smooth", image, "-o", tmp_path / "out", "--keep", "volume")[
        "partition"
    ].startswith("auto: ")


def test_a_histogram_that_needs_the_range_reads_twice(tmp_path: Path) -> None:
    source = save(tmp_path / "in" / "floats.nii", np.zeros((100, 100, 100), np.float32))
    rows = dry_run("histogram", source, "-o", tmp_path / "out", "--blocks", "5")
    assert rows["tasks"] == "10 to do"
    assert sizes(rows["reads"]) == [8e6]


@pytest.mark.usefixtures("on_threads")
def test_a_resumed_run(tmp_path: Path) -> None:
    failing = (
        "hyperslab.testing.functions:misbehave",
        ANATOMICAL,
        "-o",
        tmp_path / "out",
        "--blocks",
        "5",
        "-p",
        "deed=raise",
        "-p",
        "at=0,0,10",
        "--retries",
        "0",
    )
    assert call("run", *failing).code == 1
    before = tree(tmp_path)
    assert dry_run(*failing, "--resume")["tasks"] == "1 to do, 4 already done"
    rows = refused(*failing)
    assert rows["tasks"] == "5 to do"
    assert "holds an earlier run: add --resume" in rows["refused"]
    assert "or --overwrite to start over" in rows["refused"]
    assert tree(tmp_path) == before


def test_a_dry_run_may_name_any_place(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    for place, why in (
        (tmp_path, "holds files that no run wrote"),
        (tmp_path / "notes.txt", "is a file: give a directory"),
        (tmp_path / "notes.txt" / "out", "is a file: give a directory"),
    ):
        assert why in refused("stats", ANATOMICAL, "-o", place)["refused"]
        assert call("run", "stats", ANATOMICAL, "-o", place).code == 2
    assert dry_run("stats", ANATOMICAL, "-o", tmp_path / "a" / "b").keys().isdisjoint({"but"})
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--blocks", "0"], "--blocks 0: give one number"),
        (["--partition", "chunks"], "the array is not stored in chunks"),
        (["-p", "nope=1"], "has no parameter"),
        (["--memory", "1kB", "--blocks", "1"], ""),
        (["--workers", "0"], "--workers 0: give 1 or more"),
    ],
    ids=str,
)
def test_arguments_are_checked_before_the_place(
    flags: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = call("run", "stats", ANATOMICAL, "-o", tmp_path, *flags)
    assert done.code == 2
    assert said in done.err
    assert ("holds files that no run wrote" in done.err) == (not said)


def test_blocks_that_are_not_those_asked_for_say_why(image: Path, tmp_path: Path) -> None:
    for flags, why in (
        (
            ["--blocks", "20", "--keep", "volume", "--format", "h5", "--chunks", "200,200,50"],
            (
                "2 blocks, the largest 200x200x50; --blocks 20 became 2, because blocks must"
                " consist of whole chunks of the output, 200x200x50"
            ),
        ),
        (
            ["--blocks", "500", "--axes-whole", "0,1"],
            (
                "100 blocks, the largest 200x200x1; --blocks 500 became 100, because --axes-whole"
                " leaves no more of 200x200x100 to cut"
            ),
        ),
        (
            ["--blocks", "150"],
            (
                "200 blocks, the largest 200x100x1; --blocks 150 became 200, because blocks form a"
                " regular grid, here 1x2x100"
            ),
        ),
        (["--block-shape", "500,500,10"], "10 blocks, the largest 200x200x10"),
    ):
        rows = dry_run("increment", image, "-o", tmp_path / "out", *flags)
        assert rows["partition"].partition(": ")[2] == why


@pytest.mark.parametrize("flags", [["--dry-run"], []])
def test_too_little_memory_is_refused_with_the_remedy(
    image: Path, tmp_path: Path, flags: list[str]
) -> None:
    done = call(
        "run",
        "increment",
        image,
        "-o",
        tmp_path / "out",
        "--memory",
        "1MB",
        "--blocks",
        "1",
        "--workers",
        "2",
        *flags,
    )
    assert done.code == 2
    assert re.fullmatch(
        r"hyperslab: a task needs \S+ MB of memory "
        r"but its slot has \S+ [kM]?B \(1\.00 MB for \d+ slots?\): "
        r"use smaller blocks \(.*\), --memory \S+MB or more, or --workers 1 and --memory \S+MB or"
        r" more\n",
        done.err,
    )
    assert "fits" not in done.out
    assert not (tmp_path / "out").exists()


def test_the_remedy_works(image: Path, tmp_path: Path) -> None:
    command = (
        "run",
        "increment",
        image,
        "-o",
        tmp_path / "out",
        "--blocks",
        "1",
        "--dry-run",
        "--workers",
        "1",
    )
    refused = call(*command, "--memory", "1MB")
    needed = sizes(refused.err)[0]
    assert call(*command, "--memory", f"{needed * 1.01:.0f}").code == 0
    assert call(*command, "--memory", f"{needed * 0.98:.0f}").code == 2


def test_advice_that_names_a_size_is_enough(image: Path, tmp_path: Path) -> None:
    command = ("run", "increment", image, "-o", tmp_path / "out", "--dry-run")
    for flags in (["--memory", "10"], ["--memory", "1MB", "--blocks", "2"]):
        refused = call(*command, *flags, "--workers", "3").err
        size, size_of_one = re.findall(r"--memory ([\d.]+[kM]?B) or more", refused)
        assert "fewer --workers" not in refused
        assert call(*command, *flags, "--workers", "3", "--memory", size).code == 0
        assert call(*command, *flags, "--workers", "1", "--memory", size_of_one).code == 0
    one_fits = ("--memory", "60MB", "--blocks", "1", "--workers", "3")
    assert (
        "use smaller blocks (--block-shape, --partition bytes=...), fewer --workers, or more"
        in (call(*command, *one_fits).err)
    )


def test_fewer_threads_are_advised_where_they_are_too_many(image: Path, tmp_path: Path) -> None:
    command = ("run", "increment", image, "-o", tmp_path / "out", "--engine", "threads")
    many = call(*command, "--dry-run", "--threads", "9999999")
    assert many.code == 2
    assert many.err.endswith(": use fewer --threads (smaller blocks would hardly need less)\n")
    few = ("--dry-run", "--memory", "60MB", "--blocks", "1")
    assert "fewer --threads, or --memory" in call(*command, *few, "--threads", "3").err
    assert call(*command, *few, "--threads", "1").code == 0


def test_no_memory_is_advised_that_the_machine_does_not_have(tmp_path: Path) -> None:
    large = tmp_path / "large.h5"
    with h5py.File(large, "w") as file:  # of which nothing is written
        file.create_dataset("a", shape=(10_000, 10_000, 10_000), dtype="u1")
    command = ("run", "increment", large, "-o", tmp_path / "o.h5", "--workers", "2", "--dry-run")
    given = call(*command, "--memory", "1GB", "--blocks", "1").err
    assert given.endswith(": use smaller blocks (--block-shape, --partition bytes=...)\n")
    whole = call(*command, "--memory", "1GB", "--axes-whole", "0,1,2").err
    assert whole.endswith(
        ": use a machine with more memory (smaller blocks would hardly need less)\n"
    )


def test_memory_is_advised_for_as_many_workers_as_fit_the_machine(image: Path) -> None:
    options = hyperslab.Options(memory="1MB", blocks="2", workers=3)
    pipeline = hyperslab.Pipeline(image).map(np.negative).write(image.parent / "out")
    needs = hyperslab.prepare(pipeline, options).needs
    assert needs.tasks == 2
    sizes_of = {
        1.5 * needs.bytes_peak: ["--workers 1 and --memory"],
        2.5 * needs.bytes_peak: ["--memory", "--workers 1 and --memory"],
    }
    for available, expected in sizes_of.items():
        small = replace(needs, machine=Machine(int(available), 0))
        with pytest.raises(DoesNotFit) as raised:
            admit(small, image.parent)
        assert (
            re.findall(r"((?:--workers 1 and )?--memory) \S+B or more", str(raised.value))
            == expected
        )


@each_value("both halos, with and without blocks")
@pytest.mark.parametrize("blocks", [[], ["--blocks", "5x5x5"]])
@pytest.mark.parametrize(
    ("halo", "remedy"),
    [
        (9_000, "a smaller --halo"),
        (60, r"a smaller --halo, or --memory \d[\d.]*MB or more"),
    ],
)
def test_a_halo_that_is_nearly_all_of_a_task_is_to_be_smaller(
    image: Path, tmp_path: Path, halo: int, remedy: str, blocks: list[str]
) -> None:
    function = tmp_path / "mine.py"
    function.write_text("def own(block):\n    return block\n")
    command = ("run", f"{function}:own", image, "-o", tmp_path / "out", "--dry-run")
    flags = ("--workers", "1", "--memory", "20MB", "--dtype", "u2")
    refused = call(*command, *flags, *blocks, "--halo", halo).err
    assert re.search(f": use {remedy} \\(smaller blocks would hardly need less\\)\n$", refused)
    voxel = call(*command, *flags, "--block-shape", "20,20,20", "--halo", halo).err
    assert "a task needs" in voxel, "smaller blocks are no remedy"
    assert call(*command, *flags, "--blocks", "5x5x5", "--halo", "2").code == 0


def test_a_halo_of_a_builtin_is_made_smaller_by_its_parameters(image: Path, tmp_path: Path) -> None:
    command = ("run", "smooth", image, "-o", tmp_path / "out", "--dry-run", "-p")
    refused = call(*command, "sigma=250", "--memory", "1GB").err
    assert "use other parameters of smooth, for a smaller halo (smaller blocks" in refused
    assert call(*command, "sigma=1").code == 0


DISK_NBYTES = 2**20


@pytest.fixture(scope="module")
def on_small_disk(image: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finished]:
    """What commands say whose output is on a file system of 1 MiB, which is gone afterwards."""
    disk = tmp_path_factory.mktemp("disk")
    place = (str(image), "-o", str(disk / "out"))
    lines = {
        "planned": ("run", "increment", *place, "--dry-run"),
        "run": ("run", "increment", *place),
        "reduction": ("run", "stats", *place, "--dry-run"),
    }
    inside = ["unshare", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip(
            "no mount namespaces here: install util-linux, and allow unprivileged user namespaces"
            " or use root"
        )
    script = f'mount -t tmpfs -o size={DISK_NBYTES} tmpfs "$1" && shift && exec "$@"'
    words = [*inside, "sh", "-c", script, "sh", str(disk), sys.executable, "-c", SEVERAL]
    ended = subprocess.run(
        [*words, json.dumps([*lines.values()])],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    told = (Finished(*one) for one in json.loads(ended.stdout))
    return dict(zip(lines, told, strict=True))


SEVERAL = """
import json, sys
from tests.system.end_to_end.command import call
print(json.dumps([call(*line) for line in json.loads(sys.argv[1])]))
"""
"Calls several commands in one process."


@pytest.mark.parametrize("line", ["planned", "run"])
def test_too_small_a_disk_is_refused_with_the_remedy(
    on_small_disk: dict[str, Finished], line: str
) -> None:
    done = on_small_disk[line]
    assert done.code == 2, done
    assert re.fullmatch(
        r"hyperslab: the outputs take 8(\.\d+)? MB but \S+ has 1(\.\d+)? MB free: "
        r"free some space or choose another output\n",
        done.err,
    )
    assert "fits" not in done.out


def test_a_reduction_fits_a_small_disk(on_small_disk: dict[str, Finished]) -> None:
    done = on_small_disk["reduction"]
    assert done.code == 0, done
    assert sizes(done.out.split("writes")[1].splitlines()[0])[1] <= 1.05e6


def test_a_laboratory_is_looked_at_and_not_made(image: Path, tmp_path: Path) -> None:
    """By whoever asks, as nothing of it needs root."""
    spec = tmp_path / "lab.toml"
    nodes = "[nodes.scheduler]\n[nodes.client]\n[nodes.w1]\n[nodes.w2]\n"
    spec.write_text(nodes)
    words = ("increment", image, "-o", tmp_path / "out", "--engine", "dask-futures")
    rows = dry_run(*words, "--netlab", spec, "--threads", 2)
    assert rows["runs on"].startswith("2 workers x 2 threads")
    for text, said in ((nodes + "rate = 5", "lab.toml:5: "), ("[nodes.w1]", "a node named sched")):
        spec.write_text(text)
        done = call("run", *words, "--netlab", spec, "--dry-run")
        assert done.code == 2
        assert said in done.err
