"""Not tried: claims of papers that no experiment judges, each with the reason."""

from __future__ import annotations

from hyperslab.apps.experiment.claims.claim import Claim, untestable

OF_ENGINES = (
    Claim(
        "With few blocks overhead is an artefact: threads without a task count.",
        "",
        untestable("Overhead is that of slots here, of which each counts once, and no thread."),
        "30 blocks on 64 threads (in its text)",
    ),
    Claim(
        "Participants of a BIDS App take unequal times, as they have unequal numbers of sessions.",
        "",
        untestable("The dataset is made with unequal numbers of sessions: it would be by design."),
        "seen on Gantt charts, no number (Fig. 15)",
    ),
    Claim(
        "Dask spills from 60 % of its memory on and pauses at 80 %, Spark gives 60 % to its data.",
        "",
        untestable("No experiment fills the memory of workers."),
        "60, 70, 80 and 95 % on Dask, 60 and 50 % on Spark (in its text)",
    ),
    Claim(
        "What is spilled loads the shared file system.",
        "",
        untestable("No experiment fills the memory of workers."),
        "no number (in its text)",
    ),
    Claim(
        "Shuffles move little: 2.62 MB for each block of a histogram, 8.6 GB in a BIDS App.",
        "",
        untestable("No experiment counts the bytes that engines send between workers."),
        "2.62 MB a block, 3,491 images of 2.47 MB (in its text)",
    ),
)
"Claims on Dask and Spark."
OF_TIERS = (
    Claim(
        "One stream reads 5.2 GB/s from memory, 3.3 GB/s from persistent memory, 518 MB/s from a"
        " disk, 117 MB/s from a network file system.",
        "",
        untestable(
            "Emulated tiers have the rates that they are asked for; `hyperslab probe` measures"
            " those of yours."
        ),
        "3.3, 2.3, 0.24 and 0.11 GB/s of writing (Table I)",
    ),
    Claim(
        "Opening files takes longer on a local disk than in memory.",
        "",
        untestable("It needs a real disk: an emulated tier opens files as its backing does."),
        "ssd/dram 90 (Fig. 1b)",
    ),
    Claim(
        "Gaps between reading and writing on a network file system come from logs of tasks.",
        "",
        untestable("No experiment has tasks write such logs."),
        "seen on Gantt charts, no number (in its text)",
    ),
    Claim(
        "Garbage of Java is collected for longer in Memory mode than in App Direct mode.",
        "",
        untestable("It needs a machine with persistent memory."),
        "no number (in its text on Spark)",
    ),
    Claim(
        "Processes that are not pinned to a NUMA node are slower.",
        "",
        untestable("It needs a machine of several NUMA nodes."),
        "no number; suspected (in its text)",
    ),
    Claim(
        "A disk that fills up loses the last blocks of a run.",
        "",
        untestable("No trial fills its disk: `run` refuses to begin where there is no room."),
        "366 to 370 of 375 blocks on the local disk (recomputed)",
    ),
    Claim(
        "Write back while writes fit in memory that is left, and write through else.",
        "",
        untestable("It follows from the four claims on write-back, each of which is judged."),
        "no number; advice of its discussion",
    ),
)
"Claims on storage tiers."
