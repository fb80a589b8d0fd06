"""What is said of memory, disk and time before a run begins."""

from __future__ import annotations

import re
from pathlib import Path

from hyperslab.apps.bids.containers.runtimes import Container
from hyperslab.apps.bids.foretelling import Done, Outlook, outlook
from hyperslab.apps.bids.running import Asked, run_participants, select
from hyperslab.apps.bids.template import template_app
from hyperslab.driver.options import Options
from tests.apps.bids.test_running import COPY
from tests.system.end_to_end.command import call

GB = 10**9
DONE = (Done("sub-1", 2.0, GB, 3 * GB), Done("sub-2", 4.0, 2 * GB, GB))


def lines(**more: int) -> dict[str, str]:
    told = {"left": 5, "done": (), "read_nbytes": GB, "slots": 2, "memory_nbytes": 8 * GB}
    known = Outlook(**{**told, "disk_nbytes": 9 * GB, **more})  # type: ignore[arg-type]
    return dict(line.split(maxsplit=1) for line in known.lines())


def test_what_nobody_knows_is_said_to_be_unknown() -> None:
    assert lines() == {
        "reads": "1.00 GB of images",
        "memory": "not known before a task is done; 8.00 GB are available",
        "disk": "not known before a task is done; 9.00 GB are free",
        "time": "not known before a task is done",
    }


def test_what_was_measured_of_others() -> None:
    """Five tasks, two at a time, take three rounds."""
    told = lines(done=DONE)  # type: ignore[arg-type]
    assert told["memory"] == (
        "2.00 GB for the largest process of each of 2 tasks that are done,"
        " 4.00 GB for 2 at a time; 8.00 GB are available"
    )
    assert told["disk"] == (
        "2.00 GB for each of 2 tasks that are done, 10.0 GB for 5 tasks to do; 9.00 GB are free"
    )
    assert (
        told["time"] == "3.00 s for each of 2 tasks that are done, about 9.00 s for 5 tasks to do"
    )
    elsewhere = lines(done=DONE[:1], slots=0, memory_nbytes=0)  # type: ignore[arg-type]
    assert elsewhere["memory"] == "1.00 GB for the largest process of the task that is done"
    assert elsewhere["time"] == "2.00 s for the task that is done"


def test_containers_are_known_by_their_limits() -> None:
    """Their processes are not those that are measured."""
    told = lines(is_contained=True, done=DONE)  # type: ignore[arg-type]
    assert told["memory"] == "not known: --container-memory limits it; 8.00 GB are available"
    told = lines(is_contained=True, limit_nbytes=5 * GB)
    said = "5.00 GB for a container at most, 10.0 GB for 2 at a time; 8.00 GB are available"
    assert told["memory"] == said


def test_a_dataset_of_which_a_part_is_done(home: Path, out: Path) -> None:
    """The images hold 13 bytes each, and so do their copies."""
    first = select(home, Asked(("1",)))
    options = Options(engine="serial", report=False, resume=True)
    assert run_participants(first, out, template_app(COPY), options).ok
    known = outlook(select(home, Asked()).units, out, options)
    assert (known.left, known.read_nbytes, known.slots) == (2, 4 * 13, 1)
    (done,) = known.done
    assert (done.label, done.nbytes) == ("sub-1", 13)
    assert done.real_s > 0
    assert done.max_rss > 0
    contained = Container("toy.sif", "apptainer", memory_nbytes=GB)
    assert outlook(first.units, out, Options(), contained).limit_nbytes == GB
    jobs = outlook(first.units, out, Options(engine="slurm"))
    assert (jobs.left, jobs.slots, jobs.memory_nbytes) == (1, 0, 0)


def test_a_dry_run_says_it(home: Path, out: Path) -> None:
    done = call("bids", home, out, "participant", "--app", COPY, "--dry-run")
    assert done.code == 0, done
    assert re.search(
        r"^tasks      3, of cp\nreads      52 B of images\nmemory     not known .* available$",
        done.out,
        re.MULTILINE,
    ), done.out
    assert not out.exists()
