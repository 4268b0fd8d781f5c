"""Non-negative codes, against a plain loop with SciPy's least squares and in learning; long codings."""

import numpy as np
import pytest
from scipy.optimize import nnls

import papilio as pp
from papilio.coding import Atoms
from papilio.kernels import atom_updates as kernels

from .helpers import set_in_coding
from .learners import LEARNERS, N_NONZERO, signals
from .test_atoms import grouped
from .test_stopping import ctrl_c, default_ctrl_c  # noqa: F401

pytestmark = pytest.mark.usefixtures("default_threads")
REAL = pytest.mark.parametrize("dtype", [np.float32, np.float64])
WAYS = {
    "whole": {},
    "whole, a signal at a time": {"CHUNK": 1},
    "rows, room for some": {"GRAM_BYTES": 48 * 24 * 4, "_LOCKSTEP": 700},
    "rows, room for one signal": {"GRAM_BYTES": 0, "CHUNK": 100},
}


def eps(dtype):
    return float(np.finfo(dtype).eps)


def plain(D, X, n_nonzero_coefs, tol=-1.0):
    """The definition, a signal and an atom at a time; and the signals for which rounding decides nothing."""
    precision, D, X = eps(np.result_type(D, X)), D.astype(float), X.astype(float)
    norms = np.linalg.norm(D, axis=0)
    codes, clear = np.zeros((D.shape[1], X.shape[1])), np.ones(X.shape[1], bool)
    for i, (x, code) in enumerate(zip(X.T, codes.T, strict=True)):
        support, values, residual = [], [], x
        while len(support) < n_nonzero_coefs and residual @ residual > tol:
            correlations = D.T @ residual / norms
            best = int(np.argmax(correlations))
            others, size = np.delete(correlations, best), np.linalg.norm(x)
            if correlations[best] <= 16 * precision * size:
                break
            clear[i] &= correlations[best] - others.max(initial=0) > 1e3 * precision * size
            clear[i] &= np.linalg.cond((D / norms)[:, [*support, best]]) ** 2 * precision < 1e-3
            found = nnls(D[:, [*support, best]], x)[0]
            support = [j for j, value in zip([*support, best], found, strict=True) if value > 0]
            values = found[found > 0]
            residual = x - D[:, support] @ values
        code[support] = values
    return codes, clear


def case(seed, dtype, n_signals=8):
    """A dictionary and signals of random sizes; where both are positive, atoms leave the support more often."""
    rng = np.random.default_rng(seed)
    n_features, n_atoms = rng.integers(2, 16), rng.integers(1, 49)
    D, X = rng.standard_normal((n_features, n_atoms)), rng.standard_normal((n_features, n_signals))
    if seed % 3:
        D = np.abs(D) * rng.uniform(0.1, 10, n_atoms)
    if seed % 3 == 2:
        X = np.abs(X)
    return D.astype(dtype), X.astype(dtype), int(rng.integers(1, min(n_features, n_atoms) + 1))


def assert_sound(codes, D, X, n_nonzero_coefs):
    """Few positive entries, and on their support the solution of non-negative least squares."""
    assert (codes.data > 0).all()
    assert (np.diff(codes.indptr) <= n_nonzero_coefs).all()
    D, X, precision = D.astype(float), X.astype(float), eps(codes.dtype)
    for x, code in zip(X.T, codes.toarray().astype(float).T, strict=True):
        used = code > 0
        least = nnls(D[:, used], x)[1] if used.any() else np.linalg.norm(x)
        unit = D[:, used] / np.linalg.norm(D[:, used], axis=0)
        rounding = 1e3 * precision * (np.linalg.cond(unit) if used.any() else 1.0)
        assert np.linalg.norm(x - D @ code) <= least + rounding * np.linalg.norm(x)


def assert_same(codes, expected, clear):
    """The same atoms, and values that differ by rounding."""
    actual, expected = codes.toarray()[:, clear], expected[:, clear]
    np.testing.assert_array_equal(actual > 0, expected > 0)
    tolerance = 10 * np.sqrt(eps(codes.dtype)) * np.abs(expected).max(initial=0)  # ill-conditioned supports, too
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


@REAL
@pytest.mark.parametrize("way", WAYS)
def test_codes_are_those_of_a_plain_loop_whatever_the_way(way, dtype, monkeypatch):
    set_in_coding(monkeypatch, WAYS[way])
    shorter, compared = 0, 0
    for seed in range(40):
        D, X, k = case(seed, dtype)
        codes, (expected, clear) = pp.omp(D, X, k, positive=True), plain(D, X, k)
        assert codes.dtype == dtype
        assert_same(codes, expected, clear)
        assert_sound(codes, D, X, k)
        shorter, compared = shorter + (np.diff(codes.indptr) < k).sum(), compared + clear.sum()
    assert shorter > 8  # They end at the solution on all atoms.
    assert compared > 200


def test_an_atom_that_becomes_zero_leaves_and_its_place_is_free():
    # The sum of two atoms is chosen first, and not needed once they are there.
    D = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.5, 1.0]])
    x = np.array([1.0, 1.0, 0.0])
    assert np.argmax(D.T @ x / np.linalg.norm(D, axis=0)) == 2
    np.testing.assert_allclose(pp.omp(D, x, 2, positive=True).toarray().ravel(), [0, 0.5, 0.8, 0], atol=0.5)
    np.testing.assert_allclose(pp.omp(D, x, 3, positive=True).toarray().ravel(), [1, 1, 0, 0], atol=1e-14)


def test_signals_that_point_away_from_all_atoms_have_empty_codes():
    codes = pp.omp(np.abs(np.random.default_rng(0).standard_normal((5, 9))), -np.ones((5, 2)), 3, positive=True)
    assert codes.nnz == 0


@pytest.mark.parametrize("positive", ["yes", None])
def test_other_flags_are_refused_by_name(positive):
    with pytest.raises(TypeError, match="positive"):
        pp.omp(np.eye(3), np.ones(3), positive=positive)


@pytest.mark.parametrize(
    "call", [lambda X: pp.omp(X, X, positive=True), lambda X: pp.dictionary.ksvd(X, 3, positive=True)]
)
def test_complex_data_are_refused_by_name(call):
    with pytest.raises(ValueError, match="positive must be False for complex data"):
        call(np.eye(4) + 1j)


# -- learning ------------------------------------------------------------------------------------------


def test_an_update_of_atoms_keeps_codes_non_negative_and_lowers_the_error():
    rng = np.random.default_rng(0)
    X, atoms = rng.standard_normal((60, 8)), rng.standard_normal((12, 8))
    atoms /= np.linalg.norm(atoms, axis=1)[:, None]
    codes = pp.omp(atoms.T, X.T, 3, positive=True)
    residuals = X - codes.T @ atoms
    before = np.linalg.norm(residuals)
    starts, entries, owners = grouped(codes)
    # By the definition, for the first atom: g = max(dᵀE, 0) with d = E g/‖E g‖.
    own, mine = entries[: starts[1]], owners[: starts[1]]
    E = residuals[mine] + np.outer(codes.data[own], atoms[0])
    d = E.T @ codes.data[own]
    d /= np.linalg.norm(d)
    first = starts.copy()
    first[1:] = starts[1]
    alone = codes.data.copy(), residuals.copy(), atoms.copy()
    kernels.update_atoms(alone[2], alone[1], alone[0], first, entries, owners, True)
    np.testing.assert_allclose(alone[2][0], d)
    np.testing.assert_allclose(alone[0][own], np.maximum(E @ d, 0))
    kernels.update_atoms(atoms, residuals, codes.data, starts, entries, owners, True)
    np.testing.assert_allclose(residuals, X - codes.T @ atoms, atol=1e-12)
    assert (codes.data >= 0).all()
    assert np.linalg.norm(residuals) < before


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_have_non_negative_codes(name):
    X = signals()
    learned = LEARNERS[name](X, positive=True, max_iter=4, tol=0.0, random_state=0)
    assert (learned.codes.data > 0).all()
    codes = pp.omp(learned.dictionary, X, N_NONZERO, positive=True)
    np.testing.assert_allclose(learned.codes.toarray(), codes.toarray(), atol=1e-10)


@pytest.mark.parametrize("name", ["KSVD", "SparseKSVD", "OnlineDictionaryLearning", "FastDictionaryLearning"])
def test_estimators_have_non_negative_codes(name):
    X = signals().T
    short = {"effort": 0} if name == "FastDictionaryLearning" else {"max_iter": 3}
    model = getattr(pp, name)(8, 2, **short, positive=True, random_state=0).fit(X)
    codes = model.transform(X)
    assert (codes >= 0).all()
    np.testing.assert_array_equal(codes, pp.omp(model, X.T, 2, positive=True).toarray().T)
    assert model.score(X) == pytest.approx(-np.linalg.norm(X - codes @ model.components_) / np.linalg.norm(X))
    assert (model.set_params(positive=False).transform(X) < 0).any()
    if hasattr(model, "partial_fit"):
        model.set_params(positive=True)
        other = getattr(pp, name)(8, 2, **short, random_state=0).fit(X)
        assert not np.array_equal(model.partial_fit(X[:50]).components_, other.partial_fit(X[:50]).components_)


def test_lazy_codes_and_passes_over_files_are_non_negative(tmp_path):
    dask = pytest.importorskip("dask.array")
    X = signals().T
    model = pp.KSVD(8, 2, max_iter=3, tol=0.0, positive=True, random_state=0).fit(X)
    lazily = model.transform(dask.from_array(X, chunks=(100, -1))).compute(scheduler="synchronous")
    np.testing.assert_allclose(lazily, model.transform(X), atol=1e-12)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(model.transform(mapped), model.transform(X))
    assert model.score(mapped) == pytest.approx(model.score(X))


# -- long codings --------------------------------------------------------------------------------------


def test_a_gram_matrix_in_parts_is_the_whole_one(monkeypatch):
    for D in (np.random.default_rng(0).standard_normal((4, 23)), np.eye(4)[:, np.arange(11) % 4] * (1 + 1j)):
        set_in_coding(monkeypatch, {"_AT_ONCE": 1 << 10})
        whole = Atoms(D).whole_gram()
        set_in_coding(monkeypatch, {"_AT_ONCE": 2})
        np.testing.assert_allclose(Atoms(D).whole_gram(), whole, atol=1e-14)
