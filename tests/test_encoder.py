"""Learned encoders without training: layers, penalties, and what is said where PyTorch is missing."""

import builtins
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

import papilio as pp
from papilio.coding.encoder import Groups, Layer, encode, fista_layers, objectives

from .helpers import gaussian

LABELS = np.array(["b", "a", "b", "c", "a", "b"])


def fista(D, X, alpha, n_iter, groups=None):
    """The method of Beck and Teboulle, written out."""
    L = np.linalg.norm(D, 2) ** 2
    groups = Groups(np.arange(D.shape[1])) if groups is None else groups
    z = y = np.zeros((D.shape[1], X.shape[1]))
    t = 1.0
    for _ in range(n_iter):
        new = groups.shrink(y - D.T @ (D @ y - X) / L, np.full(groups.count, alpha / L))
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        z, y, t = new, new + (t - 1) / after * (new - z), after
    return z


def test_layers_before_training_are_iterations_of_fista():
    D, X = gaussian((6, 9)), gaussian((6, 20), seed=1)
    groups = Groups(np.arange(9))
    for matrix in (D, pp.SparseProduct([D, np.eye(9)])):
        layers = fista_layers(matrix, np.linalg.norm(D, 2), 7, 0.2, groups)
        np.testing.assert_allclose(encode(layers, X, groups), fista(D, X, 0.2, 7), atol=1e-12)


def test_many_layers_end_at_the_lasso():
    D, X = gaussian((6, 9)), gaussian((6, 20), seed=1)
    groups = Groups(np.arange(9))
    layers = fista_layers(D, np.linalg.norm(D, 2), 1000, 0.2, groups)
    found, exact = encode(layers, X, groups), pp.lasso(D, X, 0.2).toarray()
    best = objectives(D, X, exact, 0.2, groups)
    np.testing.assert_allclose(objectives(D, X, found, 0.2, groups), best, rtol=1e-6)


def test_layers_have_matrices_steps_momenta_and_thresholds_of_their_own():
    B, W, x = gaussian((2, 4, 3)), gaussian((2, 4, 3), seed=1), gaussian((4, 5), seed=2)
    groups = Groups(np.arange(3))
    layers = [Layer(B[k], W[k], 0.3 + k, 0.7, np.array([0.1, 0.2, 0.05])) for k in range(2)]
    first = groups.shrink(0.3 * W[0].T @ x, layers[0].thresholds)
    y = first + 0.7 * first
    expected = groups.shrink(y + 1.3 * W[1].T @ (x - B[1] @ y), layers[1].thresholds)
    np.testing.assert_allclose(encode(layers, x, groups), expected, atol=1e-14)


@pytest.mark.parametrize("labels", [LABELS, np.arange(6), np.zeros(6)])
def test_the_threshold_of_groups_is_a_minimum(labels):
    groups, u = Groups(labels), gaussian((6, 3), seed=3)
    thresholds = np.linspace(0.4, 1.6, groups.count)
    found = groups.shrink(u.copy(), thresholds)

    def energy(code, column):
        norms = [np.linalg.norm(code[groups.labels == g]) for g in range(groups.count)]
        return 0.5 * ((code - column) ** 2).sum() + thresholds @ norms

    for column, code in zip(u.T, found.T, strict=True):
        options = {"xatol": 1e-8, "fatol": 1e-12, "maxiter": 3_000}
        best = min(
            minimize(energy, start, args=(column,), method="Nelder-Mead", options=options).fun
            for start in (column, code)
        )
        assert energy(code, column) <= best + 1e-9
        assert energy(0.99 * column, column) > energy(code, column)


def test_groups_are_those_of_the_labels():
    groups, codes = Groups(LABELS), gaussian((6, 4))
    expected = [np.linalg.norm(codes[label == LABELS], axis=0) for label in "abc"]
    np.testing.assert_allclose(groups.norms(codes), expected)
    D, X = gaussian((3, 6)), gaussian((3, 4))
    norms = 0.5 * ((X - D @ codes) ** 2).sum(axis=0) + 0.7 * np.sum(expected, axis=0)
    np.testing.assert_allclose(objectives(D, X, codes, 0.7, groups), norms)


def test_layers_keep_the_precision_of_signals_and_can_be_pickled():
    D = pp.SparseProduct([gaussian((6, 9)), np.eye(9)])
    groups = Groups(np.arange(9))
    layers = pickle.loads(pickle.dumps(fista_layers(D, D.norm(2), 3, 0.2, groups)))
    X = gaussian((6, 5), np.float32)
    single = encode(layers, X, groups)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, encode(layers, X.astype(np.float64), groups), atol=1e-5)


def test_a_missing_pytorch_is_named(monkeypatch):
    load = builtins.__import__

    def without_torch(name, *arguments, **options):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(ImportError, match="needs PyTorch, which is not installed: pip install torch"):
        pp.coding.LearnedEncoder(np.eye(3)).fit(np.ones((4, 3)))
