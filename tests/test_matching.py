"""At most k entries per row and column: kernels against plain Python, and how much the heuristic loses."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from papilio.constraints import SparseRowsAndColumns
from papilio.kernels.select import exchange, fill

Array = np.ndarray[Any, Any]
CASES = [
    (shape, k, seed) for shape in [(5, 5), (4, 7), (7, 4), (1, 6), (9, 9)] for k in (1, 2, 3) for seed in range(4)
]


def filled_in_python(order: Array, rows: Array, columns: Array) -> tuple[Array, Array, Array]:
    """What `fill` is to leave behind, with the entries of each row and column counted anew every time."""
    mask = np.zeros((rows.size, columns.size), dtype=bool)
    for index in order:
        i, j = divmod(int(index), columns.size)
        mask[i, j] = mask[i].sum() < rows[i] and mask[:, j].sum() < columns[j]
    return mask, rows - mask.sum(axis=1), columns - mask.sum(axis=0)


def started(
    shape: tuple[int, int], k: int, seed: int, n_filled: int | None = None
) -> tuple[Array, Array, Array, Array]:
    """Random squares, a mask filled with the first ``n_filled`` of a random order, and the room left."""
    rng = np.random.default_rng([*shape, k, seed])
    squares = np.square(rng.standard_normal(shape))
    mask = np.zeros(shape, dtype=bool)
    rows, columns = np.full(shape[0], k), np.full(shape[1], k)
    fill(rng.permutation(squares.size)[:n_filled], mask, rows, columns)
    return squares, mask, rows, columns


def best_energy(squares: Array, k: int) -> float:
    """The largest sum of squares on k entries per row and column; the program's vertices are integral."""
    rows, columns = squares.shape
    in_row = sp.kron(sp.eye_array(rows), np.ones((1, columns)))
    in_column = sp.kron(np.ones((1, rows)), sp.eye_array(columns))
    program = linprog(
        -squares.ravel(),
        A_ub=sp.vstack([in_row, in_column]).tocsr(),
        b_ub=np.full(rows + columns, k),
        bounds=(0, 1),
    )
    assert program.success
    assert np.abs(program.x - np.round(program.x)).max() < 1e-9
    return -program.fun


def by_filling(matrix: Array, k: int) -> Array:
    mask = np.zeros(matrix.shape, dtype=bool)
    order = np.argsort(-np.abs(matrix), axis=None)
    fill(order, mask, np.full(matrix.shape[0], k), np.full(matrix.shape[1], k))
    return mask


def by_projection(matrix: Array, k: int) -> Array:
    return SparseRowsAndColumns(matrix.shape, k).project(matrix) != 0


# -- kernels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "k", "seed"), CASES)
def test_fill_equals_its_twin_in_python(shape: tuple[int, int], k: int, seed: int) -> None:
    rng = np.random.default_rng([*shape, k, seed])
    order = rng.permutation(shape[0] * shape[1])[: rng.integers(1, shape[0] * shape[1] + 1)]
    rows, columns = rng.integers(0, k + 1, shape[0]), rng.integers(0, k + 1, shape[1])
    for function in (fill, fill.py_func):
        mask, room = np.zeros(shape, dtype=bool), (rows.copy(), columns.copy())
        function(order, mask, *room)
        for actual, expected in zip((mask, *room), filled_in_python(order, rows, columns), strict=True):
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("shape", "k", "seed"), CASES)
def test_exchange_keeps_the_limits_and_only_gains(shape: tuple[int, int], k: int, seed: int) -> None:
    for n_filled in (None, 6):
        squares, mask, rows, columns = started(shape, k, seed, n_filled)
        before = squares[mask].sum()
        least_gain = 1e-3
        count = exchange(squares, mask, rows, columns, least_gain)
        np.testing.assert_array_equal(mask.sum(axis=1) + rows, k)
        np.testing.assert_array_equal(mask.sum(axis=0) + columns, k)
        assert min(rows.min(), columns.min()) >= 0
        assert squares[mask].sum() >= before + count * least_gain
        assert squares[mask].sum() <= best_energy(squares, k) * (1 + 1e-12)


def test_exchange_of_two_for_two_and_of_one_for_two() -> None:
    # Greedy takes 10 and then 1, but 9 + 9 is more.
    squares = np.array([[10.0, 9.0], [9.0, 1.0]])
    mask = np.eye(2, dtype=bool)
    full = np.zeros(2, dtype=int)
    assert exchange(squares, mask, full, full.copy(), 0.0) == 1
    np.testing.assert_array_equal(mask, [[False, True], [True, False]])
    # With room in the other row and column, 10 alone gives way to both nines.
    mask = np.array([[True, False], [False, False]])
    rows, columns = np.array([0, 1]), np.array([0, 1])
    assert exchange(squares, mask, rows, columns, 0.0) == 1
    np.testing.assert_array_equal(mask, [[False, True], [True, False]])
    assert not rows.any()
    assert not columns.any()


# -- what the heuristic loses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k", "samples"), [(8, 1, 100), (8, 2, 100), (16, 1, 20), (16, 2, 20), (16, 8, 20)])
def test_projection_loses_less_than_two_percent_of_the_energy_and_less_than_filling(
    n: int, k: int, samples: int
) -> None:
    rng = np.random.default_rng([n, k])
    lost, lost_by_filling = [], []
    for _ in range(samples):
        matrix = rng.standard_normal((n, n))
        squares = np.square(matrix)
        best = best_energy(squares, k)
        lost.append(1 - squares[by_projection(matrix, k)].sum() / best)
        lost_by_filling.append(1 - squares[by_filling(matrix, k)].sum() / best)
    assert min(lost) >= -1e-12
    assert np.mean(lost) < 0.02
    assert np.mean(lost) < 0.75 * np.mean(lost_by_filling)
    assert (np.array(lost) <= np.array(lost_by_filling) + 1e-12).all()


@pytest.mark.parametrize("k", [1, 3])
def test_projection_finds_a_permuted_and_perturbed_member(k: int) -> None:
    rng = np.random.default_rng(k)
    for _ in range(20):
        permutations = [np.eye(12)[rng.permutation(12)] for _ in range(k)]
        support = sum(permutations) > 0
        matrix = np.where(support, rng.choice([-1, 1], (12, 12)), 0) + rng.uniform(-0.3, 0.3, (12, 12))
        np.testing.assert_array_equal(by_projection(matrix, k)[support], True)


def test_no_entry_could_simply_be_added() -> None:
    for seed in range(300):
        matrix = np.random.default_rng(seed).standard_normal((16, 16))
        mask = by_projection(matrix, 8)
        open_rows, open_columns = mask.sum(axis=1) < 8, mask.sum(axis=0) < 8
        assert not (~mask & np.outer(open_rows, open_columns)).any()
