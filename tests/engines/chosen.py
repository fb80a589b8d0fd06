"""Parts of the suite: what is the same code on every engine is played on few of them."""

from __future__ import annotations

BLOCKS = (
    "test_blocks_are_the_same_whatever_the_workers[nii-usual]",
    "test_blocks_are_the_same_whatever_the_workers[nii-more]",
)
"""What shows that an engine runs maps, on workers of one thread and of several, and single steps of
them; `threads` also has a single worker. Maps of other engines are compared value by value where
something else happens to them: test_toy.py, test_gnu_parallel.py, test_slurm.py, test_connect.py,
and tests/system/faults.
"""

BEGUN = (
    "test_reductions_are_exact_for_integers[slabs]",
    "test_every_phase_is_in_the_trace[fused]",
)
"""What shows that an engine runs reductions and maps, where all else is the code of another one;
`serial` and `threads` reduce blocks of other shapes, too. The toy is started as `gnu-parallel` is.
"""

STEPS = ("test_every_phase_is_in_the_trace[stepwise]",)
"""What shows that an engine hands out single steps of tasks, as Dask's graphs do. Jobs of GNU
Parallel that are single tasks have tests of their own; elsewhere a slot does one step after the
other by the same code, which `serial`, `threads` and BLOCKS show.
"""

ENDED = (
    "test_a_resumed_run_repeats_only_what_is_missing[cancel-reduce]",
    "test_a_command_that_is_late_ends_with_all_that_it_has_started",
)
"""How engines of batches give up what is under way, and go on. That Ctrl-C ends a map is shown
by tests/system/faults of engines whose jobs are programs, and by `dask-bag`.
"""

DIFFERING = (*BEGUN, *ENDED)
"How engines of batches differ: in their graphs or jobs, and in how these are given up."

JOBS = ("test_reductions_are_exact_for_integers[slabs]", *ENDED)
"""The same of engines whose jobs are programs: the phases of tasks come into the trace as those of
the toy do.
"""

OWN_TREE = (*DIFFERING, "test_a_fold_that_fails_says_so")
"The same as DIFFERING, of an engine of batches whose tree of merges is its own."

HANDED_OUT = (
    *OWN_TREE,
    "test_folds_with_a_prior",
    "test_a_bad_block_fails_alone",
    "test_a_time_limit_is_honoured_or_refused",
    "test_what_cannot_be_sent_is_refused_before_the_start",
)
"""What engines do that hand out tasks themselves: tasks, merges, losses, ends. That what has failed
is tried again is seen where it fails again.
"""

OWN = (
    *BLOCKS,
    *HANDED_OUT,
    "test_idle_slots_are_in_the_trace",
    "test_a_resumed_run_repeats_only_what_is_missing[ctrl-c-map]",
)
"""All that engines do by code of their own. That all tasks are in the journal is what a run that is
resumed shows.

What is left are blocks that tasks read, change and write by the same code wherever they run
(`hyperslab.plan.steps`): those tests are played on `serial` and `threads`; how functions, blocks
and values travel to other processes is in the tests above.
"""
