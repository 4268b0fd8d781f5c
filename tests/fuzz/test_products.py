"""Products of random chains with vectors and blocks, against dense arithmetic in long double."""

from functools import reduce
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import papilio as pp

from ..helpers import ALL_DTYPES, LAYOUTS, gaussian
from ..twins import blocks, butterfly, ragged

COUNTS = (1, 2, 3, 5, 8, 17, 33, 64, 65, 129, 300, 0)
FORMS = {"array": np.asarray, "column-major": np.asfortranarray} | {
    form: lambda matrix, form=form: sp.coo_array(matrix).asformat(form) for form in ("csr", "csc", "coo")
}
seeds = st.integers(0, 2**32 - 1)


class Dense(NamedTuple):
    """A matrix in long double, and one of magnitudes, by which rounding is measured."""

    matrix: np.ndarray
    magnitudes: np.ndarray
    eps: float = 0.0  # rounding in the factors themselves

    def __matmul__(self, other):
        return Dense(self.matrix @ other.matrix, self.magnitudes @ other.magnitudes, self.eps)

    def transpose(self):
        return self._replace(matrix=self.matrix.T, magnitudes=self.magnitudes.T)

    def adjoint(self):
        return self._replace(matrix=self.matrix.conj().T, magnitudes=self.magnitudes.T)


def dense(factors, scale):
    kind = np.clongdouble if factors[0].dtype.kind == "c" else np.longdouble
    exact = [factor.astype(kind) for factor in factors]
    magnitudes = reduce(np.matmul, [np.abs(factor) for factor in exact])
    return Dense(kind(scale) * reduce(np.matmul, exact), abs(scale) * magnitudes)


@st.composite
def masks(draw, rows, columns):
    """Where a factor has entries; some kinds choose the number of columns themselves."""
    rng = np.random.default_rng(draw(seeds))
    divisors = [d for d in range(1, rows + 1) if rows % d == 0]
    kinds = {
        "full": lambda: np.ones((rows, columns), dtype=bool),
        "any": lambda: rng.random((rows, columns)) < rng.random(),
        "two a row": lambda: rng.random((rows, columns)) < 2 / columns,
        "blocks": lambda: blocks(
            rows, columns, *(int(side) for side in rng.integers(1, 9, 2)), rng.integers(1, 4)
        ),
        "permutation": lambda: np.eye(rows, dtype=bool)[rng.permutation(rows)],
        "diagonal blocks": lambda: np.kron(np.eye(rows // (d := rng.choice(divisors))), np.ones((d, d))) > 0,
        "interleaved blocks": lambda: np.kron(np.ones((d := rng.choice(divisors), d)), np.eye(rows // d)) > 0,
        "ragged": lambda: ragged(rows, columns),
        "none": lambda: np.zeros((rows, columns), dtype=bool),
    }
    if rows % 2 == 0:
        strides = [2**k for k in range(8) if rows % 2 ** (k + 1) == 0]
        kinds["butterfly"] = lambda: butterfly(rows, int(rng.choice(strides)))
    return kinds[draw(st.sampled_from(list(kinds)))]()


@st.composite
def chains(draw, dtype, sides=(4, 12, 40, 200)):
    """A product and its matrix."""
    largest = draw(st.sampled_from(sides))
    factors, rows = [], draw(st.integers(1, largest))
    for _ in range(draw(st.integers(1, 5))):
        mask = draw(masks(rows, draw(st.integers(1, largest))))
        equal = draw(st.integers(0, 7)) == 7
        factors.append((mask * gaussian((1, 1) if equal else mask.shape, dtype, draw(seeds))).astype(dtype))
        rows = mask.shape[1]
    scale = draw(st.sampled_from((1.0, -0.75, 1e-3, 1e3, 0.0)))
    power = draw(st.sampled_from((0, 0, 0, 1, -1))) * (np.finfo(dtype).maxexp - 24)
    factors[0], scale = (factors[0] * 2.0**-power).astype(dtype), scale * 2.0**power
    forms = [FORMS[draw(st.sampled_from(list(FORMS)))] for _ in factors]
    op = pp.SparseProduct([form(factor) for form, factor in zip(forms, factors, strict=True)], scale)
    return op, dense(factors, scale)


def part(op, matrix, rng):
    rows, columns = (rng.integers(-side, side, rng.integers(1, side + 1)) for side in op.shape)
    kept = np.ix_(rows, columns)
    return op[rows, columns], matrix._replace(matrix=matrix.matrix[kept], magnitudes=matrix.magnitudes[kept])


def longer(op, matrix, rng):
    right = rng.standard_normal((op.shape[1], rng.integers(1, 30))).astype(op.dtype)
    return op @ pp.SparseProduct([right], 2.0), matrix @ dense([right], 2.0)


def loaded(op, matrix, rng):
    op.save("op.npz")
    again = pp.load("op.npz")
    assert again == op
    return again, matrix


CHANGES = {
    "T": lambda op, matrix, rng: (op.T, matrix.transpose()),
    "H": lambda op, matrix, rng: (op.H, matrix.adjoint()),
    "part": part,
    "product": longer,
    "optimized": lambda op, matrix, rng: (op.optimized(), matrix._replace(eps=float(np.finfo(op.dtype).eps))),
    "loaded": loaded,
    "multiple": lambda op, matrix, rng: (-2 * op / 4, matrix._replace(matrix=-matrix.matrix / 2)),
}


def assert_product(actual, op, matrix, x):
    exact = x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)
    expected = matrix.matrix @ exact
    dtype = np.result_type(op.dtype, x.dtype)
    assert actual.shape == expected.shape
    assert actual.dtype == dtype
    bound = 60 * (np.finfo(dtype).eps + matrix.eps) * (matrix.magnitudes @ np.abs(exact))
    assert (np.abs(actual - expected) <= bound + np.finfo(dtype).tiny * sum(op.shape)).all()


@pytest.mark.slow
@given(data=st.data())
def test_products_are_those_of_the_dense_matrix(here, data):
    dtype = data.draw(st.sampled_from(ALL_DTYPES))
    op, matrix = data.draw(chains(dtype))
    rng = np.random.default_rng(data.draw(seeds))
    for change in data.draw(st.lists(st.sampled_from(list(CHANGES)), max_size=2)):
        op, matrix = CHANGES[change](op, matrix, rng)
    given_dtype = data.draw(st.sampled_from((dtype, *ALL_DTYPES)))
    count = data.draw(st.sampled_from(COUNTS))
    layout = LAYOUTS[data.draw(st.sampled_from(list(LAYOUTS)))] if count else np.asarray
    z, x = (layout(gaussian((side, count), given_dtype, seed=side)) for side in op.shape)
    assert_product(op @ x, op, matrix, x)
    assert_product(op.T @ z, op, matrix.transpose(), z)
    assert_product(op.H @ z, op, matrix.adjoint(), z)
    assert_product((z.T @ op).T, op, matrix.transpose(), z)
    assert_product((op @ sp.csc_array(x)).toarray(), op, matrix, x)
    assert_product(op.toarray(), op, matrix, np.eye(op.shape[1], dtype=op.dtype))
    if count:
        assert_product(op @ x[:, 0], op, matrix, x[:, 0])
        assert_product(op.H @ z[:, 0], op, matrix.adjoint(), z[:, 0])
        assert_product((op @ np.stack([x, -x]))[1], op, matrix, -x)
