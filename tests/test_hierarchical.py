"""Algorithm 3 and its schedules."""

from pathlib import Path

import numpy as np
import pytest

import papilio as pp
from papilio import constraints as c

from .helpers import gaussian

FAUST = np.load(Path(__file__).parent / "data" / "faust_palm_500x32.npy")


def hadamard(n):
    return pp.transforms.hadamard(n).toarray()


@pytest.mark.parametrize("n", [4, 8, 16, 32, 64, 128, 256, pytest.param(1024, marks=pytest.mark.slow)])
def test_hadamard_comes_out_exact_with_two_entries_a_line_in_log_n_factors(n):
    result = pp.hierarchical(hadamard(n), pp.Schedule.hadamard(n))
    assert result.error <= 1e-12
    factors = result.operator.factors
    assert len(factors) == np.log2(n)
    for factor in factors:
        assert factor.nnz == 2 * n
        assert (np.diff(factor.indptr) == 2).all()
        assert (np.bincount(factor.indices) == 2).all()
    np.testing.assert_allclose(result.operator.toarray(), hadamard(n), atol=1e-11)


@pytest.mark.parametrize("order", ["right_to_left", "left_to_right"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_hadamard_comes_out_exact_from_either_side(side, order):
    left = pp.Schedule.hadamard(32)
    result = pp.hierarchical(hadamard(32), pp.Schedule(left.factors, left.residuals, side), order=order)
    assert result.error <= 1e-12
    assert [factor.size for factor in result.operator.factors] == [64] * 5


def test_noise_within_rounding_does_not_decide_the_ties():
    n = 64
    noise = gaussian((n, n))
    target = hadamard(n) + 1e-12 * np.linalg.norm(hadamard(n)) / np.linalg.norm(noise) * noise
    assert pp.hierarchical(target, pp.Schedule.hadamard(n)).error <= 1.1e-12


FAUST_SCHEDULE = pp.Schedule(
    [c.SparseRows((500, 32), 5), c.Sparse((32, 32), 96), c.Sparse((32, 32), 96)],
    [c.UnitColumns((32, 32)), c.Sparse((32, 32), 666), c.Sparse((32, 32), 333)],
)


@pytest.mark.slow
def test_the_figure_of_an_outside_implementation_comes_out():
    """FAuST gave 0.26796 on its own test matrix, a plain NumPy version 0.26851: norms decide the last digits."""
    options = {"order": "left_to_right", "max_iter": 200, "tol": 0}
    letter = pp.hierarchical(FAUST, FAUST_SCHEDULE, polish=False, **options)
    assert letter.error == pytest.approx(0.268, abs=0.001)
    assert letter.n_iter == 3 * (200 + 200)
    assert [factor.shape for factor in letter.operator.factors] == [(500, 32), (32, 32), (32, 32), (32, 32)]
    sets = FAUST_SCHEDULE.together(2)
    assert all(
        constraint.contains(factor) for constraint, factor in zip(sets, letter.operator.factors, strict=True)
    )
    polished = pp.hierarchical(FAUST, FAUST_SCHEDULE, **options)
    assert polished.error < letter.error
    assert all(
        constraint.contains(factor) for constraint, factor in zip(sets, polished.operator.factors, strict=True)
    )


def test_polish_keeps_supports_and_sets_and_never_raises_the_error():
    for seed in range(4):
        X = gaussian((16, 16), seed=seed)
        schedule = pp.Schedule.paper(16, 4, 3, 128)
        letter = pp.hierarchical(X, schedule, polish=False, max_iter=30)
        polished = pp.hierarchical(X, schedule, max_iter=30)
        assert polished.error <= letter.error
        for constraint, before, after in zip(
            schedule.together(1), letter.operator.factors, polished.operator.factors, strict=True
        ):
            assert constraint.contains(after)
            assert not after.toarray()[before.toarray() == 0].any()


def test_polish_is_the_least_squares_fit_on_the_support():
    """One free factor between fixed ones: compared with a dense least-squares solution."""
    from papilio.solvers.polish import polish

    left, right, X = gaussian((7, 4)), gaussian((5, 8), seed=1), gaussian((7, 8), seed=2)
    mask = gaussian((4, 5), seed=3) > 0
    start = np.where(mask, gaussian((4, 5), seed=4), 0)
    start /= np.linalg.norm(start)
    sets = [c.Fixed(left), c.Support(mask), c.Fixed(right)]
    factors, scale = polish(pp.Moments(X), sets, [left, start, right], 0.3, "right_to_left")
    design = np.kron(left, right.T)[:, mask.ravel()]
    values = np.linalg.lstsq(design, X.ravel(), rcond=None)[0]
    np.testing.assert_allclose(scale * factors[1][mask], values, rtol=1e-6)
    assert sets[1].contains(factors[1])


def test_each_split_starts_at_scale_one_and_the_global_step_at_the_running_scale(monkeypatch):
    from papilio.solvers import hierarchical as module

    calls = []
    descend = module.descend

    def spy(session, phase, moments, sets, factors, scale, limits):
        fit = descend(session, phase, moments, sets, factors, scale, limits)
        calls.append((phase, scale, fit.scale))
        return fit

    monkeypatch.setattr(module, "descend", spy)
    pp.hierarchical(7 * gaussian((8, 8)), pp.Schedule.paper(8, 5, 2, 40), max_iter=9, polish=False)
    running = 1.0
    assert [phase for phase, _, _ in calls] == [f"{kind} {k}" for k in (1, 2, 3) for kind in ("split", "global")]
    for (_, split_start, split_end), (_, global_start, global_end) in zip(calls[::2], calls[1::2], strict=True):
        assert split_start == 1.0
        assert global_start == pytest.approx(running * split_end)
        running = global_end


def test_retarget_gives_each_global_step_its_moments():
    signals, codes = gaussian((8, 60)), gaussian((8, 60), seed=1)
    target = gaussian((8, 8), seed=2)
    seen = []

    def retarget(operator):
        seen.append(operator)
        return pp.Moments.of(signals, codes)

    result = pp.hierarchical(target, pp.Schedule.paper(8, 4, 2, 40), retarget=retarget, max_iter=20)
    assert [len(operator.factors) for operator in seen] == [1, 2]
    np.testing.assert_allclose(seen[0].toarray(), target)
    misfit = signals - result.operator.toarray() @ codes
    assert result.error == pytest.approx(np.linalg.norm(misfit) / np.linalg.norm(signals), rel=1e-9)


@pytest.mark.parametrize("phase", ["split 1", "global 1", "split 2", "global 2"])
def test_stopping_returns_a_valid_product_with_its_error(phase):
    X = gaussian((8, 8))
    result = pp.hierarchical(X, pp.Schedule.paper(8, 4, 2, 40), callback=lambda step: step.phase == phase)
    assert result.status is pp.results.Status.STOPPED
    assert result.history[-1].phase == phase
    assert len(result.operator.factors) == 1 + int(phase[-1])
    honest = np.linalg.norm(X - result.operator.toarray()) / np.linalg.norm(X)
    assert result.error == pytest.approx(honest, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
def test_dtype_is_kept_and_complex_targets_work(dtype):
    X = (gaussian((16, 16)) + 1j * gaussian((16, 16), seed=1)).astype(np.complex128)
    X = X.astype(dtype) if np.dtype(dtype).kind == "c" else X.real.astype(dtype)
    result = pp.hierarchical(X, pp.Schedule.paper(16, 4, 3, 128), max_iter=20)
    assert result.operator.dtype == dtype
    assert result.error < 0.9


# P of section 4.2 and the relative complexity of the paper's Figure 3, read off the published figure.
FIGURE_3 = [
    (3, 2, 512, 0.5625),
    (3, 3, 614.4, 0.6934),
    (3, 4, 716.8, 0.8242),
    (3, 4, 819.2, 0.9248),
    (5, 2, 512, 0.3125),
    (5, 2, 614.4, 0.3369),
    (5, 3, 716.8, 0.4561),
    (5, 4, 819.2, 0.5742),
]


@pytest.mark.parametrize(("Q", "p", "P", "complexity"), FIGURE_3)
def test_schedules_of_the_paper_have_the_complexities_of_figure_3(Q, p, P, complexity):
    schedule = pp.Schedule.paper(32, Q, p, P)
    assert len(schedule.factors) + 1 == Q - 1
    assert schedule.side == "right"
    assert schedule.n_nonzero / 32**2 == pytest.approx(complexity, abs=6e-5)


@pytest.mark.parametrize(("shape", "side"), [((30, 8), "left"), ((8, 30), "right"), ((8, 8), "left")])
def test_rectangular_schedules_factorize_tall_and_wide_matrices(shape, side):
    schedule = pp.Schedule.rectangular(shape, 4, 3, 0.7)
    assert schedule.side == side
    assert schedule.shape == shape
    assert [s.n_nonzero for s in schedule.residuals] == [int(64 * 0.7**j) for j in (1, 2)] + [24]
    result = pp.hierarchical(gaussian(shape), schedule, max_iter=30)
    assert len(result.operator.factors) == 4
    assert result.operator.shape == shape
    assert result.operator.nnz <= schedule.n_nonzero
    assert result.error < 1


SQUARE = c.Sparse((4, 4), 8)


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: pp.Schedule([SQUARE], []), ValueError, "factors and residuals"),
        (lambda: pp.Schedule([], []), ValueError, "factors and residuals"),
        (lambda: pp.Schedule(SQUARE, [SQUARE]), TypeError, "factors"),
        (lambda: pp.Schedule([SQUARE], [3]), TypeError, r"residuals\[0\]"),
        (lambda: pp.Schedule([c.Sparse((4, 3), 8)], [SQUARE]), ValueError, r"factors\[0\]"),
        (lambda: pp.Schedule([SQUARE, c.Sparse((5, 4), 8)], [SQUARE, SQUARE]), ValueError, r"factors\[1\]"),
        (lambda: pp.Schedule([SQUARE], [SQUARE], side="up"), ValueError, "side"),
        (lambda: pp.Schedule.hadamard(12), ValueError, "n must"),
        (lambda: pp.Schedule.hadamard(2), ValueError, "n must"),
        (lambda: pp.Schedule.hadamard(8.0), TypeError, "n must"),
        (lambda: pp.Schedule.paper(32, 2, 2, 512), ValueError, "Q must"),
        (lambda: pp.Schedule.paper(32, 3, 0, 512), ValueError, "p must"),
        (lambda: pp.Schedule.paper(32, 3, 33, 512), ValueError, "p must"),
        (lambda: pp.Schedule.paper(32, 3, 2, 2000), ValueError, "P must"),
        (lambda: pp.Schedule.rectangular((8, 30), 1, 3, 0.5), ValueError, "n_factors"),
        (lambda: pp.Schedule.rectangular((8, 30), 3, 9, 0.5), ValueError, "k"),
        (lambda: pp.Schedule.rectangular((8, 30), 3, 2, 0), ValueError, "decay"),
        (lambda: pp.Schedule.rectangular((0, 30), 3, 2, 0.5), ValueError, "shape"),
        (lambda: pp.hierarchical(np.eye(4), "schedule"), TypeError, "schedule"),
        (lambda: pp.hierarchical(np.eye(5), pp.Schedule([SQUARE], [SQUARE])), ValueError, "schedule"),
        (lambda: pp.hierarchical(np.full((4, 4), np.nan), pp.Schedule([SQUARE], [SQUARE])), ValueError, "target"),
        (lambda: pp.hierarchical(np.eye(4), pp.Schedule([SQUARE], [SQUARE]), max_iter=0), ValueError, "max_iter"),
        (lambda: pp.hierarchical(np.eye(4), pp.Schedule([SQUARE], [SQUARE]), order=1), ValueError, "order"),
    ],
)
def test_bad_schedules_and_input_are_named(make, error, named):
    with pytest.raises(error, match=named):
        make()


def test_a_zero_target_and_a_split_that_fits_nothing_end_with_scale_zero():
    zero = pp.hierarchical(np.zeros((8, 8)), pp.Schedule.hadamard(8))
    assert zero.error == 0
    assert zero.operator.scale == 0
    support = c.Support
    crossed = pp.Schedule([support(np.eye(4))], [support(np.fliplr(np.eye(4)))])
    nothing = pp.hierarchical(np.diag([1.0, 2.0, 3.0, 4.0]), crossed)
    assert nothing.error == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_polish_works_at_any_scale(size):
    X = gaussian((12, 12))
    schedule = pp.Schedule.paper(12, 4, 3, 72)
    letter = pp.hierarchical(X * size, schedule, polish=False, max_iter=20)
    polished = pp.hierarchical(X * size, schedule, max_iter=20)
    assert polished.error < letter.error


def test_a_retarget_of_another_shape_is_named():
    with pytest.raises(ValueError, match="retarget"):
        pp.hierarchical(np.eye(4), pp.Schedule([SQUARE], [SQUARE]), retarget=lambda op: pp.Moments(np.eye(5)))
    with pytest.raises(TypeError, match="retarget"):
        pp.hierarchical(np.eye(4), pp.Schedule([SQUARE], [SQUARE]), retarget=lambda op: np.eye(4))


def test_a_retarget_that_is_not_callable_is_refused_before_any_work():
    steps = []
    with pytest.raises(TypeError, match=r"^retarget must be callable or None, got 5"):
        pp.hierarchical(np.eye(8), pp.Schedule.hadamard(8), retarget=5, callback=steps.append)
    assert steps == []
