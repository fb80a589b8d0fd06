"""What is sent to workers by value goes so in every thread that sends it, however they overlap."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import cloudpickle

from hyperslab.engines.batches import survey
from hyperslab.engines.batches.workers import sent_by_value
from tests.system.faults.command import PATIENCE_S


def goes_by_value() -> bool:
    return b"find_spec" in cloudpickle.dumps(survey.survey)


def test_two_threads_send_the_same_module() -> None:
    barrier = Barrier(2, timeout=PATIENCE_S)

    def send(is_last: bool) -> bool:
        with sent_by_value(cloudpickle, survey):
            barrier.wait()
            if not is_last:
                return goes_by_value()
            first.result()
            return goes_by_value()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send, False)
        assert pool.submit(send, True).result()
    assert first.result()
    assert not goes_by_value()
    assert pickle.loads(cloudpickle.dumps(survey.survey)) is survey.survey
