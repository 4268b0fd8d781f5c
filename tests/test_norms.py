"""Norms of the atoms of products: by structure, by probes and by columns, and what is coded with them."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import papilio as pp
from papilio.coding import Atoms, omp_codes
from papilio.coding import atoms as norms
from papilio.coding.matching_pursuit import _keep_largest

from .helpers import gaussian, set_in_coding
from .test_coding import plain_omp


def butterfly(n, dtype=np.float64):
    """Random entries at the places of a Hadamard matrix's factors."""
    random = np.random.default_rng(0)
    factors = []
    for factor in pp.transforms.hadamard(n).factors:
        factor = factor.astype(dtype)
        factor.data = gaussian(factor.data.shape, dtype, int(random.integers(1 << 30)))
        factors.append(factor)
    return pp.SparseProduct(factors, scale=-0.3)


def scattered(n, dtype=np.float64):
    random = np.random.default_rng(1)
    factors = [sp.random_array((n, n), density=4 / n, rng=random) + sp.eye_array(n) for _ in range(2)]
    return pp.SparseProduct([*factors, sp.diags_array(np.linspace(0.1, 5, n))]).astype(dtype)


# Products whose structure tells the norms, and whether their columns are orthogonal.
STRUCTURED = {
    "hadamard": (lambda: pp.transforms.hadamard(64), True),
    "dct": (lambda: pp.transforms.dct(64), True),
    "dft": (lambda: pp.transforms.dft(64), True),
    "haar": (lambda: pp.transforms.haar(64), True),
    "wavelet": (lambda: pp.transforms.wavelet(64), True),
    "some columns": (lambda: pp.transforms.dct(64)[:, ::3], True),
    "columns of any norm": (
        lambda: pp.transforms.dct(64) @ pp.SparseProduct([sp.diags_array(np.linspace(0, 9, 64))]),
        True,
    ),
    "butterfly": (lambda: butterfly(64), False),
    "complex butterfly": (lambda: butterfly(64, np.complex128), False),
    "union": (lambda: pp.operators.hstack([pp.transforms.dct(64), pp.transforms.haar(64)]), False),
    "union of butterflies": (lambda: pp.operators.hstack([butterfly(64), pp.transforms.haar(64)]), False),
}


@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_norms_follow_from_the_structure_of_transforms_butterflies_and_unions(name, precision):
    make, are_orthogonal = STRUCTURED[name]
    op = make()
    op = op.astype(np.result_type(precision, np.complex64) if op.dtype.kind == "c" else precision)
    found = norms.structure_of(op)
    assert found.are_orthogonal == are_orthogonal
    np.testing.assert_allclose(
        found.norms, np.linalg.norm(op.toarray(), axis=0), rtol=50 * np.finfo(precision).eps
    )


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 10**6), n_factors=st.integers(1, 4), density=st.floats(0.05, 0.6), n=st.integers(1, 9))
def test_norms_by_structure_are_right_wherever_there_are_any(seed, n_factors, density, n):
    random = np.random.default_rng(seed)
    factors = []
    for _ in range(n_factors):
        factor = random.integers(-2, 3, (n, n)) * (random.random((n, n)) < density)
        if random.random() < 0.5:  # orthogonal columns, or a permutation
            factor = np.eye(n)[random.permutation(n)] * random.integers(-2, 3, n)
        factors.append(factor.astype(np.float64))
    found, dense = (norms.structure_of(pp.SparseProduct(factors)), reduce(np.matmul, factors))
    if found.norms is not None:
        np.testing.assert_allclose(found.norms, np.linalg.norm(dense, axis=0), atol=1e-12)
    if found.are_orthogonal:
        gram = dense.T @ dense
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_probes_give_bounds_and_columns_that_are_looked_at_are_exact(dtype, monkeypatch):
    monkeypatch.setattr(norms, "_MANY", 0)
    op = scattered(300, dtype)
    true, found = np.linalg.norm(op.toarray(), axis=0), norms.norms_of(op)
    assert not found.exact.any()
    low, high = found.bounds()
    assert (low < true).all()
    assert (true < high).all()
    assert (high < 1.4 * low).all()
    some = np.array([3, 299, 3])
    assert found.look_at(op, some)
    assert not found.look_at(op, some)
    np.testing.assert_allclose(found.values[some], true[some], rtol=10 * np.finfo(dtype).eps)
    assert found.exact.sum() == 2
    assert norms.norms_of(op) is found


@pytest.mark.parametrize("options", [{"n_nonzero_coefs": 8}, {"tol": 30.0}])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_codes_with_estimated_norms_are_those_of_a_plain_loop(dtype, options, monkeypatch):
    monkeypatch.setattr(norms, "_MANY", 0)
    op, X = scattered(600, dtype), gaussian((600, 7), dtype, 3)
    set_in_coding(monkeypatch, {"ROOM_BYTES": 0})
    atoms = Atoms(op)
    options = {**options, "tol": 0.9 * (np.abs(X) ** 2).sum(axis=0).max()} if "tol" in options else options
    codes = omp_codes(atoms, X, **options)
    assert atoms.dense is None
    assert not norms.norms_of(op).exact.all()
    np.testing.assert_allclose(codes.toarray(), plain_omp(op.toarray(), X, **options), atol=1e-9)


def test_known_norms_are_taken_and_checked():
    op, x = scattered(600), gaussian((600,), np.float64, 3)
    true = np.linalg.norm(op.toarray(), axis=0)
    expected = pp.omp(op, x, 5).toarray()
    assert "norms" in op._cache
    op = scattered(600)
    np.testing.assert_allclose(pp.omp(op, x, 5, norms=true).toarray(), expected, atol=1e-10)
    assert "norms" not in op._cache
    np.testing.assert_allclose(
        pp.lasso(op, x, 9.0, norms=true).toarray(), pp.lasso(op, x, 9.0).toarray(), atol=1e-6
    )
    pp.omp(pp.transforms.dct(8), np.ones(8), 2, norms=1)
    for wrong in (-1.0, np.ones(7), np.ones((8, 1)), [np.nan] * 8):
        with pytest.raises(ValueError, match="norms must be"):
            pp.omp(pp.transforms.dct(8), np.ones(8), 2, norms=wrong)


@pytest.mark.parametrize("name", ["dct", "dft", "haar", "some columns", "columns of any norm"])
@pytest.mark.parametrize("options", [{"n_nonzero_coefs": 9}, {"tol": 40.0}, {"n_nonzero_coefs": 12, "tol": 50.0}])
def test_codes_in_orthogonal_atoms_are_the_largest_coefficients(name, options, monkeypatch):
    monkeypatch.setattr("papilio.coding.atoms.SMALL", 0)
    op = STRUCTURED[name][0]()
    X = gaussian((64, 20), op.dtype, 4)
    X[:, 5] = 0
    atoms = Atoms(op)
    codes = omp_codes(atoms, X, **options).toarray()
    assert atoms.is_orthonormal()
    D = op.toarray()[:, np.linalg.norm(op.toarray(), axis=0) > 0]
    expected = plain_omp(D, X, **options) if name != "some columns" or "tol" not in options else None
    if expected is not None:
        kept = codes[np.linalg.norm(op.toarray(), axis=0) > 0]
        np.testing.assert_allclose(kept, expected, atol=1e-10)
    assert not codes[:, 5].any()


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 10**6), width=st.integers(1, 12), most=st.integers(1, 12))
def test_the_largest_entries_are_kept_and_of_equal_ones_the_first(seed, width, most):
    most = min(most, width)
    sizes = np.random.default_rng(seed).integers(0, 4, (6, width)).astype(float)
    kept = np.ones(sizes.shape, bool)
    _keep_largest(sizes, kept, most)
    for row, marks in zip(sizes, kept, strict=True):
        np.testing.assert_array_equal(np.flatnonzero(marks), np.sort(np.argsort(-row, kind="stable")[:most]))
