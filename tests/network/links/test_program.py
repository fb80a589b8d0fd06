"""The program behind links: what it takes along when it ends, and what it refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.network.links.namespaces import ip, namespaces
from tests.network.links.switched import command, config, end, mac, program, start, switched
from tests.system.faults.command import await_that


def test_a_device_that_somebody_removes_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with switched(tmp_path, "exact") as one:
        ip("-n", one.nodes[1].name, "link", "delete", "eth0")
        before = one.get()
        time.sleep(0.3)
        after = one.get()
    assert after["cpu_ns"] - before["cpu_ns"] < 0.1e9, "it waits, and does not try again and again"
    assert capfd.readouterr().err == 'the device "eth0" of port "n1" was removed\n'


def test_it_ends_by_a_signal_and_takes_its_devices_along(tmp_path: Path) -> None:
    program()
    with namespaces(1) as nodes:
        process = start(tmp_path, config(nodes, "gso"))
        shown = devices(nodes[0])
        assert f"link/ether {mac(0)}" in shown
        assert "qlen 1000" in shown
        process.send_signal(signal.SIGTERM)
        end(process)
        assert "eth0" not in devices(nodes[0])
    assert sorted(os.listdir(tmp_path)) == ["links.json"]


PARENT = """
import sys, time
from pathlib import Path
from tests.network.links.switched import config, start
process = start(Path(sys.argv[1]), config([Path(sys.argv[2])], "exact"))
print(process.pid, flush=True)
time.sleep(1000)
"""


def test_it_ends_with_whoever_has_started_it(tmp_path: Path) -> None:
    program()
    with namespaces(1) as nodes:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(tmp_path), str(nodes[0])],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
        )
        assert parent.stdout is not None
        with parent.stdout as told:
            pid = int(told.readline())
        assert "eth0" in devices(nodes[0])
        parent.kill()
        parent.wait()
        await_that(f"the end of process {pid}", lambda: "eth0" not in devices(nodes[0]))


def devices(node: Path) -> str:
    """What ip shows of the devices of a node."""
    done = subprocess.run(
        ["ip", "-n", node.name, "link", "show"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_what_cannot_be_made_is_refused(tmp_path: Path) -> None:
    program()
    with namespaces(1) as nodes:
        good = config(nodes, "gso")
        ip("-n", nodes[0].name, "tuntap", "add", "eth0", "mode", "tap")
        assert "it cannot be made: " in refusal(tmp_path, good)
        ip("-n", nodes[0].name, "tuntap", "delete", "eth0", "mode", "tap")
        (tmp_path / "control").touch()
        assert "control cannot be made: Address already in use" in refusal(tmp_path, good)
        assert "eth0" not in devices(nodes[0])
    assert f"{nodes[0]} cannot be opened: No such file" in refusal(tmp_path, good)
    lossy = config(nodes, "gso", up={"loss": 0.1})
    assert 'port "n0", up: loss and reorder are of single packets' in refusal(tmp_path, lossy)
    assert "links.json: missing field `mode`" in refusal(tmp_path, {})
    wrong = subprocess.run([program(), "links.json"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "see --help" in wrong.stderr


def refusal(folder: Path, told: object) -> str:
    """What the program says that does not start."""
    process = subprocess.run(
        command(folder, told),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (1, "")
    return process.stderr
