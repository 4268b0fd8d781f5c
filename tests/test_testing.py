"""The public checks: what they accept, and that they reject what is wrong."""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import papilio as pp
from papilio import constraints as c
from papilio.operators.factors import to_dense
from papilio.testing import check_constraint, dot_test, stationarity

from .registry import SMALL


@pytest.mark.parametrize("name", SMALL)
def test_all_sets_pass(name):
    check_constraint(SMALL[name]())


class Wrong(c.Sparse):
    """A set with one fault."""

    fault = ""

    def _project(self, matrix, nonnegative):
        member = super()._project(matrix, nonnegative)
        if self.fault == "norm":
            return 2 * member
        if self.fault == "smallest" and np.count_nonzero(matrix) > self.n_nonzero:
            return super()._project(1 / matrix, nonnegative)
        if self.fault == "places":
            return np.roll(member, 1, axis=0)
        if self.fault == "in place" and matrix.any():
            matrix[0, 0] += 1
        return member


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("norm", "free_on_support"),
        ("smallest", "nearer"),
        ("places", "not a member"),
        ("in place", "changed its argument"),
    ],
)
def test_a_wrong_projection_is_found(fault, message):
    constraint = Wrong((4, 5), 6)
    constraint.fault = fault
    with pytest.raises(AssertionError, match=message):
        check_constraint(constraint)


def test_too_many_entries_and_values_that_are_not_free_are_found():
    many = c.Sparse((4, 5), 6)
    many.n_nonzero, count = 5, many.n_nonzero
    many._lines = lambda: (1, count)
    with pytest.raises(AssertionError, match="n_nonzero"):
        check_constraint(many)
    tied = c.Toeplitz((4, 5))
    tied.free_on_support = True
    with pytest.raises(AssertionError, match="free_on_support"):
        check_constraint(tied)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_operators_pass_and_wrong_adjoints_are_found(dtype):
    op = pp.SparseProduct([np.arange(12, dtype=dtype).reshape(3, 4)])
    dot_test(op)
    wrong = aslinearoperator(op.toarray())
    wrong._adjoint = lambda: aslinearoperator(2 * op.toarray().conj().T)
    with pytest.raises(AssertionError, match="differ"):
        dot_test(wrong)


def test_booleans_are_no_real_numbers():
    with pytest.raises(TypeError, match="tol must be"):
        pp.palm(np.eye(2), [c.Dense(2)], tol=True)


# -- stationary points -------------------------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
PROBLEMS = {  # targets, and sets of their factors, left to right
    "Hadamard": (pp.transforms.hadamard(16).toarray(), [c.Sparse(16, 32)] * 4),
    "DCT": (pp.transforms.dct(16).toarray(), [c.Sparse(16, 64)] * 4),
    "complex DFT": (pp.transforms.dft(16).toarray(), [c.SparseRows(16, 4)] * 2),
    "12x20": (RANDOM.standard_normal((12, 20)), [c.Sparse((12, 12), 60), c.SparseColumns((12, 20), 4)]),
    "three factors": (RANDOM.standard_normal((16, 16)), [c.Sparse(16, 128), c.Sparse(16, 32), c.Sparse(16, 32)]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_palm_comes_to_a_stationary_point(name):
    X, sets = PROBLEMS[name]
    first, last = (stationarity(X, sets, pp.palm(X, sets, max_iter=n, tol=0).operator) for n in (5, 2000))
    assert last <= 1e-3
    assert last < first / 20 or first < 1e-12


def test_factors_that_a_step_would_move_are_not_stationary():
    X, sets = PROBLEMS["12x20"]
    fit = pp.palm(X, sets, max_iter=2000, tol=0).operator
    left, right = (to_dense(factor).copy() for factor in fit.factors)
    rows, columns = np.nonzero(left)
    left[rows[0], columns[0]] *= 2
    left /= np.linalg.norm(left)
    moved = pp.operators.SparseProduct([left, right], fit.scale)
    assert stationarity(X, sets, moved) > 1e-3 > stationarity(X, sets, fit)
    assert stationarity(X, [c.Fixed(left), c.Fixed(right)], moved) == 0
