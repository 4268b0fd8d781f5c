"""Each compiled kernel against plain NumPy, or against the general code that it stands in for."""

import os
import subprocess
import sys
from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio import constraints as c
from papilio.constraints.base import slack_of
from papilio.kernels.select import keep_largest, keep_largest_of_lines, nth_largest
from papilio.kernels.simd import TILE
from papilio.kernels.steps import count_entries, fill_entries, norm_squared
from papilio.linalg import probe, wide
from papilio.operators import engine
from papilio.operators.cost import Plan
from papilio.solvers import factor_chain
from papilio.solvers.palm import Descent, Limits, default_start

from . import twins
from .helpers import ALL_DTYPES, LAYOUTS, gaussian
from .twins import CHAINS, kind_of

COUNTS = (1, 2, 63, 64, 65, 129, 300)
ORDERS = ("left_to_right", "right_to_left")


# -- apply ---------------------------------------------------------------------------------------------


def operator(masks, dtype, scale=-0.75):
    """The operator, its dense matrix, and the same of magnitudes, by which rounding is measured."""
    factors = [mask * gaussian(mask.shape, dtype, seed) for seed, mask in enumerate(masks)]
    matrices = [factor.astype(wide(np.dtype(dtype))) for factor in factors]
    magnitudes = reduce(np.matmul, [np.abs(matrix) for matrix in matrices])
    return pp.SparseProduct(factors, scale), scale * reduce(np.matmul, matrices), abs(scale) * magnitudes


def assert_product(actual, matrix, magnitudes, x):
    assert actual.shape == (matrix @ x).shape
    bound = 60 * np.finfo(actual.dtype).eps * (magnitudes @ np.abs(x))
    assert (np.abs(actual - matrix @ x) <= bound).all()


WAYS = ("kernel", "chunks", "BLAS", "either")


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """What applies the factors: the kernel, in chunks of three columns, too, BLAS, or each in turn."""
    if request.param == "chunks":
        monkeypatch.setattr(engine, "is_near", lambda factor: True)
        monkeypatch.setattr(engine, "_NEAR_BYTES", 3 * TILE)

    def plan(units, rate):
        choices = {"BLAS": [True], "either": [True, False, False]}.get(request.param, [False])
        by_blas = [choices[i % len(choices)] and unit.has_matrix for i, unit in enumerate(units)]
        return Plan(0.0, tuple(by_blas))

    monkeypatch.setattr(engine, "plan", plan)
    return request.param


# Each chain in each dtype and in each way; all dtypes meet all ways.
@pytest.mark.parametrize(
    ("name", "dtype", "way"),
    [(name, dtype, WAYS[(i + j) % 4]) for i, name in enumerate(CHAINS) for j, dtype in enumerate(ALL_DTYPES)],
    indirect=["way"],
)
def test_products_of_every_kind_of_chain_are_the_dense_ones(name, dtype, way):
    masks, kinds = CHAINS[name]
    op, matrix, magnitudes = operator(masks, dtype)
    assert kinds is None or list(map(kind_of, op._packed().units)) == kinds
    rows, columns = op.shape
    for count in COUNTS:
        X, Z = gaussian((columns, count), dtype), gaussian((rows, count), dtype)
        for layout in LAYOUTS.values() if count in (2, 65) else list(LAYOUTS.values())[:2]:
            x, z = layout(X), layout(Z)
            assert_product(op @ x, matrix, magnitudes, x)
            assert_product(op.T @ z, matrix.T, magnitudes.T, z)
            assert_product(op.H @ z, matrix.conj().T, magnitudes.T, z)
            assert_product((z.T @ op).T, matrix.T, magnitudes.T, z)
            if count == 65:
                assert_product(op @ x[:, 3], matrix, magnitudes, x[:, 3])
                assert_product(op.T @ z[:, 3], matrix.T, magnitudes.T, z[:, 3])
                assert_product(z[:, 3] @ op, matrix.T, magnitudes.T, z[:, 3])


# -- select --------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=80)
@given(
    levels=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    data=st.data(),
    size=st.sampled_from([1e-30, 1e-3, 1.0, 1e30]),
    kind=st.sampled_from([np.float32, np.float64]),
    jitter=st.sampled_from([0.0, 0.2]),
)
def test_the_largest_are_kept_with_ties_at_the_lowest_indices(levels, data, size, kind, jitter):
    """Levels are far apart, and entries of one level, apart by ``jitter`` times the slack, are ties."""
    slack = slack_of(np.ones(1, kind))
    spread = 1 + jitter * slack * np.random.default_rng(0).random(len(levels))
    score = (size * np.array(levels) * spread).astype(kind)
    count = data.draw(st.integers(1, len(levels)))
    expected = twins.keep_largest(score, count, slack)
    keep = np.ones(score.size, dtype=bool)
    keep_largest(score, count, slack, keep)
    np.testing.assert_array_equal(keep, expected)
    if count < score.size:
        nth = np.partition(score, -count)[-count]
        assert abs(nth_largest(score, count, slack * float(score.max())) - nth) <= 0.25 * slack * score.max()
        assert nth_largest(score, count, 0.0) == nth


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shape", ["even", "few large", "one large"])
def test_the_largest_of_long_lines_are_those_of_a_partition(kind, shape):
    rng = np.random.default_rng(0)
    score = rng.random(5001)
    score *= {"even": 1.0, "few large": np.where(rng.random(5001) < 0.02, 1e6, 1.0)}.get(shape, 1.0)
    score[17] = 1e9 if shape == "one large" else score[17]
    score = score.astype(kind)
    for count in (1, 2, 100, 4000, 5000):
        assert nth_largest(score, count, 0.0) == np.partition(score, -count)[-count]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_each_line_keeps_its_own_largest(kind, count):
    score = np.round(np.abs(gaussian((30, 40), kind)), 1)
    score[[3, 29]] = 0
    score[5, 1:] = 0
    keep = np.ones(score.shape, dtype=bool)
    keep_largest_of_lines(score, count, 1e-5, keep)
    np.testing.assert_array_equal(keep, [twins.keep_largest(line, count, 1e-5) for line in score])


# -- convert -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (12, 7)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_entries_are_those_of_scipys_csr_array(dtype, shape, share):
    matrix = gaussian(shape, dtype) * (np.random.default_rng(1).random(shape) < share)
    matrix[0, 0] = -0.0
    pointers = count_entries(matrix)
    expected = sp.csr_array(matrix)
    for part, values in zip(
        (pointers, *fill_entries(matrix, pointers)), ("indptr", "indices", "data"), strict=True
    ):
        np.testing.assert_array_equal(part, getattr(expected, values), strict=True)


# -- descent -------------------------------------------------------------------------------------------


def test_norms_of_the_step_kernel_are_numpys(dtype):
    fine = 1e-5 if np.finfo(dtype).bits == 32 else 1e-7
    for shape in ((1, 1), (1, 6), (6, 1), (5, 8), (8, 5), (30, 30)):
        left = gaussian(shape, dtype)
        vector = np.zeros(shape[1], dtype)
        # From nothing, from the last time, and from a vector that holds little of the singular one.
        for start, push in ((vector, 0.1), (vector, 1e-3), (np.eye(1, shape[1], 0, dtype)[0], 1e-3)):
            norm = norm_squared(left, probe(shape[1], left.dtype), push, start, 1e-8)
            assert norm == pytest.approx(np.linalg.norm(left.astype(wide(left.dtype)), 2) ** 2, rel=10 * fine)
    zero = np.zeros((3, 4), dtype)
    assert norm_squared(zero, probe(4, zero.dtype), 0.1, np.zeros(4, dtype), 1e-7) == 0


# Chains for targets of 6 rows and 5 columns, or of 5 atoms.
SETS = {
    "one": [c.SparseRows((6, 5), 2)],
    "two": [c.SparseColumns((6, 9), 2), c.Sparse((9, 5), 17)],
    "three": [c.Fixed(gaussian((6, 4))), c.SparseRows((4, 8), 3), c.Dense((8, 5))],
    "four": [c.Dense((6, 3)), c.SparseColumns((3, 7), 1), c.Fixed(gaussian((7, 4))), c.SparseRows((4, 5), 4)],
    "blocks": [
        c.SparseBlocks((6, 7), 3, block=(4, 3), row_order=[5, 1, 0, 3, 4, 2]),
        c.SparseBlocks((7, 5), 4, block=(2, 2), column_order=[4, 2, 1, 3, 0]),
    ],
    "five": [c.Sparse((6, 6), k) for k in (18, 36, 12, 20)] + [c.SparseColumns((6, 5), 3)],
}
X, START = gaussian((6, 5)), [gaussian((6, 9)), gaussian((9, 5))]
PAIR = [c.Sparse((6, 9), 20), c.Sparse((9, 5), 20)]
EXACT = [constraint.project(matrix) for constraint, matrix in zip(PAIR, START, strict=True)]
LATE = [
    c.Sparse((6, 2), 1),
    c.Fixed(np.diag([0.0, 1.0])),
    c.Dense((2, 5)),
]  # the first block cuts the last one off
# A target, where to start (None for the default) and sets.
EDGES = {
    "a zero product": (X, [0 * START[0], 0 * START[1]], PAIR),
    "a zero block": (X, [START[0], 0 * START[1]], PAIR),
    "a zero target": (0 * X, START, PAIR),
    "no gradient": (0.7 * EXACT[0] @ EXACT[1], EXACT, PAIR),
    "a large target": (1e60 * X, START, PAIR),
    "a small target": (1e-60 * X, None, PAIR),
    "a zero product from a late block on": (X, [100 * np.eye(6, 2), np.eye(2), np.ones((2, 5))], LATE),
    "a huge target": (1e200 * X, START, PAIR),
    "a tiny target": (1e-200 * X, START, PAIR),
    "a tiny target from zero": (1e-161 * X, None, PAIR),
    "a large target in single precision": ((1e21 * X).astype("f"), [m.astype("f") for m in START], PAIR),
    "a small target in single precision": ((1e-22 * X).astype("f"), None, PAIR),
}


def both_descents(monkeypatch, moments, sets, start, order, n_iter, inertia=False):
    """Factors, scales and errors of the step of general code and of that of the kernel."""
    for small in (0, 200):
        monkeypatch.setattr(factor_chain, "_SMALL_DENSE", small)
        descent = Descent(moments, sets, start, Limits(order, inertia=inertia))
        descent._chain._tolerance = 1e-8  # Rough norms, which are enough with inertia, differ.
        scale, error, course = 0.7, np.inf, []
        for _ in range(n_iter):
            scale, error = descent.advance(scale, error)
            course.append((scale, error))
        yield descent.factors, course


@pytest.mark.parametrize("inertia", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("with_gram", [False, True])
@pytest.mark.parametrize("name", SETS)
def test_steps_of_the_kernel_are_the_general_ones(name, with_gram, order, inertia, dtype, monkeypatch):
    data = (gaussian((6, 40), dtype), gaussian((5, 40), dtype, 1))
    moments = pp.Moments.of(*data) if with_gram else pp.Moments(gaussian((6, 5), dtype))
    start = [gaussian(s.shape, dtype, seed) for seed, s in enumerate(SETS[name])]
    single = np.finfo(dtype).bits == 32
    general, ours = both_descents(monkeypatch, moments, SETS[name], start, order, 3, inertia)
    np.testing.assert_allclose(ours[1], general[1], rtol=1e-3 if single else 1e-6)
    for mine, theirs in zip(ours[0], general[0], strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-3 if single else 1e-6)
        assert mine.dtype == theirs.dtype


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", EDGES)
def test_the_kernel_does_what_general_code_does_at_the_edges(name, order, monkeypatch):
    target, start, sets = EDGES[name]
    start = default_start(sets, order, target.dtype) if start is None else start
    general, ours = both_descents(monkeypatch, pp.Moments(target), sets, start, order, 1)
    rtol = 1e-4 if target.dtype == np.float32 else 1e-6
    assert ours[1][0][0] == pytest.approx(general[1][0][0], rel=rtol, abs=0)
    assert ours[1][0][1] == pytest.approx(general[1][0][1], rel=rtol, abs=1e-12)
    for mine, theirs, constraint in zip(ours[0], general[0], sets, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=rtol)
        assert constraint.contains(mine)


@pytest.mark.slow
def test_kernels_from_the_cache_give_the_bits_of_kernels_just_compiled(tmp_path):
    """Their helpers are other copies, which must not sum in another order."""
    code = (
        "import hashlib, numpy as np, papilio as pp\n"
        "X = pp.datasets.rand(300, n_features=16, n_nonzero_coefs=3, random_state=0).signals.T\n"
        "model = pp.FastDictionaryLearning(n_nonzero_coefs=3, complexity=0.6, random_state=1).fit(X)\n"
        "print(hashlib.md5(np.ascontiguousarray(model.components_).tobytes()).hexdigest())\n"
        "M = np.random.default_rng(0).standard_normal((2, 13, 13)).T @ [1, 1j]\n"
        "sets = [pp.constraints.Sparse(13, 60), pp.constraints.SparseRows(13, 4)]\n"
        "found = pp.palm(M, sets, max_iter=40, tol=0)\n"
        "print(hashlib.md5(found.operator.toarray().tobytes()).hexdigest())\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        ).stdout
        for _ in range(2)
    )
    assert first == second
