"""Records: what a submission leaves beside its outputs: result, trace, summary and report."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hyperslab import engines
from hyperslab.driver.directory import RunDirectory, RunState, load_status
from hyperslab.driver.plain import is_plain, plain
from hyperslab.engines.facts import facts_of, recorded
from hyperslab.errors import RunStopped, UsageError
from hyperslab.machine.host import describe
from hyperslab.machine.plugins import version
from hyperslab.plan.pipeline import Fold
from hyperslab.redaction import redact, redact_command
from hyperslab.report import links
from hyperslab.report.failures import Failed, grouped, load_failed, records_of
from hyperslab.report.messages import moving
from hyperslab.report.summary import NO_REPORT, Summary, summarise
from hyperslab.storage import renaming
from hyperslab.storage.recordfile import (
    checksum_of,
    load_list,
    load_record,
    require_intact,
    save_json,
    save_record,
)
from hyperslab.trace import Trace
from hyperslab.traffic import FILE as MESSAGES
from hyperslab.traffic import Traffic
from hyperslab.units import show_count

if TYPE_CHECKING:
    from hyperslab.report.slices import Pictured

RECORDS_VERSION = 1
SURROUNDINGS = "HYPERSLAB_SURROUNDINGS"
"Variable by which a run is told where it runs, as JSON."
KEPT = ("trace.parquet", "summary.json", "provenance.json")
"Files without which no report can be written."
PAGE = "report.html"
_LOST_FAILURES = (
    "the list of failed tasks is lost; the same command with --resume tries them again and lists"
    " what fails"
)
LIBRARIES = ("hyperslab", "numpy", "nibabel", "h5py")
"Distributions that every run rests on."
OF_RECORDS = ("pyarrow.parquet",)
OF_PAGE = ("hyperslab.report.html",)
"Modules that are imported when records, and a page, are written."


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """What a submission left, read back."""

    folder: Path
    trace: Trace
    summary: Summary
    title: str
    facts: Mapping[str, str]
    "Provenance by name, in words."
    failures: tuple[Failed, ...]
    "Failed tasks."
    state: RunState
    plan: Mapping[str, Any]
    "What was asked for, as the submission's plan.json has it."
    ended_early: str = ""
    "Why the run ended before all tasks had been tried; '' if it did not."
    traffic: Traffic | None = None
    "Messages of the engine's processes, where they were kept."
    of_input: Sequence[Pictured] | None = None
    "Picture of the input, where that was drawn before the end; None where it was not."


def get_ready(has_page: bool) -> None:
    """Import what `save_records` needs, and the page where there is to be one."""
    for name in OF_RECORDS:
        import_module(name)
    if has_page:
        for name in OF_PAGE:
            import_module(name)


class Saved(NamedTuple):
    """What came of saving the records of a submission."""

    summary: Summary
    fault: str = ""
    "Why there is no page, in words; '' where it was written, or not asked for."


def save_records(
    folder: Path,
    trace: Trace,
    title: str,
    failures: Sequence[Failed],
    facts: Mapping[str, str],
    state: RunState = "done",
    has_page: bool = True,
    ended_early: str = "",
    traffic: Traffic | None = None,
    of_input: Sequence[Pictured] | None = None,
) -> Saved:
    """Write trace, messages, summary, provenance and, if asked for, the page of a submission into
    its folder; all but the page is needed. Raises OSError.
    """
    summary = summarise(trace)
    if traffic is not None:
        trace.meta[moving.META] = moving.moving(traffic, trace)
    trace.save(folder / "trace.parquet")
    if traffic is not None:
        traffic.save(folder / MESSAGES)
    about = {"title": title, "facts": facts, "trace": checksum_of(folder / "trace.parquet")}
    if traffic is not None:
        about["messages"] = checksum_of(folder / MESSAGES)
    records: dict[str, Mapping[str, Any]] = {
        "failures.json": {"failures": records_of(failures)},
        "provenance.json": {"version": RECORDS_VERSION, **about},
    }
    fault = ""
    with ThreadPoolExecutor() as beside:  # the page is drawn while the storage takes them
        kept = [beside.submit(summary.save, folder / "summary.json")]
        kept += [beside.submit(save_record, folder / name, one) for name, one in records.items()]
        if has_page:
            plan = load_record(folder / "plan.json", NO_REPORT)
            told = (tuple(failures), state, plan, ended_early, traffic, of_input)
            fault = try_report(Records(folder, trace, summary, title, facts, *told))
    for one in kept:
        one.result()
    return Saved(summary, fault)


def add_to_trace(folder: Path, name: str, value: Any) -> None:
    """Add what was learnt of a run once it had ended to the meta of its trace."""
    path = folder / "trace.parquet"
    about = load_record(folder / "provenance.json", NO_REPORT)
    trace = Trace.load(path)
    trace.meta[name] = value
    trace.save(path)
    save_record(folder / "provenance.json", {**about, "trace": checksum_of(path)})


def write_report(records: Records, path: Path, has_pictures: bool = True) -> None:
    """Write the page of a submission as one HTML file, with pictures of its data if asked for."""
    from hyperslab.driver.pictured import made_by_tasks, pictured
    from hyperslab.report.html import write_page

    r = records
    pictures = []
    made = []
    if has_pictures:
        pictures = pictured(r.folder, r.plan, r.of_input)
        made = made_by_tasks(r.folder, r.plan, path.parent)
    state: str = r.state
    if r.ended_early:
        state = f"ended early: {r.ended_early}"
    write_page(
        path,
        r.trace,
        r.summary,
        r.title,
        r.facts,
        grouped(r.failures),
        plan=r.plan,
        state=state,
        pictures=pictures,
        traffic=r.traffic,
        made=made,
    )


def try_report(records: Records) -> str:
    """Write the page of a submission among its records; why that failed, in words, or ''.

    A page is no part of what a run was for, and can be written at any time.
    """
    try:
        write_report(records, records.folder / PAGE)
    except Exception as error:  # noqa: BLE001  # whatever it is, the run has ended as it has
        return (
            f"the report could not be written ({type(error).__name__}: {error}); all else of the"
            f" run is there, and 'hyperslab report {shlex.quote(str(records.folder))}' writes it"
        )
    return ""


def load_records(folder: Path) -> Records:
    """Read back what a submission left.

    `folder` is a submission's own (`OUT/.hyperslab/run-0001`) or the output directory, whose newest
    submission is meant then. Raises UsageError when there is no run, or when it has kept no trace,
    because it is still running or died; DamagedRecord for records that were changed after they
    were written.
    """
    own = folder if (folder / "plan.json").is_file() else RunDirectory.of(folder).latest()
    state = _state(own)
    missing = [name for name in KEPT if not (own / name).is_file()]
    if missing:
        why = "finish it with --resume"
        if state == "running":
            why = "it is still running: wait until it ends"
        raise UsageError(f"{own} holds no {missing[0]}, which a run writes when it ends; {why}")
    try:
        about = load_record(own / "provenance.json", NO_REPORT)
        if about["version"] > RECORDS_VERSION:
            raise UsageError(
                f"{own} was written by a newer hyperslab (records version {about['version']}):"
                " upgrade it"
            )
        if (
            "trace" in about
        ):  # Arrow may end the process over a damaged one; earlier versions kept no checksum
            require_intact(own / "trace.parquet", about["trace"], NO_REPORT)
        trace = _load_trace(own / "trace.parquet")
        if (own / links.RECORD).is_file():
            trace.meta[links.META] = load_record(own / links.RECORD, NO_REPORT)
        traffic = None
        if "messages" in about:
            require_intact(own / MESSAGES, about["messages"], NO_REPORT)
            traffic = Traffic.load(own / MESSAGES)
        summary = Summary.load(own / "summary.json")
    except (
        ValueError,
        KeyError,
        TypeError,
    ) as error:  # JSON and Parquet libraries raise their kinds of ValueError
        raise UsageError(
            f"the records in {own} cannot be read: {error}; run again into another directory"
        ) from error
    plan = load_record(own / "plan.json", NO_REPORT)
    told = (tuple(load_failures(own)), state, plan, load_status(own).get("ended_early", ""))
    return Records(own, trace, summary, about["title"], about["facts"], *told, traffic)


def _load_trace(path: Path) -> Trace:
    """A trace with what its engine says of itself, which earlier versions did not record."""
    trace = Trace.load(path)
    run = trace.meta.get("run", {})
    if "engine" in run:
        trace.meta["run"] = {**recorded(run["engine"]), **run}
    return trace


def _state(folder: Path) -> RunState:
    """How a submission ended, as far as it could say; one that says it runs, but that nobody owns,
    has died.
    """
    state: RunState = load_status(folder).get("state", "died")
    directory = RunDirectory.of_submission(folder.absolute())
    runs = directory is not None and directory.is_owned()
    if state == "running" and not runs:
        return "died"
    return state


def provenance(plan: Mapping[str, Any], engine: str) -> dict[str, str]:
    """Command, plan, versions and machine, in words; passwords in URLs and options are left out."""
    libraries = (*LIBRARIES, *facts_of(engine).libraries)
    versions = {name: version(name) or "unknown" for name in libraries}
    versions |= engines.programs(engine)
    return {
        "command": redact_command(sys.argv),
        "engine": engine,
        "plan fingerprint": plan["fingerprint"],
        "code fingerprint": plan["code"],
        **_plan_words(plan["summary"]),
        **surroundings(),
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        **describe(),
    }


def surroundings() -> dict[str, str]:
    """What whoever has started this run says of where it runs, in words by what they are about."""
    told: dict[str, str] = json.loads(os.environ.get(SURROUNDINGS, "{}"))
    return told


def _plan_words(asked: Mapping[str, Any]) -> dict[str, str]:
    """What was asked for, one line per part."""
    if "command" in asked:
        return _command_words(asked)
    cut = asked["partition"]
    end = asked["end"]
    steps = [_function_words(step) for step in asked["steps"]]
    output = f"{end.get('format')}, {end.get('keep')}"
    if "function" in end:
        steps.append(_function_words(end))
        output = "one result"
    return {
        **{name: redact(_source_words(source)) for name, source in asked["sources"].items()},
        "steps": " -> ".join(steps) or "none",
        "output": output,
        "values": f"{asked['values']}, boundary {asked['boundary']}",
        "partition": (
            f"{cut['rule']}: {show_count(cut['blocks'], 'block')}, the largest"
            f" {_by(cut['largest'])}"
        ),
    }


def _command_words(asked: Mapping[str, Any]) -> dict[str, str]:
    first = asked["sources"]["source"]["first"]
    template = asked["command"] or "each task has its own"
    return {
        "source": redact(f"{first}, and what else its tasks read"),
        "commands": redact(template),
        "tasks": f"{asked['partition']['blocks']:,}",
    }


def _source_words(source: Mapping[str, Any]) -> str:
    more = ""
    if source["files"] > 1:
        more = f" and {source['files'] - 1} more, {source['kind']}"
    return f"{source['first']}{more}, {_by(source['shape'])}"


def _function_words(step: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in step["params"].items())
    return f"{step['function']}({given})"


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def save_value(fold: Fold, value: Any, staging: Path, out: Path) -> list[Path]:
    """Write the result of a reduction, and its picture where it is a histogram, into the output
    directory.

    The files are written in `staging`, on the same file system, and appear by rename when all are
    on storage. Raises OSError, and RunStopped when the fold's own `save` fails.
    """
    staging.mkdir()
    written = _save_by_fold(fold, value, staging)
    if hasattr(value, "edges") and hasattr(value, "counts"):
        from hyperslab.report.picture import histogram_svg

        picture = staging / "histogram.svg"
        picture.write_text(
            histogram_svg(value.edges, value.counts, getattr(value, "title", "Histogram")),
            encoding="utf-8",
        )
        written.append(picture)
    for path in written:
        renaming.synchronise(path)
    found = [path.replace(out / path.name) for path in written]
    renaming.synchronise(out, only_names=True)
    return found


def _save_by_fold(fold: Fold, value: Any, folder: Path) -> list[Path]:
    if fold.save is None:
        return [_save_plain(value, folder)]
    try:
        return list(fold.save(value, folder))
    except OSError:
        raise
    except Exception as error:
        raise RunStopped(
            f"all blocks are reduced, but saving the result failed: {type(error).__name__}:"
            f" {error}; correct the fold's save and run again with another output"
        ) from error


def _save_plain(value: Any, out: Path) -> Path:
    """Numbers, texts and what is made of them as JSON, arrays as .npy, anything else as a
    pickle.
    """
    if isinstance(value, np.ndarray):
        np.save(out / "result.npy", value)
        return out / "result.npy"
    if is_plain(value):
        save_json(out / "result.json", plain(value))
        return out / "result.json"
    (out / "result.pickle").write_bytes(pickle.dumps(value))
    return out / "result.pickle"


def load_failures(folder: Path) -> list[Failed]:
    """What `save_records` kept of the failures. Raises DamagedRecord."""
    path = folder / "failures.json"
    if not path.is_file():
        return []
    return list(map(load_failed, load_list(path, "failures", _LOST_FAILURES)))
