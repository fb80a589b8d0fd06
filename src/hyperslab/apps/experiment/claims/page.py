"""Page of verdicts: the claims of a paper one by one, with the numbers and figures of experiments,
as Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.answers.answer import Answer, answer_of
from hyperslab.apps.experiment.claims import (
    dask_network,
    dask_vs_spark,
    h5spark,
    spark_on_lustre,
    storage_tiers,
)
from hyperslab.apps.experiment.claims.claim import UNTOLD, Claim, Evidence, Judged
from hyperslab.apps.experiment.claims.earlier import earlier_specs, earlier_versions
from hyperslab.apps.experiment.claims.missing import left_out_of, not_compared, reasons_of
from hyperslab.apps.experiment.pages.figures import write_figures
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.statistics.significance import spending
from hyperslab.apps.experiment.trials.begun import Begun
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.errors import UsageError, suggest
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_bytes, show_count, show_list

CHARTS = {
    "makespans.svg": "Makespans with their intervals",
    "totals.svg": "Time of all slots, by kind",
    "expected.svg": "Measured over expected",
}
"Figures that the page shows, of those that an experiment has."
Advice = Callable[[Sequence[tuple[Claim, Judged]]], Sequence[str]]
"What tells whoever owns a cluster what follows from the claims."
HOW_JUDGED = (
    "Numbers that are published or recomputed from the authors' records are of other machines and"
    " sizes. A claim is reproduced or refuted where all comparisons tell, allowing for their"
    " number (Holm 1979), in part where those that tell are all as it states and others are open,"
    " refuted in part where those that tell are all otherwise, mixed where some are as it states"
    " and some otherwise, open where none tells. It is by construction where what tells it follows"
    " from how trials were made, whichever way it points: an emulated tier is as slow as it was"
    " asked to be, and tasks that sleep take as long on every engine. Settings take as long as"
    " each other within a margin, and a difference refutes that where it is beyond; one is faster"
    " or slower where the difference is beyond the margin, and a smaller one refutes that. What is"
    " no comparison of times, such as slopes, shares and seconds of waiting, has no margin: any"
    " difference counts that is more than chance, however small. Each claim is judged for itself:"
    " of twenty, one may come out so by chance."
)
"How claims are judged, on every page."
ASKED_FOR = "Emulated tiers are asked to be so: it says how much a pipeline feels of it, no more."
BY_A_TEST = (
    "A claim is held by a test where no trial tells it, and tests of this project do, which are"
    " named: they fail where it does not hold."
)
COUNTS = "as stated / otherwise / open"
"Column of how many tests came out so."
PAPERS_OWN = "paper"
"Scale of the sizes and levels of the papers."


@dataclass(frozen=True, slots=True)
class Paper:
    """What a page of verdicts is about."""

    name: str
    "Name of the page, and of the family of its specs."
    title: str
    citation: str
    claims: Sequence[Claim]
    errata: Sequence[str] = ()
    "Sentences on mistakes of the paper that do not depend on trials."
    advice: Advice | None = None

    @property
    def specs(self) -> list[str]:
        """Specs that judge its claims."""
        return list(dict.fromkeys(claim.spec for claim in self.claims if claim.spec))


def _paper(name: str, module: Any) -> Paper:
    errata = getattr(module, "ERRATA", ())
    advice = getattr(module, "advice", None)
    return Paper(name, module.TITLE, module.PAPER, module.CLAIMS, errata, advice)


PAPERS = {
    name: _paper(name, module)
    for name, module in (
        ("dask-vs-spark", dask_vs_spark),
        ("storage-tiers", storage_tiers),
        ("dask-network", dask_network),
        ("spark-on-lustre", spark_on_lustre),
        ("h5spark", h5spark),
    )
}


def paper_of(name: str) -> Paper:
    """The paper of this name. Raises UsageError."""
    if name not in PAPERS:
        raise UsageError(
            f"PAPER {name}: there is no such paper{suggest(name, PAPERS)}; choose one of"
            f" {', '.join(PAPERS)}"
        )
    return PAPERS[name]


@dataclass(frozen=True, eq=False)
class Finding:
    """An experiment that has run, and what came of it."""

    experiment: Experiment
    answer: Answer
    "What its trials say."

    @property
    def name(self) -> str:
        return self.experiment.loaded.name

    @property
    def failures(self) -> list[Attempt]:
        """Attempts that stand for the trials, where none of these was done."""
        tried = [one for result in self.answer.results for one in result.attempts]
        if any(one.state == "done" for one in tried):
            return []
        return tried


def findings_of(experiments: Sequence[Experiment]) -> list[Finding]:
    """What came of the experiments that have a trial which was tried."""
    found = [Finding(one, answer_of(one, one.record())) for one in experiments]
    return [one for one in found if any(result.attempts for result in one.answer.results)]


def judged(paper: Paper, findings: Sequence[Finding]) -> list[tuple[Claim, Judged]]:
    """Every claim of a paper with what came of it."""
    by_spec = {one.name: one for one in findings}
    return [(claim, _judged(claim, by_spec.get(claim.spec))) for claim in paper.claims]


def _judged(claim: Claim, finding: Finding | None) -> Judged:
    if not claim.spec:
        return claim.judge(Evidence(Answer((), (), (), (), ()), 0.0))
    if finding is None:
        return Judged("not tested", [f"`{claim.spec}` has not been run."])
    if failures := finding.failures:
        why = f"`{claim.spec}`: all {show_count(len(failures), 'trial')} failed"
        return Judged("not tested", [f"{why}: {reasons_of(failures)}."])
    spec = finding.experiment.loaded.spec
    evidence = Evidence(finding.answer, spec.margin, spec.tiers)
    with spending(len(finding.answer.looks)):
        found = claim.judge(evidence)
    asked = list(evidence.asked.values()) or list(finding.answer.results)
    told = [*not_compared(evidence), *left_out_of(asked, finding.experiment.trials)]
    if claim.is_of_times:
        found = found.beside(after=told)
    return _as_far_as_emulated(claim, _emulated_of(claim, finding), found)


def _as_far_as_emulated(claim: Claim, emulated: Sequence[str], found: Judged) -> Judged:
    """What was found, as far as trials on emulated tiers can tell it."""
    missing = [name for name in claim.needs if name in emulated]
    if missing:
        why = (
            f"It needs a real {show_list(missing)}: an emulated tier has the rates of such a"
            " device, and nothing else of it."
        )
        return found.instead("not tested", why)
    why = claim.by_emulation or (ASKED_FOR if claim.is_asked_for else "")
    if why and emulated and found.outcome not in (*UNTOLD, "by construction"):
        return found.instead("by construction", why)
    return found


def write_verdicts(
    folder: Path,
    paper: Paper,
    findings: Sequence[Finding],
    command: str,
    begun: Sequence[Begun] = (),
) -> Path:
    """Write the page of a paper into a folder, and beside it the figures; returns the page. `begun`
    says which experiments began with an earlier spec. Raises UsageError.
    """
    shown = []
    done = [one for one in findings if not one.failures]
    for one in done:
        below = Path(paper.name) / one.name.rpartition("/")[2]
        files = write_figures(folder / below, one.experiment, one.experiment.record(), one.answer)
        shown.append((one, below, {path.name for path in files}))
    found = judged(paper, findings)
    lines = [
        *_head(paper, findings, command, begun),
        *_claims(found, findings),
        *_listed("Advice", paper.advice(found) if paper.advice else ()),
        *_listed("Errata of the paper", paper.errata),
        *(line for each in shown for line in _experiment(*each)),
    ]
    path = folder / f"{paper.name}.md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error
    return path


def _listed(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield from (f"## {title}", "", *(f"- {text}" for text in sentences), "")


def _head(
    paper: Paper, findings: Sequence[Finding], command: str, begun: Sequence[Begun]
) -> Iterator[str]:
    yield from (f"# {paper.title}: the paper's claims, tried", "")
    yield from (f"{paper.citation}.", "")
    yield from (f"Made by `{command}`, of {_trials(findings)}.", "")
    yield from (_again(paper), "")
    run = {one.name for one in findings}
    left = [f"`{spec}`" for spec in paper.specs if spec not in run]
    if left:
        yield from (f"**Not run at this scale:** {show_list(left)}.", "")
    records = {one.name: _packages_of(one) for one in findings}
    for text in (*earlier_specs(begun), *earlier_versions(records)):
        yield from (text, "")
    for scale in dict.fromkeys(one.experiment.loaded.scale for one in findings):
        if scale != PAPERS_OWN:
            yield (
                f"Scale `{scale}` is smaller and shorter than what the paper ran (scale"
                f" `{PAPERS_OWN}`). A verdict is about this scale and this machine:"
            )
            yield ""
    for machine in dict.fromkeys(text for one in findings for text in _machines(one)):
        yield f"- {machine}"
    yield from (f"- {text}" for text in (_days(findings), _versions(findings)) if text)
    yield ""


def _again(paper: Paper) -> str:
    """How the page is made from what is kept beside it."""
    file = f"records/{paper.name}.jsonl.gz"
    return (
        f"Made again, without running anything, by `hyperslab experiment verdicts {paper.name}"
        f" --from {file} -o .` from [its records]({file})."
    )


def _trials(findings: Sequence[Finding]) -> str:
    """How many trials were done, and of how many where that is not all."""
    done = sum(len(result.ended) for one in findings for result in one.answer.results)
    asked = sum(len(one.experiment.trials) for one in findings)
    if done == asked:
        return show_count(done, "trial")
    return f"{done:,} trials that were done, of {show_count(asked, 'trial')}"


def _days(findings: Sequence[Finding]) -> str:
    """When the trials ran, by the clock of the machine."""
    attempts = [attempt for one in findings for attempt in one.experiment.record().attempts]
    days = sorted({_day(attempt.began_s) for attempt in attempts})
    return " to ".join(dict.fromkeys((*days[:1], *days[-1:])))


def _day(began_s: float) -> str:
    return datetime.fromtimestamp(began_s, UTC).date().isoformat()


def _versions(findings: Sequence[Finding]) -> str:
    """Versions of all that trials used, as their records say."""
    found: dict[str, None] = {}
    for one in findings:
        found |= _packages_of(one)
        for session in one.experiment.record().sessions:
            if java := session.machine.get("java"):
                found[f"Java {java}"] = None
    return show_list(list(found))


def _packages_of(one: Finding) -> dict[str, None]:
    """Versions of all packages that the trials of an experiment used, each once."""
    found: dict[str, None] = {}
    for attempt in one.experiment.record().counted():
        path = one.experiment.directory.trial(attempt.number, attempt.attempt)
        found |= dict.fromkeys(_packages(path / "provenance.json"))
    return found


def _packages(path: Path) -> list[str]:
    if not path.exists():
        return []
    facts = json.loads(path.read_bytes()).get("facts", {})
    packages = [text for text in str(facts.get("versions", "")).split(", ") if text]
    python = facts.get("python")
    return [f"Python {python}", *packages] if python else packages


def _machines(one: Finding) -> Iterator[str]:
    for session in one.experiment.record().sessions:
        machine = session.machine
        processor = machine.get("processor", "unknown")
        memory = ""
        if nbytes := machine.get("memory"):
            memory = f", {show_bytes(nbytes)} of memory"
        yield f"{machine.get('processors')} processors ({processor}){memory}"


def _claims(found: Sequence[tuple[Claim, Judged]], findings: Sequence[Finding]) -> Iterator[str]:
    """What came of every claim, in a table and then one by one with its evidence."""
    yield _table(found, findings).markdown()
    yield from (HOW_JUDGED, "")
    if any(one.outcome == "held by a test" for _, one in found):
        yield from (BY_A_TEST, "")
    by_spec = {one.name: one for one in findings}
    for claim, one in found:
        yield from (f"### {claim.text}", "")
        by = ""
        if claim.spec:
            by = f" (`{claim.spec}`)"
        yield from (f"**{one.outcome}**{by}", "")
        if claim.published:
            yield f"- Published: {claim.published}."
        yield from (f"- {text}" for text in one.evidence)
        yield from _not_measured(by_spec.get(claim.spec))
        yield ""


def _table(found: Sequence[tuple[Claim, Judged]], findings: Sequence[Finding]) -> Sheet:
    """Every claim in a row, with the emulated tiers that it is about, and what its scale leaves
    out; columns that say nothing are left out.
    """
    by_spec = {one.name: one for one in findings}
    left_out = {one.name: _left_out(one) for one in findings}
    columns: dict[str, Sequence[str]] = {
        "the paper states": [claim.text for claim, _ in found],
        "here": [one.outcome for _, one in found],
        COUNTS: [_counts(one.signs) for _, one in found],
        "published": [claim.published for claim, _ in found],
        "emulated tiers": [_emulated(claim, by_spec.get(claim.spec)) for claim, _ in found],
        "not measured at this scale": [left_out.get(claim.spec, "") for claim, _ in found],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [list(row) for row in zip(*shown.values(), strict=True)]
    return Sheet("Claims", list(shown), rows)


def _counts(signs: Sequence[bool | None]) -> str:
    """How many tests came out as claimed, otherwise and open; '' where nothing is counted."""
    if not signs:
        return ""
    return " / ".join(str(sum(sign is one for sign in signs)) for one in (True, False, None))


def _not_measured(finding: Finding | None) -> Iterator[str]:
    """What the scale of a claim's spec leaves out, as evidence."""
    if finding is None:
        return
    if left_out := _left_out(finding):
        yield f"- Not measured at scale `{finding.experiment.loaded.scale}`: {left_out}."


def _left_out(one: Finding) -> str:
    """Factors that a scale does not vary, and names that it leaves out, in words."""
    left_out = one.experiment.loaded.left_out
    words = [
        f"{name} {show_list([str(level) for level in levels])}"
        for name, levels in left_out.items()
        if levels
    ]
    words += [f"any change of {name}" for name, levels in left_out.items() if not levels]
    return ", ".join(words)


def _emulated(claim: Claim, one: Finding | None) -> str:
    """Names of the emulated tiers that a claim is about, and what they are asked to be like."""
    if one is None:
        return ""
    tiers = one.experiment.loaded.spec.tiers
    return show_list([f"{name} ({tiers[name].asked()})" for name in _emulated_of(claim, one)])


def _emulated_of(claim: Claim, one: Finding) -> list[str]:
    """Names of the emulated tiers of an experiment that a claim is about."""
    experiment = one.experiment
    names = experiment.inputs.emulated(experiment.settings(experiment.cells))
    return [name for name in names if not claim.tiers or name in claim.tiers]


def _experiment(one: Finding, below: Path, files: set[str]) -> Iterator[str]:
    yield from (f"## `{one.name}`", "")
    yield from (f"- {text}" for text in (*one.answer.decision, *one.answer.certainty))
    yield ""
    for name, words in CHARTS.items():
        if name in files:
            yield from (f"![{words}, {one.name}]({below / name})", "")
    yield from (f"[All numbers]({below / 'tables.md'}), [evidence]({below / 'answer.md'}).", "")
