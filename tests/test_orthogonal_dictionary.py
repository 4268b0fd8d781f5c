"""Orthogonal dictionaries that are products of rotations, and codes by thresholding."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import papilio as pp
from papilio.coding import Atoms, omp_codes

from .helpers import gaussian
from .limits import lower

DTYPES = [np.float32, np.float64, np.complex128]


def basis(n, dtype=np.float64, seed=0):
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    return np.linalg.qr(gaussian((n, n), wide, seed))[0].astype(dtype)


def smooth(n_samples=400, n_features=16, seed=0, dtype=np.float64):
    """Random walks: samples that are sparse neither in the unit vectors nor exactly in cosines."""
    rows = np.cumsum(gaussian((n_samples, n_features), dtype, seed), axis=1)
    return (rows - rows.mean(axis=1, keepdims=True)).astype(dtype)


X = smooth()


# -- codes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_in_a_basis_are_its_largest_coefficients(dtype):
    U, signals = basis(20, dtype), gaussian((20, 300), dtype, 1)
    signals[:, 7], signals[:, 9] = 0, 2 * U[:, 4]
    codes = pp.omp(U, signals, 3)
    coefficients = U.conj().T @ signals
    smallest = -np.sort(-abs(coefficients), axis=0)[2]
    expected = np.where(abs(coefficients) >= smallest, coefficients, 0)
    expected[:, 7] = 0
    eps = float(np.finfo(dtype).eps)
    np.testing.assert_allclose(codes.toarray(), expected, atol=200 * eps)
    assert codes.dtype == dtype
    assert codes.has_sorted_indices
    assert codes[:, [7]].nnz == 0
    assert codes[:, [9]].nnz == 1


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_codes_in_a_basis_are_those_of_pursuit(dtype):
    U, signals = basis(24, dtype), gaussian((24, 200), dtype, 2)
    pursued = Atoms(U)
    pursued._is_basis = False
    expected = omp_codes(pursued, signals, 5)
    np.testing.assert_allclose(omp_codes(Atoms(U), signals, 5).toarray(), expected.toarray(), atol=1e-13)


# -- learning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dictionary_is_orthogonal_and_within_its_complexity(dtype):
    learned = pp.dictionary.orthogonal_dictionary(smooth(dtype=dtype).T, 3, complexity=0.5, random_state=0)
    U = learned.dictionary.toarray()
    assert learned.dictionary.dtype == learned.codes.dtype == dtype
    np.testing.assert_allclose(U.conj().T @ U, np.eye(16), atol=300 * float(np.finfo(dtype).eps))
    assert learned.dictionary.relative_complexity <= 0.5
    signals = smooth(dtype=dtype).T
    error = np.linalg.norm(signals - U @ learned.codes.toarray()) / np.linalg.norm(signals)
    assert learned.history.error[-1] == pytest.approx(error, rel=1e-3)
    assert (np.diff(learned.codes.indptr) <= 3).all()


def test_the_error_never_rises_and_ends_below_that_of_cosines():
    learned = pp.dictionary.orthogonal_dictionary(X.T, 3, complexity=1.0, tol=0, max_iter=15)
    assert (np.diff(learned.history.error) <= 1e-9).all()
    cosines = pp.transforms.dct(16).toarray().T
    codes = pp.omp(cosines, X.T, 3).toarray()
    assert learned.history.error[-1] < np.linalg.norm(X.T - cosines @ codes) / np.linalg.norm(X)


def test_the_basis_of_sparse_signals_is_found_where_rotations_are_few():
    random, d = np.random.default_rng(0), 12
    U = np.eye(d)
    for i, j in [(0, 1), (2, 3), (4, 5), (1, 2), (6, 7), (8, 9)]:
        U[[i, j]] = basis(2, seed=i) @ U[[i, j]]
    codes = np.where(random.random((d, 800)) < 0.15, random.standard_normal((d, 800)), 0)
    codes[3:, np.count_nonzero(codes, axis=0) > 3] = 0
    learned = pp.dictionary.orthogonal_dictionary(U @ codes, 3, n_rotations=60, tol=0, max_iter=100)
    assert (
        learned.history.error[-1]
        < 0.5 * pp.dictionary.orthogonal_dictionary(U @ codes, 3, n_rotations=0).history.error[-1]
    )


@pytest.mark.parametrize("shape", [(4, 1), (9, 2), (30, 7), (40, 9)])
def test_any_size(shape):
    data = gaussian(shape)
    model = pp.OrthogonalDictionaryLearning(random_state=0).fit(data)
    assert model.components_.shape == (shape[1], shape[1])
    if shape[1] == 1:
        assert model.score(data) == 0


# -- the estimator -------------------------------------------------------------------------------------


@parametrize_with_checks([pp.OrthogonalDictionaryLearning()])
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def make(**options):
    return pp.OrthogonalDictionaryLearning(n_nonzero_coefs=3, random_state=0, **options)


def test_the_fitted_attributes_agree():
    model = make().fit(X)
    np.testing.assert_allclose(model.operator_.toarray().T, model.components_, atol=1e-12)
    assert model.relative_complexity_ <= 0.5
    assert len(model.history_) == model.n_iter_ > 0
    codes = model.transform(X)
    np.testing.assert_allclose(codes, pp.omp(model.components_.T, X.T, 3).toarray().T, atol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(codes), codes @ model.components_, atol=1e-10)
    assert isinstance(make(transform_sparse=True).fit(X).transform(X), sp.csr_array)
    missing = X - model.inverse_transform(codes)
    assert model.score(X) == pytest.approx(-np.linalg.norm(missing) / np.linalg.norm(X))


def test_fits_repeat_bit_for_bit_and_survive_pickling_and_cloning():
    data = X.copy()
    model = make().fit(data)
    np.testing.assert_array_equal(data, X)
    np.testing.assert_array_equal(model.components_, clone(model).fit(X).components_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), model.transform(X))


def test_a_callback_stops_it_with_a_result():
    model = make(callback=lambda step: True).fit(X)
    assert model.status_ == "stopped"
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(16), atol=1e-12)


def test_an_interrupted_run_resumes_from_its_checkpoint(tmp_path, monkeypatch):
    from papilio.runtime import session

    monkeypatch.setattr(session, "_SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    path, expected = tmp_path / "state.npz", make(tol=0, max_iter=12).fit(X)

    class Halt(Exception):
        pass

    def halt(step):
        if step.iteration == 7:
            raise Halt

    with pytest.raises(Halt):
        make(tol=0, max_iter=12, checkpoint=path, callback=halt).fit(X)
    resumed = make(tol=0, max_iter=12, checkpoint=path).fit(X)
    np.testing.assert_allclose(resumed.components_, expected.components_, atol=1e-9)
    assert resumed.n_iter_ == expected.n_iter_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_rotations": -1}, "n_rotations"),
        ({"complexity": 0.01}, "complexity must be at least"),
        ({"complexity": 1.5}, "complexity"),
        ({"complexity": 0.5, "n_rotations": 3}, "n_rotations and complexity cannot be combined"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"window": 0}, "window"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options).fit(X)


def test_large_data_are_learned_from_part_by_part(monkeypatch):
    lower(monkeypatch, sample=100, sample_per_atom=1)
    model = make().fit(X)
    assert "all data" in model.history_.phase
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(16), atol=1e-12)
    assert model.score(X) > 1.1 * make().fit(X).score(X)
