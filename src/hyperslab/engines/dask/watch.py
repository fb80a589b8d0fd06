"""Watch: is there still a scheduler that answers, and a worker that could run something?"""

from __future__ import annotations

import time
from typing import Any

from hyperslab.engines.batches.patience import Solitude, within
from hyperslab.engines.dask.client import workers_of

LOST_LIMIT_S = 5.0
"How long a scheduler may be out of reach before the run is stopped."
ANSWER_LIMIT_S = 30.0
"How long it may take to answer: it is busy when a large graph arrives."
LOOK_INTERVAL_S = 5.0


class Watch:
    """Looks at a cluster while a round runs on it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._solitude = Solitude()
        self._well_at = time.monotonic()
        self._looked_at = self._well_at

    def is_lost(self) -> bool:
        """True when the scheduler has been out of reach for too long."""
        now = time.monotonic()
        if self._client.status == "running":
            self._well_at = now
        return now - self._well_at > LOST_LIMIT_S

    def is_alone(self) -> bool:
        """True when there has been no worker for too long, or when the scheduler does not say."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_INTERVAL_S or self._client.status != "running":
            return False
        self._looked_at = now
        try:
            workers = within(ANSWER_LIMIT_S, lambda: workers_of(self._client))
        except TimeoutError:
            return True
        except OSError:  # the connection has just gone: is_lost will say so
            return False
        return self._solitude.is_too_long(bool(workers))
