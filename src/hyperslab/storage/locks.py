"""Locks of files (flock) where they are missing: some hosts mount file systems without them."""

from __future__ import annotations

import errno

NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))
"Errors that say so, which no lock of anybody gives."
