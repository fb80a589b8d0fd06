"""The process from which Spark forks its Python workers, which here has imported what each of them
would import anew: most of what a small job takes.
"""

from __future__ import annotations

import gc

import h5py  # noqa: F401
from pyspark import worker  # noqa: F401
from pyspark.daemon import manager
from pyspark.sql.worker import (  # noqa: F401
    commit_data_source_write,
    create_data_source,
    plan_data_source_read,
    write_into_data_source,
)

import hyperslab.connectors.spark
import hyperslab.connectors.spark.datasource
import hyperslab.connectors.spark.tablewriter  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
