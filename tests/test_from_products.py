"""Operators that are known by products with them and their adjoints only."""

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator, splu
from scipy.spatial.distance import cdist

import papilio as pp
from papilio.runtime.session import Session
from papilio.search.nested.sketches import Sketch, by_points, nested_from_sketches

from .helpers import DTYPES, gaussian, true_error


class Counted(LinearOperator):
    """A matrix behind products, which are counted; what is not ``given`` falls back on what SciPy does."""

    def __init__(self, matrix, adjoint=None):
        super().__init__(matrix.dtype, matrix.shape)
        self.matrix, self.back, self.count = matrix, matrix.conj().T if adjoint is None else adjoint, 0

    def _matmat(self, X):
        self.count += X.shape[1]
        return self.matrix @ X

    def _rmatmat(self, X):
        self.count += X.shape[1]
        return self.back @ X


def nested(shape, rank, depth, dtype=np.float64, seed=0):
    """A matrix whose off-diagonal blocks have nested bases of a rank, and whose leaves are full."""
    m, n = shape
    if depth == 0:
        return (
            gaussian(shape, dtype, seed),
            gaussian((m, rank), dtype, seed + 1),
            gaussian((n, rank), dtype, seed + 2),
        )
    half = (m + 1) // 2, (n + 1) // 2
    first, U1, V1 = nested(half, rank, depth - 1, dtype, 10 * seed + 3)
    second, U2, V2 = nested((m - half[0], n - half[1]), rank, depth - 1, dtype, 10 * seed + 4)
    upper, lower = gaussian((2, rank, rank), dtype, seed + 5)
    whole = np.block([[first, U1 @ upper @ V2.conj().T], [U2 @ lower @ V1.conj().T, second]])
    mix = gaussian((4, rank, rank), dtype, seed + 6) / np.sqrt(rank)
    return whole, np.vstack([U1 @ mix[0], U2 @ mix[1]]), np.vstack([V1 @ mix[2], V2 @ mix[3]])


def laplacian(side):
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return (sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line)).tocsc()


def inverse(matrix):
    lu = splu(sp.csc_array(matrix))
    return LinearOperator(
        matrix.shape,
        matvec=lu.solve,
        matmat=lu.solve,
        rmatvec=lambda x: lu.solve(x, "H"),
        rmatmat=lambda x: lu.solve(x, "H"),
        dtype=matrix.dtype,
    )


# -- exact structures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(300, 300), (301, 220), (170, 333)])
def test_nested_low_rank_is_found_exactly_from_few_products(shape, dtype):
    rank = 4
    matrix = nested(shape, rank, 5, dtype)[0].astype(dtype)
    operator = Counted(matrix)
    is_single = np.dtype(dtype).char in "fF"
    fit = pp.factorize(operator, max_error=1e-4 if is_single else 1e-10)
    assert fit.status.value == "converged"
    assert fit.operator.dtype == dtype
    assert true_error(matrix, fit.operator) < (1e-4 if is_single else 1e-10)
    assert fit.operator.nnz < 0.6 * matrix.size
    assert fit.n_products == operator.count <= 2 * 16 * rank + 24
    assert fit.error_is_estimate


@pytest.mark.parametrize("kind", ["self-adjoint", "symmetric"])
def test_one_product_with_the_adjoint_is_enough_for_symmetric_operators(kind):
    points = np.sort(np.random.default_rng(0).random(400))
    distances = np.abs(points[:, None] - points)
    matrix = np.exp(-(4 + 3j) * distances)
    if kind == "self-adjoint":
        matrix = np.exp(-4 * distances + 3j * (points[:, None] - points))
    calls = {"forward": 0, "adjoint": 0}

    def forward(x):
        calls["forward"] += x.shape[1]
        return matrix @ x

    def adjoint(x):
        calls["adjoint"] += x.shape[1]
        return matrix.conj().T @ x

    operator = LinearOperator(matrix.shape, forward, rmatmat=adjoint, matmat=forward, dtype=complex)
    fit = pp.factorize(operator, max_error=1e-10)
    assert true_error(matrix, fit.operator) < 1e-10
    assert calls["adjoint"] == 1
    assert fit.n_products == sum(calls.values()) < 60


def test_low_rank_is_two_factors():
    matrix = gaussian((400, 6)) @ gaussian((6, 310), seed=1)
    fit = pp.factorize(Counted(matrix), max_error=1e-10)
    assert fit.method == "low_rank"
    assert fit.operator.nnz == 6 * (400 + 310)
    assert true_error(matrix, fit.operator) < 1e-10


@pytest.mark.slow
def test_neighbours_lower_the_error_in_the_plane():
    """With the same products: near blocks are kept, and what is left has a lower rank."""
    points = np.stack(np.meshgrid(np.arange(44.0), np.arange(44.0)), axis=-1).reshape(-1, 2)
    matrix = 1 / (cdist(points, points) + 0.5)
    tests = gaussian((44**2, 140))
    sketch = Sketch(tests, matrix @ tests, tests, matrix @ tests, "self-adjoint")
    places = by_points("", points, points, 9)
    alone, among = (
        nested_from_sketches(Session(), sketch, places, most, 1e-4 * np.linalg.norm(matrix)) for most in (1, 6)
    )
    assert true_error(matrix, among) < 0.5 * true_error(matrix, alone)
    assert among.nnz < alone.nnz


def test_coordinates_of_rows_and_columns():
    random = np.random.default_rng(0)
    rows, columns = random.random(500), random.random(300)
    matrix = 1 / (np.abs(rows[:, None] - columns) + 0.05)
    fit = pp.factorize(Counted(matrix), coordinates=(rows, columns), max_error=1e-3)
    assert fit.status.value == "converged"
    assert fit.operator.relative_complexity < 0.2
    assert true_error(matrix, fit.operator) < 1.5e-3


# -- errors and their estimates -------------------------------------------------------------------------


@pytest.mark.slow
def test_the_inverse_of_a_laplacian_in_natural_order():
    matrix = laplacian(24)
    fit = pp.factorize(inverse(matrix), max_error=1e-2)
    exact = np.linalg.inv(matrix.toarray())
    assert fit.status.value == "converged"
    assert fit.error / 1.5 < true_error(exact, fit.operator) < 1.5 * fit.error
    assert fit.n_products < 200


def test_the_unit_does_not_matter():
    matrix = nested((200, 200), 3, 4)[0]
    for unit in (1e-200, 1e200):
        fit = pp.factorize(Counted(matrix * unit), max_error=1e-8)
        assert true_error(matrix, fit.operator.toarray() / unit) < 1e-8


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5), (1, 200), (97, 97), (100, 131)])
def test_small_operators(shape):
    matrix = gaussian(shape)
    fit = pp.factorize(Counted(matrix), max_error=1e-9)
    assert fit.operator.shape == shape
    assert fit.n_products > 0
    if min(shape) <= 96:
        assert true_error(matrix, fit.operator) < 1e-9
        assert not fit.error_is_estimate


# -- operators as SciPy has them ------------------------------------------------------------------------


def test_scipys_own_operators_and_those_without_blocks():
    matrix = nested((150, 140), 2, 4)[0]
    by_vectors = LinearOperator(matrix.shape, matvec=lambda x: matrix @ x, rmatvec=lambda x: matrix.T @ x)
    for operator in (aslinearoperator(matrix), by_vectors, aslinearoperator(matrix) * 2.0):
        fit = pp.factorize(operator, max_error=1e-8)
        factor = 2.0 if isinstance(operator, type(aslinearoperator(matrix) * 2.0)) else 1.0
        assert true_error(factor * matrix, fit.operator) < 1e-8


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_an_operator_without_a_dtype(dtype):
    class Bare(Counted):
        def __init__(self, matrix):
            super().__init__(matrix)
            self.dtype = None

    matrix = nested((150, 150), 2, 4, dtype)[0].astype(dtype)
    fit = pp.factorize(Bare(matrix), max_error=1e-4)
    assert true_error(matrix, fit.operator) < 1e-3
    assert fit.operator.dtype.kind == np.dtype(dtype).kind


def test_a_sparse_product_is_a_matrix():
    fit = pp.factorize(pp.transforms.hadamard(16))
    assert fit.n_products == 0
    assert not fit.error_is_estimate


# -- bad input ------------------------------------------------------------------------------------------

MATRIX = gaussian((120, 110))


def test_an_operator_without_an_adjoint():
    operator = LinearOperator(MATRIX.shape, matvec=lambda x: MATRIX @ x, dtype=float)
    with pytest.raises(TypeError, match="M must have an adjoint, rmatvec or rmatmat"):
        pp.factorize(operator)


@pytest.mark.parametrize("wrong", [2 * MATRIX.T, -MATRIX.T, gaussian((110, 120), seed=1)])
def test_a_wrong_adjoint_is_found_before_work_begins(wrong):
    operator = Counted(MATRIX, wrong)
    with pytest.raises(ValueError, match=r"adjoint must satisfy <M x, y> = <x, M\^H y>"):
        pp.factorize(operator)
    assert operator.count == 2


def test_the_transpose_of_a_complex_matrix_is_not_its_adjoint():
    matrix = gaussian((120, 110), complex)
    with pytest.raises(ValueError, match="adjoint must satisfy"):
        pp.factorize(Counted(matrix, matrix.T))


class Wrong(Counted):
    results: ClassVar = {
        "NaN": (lambda y: np.full_like(y, np.nan), ValueError, "M.matmat must return finite numbers only"),
        "shape": (lambda y: y[:-1], ValueError, r"M.matmat must return shape \(120, 1\) for \(110, 1\), got"),
        "complex": (lambda y: y * 1j, TypeError, "M.matmat must return real numbers, as M.dtype = float64 says"),
        "text": (lambda y: np.full(y.shape, "a"), TypeError, "M.matmat must hold real or complex numbers"),
    }

    def __init__(self, name):
        super().__init__(MATRIX)
        self.change, *self.expected = self.results[name]

    def _matmat(self, X):
        return self.change(super()._matmat(X))


@pytest.mark.parametrize("name", Wrong.results)
def test_products_that_are_no_products(name):
    operator = Wrong(name)
    kind, message = operator.expected
    with pytest.raises(kind, match=message):
        pp.factorize(operator)


def test_the_operators_own_errors_come_through():
    class Failing(Counted):
        def _rmatmat(self, X):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own") as raised:
        pp.factorize(Failing(MATRIX))
    assert "M.rmatmat" in raised.value.__notes__[0]


@pytest.mark.parametrize("option", [{"complexity": 0.1}, {"speedup": 2}, {"n_factors": 3}, {"block": 4}])
def test_other_targets_are_for_matrices(option):
    (name,) = option
    with pytest.raises(ValueError, match=f"{name} is for matrices: for a LinearOperator, give max_error"):
        pp.factorize(Counted(MATRIX), **option)


def test_bad_arguments():
    operator = Counted(MATRIX)
    with pytest.raises(ValueError, match="method must be one of 'auto', 'nested'"):
        pp.factorize(operator, method="butterfly")
    with pytest.raises(ValueError, match=r"coordinates\[0\] must have shape \(120,\) or \(120, d\)"):
        pp.factorize(operator, coordinates=(np.arange(110), np.arange(110)))
    with pytest.raises(ValueError, match="max_error"):
        pp.factorize(operator, max_error=-1)
    with pytest.raises(ValueError, match="coordinates must be given for rows and for columns"):
        pp.factorize(operator, coordinates=(np.arange(120), None))
    with pytest.raises(ValueError, match="coordinates must have points of one dimension, got 1 for rows and 2"):
        pp.factorize(operator, coordinates=(np.arange(120), np.ones((110, 2))))
    with pytest.raises(ValueError, match=r"M must have shape \(3, 4\), got \(120, 110\)"):
        pp.factorize(operator, shape=(3, 4))
    assert operator.count == 0


# -- stopping -------------------------------------------------------------------------------------------


def test_a_stop_uses_the_products_so_far():
    operator = Counted(gaussian((500, 3)) @ gaussian((3, 400), seed=1))

    def callback(step):
        return operator.count > 60

    fit = pp.factorize(operator, max_error=1e-12, callback=callback)
    assert fit.status.value == "stopped"
    assert fit.error < 1e-10


def test_a_callback_sees_progress_and_stops():
    operator, steps = Counted(MATRIX), []

    def callback(step):
        steps.append(step)
        return len(steps) == 3

    fit = pp.factorize(operator, callback=callback)
    assert fit.status.value == "stopped"
    assert len(steps) == 3
    assert any("products" in step.phase for step in steps)
    done = [step.done for step in steps]
    assert done == sorted(done)


def test_an_operator_of_pylops_is_one_too():
    pylops = pytest.importorskip("pylops")
    smooth = pylops.Smoothing1D(9, 96)
    matrix = smooth.todense()
    fit = pp.factorize(smooth, max_error=1e-3)
    assert fit.n_products > 0
    assert np.linalg.norm(fit.operator.toarray() - matrix) <= 2e-3 * np.linalg.norm(matrix)
