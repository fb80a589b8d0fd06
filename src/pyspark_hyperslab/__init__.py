"""Where Spark looks for Data Sources by their names: in packages whose names begin with
`pyspark_`.
"""

from hyperslab.connectors.spark.datasource import HyperslabSource as DefaultSource

__all__ = ["DefaultSource"]
