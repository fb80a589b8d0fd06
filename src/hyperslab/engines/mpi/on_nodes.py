"""MPI on nodes: ranks on hosts that are given, which the driver's own mpiexec starts by a program
that enters them.
"""

from __future__ import annotations

import shlex

from hyperslab.engines.mpi import mpiexec
from hyperslab.engines.nodes import NodeCluster, Nodes
from hyperslab.errors import UsageError

LAUNCHER = "enter-node"
"Name of the program that Hydra calls as it would call rsh: with a host, and words of a command."
VARIABLES = {"FI_PROVIDER": "tcp"}
"Variables by which MPICH takes the network, and none of a faster way that the host may have."


def cluster_on(nodes: Nodes) -> NodeCluster:
    """How the driver starts ranks on the nodes. Raises UsageError for an mpiexec that cannot."""
    words = mpiexec.command()
    if mpiexec.launcher(words[0]) != mpiexec.MPICH:
        raise UsageError(
            f"--netlab: {words[0]} is not of MPICH, whose mpiexec can be told how a node is"
            f" entered: pip install mpich, or name another one in {mpiexec.VARIABLE}"
        )
    program = f"{nodes.folder}/{LAUNCHER}"
    hosts = ",".join(f"{name}:1" for name in nodes.workers)
    command = [*words, "-launcher", "rsh", "-launcher-exec", program, "-hosts", hosts]
    return NodeCluster(
        commands=(),
        check=("true",),
        arguments=("--workers", str(len(nodes.workers)), "--threads", str(nodes.threads)),
        environment={mpiexec.VARIABLE: shlex.join(command), **VARIABLES},
        programs={LAUNCHER: _launcher(nodes)},
    )


def _launcher(nodes: Nodes) -> str:
    """A program that runs a command on the node that it is told."""
    cases = "".join(
        f'{shlex.quote(name)}) exec {shlex.join(words)} sh -c "$*" ;;\n'
        for name, words in nodes.prefixes.items()
    )
    return f'#!/bin/sh\nnode=$1\nshift\ncase "$node" in\n{cases}esac\nexit 127\n'
