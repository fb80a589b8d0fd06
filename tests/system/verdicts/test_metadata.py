"""A file system whose metadata takes its time, planted."""

from __future__ import annotations

from pathlib import Path

from hyperslab import Pipeline, Rule
from tests.system.verdicts.planted import TOTAL, finding, first, run_and_judge, save
from tests.system.verdicts.slowfs import slow_files


def test_slow_metadata_is_named(tmp_path: Path) -> None:
    for number in range(70):
        save(tmp_path / "back" / f"{number:02}.nii", (8, 8, 8))
    with slow_files(tmp_path, delay_us=10_000) as mount:
        _, verdict = run_and_judge(Pipeline(f"{mount}/*.nii").reduce(TOTAL))
    assert first(verdict) == "metadata-latency"
    assert "opens waited" in finding(verdict, "metadata-latency").evidence
    assert "tmpfs" in verdict.paragraph


def test_many_small_outputs_on_slow_metadata_are_named(tmp_path: Path) -> None:
    image = save(tmp_path / "volume.nii", (8, 8, 24))
    with slow_files(tmp_path, delay_us=10_000) as mount:
        pipeline = Pipeline(str(image)).write(mount / "out")
        _, verdict = run_and_judge(pipeline, rule=Rule("blocks", (1, 1, 24)))
    assert first(verdict) == "metadata-latency"
