"""Products with fewer entries: against the products that they come from, and against what could be left out."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from papilio.operators.factors import joined, pruned, without_rounding

from .helpers import gaussian


def dense(factors):
    return reduce(np.matmul, [factor.toarray() for factor in factors])


def chain(seed, sizes, density=0.3):
    rng = np.random.default_rng(seed)
    return [sp.csr_array(rng.standard_normal(shape) * (rng.random(shape) < density)) for shape in pairwise(sizes)]


def on_a_path(factors):
    """The entries of each factor on a way from a row of the product to a column of it, by brute force."""
    patterns = [(factor.toarray() != 0).astype(int) for factor in factors]
    counts = []
    for i, pattern in enumerate(patterns):
        reached = reduce(np.matmul, patterns[:i], np.eye(patterns[0].shape[0], dtype=int)).sum(axis=0) > 0
        used = reduce(np.matmul, patterns[i + 1 :], np.eye(pattern.shape[1], dtype=int)).sum(axis=1) > 0
        counts.append(int((pattern * reached[:, None] * used).sum()))
    return counts


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 7), min_size=2, max_size=6))
def test_pruned_chains_keep_the_entries_on_a_path_and_no_others(seed, sizes):
    factors = chain(seed, sizes)
    counts = on_a_path(factors)
    if min(counts) == 0:  # a product of zeros
        return
    result = pruned(factors)
    assert [factor.nnz for factor in result] == counts
    np.testing.assert_allclose(dense(result), dense(factors), atol=1e-13)


def test_zeros_that_are_stored_do_not_count():
    stored = sp.csr_array((np.array([1.0, 0.0, 2.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    assert [factor.nnz for factor in pruned([stored, stored])] == [2, 2]
    assert stored.nnz == 3


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 7), min_size=2, max_size=6))
def test_joined_chains_are_equal_and_no_pair_of_neighbours_would_save_more(seed, sizes):
    factors = chain(seed, sizes)
    result = joined(factors)
    np.testing.assert_allclose(dense(result), dense(factors), atol=1e-13)
    entries, joined_entries = (sum(factor.nnz for factor in each) for each in (factors, result))
    assert joined_entries <= entries
    for left, right in pairwise(factors):
        saved = left.nnz + right.nnz - np.count_nonzero(left.toarray() @ right.toarray())
        assert joined_entries <= entries - saved


def test_three_factors_are_joined_where_two_would_not_be():
    block = sp.csr_array(np.kron(np.eye(4), gaussian((5, 5))))
    coupling = sp.csr_array(np.eye(20) + np.eye(20)[::-1])
    assert [factor.nnz for factor in joined([block, coupling, block])] == [200]
    assert len(joined([block, coupling])) == 2


def test_permutations_and_diagonals_are_absorbed():
    permutation = sp.csr_array(np.eye(8)[[3, 1, 4, 0, 5, 7, 2, 6]])
    diagonal = sp.diags_array(np.arange(1.0, 9.0), format="csr")
    dense_one = sp.csr_array(gaussian((8, 8)))
    assert [factor.nnz for factor in joined([permutation, diagonal, dense_one, permutation, diagonal])] == [64]


@pytest.mark.parametrize("unit", [1.0, 1e-30, 1e30])
def test_only_rounding_errors_are_dropped(unit):
    factor = sp.csr_array(unit * np.array([[1.0, 1e-14], [3e-17, -1e-10]]))
    assert without_rounding(factor).toarray().tolist() == (unit * np.array([[1.0, 1e-14], [0, -1e-10]])).tolist()
    assert factor.nnz == 4
