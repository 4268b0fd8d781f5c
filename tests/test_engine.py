"""The engine: factors as groups of rows, slots between factors, tiles, threads; each against its definition."""

import gc
import os
import weakref
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.kernels import multiply
from papilio.operators import engine
from papilio.operators.engine import PackedFactor
from papilio.operators.factors import frozen

from .helpers import ALL_DTYPES, DTYPES, as_array, gaussian
from .twins import blocks, butterfly, ragged, regular, shuffled

# -- groups --------------------------------------------------------------------------------------------


def packed(matrix, **options):
    return PackedFactor(frozen(sp.csr_array(matrix)), **options)


def rebuilt(factor):
    """The matrix by the definition of groups; fails if a row is missing or stands twice."""
    matrix, seen = np.zeros(factor.shape, factor.values.dtype), []
    for each in factor.all_groups():
        rows = each.rows.reshape(-1, each.height)
        values = factor.values[each.places].reshape(-1, each.height)
        assert each.pointers[0] == 0
        assert each.pointers[-1] == len(each.columns) == len(values)
        for own, (begin, end) in zip(rows, pairwise(each.pointers), strict=True):
            assert len(set(each.columns[begin:end])) == end - begin
            matrix[np.ix_(own, each.columns[begin:end])] = values[begin:end].T
        seen += list(each.rows)
    assert sorted(seen) == list(range(factor.shape[0]))
    return matrix


@st.composite
def matrices(draw):
    """Of any density, with rows alike, blocks, ones alone in a row and empty rows among them."""
    rows, columns = draw(st.integers(1, 25)), draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    patterns = rng.random((draw(st.integers(1, rows)), columns)) < draw(st.floats(0, 1))
    mask = patterns[rng.integers(len(patterns), size=rows)]
    if draw(st.booleans()):
        mask = mask & blocks(rows, columns, 4, 4)
    matrix = gaussian((rows, columns)) * mask
    for row in rng.integers(rows, size=draw(st.integers(0, rows))):
        matrix[row] = np.eye(columns)[rng.integers(columns)]
    return matrix.astype(draw(st.sampled_from(DTYPES)))


@settings(deadline=None, max_examples=100)
@given(matrix=matrices(), passes=st.booleans())
def test_groups_hold_every_entry_once(matrix, passes):
    if matrix.all():
        matrix[0, 0] = 0
    factor = packed(matrix, passes=passes)
    np.testing.assert_array_equal(rebuilt(factor), matrix)
    ones_alone = (np.count_nonzero(matrix, axis=1) == 1) & (matrix == 1).any(axis=1)
    np.testing.assert_array_equal(factor.passed[0], np.flatnonzero(ones_alone & passes))


@pytest.mark.parametrize(("count", "heights"), [(1, [1]), (3, [2, 1]), (4, [4]), (7, [4, 2, 1]), (10, [4, 2])])
def test_rows_with_the_same_support_form_groups_wherever_they_stand(count, heights):
    mask = np.zeros((3 * count, 12), dtype=bool)
    mask[:count, :5], mask[count : 2 * count, 3:9], mask[2 * count :, ::2] = True, True, True
    factor = packed(shuffled(gaussian(mask.shape) * mask))
    assert [each.height for each in factor.groups if (each.places >= 0).all()] == heights


def test_neighbours_with_nearly_the_same_support_are_filled_up_with_zeros():
    banded = sum(np.eye(40, k=k) for k in range(-2, 3)) * gaussian((40, 40))
    (fours, *_) = packed(banded).groups
    assert fours.height == 4
    assert (fours.places < 0).any()
    scattered = packed(regular(40, 400, 2) * gaussian((40, 400)))
    assert not any((each.places < 0).any() for each in scattered.groups)


# -- slots ---------------------------------------------------------------------------------------------


@st.composite
def chains(draw):
    """Chains with permutations, identities, copied rows, butterflies and anything else between."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=2, max_size=7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    factors = []
    for rows, columns in pairwise(sizes):
        kind = draw(st.sampled_from(["sparse", "copies", "mixed", "pairs", "dense"]))
        matrix = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < rng.random())
        copies = np.eye(columns)[rng.permutation(max(rows, columns))[:rows] % columns]
        if kind == "copies":
            matrix = copies
        elif kind == "mixed":
            matrix = np.where(rng.random((rows, 1)) < 0.5, matrix, copies)
        elif kind == "pairs" and rows == columns and rows % 2 == 0:
            matrix = butterfly(rows, 1) * rng.standard_normal((rows, columns))
        elif kind == "dense":
            matrix = rng.standard_normal((rows, columns))
        factors.append(matrix)
    return factors


@settings(deadline=None, max_examples=150)
@given(
    factors=chains(),
    dtype=st.sampled_from(ALL_DTYPES),
    count=st.sampled_from([1, 2, 3, 8, 17, 64]),
    order=st.sampled_from("CF"),
    copies_in=st.booleans(),
)
def test_chains_that_pass_rows_on_apply_as_dense_ones(factors, dtype, count, order, copies_in):
    op = pp.SparseProduct([sp.csr_array(factor).astype(dtype) for factor in factors], scale=-2)
    X = np.asarray(gaussian((op.shape[1], count), dtype), order=order)
    before = engine._FEW_READS
    engine._FEW_READS = -1 if copies_in else np.inf
    try:
        for turned, matrices in ((op, factors), (op.H, [factor.T for factor in reversed(factors)])):
            expected = -2 * reduce(np.matmul, matrices)
            size = 2 * reduce(np.matmul, [np.abs(matrix) for matrix in matrices])
            Z = X if turned is op else np.asarray(gaussian((turned.shape[1], count), dtype), order=order)
            bound = 60 * np.finfo(dtype).eps * (size @ np.abs(Z)) + 1e-30
            assert (np.abs(turned @ Z - expected @ Z) <= bound).all()
            assert (np.abs(turned @ Z[:, 0] - expected @ Z[:, 0]) <= bound[:, 0]).all()
    finally:
        engine._FEW_READS = before


def chained(op, x):
    """The product as a chain of SciPy's, which knows nothing of the engine."""
    return op.scale * reduce(lambda v, factor: factor @ v, reversed(op.factors), x)


# -- sizes ---------------------------------------------------------------------------------------------


def banded(n):
    return pp.SparseProduct([sp.diags_array(gaussian((5, n)), offsets=range(-2, 3), shape=(n, n))])


def scattered(n):
    random = np.random.default_rng(0)
    factors = []
    for _ in range(2):
        columns, values = random.integers(n, size=(n, 3)), random.standard_normal((n, 3))
        factors.append(sp.csr_array((values.ravel(), columns.ravel(), range(0, 3 * n + 1, 3)), shape=(n, n)))
    return pp.SparseProduct(factors)


LARGE = {"haar": pp.transforms.haar, "dct": pp.transforms.dct, "banded": banded, "scattered": scattered}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("n", [4096, 1 << 16])
def test_large_products_are_those_of_scipys_chain(name, n, default_threads):
    op = LARGE[name](n)
    for turned in (op, op.T):
        turned._packed()
        for count in (None, 1, 5, 8, 17):
            x = gaussian((n,) if count is None else (n, count))
            expected = chained(turned, x)
            for threads in (1, 2):
                pp.set_num_threads(threads)
                result = turned @ x
                assert np.abs(result - expected).max() <= 1e-13 * np.abs(expected).max() * 50
                assert result.shape == expected.shape


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("scale", [1.0, -3.0, 1e300])
def test_large_operators_are_packed_when_they_are_used(scale, order, dtype):
    n = 1 << 13
    scale = scale if np.dtype(dtype).itemsize > 4 * (1 + (np.dtype(dtype).kind == "c")) else min(scale, 1e30)
    op = (pp.SparseProduct([sp.eye_array(n) / scale], scale=scale) @ pp.transforms.hadamard(n)).astype(dtype)
    x, X = np.ones(n, dtype), np.asarray(gaussian((n, 7)), dtype, order=order)
    for before in range(0, 48, 8):
        assert ("packed" in op._cache) == (before >= 32)
        results = op @ x, op @ X
        assert results[1].dtype == dtype
        assert results[1].flags[f"{order}_CONTIGUOUS"]
        np.testing.assert_allclose(results[0], n * (np.arange(n) == 0), atol=1e-10)
        np.testing.assert_allclose(results[1], pp.transforms.hadamard(n).astype(dtype) @ X, rtol=1e-4, atol=1e-2)
    assert "chain" not in op._cache
    block = pp.transforms.hadamard(n)
    block @ np.ones((n, 32))
    assert "packed" in block._cache


# -- sharing what is packed ----------------------------------------------------------------------------


def test_operators_that_are_gone_leave_no_memory_behind():
    """No cycle of references keeps operators and what is packed until the garbage collector runs."""
    gc.disable()
    try:
        op = pp.transforms.dft(16)
        for turned in (op, op.T, op.H, 2 * op, op[1:]):
            turned @ np.ones((16, 2))
        gone = [weakref.ref(each) for each in (op, op.T, op.H, *op._links, *op.T._links)]
        del op, turned
        assert not any(each() for each in gone)
    finally:
        gc.enable()
    turned = pp.transforms.dft(16).T  # Nothing else holds the original.
    np.testing.assert_array_equal(turned.T.toarray(), pp.transforms.dft(16).toarray())


# -- threads -------------------------------------------------------------------------------------------

SHARED = {
    "blocks": [blocks(24, 40, 4, 4), blocks(40, 36, 4, 4)],
    "butterflies": [butterfly(32, 1), butterfly(32, 2), butterfly(32, 4)],
    "ragged": [ragged(13, 9), ragged(9, 14)],
}


@pytest.fixture
def sharing(monkeypatch):
    """All products are shared, with helpers that are always awake."""
    monkeypatch.setattr(engine, "_SHARED_BYTES", 0)
    monkeypatch.setattr(engine, "_SHARED_VECTOR_BYTES", 0)
    monkeypatch.setattr(multiply, "_BURST", np.inf)
    monkeypatch.setattr(multiply, "pool", multiply.Pool())
    pp.set_num_threads(3)
    yield multiply.pool
    pp.set_num_threads(None)


def made(name, dtype=np.float64):
    return pp.SparseProduct([mask * gaussian(mask.shape, dtype, seed) for seed, mask in enumerate(SHARED[name])])


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("count", [3, 701])  # threads take a part of the rows each, or of the vectors
def test_shared_products_have_the_bits_of_those_of_one_thread(name, order, count, dtype, sharing):
    op = made(name, dtype)
    X = np.asarray(gaussian((op.shape[1], count), dtype), order=order)
    pp.set_num_threads(1)
    alone, one = op @ X, op @ X[:, 2].copy()
    pp.set_num_threads(3)
    for _ in range(30):
        np.testing.assert_array_equal(op @ X, alone)
        np.testing.assert_array_equal(op @ X[:, 2].copy(), one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own(sharing):
    op, X = made("ragged"), gaussian((14, 500))
    expected = op @ X
    child = os.fork()
    if child == 0:
        os._exit(0 if multiply.pool.n_workers == 0 and np.array_equal(op @ X, expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_may_be_read_only_and_stay_as_they_are(order, writeable):
    op = pp.SparseProduct([gaussian((9, 12)) * blocks(9, 12, 4, 4), gaussian((12, 12)) * np.eye(12)])
    X = np.asarray(gaussian((12, 40)), order=order)
    before = X.copy()
    X.flags.writeable = writeable
    np.testing.assert_allclose(op @ X, as_array(op.toarray()) @ before, atol=1e-12)
    np.testing.assert_allclose(op @ X[:, 0], op.toarray() @ before[:, 0], atol=1e-12)
    np.testing.assert_array_equal(X, before)
