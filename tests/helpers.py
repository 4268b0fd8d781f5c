"""Data and measures that many tests share."""

import inspect
from functools import wraps
from importlib import import_module

import numpy as np
from scipy.interpolate import BSpline

from papilio.search.pricing import Pricing

ALL_DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
# Single precision and complex numbers, each with kernels of their own. Those of complex64 are compiled in tests of
# what everything rests on, and in slow ones: compiling them all over takes minutes.
DTYPES = (np.float32, np.float64, np.complex128)
LAYOUTS = {
    "row-major": np.ascontiguousarray,
    "column-major": np.asfortranarray,
    "strided": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3],
    "columns of more": lambda x: np.asfortranarray(np.vstack([x, x]))[: len(x)],
    "reversed": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda x: np.frombuffer(x.tobytes(), dtype=x.dtype).reshape(x.shape),
    "unaligned": lambda x: np.frombuffer(b"!" + x.tobytes(), dtype=x.dtype, offset=1).reshape(x.shape),
}


def gaussian(shape, dtype=np.float64, seed=0):
    parts = np.random.default_rng(seed).standard_normal((2, *shape))
    return (parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]).astype(dtype)


def orthogonal(n, seed=0):
    return np.linalg.qr(gaussian((n, n), seed=seed))[0]


def as_array(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def true_error(matrix, approximation):
    """The relative error, from its definition; the zero matrix counts as one of norm 1."""
    return np.linalg.norm(matrix - as_array(approximation)) / (np.linalg.norm(matrix) or 1)


def for_each(parameter, values):
    """A decorator of tests that take milliseconds: one case goes through all values, and tells all that fail.

    As cases of their own, they would take longer to be collected and reported than to be run.
    """

    def decorate(test):
        @wraps(test)
        def test_of_all(**fixtures):
            failures = []
            for value in values:
                try:
                    test(**fixtures, **{parameter: value})
                except Exception as failure:
                    failure.add_note(f"with {parameter}={value!r}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(values)} values of {parameter} fail", failures)

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name != parameter]
        test_of_all.__signature__ = signature.replace(parameters=others)
        return test_of_all

    return decorate


def set_in_coding(monkeypatch, settings):
    """Change limits, or choices, of what codes signals, wherever these names are read."""
    pursuit = import_module("papilio.coding.matching_pursuit")
    owners = import_module("papilio.coding.atoms"), pursuit, pursuit.Atoms
    for name, value in settings.items():
        found = [owner for owner in owners if hasattr(owner, name)]
        assert found, name
        for owner in found:
            monkeypatch.setattr(owner, name, value)


class Clock(Pricing):
    """A machine on which each entry of a product takes twice as long as one of the dense matrix, and a call 50."""

    rate, call, bias = 2.0, 50.0, 1.0

    def __init__(self, shape, vectors):
        self.shape, self.vectors = shape, vectors

    def modelled(self, operator):
        return self.bias * (self.rate * operator.nnz + self.call)

    def measured(self, operator):
        return self.rate * operator.nnz + self.call


def spline_smoother(n=200):
    """A corner of B(BᵀB + 1e-3 I)⁻¹Bᵀ with cubic B-splines: smooth, with a band."""
    x, knots = np.linspace(0, 1, 3 * n), np.concatenate([[0] * 3, np.linspace(0, 1, 98), [1] * 3])
    basis = BSpline.design_matrix(x, knots, 3).toarray()
    return (basis @ np.linalg.solve(basis.T @ basis + 1e-3 * np.eye(100), basis.T))[:n, :n]
