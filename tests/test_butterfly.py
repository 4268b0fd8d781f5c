"""Butterflies: on known supports, and found under unknown permutations, signs and noise."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.fft import fft
from scipy.linalg import block_diag, hadamard

import papilio as pp
from papilio.search.known_supports import polish_factors
from papilio.transforms import butterfly_chain
from papilio.transforms.chains import Pattern, is_chainable

from .helpers import as_array


def random_butterfly(n, rng, dtype):
    """A product of log₂n butterfly factors with Gaussian entries, and their supports."""
    product, supports = np.eye(n), []
    for level in range(n.bit_length() - 1):
        support = np.kron(np.kron(np.eye(n >> (level + 1)), np.ones((2, 2))), np.eye(1 << level)) != 0
        values = rng.standard_normal((n, n))
        if dtype is complex:
            values = values + 1j * rng.standard_normal((n, n))
        product = product @ np.where(support, values, 0)
        supports.append(support)
    return product, supports


def shuffled(kind, n, seed):
    """A matrix of butterfly structure, of unit norm, with permuted rows and columns and random signs."""
    rng = np.random.default_rng(seed)
    matrix = {
        "hadamard": lambda: hadamard(n).astype(float),
        "dft": lambda: fft(np.eye(n)),
        "real": lambda: random_butterfly(n, rng, float)[0],
        "complex": lambda: random_butterfly(n, rng, complex)[0],
    }[kind]()
    matrix = matrix[rng.permutation(n)][:, rng.permutation(n)]
    matrix = matrix * rng.choice([-1, 1], n)[:, None] * rng.choice([-1, 1], n)
    noise = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if np.iscomplexobj(matrix) else 0)
    return matrix / np.linalg.norm(matrix), noise / np.linalg.norm(noise)


KINDS = ["hadamard", "dft", "real", "complex"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [4, 8, 16, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_permuted_butterflies_are_found_exactly(kind, n, seed):
    matrix = shuffled(kind, n, seed)[0]
    fit = pp.butterfly(matrix, random_state=0)
    assert fit.status == "converged"
    assert fit.error <= 1e-12
    assert fit.operator.nnz <= 2 * n * (n.bit_length() - 1)
    np.testing.assert_allclose(fit.operator.toarray(), matrix, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("n", [64, 256])
@pytest.mark.parametrize("kind", KINDS)
def test_large_permuted_butterflies_are_found_exactly(kind, n):
    assert pp.butterfly(shuffled(kind, n, 0)[0], random_state=0).error <= 1e-12


@pytest.mark.parametrize("noise", [1e-12, 1e-3, 1e-1, 0.3])
@pytest.mark.parametrize("kind", ["hadamard", "dft"])
def test_noise_is_mostly_removed(kind, noise):
    matrix, disturbance = shuffled(kind, 32, 0)
    fit = pp.butterfly(matrix + noise * disturbance, random_state=0)
    assert np.linalg.norm(fit.operator.toarray() - matrix) < 0.6 * noise


@pytest.mark.parametrize(
    "convert", [np.asarray, sp.csr_array, lambda mask: sp.csr_array(mask * 2.0), np.asfortranarray]
)
def test_supports_come_in_any_form(convert):
    matrix, supports = random_butterfly(8, np.random.default_rng(0), float)
    fit = pp.butterfly(matrix, [convert(support) for support in supports])
    assert fit.operator == pp.butterfly(matrix, supports).operator


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal"])
def test_no_structure_is_claimed_where_there_is_none(kind):
    matrix = np.random.default_rng(0).standard_normal((64, 64))
    if kind == "orthogonal":
        matrix = np.linalg.qr(matrix)[0]
    fit = pp.butterfly(matrix, random_state=0)
    assert fit.status == "no_structure"
    assert fit.error == 0
    np.testing.assert_array_equal(fit.operator.toarray(), matrix)


@pytest.mark.parametrize("n", [12, 15, 20, 24, 48, 60, 96])
def test_permuted_fourier_transforms_of_any_smooth_size_are_found_exactly(n):
    rng = np.random.default_rng(n)
    matrix = fft(np.eye(n))[rng.permutation(n)][:, rng.permutation(n)]
    fit = pp.butterfly(matrix, random_state=0)
    assert fit.error <= 1e-12
    primes = [p for p in (2, 3, 5) for e in range(1, 6) if n % p**e == 0]
    assert fit.operator.nnz <= n * sum(primes)


@pytest.mark.parametrize("radices", [(3, 2), (2, 3, 2), (5, 3), (3, 2, 5)])
def test_radices_are_found_in_their_order(radices):
    rng = np.random.default_rng(0)
    n, stride, matrix = int(np.prod(radices)), 1, np.eye(int(np.prod(radices)))
    for radix in radices:
        support = np.kron(np.kron(np.eye(n // (radix * stride)), np.ones((radix, radix))), np.eye(stride))
        matrix = matrix @ (support * rng.standard_normal((n, n)))
        stride *= radix
    fit = pp.butterfly(matrix[rng.permutation(n)][:, rng.permutation(n)], random_state=0)
    assert fit.error <= 1e-12
    assert fit.operator.nnz <= n * sum(radices)


def test_permuted_kronecker_products_are_found():
    rng = np.random.default_rng(0)
    matrix = np.kron(
        np.kron(rng.standard_normal((3, 3)), rng.standard_normal((2, 2))), rng.standard_normal((5, 5))
    )
    fit = pp.butterfly(matrix[rng.permutation(30)][:, rng.permutation(30)], random_state=0)
    assert fit.error <= 1e-12
    assert fit.operator.nnz <= 30 * (2 + 3 + 5)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_extreme_units_do_no_harm(unit):
    matrix = shuffled("dft", 16, 0)[0] * unit
    fit = pp.butterfly(matrix, random_state=0)
    assert fit.error <= 1e-12
    np.testing.assert_allclose(fit.operator.toarray(), matrix, rtol=0, atol=1e-12 * unit)


def test_the_zero_matrix_has_no_structure_to_find():
    assert pp.butterfly(np.zeros((8, 8))).status == "no_structure"


ORDERS = ("auto", "left_to_right", "right_to_left", "balanced")
CHAINS = {
    "dyadic": butterfly_chain((32, 32)),
    "monarch": butterfly_chain((36, 36), n_factors=2),
    "rectangular": butterfly_chain((60, 24), [(3, 2), (5, 3), (4, 4)], rank=3),
    "wide blocks": butterfly_chain((96, 144), n_factors=2, rank=3),
    "three parts": [Pattern(3, 6, 3, 1), Pattern(3, 3, 5, 1)],
    "interleaved": [Pattern(2, 4, 4, 6), Pattern(4, 4, 4, 3)],
    "more columns than rank": [Pattern(1, 2, 5, 1), Pattern(1, 5, 3, 1)],
    "one factor": [Pattern(2, 3, 4, 2)],
}


def on_chain(chain, rng, dtype=float):
    """A product of Gaussian factors on a chain."""
    factors = []
    for a, b, c, d in chain:
        blocks = rng.standard_normal((2, a * d, b, c))
        factors.append(Pattern(a, b, c, d).factor(blocks[0] + (1j * blocks[1] if np.iscomplexobj(dtype()) else 0)))
    return reduce(lambda left, right: left @ right, factors).toarray().astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("name", CHAINS)
def test_a_product_on_a_chain_is_found_exactly(name, dtype):
    matrix = on_chain(CHAINS[name], np.random.default_rng(0), dtype)
    fit = pp.butterfly(matrix, CHAINS[name])
    eps = np.finfo(dtype).eps
    assert fit.operator.dtype == dtype
    assert fit.error <= 100 * eps
    assert fit.least_error <= fit.error
    np.testing.assert_allclose(fit.operator.toarray(), matrix, atol=200 * eps * np.abs(matrix).max())
    for factor, pattern in zip(fit.operator.factors, CHAINS[name], strict=True):
        assert not as_array(factor)[~pattern.support().toarray()].any()


@pytest.mark.parametrize("name", CHAINS)
def test_masks_in_any_order_are_recognised_as_a_chain(name):
    rng = np.random.default_rng(0)
    chain = CHAINS[name]
    sizes = [chain[0].shape[0], *(pattern.shape[1] for pattern in chain)]
    orders = [rng.permutation(size) for size in sizes]
    masks = [
        pattern.support()[rows][:, columns]
        for pattern, rows, columns in zip(chain, orders, orders[1:], strict=False)
    ]
    matrix = on_chain(chain, rng) + 0.1 * rng.standard_normal((sizes[0], sizes[-1]))
    fit, moved = pp.butterfly(matrix, chain), pp.butterfly(matrix[orders[0]][:, orders[-1]], masks)
    assert moved.least_error == pytest.approx(fit.least_error)
    assert moved.error == pytest.approx(fit.error, rel=1e-3, abs=1e-14)
    for factor, mask in zip(moved.operator.factors, masks, strict=True):
        assert not as_array(factor)[~mask.toarray()].any()


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", CHAINS)
def test_the_error_is_within_its_bound(name, noise):
    rng, chain = np.random.default_rng(0), CHAINS[name]
    matrix = on_chain(chain, rng)
    matrix += noise * np.linalg.norm(matrix) / np.sqrt(matrix.size) * rng.standard_normal(matrix.shape)
    for order in ORDERS:
        polished, fit = (pp.butterfly(matrix, chain, order=order, polish=polish) for polish in (True, False))
        error = np.linalg.norm(fit.operator.toarray() - matrix) / np.linalg.norm(matrix)
        assert fit.error == pytest.approx(error, abs=1e-14)
        assert fit.least_error - 1e-14 <= polished.error <= fit.error + 1e-14
        assert fit.error <= np.sqrt(max(len(chain) - 1, 1)) * fit.least_error + 1e-14


@pytest.mark.parametrize("order", ORDERS)
def test_a_product_is_found_exactly_in_any_order_of_splits(order):
    chain = butterfly_chain((96, 120), rank=2)
    assert len(chain) == 5
    matrix = on_chain(chain, np.random.default_rng(0), np.complex128)
    assert pp.butterfly(matrix, chain, order=order, polish=False).error <= 1e-13


def test_what_is_split_off_is_orthonormal():
    rng, chain = np.random.default_rng(0), butterfly_chain((16, 16))
    matrix = on_chain(chain, rng) + rng.standard_normal((16, 16))
    fits = {order: pp.butterfly(matrix, chain, order=order, polish=False) for order in ORDERS[1:]}
    for order, k, axis in (("left_to_right", 0, 0), ("right_to_left", 3, 1), ("balanced", 2, 1)):
        factor = as_array(fits[order].operator.factors[k])
        np.testing.assert_allclose(np.linalg.norm(factor, axis=axis), 1)
    assert len({fit.error for fit in fits.values()}) == 3


def test_least_squares_from_random_factors_stays_above_the_bound():
    rng, chain = np.random.default_rng(0), butterfly_chain((16, 16))
    matrix = on_chain(chain, rng) + rng.standard_normal((16, 16))
    fit = pp.butterfly(matrix, chain)
    masks = [pattern.support() for pattern in chain]
    for _ in range(20):
        starts = [mask * rng.standard_normal(mask.shape) for mask in masks]
        product = reduce(np.matmul, polish_factors(matrix, masks, [sp.csr_array(start) for start in starts]))
        error = np.linalg.norm(product - matrix) / np.linalg.norm(matrix)
        assert error >= fit.least_error
        assert error >= 0.97 * fit.error


def test_masks_that_are_no_chain_are_fitted_after_a_warning():
    lower, upper = np.tril(np.ones((6, 6))), np.triu(np.ones((6, 6)))
    matrix = np.random.default_rng(0).standard_normal((6, 6))
    with pytest.warns(UserWarning, match="supports are no chainable patterns"):
        fit = pp.butterfly(matrix, [lower, upper])
    assert fit.least_error == 0
    assert fit.error == pytest.approx(np.linalg.norm(fit.operator.toarray() - matrix) / np.linalg.norm(matrix))


def test_blocks_of_different_sizes_are_fitted_exactly_after_a_warning():
    rng = np.random.default_rng(0)
    left = block_diag(np.ones((6, 2)), np.ones((4, 3))) != 0
    right = block_diag(np.ones((2, 5)), np.ones((3, 7))) != 0
    matrix = (left * rng.standard_normal(left.shape)) @ (right * rng.standard_normal(right.shape))
    with pytest.warns(UserWarning, match="no chainable patterns"):
        assert pp.butterfly(matrix, [left, right]).error <= 1e-12


@pytest.mark.parametrize("shape", [(64, 64), (60, 96), (97, 10), (1, 8), (1024, 48)])
@pytest.mark.parametrize("options", [{}, {"rank": 3}, {"n_factors": 1}, {"complexity": 1.0}])
def test_chains_have_their_shape_and_are_chainable(shape, options):
    chain = butterfly_chain(shape, **options)
    assert is_chainable(chain)
    assert (chain[0].shape[0], chain[-1].shape[1]) == shape
    assert [pattern.nnz for pattern in chain] == [pattern.support().nnz for pattern in chain]


def test_a_chain_has_at_most_the_entries_of_its_complexity():
    assert sum(pattern.nnz for pattern in butterfly_chain((64, 64), complexity=0.3)) <= 0.3 * 64**2
    assert len(butterfly_chain((64, 64), complexity=0.3)) == 2


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"shape": (4,)}, ValueError, "shape"),
        ({"radices": [2, 3]}, ValueError, "radices must multiply"),
        ({"radices": [(2, 2, 1)]}, ValueError, r"radices\[0\]"),
        ({"radices": 4}, TypeError, "radices"),
        ({"radices": [2, 4], "n_factors": 2}, ValueError, "leave out n_factors"),
        ({"n_factors": 4}, ValueError, "n_factors"),
        ({"complexity": 0.1}, ValueError, "complexity must be at least 0.75"),
        ({"rank": 0}, ValueError, "rank"),
    ],
)
def test_bad_options_of_chains_are_named(arguments, error, named):
    with pytest.raises(error, match=named):
        butterfly_chain(**{"shape": (8, 8)} | arguments)


def test_a_cut_gives_the_best_approximation_of_each_block():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((6, 8))
    fit = pp.butterfly(matrix, [np.ones((6, 2)), np.ones((2, 8))])
    sizes = np.linalg.svd(matrix, compute_uv=False)
    assert fit.error == pytest.approx(np.linalg.norm(sizes[2:]) / np.linalg.norm(sizes))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_the_dtype_stays_and_results_repeat(dtype):
    matrix = shuffled("hadamard", 16, 0)[0].astype(dtype)
    before = matrix.copy()
    fit, again = pp.butterfly(matrix, random_state=3), pp.butterfly(matrix, random_state=3)
    assert fit.operator.dtype == dtype
    assert fit.operator == again.operator
    assert fit.error < 1e-5
    np.testing.assert_array_equal(matrix, before)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"M": np.full((4, 4), np.nan)}, ValueError, "M must hold finite"),
        ({"M": np.zeros(4)}, ValueError, "M must be a matrix"),
        ({"supports": 3}, TypeError, "supports"),
        ({"supports": [(1, 4, 4, 1)], "order": "inward"}, ValueError, "order must be"),
        ({"supports": [(1, 4, 4, 1)], "polish": 2}, TypeError, "polish must be"),
        ({"polish": False}, ValueError, "order and polish are for known supports"),
        ({"supports": []}, ValueError, "supports must chain"),
        ({"supports": [np.ones((4, 3)), np.ones((4, 4))]}, ValueError, "supports must chain"),
        ({"supports": [np.ones((4, 3))]}, ValueError, "supports must chain to the shape"),
        ({"supports": [np.zeros((4, 4))]}, ValueError, r"supports\[0\] must allow"),
        ({"supports": [(1, 2, 2, 2), (1, 2, 2, 1)]}, ValueError, r"supports\[0\] has 4 columns but supports\[1\]"),
        ({"supports": [(1, 2, 2, 0)]}, ValueError, r"supports\[0\]"),
        ({"supports": [(1, 2, 2, 1.5)]}, TypeError, r"supports\[0\]"),
        ({"supports": [sp.csr_array(np.full((4, 4), np.nan))]}, ValueError, r"supports\[0\] must hold finite"),
        *(
            ({"supports": sp.coo_array(np.eye(4)).asformat(f)}, TypeError, "supports")
            for f in ("csr", "dia", "bsr")
        ),
        ({"random_state": "a"}, ValueError, "random_state"),
    ],
)
def test_bad_input_is_named(arguments, error, named):
    with pytest.raises(error, match=named):
        pp.butterfly(**{"M": np.eye(4)} | arguments)
