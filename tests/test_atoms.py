"""What dictionary learners are made of: the kernels against plain NumPy, shares, first and bad atoms, moments."""

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.dictionary.learner import (
    COHERENT,
    RARE,
    Best,
    early_signals,
    first_atoms,
    growing_share,
    replace_bad_atoms,
)
from papilio.dictionary.signals import energies_of, moments_of_rows, residuals_of
from papilio.kernels import atom_updates as kernels

from .helpers import gaussian

N_ATOMS, N_SIGNALS, N_FEATURES = 9, 40, 6
UNUSED, EMPTY = 4, 7  # an atom that no signal uses, and a signal that uses no atom


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(rows.dtype)


def problem(dtype, seed=0):
    """Signals and unit-norm atoms, as rows, and codes."""
    codes = gaussian((N_ATOMS, N_SIGNALS), dtype, seed)
    codes *= np.random.default_rng(seed).random(codes.shape) < 0.3
    codes[UNUSED], codes[:, EMPTY] = 0, 0
    rows, atoms = (
        gaussian((N_SIGNALS, N_FEATURES), dtype, seed + 1),
        gaussian((N_ATOMS, N_FEATURES), dtype, seed + 2),
    )
    return rows, unit(atoms), sp.csc_array(codes)


def grouped(codes):
    starts = np.empty(codes.shape[0] + 1, np.int64)
    entries, owners = np.empty((2, codes.nnz), np.int64)
    kernels.group_by_atom(codes.indptr, codes.indices, starts, entries, owners)
    return starts, entries, owners


def assert_near(actual, expected, slack=200):
    """Within rounding of sums of numbers around one."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=slack * np.finfo(np.asarray(actual).dtype).eps)


def objective(atoms, gram, cross):
    """tr(D A Dᴴ) − 2 Re tr(Bᴴ D), which is ‖X − DΓ‖² − ‖X‖²."""
    D, B = atoms.T, cross.T
    return np.trace(D @ gram @ D.conj().T).real - 2 * np.trace(B.conj().T @ D).real


# -- kernels -------------------------------------------------------------------------------------------


def test_codes_are_subtracted_from_the_asked_signals_only(dtype):
    rows, atoms, codes = problem(dtype)
    expected, residuals = rows.copy(), rows.copy()
    expected[5:31] -= (codes.toarray().T @ atoms)[5:31]
    kernels.subtract_codes(residuals, atoms, codes.indptr, codes.indices, codes.data, 5, 31)
    assert_near(residuals, expected)
    np.testing.assert_array_equal(residuals[:5], rows[:5])
    np.testing.assert_array_equal(residuals[31:], rows[31:])


def test_residuals_are_the_signals_less_their_approximation_and_the_signals_stay(dtype):
    rows, atoms, codes = problem(dtype)
    before = rows.copy()
    assert_near(residuals_of(rows, atoms, codes), rows - codes.toarray().T @ atoms)
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("j", [0, UNUSED, N_ATOMS - 1])
def test_direction_is_that_of_the_residuals_without_the_atom(dtype, j):
    rows, atoms, codes = problem(dtype)
    starts, entries, owners = grouped(codes)
    own = slice(starts[j], starts[j + 1])
    result = np.full(N_FEATURES, 7, dtype)
    residuals = residuals_of(rows, atoms, codes)
    energy = kernels.direction_of(atoms[j], residuals, codes.data, entries[own], owners[own], result)
    g = codes.toarray()[j]
    E = (residuals + np.outer(g, atoms[j]))[g != 0].T
    assert_near(result, E @ g[g != 0].conj())
    assert energy == pytest.approx(np.linalg.norm(g) ** 2, rel=1e-5)


@pytest.mark.parametrize("j", [0, UNUSED, N_ATOMS - 1])
def test_an_exchanged_atom_takes_its_best_coefficients_and_the_residuals_follow(dtype, j):
    rows, atoms, codes = problem(dtype)
    before, new = codes.toarray(), unit(gaussian((1, N_FEATURES), dtype, 9))[0]
    starts, entries, owners = grouped(codes)
    own = slice(starts[j], starts[j + 1])
    residuals = residuals_of(rows, atoms, codes)
    E = residuals + np.outer(before[j], atoms[j])
    expected = before.copy()
    expected[j] = np.where(before[j] != 0, E @ new.conj(), 0)
    kernels.exchange_atom(atoms[j], new, residuals, codes.data, entries[own], owners[own], False)
    np.testing.assert_array_equal(atoms[j], new)
    assert_near(codes.toarray(), expected)
    np.testing.assert_array_equal(np.delete(codes.toarray(), j, axis=0), np.delete(before, j, axis=0))
    assert_near(residuals, rows - codes.toarray().T @ atoms)


def test_an_update_of_all_atoms_is_their_formula_in_turn_and_the_error_never_rises(dtype):
    rows, atoms, codes = problem(dtype)
    kind = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    X, D, G = rows.astype(kind), atoms.astype(kind), codes.toarray().astype(kind)
    errors = [np.linalg.norm(X - G.T @ D)]
    for j in range(N_ATOMS):
        used = G[j] != 0
        if used.any():
            E = (X - G.T @ D + np.outer(G[j], D[j]))[used].T
            direction = E @ G[j, used].conj()
            D[j] = direction / np.linalg.norm(direction)
            G[j, used] = D[j].conj() @ E
            errors.append(np.linalg.norm(X - G.T @ D))
    assert np.diff(errors).max() <= 0

    residuals, unused = residuals_of(rows, atoms, codes), atoms[UNUSED].copy()
    kernels.update_atoms(atoms, residuals, codes.data, *grouped(codes), False)
    assert_near(atoms, D, 500)
    assert_near(codes.toarray(), G, 2000)
    assert_near(residuals, rows - codes.toarray().T @ atoms, 500)
    assert np.linalg.norm(residuals) == pytest.approx(errors[-1], rel=1e-5)
    np.testing.assert_array_equal(atoms[UNUSED], unused)


def test_each_atom_that_descends_becomes_the_best_of_unit_norm_on_the_moments(dtype):
    rows, atoms, codes = problem(dtype)
    gram, cross = moments_of_rows(rows, codes)
    expected = atoms.astype(cross.dtype)
    for j in np.delete(np.arange(N_ATOMS), UNUSED):
        before = objective(expected, gram, cross)
        direction = cross[j] - sum(gram[i, j] * expected[i] for i in range(N_ATOMS) if i != j)
        expected[j] = direction / np.linalg.norm(direction)
        reached = objective(expected, gram, cross)
        assert reached <= before
        for other in unit(gaussian((50, N_FEATURES), cross.dtype, j)):
            changed = expected.copy()
            changed[j] = other
            assert objective(changed, gram, cross) >= reached
    kernels.descend_atoms(atoms, gram, cross)
    assert_near(atoms, expected, 500)


# -- moments -------------------------------------------------------------------------------------------


@pytest.fixture
def thread_number():
    yield pp.set_num_threads
    pp.set_num_threads(None)


def test_moments_do_not_depend_on_the_number_of_threads_and_repeat_bit_for_bit(dtype, thread_number):
    rows = gaussian((1500, 6), dtype)
    codes = sp.csc_array(gaussian((9, 1500), dtype, 1) * (np.random.default_rng(0).random((9, 1500)) < 0.3))
    G = codes.toarray()
    for threads in (1, 2, 3, 8):
        thread_number(threads)
        moments = moments_of_rows(rows, codes)
        for ours, again in zip(moments, moments_of_rows(rows, codes), strict=True):
            np.testing.assert_array_equal(ours, again)
        for ours, plain in zip(moments, (G @ G.conj().T, (rows.T @ G.conj().T).T), strict=True):
            assert ours.dtype in (np.float64, np.complex128)
            np.testing.assert_allclose(ours, plain, atol=2e4 * np.finfo(dtype).eps)


# -- growing shares ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_signals", "n_components", "n_nonzero_coefs", "max_iter"),
    [(1000, 10, 5, 100), (1000, 50, 3, 40), (500, 32, 5, 300), (2000, 4, 1, 1), (30, 40, 2, 20)],
)
def test_shares_grow_to_all_signals_in_the_last_quarter(n_signals, n_components, n_nonzero_coefs, max_iter):
    rows = np.arange(n_signals, dtype=float)[:, None]
    random = np.random.RandomState(0)
    shares = [growing_share(rows, n_components, n_nonzero_coefs, i, max_iter, random) for i in range(max_iter + 1)]
    sizes = np.array([len(share) for share in shares])
    assert (np.diff(sizes) >= 0).all()
    assert shares[-1] is rows
    assert all(share is rows for share in shares[-(-3 * max_iter // 4) :])
    assert all((np.diff(share[:, 0]) > 0).all() for share in shares)  # none twice
    assert (sizes * n_nonzero_coefs >= min(10 * n_components, n_signals * n_nonzero_coefs)).all()
    least = max(0.1 * n_signals, min(10 * n_components / n_nonzero_coefs, n_signals))
    assert least <= sizes[0] < least + 1


@pytest.mark.parametrize(
    ("n_signals", "n_components", "n_nonzero_coefs", "max_iter"),
    [(1000, 10, 5, 100), (1000, 50, 1, 40), (2000, 4, 4, 1), (2000, 4, 4, 0), (30, 40, 2, 20)],
)
def test_early_signals_are_a_share_and_are_coded_by_half_as_many_atoms(
    n_signals, n_components, n_nonzero_coefs, max_iter
):
    rows = np.arange(n_signals, dtype=float)[:, None]
    random = np.random.RandomState(0)
    sizes = n_components, n_nonzero_coefs
    shares, counts = zip(
        *(early_signals(rows, *sizes, i, max_iter, random) for i in range(max_iter + 1)), strict=True
    )
    expected = min(max(0.4 * n_signals, 10 * n_components / n_nonzero_coefs), n_signals)
    for i, (share, count) in enumerate(zip(shares, counts, strict=True)):
        assert count == (n_nonzero_coefs if i >= max_iter / 2 else -(-n_nonzero_coefs // 2))
        assert (np.diff(share[:, 0]) > 0).all()  # none twice
        if i >= 0.75 * max_iter:
            assert share is rows
        else:
            assert expected <= len(share) < expected + 1
    if expected < n_signals and max_iter > 4:
        assert not np.array_equal(shares[0], shares[1])


# -- bad atoms -----------------------------------------------------------------------------------------


def bad_case(dtype):
    """Six atoms in order of their axes, thirty signals, and residuals that make signal 29 − k the k-th worst."""
    rows = gaussian((30, N_FEATURES), dtype)
    residuals = np.zeros_like(rows)
    residuals[:, 2] = np.arange(30) * np.asarray(1j if np.dtype(dtype).kind == "c" else 1, dtype)
    return np.eye(N_FEATURES, dtype=dtype), np.full(N_FEATURES, 20), rows, residuals


def test_unused_and_rare_atoms_become_the_signals_that_are_represented_worst(dtype):
    atoms, uses, rows, residuals = bad_case(dtype)
    uses[[1, 5]] = 0, int(RARE * 20) - 2
    replaced = replace_bad_atoms(atoms, uses, rows, energies_of(rows, residuals))
    np.testing.assert_array_equal(replaced, [1, 5])
    assert_near(atoms[[1, 5]], unit(rows[[29, 28]]), 10)
    np.testing.assert_array_equal(np.delete(atoms, [1, 5], axis=0), np.delete(np.eye(6), [1, 5], axis=0))


@pytest.mark.parametrize("opposite", [False, True])
def test_the_less_used_of_two_nearly_equal_atoms_is_replaced(dtype, opposite):
    atoms, uses, rows, residuals = bad_case(dtype)
    atoms[3] = atoms[0] + 0.3 * atoms[3]
    atoms[3] *= (-1 if opposite else 1) / np.linalg.norm(atoms[3])
    assert abs(np.vdot(atoms[0], atoms[3])) > COHERENT
    uses[0] = 19
    np.testing.assert_array_equal(replace_bad_atoms(atoms, uses, rows, energies_of(rows, residuals)), [0])
    assert_near(atoms[0], unit(rows[29:])[0], 10)


# -- first atoms ---------------------------------------------------------------------------------------


def test_first_atoms_are_different_signals_of_unit_norm(dtype):
    rows = np.repeat(gaussian((12, N_FEATURES), dtype), 3, axis=0)
    rows[::4] = 0
    atoms = first_atoms(rows, 8, None, np.random.RandomState(0))
    assert atoms.dtype == dtype
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, rtol=1e-5)
    directions = unit(rows[rows.any(axis=1)])
    nearest = np.argmax(np.abs(atoms.conj() @ directions.T), axis=1)
    assert_near(atoms, directions[nearest], 10)
    assert len(np.unique(atoms, axis=0)) == 8


@pytest.mark.parametrize("rows", [np.ones((20, 5)), np.zeros((20, 5)), np.eye(5)[:1]])
def test_random_directions_fill_up_where_different_signals_are_too_few(rows):
    atoms = first_atoms(rows, 7, None, np.random.RandomState(0))
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, rtol=1e-12)
    assert len(np.unique(atoms, axis=0)) == 7
    assert rows.any() == bool(np.isclose(unit(rows[rows.any(axis=1)]) @ atoms.T, 1).any())


# -- progress ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tol", "ends"), [(0.0, False), (1e-3, True)])
def test_progress_keeps_the_best_and_ends_after_ten_times_without_any(tol, ends):
    progress = Best()
    for count, error in enumerate([0.5, 0.4, *[0.4] * 9, 0.3999]):
        assert not progress.has_settled(tol)
        progress.record(error, count, tol)
    assert progress.has_settled(tol) == ends  # a gain of less than tol is none, but the better one is kept
    assert (progress.error, progress.candidate) == (0.3999, 11)
    progress.record(0.6, 12, tol)
    assert progress.candidate == 11


@pytest.mark.parametrize(("falls", "status"), [(0.001, "converged"), (0.02, "max_iter")])
def test_a_limit_that_is_reached_with_little_left_to_gain_counts_as_convergence(falls, status):
    progress = Best()
    for i in range(15):
        progress.record((1 - falls) ** i, i, 1e-4)
    assert not progress.has_settled(1e-4)
    assert progress.status(False, 1e-4) == status
    assert progress.status(False, 0.0) == "max_iter"
    assert progress.status(True, 1e-4) == "stopped"
