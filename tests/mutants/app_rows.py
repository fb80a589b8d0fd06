"""Lines of applications, captures, scratch and accounts that are broken one at a time, and the test
that notices each.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

APPS = [
    # BIDS
    Mutant(
        "a second flag of labels drops those of the first",
        "src/hyperslab/cli/bids_front.py",
        '"action": "extend"',
        '"action": "store"',
        "tests/apps/bids/test_running.py::test_flags_of_labels_add_up",
    ),
    Mutant(
        "the volume of an earlier image counts",
        "src/hyperslab/apps/bids/group.py",
        "return bool(ends) and not any(ends)",
        "return False",
        "tests/apps/bids/test_group.py::test_who_was_done_and_has_failed_since",
    ),
    Mutant(
        "results of another dataset are replaced",
        "src/hyperslab/plan/commanded.py",
        "fingerprint=_digest(asked | _of_origin(end)),",
        "fingerprint=_digest(asked),",
        "tests/apps/bids/test_going_on.py::test_another_dataset",
    ),
    Mutant(
        "nobody is told whose file is gone",
        "src/hyperslab/driver/unkept.py",
        "if other != checksum]",
        "if other is None]",
        "tests/apps/bids/test_shared_names.py::test_a_shared_name_with_other_contents_is_told",
    ),
    Mutant(
        "lines of .bidsignore that are there are replaced",
        "src/hyperslab/apps/bids/described.py",
        "text is not None and speakers.isdisjoint((DRIVER, GROUP))",
        "text is None",
        "tests/apps/bids/test_running.py::test_a_folder_with_hidden_files_alone",
    ),
    Mutant(
        "what a failed command has left is removed",
        "src/hyperslab/plan/executing.py",
        "if commands.kept and isinstance(error, CommandFailed) and not is_of_tier:",
        "if commands.kept and is_of_tier:",
        "tests/apps/commands/test_kept.py::test_what_each_attempt_has_left",
    ),
    Mutant(
        "two calls work on one participant",
        "src/hyperslab/driver/calls.py",
        "free = _free(directory, purpose.wanted, taken, left)",
        "free = _free(directory, purpose.wanted, [], left)",
        "tests/apps/bids/test_at_once.py::test_the_same_participant_at_the_same_time",
    ),
    Mutant(
        "what is on its way to storage has a name",
        "src/hyperslab/driver/publishing.py",
        "if not is_synced:",
        "if is_synced:",
        "tests/driver/test_publishing.py::test_a_file_is_on_storage_before_it_has_its_name",
    ),
    Mutant(
        "a whole is free before its records are",
        "src/hyperslab/driver/calls.py",
        """    claims.give_back(hand.directory.call)
    for one in hand.wanted:
""",
        """    for one in hand.wanted:
        claims.give_back(one.name)
    claims.give_back(hand.directory.call)
    for one in hand.wanted:
""",
        "tests/driver/test_calls.py::test_who_finds_a_whole_free_finds_what_was_done_of_it",
    ),
    Mutant(
        "a call reads what concerns others",
        "src/hyperslab/driver/calls.py",
        "before = ledger.concerning(one.name for one in purpose.wanted)",
        "before = ledger.concerning(ledger.tried)",
        "tests/apps/bids/test_at_once.py::test_calls_read_what_concerns_them",
    ),
    Mutant(
        "what a group level has made before stays",
        "src/hyperslab/driver/later.py",
        "        if label in here:",
        "        if do_count and label in here:",
        "tests/apps/bids/test_running.py::test_a_group_level_that_makes_less_than_before",
    ),
    Mutant(
        "a group level rests on results that were replaced since",
        "src/hyperslab/driver/later.py",
        "        if is_done_since:",
        "        if not of_each:",
        "tests/apps/bids/test_gathering.py::test_both_levels_after_somebody_was_done_again",
    ),
    Mutant(
        "a participant whose files are gone begins beside a group level",
        "src/hyperslab/apps/bids/gathering.py",
        "done=prepared.done | ids, damaged=0",
        "done=prepared.done, damaged=0",
        "tests/apps/bids/test_gathering.py::test_results_that_are_gone_for_a_while",
    ),
    Mutant(
        "a unit that no run has come to is not missed",
        "src/hyperslab/apps/bids/earlier.py",
        "            tried.setdefault(label, False)",
        "            tried.setdefault(label, True)",
        "tests/apps/bids/test_gathering.py::test_a_session_that_no_run_came_to",
    ),
    Mutant(
        "a group level leaves what a killed one has made, and removes what others have",
        "src/hyperslab/driver/unnamed.py",
        "if max(own, ~own) >= first}",
        "if max(own, ~own) < first}",
        "tests/driver/test_unnamed.py::test_a_group_level_removes_what_a_killed_one_has_made",
    ),
    Mutant(
        "a link into an image fails a task",
        "src/hyperslab/plan/collecting.py",
        "if mounted[0] and _is_absolute_link(path):",
        "if not mounted:",
        "tests/apps/commands/test_command_links.py::test_links_in_a_container",
    ),
    Mutant(
        "the label 1 chooses participant 10",
        "src/hyperslab/apps/bids/wanted.py",
        "if one.label in left]",
        "if one.label.startswith(tuple(left))]",
        "tests/apps/bids/test_dataset.py::test_labels_are_compared_as_a_whole",
    ),
    Mutant(
        "a participant counts once for every image",
        "src/hyperslab/apps/bids/group.py",
        "of.setdefault(one.participant, [])",
        "of.setdefault(one.image, [])",
        "tests/apps/bids/test_app.py::test_the_group_level",
    ),
    Mutant(
        "an input that was touched repeats its task",
        "src/hyperslab/driver/resume.py",
        "if command is None or not holds(there, command):",
        "if command is None or holds:",
        "tests/apps/commands/test_touched.py::test_what_was_touched_is_not_done_again",
    ),
    Mutant(
        "other bytes of the same size are what they were",
        "src/hyperslab/driver/touched.py",
        "return known == checksum(command.inputs, self._digest)",
        "return True",
        "tests/apps/commands/test_touched.py::test_what_was_touched_is_not_done_again",
    ),
    Mutant(
        "inputs that were touched are read one by one",
        "src/hyperslab/driver/touched.py",
        "ThreadPoolExecutor(min(threads, len(paths)))",
        "ThreadPoolExecutor(1)",
        "tests/apps/commands/test_touched.py::test_inputs_are_read_several_at_a_time",
    ),
    Mutant(
        "each task tries what takes too long",
        "src/hyperslab/plan/unread.py",
        "if known_s is not None and left_s <= AGAIN * known_s:",
        "if known_s is not None and left_s < known_s:",
        "tests/apps/commands/test_touched.py::test_what_takes_too_long_is_given_up_once",
    ),
    Mutant(
        "what an app says of its dataset is a result",
        "src/hyperslab/plan/executing.py",
        "if written.path not in command.statements)",
        ")",
        "tests/apps/bids/test_described.py::test_both_levels_describe_the_dataset",
    ),
    Mutant(
        "what another call says of a dataset meanwhile is lost",
        "src/hyperslab/apps/bids/described.py",
        "while before != (now := said_of(directory, site)):",
        "if before != (now := said_of(directory, site)):",
        "tests/apps/bids/test_described.py::test_what_another_call_says_meanwhile_is_not_lost",
    ),
    Mutant(
        "a command waits for all of its time",
        "src/hyperslab/plan/command.py",
        "self.real_s - self.user_s - self.system_s",
        "self.real_s",
        "tests/apps/commands/test_commands.py::test_io_wait_is_real_time_less_that_of_processors",
    ),
    Mutant(
        "a group level finds no description of what participants have left",
        "src/hyperslab/driver/run.py",
        "                stage.conclude()\n",
        "",
        "tests/apps/bids/test_running.py::test_both_levels_of_a_command",
    ),
    Mutant(
        "FSL is given a name with a blank",
        "src/hyperslab/apps/bids/fsl.py",
        "[PROGRAM, head.name,",
        "[PROGRAM, str(head),",
        "tests/apps/bids/test_brain.py::test_fsl_where_it_is_on_the_path",
    ),
    Mutant(
        "scratch of a BIDS App is not where it is asked for",
        "src/hyperslab/cli/bids_front.py",
        'line += ["--work-tier", known.work_dir]',
        "line += []",
        "tests/apps/bids/test_running.py::test_the_words_of_bids_apps",
    ),
    Mutant(
        "a BIDS App runs as many at a time as it likes",
        "src/hyperslab/cli/bids_front.py",
        'line += ["--workers", str(known.nprocs)]',
        "line += []",
        "tests/apps/bids/test_running.py::test_the_words_of_bids_apps",
    ),
    Mutant(
        "the group goes on without those that have no result",
        "src/hyperslab/apps/bids/group.py",
        "if missing and not allow_missing:",
        "if missing and not is_any:",
        "tests/apps/bids/test_app.py::test_the_group_level_refuses_what_is_not_complete",
    ),
    Mutant(
        "an empty image is whole",
        "src/hyperslab/apps/bids/content.py",
        "if found.st_size == 0:",
        "if found.st_size < 0:",
        "tests/apps/bids/test_dataset.py::test_images_that_are_not_whole",
    ),
    Mutant(
        "the script of a shell holds values as they are",
        "src/hyperslab/apps/bids/template.py",
        "script = script_place(words)",
        "script = None",
        "tests/apps/bids/test_app.py::test_values_in_the_script_of_a_shell_are_quoted",
    ),
    # experiments
    Mutant(
        "every replicate has its trials in one order",
        "src/hyperslab/apps/experiment/design.py",
        'random.Random(f"{spec.seed} {replicate}")',
        'random.Random(f"{spec.seed}")',
        "tests/apps/experiment/test_design.py"
        "::test_trials_are_blocked_by_replicate_and_shuffled_by_the_seed",
    ),
    Mutant(
        "the stronger of two one-sided tests tells that cells are equivalent",
        "src/hyperslab/apps/experiment/significance.py",
        "return max(above, below)",
        "return min(above, below)",
        "tests/apps/experiment/test_intervals.py::test_equivalence_is_what_two_one_sided_tests_say",
    ),
    Mutant(
        "a difference within the margin is taken for one beyond it",
        "src/hyperslab/apps/experiment/significance.py",
        "return min(1.0, _above(differences, margin) + _above(differences, -margin))",
        "return min(1.0, 2 * _above(differences, 0.0))",
        "tests/apps/experiment/test_claims.py"
        "::test_a_difference_refutes_equivalence_beyond_the_margin_alone",
    ),
    Mutant(
        "files that a glob names stay in the page cache",
        "src/hyperslab/apps/experiment/inputs.py",
        "if setting.recipe is None:",
        "if False:",
        "tests/apps/experiment/test_inputs.py::test_globs_lists_and_folders_stand_for_their_files",
    ),
    Mutant(
        "slots wait for all that memory has no room for",
        "src/hyperslab/apps/experiment/model.py",
        "left = nbytes - _drained_nbytes(others, target, use)",
        "left = nbytes",
        "tests/apps/experiment/test_model.py::test_memory_takes_what_is_written_up_to_its_limit",
    ),
    Mutant(
        "a line that does not fit stays as far as it went",
        "src/hyperslab/apps/experiment/record.py",
        "os.ftruncate(fd, end)",
        "os.fsync(fd)",
        "tests/apps/experiment/test_record.py::test_a_line_that_does_not_fit_leaves_those_before",
    ),
    Mutant(
        "a starved trial stands for its cell",
        "src/hyperslab/apps/experiment/record.py",
        "if not attempt.starved and not attempt.rejected]",
        "if not attempt.rejected]",
        "tests/apps/experiment/test_runner.py"
        "::test_a_starved_trial_is_repeated_in_its_block_up_to_the_limit",
    ),
    Mutant(
        "a warm-up stands for a trial",
        "src/hyperslab/apps/experiment/record.py",
        "if not attempt.is_warm_up:",
        "if True:",
        "tests/apps/experiment/test_warming.py::test_warm_ups_count_for_nothing",
    ),
    Mutant(
        "rates of a probe are taken as exact",
        "src/hyperslab/apps/experiment/claims/law.py",
        "expected_s = self.expected_s.high if self.ratio > 1 else self.expected_s.low",
        "expected_s = self.expected_s.mean",
        "tests/apps/experiment/test_rates.py::test_equation_1_is_off_where_the_rates_say_so_too",
    ),
    Mutant(
        "a source has its name before it is on storage",
        "src/hyperslab/apps/experiment/inputs.py",
        "synchronise_tree(partial)",
        "pass",
        "tests/apps/experiment/test_inputs.py::test_a_source_is_on_storage_before_it_has_its_name",
    ),
    # trials in laboratories
    Mutant(
        "a trial that was bound by processors tells something of links",
        "src/hyperslab/apps/experiment/laboratory.py",
        "for why in (usage.bound, usage.starved) if why",
        "for why in (usage.starved,) if why",
        "tests/apps/experiment/test_laboratory.py::test_who_was_short_of_processors_tells_nothing_of_links",
    ),
    Mutant(
        "trials tell nothing of links and judge claims",
        "src/hyperslab/apps/experiment/runner.py",
        "rejected = untelling(usage)",
        'rejected = ""',
        "tests/apps/experiment/test_laboratory.py::test_a_trial_that_was_bound_by_processors_is_kept_out",
    ),
    Mutant(
        "links of two backends are compared",
        "src/hyperslab/apps/experiment/laboratory.py",
        "if before != means.backend:",
        "if not before:",
        "tests/apps/experiment/test_laboratory.py::test_backends_are_never_mixed",
    ),
    Mutant(
        "an emulator that was late is believed",
        "src/hyperslab/network/lab/reading.py",
        "if share > LATE_SHARE:",
        "if share > 1:",
        "tests/network/lab/test_reading.py::test_packets_that_were_late_are_told",
    ),
    # captures of packets
    Mutant(
        "the same ends meet once",
        "src/hyperslab/network/capture/decoding.py",
        "if known is None or known.is_another(segment):",
        "if known is None:",
        "tests/network/test_capture.py::test_the_same_ends_meet_again",
    ),
    Mutant(
        "a gap in a payload hides its message",
        "src/hyperslab/network/capture/framing.py",
        "inside = min(nbytes, self._left)",
        "inside = 0",
        "tests/network/test_capture.py::test_what_is_missing_in_a_payload_hides_no_message",
    ),
    # scratch
    Mutant(
        "commands leave temporary files beside their outputs though there is scratch",
        "src/hyperslab/cli/in_scratch.py",
        "if nbytes is None and not options.work_tier:",
        "if nbytes is None and options.work_tier:",
        "tests/system/end_to_end/test_scratch.py::test_commands_leave_temporary_files_there",
    ),
    Mutant(
        "records are missed where the variables are those of another host",
        "src/hyperslab/storage/runtime.py",
        "if os.path.isdir(runtime):",
        "if runtime:",
        "tests/engines/test_scratched.py::test_records_of_another_host_s_session_are_not_missed",
    ),
    Mutant(
        "an image whose maker has died stays",
        "src/hyperslab/storage/scratch/removing.py",
        "elif os.path.lexists(place):",
        "elif os.path.islink(place):",
        "tests/storage/scratch/test_deaths.py::test_an_image_that_was_never_mounted_is_swept",
    ),
    # operations on files
    Mutant(
        "an opening makes a file that is there",
        "src/hyperslab/storage/accounting/calls.py",
        '"O_EXCL" in asked or path not in self._there',
        '"O_CREAT" in asked',
        "tests/storage/accounting/test_lines.py::test_an_opening_of_what_is_there_makes_nothing",
    ),
    Mutant(
        "threads of a process change directories of their own",
        "src/hyperslab/storage/accounting/calls.py",
        "made = made._replace(directory=parent.directory)",
        "made = made._replace(directory=made.directory)",
        "tests/storage/accounting/test_lines.py"
        "::test_threads_share_a_directory_and_processes_do_not",
    ),
    Mutant(
        "a shuffled file of Spark is an evicted one",
        "src/hyperslab/storage/accounting/kinds.py",
        'if not found["name"] or _SHUFFLED.match(found["name"]):',
        'if not found["name"]:',
        "tests/storage/accounting/test_kinds.py::test_names_decide",
    ),
]
