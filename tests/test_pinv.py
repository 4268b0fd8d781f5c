"""The pseudoinverse by iteration against NumPy's."""

from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import papilio as pp
from papilio import SparseProduct

from .helpers import gaussian

MATRICES = {
    "tall": gaussian((9, 5)),
    "wide": gaussian((5, 9)),
    "square": gaussian((6, 6)) + 3 * np.eye(6),
    "rank 2": gaussian((8, 2)) @ gaussian((2, 7), seed=1),
    "zero": np.zeros((3, 4)),
    "one entry": np.array([[-3.0]]),
    "row": gaussian((1, 5)),
    "ill-conditioned": np.diag(10.0 ** -np.arange(6)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_products_with_the_pseudoinverse_are_numpys(name: str, dtype: Any) -> None:
    matrix = MATRICES[name].astype(dtype)
    if matrix.dtype.kind == "c":
        matrix = (matrix * np.exp(1j * np.arange(matrix.shape[1]))).astype(dtype)
    op = SparseProduct([matrix], 2.0)
    single = np.finfo(dtype).bits == 32
    if single and name == "ill-conditioned":
        pytest.skip("its small values are below the tolerance of single precision")
    expected = np.linalg.pinv(2 * matrix.astype(np.result_type(dtype, np.float64)), rcond=1e-4 if single else 1e-9)
    tolerance = (1e-4 if single else 1e-8) * max(np.abs(expected).max(), 1e-300)
    inverse = op.pinv()
    B = gaussian((op.shape[0], 3), dtype, 7)
    assert isinstance(inverse, LinearOperator)
    assert (inverse.shape, inverse.dtype) == (op.shape[::-1], dtype)
    for found, exact in (
        (inverse @ B, expected @ B),
        (inverse @ B[:, 0], expected @ B[:, 0]),
        (inverse.matvec(B[:, 1]), expected @ B[:, 1]),
        (inverse.H @ gaussian((op.shape[1], 2), dtype), expected.conj().T @ gaussian((op.shape[1], 2), dtype)),
        (inverse.T @ gaussian((op.shape[1], 2), dtype), expected.T @ gaussian((op.shape[1], 2), dtype)),
    ):
        assert (found.shape, found.dtype) == (exact.shape, dtype)
        assert np.abs(found - exact).max() <= 10 * tolerance


def test_penroses_conditions_hold_for_a_product_of_factors() -> None:
    op = pp.transforms.random_product((24, 16), 3, complexity=0.5, random_state=3)
    A, inverse = op.toarray(), op.pinv() @ np.eye(24)
    for left, right in ((A @ inverse @ A, A), (inverse @ A @ inverse, inverse)):
        np.testing.assert_allclose(left, right, atol=1e-8 * np.abs(right).max())
    for projection in (A @ inverse, inverse @ A):
        np.testing.assert_allclose(projection, projection.T, atol=1e-8)


@pytest.mark.parametrize("make", [pp.transforms.dct, pp.transforms.hadamard, pp.transforms.dft])
def test_one_iteration_inverts_an_orthogonal_transform(make: Any) -> None:
    transform = make(16)
    x = gaussian((16, 4), transform.dtype)
    found = transform.pinv(max_iter=2) @ (transform @ x)  # the second sees that the first was enough
    np.testing.assert_allclose(found, x, atol=1e-12)


def test_columns_end_each_on_its_own_and_do_not_disturb_others() -> None:
    op = SparseProduct([np.diag([1.0, 2.0, 3.0, 4.0])])
    B = np.zeros((4, 4))
    B[:, 0] = [1, 0, 0, 0]  # one iteration
    B[:, 2] = [1, 1, 1, 1]  # four
    B[:, 3] = [0, 1e-200, 0, 1e200]
    np.testing.assert_allclose(op.pinv() @ B, B / np.array([[1.0], [2.0], [3.0], [4.0]]), rtol=1e-10, atol=1e188)
    np.testing.assert_allclose(
        (op.pinv() @ B)[:, :3], B[:, :3] / np.array([[1.0], [2.0], [3.0], [4.0]]), atol=1e-12
    )


def test_pinv_warns_without_convergence_and_stops_at_its_tolerance() -> None:
    op = SparseProduct([np.diag(10.0 ** -np.arange(6))])
    with pytest.warns(RuntimeWarning, match=r"pinv has not converged for 1 of 2 vectors in max_iter=2"):
        op.pinv(max_iter=2) @ np.array([[1.0] * 6, [0.0] * 6]).T
    rough = op.pinv(tol=1e-2) @ np.ones(6)
    assert 1e-3 < np.abs(op @ rough - 1).max() <= 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tol": -1}, ValueError, "^tol must"),
        ({"tol": "1"}, TypeError, "^tol must"),
        ({"max_iter": 0}, ValueError, "^max_iter must"),
        ({"max_iter": 1.5}, TypeError, "^max_iter must"),
    ],
)
def test_bad_options_are_refused_by_name(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pp.transforms.haar(4).pinv(**options)
    with pytest.raises(ValueError, match="finite"):
        pp.transforms.haar(4).pinv() @ [1, np.nan, 0, 0]


def test_pinv_adds_to_other_operators_and_takes_lists_and_columns() -> None:
    inverse, dense = SparseProduct([gaussian((6, 4))]).pinv(), np.linalg.pinv(gaussian((6, 4)))
    for ones in (np.ones(6), [1] * 6, np.ones(6, int)):
        np.testing.assert_allclose(inverse @ ones, dense.sum(axis=1), atol=1e-10)
    np.testing.assert_allclose(inverse @ np.ones((6, 1)), dense.sum(axis=1)[:, None], atol=1e-10)
    total = inverse + aslinearoperator(np.ones((4, 6)))
    np.testing.assert_allclose(total @ np.eye(6), dense + 1, atol=1e-10)
