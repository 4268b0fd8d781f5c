"""Pictures show what they are asked to show."""

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import papilio as pp

matplotlib.use("Agg")


def test_a_matrix_is_drawn_entry_by_entry_on_a_symmetric_scale():
    values = np.array([[0.0, -3.0], [1.0, 2.0]])
    ax = pp.plot.matrix(values, Figure().add_subplot())
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), values)
    assert image.get_clim() == (-3, 3)


def test_zero_and_complex_matrices_can_be_drawn():
    pp.plot.matrix(np.zeros((2, 2)), Figure().add_subplot())
    ax = pp.plot.matrix(np.array([[1 + 5j]]), Figure().add_subplot())
    np.testing.assert_array_equal(ax.images[0].get_array(), [[1.0]])


def test_factors_are_drawn_beside_their_product():
    op = pp.transforms.hadamard(8)
    axes = pp.plot.factors(op)
    assert len(axes) == 4
    np.testing.assert_array_equal(axes[0].images[0].get_array(), op.toarray())
    for ax, factor in zip(axes[1:], op.factors, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), factor.toarray())
        assert "16 entries" in ax.get_title()
    matplotlib.pyplot.close("all")
    with pytest.raises(ValueError, match="axes"):
        pp.plot.factors(op, [Figure().add_subplot()])


def test_convergence_shows_every_iteration_the_phases_and_the_result():
    result = pp.hierarchical(np.random.default_rng(0).standard_normal((8, 8)), pp.Schedule.paper(8, 4, 2, 40))
    ax = pp.plot.convergence(result, Figure().add_subplot())
    *phases, final = ax.lines
    drawn = np.concatenate([line.get_ydata() for line in phases])
    np.testing.assert_allclose(drawn, result.history.error)
    assert len(phases) == 4
    assert len(ax.patches) == 2
    assert final.get_ydata() == [result.error]
    assert ax.get_yscale() == "log"
