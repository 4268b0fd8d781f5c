"""Products on fixed supports: what they give for any values, and their gradients, against dense matrices."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp

from papilio.operators.parametric import ParametricProduct


def supports(random):
    """Groups of four and of two, single rows, neighbours that nearly agree, an empty row, and a full matrix."""
    blocks = np.zeros((9, 13), bool)
    blocks[:4, 2:7] = blocks[4:6, 7:] = True
    blocks[6, [0, 5]] = blocks[8, 12] = True
    scattered = random.random((13, 8)) < 0.4
    scattered[4:8] = scattered[4] | (random.random((4, 8)) < 0.1)
    return [sp.csr_array(mask.astype(float)) for mask in (blocks, scattered, np.ones((8, 11)))]


@pytest.fixture(params=[np.float64, np.complex128])
def case(request):
    """A product, its values, and the same factors as dense matrices."""
    random = np.random.default_rng(0)
    product = ParametricProduct(supports(random))

    def draw(*shape):
        numbers = random.standard_normal((2, *shape))
        return (numbers[0] + 1j * numbers[1] if request.param is np.complex128 else numbers[0]).astype(
            request.param
        )

    values = draw(product.n_values)
    factors = []
    for support, begin in zip(product.supports, product.ends[:-1], strict=True):
        dense = np.zeros(support.shape, request.param)
        dense[support.toarray() != 0] = values[begin : begin + support.nnz]
        factors.append(dense)
    return product, values, factors, draw


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_product_is_that_of_the_dense_factors(case, order):
    product, values, factors, draw = case
    X = np.asarray(draw(11, 37), order=order)
    Y = product.apply(values, X)
    assert Y.dtype == values.dtype
    np.testing.assert_allclose(Y, reduce(np.matmul, [*factors, X]), atol=1e-12)


def test_forward_gives_the_same_and_what_goes_into_each_factor(case):
    product, values, factors, draw = case
    hidden, Y, X = np.empty((product.n_hidden, 37), values.dtype), np.empty((37, 9), values.dtype), draw(11, 37)
    product.forward(values, X.T.copy(), hidden, Y)
    np.testing.assert_allclose(Y.T, reduce(np.matmul, [*factors, X]), atol=1e-12)
    np.testing.assert_array_equal(hidden[:11], X)
    np.testing.assert_allclose(hidden[11:19], factors[2] @ X, atol=1e-12)
    np.testing.assert_allclose(hidden[19:], factors[1] @ factors[2] @ X, atol=1e-12)


@pytest.mark.parametrize("count", [3, 1100])  # the rows of some are read in several parts
def test_gradients_are_those_of_the_dense_factors_on_the_supports(case, count):
    product, values, factors, draw = case
    hidden, X, G = np.empty((product.n_hidden, count), values.dtype), draw(11, count), draw(9, count)
    product.forward(values, X.T.copy(), hidden, np.empty((count, 9), values.dtype))
    by_values, by_input = product.backward(values, hidden, G.T.copy())
    np.testing.assert_allclose(by_input.T, reduce(np.matmul, factors).conj().T @ G, atol=1e-10)
    for i, support in enumerate(product.supports):
        left = reduce(np.matmul, factors[:i], np.eye(9))
        right = reduce(np.matmul, [*factors[i + 1 :], X])
        dense = left.conj().T @ G @ right.conj().T
        own = by_values[product.ends[i] : product.ends[i + 1]]
        np.testing.assert_allclose(own, dense[support.toarray() != 0], atol=1e-9)


def test_gradients_that_are_not_wanted_are_not_there(case):
    product, values, _, draw = case
    hidden, G = np.zeros((product.n_hidden, 2), values.dtype), draw(2, 9)
    assert product.backward(values, hidden, G, wants_values=False)[0] is None
    assert product.backward(values, hidden, G, wants_input=False)[1] is None


def test_several_threads_give_the_same(case, monkeypatch):
    import papilio as pp
    from papilio.operators import parametric

    product, values, _, draw = case
    hidden, G = draw(product.n_hidden, 40), draw(40, 9)
    alone = product.backward(values, hidden, G)
    monkeypatch.setattr(parametric, "_SHARED_WORK", 1)
    monkeypatch.setattr(parametric, "_SHARED_NUMBERS", 1)
    pp.set_num_threads(3)
    try:
        for shared, single in zip(product.backward(values, hidden, G), alone, strict=True):
            np.testing.assert_array_equal(shared, single)
    finally:
        pp.set_num_threads(None)
