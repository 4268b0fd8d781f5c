"""Pictures show what they are asked to show."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure

import papilio as pp
from papilio.results import History

pytestmark = pytest.mark.usefixtures("close_figures")


def test_a_matrix_is_drawn_entry_by_entry_on_a_symmetric_scale():
    values = np.array([[0.0, -3.0], [1.0, 2.0]])
    ax = pp.plot.matrix(values, Figure().add_subplot())
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), values)
    assert image.get_clim() == (-3, 3)
    assert pp.plot.matrix(values, Figure().add_subplot(), limit=5.0).images[0].get_clim() == (-5, 5)
    assert pp.plot.matrix([[1.0]]).images  # a list, on axes of its own


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
    with pytest.raises(ValueError, match="axes"):
        pp.plot.factors(op, [Figure().add_subplot()])


def test_a_comparison_has_one_scale_and_its_colour_bar():
    target = np.array([[1.0, -4.0], [0.0, 2.0]])
    op = pp.SparseProduct([np.array([[1.0, -4.0], [0.0, 0.0]])])
    axes = pp.plot.comparison(target, op)
    wanted = [target, op.toarray(), target - op.toarray()]
    for ax, values, title in zip(axes, wanted, ("target", "approximation", "difference"), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), values)
        assert ax.images[0].get_clim() == (-4, 4)
        assert title in ax.get_title()
    assert "2 entries in 1 factors" in axes[1].get_title()
    assert f"{2 / np.sqrt(21):.2g}" in axes[2].get_title()
    (bar,) = set(axes[0].figure.axes) - set(axes)
    assert bar.get_ylim() == (-4, 4)
    figure = Figure()
    assert list(pp.plot.comparison(target, target, list(figure.subplots(1, 3)))) == figure.axes[:3]
    pp.plot.comparison(np.zeros((2, 2)), np.zeros((2, 2)))
    for wrong, message in (((target, np.eye(3)), "approximation"), ((target, target, figure.axes[:2]), "axes")):
        with pytest.raises(ValueError, match=message):
            pp.plot.comparison(*wrong)


def attempt(method, nnz, error):
    return pp.results.Attempt(method, "", error, nnz, 1.0)


def test_an_exact_result_is_drawn_as_its_factors_with_its_figures():
    fit = pp.factorize(pp.transforms.hadamard(16).toarray())
    axes = fit.plot()
    assert len(axes) == 6  # attempts, but no iterations
    np.testing.assert_allclose(axes[0].images[0].get_array(), fit.operator.toarray())
    for ax, factor in zip(axes[1:-1], fit.operator.factors, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), factor.toarray())
    title = axes[0].get_figure(root=True).get_suptitle()
    for figure in (f"{fit.error:.2g}", "complexity 0.5", "kronecker", "converged", "128 entries instead of 256"):
        assert figure in title


def test_a_result_is_drawn_with_its_iterations_and_attempts():
    fit = pp.palm(np.random.default_rng(0).standard_normal((8, 6)), [pp.constraints.Sparse((8, 6), 20)] * 1)
    tried = [attempt("low_rank", 14, 0.7), attempt("butterfly", 0, np.inf), attempt("low_rank", 28, 0.3)]
    fit = replace(fit, attempts=(*tried, attempt("thresholding", 12, 0.5)), history=History(fit.history * 2))
    *images, curve, attempts = fit.plot(Figure())
    assert len(images) == 2
    assert "iteration" in curve.get_xlabel()
    drawn = {line.get_label(): line.get_xydata().tolist() for line in attempts.lines}
    assert drawn["low rank"] == [[14 / 48, 0.7], [28 / 48, 0.3]]
    assert drawn["thresholding"] == [[12 / 48, 0.5]]
    assert drawn["result"] == [[fit.operator.relative_complexity, fit.error]]
    assert "butterfly" not in drawn
    assert attempts.get_xlim()[1] > 28 / 48


def test_a_tradeoff_shows_all_series_and_the_best_points():
    series = {"dense": [(1.0, 0.4)], "fast": [(0.5, 0.45), (0.25, 0.5), (0.3, 0.6)], "slow": [(1.2, 0.42)]}
    ax = pp.plot.tradeoff(series, Figure().add_subplot(), error="RMSE")
    *drawn, front = ax.lines
    for line, points in zip(drawn, series.values(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), points)
    np.testing.assert_array_equal(front.get_xydata(), [(0.25, 0.5), (0.5, 0.45), (1.0, 0.4)])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [*series, "best of all"]
    assert len({line.get_marker() for line in drawn}) == 3
    assert "complexity" in ax.get_xlabel()
    assert ax.get_ylabel() == "RMSE"
    assert ax.get_yscale() == "linear"


@pytest.mark.parametrize("series", [{}, [], {"a": []}, {"a": [(1.0, -1.0)]}, {"a": [(1.0, 2.0, 3.0)]}])
def test_a_tradeoff_of_no_points_is_refused(series):
    with pytest.raises(ValueError, match="series"):
        pp.plot.tradeoff(series)


def test_atoms_are_a_mosaic_each_on_its_own_scale():
    dictionary = np.random.default_rng(0).standard_normal((6, 5))
    mosaic = np.asarray(pp.plot.atoms(dictionary, (2, 3)).images[0].get_array())
    assert mosaic.shape == (2 * 3 - 1, 3 * 4 - 1)
    first = dictionary[:, 3].reshape(2, 3)
    np.testing.assert_allclose(mosaic[3:5, 0:3], first / np.abs(first).max())


def curves(rng, length, count):
    """Smooth oscillations, one per column."""
    t = np.linspace(0, 1, length)[:, None]
    return np.sin(2 * np.pi * rng.uniform(1, 15, count) * t + rng.uniform(0, 6, count))


def test_atoms_are_drawn_as_pictures_or_curves_by_what_they_look_like():
    rng = np.random.default_rng(0)
    patches = pp.datasets.image_patches(100, 8, random_state=0).T
    for pictures in (pp.images.redundant_dct(8, 11), patches, patches + 0.5, pp.SparseProduct([patches])):
        assert len(pp.plot.atoms(pictures).images) == 1
    for signals in (curves(rng, 100, 60), curves(rng, 64, 60), rng.standard_normal((100, 60)), np.eye(16)):
        assert len(pp.plot.atoms(signals).images) == 0


def test_operators_draw_themselves():
    op = pp.transforms.hadamard(4)
    assert len(op.plot()) == 3
    target = np.ones((4, 4))
    axes = op.plot(target=target, axes=list(Figure().subplots(1, 3)))
    np.testing.assert_array_equal(axes[0].images[0].get_array(), target)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.float16, np.longdouble, ">f4"])
def test_numbers_of_every_type_are_drawn_as_they_are(dtype, form):
    values = np.array([[0, 100, 1], [0, 0, 0], [0, 120, 0]]).astype(dtype)
    if form is not np.asarray and dtype in (np.float16, ">f4"):
        return  # SciPy has no such arrays
    shown = pp.plot.matrix(form(values), Figure().add_subplot()).images[0].get_array()
    np.testing.assert_array_equal(shown, values.astype(float))


def test_the_convergence_of_any_result_is_drawn():
    path = 2 * np.eye(16) - np.eye(16, k=1) - np.eye(16, k=-1)
    for fit in (pp.rotations.fast_eigenbasis(path), pp.rotations.fast_svd(path[:12])):
        ax = pp.plot.convergence(fit, Figure().add_subplot())
        assert ax.lines[-1].get_ydata()[-1] == pytest.approx(fit.error)


@pytest.mark.parametrize(
    "values", [np.ones((0, 3)), np.ones(3), np.full((2, 2), np.nan), sp.csr_array((3, 0)), [["a"]]]
)
def test_invalid_matrices_are_refused(values):
    for draw in (pp.plot.matrix, lambda given: pp.plot.comparison(given, given)):
        with pytest.raises((ValueError, TypeError), match=r"^(values|target) must"):
            draw(values)


BAD_ARGUMENTS = {
    "ax": lambda: pp.plot.matrix(np.eye(2), 5),
    "limit": lambda: pp.plot.matrix(np.eye(2), limit="x"),
    "title": lambda: pp.plot.matrix(np.eye(2), title=5),
    "op": lambda: pp.plot.factors(np.eye(2)),
    "axes": lambda: pp.plot.factors(pp.transforms.hadamard(4), 5),
    "axes[0]": lambda: pp.plot.comparison(np.eye(2), np.eye(2), [1, 2, 3]),
    "result": lambda: pp.plot.convergence(5),
    "atom_shape": lambda: pp.plot.atoms(np.eye(4), "2x2"),
    "fit": lambda: pp.plot.factorization(5),
    "model": lambda: pp.plot.treelets(5),
    "n_vectors": lambda: pp.plot.treelets(pp.rotations.Treelets().fit(np.eye(3)), 0),
    "names": lambda: pp.plot.treelets(pp.rotations.Treelets().fit(np.eye(3)), names=["a", "b"]),
    "series": lambda: pp.plot.tradeoff(5),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_invalid_arguments_of_figures_are_named(name):
    with pytest.raises((TypeError, ValueError)) as caught:
        BAD_ARGUMENTS[name]()
    assert str(caught.value).startswith(f"{name} must")


def test_atoms_of_models_are_drawn_and_those_of_transposed_ones_refused():
    X = pp.datasets.rand(random_state=0).signals
    model = pp.KSVD(12, 3, max_iter=1, random_state=0).fit(X.T)
    learned = pp.dictionary.ksvd(X, 12, 3, max_iter=1, random_state=0)
    shown = [pp.plot.atoms(each).collections[1].get_segments() for each in (model, learned, model.operator_)]
    np.testing.assert_array_equal(shown[0], shown[1])
    np.testing.assert_array_equal(shown[0], shown[2])
    with pytest.raises(ValueError, match="rows of unit norm: give its transpose"):
        pp.plot.atoms(model.components_)
    with pytest.raises(ValueError, match=r"atom_shape must hold 12 entries.*32: is the dictionary transposed"):
        pp.plot.atoms(model.components_, 32)
    with pytest.raises(TypeError, match="dictionary must be a fitted estimator, got KSVD before fit"):
        pp.plot.atoms(pp.KSVD())


def test_treelets_with_names_without_a_tree_and_in_a_figure_are_drawn():
    named = pp.rotations.Treelets().fit(np.random.default_rng(0).standard_normal((9, 3)))
    named.feature_names_in_ = np.array(["length", "width", "height"])
    figure = Figure()
    _, vectors = pp.plot.treelets(named, figure=figure)
    assert len(figure.axes) == 2
    assert {label.get_text() for label in vectors.get_xticklabels()} == {"length", "width", "height"}
    pp.plot.treelets(pp.rotations.Treelets().fit(np.ones((3, 1))))
    pp.plot.treelets(pp.rotations.Treelets(3).fit(np.random.default_rng(0).standard_normal((9, 100))))
    with pytest.raises(ValueError, match="model must be fitted"):
        pp.plot.treelets(pp.rotations.Treelets())
