"""Compositions of convolutions against dense least squares, NumPy's FFT and planted kernels."""

import copy
import pickle
from functools import reduce

import numpy as np
import pytest
import scipy.signal
from matplotlib.figure import Figure

import papilio as pp
from papilio.constraints import Circulant
from papilio.convolution import operator, shift_invariant
from papilio.convolution.shift_invariant import Atoms
from papilio.convolution.spectra import Places, Restarts, spectra_of
from papilio.runtime.session import Session

from .helpers import gaussian


def on_grid(kernel, places, grid):
    """A kernel as an array of the grid."""
    found = np.zeros(grid, np.result_type(kernel, np.float64))
    np.add.at(found, tuple((places % np.array(grid)).T), kernel)
    return found


def convolved(*arrays):
    """Periodic convolutions by the Fourier transform."""
    found = np.fft.ifftn(np.prod([np.fft.fftn(each) for each in arrays], axis=0))
    return found if any(np.iscomplexobj(each) for each in arrays) else found.real


def planted(grid, supports, rng, density=None, dtype=np.float64):
    """Random unit kernels, a code (a single one, or sparse) and the signal that they make."""
    kernels = [gaussian((len(places),), dtype, int(rng.integers(1 << 30))) for places in supports]
    kernels = [kernel / np.linalg.norm(kernel) for kernel in kernels]
    code = np.zeros(grid, dtype)
    if density is None:
        code.flat[0] = 1
    else:
        chosen = rng.random(grid) < density
        code[chosen] = rng.standard_normal(int(chosen.sum()))
        code.flat[0] = 1
    whole = [on_grid(kernel, places, grid) for kernel, places in zip(kernels, supports, strict=True)]
    return kernels, code, convolved(code, *whole).astype(dtype)


GRIDS = {
    "line": ((15,), [np.array([[0], [1], [4]]), np.array([[-2], [3]])]),
    "even line": ((12,), [np.array([[0], [6], [3]]), np.array([[1], [2], [-1]])]),
    "image": ((6, 5), [*pp.convolution.kernel_supports((2, 2), [1]), np.array([[0, 0], [-2, 3], [1, -1]])]),
}


def design(code, others, places, grid):
    """The dense matrix whose columns are shifts of the code with all other kernels."""
    base = convolved(code, *others) if others else code
    return np.stack([np.roll(base, place, tuple(range(len(grid)))).ravel() for place in places], axis=1)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", GRIDS)
def test_a_sweep_is_one_dense_least_squares_problem_after_the_other(name, dtype):
    grid, supports = GRIDS[name]
    signals, codes = gaussian((2, *grid), dtype, 1), gaussian((2, *grid), dtype, 2)
    kernels = [gaussian((3, len(places)), dtype, k) for k, places in enumerate(supports)]
    chains = Restarts(
        spectra_of(signals, codes, len(grid)), [Places(p, grid, dtype == np.float64) for p in supports], kernels
    )
    chains.sweep()
    for restart in range(3):
        own = [kernel[restart] for kernel in kernels]
        for k, places in enumerate(supports):
            others = [on_grid(own[j], supports[j], grid) for j in range(len(own)) if j != k]
            A = np.concatenate([design(code, others, places, grid) for code in codes])
            own[k], *_ = np.linalg.lstsq(A, signals.ravel())
        whole = [on_grid(kernel, places, grid) for kernel, places in zip(own, supports, strict=True)]
        found = [
            on_grid(kernel[restart], places, grid) for kernel, places in zip(chains.kernels, supports, strict=True)
        ]
        np.testing.assert_allclose(convolved(*found), convolved(*whole), rtol=0, atol=1e-8)
        residuals = [y - convolved(x, *whole) for x, y in zip(codes, signals, strict=True)]
        rest = chains.data.rest
        np.testing.assert_allclose(chains.errors[restart] + rest, np.linalg.norm(residuals) ** 2, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", GRIDS)
def test_a_joint_step_solves_the_damped_dense_problem(name, dtype):
    grid, supports = GRIDS[name]
    signal, code = gaussian((1, *grid), dtype, 1), gaussian((1, *grid), dtype, 2)
    start = [gaussian((1, len(places)), dtype, k) for k, places in enumerate(supports)]
    places = [Places(each, grid, dtype == np.float64) for each in supports]
    chains = Restarts(spectra_of(signal, code, len(grid)), places, start)
    chains.damping[:] = 10.0  # With so much damping the step is taken.
    before = chains.errors.copy()
    chains.joint_step()
    assert (chains.errors < before).all()
    whole = [on_grid(kernel[0], each, grid) for kernel, each in zip(start, supports, strict=True)]
    J = np.concatenate(
        [design(code[0], whole[:k] + whole[k + 1 :], each, grid) for k, each in enumerate(supports)], axis=1
    )
    gram = J.conj().T @ J
    diagonal = np.diag(gram).real
    gram[np.diag_indices(len(gram))] += 10.0 * (diagonal + 1e-3 * diagonal.mean())
    step = np.linalg.solve(gram, J.conj().T @ (signal[0] - convolved(code[0], *whole)).ravel())
    ends = np.cumsum([len(each) for each in supports])[:-1]
    moved = [
        on_grid(kernel[0] + part, each, grid)
        for kernel, part, each in zip(start, np.split(step, ends), supports, strict=True)
    ]
    found = [on_grid(kernel[0], each, grid) for kernel, each in zip(chains.kernels, supports, strict=True)]
    np.testing.assert_allclose(convolved(*found), convolved(*moved), rtol=0, atol=1e-10)


def spread(rng, count, reach):
    return np.sort(rng.choice(reach, count, replace=False))[:, None]


PLANTED = {
    "line": ((128,), lambda rng: pp.convolution.kernel_supports(4, [1] * 4), None),
    "line with codes": ((100,), lambda rng: pp.convolution.kernel_supports(4, [1] * 3), 0.1),
    "spread places": ((61,), lambda rng: [spread(rng, 4, 12) for _ in range(4)], None),
    "image": ((32, 32), lambda rng: pp.convolution.kernel_supports((3, 3), [1] * 4), None),
    "image with codes, dilated": (
        (20, 17),
        lambda rng: pp.convolution.kernel_supports((3, 3), [1, 2], centered=True),
        0.05,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_kernels_are_found(name):
    grid, make, density = PLANTED[name]
    rng = np.random.default_rng(3)
    supports = make(rng)
    _, code, signal = planted(grid, supports, rng, density)
    before = signal.copy()
    fit = pp.convolution.convolution_chain(signal, None if density is None else code, supports)
    assert fit.error < 1e-6
    assert fit.status == "converged"
    np.testing.assert_allclose(fit.chain.apply(code), signal, rtol=0, atol=2e-6 * np.linalg.norm(signal))
    np.testing.assert_array_equal(signal, before)
    np.testing.assert_allclose([np.linalg.norm(kernel) for kernel in fit.chain.kernels], 1)
    assert (np.diff(fit.history.error) <= 0).all()
    assert fit.chain.scale > 0
    assert all(kernel[np.argmax(np.abs(kernel))] > 0 for kernel in fit.chain.kernels[1:])


def test_a_callback_and_the_clock_end_the_search():
    signal, supports = gaussian((64,), np.float64, 0), pp.convolution.kernel_supports(4, [1] * 4)
    fit = pp.convolution.convolution_chain(signal, None, supports, callback=lambda step: step.iteration == 3)
    assert (fit.status, fit.n_iter) == ("stopped", 3)
    assert pp.convolution.convolution_chain(signal, None, supports, time_budget=0).status == "stopped"
    large = gaussian((2, 120, 120), np.float64, 0)
    large_supports = pp.convolution.kernel_supports((3, 3), [1, 1])
    assert (
        pp.convolution.convolution_chain(large, large, large_supports, n_restarts=40, time_budget=0).status
        == "stopped"
    )
    assert pp.convolution.convolution_chain(signal, None, supports, max_iter=2).status == "max_iter"


# -- the operator ----------------------------------------------------------------------------------------

CHAINS = {
    "line": (50, [[0, 1, 2], [0, 25, -1], [-7]]),
    "image": ((33, 20), pp.convolution.kernel_supports((3, 3), [1, 2, 1], centered=True)),
    "one row": ((1, 16), [[(0, 0), (0, 1)], [(0, -3), (0, 8), (0, 2)]]),
    "far places": (
        (40, 24),
        [[(0, 0), (20, 12), (-19, 3)], [(39, 23), (0, 1)], [(1, 0), (2, 0), (-1, -1), (0, 7), (5, 5)]],
    ),
    "one value": ((5, 7), [[(2, 3)]]),
}


def chain_of(name, dtype=np.float64):
    grid, supports = CHAINS[name]
    kernels = [gaussian((len(places),), dtype, k) for k, places in enumerate(supports)]
    return pp.convolution.ConvolutionChain(kernels, supports, grid, -1.5)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("cache", [1, 320 << 10])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_is_the_convolution_by_the_fourier_transform(name, cache, n_threads, monkeypatch):
    monkeypatch.setattr(operator, "_TILE_BYTES", cache)  # Tiles have few rows.
    monkeypatch.setattr(operator, "_LEAST_WORK_PER_THREAD", 1)
    pp.set_num_threads(n_threads)
    try:
        chain = chain_of(name)
        images = gaussian((3, *chain.grid), np.float64, 9)
        whole = [on_grid(k, p, chain.grid) for k, p in zip(chain.kernels, chain.supports, strict=True)]
        expected = np.stack([chain.scale * convolved(image, *whole) for image in images])
        np.testing.assert_allclose(chain.apply(images), expected, atol=1e-12)
        np.testing.assert_allclose(chain @ images[0].ravel(), expected[0].ravel(), atol=1e-12)
        np.testing.assert_allclose(chain @ images.reshape(3, -1).T, expected.reshape(3, -1).T, atol=1e-12)
    finally:
        pp.set_num_threads(None)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_its_product_and_their_adjoints_are_the_same_matrix(name):
    chain = chain_of(name)
    dense = chain.toarray()
    product = chain.to_product()
    assert isinstance(product, pp.SparseProduct)
    factors = [factor.toarray() if hasattr(factor, "toarray") else factor for factor in product.factors]
    np.testing.assert_allclose(product.scale * reduce(np.matmul, factors), dense, atol=1e-12)
    assert product.nnz == chain.n_coefficients * chain.shape[0]
    np.testing.assert_allclose(chain.T.toarray(), dense.T, atol=1e-12)
    np.testing.assert_allclose(chain.atom.ravel(), dense[:, 0], atol=1e-12)
    x, y = gaussian((2, chain.shape[0]), np.float64, 1)
    assert np.vdot(y, chain @ x) == pytest.approx(np.vdot(chain.rmatvec(y), x))


def test_single_precision_stays_and_scipy_agrees_away_from_the_border():
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((6, 9)).astype(np.float32)
    chain = pp.convolution.ConvolutionChain(
        kernels, pp.convolution.kernel_supports((3, 3), [1] * 6, centered=True), (64, 48)
    )
    image = rng.standard_normal((64, 48)).astype(np.float32)
    composed = np.ones((1, 1))
    for kernel in kernels:
        composed = scipy.signal.convolve2d(composed, kernel.reshape(3, 3))
    expected = scipy.signal.fftconvolve(image.astype(float), composed, mode="same")
    result = chain.apply(image)
    assert result.dtype == np.float32
    scale = np.abs(expected).max()
    np.testing.assert_allclose(result[6:-6, 6:-6] / scale, expected[6:-6, 6:-6] / scale, atol=1e-5)
    assert chain.astype(np.float64).dtype == np.float64


# -- dictionaries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(30,), (12, 9), (40, 7)])
def test_pursuit_with_all_shifts_is_matching_pursuit_in_the_dense_dictionary(grid):
    rng = np.random.default_rng(0)
    n_axes = len(grid)
    supports = pp.convolution.kernel_supports(3 if n_axes == 1 else (2, 3), [1, 2])
    atoms = np.stack([planted(grid, supports, rng)[2] for _ in range(3)])
    atoms /= np.linalg.norm(atoms.reshape(3, -1), axis=1).reshape(3, *[1] * n_axes)
    image = rng.standard_normal(grid)
    shifts = list(np.ndindex(*grid))
    D = np.stack([np.roll(atom, s, tuple(range(n_axes))).ravel() for atom in atoms for s in shifts], axis=1)
    found, taken_again = Atoms(atoms, supports), 0
    residual, expected = image.ravel().copy(), np.zeros(D.shape[1])
    while np.count_nonzero(expected) < 25:
        correlations = D.T @ residual
        best = np.argmax(np.abs(correlations))
        taken_again += expected[best] != 0
        expected[best] += correlations[best]
        residual -= correlations[best] * D[:, best]
    assert taken_again or n_axes == 2
    np.testing.assert_allclose(found.pursue(Session(), image, 25).ravel(), expected, atol=1e-10)
    codes = found.pursue(Session(), image, 8)
    support = codes.ravel() != 0
    fitted, *_ = np.linalg.lstsq(D[:, support], image.ravel())
    np.testing.assert_allclose(found.refit(image, codes).ravel()[support], fitted, atol=1e-5)


@pytest.fixture(scope="module")
def learned():
    """Images of planted atoms, and what is learned from them with their codes."""
    rng = np.random.default_rng(5)
    grid, supports = (24, 20), pp.convolution.kernel_supports((2, 2), [1, 2])
    chains = [pp.convolution.ConvolutionChain(planted(grid, supports, rng)[0], supports, grid) for _ in range(2)]
    codes = np.where(rng.random((2, 2, *grid)) < 0.05, rng.standard_normal((2, 2, *grid)), 0)
    images = sum(chain.apply(codes[:, m]) for m, chain in enumerate(chains))
    return images, codes, chains, supports


def test_kernels_of_known_codes_are_found(learned):
    images, codes, chains, supports = learned
    found = pp.convolution.convolutional_dictionary(images, 2, supports, 100, codes=codes, max_iter=200, tol=0)
    assert found.error < 1e-4
    for own, planted_chain in zip(found.atoms, chains, strict=True):
        atom = planted_chain.atom
        assert abs((own * atom).sum()) / np.linalg.norm(atom) == pytest.approx(1, abs=1e-3)


def test_a_dictionary_improves_and_codes_as_sparsely_as_asked(learned):
    images, _, _, supports = learned
    steps = []
    found = pp.convolution.convolutional_dictionary(
        1e3 * images, 2, supports, 60, max_iter=8, callback=steps.append
    )
    errors = found.history.error
    assert len(steps) >= len(errors) >= 2
    assert (np.diff(errors) <= 1e-12).all()
    assert errors[-1] < 0.9 * errors[0]
    assert found.codes.shape == (2, 2, 24, 20)
    assert [np.count_nonzero(each) for each in found.codes] <= [60, 60]
    residual = 1e3 * images - found.reconstruct()
    assert np.linalg.norm(residual) / np.linalg.norm(1e3 * images) == pytest.approx(found.error)
    np.testing.assert_allclose(np.linalg.norm(found.atoms, axis=(1, 2)), 1)
    codes = found.encode(1e3 * images, 60)
    again = np.linalg.norm(1e3 * images - found.reconstruct(codes)) / np.linalg.norm(1e3 * images)
    assert again < 1.2 * found.error


def test_an_unused_atom_starts_again_from_the_residual(learned, monkeypatch):
    images, codes, _, supports = learned
    codes = codes.copy()
    codes[:, 1] = 0
    starts, start = [], shift_invariant._Learning._start

    def recorded(self, patches):
        starts.append((patches.copy(), start(self, patches)))
        return [kernel.copy() for kernel in starts[-1][1]]

    monkeypatch.setattr(shift_invariant._Learning, "_start", recorded)
    found = pp.convolution.convolutional_dictionary(images, 2, supports, 100, codes=codes, max_iter=1)
    assert len(starts) == 3  # one for each atom, and a new one for the second
    residual = images - found.reconstruct()
    patches, kernels = starts[2]
    np.testing.assert_allclose(patches / np.linalg.norm(patches), residual / np.linalg.norm(residual), atol=1e-12)
    for kernel, expected in zip(found.chains[1].kernels, kernels, strict=True):
        expected = expected[0] / np.linalg.norm(expected)
        np.testing.assert_allclose(kernel, expected, atol=1e-12)


def test_learning_repeats_keeps_the_dtype_and_stops(learned):
    images, _, _, supports = learned
    one = pp.convolution.convolutional_dictionary(images[0].astype(np.float32), 3, supports, 20, max_iter=2)
    two = pp.convolution.convolutional_dictionary(images[0].astype(np.float32), 3, supports, 20, max_iter=2)
    assert one.codes.dtype == one.chains[0].dtype == np.float32
    np.testing.assert_array_equal(one.codes, two.codes)
    stopped = pp.convolution.convolutional_dictionary(images, 2, supports, 20, callback=lambda step: True)
    assert stopped.status == "stopped"
    assert len(stopped.history) <= 1  # the callback is called between steps, too


# -- figures and bad input -------------------------------------------------------------------------------


def test_the_atom_and_its_kernels_are_drawn():
    chain = chain_of("image")
    target = np.zeros(chain.grid)
    axes = pp.plot.convolutions(chain, target, figure=Figure())
    assert [ax.get_title() for ax in axes] == ["target", "composed"] + [f"kernel {k}: 9 places" for k in (1, 2, 3)]
    np.testing.assert_allclose(axes[2].images[0].get_array(), chain.kernels[0].reshape(3, 3))
    line = pp.convolution.ConvolutionChain([[1, 2], [3]], [[0, 1], [2]], 8)
    axes = pp.plot.convolutions(line, np.ones(8), figure=Figure())
    np.testing.assert_allclose(axes[0].lines[1].get_ydata(), [3, 6])
    assert len(axes) == 3
    for wrong in (lambda: pp.plot.convolutions(5), lambda: pp.plot.convolutions(line, figure=axes[0])):
        with pytest.raises(TypeError, match="must be a"):
            wrong()
    with pytest.raises(ValueError, match="target must have shape"):
        pp.plot.convolutions(line, np.ones(7))


Y, X = np.arange(1.0, 9.0), np.eye(8)[0]
fit, learn = pp.convolution.convolution_chain, pp.convolution.convolutional_dictionary
chain, boxes = pp.convolution.ConvolutionChain, pp.convolution.kernel_supports
BAD = {
    "supports must hold the places of 1 to 1000 kernels, got 0": lambda: fit(Y, X, []),
    "supports must be a sequence": lambda: fit(Y, X, 3),
    r"supports\[1\] must have at least one place": lambda: fit(Y, X, [[0], []]),
    r"supports\[0\] must have places on the grid \(8,\), from -8 to 7, got 8": lambda: fit(Y, X, [[0, 8]]),
    r"from -9 to 8|got -9": lambda: fit(Y, X, [[0, -9]]),
    r"supports\[0\] must have distinct places .* got 1 twice": lambda: fit(Y, X, [[1, -7]]),
    r"supports\[0\] must hold integers": lambda: fit(Y, X, [[0.0, 1.0]]),
    r"supports\[1\] must have places in 1 dimensions": lambda: fit(Y, X, [[0], [(0, 1)]]),
    "signal must have 2 dimensions": lambda: fit(Y, X, [[(0, 1)]]),
    "signal must not be zero": lambda: fit(0 * Y, X, [[0]]),
    "codes must not be zero": lambda: fit(Y, 0 * X, [[0]]),
    "signal must hold finite": lambda: fit(Y * np.nan, X, [[0]]),
    "codes must hold finite": lambda: fit(Y, X + np.inf, [[0]]),
    "codes must have shape": lambda: fit(Y, X[:5], [[0]]),
    "codes must be given for several": lambda: fit(np.ones((2, 8)), None, [[0]]),
    "signal must not be empty": lambda: fit(np.ones(0), None, [[0]]),
    "signal must have a non-zero entry at": lambda: fit(X, None, [[3, 4]]),
    "n_restarts must be": lambda: fit(Y, X, [[0]], n_restarts=0),
    "max_iter must be": lambda: fit(Y, X, [[0]], max_iter=0),
    "tol must be": lambda: fit(Y, X, [[0]], tol=-1),
    "init must hold 1 kernels": lambda: fit(Y, X, [[0]], init=[]),
    r"init\[0\] must have 1 values": lambda: fit(Y, X, [[0]], init=[[1, 2]]),
    r"init\[0\] must not be zero": lambda: fit(Y, X, [[0]], init=[[0]]),
    r"init\[0\] must be real": lambda: fit(Y, X, [[0]], init=[[1j]]),
    "kernels must hold": lambda: chain([[1]], [[0], [1]], 8),
    r"kernels\[0\] must have 2 values": lambda: chain([[1]], [[0, 1]], 8),
    r"kernels\[0\] must hold finite": lambda: chain([[np.nan]], [[0]], 8),
    "grid must have one or two dimensions": lambda: chain([[1]], [[0]], (2, 2, 2)),
    r"images must have shape \(..., 8\)": lambda: chain([[1]], [[0]], 8).apply(np.ones(7)),
    "dtype must be float32": lambda: chain([[1]], [[0]], 8).astype(int),
    "size must be": lambda: boxes((1, 2, 3), [1]),
    "dilations must be a sequence": lambda: boxes(3, []),
    r"dilations\[0\] must be": lambda: boxes(3, [0]),
    "images must have 1 dimensions": lambda: learn(np.ones((2, 2, 8)), 1, [[0]], 1),
    "images must be real": lambda: learn(1j * Y, 1, [[0]], 1),
    "images must not be zero": lambda: learn(0 * Y, 1, [[0]], 1),
    "n_atoms must be": lambda: learn(Y, 0, [[0]], 1),
    "n_nonzero_coefs must be": lambda: learn(Y, 1, [[0]], 9),
    r"codes must have shape \(1, 2, 8\)": lambda: learn(Y, 2, [[0]], 1, codes=np.ones(8)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_named(message):
    with pytest.raises((ValueError, TypeError), match=message):
        BAD[message]()


# -- PALM with convolutional constraints -----------------------------------------------------------------


@pytest.mark.parametrize(("grid", "size"), [pytest.param((16,), 3, marks=pytest.mark.slow), ((5, 6), (2, 2))])
def test_palm_finds_two_planted_convolutions(grid, size):
    supports = pp.convolution.kernel_supports(size, [1, 1])
    kernels, _, atom = planted(grid, supports, np.random.default_rng(1))
    target = pp.convolution.ConvolutionChain(kernels, supports, grid).toarray()
    sets = [Circulant(int(np.prod(grid)), support=places, grid=grid) for places in supports]
    rng = np.random.default_rng(0)
    starts = ([each.project(rng.standard_normal(each.shape)) for each in sets] for _ in range(5))
    fits = [pp.palm(target, sets, init=start, max_iter=400, inertia=True, tol=1e-9) for start in starts]
    best = min(fits, key=lambda fit: fit.error)
    assert best.error < 1e-2
    for factor, each in zip(best.operator.factors, sets, strict=True):
        assert each.contains(factor)
    # The kernels are the first columns; from there, joint steps of all kernels go on.
    kernels = [
        factor.toarray()[np.ravel_multi_index(places.T, grid), 0]
        for factor, places in zip(best.operator.factors, supports, strict=True)
    ]
    assert pp.convolution.convolution_chain(atom, None, supports, init=kernels, n_restarts=0).error < 1e-6


def test_hierarchical_splits_convolutions():
    supports = [np.arange(3)[:, None]] * 3
    kernels, _, _ = planted((16,), supports, np.random.default_rng(2))
    target = pp.convolution.ConvolutionChain(kernels, supports, 16).toarray()
    three, five = Circulant(16, support=np.arange(3)), Circulant(16, support=np.arange(5))
    fit = pp.hierarchical(target, pp.Schedule([three, three], [five, three]))
    assert fit.error < 0.5
    for factor in fit.operator.factors:
        assert three.contains(factor)


def test_chains_are_copied_pickled_and_described():
    chain = chain_of("image")
    _ = chain.atom
    for twin in (copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
        np.testing.assert_array_equal(twin.atom, chain.atom)
    assert repr(chain) == "<ConvolutionChain on a grid of 33×20, 9+9+9 places, float64>"
    with pytest.raises(ValueError, match="read-only"):
        chain.kernels[0][0] = 1


def test_codes_that_are_worse_than_before_are_not_taken():
    image = gaussian((20, 16), np.float64, 0)
    errors = pp.convolution.convolutional_dictionary(
        image, 2, pp.convolution.kernel_supports((2, 2), [1, 2]), 200, max_iter=20, tol=0
    ).history.error
    assert (np.diff(errors) <= 1e-12).all()


def test_complex_chains_and_images():
    chain = chain_of("image", np.complex128)
    x, y = gaussian((2, chain.shape[0]), np.complex128, 1)
    assert np.vdot(y, chain @ x) == pytest.approx(np.vdot(chain.H @ y, x))
    real = chain_of("image")
    np.testing.assert_allclose(real @ x, (real @ x.real) + 1j * (real @ x.imag))
