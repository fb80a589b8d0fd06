"""Programs with the command lines of container runtimes, in folders for PATH.

They write down the words that they are given, and do to the folders that are mounted what an app
would do; what real runtimes do is tried in `test_podman.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

IDENTITY = "sha256:0123456789abcdef"
_PROGRAM = """\
#!{python}
import json, os, pathlib, platform, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps([os.path.basename(sys.argv[0]), *words]) + "\\n")
if words[:2] == ["image", "inspect"]:
    print({described!r})
    sys.stderr.write({complaint!r})
    sys.exit({status})
if words[0] == "run":
    mounts = [word.partition("=")[2].split(":") for word in words if word.startswith(({flags}))]
    out = next(here for here, there, *_ in mounts if there == "/out")
    data = next(here for here, there, *_ in mounts if there == "/data")
    level = words[words.index("/out", words.index("/data")) + 1]
    if level == "participant":
        label = words[words.index("--participant_label") + 1]
        folder = pathlib.Path(out, f"sub-{{label}}")
        if pathlib.Path(data, "nesting").exists():
            folder = pathlib.Path(out, "toy", f"sub-{{label}}")
        folder.mkdir(parents=True)
        (folder / "made.txt").write_text(label)
        inner = [there.rpartition("/")[2] for _, there, *_ in mounts if f"sub-{{label}}/" in there]
        for name in inner:
            (folder / name).mkdir()
            (folder / name / "made.txt").write_text(name)
        if inner:
            pathlib.Path(out, f"sub-{{label}}.html").write_text(" ".join(inner))
        if "--pages" in words:
            for number in range(int(words[words.index("--pages") + 1])):
                pathlib.Path(out, f"sub-{{label}}_{{number:0200}}.html").write_text(label)
    else:
        seen = {{}}
        for path in sorted(pathlib.Path(out).rglob("*")):
            seen[str(path.relative_to(out))] = path.is_symlink() and os.readlink(path)
        with open({log!r}, "a") as log:
            log.write(json.dumps([out, "seen", seen]) + "\\n")
        pathlib.Path(out, "group.txt").write_text("all")
        if pathlib.Path(data, "linking").exists():
            ends = {{"again.txt": "/out/group.txt", "fsaverage": "/opt/freesurfer/fsaverage"}}
            ends["shown.txt"] = "/hyperslab-results/sub-1/made.txt"
            for name, target in ends.items():
                pathlib.Path(out, name).symlink_to(target)
        replaced = pathlib.Path(data, "replaced")
        if replaced.exists():
            doomed = pathlib.Path(out, replaced.read_text())
            doomed.unlink()
            doomed.write_text("of the group")
    maker = [{{"Name": "Toy", "Version": "1.2"}}, {{"Name": level}}]
    said = json.dumps({{"Name": "of the app", "GeneratedBy": maker}})
    description = pathlib.Path(out, "dataset_description.json")
    if pathlib.Path(data, "once").exists() and level == "group":
        there = json.loads(description.read_text())
        if maker[1] not in there["GeneratedBy"]:
            there["GeneratedBy"].append(maker[1])
        said = json.dumps(there, indent=2) + "\\n"
    description.write_text(said)
    (pathlib.Path(out) / ".bidsignore").write_text(level + "\\n")
"""


def described(**other: Any) -> str:
    """What docker and podman say of an image."""
    about = {"Id": IDENTITY, "Architecture": "", "Config": {"Entrypoint": ["/run.sh"]}, **other}
    if not about["Architecture"]:
        del about["Architecture"]
    return json.dumps([about])


def install(
    folder: Path, name: str, said: str | None = None, complaint: str = "", status: int = 0
) -> Path:
    """Write a program of this name; the file with the words that it will have been given.

    `said` is what it prints of an image, and `complaint` what it writes to standard error.
    """
    folder.mkdir(exist_ok=True)
    log = folder / "words.jsonl"
    program = folder / name
    said = described() if said is None else said
    text = _PROGRAM.format(
        python=sys.executable,
        log=str(log),
        described=said,
        complaint=complaint,
        status=status,
        flags="'--volume=', '--bind='",
    )
    program.write_text(text)
    program.chmod(0o755)
    return log


def words_of(log: Path, verb: str) -> list[list[str]]:
    """The words of each call with this verb."""
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    return [words for words in calls if words[1] == verb]


def seen_last(log: Path) -> dict[str, str | bool]:
    """Names that the last group level has found in its folder, and where links lead; False of what
    is no link.
    """
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    *_, (_, _, seen) = [call for call in calls if call[1] == "seen"]
    return dict(seen)
