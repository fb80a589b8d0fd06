"""`hyperslab netlab`: what it says, and where it cannot work."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from hyperslab.cli import main
from hyperslab.cli.netlab import CUT
from hyperslab.errors import MissingExtra, UsageError
from hyperslab.machine.host import boot_id
from hyperslab.network.lab import registry
from hyperslab.network.lab.backends import choosing, emulator, kernel
from hyperslab.network.lab.link import Link
from tests.network.lab.labs import LAB, require

PROGRAM = str(Path(sys.executable).with_name("hyperslab"))
SPEC = """
name = "{name}"
backend = "kernel"
tolerance = 0.5
[nodes.scheduler]
[nodes.w1]
rate = "100Mbit"
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A laboratory that the command has made, and what it said."""
    require("kernel")
    path = tmp_path_factory.mktemp("specs") / "two.toml"
    path.write_text(SPEC.format(name="two"))
    yield told("up", str(path))
    assert "removed the laboratory 'two'" in told("down", "two")
    assert told("status") == "there are no laboratories here\n"


def netlab(*words: str) -> tuple[int, str, str]:
    """Run the command in this process: its exit status, and what it prints and says."""
    printed = io.StringIO()
    said = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said), pytest.raises(SystemExit) as ended:
        main(["netlab", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code, printed.getvalue(), said.getvalue()


def told(*words: str) -> str:
    """What the command prints where all is well."""
    code, printed, said = netlab(*words)
    assert (code, said) == (0, "")
    return printed


def executed(*words: str, stdin: str = "") -> tuple[int, str]:
    """Run a command in a node: its exit status, and what it prints."""
    done = subprocess.run(
        [PROGRAM, "netlab", "exec", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout


def test_up_says_what_was_measured_and_what_to_do_next(up: str) -> None:
    lines = up.splitlines()
    assert lines[0].startswith("'two' is up on 198.18.")
    assert "backend kernel" in lines[0]
    assert any(line.split()[:3] == ["w1", "rate", "up"] for line in lines)
    assert "'hyperslab netlab down two' takes the laboratory away" in lines[-1]


def test_a_command_runs_in_a_node(up: str) -> None:
    script = "uname -n; cat; exit 7"
    assert executed("w1", "sh", "-c", script, stdin="from outside\n") == (7, "w1\nfrom outside\n")
    words = ("--lab", "two", "scheduler", "--", "echo", "--debug", "--lab")
    assert executed(*words) == (0, "--debug --lab\n")


def test_a_program_that_is_not_there_is_told(up: str) -> None:
    words = [PROGRAM, "netlab", "exec", "w1", "no-such-program"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.startswith("hyperslab: ")
    assert "no-such-program: not found" in done.stderr


def test_a_link_is_changed_by_one_call(up: str) -> None:
    assert told("set", "w1", "--rate", "20Mbit", "--loss", "0.1") == (
        f"w1: sends 20 Mbit/s, loss 10 %; receives 20 Mbit/s\n{CUT}\n"
    )
    said = told("set", "w1", "--rate", "none", "--direction", "down", "--lab", "two")
    assert said == "w1: sends 20 Mbit/s, loss 10 %; receives not limited\n"
    told("set", "w1", "--rate", "none", "--loss", "0")
    assert told("set", "w1", "--rate", "20Mbit", "--direction", "up", "--loss", "0.1") == (
        "w1: sends 20 Mbit/s, loss 10 %; receives not limited\n"
    )
    assert "w1: changed since it was measured" in told("status")
    (lab,) = json.loads(told("status", "--json"))
    assert lab["state"] == "up"
    assert lab["nodes"][1]["up"]["rate_bits"] == 20_000_000
    assert lab["carried"]["links"]["w1"]["up"]["nbytes"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "w1"), "give one of --rate, --delay, --jitter, --loss and --reorder"),
        (
            ("set", "w1", "--delay", "5ms"),
            'do not delay packets (no netem); make it anew with backend = "netem" or "emulator"',
        ),
        (("set", "w1", "--loss", "1.5"), "--loss: should be less than 1, not 1.5"),
        (("set", "w1", "--loss", "0", "--direction", "in"), "--direction in: give up or down"),
        (("set", "schedule", "--loss", "0"), "no such node (did you mean 'scheduler'?)"),
        (("exec", "w2", "true"), "it has scheduler and w1"),
        (("exec", "--lab", "tow", "w1", "true"), "no such laboratory (did you mean 'two'?)"),
        (("exec", "w1", "--"), "give a command after the node"),
        (("down", "three"), "three: there is no such laboratory; here: two"),
        (("up", "none.toml"), "none.toml: No such file or directory"),
        (("upp",), "netlab upp: there is no such verb (did you mean 'up'?)"),
    ],
)
def test_mistakes_are_told(up: str, words: tuple[str, ...], said: str) -> None:
    code, printed, complaint = netlab(*words)
    assert (code, printed) == (2, "")
    assert said in complaint
    assert complaint.count("\n") == 1


def test_what_has_died_is_told_and_removed(up: str, tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text(SPEC.format(name="broken"))
    told("up", str(tmp_path / "broken.toml"))
    subprocess.run(["umount", registry.folder() / "broken" / "w1.net"], check=True)
    code, _, said = netlab("exec", "--lab", "broken", "w1", "true")
    assert code == 1
    assert said.startswith("hyperslab: 'broken' has lost w1: 'hyperslab netlab down broken'")
    _, _, said = netlab("exec", "w1", "true")
    assert said == "hyperslab: there are several laboratories, broken and two: name one\n"
    half = registry.owned(registry.find("broken"))
    registry.record(replace(half, is_complete=False, owner_started=1))
    assert "'broken' is half-made" in told("status")
    _, _, said = netlab("up", str(tmp_path / "broken.toml"))
    assert "a laboratory 'broken' was left here, half-made: 'hyperslab netlab down broken'" in said
    assert "removed the laboratory 'broken'" in told("down", "broken")


def test_what_somebody_uses_keeps_no_other_laboratory() -> None:
    """Those of which a process is alive are left, and all others go."""
    require("kernel")
    for name, is_left in (("left-1", True), ("used", False), ("left-2", True)):
        lab = replace(LAB, name=name, folder=str(registry.folder() / name), boot=boot_id())
        owned = registry.owned(replace(lab, mounts=registry.mounts_here()))
        registry.record(replace(owned, owner_started=1) if is_left else owned)
    code, printed, said = netlab("down", "left-1", "used", "left-2")
    assert code == 2
    gone = ["removed the laboratory 'left-1'", "removed the laboratory 'left-2'"]
    assert printed.splitlines() == gone
    assert f"process {os.getpid()} makes or uses 'used': wait for it, or give --force" in said
    assert "'used'" in told("down", "used", "--force")


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for words in (("status",), ("down",), ("exec", "w1", "true"), ("set", "w1", "--loss", "0")):
        code, printed, said = netlab(*words)
        assert (code, printed) == (2, "")
        assert said.startswith("hyperslab: a laboratory needs namespaces: run the command as root")


def test_without_what_it_needs_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(choosing, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"needs pyroute2: pip install 'hyperslab\[netlab\]'"):
        choosing.require_means()
    monkeypatch.setattr(choosing, "find_spec", lambda name: name)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(UsageError, match="needs nsenter: install the Debian package util-linux"):
        choosing.require_means()
    assert kernel.missing() == "the program nft is missing: install the Debian package nftables"
    monkeypatch.setattr(emulator, "TUN", Path("/nowhere/tun"))
    assert emulator.missing().startswith("there is no /nowhere/tun: load the kernel's module")


def test_where_laboratories_cannot_be_made_their_tests_fail_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Elsewhere they are skipped."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nothing may be skipped"):
        require("kernel")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="run the command as root"):
        require("kernel")


def test_each_backend_is_named_where_none_can_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = dict(choosing.BACKENDS)
    for name, why in (("netem", "the kernel has no netem"), ("emulator", "there is no TUN")):
        monkeypatch.setattr(backends[name], "missing", lambda said=why: said)
    with pytest.raises(UsageError) as raised:
        choosing.choose("auto", [Link(delay_ns=1)], "gso")
    assert str(raised.value) == (
        "no backend can make these links here: netem: the kernel has no netem; kernel: the kernel's"
        " queues here do not delay packets (no netem); emulator: there is no TUN"
    )
    monkeypatch.setattr(backends["kernel"], "missing", lambda: "")
    assert choosing.choose("auto", [Link(rate_bits=10**6)], "gso") == "kernel"
    monkeypatch.setattr(backends["netem"], "missing", lambda: "")
    assert choosing.choose("auto", [Link(delay_ns=1)], "gso") == "netem"
    with pytest.raises(UsageError, match='backend = "emulator": there is no TUN'):
        choosing.choose("emulator", [Link()], "gso")


def test_doctor_says_which_backends_can_be_used() -> None:
    done = subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, check=True)
    links = {one["backend"]: one for one in json.loads(done.stdout)["links"]}
    assert list(links) == ["netem", "kernel", "emulator"]
    require("kernel")
    assert links["kernel"]["state"] == "can be used"
    assert links["netem"]["state"] == "not asked"
