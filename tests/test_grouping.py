"""Grouping: which rows and columns share blocks."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

import papilio as pp
from papilio import constraints as c
from papilio.solvers.schedule import regrouped

from .helpers import gaussian
from .limits import lower

SIGNALS = pp.datasets.rand(400, n_features=16, n_nonzero_coefs=3, random_state=0).signals.T
SHAPES = [
    ((8, 12), (4, 4)),
    ((9, 13), (4, 3)),
    ((7, 5), (1, 2)),
    ((6, 6), (6, 1)),
    ((5, 4), (5, 4)),
    ((3, 3), (1, 1)),
]


def kept(constraint, matrix):
    """The share of the energy that the projection keeps."""
    return np.vdot(constraint.project(matrix), matrix).real ** 2 / np.linalg.norm(matrix) ** 2


def planted(shape, block, density, seed):
    """Blocks without zeros on a grid, under random permutations, and their number."""
    rng = np.random.default_rng(seed)
    grid = rng.random([-(-side // size) for side, size in zip(shape, block, strict=True)]) < density
    grid[0, 0] = True
    matrix = np.kron(grid, np.ones(block))[: shape[0], : shape[1]] * (1 + rng.random(shape))
    return matrix[rng.permutation(shape[0])][:, rng.permutation(shape[1])], int(grid.sum())


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize(("shape", "block"), SHAPES)
def test_groups_hold_every_line_and_as_much_as_before(shape, block, dtype):
    for seed in range(5):
        matrix = gaussian(shape, dtype, seed)
        rng = np.random.default_rng(seed)
        for n_blocks in (1, 2):
            given = c.SparseBlocks(shape, 1, block, row_order=rng.permutation(shape[0])).relaxed(0)
            given = given if n_blocks == 1 else given.relaxed(0.3)
            found = regrouped(given, matrix)
            assert (found.shape, found.block, found.n_blocks) == (shape, block, given.n_blocks)
            assert sorted(found.row_order) == list(range(shape[0]))
            assert sorted(found.column_order) == list(range(shape[1]))
            assert found.n_nonzero == given.n_nonzero
            assert kept(found, matrix) >= kept(given, matrix) * (1 - 1e-6)
            again = regrouped(given, matrix)
            np.testing.assert_array_equal(found.row_order, again.row_order)
            np.testing.assert_array_equal(found.column_order, again.column_order)


def test_grouping_gains_energy():
    matrix, given = gaussian((32, 48)), c.SparseBlocks((32, 48), 24)
    assert kept(regrouped(given, matrix), matrix) > 1.2 * kept(given, matrix)


@pytest.mark.parametrize("density", [0.2, 0.5, 0.9])
@pytest.mark.parametrize(
    ("shape", "block"), [((32, 48), (4, 4)), ((30, 49), (4, 4)), ((24, 24), (2, 8)), ((20, 33), (1, 4))]
)
def test_blocks_under_permutations_are_found(shape, block, density):
    for seed in range(5):
        matrix, n_blocks = planted(shape, block, density, seed)
        assert kept(regrouped(c.SparseBlocks(shape, n_blocks, block), matrix), matrix) == pytest.approx(
            1, abs=1e-12
        )


def test_no_exchange_of_two_lines_gains_much_more():
    for seed in range(3):
        matrix = gaussian((16, 24), np.float64, seed)
        found = regrouped(c.SparseBlocks((16, 24), 6, (4, 4)), matrix)
        orders = found.row_order, found.column_order
        for axis, order in enumerate(orders):
            for i, j in combinations(range(order.size), 2):
                exchanged = order.copy()
                exchanged[[i, j]] = exchanged[[j, i]]
                other = found.regrouped(*(exchanged if side == axis else each for side, each in enumerate(orders)))
                assert kept(other, matrix) <= kept(found, matrix) * 1.01


def test_lines_of_zeros_do_not_hide_the_blocks():
    for seed in range(5):
        matrix, n_blocks = planted((32, 48), (4, 4), 0.4, seed)
        matrix[::5], matrix[:, 3::7] = 0, 0
        assert kept(regrouped(c.SparseBlocks((32, 48), n_blocks), matrix), matrix) == pytest.approx(1, abs=1e-12)


def test_most_of_noisy_blocks_is_found():
    for seed in range(3):
        clean, n_blocks = planted((32, 48), (4, 4), 0.25, seed)
        matrix = clean + 0.2 * gaussian((32, 48), seed=seed)
        given = c.SparseBlocks((32, 48), n_blocks)
        assert kept(regrouped(given, matrix), matrix) > 0.9 * kept(regrouped(given, clean), matrix)


def test_zero_has_groups():
    given = c.SparseBlocks((8, 8), 2)
    assert regrouped(given, np.zeros((8, 8))).n_blocks == 2


def test_only_schedules_that_allow_it_are_regrouped():
    left, right = (planted(shape, (4, 4), 0.4, seed)[0] for seed, shape in enumerate([(16, 16), (16, 24)]))
    matrix = left * gaussian((16, 16)) @ (right * gaussian((16, 24), seed=1))
    free = pp.Schedule.with_complexity((16, 24), 0.6, block=4)
    assert free.regroup
    assert not pp.Schedule.with_complexity((16, 24), 0.6).regroup
    fixed = pp.Schedule(free.factors, free.residuals, free.side)
    fits = [pp.hierarchical(matrix, schedule, max_iter=100) for schedule in (free, fixed)]
    for constraint, factor in zip(fixed.constraints, fits[1].operator.factors, strict=True):
        assert constraint.contains(np.asarray(factor.todense() if hasattr(factor, "todense") else factor))
    assert fits[0].error < fits[1].error
    assert fits[0].operator.nnz <= free.n_nonzero


@pytest.mark.parametrize("n_factors", [2, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_regrouped_factors_lie_in_blocks(n_factors, dtype):
    schedule = pp.Schedule.with_complexity((16, 20), 0.9, n_factors, block=(4, 2))
    fit = pp.hierarchical(gaussian((16, 20), dtype), schedule, max_iter=40)
    factors = [factor if isinstance(factor, np.ndarray) else factor.toarray() for factor in fit.operator.factors]
    for constraint, factor in zip(schedule.sets_for(factors), factors, strict=True):
        assert constraint.contains(factor)
    assert fit.operator.dtype == dtype


@pytest.mark.parametrize("stop", [1, 5, 41, 50, 60, 105])
def test_after_a_stop_factors_are_no_denser_than_the_schedule_says(stop):
    schedule = pp.Schedule.with_complexity((16, 24), 0.6, block=4)
    steps = []

    def callback(step):
        steps.append(step)
        return len(steps) == stop

    fit = pp.hierarchical(gaussian((16, 24)), schedule, max_iter=40, tol=0, callback=callback)
    assert len(steps) == stop
    assert fit.operator.nnz <= schedule.n_nonzero
    assert np.isfinite(fit.error)


@cache
def dictionary_in_blocks():
    return in_blocks().fit(SIGNALS).components_


def in_blocks(**options):
    schedule = pp.Schedule.with_complexity((16, 24), 0.8, 3, block=(2, 4))
    return pp.FastDictionaryLearning(24, 3, schedule=schedule, random_state=0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["global 1", "split 2", "global 2", "refine"])
def test_a_dictionary_in_blocks_resumes_with_the_same_result(phase, tmp_path, monkeypatch):
    lower(monkeypatch, seconds_between_checkpoints=0.0, refinement_rounds=0)
    count = 0

    def stop(step):
        nonlocal count
        count += step.phase == phase
        return count == 4

    path = tmp_path / "state.npz"
    in_blocks(checkpoint=path, callback=stop).fit(SIGNALS)
    assert path.exists()
    resumed = in_blocks(checkpoint=path).fit(SIGNALS)
    np.testing.assert_array_equal(resumed.components_, dictionary_in_blocks())


@pytest.mark.parametrize("axis", [0, 1])
def test_equal_lines_share_blocks(axis):
    """Four different lines, each six times: in blocks of two and three lines, none needs two blocks."""
    lines = np.repeat(np.eye(4), 6, axis=0)[np.random.default_rng(0).permutation(24)]
    matrix = lines if axis == 0 else lines.T
    block = (3, 2) if axis == 0 else (2, 3)
    found = regrouped(c.SparseBlocks(matrix.shape, 8, block), matrix)
    assert kept(found, matrix) == pytest.approx(1, abs=1e-12)
    equal = np.ones((6, 6))
    given = c.SparseBlocks(equal.shape, 3, 2)
    assert kept(regrouped(given, equal), equal) == pytest.approx(kept(given, equal))
