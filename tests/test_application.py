"""How factors are kept and applied: dense ones as plain arrays, by BLAS where the model says so; mergers."""

from functools import reduce
from itertools import pairwise, product
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

import papilio as pp
from papilio.operators import engine
from papilio.operators.cost import plan, rates
from papilio.operators.factors import Link, frozen
from papilio.transforms import dct, dft, haar, hadamard, hartley, wavelet

from .helpers import ALL_DTYPES, as_array, gaussian

SHAPES = [(1, 1), (1, 7), (7, 1), (2, 2), (5, 3), (3, 5)]


# -- how factors are kept ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("form", ["array", "column-major", "csr", "coo"])
def test_a_factor_without_zeros_is_a_plain_array(shape, form, dtype):
    matrix = gaussian(shape, dtype)
    forms = {
        "array": matrix,
        "column-major": np.asfortranarray(matrix),
        "csr": sp.csr_array(matrix),
        "coo": sp.coo_array(matrix),
    }
    op = pp.SparseProduct([forms[form], np.eye(shape[1], dtype=dtype)])
    factor = op.factors[0]
    assert type(factor) is np.ndarray
    np.testing.assert_array_equal(factor, matrix, strict=True)
    assert not factor.flags.writeable
    assert not np.shares_memory(factor, matrix)
    assert op.nnz == matrix.size + shape[1]
    assert op == pp.SparseProduct([matrix, np.eye(shape[1], dtype=dtype)])
    assert isinstance(op.factors[1], sp.csr_array) == (shape[1] > 1)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_one_zero_makes_it_a_csr_array(zero, dtype):
    matrix = gaussian((4, 3), dtype)
    matrix[1, 2] = zero
    with_zero = sp.csr_array((matrix.ravel(), np.tile(range(3), 4), range(0, 13, 3)))
    for form in (matrix, sp.csr_array(matrix), with_zero):
        (factor,) = pp.SparseProduct([form]).factors
        assert isinstance(factor, sp.csr_array)
        assert factor.nnz == 11
        np.testing.assert_array_equal(factor.toarray(), matrix)


# -- how they are applied ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(200, 200), (300, 100), (100, 300)])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_the_matrix_itself_gives_the_bits_of_numpys_product(shape, layout, dtype):
    matrix, X = gaussian(shape, dtype), layout(gaussian((shape[1], 40), dtype, 1))
    op = pp.SparseProduct([matrix])
    np.testing.assert_array_equal(op @ X[:, 0].copy(), matrix @ X[:, 0].copy())
    bound = 10 * np.finfo(dtype).eps * (np.abs(matrix) @ np.abs(X))
    assert (np.abs(op @ X - matrix @ X) <= bound).all()
    assert (op @ X).flags.c_contiguous == X.flags.c_contiguous
    assert (op @ X).flags.f_contiguous == X.flags.f_contiguous


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_has_one_thread_where_papilio_has_one(threads, monkeypatch, default_threads):
    op, X = pp.SparseProduct([gaussian((64, 64))]), gaussian((64, 64))
    seen, apply = [], engine.Dense._product

    def watched(self, block):
        seen.append({info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"})
        return apply(self, block)

    monkeypatch.setattr(engine.Dense, "_product", watched)
    monkeypatch.setattr(engine, "_THREAD_WORK", 1)
    before = {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
    pp.set_num_threads(threads)
    np.testing.assert_allclose(op @ X, op.factors[0] @ X)
    assert seen == [{1} if threads == 1 else before]


units = st.builds(
    SimpleNamespace,
    has_matrix=st.booleans(),
    is_full=st.just(False),
    shape=st.sampled_from([(4, 4), (64, 64), (8, 512), (512, 8), (300, 300)]),
    n_strips=st.dictionaries(st.sampled_from([4, 2, 1]), st.integers(1, 90000)),
)


@settings(deadline=None)
@given(units=st.lists(units, min_size=1, max_size=6), dtype=st.sampled_from(ALL_DTYPES), block=st.booleans())
def test_the_plan_is_the_cheapest_of_all(units, dtype, block):
    rate = rates(np.dtype(dtype), block)

    def price(by_blas):
        """By its definition: each call, what it reads and writes, and the work in it."""
        total = 0.0
        for i, (unit, is_dense) in enumerate(zip(units, by_blas, strict=True)):
            begins = is_dense or i == 0 or by_blas[i - 1]
            ends = is_dense or i == len(units) - 1 or by_blas[i + 1]
            total += begins * (rate.call + unit.shape[1] * rate.line) + ends * unit.shape[0] * rate.line
            total += unit.shape[0] * unit.shape[1] * rate.blas_entry if is_dense else rate.kernel(unit)
        if any(d and not unit.has_matrix for unit, d in zip(units, by_blas, strict=True)):
            return inf
        return total * rate.mixing if len(set(by_blas)) == 2 else total

    chained = all(left.shape[0] == right.shape[1] for left, right in pairwise(units))
    if not chained:
        for unit in units:
            unit.shape = (64, 64)
    best = min(map(price, product([False, True], repeat=len(units))))
    found = plan(units, rate)
    assert found.cost == pytest.approx(best)
    assert price(found.by_blas) == pytest.approx(best)


# -- mergers -------------------------------------------------------------------------------------------


def modelled_cost(factors):
    """The modelled time of a product for one vector, and for a block, relative to the dense matrix."""
    links = [Link(frozen(factor.copy())) for factor in factors]
    shape, dtype = (factors[0].shape[0], factors[-1].shape[1]), factors[0].dtype
    times = engine.modelled_times([link.packed() for link in links], dtype)
    return tuple(time / rates(dtype, i == 1).blas(shape) for i, time in enumerate(times))


def assert_better(op):
    """``op.optimized()`` is equal up to rounding, and no slower by the model."""
    better = op.optimized()
    exact = op.astype(np.result_type(op.dtype, np.float64)).toarray()
    size = reduce(np.matmul, [np.abs(as_array(factor)).astype(float) for factor in op.factors]) * abs(op.scale)
    bound = 50 * np.finfo(op.dtype).eps * size.max(initial=1e-300)
    assert np.abs(better.toarray() - exact).max() <= bound
    assert (better.shape, better.dtype, better.scale) == (op.shape, op.dtype, op.scale)
    for before, after in zip(modelled_cost(op.factors), modelled_cost(better.factors), strict=True):
        assert after <= before * (1 + 1e-12)
    assert better == op.optimized()
    assert (better is op) == (len(better.factors) == len(op.factors))
    return better


@pytest.mark.parametrize("make", [hadamard, dft, dct, haar, hartley, wavelet])
@pytest.mark.parametrize("n", [2, 4, 16, 64, 256])
def test_transforms_are_optimized_without_loss(make, n):
    better = assert_better(make(n))
    assert make is not hadamard or n <= 4 or len(better.factors) == len(make(n).factors)


@st.composite
def products(draw):
    """Chains of factors of any density, butterflies, permutations and diagonals among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 7, 8, 16, 31, 64]), min_size=1, max_size=3))
    chain = []
    for size in sizes:
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["butterfly", "permutation", "diagonal", "sparse", "dense"]))
            matrix = rng.standard_normal((size, size))
            if kind == "butterfly" and size in (2, 8, 16, 64):
                mask = np.eye(size) + np.eye(size)[np.arange(size) ^ 2 ** int(rng.integers(size.bit_length() - 1))]
            else:
                mask = {
                    "permutation": np.eye(size)[rng.permutation(size)],
                    "diagonal": np.eye(size),
                    "sparse": rng.random((size, size)) < rng.random(),
                }.get(kind, np.ones((size, size)))
            chain.append(matrix * mask)
    links = []
    for left, right in pairwise(chain):
        links.append(left)
        if left.shape[1] != right.shape[0]:
            links.append(rng.standard_normal((left.shape[1], right.shape[0])))
    dtype = draw(st.sampled_from(ALL_DTYPES))
    return pp.SparseProduct([factor.astype(dtype) for factor in [*links, chain[-1]]], scale=0.5)


@settings(deadline=None, max_examples=50)
@given(op=products())
def test_random_products_are_optimized_without_loss(op):
    better = assert_better(op)
    x = gaussian((op.shape[1], 3), op.dtype)
    size = reduce(np.matmul, [np.abs(as_array(factor)).astype(float) for factor in op.factors])
    bound = 100 * np.finfo(op.dtype).eps * (size @ np.abs(x)).max(initial=1e-300)
    assert np.abs(better @ x - op @ x).max() <= bound
