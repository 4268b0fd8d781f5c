"""Matrices that are applied to known inputs: errors of outputs, for samples of all kinds."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.search.weighted import second_moments

QUICK = {"complexity": 0.4, "method": "low_rank"}


@pytest.fixture
def case():
    """A matrix, correlated inputs, and other inputs of the same kind."""
    random = np.random.default_rng(0)
    mixing = random.standard_normal((24, 24)) * 0.7 ** np.arange(24)
    samples = mixing @ random.standard_normal((24, 600))
    return random.standard_normal((32, 24)), samples[:, :300], samples[:, 300:]


def output_error(fit, M, X):
    return np.linalg.norm((M - fit.operator.toarray()) @ X) / np.linalg.norm(M @ X)


@pytest.mark.parametrize(
    "method", ["thresholding", "low_rank", "transform", "sparse_plus_low_rank", "hierarchical"]
)
def test_errors_of_unseen_outputs_are_lower_than_without_inputs(case, method):
    M, X, unseen = case
    M = pp.transforms.dct(32).toarray()[:, :16] if method == "transform" else M[:, :16]
    X, unseen = X[:16], unseen[:16]
    plain = pp.factorize(M, complexity=0.6, method=method)
    fit = pp.factorize(M, inputs=X, complexity=0.6, method=method)
    assert output_error(fit, M, unseen) < 0.8 * output_error(plain, M, unseen)
    assert fit.operator.nnz <= 0.6 * M.size


def test_low_rank_is_the_best_for_the_outputs(case):
    M, X, _ = case
    fit = pp.factorize(M, inputs=pp.Moments.of(M @ X, X), complexity=0.4, method="low_rank")
    rank = fit.operator.factors[0].shape[1]
    values = np.linalg.svd(M @ X, compute_uv=False)
    best = np.linalg.norm(values[rank:]) / np.linalg.norm(values)
    assert output_error(fit, M, X) <= 1.001 * best or fit.operator.nnz < 0.4 * M.size


@pytest.mark.parametrize("is_complex", [False, True])
def test_values_of_single_entries_are_the_best_on_their_places(case, is_complex):
    M, X, _ = case
    if is_complex:
        M, X = M + 1j * M[::-1], X + 1j * X[::-1]
    fit = pp.factorize(M, inputs=X, complexity=0.3, method="thresholding")
    missed, A = M - fit.operator.toarray(), second_moments(X, 24)
    gradient = missed @ A
    assert np.abs(gradient[fit.operator.toarray() != 0]).max() < 1e-9 * np.abs(gradient).max()
    energies = np.abs(M) ** 2 * A.diagonal().real
    assert (energies[missed != M].min()) >= energies[missed == M].max()


def test_where_time_is_limited_long_methods_that_see_inputs_come_first(case):
    M, X = case[0], case[1][:12]
    for options, expected in (
        ({"inputs": X}, ["transform", "nested", "sparse_plus_low_rank", "hierarchical"]),
        ({"time_budget": 1000}, ["transform", "nested", "sparse_plus_low_rank", "hierarchical"]),
        ({"inputs": X, "time_budget": 1000}, ["transform", "hierarchical", "sparse_plus_low_rank", "nested"]),
    ):
        fit = pp.factorize(M[:, :12], complexity=0.5, **options)
        order = dict.fromkeys(attempt.method for attempt in fit.attempts)
        assert [method for method in order if method in expected] == expected


@pytest.mark.parametrize("target", [{"complexity": 0.5}, {"max_error": 0.2}, {}])
def test_all_methods_are_judged_by_the_same_error(case, target):
    M, X, _ = case
    fit = pp.factorize(M, inputs=X, **target)
    A = second_moments(X, 24)
    missed = M - fit.operator.toarray()
    error = np.sqrt(np.trace(missed @ A @ missed.T) / np.trace(M @ A @ M.T))
    assert fit.error == pytest.approx(error, rel=1e-6)
    assert fit.error_of == "outputs"
    assert fit.matrix_error == pytest.approx(np.linalg.norm(missed) / np.linalg.norm(M))
    assert fit.error <= target.get("max_error", 1)
    weighted = min(attempt.error for attempt in fit.attempts if attempt.nnz <= fit.operator.nnz and attempt.nnz)
    assert fit.error <= weighted + 1e-9


def test_errors_are_those_of_the_matrix_without_inputs(case):
    fit = pp.factorize(case[0], **QUICK)
    assert (fit.error_of, fit.matrix_error) == ("matrix", None)


@pytest.mark.parametrize("complexity", [0.5, 0.3])
def test_white_inputs_change_nothing(complexity):
    random = np.random.default_rng(0)
    M = random.standard_normal((20, 16))
    whitened = np.linalg.qr(random.standard_normal((50, 16)))[0].T
    plain = pp.factorize(M, complexity=complexity)
    for inputs in (np.eye(16), 3 * whitened, random.standard_normal((16, 4000)), pp.Moments(M)):
        fit = pp.factorize(M, inputs=inputs, complexity=complexity)
        assert fit.operator == plain.operator
        assert fit.error_of == "outputs"
        assert fit.error == pytest.approx(fit.matrix_error, rel=1e-12)


@pytest.mark.parametrize("scale", [2.0**-300, 1e-3, 2.0**300])
def test_the_scale_of_inputs_does_not_matter(case, scale):
    X = case[1]
    np.testing.assert_allclose(second_moments(scale * X, 24), second_moments(X, 24), rtol=1e-9)
    given = (second_moments(pp.Moments(np.eye(24), size * X @ X.T, 1.0), 24) for size in (1.0, scale))
    np.testing.assert_allclose(*given, rtol=1e-9)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_few_samples_are_no_worse_than_none(case, count):
    M, X, unseen = case
    plain = output_error(pp.factorize(M, complexity=0.4), M, unseen)
    some = [pp.factorize(M, inputs=X[:, i : i + count], complexity=0.4) for i in (0, 100, 200)]
    assert np.mean([output_error(fit, M, unseen) for fit in some]) <= 1.001 * plain


def test_of_inputs_in_a_subspace_only_that_counts(case):
    M, X, _ = case
    X = X[:, :4] @ np.random.default_rng(1).standard_normal((4, 5000))
    fit = pp.factorize(M, inputs=X, **QUICK)
    assert output_error(fit, M, X) < 0.02
    assert fit.matrix_error > 0.2


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
def test_dtypes(case, dtype):
    M, X, _ = case
    M = M.astype(dtype)
    if M.dtype.kind == "c":
        X = X + 1j * X[::-1]
    fit = pp.factorize(M, inputs=X, **QUICK)
    assert fit.operator.dtype == dtype
    assert output_error(fit, M, X) < output_error(pp.factorize(M, **QUICK), M, X)


def test_a_real_matrix_with_complex_inputs_stays_real(case):
    M, X, _ = case
    parts = np.hstack([X[:, :150], X[:, 150:]])
    fit = pp.factorize(M, inputs=X[:, :150] + 1j * X[:, 150:], **QUICK)
    assert fit.operator.dtype == np.float64
    assert output_error(fit, M, parts) < output_error(pp.factorize(M, **QUICK), M, parts)


def test_samples_of_all_kinds_have_the_same_second_moments(case, tmp_path):
    dask = pytest.importorskip("dask.array")
    X = case[1]
    np.save(tmp_path / "rows.npy", X.T)
    np.save(tmp_path / "columns.npy", X)
    expected = second_moments(X, 24)
    for inputs in (
        sp.csc_array(X),
        X.tolist(),
        dask.from_array(X, chunks=(24, 100)),
        tmp_path / "rows.npy",
        str(tmp_path / "rows.npy"),
        pp.datasets.on_disk(tmp_path / "rows.npy"),
        np.load(tmp_path / "columns.npy", mmap_mode="r"),
    ):
        np.testing.assert_allclose(second_moments(inputs, 24), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.ones((23, 50)), "inputs must have 24 numbers per sample, one per column of M, got 23"),
        (np.zeros((24, 50)), "inputs must not be zero"),
        (sp.csr_array((24, 50)), "inputs must not be zero"),
        (np.full((24, 50), np.nan), "inputs must hold finite numbers"),
        (np.ones((24, 0)), "inputs must"),
        (np.array([["a"] * 5] * 24), "inputs must"),
        (pp.Moments(np.eye(3)[:, :2], np.eye(2), 2.0), r"inputs must have a gram of shape \(24, 24\)"),
    ],
)
def test_bad_inputs_are_refused(case, inputs, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pp.factorize(case[0], inputs=inputs)


def test_inputs_are_for_matrices():
    with pytest.raises(ValueError, match="inputs is for matrices"):
        pp.factorize(lambda rows, columns: rows[:, None] + columns, shape=(9, 9), inputs=np.eye(9), max_error=0.1)


def test_constant_inputs_leave_other_inputs_safe(case):
    M, _, unseen = case
    fit = pp.factorize(M, inputs=np.ones((24, 200)), complexity=0.4)
    assert output_error(fit, M, np.ones((24, 1))) < 0.05
    assert output_error(fit, M, unseen) < 1


def test_inputs_are_not_changed(case):
    M, X, _ = case
    copy = X.copy()
    pp.factorize(M, inputs=X, **QUICK)
    np.testing.assert_array_equal(X, copy)


def test_tradeoffs_take_inputs(case):
    M, X, unseen = case
    plain, found = pp.tradeoff(M, [0.3, 0.6]), pp.tradeoff(M, [0.3, 0.6], inputs=X)
    assert found.error_name == "relative error of outputs"
    for before, after in zip(plain.points, found.points, strict=True):
        assert output_error(after, M, unseen) < output_error(before, M, unseen)
    assert found.points[1].error < found.points[0].error


def test_the_command_line_takes_inputs(case, tmp_path: Path):
    from typer.testing import CliRunner

    from papilio.cli.app import app

    M, X, _ = case
    np.save(tmp_path / "M.npy", M)
    np.save(tmp_path / "X.npy", X.T)
    np.savetxt(tmp_path / "X.csv", X.T, delimiter=",")
    errors = []
    for inputs in ("X.npy", "X.csv"):
        given = [str(tmp_path / "M.npy"), "-o", str(tmp_path / "op.npz"), "--inputs", str(tmp_path / inputs)]
        result = CliRunner().invoke(app, ["factorize", *given, "--complexity", "0.4", "--method", "low_rank"])
        assert result.exit_code == 0, result.output
        assert "of outputs" in result.output
        errors.append(output_error(type("Fit", (), {"operator": pp.load(tmp_path / "op.npz")}), M, X))
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)
    assert errors[0] == pytest.approx(output_error(pp.factorize(M, inputs=X, **QUICK), M, X), rel=1e-6)
