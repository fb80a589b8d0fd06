"""Secrets of URLs and storage options are used, and written nowhere."""

from __future__ import annotations

import copy
import json
import pickle
import time
from dataclasses import replace
from pathlib import Path

import pytest

import hyperslab
from hyperslab import Pipeline, formats
from hyperslab.apps.conversion import Wanted
from hyperslab.arrays import Array
from hyperslab.cli.parse import parse_storage_options
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.redaction import hide, redact, redact_command
from hyperslab.storage.location import Remote
from tests.repetitions import few
from tests.storage.remote.conftest import S3
from tests.storage.remote.server import Server
from tests.system.end_to_end.command import call
from tests.system.faults.command import program as command

SECRETS = ("wJalrXUtnFEMI", "AKIAEXAMPLE", "hunter2xyzzy", "d15c0-signature", "tok-3n-v4lue")
"""What the tests hide: secret and key of S3, a password, a signature, a token."""
HEAD = {"headers": {"X-Pass": f"for {SECRETS[4]}"}}


def leaks(folder: Path) -> list[str]:
    """The files of a folder that hold a secret, in their bytes or names, or unpacked."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        text = str(path).encode() + path.read_bytes()
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            text += repr((table.to_pylist(), table.schema.metadata)).encode()
        found += [f"{path}: {secret}" for secret in SECRETS if secret.encode() in text]
    return found


def signed(server: Server, name: str) -> str:
    """A URL with a password and a signature."""
    return (
        f"{server.url.replace('://', f'://me:{SECRETS[2]}@')}/{name}?X-Amz-Signature={SECRETS[3]}"
    )


BOTH = ["processes", "dask-futures"]
NOBODY = "a run leaves no secret: nobody else reads batches, tests/engines/test_toy.py"


@pytest.mark.parametrize("engine", few(BOTH[:1], BOTH, NOBODY))
def test_a_run_leaves_no_secret(
    engine: str, folder: Path, s3: S3, tmp_path: Path, values: Array
) -> None:
    url = s3.put("made.h5", (folder / "made.h5").read_bytes())
    pipeline = Pipeline(f"{url}::gzip", storage_options=s3.options).reduce(
        "hyperslab.workloads.stats:FOLD"
    )
    result = hyperslab.run(pipeline, engine=engine, workers=2, out=tmp_path / "out")
    assert result.ok
    assert json.loads((tmp_path / "out" / "stats.json").read_text())["sum"] == values.sum()
    assert "made.h5" in (result.folder / "plan.json").read_text()
    assert leaks(tmp_path / "out") == []
    assert list((tmp_path / "out").rglob("orders.*")) == [], (
        "what holds the options does not outlast the run"
    )


def test_the_command_leaves_no_secret(
    folder: Path, web: Server, s3: S3, tmp_path: Path, values: Array
) -> None:
    """Neither of what succeeds nor of what fails: a URL that is signed, options, and a task that is
    denied. What workers leave of options: above.
    """
    web.objects["/dir/a b.nii"] = (folder / "plain.nii").read_bytes()
    options = [
        "--storage-option",
        f"headers={json.dumps(HEAD['headers'])}",
        f"--storage-option=x_secret={SECRETS[1]}",
    ]
    run = [
        "run",
        "stats",
        signed(web, "dir/a%20b.nii"),
        "-o",
        tmp_path / "out",
        "--blocks",
        3,
        "--values",
        "stored",
        "--engine",
        "threads",
    ]
    done = command(*run, *options[:2])
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out" / "stats.json").read_text())["sum"] == values.sum()
    assert all(seen.headers["x-pass"] == f"for {SECRETS[4]}" for seen in web.seen)
    assert all(seen.headers["authorization"].startswith("Basic ") for seen in web.seen)
    assert all(f"X-Amz-Signature={SECRETS[3]}" in seen.path for seen in web.seen)
    provenance = (tmp_path / "out/.hyperslab/run-0001/provenance.json").read_text()
    assert "--storage-option" in provenance
    assert "X-Amz-Signature=***" in provenance
    assert leaks(tmp_path / "out") == []
    assert not [secret for secret in SECRETS if secret in done.stdout + done.stderr]
    again = call(*run, *options, "--resume")
    assert again.code != 0, "an option that the store does not know"
    assert not [secret for secret in SECRETS if secret in again.out + again.err]


def test_a_run_that_fails_leaves_no_secret(folder: Path, web: Server, tmp_path: Path) -> None:
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    pipeline = Pipeline(signed(web, "a.nii").replace(f"me:{SECRETS[2]}@", ""), storage_options=HEAD)
    web.always = "403"
    result = hyperslab.run(
        pipeline.reduce("hyperslab.workloads.stats:FOLD"),
        engine="threads",
        workers=1,
        retries=0,
        out=tmp_path / "out",
        check=False,
    )
    assert result.state == "failed"
    assert "denied (403" in (result.folder / "failures.json").read_text()
    assert leaks(tmp_path / "out") == []
    web.always = ""
    again = hyperslab.run(
        Pipeline(f"{web.url}/a.nii?X-Amz-Signature=another", storage_options=HEAD).reduce(
            "hyperslab.workloads.stats:FOLD"
        ),
        engine="serial",
        out=tmp_path / "out",
        resume=True,
    )
    assert again.ok, "an object is the same under another signature"


def test_one_broken_file_among_many_leaves_no_secret(
    folder: Path, web: Server, tmp_path: Path
) -> None:
    web.objects["/a.nii"], web.objects["/b.nii"] = (folder / "plain.nii").read_bytes(), b"nonsense"
    urls = [signed(web, name).replace(f"me:{SECRETS[2]}@", "") for name in ("a.nii", "b.nii")]
    result = hyperslab.run(
        Pipeline(urls, storage_options=HEAD).write(tmp_path / "out"),
        engine="threads",
        workers=1,
        retries=0,
        check=False,
    )
    assert [failed.task for failed in result.failures] == [f"{web.url}/b.nii?X-Amz-Signature=***"]
    assert result.outputs
    assert all(path.name.startswith("a") for path in result.outputs)
    assert leaks(tmp_path / "out") == []


def test_nothing_that_is_shown_holds_a_secret(folder: Path, web: Server) -> None:
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    view = hyperslab.open(signed(web, "a.nii"), storage_options={"hyperslab_attempts": 1})
    source, remote = view.source, view.source.url
    shown = [
        repr(view),
        repr(source),
        str(remote),
        repr(remote),
        f"{remote}",
        json.dumps(remote),
        view._repr_html_(),
    ]
    sets = formats.open_source(signed(web, "a.nii"))
    shown += [repr(sets), repr(copy.deepcopy(source)), repr(replace(source, name="x"))]
    for fault in ("403", "500", "hang", "drop", "short", "404"):
        web.always = fault
        with pytest.raises(HyperslabError) as raised:
            hyperslab.ArrayView(replace(source, url=_hasty(remote)))[...]
        shown += [repr(raised.value), str(raised.value)]
    assert not [text for text in shown for secret in SECRETS if secret in text]
    assert all("X-Amz-Signature=***" in text for text in shown)


def _hasty(remote: str) -> Remote:
    assert isinstance(remote, Remote)
    options = {"hyperslab_timeout_s": 0.3, "hyperslab_attempts": 1}
    return Remote(remote.target, options, remote.size, remote.tag)


def test_a_remote_travels_whole() -> None:
    remote = Remote(f"s3://a/b?token={SECRETS[4]}", {"secret": SECRETS[0]}, 7, "tag")
    for sent in (pickle.loads(pickle.dumps(remote)), copy.deepcopy(remote)):
        assert isinstance(sent, Remote)
        assert (sent, sent.target, sent.options) == (str(remote), remote.target, remote.options)
        assert (sent.size, sent.tag, sent.token) == (7, "tag", remote.token)
    assert str(remote) == "s3://a/b?token=***"


def test_what_a_library_says_is_cleaned() -> None:
    options = {
        "client_kwargs": {"aws_secret": ["abcd", "x"]},
        "key": "longer-abcd",
        "endpoint_url": "https://host",
    }
    assert hide("at https://host: longer-abcd, abcd; x", options) == "at https://host: ***, ***; x"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://u:p@h:80/a?b=1", "http://***@h:80/a?b=***"),
        ("s3://k:ab/cd@b/x is not there", "s3://***@b/x is not there"),
        ("http://h:80/a@b.nii?versionId=7&pwd=x", "http://h:80/a@b.nii?versionId=7&pwd=***"),
        (
            "https://h/a?pass=x&session=y&Policy=z__&Key-Pair-Id=K",
            "https://h/a?pass=***&session=***&Policy=***&Key-Pair-Id=***",
        ),
        (
            "https://h/a b.nii?hdnea=st=1~acl=/*~hmac=ab: denied",
            "https://h/a b.nii?hdnea=*** denied",
        ),
        ("of https://h/a.nii: s3://b/run?task=1.nii", "of https://h/a.nii: s3://b/run?task=1.nii"),
        ("/data/a?b=1&c=2.nii", "/data/a?b=1&c=2.nii"),
        ("https://h/a?sig=abc%2F&sv=1&token=q#x", "https://h/a?sig=***&sv=1&token=***#x"),
        ("{'Authorization': 'Bearer q', 'a': 'b'}", "{'Authorization': '***', 'a': 'b'}"),
        ("see https://h/a and me@b.c", "see https://h/a and me@b.c"),
        ("/data/key=1/token.nii", "/data/key=1/token.nii"),
    ],
)
def test_texts_without_secrets(text: str, kept: str) -> None:
    assert redact(text) == kept


def test_the_command_line_without_secrets() -> None:
    line = [
        "hyperslab",
        "run",
        "--storage-option",
        "key=a b",
        "--storage-option=secret=x y",
        "s3://b/k",
        "-p",
        "n=1",
    ]
    for option in ("anon=true", "endpoint_url=https://u:p@h", "odd"):
        line += ["--storage-option", option]
    shown = redact_command([*line, "--api-token", "a b", "my_password=x y"])
    assert (
        shown
        == "hyperslab run --storage-option 'key=***' '--storage-option=secret=***' s3://b/k -p n=1"
        " --storage-option anon=true --storage-option 'endpoint_url=https://***@h'"
        " --storage-option '***' --api-token '***' 'my_password=***'"
    )


def test_what_a_conversion_makes_is_shown_without_the_options_of_its_stores() -> None:
    assert SECRETS[4] not in repr(Wanted(storage_options=HEAD))


def test_storage_options_of_the_command_line() -> None:
    given = [
        "anon=true",
        "max=3",
        "secret=123",
        "key=0012",
        'client_kwargs={"a": [1]}',
        "x=a=b",
        'quoted="7"',
    ]
    assert parse_storage_options(given) == {
        "anon": True,
        "max": 3,
        "secret": "123",
        "key": "0012",
        "client_kwargs": {"a": [1]},
        "x": "a=b",
        "quoted": "7",
    }
    for wrong in (["alone"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(UsageError, match="--storage-option"):
            parse_storage_options(wrong)


def test_a_denied_file_among_the_further_inputs(web: Server, folder: Path, tmp_path: Path) -> None:
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    web.always = "403"
    done = call(
        "run",
        "stats",
        folder / "plain.nii",
        "--with",
        f"mask={signed(web, 'a.nii')}",
        "-o",
        tmp_path / "out",
    )
    assert done.code == 2
    assert "access is denied" in done.err
    assert not [secret for secret in SECRETS if secret in done.err]


def test_long_words_take_no_longer_than_others() -> None:
    began = time.process_time()
    for text in ("x" * 30_000, "--a" * 10_000, "secret" * 2_000):
        assert redact(text) == text
    assert redact("x" * 30_000 + " my_password=hunter2") == "x" * 30_000 + " my_password=***"
    assert time.process_time() - began < 5, "some tens of seconds, where each place is tried"
