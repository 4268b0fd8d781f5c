"""Low rank in clusters of the columns of wide matrices, or of the rows of tall ones."""

import numpy as np
import pytest

import papilio as pp
from papilio.runtime.session import Session
from papilio.search.methods.subspaces import n_clusters, subspaces


def in_subspaces(rank=3, count=4, per_cluster=36, m=24, dtype=np.float64, seed=0):
    """Columns in orthogonal subspaces, with any signs and in any order."""
    random = np.random.default_rng(seed)

    def normal(*shape):
        values = random.standard_normal(shape)
        return values + 1j * random.standard_normal(shape) if np.dtype(dtype).kind == "c" else values

    basis = np.linalg.qr(normal(m, m))[0]
    parts = [basis[:, rank * i : rank * (i + 1)] @ normal(rank, per_cluster) for i in range(count)]
    return np.hstack(parts)[:, random.permutation(count * per_cluster)].astype(dtype)


def smooth(m=20, n=400):
    """Columns that move slowly along a curve, as those of a gain matrix do on a surface."""
    x, y = np.linspace(0, 1, m)[:, None], np.linspace(0, 1, n)
    return 1 / (0.02 + (x - y) ** 2)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_columns_or_rows_in_few_subspaces_are_found_exactly(dtype, turned):
    M = in_subspaces(dtype=dtype)
    M = np.ascontiguousarray(M.T) if turned else M
    entries = 3 * 144 + 4 * 3 * 24
    fit = pp.factorize(M, complexity=entries / M.size, method="subspaces")
    assert (fit.method, fit.operator.dtype, fit.operator.nnz) == ("subspaces", dtype, entries)
    assert fit.error < (1e-5 if np.dtype(dtype).itemsize <= 8 and dtype != np.float64 else 1e-12)
    np.testing.assert_allclose(fit.operator.toarray(), M, atol=1e-4)


def test_errors_and_entries_of_a_curve_are_those_of_its_products():
    M = smooth()
    curves = list(subspaces(Session(), M, None))
    assert len(curves) > 1
    for curve in curves:
        for place in (0, curve.entries.size // 2, curve.entries.size - 1):
            operator = curve.build(place)
            assert operator.nnz == curve.entries[place]
            error = np.linalg.norm(M - operator.toarray()) / np.linalg.norm(M)
            assert curve.errors[place] == pytest.approx(error, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("complexity", [0.15, 0.3])
def test_neighbours_on_a_curve_need_far_fewer_entries_than_low_rank(complexity):
    M = smooth()
    values = np.linalg.svd(M, compute_uv=False)
    rank = int(complexity * M.size) // sum(M.shape)
    of_rank = np.linalg.norm(values[rank:]) / np.linalg.norm(values)
    assert pp.factorize(M, complexity=complexity, method="subspaces").error < 0.5 * of_rank


def test_signs_do_not_matter():
    M = smooth()
    signs = np.where(np.random.default_rng(0).random(M.shape[1]) < 0.5, -1, 1)
    first, second = (pp.factorize(each, complexity=0.2, method="subspaces").error for each in (M, M * signs))
    assert second == pytest.approx(first, rel=0.05)


def test_results_repeat_and_the_input_stays():
    M = smooth()
    before = M.copy()
    first, second = (pp.factorize(M, complexity=0.2, method="subspaces").operator.toarray() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(M, before)


def test_the_fewest_entries_within_an_error():
    M = smooth()
    fit = pp.factorize(M, max_error=0.05, method="subspaces")
    assert fit.error <= 0.05
    values = np.linalg.svd(M, compute_uv=False)
    missed = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1]) / np.linalg.norm(values)
    rank = int(np.argmax(missed <= 0.05))
    assert fit.operator.nnz < 0.7 * rank * sum(M.shape)


def test_matrices_that_are_neither_wide_nor_tall_have_none():
    assert n_clusters((10, 10)) == 1
    assert n_clusters((248, 16384)) == n_clusters((16384, 248)) == 32
    assert not list(subspaces(Session(), np.ones((10, 30)), 100))
    assert pp.factorize(np.eye(10), complexity=0.5, method="subspaces").status == "no_structure"


def test_columns_of_zeros_need_no_entries():
    M = smooth()
    M[:, ::3] = 0
    fit = pp.factorize(M, complexity=0.2, method="subspaces")
    assert fit.error < 0.01
    np.testing.assert_array_equal(fit.operator.toarray()[:, ::3], 0)


def test_subspaces_give_two_factors():
    with pytest.raises(ValueError, match="n_factors must be 2 for subspaces, got 3"):
        pp.factorize(smooth(), n_factors=3, method="subspaces")
