"""Messages as a user sees them: of a run, of a program of one's own, of a capture."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from hyperslab.traffic import Traffic
from tests.network import made_captures as made
from tests.system.clusters import dask
from tests.system.clusters.required import required
from tests.system.end_to_end.command import ANATOMICAL, call, succeed

PROGRAM = """
from distributed import Client, LocalCluster

settings = {"n_workers": 1, "processes": False, "protocol": "tcp"}
with LocalCluster(**settings, dashboard_address="127.0.0.1:0") as cluster, Client(cluster) as own:
    assert own.submit(sum, [1, 2]).result() == 3
raise SystemExit(5)
"""


def test_a_run_on_a_cluster_of_its_own(tmp_path: Path) -> None:
    required(dask.missing())
    out = tmp_path / "out"
    slots = ("--engine", "dask-futures", "--workers", 2, "--threads", 1, "--blocks", 8)
    pause = ("-p", "delay=0.4")  # in which workers say that they live
    succeed("run", "increment", ANATOMICAL, "-o", out, *slots, *pause, "--record-messages")
    told = json.loads(succeed("report", out, "--json"))["messages"]
    assert told["origin"] == "recorded"
    assert told["notes"] == []
    names = [node["name"] for node in told["nodes"]]
    assert [name for name in names if not name.startswith("nanny")] == [
        "scheduler",
        "client",
        "worker 0",
        "worker 1",
    ]
    counts = {one["name"]: one["count"] for one in told["operations"]}
    assert counts["compute-task"] >= 8
    beats = {one["node"]: one for one in told["heartbeats"] if one["reply_nbytes"]}
    assert beats.keys() == {"worker 0", "worker 1"}
    assert all(500 < one["request_nbytes"]["median"] < 5000 for one in beats.values())
    for one in told["transfers"]:
        assert one["source"].startswith("worker ")
        assert one["end_ns"] > one["start_ns"]
    page = (out / ".hyperslab" / "run-0001" / "report.html").read_text()
    for title in ("Bytes per second and node", "Who sent to whom", "Operations", "Heartbeats"):
        assert f"<h2>{title}</h2>" in page
    assert "\nmessages   " in succeed("report", out)


def test_a_run_without_messages_says_nothing_of_them(tmp_path: Path) -> None:
    succeed("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--engine", "serial")
    assert json.loads(succeed("report", tmp_path / "out", "--json"))["messages"] is None
    refused = call(
        "run", "stats", ANATOMICAL, "-o", tmp_path / "b", "--engine", "mpi", "--record-messages"
    )
    assert refused.code == 2
    assert "--record-messages: is for --engine dask-bag or " in refused.err


def test_a_program_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    required(dask.missing())
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    command = ("--", sys.executable, "program.py")
    done = call("netlab", "record", "-o", "kept", *command)
    assert done.code == 5, done.err
    assert "compute-task" in done.out
    assert done.out.endswith("messages   kept/messages.parquet\n")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["messages.parquet"]
    traffic = Traffic.load(tmp_path / "kept" / "messages.parquet")
    assert "register-worker" in traffic.operations
    again = call("netlab", "record", "-o", "kept", *command)
    assert again.code == 2
    assert "-o kept: is not empty" in again.err


def test_programs_without_dask(tmp_path: Path) -> None:
    silent = call("netlab", "record", "-o", tmp_path / "a", "--", sys.executable, "-c", "pass")
    assert silent.code == 1
    assert "no process of Dask has recorded anything" in silent.err
    missing = call("netlab", "record", "-o", tmp_path / "b", "--", "no-such-program")
    assert missing.code == 2
    assert "no-such-program: there is no such program" in missing.err


def test_what_recorders_of_several_hosts_have_written(tmp_path: Path) -> None:
    """Each in a folder of its own, one of which is named twice."""
    said = '"from_ns":5,"ways":[[1,"10.0.0.1:1","10.0.0.2:2"]]'
    heard = '"from_ns":6,"ways":[[0,"10.0.0.2:2","10.0.0.1:1"]]'
    row = '"said":[[["identity",1]]],"rows":[[0],[0],[0],[100]]'
    for host, role, way in (("a", "scheduler", said), ("b", "worker 0", heard)):
        (tmp_path / host).mkdir()
        lines = f'{{"host":"{host}","pid":1}}\n{{"roles":{{"":"{role}"}},{way},{row}}}\n{{'
        (tmp_path / host / f"{host}-1-00.jsonl").write_text(lines)
    folders = (tmp_path / "a", tmp_path / "b", tmp_path / "a")
    out = tmp_path / "m.parquet"
    done = succeed("netlab", "gather", *folders, "-o", out)
    assert "note       b-1-00.jsonl ends in the middle of a line" in done
    assert done.endswith(f"messages   {out}\n")
    assert len(Traffic.load(out)) == 2
    told = json.loads(succeed("netlab", "gather", *folders, "-o", out, "--json"))["messages"]
    (pair,) = told["pairs"]
    assert (pair["source"], pair["target"], pair["messages"]) == ("scheduler", "worker 0", 1)
    (tmp_path / "a" / "other.jsonl").write_text('["no message"]\n')
    for folder, why in (("a", "other.jsonl: has lines that no"), ("c", "there is no such folder")):
        refused = call("netlab", "gather", tmp_path / folder, "-o", out)
        assert refused.code == 2
        assert why in refused.err


def test_a_capture(tmp_path: Path) -> None:
    path = tmp_path / "f.pcap"
    said = [(True, made.message({"op": "identity"})), (False, made.message({"id": "s"}, b"x" * 99))]
    path.write_bytes(made.classic(made.framed(made.talk(said)), 1)[:-20])
    done = succeed("netlab", "decode", path, "-o", tmp_path / "m.parquet")
    assert "2 messages" in done
    assert "reply:identity" in done
    assert "not read   0 B of no message" in done
    assert "note       the file is cut or damaged" in done
    told = json.loads(succeed("netlab", "decode", path, "--json"))
    assert told["packets"]["TCP"] == 5
    assert [pair["source"] for pair in told["messages"]["pairs"]] == ["10.0.0.1", "10.0.0.2"]
    assert np.array_equal(
        Traffic.load(tmp_path / "m.parquet").columns["nbytes"],
        [len(content) for _, content in said],
    )


def test_what_is_no_capture() -> None:
    for arguments, said in (
        ("netlab decode no.pcap", "no.pcap: there is no such file"),
        (f"netlab decode {ANATOMICAL}", "is no capture"),
        ("netlab decoded", "did you mean 'decode'?"),
    ):
        done = call(*shlex.split(arguments))
        assert done.code == 2
        assert said in done.err
