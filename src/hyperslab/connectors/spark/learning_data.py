"""Data of workloads of Spark's library for machine learning, drawn by NumPy: the same in a task of
Spark and in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
LABELS, CATEGORIES = 2, 6
"Numbers of different labels and of values of a feature."
CENTRES = 20
"Number of clusters around which rows lie."
WORDS = 100
"Words of a document."
DEGREE = 20
"Neighbours of a node: the nearest ones on a ring."
NOISE, MISTAKEN = 0.1, 0.1
"How much of labels is noise, and the share of those on the wrong side."
RATED = 8
"Ratings of a user, where it draws no item twice."
ITEMS, ITEMSETS, SKEW = 50, 5, 0.1
"Different items of sequences, mean number of sets in a sequence, and how unlike their numbers are."
SET_SIZE = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """How large the data of a workload are."""

    rows: int
    columns: int = 0
    partitions: int = 128
    seed: int = 5

    def scaled(self, factor: float) -> Problem:
        """The same data on so many times the hosts; one row and one partition at least."""
        rows = max(1, round(self.rows * factor))
        return replace(self, rows=rows, partitions=max(1, round(self.partitions * factor)))

    def span(self, partition: int) -> tuple[int, int]:
        """Rows of a partition, the first one and the one behind the last."""
        low, high = (end * self.rows // self.partitions for end in (partition, partition + 1))
        return low, high

    def size(self, partition: int) -> int:
        """Number of rows of a partition."""
        low, high = self.span(partition)
        return high - low

    def random(self, partition: int) -> np.random.Generator:
        """What draws a partition."""
        return np.random.default_rng([self.seed, partition])


def normal(partition: int, problem: Problem) -> Floats:
    """Rows of normal numbers, without anything in common."""
    return problem.random(partition).standard_normal((problem.size(partition), problem.columns))


def mixed(partition: int, problem: Problem) -> Floats:
    """Rows of normal numbers, each column of which holds half of the one before it."""
    rows = normal(partition, problem)
    rows[:, 1:] += rows[:, :-1] / 2
    return rows


def clustered(partition: int, problem: Problem) -> Floats:
    """Rows around as many centres as there are clusters."""
    centres = np.random.default_rng(problem.seed).uniform(-10, 10, (CENTRES, problem.columns))
    chosen = problem.random(partition).integers(CENTRES, size=problem.size(partition))
    return centres[chosen] + normal(partition, problem)


def categories(partition: int, problem: Problem) -> tuple[Ints, Ints]:
    """Labels, and features of a few values, the first of which goes with the label."""
    random = problem.random(partition)
    rows = problem.size(partition)
    labels = random.integers(LABELS, size=rows)
    features = random.integers(CATEGORIES, size=(rows, problem.columns))
    features[:, 0] = (features[:, 0] + labels) // 2
    return labels, features


def contingency(partition: int, problem: Problem) -> Floats:
    """Number of such rows by feature, value and label."""
    labels, features = categories(partition, problem)
    counts = np.zeros((problem.columns, CATEGORIES, LABELS))
    for column in range(problem.columns):
        np.add.at(counts[column], (features[:, column], labels), 1)
    return counts


def on_a_plane(partition: int, problem: Problem) -> tuple[Floats, Floats]:
    """Labels that are a linear function of their rows, but for a little."""
    random = problem.random(partition)
    rows = random.standard_normal((problem.size(partition), problem.columns))
    weights = np.random.default_rng(problem.seed).standard_normal(problem.columns)
    return rows @ weights + NOISE * random.standard_normal(len(rows)), rows


def on_two_sides(partition: int, problem: Problem) -> tuple[Floats, Floats]:
    """Labels 0 and 1 on the two sides of a plane, but for a few."""
    values, rows = on_a_plane(partition, problem)
    wrong = problem.random(partition).random(len(rows)) < MISTAKEN
    return ((values > 0) ^ wrong).astype(float), rows


Rated = tuple[int, Ints, Floats]
"A user, the items that it has rated, and what it has given them."


def ratings(partition: int, problem: Problem) -> Iterator[Rated]:
    """Ratings of a few items each by the users of a partition; there are as many items as
    columns.
    """
    random = problem.random(partition)
    for user in range(*problem.span(partition)):
        items = np.unique(random.integers(problem.columns, size=RATED))
        yield user, items, random.integers(1, 6, size=len(items)).astype(float)


def documents(partition: int, problem: Problem) -> Ints:
    """Words of documents, by their numbers; there are as many different ones as columns."""
    shape = (problem.size(partition), WORDS)
    share = problem.random(partition).random(shape) ** 2
    words: Ints = (share * problem.columns).astype(np.int64)
    return words


def edges(partition: int, problem: Problem) -> tuple[Ints, Ints]:
    """Edges from the nodes of a partition to the next ones on a ring."""
    low, high = problem.span(partition)
    nodes = np.repeat(np.arange(low, high), DEGREE // 2)
    steps = np.tile(np.arange(1, DEGREE // 2 + 1), high - low)
    return nodes, (nodes + steps) % problem.rows


def sequences(partition: int, problem: Problem) -> list[list[list[int]]]:
    """Sequences of sets of items, some of which are in most of them."""
    random = problem.random(partition)
    lengths = 1 + random.binomial(10 * ITEMSETS, 0.1, problem.size(partition))
    return [[_set(random) for _ in range(length)] for length in lengths]


def _set(random: np.random.Generator) -> list[int]:
    shares = random.random(SET_SIZE) ** SKEW
    found: list[int] = np.unique((shares * ITEMS).astype(np.int64)).tolist()
    return found


def moments(rows_of: Callable[[int, Problem], Floats], partition: int, problem: Problem) -> Floats:
    """Products of all pairs of columns, the first of which is 1."""
    rows = rows_of(partition, problem)
    with_one = np.column_stack([np.ones(len(rows)), rows])
    products: Floats = with_one.T @ with_one
    return products


Rows = Callable[[int, Problem], Iterable[tuple[Any, ...]]]
"Rows of a partition."


def table(spark: Any, problem: Problem, rows: Rows, schema: Any) -> Any:
    """A DataFrame of such rows. It takes neither pandas nor Arrow."""
    parts = spark.sparkContext.parallelize(range(problem.partitions), problem.partitions)
    made = parts.flatMap(lambda partition: rows(partition, problem))
    return spark.createDataFrame(made, schema, verifySchema=False)


def added(context: Any, problem: Problem, of: Callable[[int, Problem], Any]) -> Any:
    """The sum of what partitions come to, without the library."""
    parts = context.parallelize(range(problem.partitions), problem.partitions)
    return parts.map(lambda partition: of(partition, problem)).reduce(lambda a, b: a + b)
