"""Errors of outputs against entries, with and without known inputs, for the first layer of a digits classifier.

python docs/figures/inputs.py
"""

import matplotlib
import numpy as np
from common import BLUE, GREEN, ORANGE, STYLE, save
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import papilio as pp
from papilio.typing import Array

COMPLEXITIES = 0.07, 0.1, 0.15, 0.25, 0.35, 0.5, 0.7


def layer() -> tuple[Array, Array, Array]:
    """The matrix, and its inputs in training and in test, one per column."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.data))
    X, y = data.data[order] / 16, data.target[order]
    network = MLPClassifier((256,), max_iter=60, random_state=0).fit(X[:1300], y[:1300])
    return network.coefs_[0].T, X[:1300].T, X[1300:].T


def weighted_svd(M: Array, X: Array, complexity: float) -> Array:
    """The truncated singular value decomposition of M C, times the inverse of C, where CCᵀ is nearly XXᵀ."""
    A = X @ X.T / X.shape[1]
    values, vectors = np.linalg.eigh(A + 1e-4 * np.trace(A) / len(A) * np.eye(len(A)))
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    U, sizes, V = np.linalg.svd(M @ root, full_matrices=False)
    rank = int(complexity * M.size / sum(M.shape))
    return (U[:, :rank] * sizes[:rank]) @ V[:rank] @ inverse


def errors_of_outputs() -> Figure:
    M, seen, new = layer()

    def error(product: Array) -> float:
        return float(np.linalg.norm((M - product) @ new) / np.linalg.norm(M @ new))

    figure = Figure(figsize=(6.4, 3.9), layout="constrained")
    ax = figure.subplots()
    for name, inputs, colour in (("without inputs", None, BLUE), ("with inputs", seen, ORANGE)):
        found = pp.tradeoff(M, COMPLEXITIES, inputs=inputs)
        errors = [error(point.operator.toarray()) for point in found.points]
        ax.plot(COMPLEXITIES, errors, "o-", color=colour, label=name)
    errors = [error(weighted_svd(M, seen, complexity)) for complexity in COMPLEXITIES]
    ax.plot(COMPLEXITIES, errors, "s--", color=GREEN, label="SVD weighted by the inputs")
    ax.set(yscale="log", xlabel="relative complexity", ylabel="error of new outputs")
    ax.legend(frameon=False)
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        save(errors_of_outputs(), "inputs")
