"""Workloads of Spark's library for machine learning, each of which looks whether its result is
right.

They are tests of spark-perf (https://github.com/databricks/spark-perf, mllib-tests) with its sizes
at scale 1; sequences are of 50 items, as of its 500 none is in half of them.

A workload joins with a function for its data, one that runs and one that judges, and a line in
WORKLOADS, here or in learning_fitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hyperslab.connectors.spark import learning_data as data
from hyperslab.connectors.spark import learning_fitted
from hyperslab.connectors.spark.learning_data import Floats, Problem, added
from hyperslab.connectors.spark.learning_frames import (
    FEATURES,
    ID,
    LABEL,
    Workload,
    close,
    labelled,
    numbered,
    schema,
    vectors,
)
from hyperslab.errors import UsageError, suggest

TOPICS, CLUSTERS, ITERATIONS = 20, 40, 20
COMPONENTS, SINGULAR = 50, 10
BLOCK = 1024
"Rows and columns of a block."
SUPPORT, LONGEST, PROJECTED = 0.5, 10, 32_000_000
_moments = partial(data.moments, data.mixed)


def _covariances(context: Any, problem: Problem) -> tuple[Floats, Floats]:
    """Means of columns, and their covariances."""
    products = added(context, problem, _moments)
    means = products[0, 1:] / problem.rows
    centred = products[1:, 1:] - problem.rows * np.outer(means, means)
    return means, centred / (problem.rows - 1)


def summary_statistics(frame: Any, _: Problem) -> Any:
    """Mean and variance of each column."""
    from pyspark.ml.stat import Summarizer

    metrics = Summarizer.metrics("mean", "variance")
    [row] = frame.select(metrics.summary(frame[FEATURES]).alias("found")).collect()
    return row.found.mean.toArray(), row.found.variance.toArray()


def _summary_is_right(found: Any, context: Any, problem: Problem) -> bool:
    means, covariances = _covariances(context, problem)
    return close(found[0], means) and close(found[1], np.diag(covariances))


def correlation(method: str, frame: Any, _: Problem) -> Floats:
    """Correlations of all pairs of columns."""
    from pyspark.ml.stat import Correlation

    [row] = Correlation.corr(frame, FEATURES, method).collect()
    found: Floats = row[0].toArray()
    return found


def _pearson_is_right(found: Any, context: Any, problem: Problem) -> bool:
    _, covariances = _covariances(context, problem)
    spread = np.sqrt(np.diag(covariances))
    return close(found, covariances / np.outer(spread, spread))


def _spearman_is_right(found: Any, context: Any, problem: Problem) -> bool:
    """Look at the first two columns alone, which have no value twice."""
    parts = context.parallelize(range(problem.partitions), problem.partitions)
    two = np.concatenate(parts.map(lambda one: data.mixed(one, problem)[:, :2]).collect())
    ranks = two.argsort(axis=0).argsort(axis=0)
    expected = np.asarray(np.corrcoef(ranks, rowvar=False))
    return close(found[0, 1], expected[0, 1]) and close(np.diag(found), 1)


def chi_square(frame: Any, _: Problem) -> Floats:
    """Whether features are independent of labels: the statistic of each."""
    from pyspark.ml.stat import ChiSquareTest

    [row] = ChiSquareTest.test(frame, FEATURES, LABEL).collect()
    found: Floats = row.statistics.toArray()
    return found


def _chi_square_is_right(found: Any, context: Any, problem: Problem) -> bool:
    counts = added(context, problem, data.contingency)
    rows = counts.sum(axis=2, keepdims=True)
    columns = counts.sum(axis=1, keepdims=True)
    expected = rows * columns / problem.rows
    terms = np.divide((counts - expected) ** 2, expected, where=expected > 0, out=0 * expected)
    return close(found, terms.sum(axis=(1, 2)))


def principal_components(frame: Any, problem: Problem) -> Floats:
    """Shares of the variance that the first components hold."""
    from pyspark.ml.feature import PCA

    model = PCA(k=_components(problem), inputCol=FEATURES, outputCol="found").fit(frame)
    found: Floats = model.explainedVariance.toArray()
    return found


def _components(problem: Problem) -> int:
    return min(COMPONENTS, problem.columns, problem.rows - 1)


def _components_are_right(found: Any, context: Any, problem: Problem) -> bool:
    _, covariances = _covariances(context, problem)
    values = np.linalg.eigvalsh(covariances)[::-1]
    return close(found, (values / values.sum())[: len(found)])


def singular_values(frame: Any, problem: Problem) -> Floats:
    """The largest singular values of the rows."""
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.linalg.distributed import RowMatrix

    rows = frame.select(FEATURES).rdd.map(lambda row: Vectors.fromML(row[0]))
    found: Floats = RowMatrix(rows).computeSVD(min(SINGULAR, problem.columns)).s.toArray()
    return found


def _singular_values_are_right(found: Any, context: Any, problem: Problem) -> bool:
    products = added(context, problem, _moments)[1:, 1:]
    values = np.sqrt(np.linalg.eigvalsh(products)[::-1])
    return close(found, values[: len(found)])


def block_product(frame: Any, _: Problem) -> Floats:
    """The rows' products with each other by blocks of a matrix: sum and trace of the whole."""
    from pyspark.mllib.linalg import Vectors
    from pyspark.mllib.linalg.distributed import IndexedRow, IndexedRowMatrix

    rows = frame.rdd.map(lambda row: IndexedRow(row.id, Vectors.fromML(row.features)))
    blocks = IndexedRowMatrix(rows).toBlockMatrix(BLOCK, BLOCK)
    product = blocks.transpose().multiply(blocks).blocks
    found: Floats = product.map(_sum_and_trace).reduce(lambda a, b: a + b)
    return found


def _sum_and_trace(block: tuple[tuple[int, int], Any]) -> Floats:
    (row, column), values = block
    matrix = values.toArray()
    return np.array([matrix.sum(), matrix.trace() if row == column else 0.0])


def _product_is_right(found: Any, context: Any, problem: Problem) -> bool:
    return close(found / added(context, problem, _squared_sums), 1)


def _squared_sums(partition: int, problem: Problem) -> Floats:
    rows = data.mixed(partition, problem)
    return np.array([(rows.sum(axis=1) ** 2).sum(), (rows**2).sum()])


def naive_bayes(frame: Any, _: Problem) -> Floats:
    """Logarithms of shares that features have of each label (multinomial naive Bayes)."""
    from pyspark.ml.classification import NaiveBayes

    found: Floats = NaiveBayes(featuresCol=FEATURES, labelCol=LABEL).fit(frame).theta.toArray()
    return found


def _shares_are_right(found: Any, context: Any, problem: Problem) -> bool:
    """Look at shares with one more of each feature, as nothing is impossible."""
    sums = added(context, problem, _sums_by_label) + 1
    return close(found, np.log(sums / sums.sum(axis=1, keepdims=True)))


def _sums_by_label(partition: int, problem: Problem) -> Floats:
    labels, features = data.categories(partition, problem)
    sums = np.zeros((data.LABELS, problem.columns))
    np.add.at(sums, labels, features)
    return sums


def k_means(frame: Any, problem: Problem) -> tuple[Floats, float]:
    """Centres of clusters, and the sum of squared distances from them."""
    from pyspark.ml.clustering import KMeans

    asked = KMeans(k=min(data.CENTRES, problem.rows), maxIter=ITERATIONS, seed=problem.seed)
    model = asked.fit(frame)
    return np.array(model.clusterCenters()), model.summary.trainingCost


def _clusters_are_right(found: Any, context: Any, problem: Problem) -> bool:
    centres, cost = found
    return close(cost / added(context, problem, partial(_cost, centres)), 1)


def _cost(centres: Floats, partition: int, problem: Problem) -> float:
    rows = data.clustered(partition, problem)
    products = rows @ centres.T
    squares = (rows**2).sum(axis=1)[:, None] - 2 * products + (centres**2).sum(axis=1)
    return float(squares.min(axis=1, initial=np.inf).sum())


def _documents(spark: Any, problem: Problem) -> Any:
    from pyspark.ml.linalg import Vectors

    def rows(partition: int, asked: Problem) -> Iterator[tuple[int, Any]]:
        first, _ = asked.span(partition)
        counts = (Counter(words.tolist()) for words in data.documents(partition, asked))
        return (
            (first + number, Vectors.sparse(asked.columns, dict(one)))
            for number, one in enumerate(counts)
        )

    return data.table(spark, problem, rows, schema((ID, "long")))


def topics(frame: Any, problem: Problem) -> Floats:
    """Number of words by topic (latent Dirichlet allocation by expectation-maximization)."""
    from pyspark.ml.clustering import LDA

    asked = LDA(k=TOPICS, maxIter=ITERATIONS, seed=problem.seed, optimizer="em")
    found: Floats = asked.fit(frame).topicsMatrix().toArray().sum(axis=0)
    return found


def _topics_are_right(found: Any, _: Any, problem: Problem) -> bool:
    """Look whether every word is in topics, once in all."""
    return bool(found.min() >= 0) and close(found.sum() / (problem.rows * data.WORDS), 1)


def _graph(spark: Any, problem: Problem) -> Any:
    return data.table(spark, problem, _edges, "src bigint, dst bigint, weight double")


def _edges(partition: int, problem: Problem) -> Iterator[tuple[int, int, float]]:
    nodes, others = data.edges(partition, problem)
    return ((*pair, 1.0) for pair in zip(nodes.tolist(), others.tolist(), strict=True))


def power_iteration(frame: Any, problem: Problem) -> tuple[int, ...]:
    """Clusters of nodes: how many nodes, the sum of their numbers, the first and last cluster."""
    from pyspark.ml.clustering import PowerIterationClustering
    from pyspark.sql import functions as sql

    clusters = min(CLUSTERS, problem.rows // 2)
    asked = PowerIterationClustering(k=clusters, maxIter=ITERATIONS, weightCol="weight")
    found = asked.assignClusters(frame)
    [row] = found.agg(
        sql.count("id"), sql.sum("id"), sql.min("cluster"), sql.max("cluster")
    ).collect()
    return tuple(row)


def _assigned(found: Any, _: Any, problem: Problem) -> bool:
    """Look whether every node is in one cluster of those that were asked for."""
    nodes = problem.rows
    number, total, first, last = found
    in_range = 0 <= first <= last < min(CLUSTERS, nodes // 2)
    return in_range and (number, total) == (nodes, nodes * (nodes - 1) // 2)


def _sequences(spark: Any, problem: Problem) -> Any:
    def rows(partition: int, asked: Problem) -> Iterator[tuple[list[list[int]]]]:
        return ((each,) for each in data.sequences(partition, asked))

    return data.table(spark, problem, rows, "sequence array<array<int>>")


def prefix_span(frame: Any, _: Problem) -> dict[int, int]:
    """Items that are in at least half of the sequences, and in how many."""
    from pyspark.ml.fpm import PrefixSpan

    asked = PrefixSpan(minSupport=SUPPORT, maxPatternLength=LONGEST, maxLocalProjDBSize=PROJECTED)
    found = asked.findFrequentSequentialPatterns(frame).collect()
    return {
        row.sequence[0][0]: row.freq
        for row in found
        if len(row.sequence) == 1 and len(row.sequence[0]) == 1
    }


def _baskets(spark: Any, problem: Problem) -> Any:
    return data.table(spark, problem, _held, "items array<int>")


def _held(partition: int, problem: Problem) -> Iterator[tuple[list[int]]]:
    """Items that each sequence of a partition holds, each once."""
    for sequence in data.sequences(partition, problem):
        yield (sorted({item for one in sequence for item in one}),)


def fp_growth(frame: Any, _: Problem) -> dict[int, int]:
    """Items that are in at least half of the baskets, and in how many."""
    from pyspark.ml.fpm import FPGrowth

    model = FPGrowth(minSupport=SUPPORT, itemsCol="items").fit(frame)
    found = model.freqItemsets.collect()
    return {row["items"][0]: row["freq"] for row in found if len(row["items"]) == 1}


def _items_are_right(found: Any, context: Any, problem: Problem) -> bool:
    counts = added(context, problem, _items)
    least = int(np.ceil(SUPPORT * problem.rows))
    return bool(found == {item: number for item, number in counts.items() if number >= least})


def _items(partition: int, problem: Problem) -> Counter[int]:
    """Number of sequences of a partition by the items that they hold."""
    return Counter(item for (items,) in _held(partition, problem) for item in items)


_normal = partial(vectors, data.mixed)
_labelled = partial(labelled, data.categories)
WORKLOADS: Mapping[str, Workload] = {
    "summary-statistics": Workload(
        Problem(1_000_000, 500), _normal, summary_statistics, _summary_is_right
    ),
    "pearson": Workload(
        Problem(1_000_000, 1000), _normal, partial(correlation, "pearson"), _pearson_is_right
    ),
    "spearman": Workload(
        Problem(1_000_000, 100), _normal, partial(correlation, "spearman"), _spearman_is_right
    ),
    "chi-sq-feature": Workload(
        Problem(2_000_000, 500), _labelled, chi_square, _chi_square_is_right
    ),
    "pca": Workload(Problem(1_000_000, 1000), _normal, principal_components, _components_are_right),
    "kmeans": Workload(
        Problem(1_000_000, 10_000), partial(vectors, data.clustered), k_means, _clusters_are_right
    ),
    "lda": Workload(Problem(50_000, 10_000), _documents, topics, _topics_are_right),
    "pic": Workload(Problem(10_000_000), _graph, power_iteration, _assigned),
    "prefix-span": Workload(Problem(5_000_000), _sequences, prefix_span, _items_are_right),
    "svd": Workload(Problem(1_000_000, 500), _normal, singular_values, _singular_values_are_right),
    "naive-bayes": Workload(Problem(1_000_000, 10_000), _labelled, naive_bayes, _shares_are_right),
    "fp-growth": Workload(Problem(5_000_000), _baskets, fp_growth, _items_are_right),
    "block-matrix-mult": Workload(
        Problem(20_000, 10_000), partial(numbered, data.mixed), block_product, _product_is_right
    ),
    **learning_fitted.WORKLOADS,
}
"All of them."


def problem_of(name: str, factor: float, partitions: int = 0, columns: int = 0) -> Problem:
    """The data of a workload on so many times the hosts of scale 1, cut into other partitions or
    with other columns where that is asked for. Raises UsageError.
    """
    if name not in WORKLOADS:
        raise UsageError(
            f"{name}: there is no such workload of Spark's MLlib{suggest(name, WORKLOADS)}; choose"
            f" one of {', '.join(WORKLOADS)}"
        )
    if not factor > 0:
        raise UsageError(f"scale={factor}: give a positive number")
    problem = WORKLOADS[name].problem.scaled(factor)
    if partitions:
        problem = replace(problem, partitions=partitions)
    if columns and problem.columns:
        problem = replace(problem, columns=columns)
    return problem
