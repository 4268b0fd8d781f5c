"""Factors as groups of rows: what the kernels read."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.kernels.simd import HEIGHTS
from papilio.operators.csr import frozen
from papilio.operators.groups import grouped, is_in_place

from .helpers import DTYPES, gaussian
from .twins import blocks, butterfly, regular, shuffled


def rebuilt(groups, shape, dtype):
    """The matrix by the definition of groups; fails if a row is missing or stands twice."""
    matrix, seen = np.zeros(shape, dtype), []
    for each in groups:
        assert each.rows.shape[1] == each.height
        assert each.pointers[0] == 0
        assert each.pointers[-1] == len(each.columns) == len(each.values)
        for rows, (begin, end) in zip(each.rows, pairwise(each.pointers), strict=True):
            assert len(set(each.columns[begin:end])) == end - begin
            matrix[np.ix_(rows, each.columns[begin:end])] = each.values[begin:end].T
        seen += list(each.rows.ravel())
    assert sorted(seen) == list(range(shape[0]))
    return matrix


@st.composite
def matrices(draw):
    """Of any density, with rows alike, blocks and empty rows among them."""
    rows, columns = draw(st.integers(1, 25)), draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    patterns = rng.random((draw(st.integers(1, rows)), columns)) < draw(st.floats(0, 1))
    mask = patterns[rng.integers(len(patterns), size=rows)]
    if draw(st.booleans()):
        mask = mask & blocks(rows, columns, 4, 4)
    return (gaussian((rows, columns)) * mask).astype(draw(st.sampled_from(DTYPES)))


@settings(deadline=None, max_examples=100)
@given(matrix=matrices())
def test_groups_hold_every_entry_once(matrix):
    factor = frozen(sp.csr_array(matrix))
    np.testing.assert_array_equal(rebuilt(grouped(factor), matrix.shape, matrix.dtype), matrix)


@pytest.mark.parametrize(("count", "heights"), [(1, [1]), (3, [2, 1]), (4, [4]), (7, [4, 2, 1]), (10, [4, 2])])
def test_rows_alike_form_groups_wherever_they_stand(count, heights):
    mask = np.zeros((3 * count, 12), dtype=bool)
    mask[:count, :5], mask[count : 2 * count, 3:9], mask[2 * count :, ::2] = True, True, True
    groups = grouped(frozen(sp.csr_array(shuffled(gaussian(mask.shape) * mask))))
    found = [each.height for each in groups if (each.values != 0).all()]
    assert found == heights
    assert sum(each.values.size for each in groups) == np.count_nonzero(mask)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_zeros_fill_groups_only_where_supports_are_nearly_the_same(dtype):
    apart = grouped(frozen(sp.csr_array(gaussian((40, 40), dtype) * np.eye(40))))
    assert [each.height for each in apart] == [1]
    nearly = gaussian((40, 40), dtype)
    nearly[np.arange(40), np.arange(40)] = 0
    assert [each.height for each in grouped(frozen(sp.csr_array(nearly)))] == [4]


def test_what_is_in_place_reads_only_the_rows_that_it_writes():
    def in_place(mask):
        factor = frozen(sp.csr_array(gaussian(mask.shape) * mask))
        return is_in_place(grouped(factor), mask.shape)

    assert in_place(butterfly(16, 4))
    assert in_place(np.kron(np.eye(3), np.ones((4, 4))))
    assert in_place(np.eye(5))
    assert not in_place(np.kron(np.eye(3), np.ones((5, 5))))  # groups of four and of one row of a block
    assert not in_place(np.roll(np.eye(5), 1, axis=0))
    assert not in_place(regular(8, 8, 2))
    assert not in_place(np.eye(4, 5))


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_vectors_are_read_only_and_stay_as_they_are(order, writeable):
    op = pp.SparseProduct([gaussian((9, 12)) * blocks(9, 12, 4, 4)])
    X = np.asarray(gaussian((12, 40)), order=order)
    before = X.copy()
    X.flags.writeable = writeable
    np.testing.assert_allclose(op @ X, op.toarray() @ before, atol=1e-12)
    np.testing.assert_allclose(op @ X[:, 0], op.toarray() @ before[:, 0], atol=1e-12)
    np.testing.assert_array_equal(X, before)


def test_the_tallest_groups_come_first():
    assert list(HEIGHTS) == sorted(HEIGHTS, reverse=True)
    assert [each.height for each in grouped(gaussian((7, 5)))] == [4, 2, 1]
