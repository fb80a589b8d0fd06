"""Parts of the suite: what is the same code on every engine is played on few of them."""

from __future__ import annotations

FEWEST = (
    "test_blocks_are_the_same_whatever_the_workers",
    "test_reductions_are_exact_for_integers",
    "test_every_phase_is_in_the_trace",
)
"""What shows that an engine runs maps, reductions and single steps, where all else is the code of
another one: the toy is started as `gnu-parallel` is, and `processes` with threads as without.
"""

DIFFERING = (
    *FEWEST,
    "test_a_resumed_run_repeats_only_what_is_missing",
    "test_a_command_that_is_late_ends_with_all_that_it_has_started",
)
"""What shows how engines of batches differ: in the graph of a map, of a reduction, and of single
steps, and in how it is given up. `dask-bag` plays all that is of their own.
"""

OWN_TREE = (*DIFFERING, "test_a_fold_that_fails_says_so")
"The same, of an engine of batches whose tree of merges is its own."

OWN = (
    *DIFFERING,
    "test_folds_with_a_prior",
    "test_a_bad_block_fails_alone",
    "test_idle_slots_are_in_the_trace",
    "test_the_journal_and_the_manifest_are_complete",
    "test_a_failure_that_passes_is_tried_again",
    "test_a_time_limit_is_honoured_or_refused",
    "test_what_cannot_be_sent_is_refused_before_the_start",
    "test_a_fold_that_fails_says_so",
)
"""What engines do by code of their own: hand out tasks and steps, merge, lose, end and record.

What is left are blocks that tasks read, change and write by the same code wherever they run
(`hyperslab.plan.steps`): those tests are played on `serial` and `threads`; how functions, blocks
and values travel to other processes is in the tests above.
"""
