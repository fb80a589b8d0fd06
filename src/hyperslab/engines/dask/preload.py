"""Preload: records the messages of any process of Dask that loads this, from before it connects.

    DASK_DISTRIBUTED__WORKER__PRELOAD='["hyperslab.engines.dask.preload"]'

or `dask worker --preload hyperslab.engines.dask.preload`; `hyperslab netlab record` sets it for all
kinds of processes. HYPERSLAB_MESSAGES names the folder.
"""

from __future__ import annotations

import os

from hyperslab.engines.dask import recorder

folder = os.path.abspath(os.environ.get("HYPERSLAB_MESSAGES", "hyperslab-messages"))
recorder.start(folder)
