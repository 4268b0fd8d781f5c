"""Butterflies: on known supports, and found under unknown permutations, signs and noise."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.fft import fft
from scipy.linalg import hadamard

import papilio as pp

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


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("n", [2, 8, 32])
def test_known_supports_give_the_product_back(n, dtype):
    matrix, supports = random_butterfly(n, np.random.default_rng(0), dtype)
    fit = pp.butterfly(matrix, supports)
    assert fit.error <= 1e-12
    assert len(fit.operator.factors) == len(supports)
    for factor, support in zip(fit.operator.factors, supports, strict=True):
        assert not as_array(factor)[~support].any()


def test_known_supports_with_blocks_of_higher_rank():
    rng = np.random.default_rng(0)
    left, right = np.kron(np.eye(2), np.ones((6, 3))) != 0, np.kron(np.eye(2), np.ones((3, 5))) != 0
    matrix = (left * rng.standard_normal(left.shape)) @ (right * rng.standard_normal(right.shape))
    assert pp.butterfly(matrix, [left, right]).error <= 1e-12


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
        ({"supports": []}, ValueError, "supports must chain"),
        ({"supports": [np.ones((4, 3)), np.ones((4, 4))]}, ValueError, "supports must chain"),
        ({"supports": [np.ones((4, 3))]}, ValueError, "supports must chain to the shape"),
        ({"supports": [np.zeros((4, 4))]}, ValueError, r"supports\[0\] must allow"),
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
