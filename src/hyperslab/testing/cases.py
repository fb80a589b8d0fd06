"""Cases that the suite of engines tries: all of them on one engine, a few on each."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.arrays.partition import Rule

RULES = {
    "auto": Rule(),
    "blocks": Rule("blocks", (7,)),
    "grid": Rule("blocks", (3, 1, 4)),
    "block-shape": Rule("block-shape", (7, 20, 5)),
    "slabs": Rule("slabs"),
    "axes-whole": Rule("slabs", axes_whole=(2, 0)),
    "bytes": Rule("bytes", (1000,)),
}
BY_DEED = {
    "raise": ("ValueError: this block is not to my liking", 2),
    "exit": (r"the function called sys.exit\(3\)", 2),
    "shape": (r"misbehave returned a block of shape \(1, 10, 9\)", 1),
    "dtype": ("misbehave returned complex64, not uint16", 1),
}
"Message and number of attempts per deed: another one cannot mend a wrong shape."
ENDS = (
    "failure-map",
    "failure-reduce",
    "ctrl-c-map",
    "ctrl-c-reduce",
    "cancel-map",
    "cancel-reduce",
)
"Ways in which a run ends early, each of a map and of a reduction."
CREWS = ("usual", "alone", "more")
CUTS = ("auto", "slabs", "bytes")
WAYS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "rule": (tuple(RULES), ("auto", "grid", "bytes")),
    "format": (("nii", "nii.gz", "h5"), ("nii",)),
    "crew": (CREWS, ("usual", "more")),
    "cut": (CUTS, CUTS),
    "boundary": (("reflect", "nearest", "constant"), ("reflect",)),
    "deed": (tuple(BY_DEED), ("raise",)),
    "end": (ENDS, ("ctrl-c-map", "cancel-reduce")),
}
"Every way per argument of a test, and the few that show whether an engine does its part."
