"""factorize: its targets and its arguments."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp

from .helpers import gaussian, spline_smoother


@pytest.mark.parametrize(
    ("shape", "complexity"),
    [((16, 16), 0.3), ((16, 16), 0.8), ((24, 24), 0.5), ((40, 10), 0.8), ((10, 40), 0.3)],
)
def test_complexity_is_kept_nearly_used_and_the_shape_is_right(shape, complexity, few_rounds):
    result = pp.factorize(gaussian(shape), complexity=complexity)
    assert result.operator.shape == shape
    assert 0.8 * complexity < result.operator.relative_complexity <= complexity


@pytest.mark.slow
def test_the_error_falls_as_the_complexity_grows():
    X = gaussian((24, 24))
    errors = [pp.factorize(X, complexity=value).error for value in (0.2, 0.4, 0.6, 0.8)]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize(
    ("shape", "n_factors"), [((16, 16), 2), ((16, 16), 5), ((40, 12), 3), ((12, 40), 2), ((12, 40), 5)]
)
def test_n_factors_is_the_number_of_factors(shape, n_factors, few_rounds):
    result = pp.factorize(gaussian(shape), n_factors=n_factors)
    assert len(result.operator.factors) == n_factors
    assert result.error < 1


def test_the_hadamard_matrix_comes_out_exact_without_any_target():
    H = pp.transforms.hadamard(64).toarray()
    for target in ({}, {"n_factors": 6}, {"complexity": 0.25}, {"max_error": 0.01}):
        result = pp.factorize(H, **target)
        assert result.error < 1e-12
        assert result.operator.nnz == 2 * 64 * 6


@pytest.mark.slow
def test_max_error_is_reached_with_few_entries_or_with_the_matrix_itself():
    X = gaussian((20, 20))
    loose, tight = pp.factorize(X, max_error=0.5), pp.factorize(X, max_error=0.1)
    assert loose.error <= 0.5
    assert tight.error <= 0.1
    assert loose.operator.nnz < tight.operator.nnz < X.size
    impossible = pp.factorize(X, max_error=1e-9)
    assert impossible.error == 0
    np.testing.assert_array_equal(impossible.operator.toarray(), X)


def test_matrices_too_small_to_gain_anything_are_returned_as_they_are():
    for shape in ((1, 1), (1, 6), (5, 1), (2, 2)):
        result = pp.factorize(gaussian(shape))
        assert result.error == 0
        assert len(result.operator.factors) == 1


@pytest.mark.slow
def test_the_unit_of_the_data_does_not_matter(few_rounds):
    X = gaussian((12, 12))
    expected = pp.factorize(X).error
    for size in (2.0**-300, 0.125, 2.0**300):
        assert pp.factorize(X * size).error == expected


def test_the_zero_matrix_is_its_own_factorization():
    for target in ({}, {"complexity": 0.5}, {"n_factors": 3}, {"max_error": 0.1}):
        assert pp.factorize(np.zeros((8, 8)), **target).error == 0


def test_it_repeats_and_does_not_change_its_input(few_rounds):
    X = gaussian((16, 16))
    copy = X.copy()
    assert pp.factorize(X).operator == pp.factorize(X).operator
    np.testing.assert_array_equal(X, copy)


@pytest.mark.parametrize(
    ("matrix", "target", "error", "named"),
    [
        (np.full((4, 4), np.nan), {}, ValueError, "M must"),
        (np.zeros((0, 4)), {}, ValueError, "M must"),
        (["a"], {}, TypeError, "M must"),
        (np.eye(20), {"n_factors": 1}, ValueError, "n_factors"),
        (np.eye(20), {"complexity": 0}, ValueError, "complexity"),
        (np.eye(20), {"complexity": 0.01}, ValueError, "complexity"),
        (np.eye(20), {"complexity": 1.5}, ValueError, "complexity"),
        (np.eye(20), {"complexity": "0.5"}, TypeError, "complexity"),
        (np.eye(20), {"max_error": -1}, ValueError, "max_error"),
        (np.eye(20), {"max_error": 0.1, "complexity": 0.5}, ValueError, "max_error"),
        (np.eye(20), {"method": "magic"}, ValueError, "method"),
    ],
)
def test_bad_input_is_named(matrix, target, error, named):
    with pytest.raises(error, match=named):
        pp.factorize(matrix, **target)


@pytest.mark.parametrize("method", [np.array(["auto"]), ["auto"], None, 3, b"auto", np.array("auto")])
def test_a_method_is_a_string(method):
    with pytest.raises(ValueError, match=r"^method must be one of 'auto'"):
        pp.factorize(np.eye(4) + 1, method=method)


# -- what wins by the rule -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "matrix", [pp.transforms.hadamard(4).toarray(), np.fft.fft(np.eye(5)), np.sign(gaussian((3, 5)))]
)
def test_small_flat_matrices_are_their_own_best_product(matrix):
    """No product has a sum of error and complexity below 1, which is that of the matrix itself."""
    fit = pp.factorize(matrix)
    assert fit.error == 0
    assert fit.method == "itself"


def butterfly_product(n, random, is_complex=False):
    """A product of butterfly factors with Gaussian entries, its rows and columns permuted."""
    product = np.eye(n)
    for level in range(n.bit_length() - 1):
        places = np.arange(n)
        factor = np.zeros((n, n), complex if is_complex else float)
        for other in (places, places ^ (1 << level)):
            factor[places, other] = random.standard_normal(n) + (
                1j * random.standard_normal(n) if is_complex else 0
            )
        product = product @ factor
    return product[random.permutation(n)][:, random.permutation(n)]


@pytest.mark.parametrize("n", [16, 32])
@pytest.mark.parametrize("is_complex", [False, True])
def test_random_butterflies_are_found_whatever_other_methods_find(n, is_complex, few_rounds):
    random = np.random.default_rng(77)
    for _ in range(3):
        fit = pp.factorize(butterfly_product(n, random, is_complex))
        assert fit.method == "butterfly"
        assert fit.error < 1e-10
        assert fit.operator.nnz <= 2 * n * np.log2(n) + n


@pytest.mark.parametrize(
    "target", [{}, {"complexity": 0.6}, {"max_error": 0.3}, {"n_factors": 2}, {"n_factors": 3, "max_error": 0.5}]
)
@pytest.mark.parametrize("shape", [(16, 16), (6, 5), (20, 9)])
def test_blocks_go_with_every_target(shape, target, few_rounds):
    X = gaussian(shape)
    fit = pp.factorize(X, block=4, **target)
    error = np.linalg.norm(X - fit.operator.toarray()) / np.linalg.norm(X)
    assert fit.error == pytest.approx(error, abs=1e-12)


@pytest.mark.parametrize("is_mirrored", [False, True])
def test_a_dense_matrix_times_a_sparse_one_comes_out_exact(is_mirrored):
    random = np.random.default_rng(0)
    sparse = random.standard_normal((12, 80)) * (random.random((12, 80)) < 0.12)
    M = random.standard_normal((12, 12)) @ sparse
    fit = pp.factorize(M.T if is_mirrored else M, method="sparse_basis")
    assert fit.error < 1e-10
    assert fit.operator.nnz <= 144 + np.count_nonzero(sparse)


def test_attempts_beyond_the_target_are_reported():
    kernel = np.where(np.arange(64) < 9, gaussian((64, 1))[:, 0], 0)
    M = sum(np.diag(np.full(256 - k, kernel[k]), -k) for k in range(64)) + 1e-3 * np.tri(256)
    (attempt,) = pp.factorize(M, complexity=0.05, method="convolution").attempts
    assert attempt.detail.startswith("Toeplitz: exact with ")
    assert attempt.detail.endswith(" entries, beyond the target")


@pytest.mark.slow
def test_an_error_that_one_target_reaches_is_reached_by_another_one_with_as_few_entries():
    """A spline smoother: rank 1 misses the error by little, and rank 3 needs few entries more."""
    M = spline_smoother()
    fits = [pp.factorize(M, method="butterfly", max_error=error) for error in (1e-2, 1e-3)]
    counts = [fit.operator.nnz for fit in fits]
    assert counts == sorted(counts)
    within = pp.factorize(M, method="butterfly", complexity=counts[-1] / M.size + 1e-9)
    assert within.error <= 1.01 * fits[-1].error


def test_without_a_target_an_exact_product_does_not_end_the_search_for_a_smaller_one():
    """Low rank is exact with a third of the entries; products of nested bases are, too, with far fewer."""
    matrix = spline_smoother()
    fits = pp.factorize(matrix), pp.factorize(matrix, complexity=0.1)
    sums = [fit.error + fit.operator.relative_complexity for fit in fits]
    halved = [each / 2 if fit.error < 1e-9 else each for each, fit in zip(sums, fits, strict=True)]
    assert halved[0] <= halved[1]


def test_large_sparse_matrices_are_not_filled_in():
    rng = np.random.default_rng(0)
    blocks = [np.outer(rng.standard_normal(60), rng.standard_normal(60)) for _ in range(110)]
    rows, columns = rng.permutation(6600), rng.permutation(6600)
    matrix = sp.csr_array(sp.block_diag(blocks))[rows][:, columns]
    tracemalloc.start()
    fit = pp.factorize(matrix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 6600 * 6600 / 2
    assert fit.method == "low_rank"
    assert fit.error < 1e-12
    assert fit.operator.nnz == 110 * 2 * 60
    few = pp.factorize(matrix, complexity=7e-4)
    assert few.operator.nnz <= 7e-4 * matrix.shape[0] ** 2
    largest = pp.factorize(matrix, complexity=7e-4, method="thresholding")
    kept = largest.operator.scale * sp.csr_array(largest.operator.factors[0])
    assert largest.error == pytest.approx(sp.linalg.norm(matrix - kept) / sp.linalg.norm(matrix), rel=1e-6)
    assert few.error <= largest.error
