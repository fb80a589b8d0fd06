"""Workloads of Spark's library for machine learning that fit a model step by step: it says how well
it fits, or what holds after every step, and NumPy says so of the same model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from hyperslab.connectors.spark import learning_data as data
from hyperslab.connectors.spark.learning_data import Floats, Problem, added
from hyperslab.connectors.spark.learning_frames import (
    FEATURES,
    ID,
    LABEL,
    Workload,
    close,
    labelled,
    vectors,
)

ITERATIONS, SWEEPS = 20, 10
"Steps of models, and of the factors of ratings."
RANK, PENALTY = 10, 0.1
LOOKED_AT = 5
"Users whose factors are looked at."
DEPTH = 5
VECTOR, LEAST_OFTEN, PASSES = 100, 5, 3
"Numbers of the vector of a word, how often the word has to be there, and passes over all."

Line = tuple[Floats, float, float]
"Coefficients, intercept, and what the model says of its own fit."


def linear_regression(frame: Any, _: Problem) -> Line:
    """A linear model by L-BFGS, and the mean of its squared errors."""
    from pyspark.ml.regression import LinearRegression

    asked = LinearRegression(
        featuresCol=FEATURES, labelCol=LABEL, maxIter=ITERATIONS, solver="l-bfgs"
    )
    model = asked.fit(frame)
    return model.coefficients.toArray(), model.intercept, model.summary.meanSquaredError


def _errors_are_right(found: Line, context: Any, problem: Problem) -> bool:
    """Look whether the errors are those of the model, and less than those of a constant."""
    coefficients, intercept, error = found
    of = partial(_squares, coefficients, intercept)
    errors, squares, total = added(context, problem, of) / problem.rows
    return close(error / errors, 1) and bool(errors < squares - total**2)


def _squares(coefficients: Floats, intercept: float, partition: int, problem: Problem) -> Floats:
    """Sums of squared errors, of squared labels, and of labels."""
    labels, rows = data.on_a_plane(partition, problem)
    errors = labels - rows @ coefficients - intercept
    return np.array([errors @ errors, labels @ labels, labels.sum()])


def logistic_regression(frame: Any, _: Problem) -> Line:
    """A logistic model by L-BFGS, and its mean loss."""
    from pyspark.ml.classification import LogisticRegression

    asked = LogisticRegression(featuresCol=FEATURES, labelCol=LABEL, maxIter=ITERATIONS)
    model = asked.fit(frame)
    return model.coefficients.toArray(), model.intercept, model.summary.objectiveHistory[-1]


def _losses_are_right(found: Line, context: Any, problem: Problem) -> bool:
    """Look whether the loss is that of the model, and less than that of a coin."""
    coefficients, intercept, loss = found
    of = partial(_loss, coefficients, intercept)
    expected = added(context, problem, of) / problem.rows
    return close(loss / expected, 1) and bool(expected < np.log(2))


def _loss(coefficients: Floats, intercept: float, partition: int, problem: Problem) -> float:
    labels, rows = data.on_two_sides(partition, problem)
    margins = (2 * labels - 1) * (rows @ coefficients + intercept)
    return float(np.logaddexp(0, -margins).sum())


def decision_tree(frame: Any, _: Problem) -> float:
    """How much purer labels are behind the first question of a tree (Gini impurity)."""
    from pyspark.ml.classification import DecisionTreeClassifier

    asked = DecisionTreeClassifier(featuresCol=FEATURES, labelCol=LABEL, maxDepth=DEPTH)
    root = asked.fit(frame)._call_java("rootNode")  # noqa: SLF001  # Python knows no nodes
    return float(root.gain())


def _first_question_is_right(found: float, context: Any, problem: Problem) -> bool:
    """Look whether no other question gains more."""
    below = added(context, problem, data.contingency).cumsum(axis=1)
    whole = below[:, -1:, :]
    sides = (below[:, :-1], whole - below[:, :-1])
    left = sum(_impurities(side) for side in sides) / problem.rows
    gains = _impurities(whole) / problem.rows - left
    return close(found, gains.max())


def _impurities(counts: Floats) -> Floats:
    """Gini impurities of rows that are counted by labels, times their number."""
    rows = counts.sum(axis=2)
    pairs = (counts**2).sum(axis=2)
    found: Floats = rows - np.divide(pairs, rows, where=rows > 0, out=np.zeros_like(rows))
    return found


Factors = Mapping[int, Floats]
"Factors of users or items, by their numbers."


def _ratings(spark: Any, problem: Problem) -> Any:
    def rows(partition: int, asked: Problem) -> Iterator[tuple[int, int, float]]:
        for user, items, given in data.ratings(partition, asked):
            pairs = zip(items.tolist(), given.tolist(), strict=True)
            yield from ((user, item, rating) for item, rating in pairs)

    return data.table(spark, problem, rows, "user int, item int, rating float")


def _looked_at(problem: Problem) -> list[data.Rated]:
    return list(islice(data.ratings(0, problem), LOOKED_AT))


def factorization(frame: Any, problem: Problem) -> tuple[Factors, Factors]:
    """Factors of some users, and of the items that they have rated (alternating least squares)."""
    from pyspark.ml.recommendation import ALS

    asked = ALS(
        rank=RANK,
        maxIter=SWEEPS,
        regParam=PENALTY,
        seed=problem.seed,
        userCol="user",
        itemCol="item",
        ratingCol="rating",
    )
    model = asked.fit(frame)
    looked_at = _looked_at(problem)
    items = {int(item) for _, rated, _ in looked_at for item in rated}
    users = _factors(model.userFactors, [user for user, _, _ in looked_at])
    return users, _factors(model.itemFactors, sorted(items))


def _factors(frame: Any, numbers: list[int]) -> Factors:
    rows = frame.where(frame[ID].isin(numbers)).collect()
    return {row.id: np.array(row.features, float) for row in rows}


def _factors_are_right(found: tuple[Factors, Factors], _: Any, problem: Problem) -> bool:
    """Look whether users' factors are the best ones for those of items, as after every step."""
    users, items = found
    looked_at = _looked_at(problem)
    return bool(looked_at) and all(
        close(users[user], _best([items[int(item)] for item in rated], given))
        for user, rated, given in looked_at
    )


def _best(factors: list[Floats], given: Floats) -> Floats:
    """Factors by which these give such ratings, with a penalty for each rating."""
    matrix = np.array(factors)
    penalty = PENALTY * len(factors) * np.eye(RANK)
    best = np.linalg.solve(matrix.T @ matrix + penalty, matrix.T @ given)
    return np.asarray(best, np.float64)


def mixture(frame: Any, problem: Problem) -> Floats:
    """Mean products of all pairs of columns, the first of which is 1, in a mixture of normal
    distributions.
    """
    from pyspark.ml.clustering import GaussianMixture

    asked = GaussianMixture(
        k=data.CENTRES, maxIter=ITERATIONS, seed=problem.seed, featuresCol=FEATURES
    )
    model = asked.fit(frame)
    parts = zip(model.weights, model.gaussiansDF.collect(), strict=True)
    return sum(
        (weight * _products(row.mean.toArray(), row.cov.toArray()) for weight, row in parts),
        start=np.zeros((problem.columns + 1, problem.columns + 1)),
    )


def _products(mean: Floats, covariance: Floats) -> Floats:
    with_one = np.concatenate([[1.0], mean])
    products = np.outer(with_one, with_one)
    products[1:, 1:] += covariance
    return products


def _mixture_is_right(found: Floats, context: Any, problem: Problem) -> bool:
    """Look whether they are those of the rows, as after every step of expectation-maximization."""
    expected = added(context, problem, partial(data.moments, data.clustered)) / problem.rows
    return close(found, expected)


def _sentences(spark: Any, problem: Problem) -> Any:
    def rows(partition: int, asked: Problem) -> Iterator[tuple[list[str]]]:
        return ((list(map(str, words)),) for words in data.documents(partition, asked))

    return data.table(spark, problem, rows, "words array<string>")


def word_vectors(frame: Any, problem: Problem) -> dict[str, float]:
    """Words, and the length of the vector of each."""
    from pyspark.ml.feature import Word2Vec

    asked = Word2Vec(vectorSize=VECTOR, minCount=LEAST_OFTEN, maxIter=PASSES, seed=problem.seed)
    rows = asked.setInputCol("words").fit(frame).getVectors().collect()
    return {row.word: float(np.linalg.norm(row.vector.toArray())) for row in rows}


def _words_are_right(found: dict[str, float], context: Any, problem: Problem) -> bool:
    """Look whether every word that is there often enough has a vector, and no other one."""
    counts = added(context, problem, _words)
    often = {str(word) for word, number in counts.items() if number >= LEAST_OFTEN}
    return found.keys() == often and all(length > 0 for length in found.values())


def _words(partition: int, problem: Problem) -> Counter[int]:
    return Counter(data.documents(partition, problem).ravel().tolist())


WORKLOADS: Mapping[str, Workload] = {
    "glm-regression": Workload(
        Problem(1_000_000, 10_000),
        partial(labelled, data.on_a_plane),
        linear_regression,
        _errors_are_right,
    ),
    "glm-classification": Workload(
        Problem(1_000_000, 10_000),
        partial(labelled, data.on_two_sides),
        logistic_regression,
        _losses_are_right,
    ),
    "decision-tree": Workload(
        Problem(1_000_000, 500),
        partial(labelled, data.categories),
        decision_tree,
        _first_question_is_right,
    ),
    "als": Workload(Problem(6_000_000, 5_000_000), _ratings, factorization, _factors_are_right),
    "gmm": Workload(
        Problem(1_000_000, 100), partial(vectors, data.clustered), mixture, _mixture_is_right
    ),
    "word2vec": Workload(Problem(1_000_000, 10_000), _sentences, word_vectors, _words_are_right),
}
