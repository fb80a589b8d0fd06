"""Lines that are broken one at a time, and the test that notices each."""

from __future__ import annotations

from tests.mutants.engine_rows import ENGINES
from tests.mutants.mutant import CARGO, Mutant

MUTANTS = [
    # arrays
    Mutant(
        "a region of a region of every second element begins elsewhere",
        "src/hyperslab/arrays/slab.py",
        "a + i * s for",
        "a + i for",
        "tests/arrays/test_slab.py::test_compose_is_indexing_twice",
    ),
    Mutant(
        "a region loses its last element that lies in a box",
        "src/hyperslab/arrays/slab.py",
        "-((start - low - extent) // stride)",
        "(low + extent - start) // stride",
        "tests/arrays/test_slab.py::test_clip_finds_what_lies_in_the_box",
    ),
    Mutant(
        "the last block ends before the array",
        "src/hyperslab/arrays/partition.py",
        "return (0, *inner, extent)",
        "return (0, *inner, extent - extent % align)",
        "tests/arrays/test_partition.py::test_every_element_is_in_one_block",
    ),
    Mutant(
        "the largest valid value is taken for a missing one",
        "src/hyperslab/arrays/scaling.py",
        "plain > high",
        "plain >= high",
        "tests/arrays/test_scaling.py::test_any_region_in_any_pieces",
    ),
    Mutant(
        "a buffer holds as many bytes as there are steps",
        "src/hyperslab/arrays/byteranges.py",
        "(steps - 1) * self.step_nbytes[self.level] + self.inner_nbytes",
        "steps * self.step_nbytes[self.level] + self.inner_nbytes",
        "tests/blocks/test_reading.py::test_spans_hold_every_element_once_whatever_the_costs",
    ),
    # blocks
    Mutant(
        "a read that was short goes on where it began",
        "src/hyperslab/blocks/positioned.py",
        "            offset += count\n",
        "",
        "tests/blocks/test_reading.py::test_short_reads_are_continued",
    ),
    Mutant(
        "a region is written where the file begins, not where its data do",
        "src/hyperslab/blocks/positioned.py",
        "base = offset + sum(",
        "base = sum(",
        "tests/blocks/test_writing.py::test_any_region_is_written_to_its_place",
    ),
    Mutant(
        "values of another byte order are not turned",
        "src/hyperslab/blocks/reading/ways/way.py",
        "if not source.stored.isnative:",
        "if source.stored.isnative is None:",
        "tests/formats/test_netcdf.py::TestClassic::test_whole_arrays",
    ),
    Mutant(
        "what was never written is zero instead of the fill value",
        "src/hyperslab/blocks/reading/ways/chunks.py",
        "block[...] = source.fill",
        "block[...] = 0",
        "tests/formats/test_hdf5.py::test_never_written_datasets_hold_the_fill_value",
    ),
    Mutant(
        "the checksum of a piece is not compared",
        "src/hyperslab/blocks/writing/segments.py",
        ' or xxhash.xxh3_64_intdigest(data) != row["checksum"]',
        "",
        "tests/blocks/test_segments.py::test_every_damaged_byte_is_noticed",
    ),
    Mutant(
        "writers that reserve bytes of one file get the same ones",
        "src/hyperslab/blocks/writing/segments.py",
        "os.ftruncate(fd, offset + nbytes)",
        "os.ftruncate(fd, offset)",
        "tests/blocks/test_segments.py::test_threads_and_processes_append_at_the_same_time",
    ),
    Mutant(
        "a file gets its name before its bytes are on storage",
        "src/hyperslab/blocks/writing/forms/form.py",
        "renaming.synchronise(ready.path)",
        "pass",
        "tests/blocks/test_writing.py::test_nothing_has_the_name_before_all_is_on_storage",
    ),
    Mutant(
        "a block that was planned otherwise is written",
        "src/hyperslab/blocks/writing/forms/form.py",
        "if block.shape != planned or",
        "if",
        "tests/blocks/test_writing.py::test_an_unfit_block_is_refused",
    ),
    Mutant(
        "an allocation of any size passes for the one that was made",
        "src/hyperslab/blocks/writing/forms/placed.py",
        "st_size == sink.nbytes",
        "st_size >= 0",
        "tests/blocks/test_ways_and_forms.py::test_a_region_that_was_changed_differs",
    ),
    # formats
    Mutant(
        "the intercept of an image is forgotten",
        "src/hyperslab/formats/nifti/header.py",
        "return Scaling(slope, inter)",
        "return Scaling(slope, 0.0)",
        "tests/formats/test_nifti.py::test_the_scaling_record_holds_what_nibabel_reads",
    ),
    Mutant(
        "the checksums of gzip streams are joined as if all were equally long",
        "src/hyperslab/formats/deflating.py",
        "crc32_combine(self.crc, crc, length)",
        "crc32_combine(self.crc, crc, 1)",
        "tests/formats/test_nifti_sink.py::test_a_compressed_image_is_one_member_for_every_reader",
    ),
    Mutant(
        "a node of an index of chunks has itself for its neighbour",
        "src/hyperslab/formats/hdf5/chunkindex.py",
        'nodes["right"][:-1] = children[1:]',
        'nodes["right"][:-1] = children[:-1]',
        "tests/formats/test_hdf5_chunkindex.py::test_the_nodes_of_a_tree_know_their_neighbours",
    ),
    Mutant(
        "records are looked for as if there were no other variables",
        "src/hyperslab/formats/netcdf/classic.py",
        "variable.begin + header.record_nbytes * np.arange",
        "variable.begin + variable.row_nbytes * np.arange",
        "tests/formats/test_netcdf.py::test_any_variable_reads_as_netcdf4_reads_it",
    ),
    Mutant(
        "a chunk that cannot be opened passes for one that was never written",
        "src/hyperslab/formats/zarr/store.py",
        "except FileNotFoundError:\n        return None",
        "except OSError:\n        return None",
        "tests/formats/test_zarr_damage.py::test_a_chunk_that_cannot_be_opened_is_an_error",
    ),
    Mutant(
        "xarray is not told the offset of an image",
        "src/hyperslab/formats/netcdf/image.py",
        "np.float64(scaling.inter)",
        "np.float64(0)",
        "tests/connectors/test_xarray_images.py::test_images_are_packed_only_where_that_is_exact",
    ),
    # storage
    Mutant(
        "a name that is taken is taken over unasked",
        "src/hyperslab/storage/renaming.py",
        "os.fsencode(final), flag)",
        "os.fsencode(final), 0)",
        "tests/storage/test_renaming.py::test_a_name_that_is_taken_stays_where_it_is",
    ),
    Mutant(
        "nobody waits until a file is on storage",
        "src/hyperslab/storage/renaming.py",
        "os.fsync(fd)",
        "pass",
        "tests/storage/test_renaming.py::test_files_and_names_are_synchronised",
    ),
    Mutant(
        "a line that was changed is believed",
        "src/hyperslab/storage/sealing.py",
        " or digest != xxhash.xxh3_64_hexdigest(text).encode()",
        "",
        "tests/storage/test_sealing.py::test_one_changed_byte_is_seen",
    ),
    Mutant(
        "a record that was changed is believed",
        "src/hyperslab/storage/recordfile.py",
        "if xxhash.xxh3_128_hexdigest(body) != head[1].decode():",
        "if not body:",
        "tests/system/faults/test_damaged_records.py::test_no_damage_gets_past_the_checksum",
    ),
    Mutant(
        "a task may begin when its submission has ended",
        "src/hyperslab/storage/fence.py",
        "(folder / OPEN).rename(folder / ENDED)",
        "(folder / ENDED).touch()",
        "tests/storage/test_fence.py::test_nobody_begins_once_a_submission_has_ended",
    ),
    Mutant(
        "a remote object of another state is read on",
        "src/hyperslab/storage/remote/objects.py",
        "if answer.tag and remote.tag and answer.tag != remote.tag:",
        "if not answer.tag and remote.tag:",
        "tests/storage/remote/test_faults.py::test_an_object_that_was_replaced",
    ),
    Mutant(
        "a request that failed in passing is not made again",
        "src/hyperslab/storage/remote/objects.py",
        "if not fault.is_passing or number == store.attempts:",
        "if fault or number == store.attempts:",
        "tests/storage/remote/test_faults.py::test_what_fails_in_passing_is_tried_again",
    ),
    Mutant(
        "of ranges that were fetched together the later ones are given from the beginning",
        "src/hyperslab/storage/remote/file.py",
        "first = offset - held[0][0]",
        "first = 0",
        "tests/storage/remote/test_requests.py::test_a_region_of_many_chunks_takes_few_requests",
    ),
    # plan
    Mutant(
        "a halo before the end of an array is one voxel too narrow",
        "src/hyperslab/plan/blocktasks.py",
        "extent - first - n)",
        "extent - first - n - 1)",
        "tests/plan/test_pieces.py::test_a_block_with_its_halo_is_part_of_the_padded_whole",
    ),
    Mutant(
        "a halo is cut off at one side alone",
        "src/hyperslab/plan/steps.py",
        "slice(h, h + n) for h, n in zip(first",
        "slice(0, n) for h, n in zip(first",
        "tests/plan/test_pieces.py::test_two_steps_share_one_halo",
    ),
    Mutant(
        "a journal that cannot grow is passed over",
        "src/hyperslab/plan/journal.py",
        "os.ftruncate(fd, size)\n        raise",
        "os.ftruncate(fd, size)",
        "tests/plan/test_journal.py::test_a_line_for_which_there_is_no_room_is_not_begun",
    ),
    Mutant(
        "outcomes are recorded before the partial that they rest on is saved",
        "src/hyperslab/plan/journal.py",
        "            if self._partial.tasks:\n",
        '            self._append(b"".join(map(encode, self._waiting)))\n'
        "            if self._partial.tasks:\n",
        "tests/plan/test_journal.py::test_a_journal_that_cannot_grow_stops_the_run",
    ),
    Mutant(
        "a line that is still being written is read",
        "src/hyperslab/plan/journal.py",
        'complete = data[: data.rfind(b"\\n") + 1]',
        "complete = data",
        "tests/plan/test_journal.py::test_a_tail_takes_every_line_once_however_it_grows",
    ),
    Mutant(
        "a task that two partials hold counts twice",
        "src/hyperslab/plan/journal.py",
        "if left.issuperset(partial.tasks):",
        "if set(wanted).issuperset(partial.tasks):",
        "tests/engines/test_twice.py::test_batches_and_merges_one_after_the_other",
    ),
    Mutant(
        "merged voxels at an edge are forgotten",
        "src/hyperslab/plan/becoming.py",
        "math.ceil(n / s) for n, s in zip(count",
        "n // s for n, s in zip(count",
        "tests/plan/test_becoming.py::test_merged_voxels_are_counted_and_placed",
    ),
    Mutant(
        "a probe takes what memory before a device does for the device",
        "src/hyperslab/storage/probing/preparing.py",
        "_IMPRESSIONS = (2**19, 2**23, 2**26)",
        "_IMPRESSIONS = (2**19, 2**23)",
        "tests/storage/probing/test_duration.py"
        "::test_memory_before_a_slow_device_does_not_make_a_probe_long",
    ),
    # driver
    Mutant(
        "a task that failed is not tried again",
        "src/hyperslab/driver/rounds.py",
        "range(self.options.retries + 1)",
        "range(1)",
        "tests/engines/test_serial.py::TestSerial::test_a_failure_that_passes_is_tried_again",
    ),
    Mutant(
        "what was made of a source that was edited since counts",
        "src/hyperslab/driver/resume.py",
        "if before != now",
        "if before is None",
        "tests/system/faults/test_resume.py::test_an_edited_block",
    ),
    Mutant(
        "a volume gets its name though regions of it were written elsewhere",
        "src/hyperslab/driver/products.py",
        "    if stray:",
        "    if stray is None:",
        "tests/system/faults/test_copies.py::test_regions_that_were_written_elsewhere_make_no_file",
    ),
    Mutant(
        "cleaning removes what a record names outside of the directory",
        "src/hyperslab/driver/cleaning.py",
        " if is_name(name)",
        "",
        "tests/system/faults/test_copies.py"
        "::test_records_of_an_earlier_version_name_files_of_another_directory",
    ),
    Mutant(
        "verification compares nothing",
        "src/hyperslab/driver/verification.py",
        'if found == entry["checksum"]',
        "if found",
        "tests/system/faults/test_frames.py::test_a_changed_header_is_found",
    ),
    Mutant(
        "the end of a block is looked for in the next row",
        "src/hyperslab/driver/shared_pages.py",
        "(z - 1) * n",
        "z * n",
        "tests/driver/test_shared_pages.py::test_blocks_that_meet_between_pages_are_allowed",
    ),
    *ENGINES,
    Mutant(
        "blocks go by way of a tier that is emptied more slowly than tasks write",
        "src/hyperslab/driver/staging.py",
        "return self._writing.ns_per_byte / slots >= flushed",
        "return True",
        "tests/system/end_to_end/test_staging.py"
        "::test_a_tier_that_is_emptied_more_slowly_than_tasks_write_is_left",
    ),
    # report
    Mutant(
        "idle time is counted from the beginning",
        "src/hyperslab/report/summary.py",
        "idle += when.end_ns - last",
        "idle += when.end_ns - when.ready_ns",
        "tests/report/test_summary.py::test_every_number_of_a_hand_made_trace",
    ),
    Mutant(
        "a title becomes markup",
        "src/hyperslab/report/html.py",
        "<h1>{escape(title)}</h1>",
        "<h1>{title}</h1>",
        "tests/report/test_html.py::test_text_from_outside_stays_text",
    ),
    # connectors
    Mutant(
        "chunks of Dask end before stored ones do",
        "src/hyperslab/connectors/dask.py",
        "range(cuts[-1] + longest, edge, longest)",
        "range(cuts[-1] + longest - 1, edge, longest)",
        "tests/connectors/test_dask.py::test_automatic_chunks_are_whole_stored_chunks",
    ),
    Mutant(
        "a float64 passes for a type that has every int64",
        "src/hyperslab/connectors/spark/exactness.py",
        "return bits <= digits",
        "return bits <= digits or True",
        "tests/connectors/spark/test_fragments.py"
        "::test_columns_are_promoted_only_to_what_holds_their_values",
    ),
    Mutant(
        "a variable of a file that was written to since is read",
        "src/hyperslab/connectors/xarray.py",
        "state == (listing.file_size, listing.mtime_ns)",
        "state",
        "tests/connectors/test_xarray.py::test_a_file_that_changes_is_noticed",
    ),
    # workloads
    Mutant(
        "the largest integer has no bin",
        "src/hyperslab/workloads/histogram.py",
        "values = int(high) - first + 1",
        "values = int(high) - first",
        "tests/workloads/test_histogram.py::test_wide_integers_that_lie_close_have_a_bin_per_value",
    ),
    Mutant(
        "the deviation is that of a sample",
        "src/hyperslab/workloads/stats.py",
        "n << (found.unit_bits + _GUARD_BITS // 2)",
        "max(1, n - 1) << (found.unit_bits + _GUARD_BITS // 2)",
        "tests/workloads/test_stats.py::test_stats_agree_with_numpy_and_statistics",
    ),
    # apps
    Mutant(
        "NaN differs from NaN",
        "src/hyperslab/apps/difference/values.py",
        "differ &= ~(np.isnan(a) & np.isnan(b))",
        "pass",
        "tests/apps/test_difference_values.py::test_every_two_dtypes_are_compared_exactly",
    ),
    Mutant(
        "stored values are cast as if they were the real ones",
        "src/hyperslab/apps/conversion.py",
        'if wanted.dtype is not None:\n        return "real", ()',
        'if wanted.dtype is not None:\n        return "stored", ()',
        "tests/system/end_to_end/test_convert.py"
        "::test_dtype_is_changed_on_request_and_only_if_every_value_fits",
    ),
    # cli
    Mutant(
        "a KiB has 1,000 bytes",
        "src/hyperslab/plan/written.py",
        "(1024 if i else 1000)",
        "(1000 if i else 1000)",
        "tests/cli/test_parse.py::test_sizes",
    ),
    Mutant(
        "JSON has a NaN",
        "src/hyperslab/cli/document.py",
        "if math.isfinite(value):",
        "if True:",
        "tests/system/end_to_end/test_json.py::test_a_file_of_several_arrays_and_one_of_them",
    ),
    # leaves
    Mutant(
        "values of storage options are shown",
        "src/hyperslab/redaction.py",
        'return f"{name}=***"',
        "return option",
        "tests/storage/remote/test_secrets.py::test_the_command_line_without_secrets",
    ),
    # machine
    Mutant(
        "memory that others of the group have taken is taken again",
        "src/hyperslab/machine/host.py",
        "max(0, int(bound[0]) - int(taken[0]))",
        "int(bound[0])",
        "tests/machine/test_host.py::test_a_cgroup_limits_the_memory_that_is_left_in_it",
    ),
    # the native core
    Mutant(
        "the checksum at the end of a gzip member is not compared",
        "rust/core/src/gzip/build.rs",
        "if trailer as u32 != self.member.crc {",
        "if trailer as u32 != self.member.crc && length == 0 {",
        CARGO + "damage_is_noticed",
    ),
    Mutant(
        "a chunk of another length is read into the block",
        "rust/core/src/chunks/read.rs",
        "self.chunks.codecs.is_empty() && stored != self.plain",
        "self.chunks.codecs.is_empty() && stored < self.plain",
        CARGO + "faults_name_their_row",
    ),
    Mutant(
        "the last bin does not hold its upper edge",
        "rust/core/src/count/bins.rs",
        "_ if value <= self.last",
        "_ if value < self.last",
        CARGO + "bins_hold_their_lower_edges_and_the_last_one_both",
    ),
]
