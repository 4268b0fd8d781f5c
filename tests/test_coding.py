"""Orthogonal matching pursuit: against a plain loop and scikit-learn, at the edges, in parts and on threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp, orthogonal_mp_gram
from threadpoolctl import threadpool_info, threadpool_limits

import papilio as pp
from papilio.coding import Atoms, omp_codes
from papilio.coding import matching_pursuit as pursuit
from papilio.coding.atoms import Cost
from papilio.linalg import shifted, wide

from .helpers import ALL_DTYPES, gaussian, set_in_coding
from .twins import regular

pytestmark = pytest.mark.usefixtures("default_threads")
EITHER = pytest.mark.parametrize("dtype", [np.float32, np.complex128])  # where each would prove no more
KINDS = (*ALL_DTYPES, np.int8, bool)
OPTIONS = {
    "one": {"n_nonzero_coefs": 1},
    "eleven": {"n_nonzero_coefs": 11},
    "tol": {"tol": 6.0},
    "both": {"n_nonzero_coefs": 6, "tol": 8.0},
}
BY_RESIDUALS = {"SMALL": 0, "cost": Cost(1.0, 1.0, 10.0), "_cheapest": lambda *_: pursuit._ByAtoms}
BY_PRODUCTS = {
    **BY_RESIDUALS,
    "_cheapest": lambda atoms, *_: pursuit._ByAtoms if atoms.product is None else pursuit._ByProducts,
}
# What is made small so that little data goes every way: by the Gram matrix, or by residuals, from which atoms are
# subtracted that are looked up; or by products, whose changes are kept or not kept.
WAYS = {
    "whole": {},
    "whole, a signal at a time": {"CHUNK": 1},
    "whole, in chunks": {"CHUNK": 700},
    "residuals": BY_RESIDUALS,
    "residuals, atoms of any norm": {**BY_RESIDUALS, "_have_squares": lambda _: False},
    "residuals, by products": {**BY_PRODUCTS, "_ROOM": 4},
    "residuals, by products, room for some": {**BY_PRODUCTS, "_CHANGES_BYTES": 48 * 15 * 8 * 3, "_ROOM": 4},
    "residuals, by products, room for none": {**BY_PRODUCTS, "_CHANGES_BYTES": 0},
}


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    set_in_coding(monkeypatch, WAYS[request.param])
    return request.param


def eps(dtype):
    return float(np.finfo(dtype).eps)


def unit(D):
    norms = np.linalg.norm(D, axis=0)
    return D / np.where(norms > 0, norms, 1).astype(D.real.dtype)


def fast(n, dtype):
    """An orthonormal fast transform."""
    return (pp.transforms.dft(n) if np.dtype(dtype).kind == "c" else pp.transforms.dct(n)).astype(dtype)


@cache
def chain(dtype):
    """A SparseProduct of 32 by 48 with atoms of many norms."""
    left, right = (np.linalg.qr(gaussian((size, size), dtype))[0] for size in (8, 4))
    last = regular(32, 48, 8) * np.linspace(0.1, 3, 48) * gaussian((32, 48), dtype)
    factors = [np.kron(left, np.eye(4)), np.kron(np.eye(8), right), last]
    return pp.SparseProduct([factor.astype(dtype) for factor in factors], scale=-0.75)


def data(dtype=np.float64, n_signals=15, shape=(32, 48)):
    return gaussian(shape, dtype, 1), gaussian((shape[0], n_signals), dtype, 2)


def double(array):
    return array.astype(wide(array.dtype))


def plain_omp(D, X, n_nonzero_coefs=None, tol=-1.0):
    """The definition, a signal and an atom at a time."""
    D, X = double(D), double(X)
    adjoint, codes = unit(D).conj().T, np.zeros((D.shape[1], X.shape[1]), D.dtype)
    for x, code in zip(X.T, codes.T, strict=True):
        chosen, values, residual = [], [], x
        while len(chosen) < (n_nonzero_coefs or D.shape[0]) and np.linalg.norm(residual) ** 2 > tol:
            chosen.append(np.argmax(np.abs(adjoint @ residual)))
            values = np.linalg.lstsq(D[:, chosen], x)[0]
            residual = x - D[:, chosen] @ values
        code[chosen] = values
    return codes


def assert_close(codes, expected, dtype=np.float64, rounding=1e5):
    """The same atoms, and values that differ by rounding."""
    actual = codes.toarray() if sp.issparse(codes) else codes
    np.testing.assert_array_equal(actual != 0, expected != 0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=rounding * eps(dtype) * np.abs(expected).max())


def assert_identical(codes, expected):
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(codes, name), getattr(expected, name))


def counts(codes):
    return np.diff(codes.indptr)


def squared_residuals(D, X, codes):
    return np.linalg.norm(double(X) - double(D) @ double(codes.toarray()), axis=0) ** 2


# -- what it computes ----------------------------------------------------------------------------------


@cache
def plain_codes(kind, dtype, name):
    D, X = data(dtype)
    return plain_omp(chain(dtype).toarray() if kind == "product" else D, X, **OPTIONS[name])


@pytest.mark.parametrize("kind", ["dense", "product"])
def test_codes_are_those_of_a_plain_loop_whatever_the_way(kind, dtype, way):
    D, X = data(dtype)
    op = chain(dtype)
    # A new operator, as what one way has made stays with it.
    atoms = Atoms(pp.SparseProduct(op.factors, op.scale) if kind == "product" else D)
    for name, options in OPTIONS.items():
        codes = omp_codes(atoms, X, **options)
        assert_close(codes, plain_codes(kind, dtype, name), dtype)
        assert codes.dtype == dtype
        if kind == "product" or not way.startswith("residuals"):
            assert (atoms.gram is None) == way.startswith("residuals")


@pytest.mark.parametrize("solver", ["orthogonal_mp", "orthogonal_mp_gram"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_codes_are_those_of_scikit_learn(solver, options):
    D, X = data(n_signals=100)
    D = unit(D)
    X[:, 0] *= 0.1
    tol, limit = options.get("tol"), options.get("n_nonzero_coefs")

    def learn(**stop):
        if solver == "orthogonal_mp":
            return orthogonal_mp(D, X, **stop)
        return orthogonal_mp_gram(D.T @ D, D.T @ X, norms_squared=np.sum(X**2, axis=0), **stop)

    expected = learn(n_nonzero_coefs=limit) if tol is None else learn(tol=tol)
    if limit and tol:  # which scikit-learn does not combine
        within = np.count_nonzero(expected, axis=0) <= limit
        assert 0 < within.sum() < 100
        expected = np.where(within, expected, learn(n_nonzero_coefs=limit))
    within = np.ones(100, bool)
    if tol:  # scikit-learn chooses an atom for every signal
        within[0] = False
        assert counts(pp.omp(D, X, **options))[0] == 0
    assert_close(pp.omp(D, X, **options)[:, within], expected[:, within], rounding=1e-8 / eps(float))


def test_sparse_codes_are_recovered_exactly_in_an_orthonormal_dictionary(dtype):
    op = fast(64, dtype).H
    rng = np.random.default_rng(0)
    codes = np.zeros((64, 40), dtype)
    for column in codes.T:
        values = gaussian((5,), dtype, rng.integers(1000))
        column[rng.permutation(64)[:5]] = values + np.sign(values)
    for D in (op, op.toarray()):
        X = D @ codes
        for stop in ({"n_nonzero_coefs": 5}, {"tol": 0.0}, {"n_nonzero_coefs": 64}):
            found = pp.omp(D, X, **stop)
            assert (counts(found) == 5).all()
            assert_close(found, codes, dtype, 20)


@pytest.mark.parametrize("kind", ["dense", "product"])
def test_norms_and_phases_of_atoms_go_into_the_codes_alone(kind, dtype):
    D, X = data(dtype)
    op = chain(dtype) if kind == "product" else D
    decades = 25 if eps(dtype) > 1e-10 else 200
    scales = 10.0 ** np.linspace(-decades, decades, 48)
    scales = (scales * np.sign(gaussian((48,), dtype))).astype(dtype)
    scaled = D * scales if kind == "dense" else op @ pp.SparseProduct([np.diag(scales)])
    codes = pp.omp(scaled, X, 6)
    assert codes.dtype == dtype
    assert_close(codes.toarray() * scales[:, None], pp.omp(op, X, 6).toarray(), dtype, 1e3)


@pytest.mark.parametrize("tol", [None, 0.0, 5.0])
@pytest.mark.parametrize("sign", [-1, 1])
def test_norms_of_signals_go_into_the_codes_alone(sign, tol, dtype):
    D, X = data(dtype)
    decades = (30 if eps(dtype) > 1e-10 else 300) // (2 if tol else 1)  # so that the tolerance is a number, too
    size = np.dtype(dtype).type(10.0 ** (sign * decades))
    stop = {"n_nonzero_coefs": 6, "tol": tol and tol * float(abs(size)) ** 2}
    expected = pp.omp(D, X, 6, tol=tol).toarray()
    assert_close(pp.omp(D, X * size, **stop).toarray() / size, expected, dtype, 1e3)
    mixed = X * np.where(np.arange(X.shape[1]) % 2, size, 1).astype(dtype)  # beside signals of usual size
    assert_close(pp.omp(D, mixed, **stop).toarray()[:, 1::2] / size, expected[:, 1::2], dtype, 1e3)
    assert_close(pp.omp(D * size, X * size, **stop), expected, dtype, 1e3)  # atoms as large as they


# -- where it stops ------------------------------------------------------------------------------------

DEPENDENT = {
    "independent": lambda g: g(20, 12),
    "more atoms than features": lambda g: g(12, 30),
    "low rank": lambda g: g(20, 7) @ g(7, 30),
    "rank one": lambda g: g(10, 1) @ g(1, 9),
    "duplicates": lambda g: g(20, 8)[:, np.arange(30) % 8],
    "opposites": lambda g: np.hstack([g(20, 8), -g(20, 8)]),
    "zero atoms": lambda g: g(20, 30) * (np.arange(30) % 3 > 0),
    "one atom": lambda g: g(20, 1),
    "one feature": lambda g: g(1, 5),
    "features that are all zero": lambda g: g(20, 30) * (np.arange(20) < 9)[:, None],
    "nothing but zeros": lambda g: np.zeros_like(g(5, 6)),
}


@EITHER
@pytest.mark.parametrize("name", DEPENDENT)
def test_pursuit_ends_at_the_least_squares_fit_with_no_more_atoms_than_the_rank(name, dtype, way):
    D = DEPENDENT[name](lambda *shape: gaussian(shape, dtype)).astype(dtype)
    rank = np.linalg.matrix_rank(double(D), tol=1e-4)
    inside, outside = D @ gaussian((D.shape[1], 9), dtype), gaussian((len(D), 9), dtype, 5)
    op = pp.SparseProduct([D]) if way.startswith("residuals") else D
    for X in (inside, outside):
        for stop in ({"n_nonzero_coefs": 1000}, {"tol": 0.0}, {"n_nonzero_coefs": rank + 1, "tol": 0.0}):
            codes = pp.omp(op, X, **stop)
            assert np.isfinite(codes.data).all()
            assert counts(codes).max() <= rank
            assert np.linalg.norm(D, axis=0)[codes.indices].all()
            residuals = double(X) - double(D) @ double(codes.toarray())
            correlations = np.abs(unit(double(D)).conj().T @ residuals)
            energy = np.linalg.norm(double(X), axis=0)
            slack = np.sqrt(eps(dtype)) if "tol" in stop else 100 * eps(dtype)  # of the squared residual, or not
            assert (correlations <= slack * energy).all()


@EITHER
@pytest.mark.parametrize("kind", ["dense", "product"])
def test_zero_signals_have_empty_codes(kind, dtype, way):
    op = chain(dtype) if kind == "product" else data(dtype)[0]
    X = data(dtype)[1]
    X[:, [0, 3, 14]] = 0
    for stop in ({"n_nonzero_coefs": 3}, {"tol": 0.0}, {"n_nonzero_coefs": 3, "tol": 1e-3}):
        codes = pp.omp(op, X, **stop)
        assert not counts(codes)[[0, 3, 14]].any()
        assert np.delete(counts(codes), [0, 3, 14]).all()
        nothing = pp.omp(op, np.zeros_like(X), **stop)
        assert nothing.nnz == 0
        assert (nothing.shape, nothing.dtype) == (codes.shape, codes.dtype)


def test_of_equal_atoms_one_is_used():
    D, X = data()
    codes = pp.omp(np.hstack([D, 3 * D, -D]), X, 5).toarray().reshape(3, 48, -1)
    assert (np.count_nonzero(codes, axis=0) <= 1).all()
    assert_close(codes[0] + 3 * codes[1] - codes[2], pp.omp(D, X, 5).toarray())


def test_of_atoms_that_are_nearly_dependent_no_more_are_used_than_tell_apart(dtype, way):
    D, X = data(dtype, shape=(32, 10))
    near = D + (100 * eps(dtype) * gaussian(D.shape, dtype, 3)).astype(dtype)
    codes = pp.omp(np.hstack([D, near]), X, 20)
    assert (counts(codes) == 10).all()
    np.testing.assert_allclose(codes.toarray()[:10] + codes.toarray()[10:], pp.omp(D, X, 10).toarray(), atol=1e-3)


def fits_by_gram_schmidt(D, X, limit):
    """The definition by orthonormal bases: the fits of the signals, and how many atoms each has."""
    norms = np.linalg.norm(D, axis=0)
    atoms = (D[:, norms > 0] / norms[norms > 0]).T
    fits, used = np.zeros_like(X), np.zeros(X.shape[1], int)
    for s, x in enumerate(X.T):
        basis, residual = np.zeros((0, len(x))), x.copy()
        while len(basis) < limit and (correlations := np.abs(atoms @ residual)).max() > 1e-12 * np.linalg.norm(x):
            new = atoms[correlations.argmax()].copy()
            for _ in range(2):
                new -= basis.T @ (basis @ new)
            basis = np.vstack([basis, new / np.linalg.norm(new)])
            residual -= basis[-1] * (basis[-1] @ residual)
        fits[:, s], used[s] = x - residual, len(basis)
    return fits, used


@pytest.mark.parametrize("limit", [7, 60])
@pytest.mark.parametrize("choice", ["dense", "_ByGram", "_ByAtoms", "_ByProducts"])
def test_large_products_with_zero_equal_and_tiny_atoms_give_the_fits_of_gram_schmidt(choice, limit, monkeypatch):
    random = np.random.default_rng(7)
    places = random.integers(560, size=700)  # with duplicates
    sizes = 10.0 ** random.uniform(-6, 6, 700)
    sizes[::9], sizes[5::50] = 0, 1e-140
    selection = sp.csr_array((sizes, (places, np.arange(700))), shape=(560, 700))
    op = pp.SparseProduct([random.standard_normal((96, 40)), random.standard_normal((40, 560)), selection])
    D, X = op.toarray(), random.standard_normal((96, 9))
    X[:, [2, 5]] = 0
    expected, used = fits_by_gram_schmidt(D, X, limit)
    assert used.max() == min(limit, 40)  # the rank
    if choice != "dense":
        set_in_coding(monkeypatch, {"_cheapest": lambda *_: getattr(pursuit, choice)})
    codes = pp.omp(D if choice == "dense" else op, X, limit)
    np.testing.assert_array_equal(counts(codes), used)
    assert sizes[codes.indices].all()
    np.testing.assert_allclose(D @ codes.toarray(), expected, atol=1e-9)


def test_a_residual_that_equals_the_tolerance_is_small_enough(dtype):
    D, ones = np.eye(4, dtype=dtype), np.ones(4, dtype)
    assert [pp.omp(D, ones, tol=tol).nnz for tol in (4.0, 3.0, 2.0, 1.0)] == [0, 1, 2, 3]
    assert [pp.omp(D, ones, tol=tol).nnz for tol in (3.9, 2.9, 1.9, 0.9)] == [1, 2, 3, 4]


def test_the_tolerance_is_met_with_the_fewest_atoms_or_the_limit_is_reached(dtype):
    D, X = data(dtype)
    energies = np.linalg.norm(double(X), axis=0) ** 2
    for tol, limit in product((0.0, 1e-3, 10.0, 30.0), (4, 1000)):
        codes = pp.omp(D, X, limit, tol=tol)
        used, residuals = counts(codes), squared_residuals(D, X, codes)
        assert ((residuals <= tol + 20 * eps(dtype) * energies) | (used == limit)).all()
        assert ((used > 0) | (energies <= tol)).all()
        for count in np.unique(used[used > 0]):  # an atom less is not enough
            fewer = pp.omp(D, X[:, used == count], count - 1) if count > 1 else sp.csc_array((48, sum(used == 1)))
            assert (squared_residuals(D, X[:, used == count], fewer) > tol).all()


@pytest.mark.parametrize("factor", [1.001, 1e30])
def test_a_tolerance_above_the_energy_leaves_the_code_empty(factor, dtype):
    D, X = data(dtype)
    energies = np.linalg.norm(double(X), axis=0) ** 2
    assert pp.omp(D, X, tol=factor * energies.max()).nnz == 0
    assert (counts(pp.omp(D, X, tol=1.001 * np.median(energies))) > 0).sum() == 7


def test_a_tolerance_alone_sets_no_limit():
    D, X = data()
    assert counts(pp.omp(D, X, tol=1e-6)).min() > 25
    assert squared_residuals(D, X, pp.omp(D, X, tol=1e-6)).max() <= 1e-6


def whole_numbers(rows, columns):
    return st.lists(st.integers(-2, 2), min_size=rows * columns, max_size=rows * columns).map(
        lambda numbers: np.reshape(numbers, (rows, columns))
    )


@st.composite
def small_problems(draw):
    """Small integers: with ties, zero atoms, equal atoms and dependent ones."""
    features, atoms, count = (draw(st.integers(1, high)) for high in (6, 9, 4))
    dtype = draw(st.sampled_from(ALL_DTYPES))
    D, X = draw(whole_numbers(features, atoms)).astype(dtype), draw(whole_numbers(features, count)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        D, X = D + 1j * draw(whole_numbers(features, atoms)), X + 1j * draw(whole_numbers(features, count))
    return D.astype(dtype), X.astype(dtype)


@settings(deadline=None, max_examples=80)
@given(problem=small_problems(), limit=st.integers(1, 8), tol=st.sampled_from([None, 0.0, 0.5, 3.0]))
def test_any_small_problem_ends_with_a_valid_code(problem, limit, tol):
    D, X = problem
    codes = pp.omp(D, X, limit, tol=tol)
    rounding, atoms, norms = 100 * eps(D.dtype), unit(double(D)), np.linalg.norm(double(X), axis=0)
    assert np.isfinite(codes.data).all()
    assert counts(codes).max() <= min(limit, np.linalg.matrix_rank(double(D)))
    assert np.abs(D).sum(axis=0)[codes.indices].all()
    residuals = double(X) - double(D) @ double(codes.toarray())
    for i, residual in enumerate(residuals.T):
        chosen = codes.indices[codes.indptr[i] : codes.indptr[i + 1]]
        correlations = np.abs(atoms.conj().T @ residual) / max(norms[i], 1)
        condition = np.linalg.cond(atoms[:, chosen]) if chosen.size else 1
        assert (correlations[chosen] <= rounding * condition**2).all()
        done = np.linalg.norm(residual) ** 2 <= (tol or 0) + rounding * norms[i] ** 2
        # Or the best atom left is nearly dependent on those that are chosen.
        assert done or len(chosen) == limit or (correlations <= np.sqrt(rounding)).all()
    if limit > 1:
        before = squared_residuals(D, X, pp.omp(D, X, limit - 1, tol=tol))
        assert (squared_residuals(D, X, codes) <= before + rounding * norms**2).all()


# -- in parts, on threads ------------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize("kind", ["dense", "product"])
def test_codes_do_not_depend_on_the_number_of_threads(kind, dtype, way, monkeypatch):
    set_in_coding(monkeypatch, {"CHUNK": 1 if way == "whole, a signal at a time" else 700})
    op = chain(dtype) if kind == "product" else data(dtype)[0]
    X = data(dtype, n_signals=150 if way.startswith("whole") else 20)[1]
    for stop in ({"n_nonzero_coefs": 4}, {"n_nonzero_coefs": 8, "tol": 15.0}):
        pp.set_num_threads(1)
        alone = pp.omp(op, X, **stop)
        for threads in (2, 3):
            pp.set_num_threads(threads)
            assert_identical(pp.omp(op, X, **stop), alone)


@pytest.mark.parametrize("decades", [0, 3, 20])
def test_pursuit_by_residuals_takes_atoms_of_any_norm_and_zeros(decades, dtype, monkeypatch):
    set_in_coding(monkeypatch, BY_RESIDUALS)
    op, X = chain(dtype), data(dtype)[1]
    scales = (10.0 ** np.linspace(-decades, decades, 48) * (np.arange(48) % 5 > 0)).astype(dtype)
    codes = pp.omp(op @ pp.SparseProduct([np.diag(scales)]), X, 6)
    kept = np.flatnonzero(scales)
    expected = np.zeros((48, X.shape[1]), dtype)
    expected[kept] = plain_omp(op.toarray()[:, kept], X, 6)
    assert_close(codes.toarray() * scales[:, None], expected, dtype, 1e4)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_many_python_threads_get_their_own_codes_and_blas_its_threads_back(monkeypatch):
    set_in_coding(monkeypatch, {"CHUNK": 500})
    pp.set_num_threads(2)
    problems = [data(dtype, n_signals=20 + i) for i, dtype in enumerate(ALL_DTYPES * 2)]
    expected = [plain_omp(D, X, 5) for D, X in problems]
    barrier = threading.Barrier(len(problems))

    def code(problem):
        barrier.wait()
        return [pp.omp(*problem, 5) for _ in range(5)]

    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        with ThreadPoolExecutor(len(problems)) as pool:
            for (D, _), found, codes in zip(problems, pool.map(code, problems), expected, strict=True):
                for each in found:
                    assert_close(each, codes, D.dtype)
        assert blas_threads() == before


# -- what goes in and comes out ------------------------------------------------------------------------


@EITHER
@pytest.mark.parametrize("n_signals", [0, 1, 15])
def test_codes_are_a_csc_array_in_canonical_form(n_signals, dtype, way):
    D, X = data(dtype, n_signals)
    codes = pp.omp(D, X, 7)
    assert isinstance(codes, sp.csc_array)
    assert (codes.shape, codes.dtype) == ((48, n_signals), dtype)
    assert codes.indices.dtype == codes.indptr.dtype == np.int32
    codes.check_format(full_check=True)
    assert (counts(codes) == 7).all()
    assert (np.diff(codes.indices.reshape(-1, 7), axis=1) > 0).all()
    assert codes.has_canonical_format
    empty = pp.omp(chain(dtype), X[:, :0], tol=1.0)
    assert (type(empty), empty.shape, empty.dtype, empty.nnz) == (sp.csc_array, (48, 0), dtype, 0)


@pytest.mark.parametrize("right", KINDS)
@pytest.mark.parametrize("left", KINDS)
def test_codes_have_the_common_dtype_and_integers_become_doubles(left, right):
    D, X = data()
    D, X = (
        (5 * array > 2 if kind is bool else np.abs(5 * array).astype(kind))
        for array, kind in ((D, left), (X, right))
    )
    working = [np.dtype(kind if kind in ALL_DTYPES else np.float64) for kind in (left, right)]
    common = np.result_type(*working)
    codes = pp.omp(D, X, 3)
    assert codes.dtype == common
    assert_identical(codes, pp.omp(D.astype(common), X.astype(common), 3))
    assert pp.omp(pp.SparseProduct([D]), X, 3).dtype == common


@pytest.mark.parametrize(
    "wrap", [lambda x: x.tolist(), sp.csr_array, sp.coo_array, lambda x: pp.SparseProduct([x])]
)
def test_lists_and_sparse_matrices_are_taken(wrap):
    D, X = data()
    for left, right in product((D, wrap(D)), (X, wrap(X))):
        assert_close(pp.omp(left, right, 3), pp.omp(D, X, 3).toarray())


def test_a_vector_is_one_signal(dtype):
    D, X = data(dtype)
    for op in (D, chain(dtype)):
        codes = pp.omp(op, X[:, 4], 3)
        assert codes.shape == (48, 1)
        assert_identical(codes, pp.omp(op, X[:, 4:5], 3))


@EITHER
def test_inputs_may_be_read_only_and_stay_as_they_are(dtype, way):
    D, X = data(dtype)
    before = D.copy(), X.copy()
    expected = pp.omp(D, X, 3)
    np.testing.assert_array_equal(D, before[0])
    np.testing.assert_array_equal(X, before[1])
    D.flags.writeable = X.flags.writeable = False
    codes = pp.omp(D, X, 3)
    assert_identical(codes, expected)
    codes.data[:] = 0  # it is no view of what a next call uses
    assert_identical(pp.omp(D, X, 3), expected)


D, X = data(n_signals=3)
BAD = {"nan": np.nan, "inf": np.inf, "minus inf": -np.inf, "complex nan": complex(0, np.nan)}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
@pytest.mark.parametrize("named", ["dictionary", "signals"])
def test_nan_and_infinity_are_refused_by_name(named, value):
    arrays = {"dictionary": D.astype(complex), "signals": X.astype(complex)}
    arrays[named][5, 1] = value
    with pytest.raises(ValueError, match=rf"^{named} must hold finite numbers only"):
        pp.omp(**arrays)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((D, X[:-1]), ValueError, r"^signals must have 32 rows, .*got 31"),
        ((D, X.T), ValueError, r"^signals must have 32 rows"),
        ((D, X[:5, 0]), ValueError, r"^signals must have 32 rows, .*got 5"),
        ((D, X[:5, :0]), ValueError, r"^signals must have 32 rows, .*got 5"),
        ((chain(np.float64), X[:-1]), ValueError, r"^signals must have 32 rows, .*got 31"),
        ((D, X[None]), ValueError, r"^signals must be a matrix .*of 3"),
        ((D, 1.0), ValueError, r"^signals must be a matrix"),
        ((D, X[:0]), ValueError, r"^signals must not be empty"),
        ((D, []), ValueError, r"^signals must not be empty"),
        ((D, [[1, 2], [3]]), ValueError, r"^signals must be a rectangular array"),
        ((D, X.astype(str)), TypeError, r"^signals must hold real or complex numbers"),
        ((D[None], X), ValueError, r"^dictionary must be a matrix .*of 3"),
        ((D[:, 0], X), ValueError, r"^dictionary must be a matrix .*of 1"),
        ((D[:, :0], X), ValueError, r"^dictionary must not be empty"),
        ((D[:0], X[:0, :0]), ValueError, r"^(dictionary|signals) must not be empty"),
        ((None, X), TypeError, r"^dictionary must hold real or complex numbers"),
        ((D, X, 0), ValueError, r"^n_nonzero_coefs must be an integer of at least 1, got 0"),
        ((D, X, -3), ValueError, r"^n_nonzero_coefs must be an integer of at least 1, got -3"),
        ((D, X, 1.5), TypeError, r"^n_nonzero_coefs must be an integer of at least 1, got 1.5"),
        ((D, X, 2.0), TypeError, r"^n_nonzero_coefs must be an integer"),
        ((D, X, True), TypeError, r"^n_nonzero_coefs must be an integer of at least 1, got True"),
        ((D, X, "3"), TypeError, r"^n_nonzero_coefs must be an integer"),
        ((D, X[:, :0], 0), ValueError, r"^n_nonzero_coefs must be an integer"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        pp.omp(*arguments)


@pytest.mark.parametrize(
    ("tol", "error"),
    [
        (-1e-9, ValueError),
        (np.nan, ValueError),
        (np.inf, ValueError),
        ("1", TypeError),
        (1j, TypeError),
        ([1.0], TypeError),
    ],
)
def test_bad_tolerances_are_named(tol, error):
    for signals in (X, X[:, :0]):
        with pytest.raises(error, match=r"^tol must be a finite real number of at least 0, got"):
            pp.omp(D, signals, tol=tol)


# -- kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "k"), [(np.float32, 60), (np.float64, 400), (np.complex128, 400)])
def test_codes_follow_the_units_of_signals_and_atoms(dtype, k):
    dictionary, signals = gaussian((8, 12), dtype), gaussian((8, 30), dtype, 1)
    one = pp.omp(dictionary, signals, 3).toarray()
    for power, other_power in ((k, 0), (-k, 0), (0, k), (0, -k), (k, k), (-k, -k)):
        other = pp.omp(shifted(dictionary, other_power), shifted(signals, power), 3).toarray()
        np.testing.assert_allclose(shifted(other, other_power - power), one, rtol=1e-4 if k == 60 else 1e-9)
