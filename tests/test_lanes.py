"""Products that fall apart into sums of chains: the same matrix, and the same products."""

from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio import SparseProduct
from papilio.operators.lanes import separate_chains
from papilio.operators.packing import PackedSum

from .helpers import as_array, gaussian
from .test_algebra import chain, dense, products


def total(chains: Any) -> Any:
    return sum(reduce(np.matmul, [as_array(factor).astype(complex) for factor in each]) for each in chains)


@settings(deadline=None, max_examples=25)
@given(data=st.data(), long=st.integers(2, 5))
def test_the_chains_of_a_sum_add_up_to_it_exactly(data: Any, long: int) -> None:
    first = chain((4, *[5] * long, 4), seed=data.draw(st.integers(0, 99)))
    op = first + data.draw(products(4, 4))
    chains = separate_chains(op.factors)
    if chains:
        np.testing.assert_array_equal(op.scale * total(chains), dense(op))


def lanes(n: int, dtype: Any = np.float64) -> SparseProduct:
    """A butterfly and a diagonal, whose identities take half of the time."""
    diagonal = SparseProduct([sp.diags_array(gaussian((n,), dtype))])
    return pp.transforms.random_butterfly(n, dtype=dtype, random_state=0) + diagonal


def test_a_butterfly_and_a_diagonal_are_found_without_identities() -> None:
    op = lanes(64)
    chains = separate_chains(op.factors)
    assert sorted(map(len, chains)) == [2, 6]
    assert sum(factor.size for each in chains for factor in each) == op.nnz - 4 * 64
    np.testing.assert_allclose(total(chains).real, op.toarray(), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
@pytest.mark.parametrize("turn", ["op", "op.T", "op.H", "-2 * op", "op[::-1]", "pp.vstack([op, op.T])"])
def test_products_are_those_of_the_matrix(turn: str, dtype: Any) -> None:
    op = eval(turn, {"pp": pp, "op": lanes(64, dtype)})
    assert isinstance(op._packed(), PackedSum) or turn.startswith("pp")
    for x in (gaussian((64, 5), dtype), np.asfortranarray(gaussian((64, 40), dtype)), gaussian((64,), dtype)):
        expected = dense(op) @ x
        tolerance = 100 * np.finfo(dtype).eps * np.abs(expected).max()
        assert (op @ x).dtype == dtype
        np.testing.assert_allclose(op @ x, expected, atol=tolerance)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pp.transforms.haar(16),
        lambda: pp.transforms.random_product(16, 4, complexity=1.0, random_state=0),
        lambda: SparseProduct([gaussian((4, 9)), np.eye(9), gaussian((9, 4))]),
        lambda: SparseProduct([gaussian((4, 9)), gaussian((9, 4))]),
        lambda: SparseProduct([np.eye(3)]),
        lambda: chain((6, 6)) + chain((6, 6), seed=1),
    ],
)
def test_other_products_stay_whole(make: Any) -> None:
    assert not isinstance(make()._packed(), PackedSum)
