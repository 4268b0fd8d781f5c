"""Diagrams of errors: each quantity has an axis of its own, exact results stand apart, and no point is hidden."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import papilio as pp
from papilio.plot.tradeoffs import ErrorAxis

pytestmark = pytest.mark.usefixtures("close_figures")


def ticks(ax):
    """The labels of the vertical axis that are within its limits, by height."""
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    return {label.get_text(): height for height, label in labels if low <= height <= high}


# -- over the iterations -------------------------------------------------------------------------------------


def test_convergence_shows_every_iteration_the_phases_and_the_result():
    result = pp.hierarchical(np.random.default_rng(0).standard_normal((8, 8)), pp.Schedule.paper(8, 4, 2, 40))
    of_split = np.array([phase.startswith("split") for phase in result.history.phase])
    for ax in (pp.plot.convergence(result, Figure().add_subplot()), result.plot()[-1]):
        *phases, final = ax.lines
        below = ax.figure.axes[-1]
        for lines, chosen in ((phases, ~of_split), (below.lines, of_split)):
            assert len(lines) == 2
            drawn = np.concatenate([line.get_ydata() for line in lines])
            np.testing.assert_allclose(drawn, result.history.error[chosen])
            iterations = np.concatenate([line.get_xdata() for line in lines])
            np.testing.assert_array_equal(iterations, 1 + np.flatnonzero(chosen))
        assert final.get_ydata() == [result.error]
        assert (ax.get_yscale(), below.get_yscale()) == ("log", "log")
        assert (ax.get_ylabel(), below.get_ylabel()) == ("relative error", "of the split")


# -- exact results -------------------------------------------------------------------------------------------


def test_exact_results_stand_below_the_others_and_do_not_stretch_a_logarithmic_axis():
    series = {"a": [(0.1, 0.9), (0.2, 0.03), (0.3, 1e-3)], "b": [(0.4, 4e-16), (0.5, 0.0)]}
    ax = pp.plot.tradeoff(series, Figure(layout="constrained").add_subplot())
    assert ax.get_yscale() == "log"
    low, high = ax.get_ylim()
    assert 1e-5 < low < 1e-3 < 0.9 < high < 10
    exact = ax.lines[1].get_ydata()
    assert exact[0] == exact[1]
    assert low < exact[0] < 1e-3
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), series["a"])
    labels = ticks(ax)
    assert labels["exact"] == exact[0]
    assert {"0.001", "0.01", "0.1", "1"} <= labels.keys()


def test_exact_results_are_at_zero_where_the_others_are_of_one_order():
    ax = pp.plot.tradeoff({"": [(0.1, 0.9), (0.2, 0.3), (0.4, 4e-16)]}, Figure(layout="constrained").add_subplot())
    assert ax.get_yscale() == "linear"
    assert ticks(ax)["exact"] == 0
    assert "exact" not in ticks(pp.plot.tradeoff({"": [(0.1, 0.9), (0.2, 0.3)]}, Figure().add_subplot()))


@pytest.mark.parametrize(("dtype", "is_exact"), [(np.float32, True), (np.float64, False), (np.complex64, True)])
def test_the_limit_of_exact_depends_on_the_precision(dtype, is_exact):
    op = pp.transforms.hadamard(8).astype(dtype)
    points = tuple(pp.results.TradeoffPoint(c, e, op) for c, e in ((0.1, 0.9), (0.2, 0.01), (0.9, 1e-6)))
    found = pp.Tradeoff(points, 0.0, pp.results.Status.CONVERGED, 1.0)
    assert ("exact" in ticks(found.plot(Figure(layout="constrained").add_subplot()))) is is_exact
    assert ("exact" in str(found)) is is_exact


@pytest.mark.parametrize("errors", [[], [0.0], [np.nan, np.inf], [1e-300, 1e300], [0.5, 0.0], [1.0, 1e-3, 1e-14]])
def test_every_axis_can_be_drawn(errors):
    axis, ax = ErrorAxis(errors, 1e-12), Figure().add_subplot()
    ax.plot(axis.heights(errors))
    axis.apply(ax)
    ax.figure.canvas.draw()
    assert np.isfinite(ax.get_ylim()).all()
