"""factorize from a function that returns blocks: exact to the target, estimates that say so, clear errors."""

import numpy as np
import pytest

import papilio as pp
from papilio.runtime.session import Session
from papilio.search.implicit import Entries
from papilio.search.nested.cluster_trees import clusters_in_order, clusters_of_points
from papilio.search.nested.rank_butterfly import Precision
from papilio.search.nested.skeletons import Levels, Side, far_lines, nested_from_entries

from .helpers import gaussian, true_error


def of(matrix):
    return lambda rows, columns: matrix[np.ix_(rows, columns)]


def whole(entries, shape):
    return entries(*map(np.arange, shape))


def fourier(m, n):
    times = np.sort(np.random.default_rng(0).random(m))
    return lambda rows, columns: np.exp(-2j * np.pi * times[rows][:, None] * columns)


def inverse_distance(m, n):
    return lambda rows, columns: 1 / (np.abs(rows[:, None] / m - columns / n) + 0.02)


def smooth(m, n):
    return lambda rows, columns: 1 / (2 + rows[:, None] / m - columns / n)


KERNELS = {"fourier": fourier, "inverse distance": inverse_distance, "smooth": smooth}


@pytest.mark.parametrize("shape", [(700, 700), (601, 433), (300, 900)])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("max_error", [1e-3, 1e-7])
def test_the_error_is_met(kernel, shape, max_error):
    entries = KERNELS[kernel](*shape)
    M = whole(entries, shape)
    fit = pp.factorize(entries, shape=shape, max_error=max_error)
    assert fit.status is pp.results.Status.CONVERGED
    assert fit.error <= max_error
    assert fit.error_is_estimate
    assert fit.operator.shape == shape
    assert fit.operator.dtype == M.dtype
    assert true_error(M, fit.operator) <= 2 * max_error
    assert fit.operator.relative_complexity < 0.7


def test_oscillating_kernels_are_butterflies_and_others_nested():
    assert pp.factorize(fourier(2000, 2000), shape=2000, max_error=1e-4).method == "butterfly"
    assert pp.factorize(inverse_distance(1000, 1000), shape=1000, max_error=1e-4).method == "nested"


@pytest.mark.parametrize("method", ["butterfly", "nested"])
def test_one_method_alone(method):
    fit = pp.factorize(smooth(400, 300), shape=(400, 300), max_error=1e-6, method=method)
    assert fit.method == method
    assert {attempt.method for attempt in fit.attempts} == {"low_rank", method}
    assert true_error(whole(smooth(400, 300), (400, 300)), fit.operator) <= 2e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_dtypes(dtype):
    M = whole(fourier(500, 400), (500, 400))
    M = (M if np.dtype(dtype).kind == "c" else M.real).astype(dtype)
    fit = pp.factorize(of(M), shape=M.shape)
    limit = 1e-4 if np.dtype(dtype).char in "fF" else 1e-6
    assert fit.operator.dtype == dtype
    assert all(factor.dtype == dtype for factor in fit.operator.factors)
    assert fit.error <= limit
    assert true_error(M, fit.operator) <= 2 * limit


@pytest.mark.slow
@pytest.mark.parametrize("complexity", [0.1, 0.3])
@pytest.mark.parametrize("kernel", ["fourier", "inverse distance"])
def test_complexity_is_kept(kernel, complexity):
    shape = (600, 600)
    entries = KERNELS[kernel](*shape)
    fit = pp.factorize(entries, shape=shape, complexity=complexity)
    assert fit.operator.relative_complexity <= complexity
    assert fit.status is pp.results.Status.CONVERGED
    assert fit.error < {0.1: 0.5, 0.3: 1e-3}[complexity]
    assert fit.error == pytest.approx(true_error(whole(entries, shape), fit.operator), rel=0.5)


def test_coordinates_undo_a_shuffle():
    rows, columns = np.random.default_rng(0).permuted([np.arange(1000)] * 2, axis=1)
    entries = inverse_distance(1000, 1000)

    def shuffled(some, others):
        return entries(rows[some], columns[others])

    fit = pp.factorize(shuffled, shape=1000, max_error=1e-5, coordinates=(rows, columns))
    assert fit.status is pp.results.Status.CONVERGED
    assert fit.operator.relative_complexity < 0.1
    assert true_error(whole(shuffled, (1000, 1000)), fit.operator) <= 2e-5


@pytest.mark.slow
def test_points_in_the_plane():
    points = np.random.default_rng(0).random((1500, 2))

    def entries(rows, columns):
        return 1 / np.sqrt(((points[rows][:, None] - points[columns]) ** 2).sum(axis=-1) + 0.01)

    fit = pp.factorize(entries, shape=1500, max_error=1e-3, coordinates=(points, points))
    assert fit.operator.relative_complexity < 0.3
    assert true_error(whole(entries, (1500, 1500)), fit.operator) <= 2e-3


def test_results_repeat_with_random_state():
    entries = fourier(500, 500)
    first, again, other = (pp.factorize(entries, shape=500, random_state=state) for state in (1, 1, 2))
    assert first.operator == again.operator
    assert first.error == again.error
    assert first.error != other.error  # It is estimated on other rows.


def test_few_entries_are_touched():
    counts = {}
    for n in (1024, 4096):
        kernel, seen = fourier(n, n), []

        def entries(rows, columns, kernel=kernel, seen=seen):
            seen.append(rows.size * columns.size)
            return kernel(rows, columns)

        pp.factorize(entries, shape=n, max_error=1e-3)
        counts[n] = sum(seen)
        assert max(seen) <= 1 << 20
    assert counts[4096] <= 4 * 1.3 * counts[1024]


# -- what has no structure -----------------------------------------------------------------------------


def test_a_random_matrix_is_itself():
    M = gaussian((200, 150))
    fit = pp.factorize(of(M), shape=M.shape)
    assert fit.status is pp.results.Status.NO_STRUCTURE
    assert fit.method == "itself"
    assert not fit.error_is_estimate
    np.testing.assert_array_equal(fit.operator.toarray(), M)


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (2, 3), (7, 5)])
@pytest.mark.parametrize("method", ["auto", "butterfly", "nested"])
def test_tiny_matrices(shape, method):
    M = gaussian(shape)
    fit = pp.factorize(of(M), shape=shape, method=method)
    assert fit.operator.shape == shape
    assert true_error(M, fit.operator) <= 1e-6
    assert not fit.error_is_estimate


@pytest.mark.parametrize("unit", [1e-250, 1e250])
def test_units_do_not_matter(unit):
    M = whole(smooth(300, 300), (300, 300))
    fit = pp.factorize(of(M * unit), shape=300)
    assert fit.error <= 1e-6
    assert (fit.operator @ np.full(300, 1.0)) / unit == pytest.approx(M.sum(axis=1), rel=1e-5)


# -- stopping ------------------------------------------------------------------------------------------


def test_a_time_budget_of_zero_gives_a_coarse_product():
    fit = pp.factorize(fourier(500, 400), shape=(500, 400), time_budget=0)
    assert fit.status is pp.results.Status.STOPPED
    assert fit.method == "low_rank"
    assert fit.operator.shape == (500, 400)
    assert fit.error <= 1  # Zeros have an error of 1.
    assert fit.error_is_estimate


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["fourier", "inverse distance"])
@pytest.mark.parametrize("with_points", [False, True])
def test_a_short_budget_gives_a_product_for_a_million_lines(kernel, with_points):
    n, points = 10**6, np.random.default_rng(0).random((10**6, 2))
    entries = KERNELS[kernel](n, n)
    fit = pp.factorize(entries, shape=n, time_budget=1e-3, coordinates=(points, points) if with_points else None)
    assert fit.status is pp.results.Status.STOPPED
    assert fit.error <= 1


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("largest", [1.0, 1e300])
def test_a_coarse_product_is_no_worse_than_zeros_where_rows_are_of_different_sizes(seed, largest):
    n = 2000
    rows, columns = (np.sort(np.random.default_rng(seed + k).random(n)) for k in (0, 1))

    def narrow(i, j):
        return largest * np.exp(-300 * (rows[i][:, None] - columns[j]) ** 2)

    def stepped(i, j):
        return np.where(i[:, None] > n // 2, largest, 0.1) / (1 + np.abs(i[:, None] - j))

    for entries in (narrow, stepped):
        fit = pp.factorize(entries, shape=n, time_budget=1e-3, random_state=seed)
        whole = entries(np.arange(n), np.arange(n)) / largest
        assert true_error(whole, fit.operator * (1 / largest)) <= 1.0001


def test_a_product_beyond_2_to_the_1000_of_a_matrix_that_fits_nowhere():
    def entries(rows, columns):
        return np.full((rows.size, columns.size), 1e302)

    fit = pp.factorize(entries, shape=10**5, max_error=1e-3)
    assert fit.error < 1e-3


def test_a_callback_stops_it():
    phases = []

    def callback(step):
        phases.append(step.phase)
        return len(phases) >= 3

    fit = pp.factorize(fourier(2000, 2000), shape=2000, callback=callback)
    assert fit.status is pp.results.Status.STOPPED
    assert len(phases) == 3
    assert fit.method == "low_rank"
    assert fit.error <= 1


# -- errors --------------------------------------------------------------------------------------------


def good(rows, columns):
    return np.ones((rows.size, columns.size))


def bad_input(entries=good, **options):
    return lambda: pp.factorize(entries, **{"shape": (300, 200), **options})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (bad_input(shape=None), ValueError, "shape must be given"),
        (bad_input(shape=(0, 5)), ValueError, r"shape\[0\] must be an integer of at least 1"),
        (bad_input(shape=(3, 4, 5)), ValueError, "shape must be"),
        (bad_input(shape="ab"), TypeError, "shape"),
        (bad_input(method="hierarchical"), ValueError, "method must be one of 'auto', 'butterfly', 'nested'"),
        (bad_input(n_factors=3), ValueError, "n_factors is for matrices"),
        (bad_input(speedup=3.0), ValueError, "speedup is for matrices"),
        (bad_input(block=4), ValueError, "block is for matrices"),
        (bad_input(max_error=-1.0), ValueError, "max_error must be"),
        (bad_input(max_error=0.1, complexity=0.1), ValueError, "cannot be combined"),
        (bad_input(complexity=1e-9), ValueError, "complexity must be at least"),
        (bad_input(time_budget=-1), ValueError, "time_budget must be"),
        (bad_input(callback=3), TypeError, "callback must be callable"),
        (
            bad_input(entries=lambda r, c: np.ones((c.size, r.size + 1))),
            ValueError,
            "must return an array of shape",
        ),
        (bad_input(entries=lambda r, c: 1.0), ValueError, "must return an array of shape"),
        (bad_input(entries=lambda r, c: r), ValueError, r"as from rows\[:, None\] and columns\[None, :\]"),
        (bad_input(entries=lambda r, c: None), (TypeError, ValueError), "entries"),
        (bad_input(entries=lambda r, c: np.full((r.size, c.size), "a")), TypeError, "real or complex numbers"),
        (bad_input(entries=lambda r, c: np.full((r.size, c.size), np.nan)), ValueError, "finite numbers only"),
        (bad_input(coordinates=(np.zeros(300), np.zeros(201))), ValueError, r"coordinates\[1\].*200 columns"),
        (bad_input(coordinates=(np.zeros(299), np.zeros(200))), ValueError, r"coordinates\[0\].*300 rows"),
        (bad_input(coordinates=np.zeros(300)), TypeError, "coordinates must be a pair"),
        (bad_input(coordinates=(np.zeros((300, 2)), np.zeros(200))), ValueError, "of one dimension"),
        (bad_input(coordinates=(np.full(300, np.nan), np.zeros(200))), ValueError, r"coordinates\[0\].*finite"),
        (bad_input(coordinates=(np.zeros(300) * 1j, np.zeros(200))), TypeError, "must hold real numbers"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_numbers_that_turn_bad_later():
    def entries(rows, columns):
        block = fourier(500, 500)(rows, columns).real
        block[rows == 137] = np.inf
        return block

    with pytest.raises(ValueError, match="finite numbers only"):
        pp.factorize(entries, shape=500)


def test_complex_numbers_after_real_ones():
    calls = []

    def entries(rows, columns):
        calls.append(1)
        return np.ones((rows.size, columns.size)) * (1 if len(calls) < 2 else 1j)

    with pytest.raises(ValueError, match="complex numbers after real ones"):
        pp.factorize(entries, shape=300)


def test_exceptions_of_the_function_come_through_with_a_note():
    def entries(rows, columns):
        raise KeyError("my own")

    with pytest.raises(KeyError, match="my own") as caught:
        pp.factorize(entries, shape=300)
    assert "raised by entries(rows, columns)" in caught.value.__notes__[0]


# -- its parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_points", [False, True])
def test_far_lines_are_outside_of_their_cluster(with_points):
    points = np.random.default_rng(0).random((500, 2))
    clusters = clusters_of_points(points, 4) if with_points else clusters_in_order(500, 4)
    sides = (Side.of(clusters, points if with_points else None),) * 2
    for i in (0, 7, 15):
        lines = far_lines(sides, 1, 4, i, 60)
        assert not np.isin(lines, clusters.lines(4, i)).any()
        assert np.unique(lines).size == lines.size
        assert 20 <= lines.size <= 120


@pytest.mark.parametrize("levels", [Levels(3, 1, 0), Levels(3, 3, 0), Levels(2, 1, 0), Levels(4, 2, 0)])
def test_nested_products_at_all_levels(levels):
    shape = (300, 260)
    entries = inverse_distance(*shape)
    sides = tuple(Side.of(clusters_in_order(size, 4), None) for size in shape)
    M = whole(entries, shape)
    typical = np.linalg.norm(M) / np.sqrt(M.size)
    session = Session()
    product = nested_from_entries(
        session, Entries(entries, shape, session), sides, levels, Precision(1e-7, typical)
    )
    assert true_error(M, product) <= 1e-6


@pytest.mark.parametrize("method", ["auto", "butterfly", "nested"])
def test_zeros(method):
    fit = pp.factorize(lambda rows, columns: np.zeros((rows.size, columns.size)), shape=(300, 200), method=method)
    assert fit.error == 0.0
    assert not fit.operator.toarray().any()


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_numbers_that_overflow_later(size):
    def entries(rows, columns):
        return inverse_distance(500, 500)(rows, columns) * np.where(rows == 137, size, 1.0)[:, None]

    with pytest.raises(ValueError, match="must return numbers of comparable size"):
        pp.factorize(entries, shape=500)
