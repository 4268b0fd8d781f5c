"""`omp` against plain orthogonal matching pursuit: least squares anew at each step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import papilio as pp

from ..helpers import ALL_DTYPES, gaussian
from .test_products import chains, seeds


def plain_omp(D, x, limit, tol, eps):
    """Atoms, what is left of ``x``, and whether rounding to ``eps`` decided between atoms somewhere."""
    norms = np.linalg.norm(D, axis=0)
    chosen, left, near = [], x, False
    while len(chosen) < limit and np.linalg.norm(left) ** 2 > tol and np.linalg.norm(left) > 0:
        correlations = np.divide(np.abs(D.conj().T @ left), norms, out=np.zeros(len(norms)), where=norms > 0)
        correlations[chosen] = 0
        best = int(np.argmax(correlations))
        if correlations[best] <= 1e3 * eps * np.linalg.norm(x):
            break
        others = np.delete(correlations, best)
        chosen.append(best)
        unit = D[:, chosen] / norms[chosen]
        near |= bool(others.max(initial=0) >= (1 - 1e-4) * correlations[best] or np.linalg.cond(unit) * eps > 1e-4)
        left = x - unit @ np.linalg.lstsq(unit, x, rcond=None)[0]
    return chosen, left, near


@st.composite
def dictionaries(draw, dtype):
    """As it is given, and as a matrix, some of whose columns are zero, equal, dependent or long."""
    if draw(st.booleans()):
        op, _ = draw(chains(dtype, sides=(6, 20, 60)))
        return op, op.toarray()
    D = gaussian((draw(st.integers(1, 30)), draw(st.integers(1, 60))), dtype, draw(seeds))
    columns = st.integers(0, D.shape[1] - 1)
    for change in draw(st.lists(st.sampled_from(("zero", "equal", "multiple", "dependent", "long")), max_size=2)):
        i, j = draw(columns), draw(columns)
        match change:
            case "zero":
                D[:, i] = 0
            case "equal":
                D[:, i] = D[:, j]
            case "multiple":
                D[:, i] = -3 * D[:, j]
            case "dependent":
                D[:, i] = D.sum(axis=1)
            case "long":
                D[:, i] *= 1e6
    return np.asarray(D, order=draw(st.sampled_from("CF"))), D


@st.composite
def signals(draw, D):
    X = gaussian((D.shape[0], draw(st.sampled_from((1, 2, 5, 17, 0)))), D.dtype, draw(seeds))
    for j in range(X.shape[1]):
        match draw(st.sampled_from(("any", "zero", "atom", "sum of atoms", "small", "large"))):
            case "zero":
                X[:, j] = 0
            case "atom":
                X[:, j] = D[:, j % D.shape[1]]
            case "sum of atoms":
                X[:, j] = D[:, :3].sum(axis=1)
            case "small":
                X[:, j] *= X.dtype.type(1e-12)
            case "large":
                X[:, j] *= X.dtype.type(1e12)
    return X


@pytest.mark.slow
@given(data=st.data())
def test_codes_are_those_of_plain_matching_pursuit(data):
    dictionary, D = data.draw(dictionaries(data.draw(st.sampled_from(ALL_DTYPES))))
    X = data.draw(signals(D))
    limit = data.draw(st.none() | st.integers(1, D.shape[0] + 1))
    tol = data.draw(st.sampled_from((None, 0.0, 1e-12, 1e-3, 0.5)))
    options = {} if limit is None else {"n_nonzero_coefs": limit}
    if tol is not None:
        options["tol"] = tol = tol * float(np.linalg.norm(X, axis=0).max(initial=0)) ** 2
    codes = pp.omp(dictionary, X, **options)
    assert codes.shape == (D.shape[1], X.shape[1])
    assert codes.dtype == np.result_type(D.dtype, X.dtype)
    assert np.isfinite(codes.data).all()
    if limit is None:
        limit = max(D.shape[0] // 10, 1) if tol is None else D.shape[0]
    eps = float(np.finfo(codes.dtype).eps)
    exact = np.complex128 if codes.dtype.kind == "c" else np.float64
    for j in range(X.shape[1]):
        check_code(codes[:, [j]].toarray().ravel(), D.astype(exact), X[:, j].astype(exact), limit, tol, eps)


def check_code(code, D, x, limit, tol, eps):
    norms, used, size = np.linalg.norm(D, axis=0), np.flatnonzero(code), np.linalg.norm(x)
    unit_atoms = D[:, norms > 0] / norms[norms > 0]  # a long atom makes no other dependent
    rank = np.linalg.matrix_rank(unit_atoms, tol=1e-10) if D.any() else 0
    assert used.size <= min(limit, rank)
    assert size or not used.size
    left = np.linalg.norm(x - D @ code)
    condition = np.linalg.cond(D[:, used] / norms[used]) if used.size else 1.0
    assert left <= (1 + 1e3 * eps * min(condition, 1e6)) * size
    chosen, best, near = plain_omp(D, x, limit, -1.0 if tol is None else tol, eps)
    if near or condition >= 1e3:
        return  # rounding decides which atoms are chosen
    if len(chosen) >= used.size:
        assert left <= np.linalg.norm(best) + 200 * np.sqrt(eps) * size
    if tol is not None and np.linalg.norm(best) ** 2 <= 0.5 * tol:
        assert left**2 <= tol * (1 + 1e-3) + eps * size**2
