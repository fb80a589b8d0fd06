"""The exceptions of hyperslab: each message says what is wrong, where, and what to do next."""

from __future__ import annotations


class HyperslabError(Exception):
    """Any failure that hyperslab foresaw; its text is a sentence for the user."""


class UsageError(HyperslabError):
    """An argument that cannot be used; the command line exits with 2."""


class FormatError(HyperslabError):
    """A file that is corrupt, truncated, or not what its name says."""


class Missing(FormatError, UsageError, FileNotFoundError):
    """A file that is not there; FileNotFoundError for callers that know nothing of hyperslab."""


class MissingGroup(UsageError, OSError):
    """A group that is not in a file; OSError, as xarray's other engines raise."""


class SourceChanged(HyperslabError):
    """A file that was written to after the plan had been made from it."""


class Unavailable(HyperslabError):
    """A remote store that gave no answer, or none but excuses, however often it was asked; it may
    give one later.
    """


class BlockError(HyperslabError):
    """A function returned a block of the wrong shape or dtype."""


class DoesNotFit(UsageError):
    """A plan that needs more memory or disk than there is; the text holds the number and the
    remedy.
    """


class OutputBusy(UsageError):
    """An output directory that another run owns, or that holds another run's results."""


class AlreadyDone(OutputBusy):
    """A conversion to a URL that is to be gone on with, and of which everything has arrived."""


class DamagedRecord(UsageError):
    """A record of a run that is not as it was written; the text says what is not known without it,
    and what to do.
    """


class MissingExtra(UsageError):
    """An optional dependency that is not installed; the text holds the command that installs it."""


class RunStopped(HyperslabError):
    """A run that had to end early: its output directory vanished, its disk is full, or it was
    cancelled.
    """
