"""Unread: inputs whose comparison takes longer than their commands are worth.

Tasks that share such an input, as an image or a sandbox of Apptainer's, would each read it as long
as they may, and give up. The first one leaves word of that beside the private folders of the run,
and no other one tries again in the same time. Held by tests/apps/commands/test_touched.py.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hyperslab.plan.command import PRIVATE
from hyperslab.plan.contents import Patience
from hyperslab.storage.whole import replace_text

AGAIN = 2.0
"Times the time that was not enough, with which an input is tried once more."
_SHOWN = 16
"Characters of a checksum that tell inputs apart."


class Unread:
    """Inputs of a run that nobody reads to compare them."""

    def __init__(self, submission: str | os.PathLike[str]) -> None:
        """`submission` is the folder of the submission, which all slots share."""
        self._folder = Path(submission, PRIVATE)

    @contextmanager
    def watched(self, path: str, patience: Patience) -> Iterator[None]:
        """A block that looks at an input, or reads it. Raises TimeoutError where that is hopeless,
        as it was for somebody in about that time.
        """
        left_s = patience.left_s
        known_s = self._not_enough_s(path)
        if known_s is not None and left_s <= AGAIN * known_s:
            raise TimeoutError(path)
        try:
            yield
        except TimeoutError:
            with suppress(OSError):  # of a run that has ended
                replace_text(self._note(path), str(max(0.0, left_s)))
            raise

    def is_known(self, path: str) -> bool:
        """Whether somebody has given up an input."""
        return self._note(path).exists()

    def _not_enough_s(self, path: str) -> float | None:
        """Time that was not enough for an input; None where nobody has given it up."""
        with suppress(OSError, ValueError):
            return float(self._note(path).read_text())
        return None

    def _note(self, path: str) -> Path:
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()
        return self._folder / f"unread.{digest[:_SHOWN]}"


class Told:
    """What the driver has said of inputs that several tasks have in common, once of each."""

    def __init__(self, submission: Path, tell: Callable[[str], None]) -> None:
        self._unread = Unread(submission)
        self._tell = tell
        self._tasks: Counter[str] = Counter()

    def see(self, inputs: tuple[str, ...], checksum: str) -> None:
        """See what the slot of a task has come to of its inputs."""
        if checksum:
            return
        for path in filter(self._unread.is_known, inputs):
            self._tasks[path] += 1
            if self._tasks[path] == 2:
                self._tell(
                    f"unread     {path}: it takes too long to compare; tasks that read it are done"
                    " again once it has another time"
                )
