"""The synthetic data have the paper's law and structure, the patches are those of the photographs."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import maximum_bipartite_matching

from papilio import SparseProduct, datasets
from papilio.datasets import (
    Synthetic,
    fact,
    factorizable_dictionary,
    image_patches,
    rand,
    random_dictionary,
    synthetic_signals,
)
from papilio.transforms import hadamard

from .helpers import as_array

DRAWS = {
    "random_dictionary": lambda state: [random_dictionary(random_state=state)],
    "factorizable_dictionary": lambda state: [factorizable_dictionary(random_state=state).toarray()],
    "synthetic_signals": lambda state: [
        as_array(part) for part in synthetic_signals(np.eye(9), random_state=state)
    ],
    "rand": lambda state: [as_array(part) for part in rand(random_state=state)],
    "fact": lambda state: [as_array(part) for part in fact(random_state=state)],
    "image_patches": lambda state: [image_patches(50, random_state=state)],
}


def is_standard_gaussian(values):
    return scipy.stats.kstest(values, "norm").pvalue > 1e-3


# -- randomness ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_one_seed_gives_one_result(draw):
    first, again, other = draw(7), draw(7), draw(8)
    of_states = draw(np.random.RandomState(7))
    for one, two, three, four in zip(first, again, of_states, other, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)
        assert not np.array_equal(one, four)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("bad", [-1, 2**32, 1.5, "seed", np.timedelta64(3, "s")])
def test_a_bad_random_state_is_named(draw, bad):
    with pytest.raises(ValueError, match=r"^random_state must"):
        draw(bad)


@pytest.mark.parametrize(
    ("draw", "named"),
    [
        (lambda: random_dictionary(2**40), "n_features"),
        (lambda: factorizable_dictionary(2**40), "n_features"),
        (lambda: synthetic_signals(np.eye(9), 2**40), "n_signals"),
        (lambda: image_patches(2**40), "n_patches"),
    ],
)
def test_sizes_beyond_the_memory_are_refused_by_name(draw, named):
    with pytest.raises(ValueError, match=f"^{named} must leave a result that fits into memory"):
        draw()


# -- dictionaries --------------------------------------------------------------------------------------


def test_random_dictionaries_are_gaussian_and_not_normalised():
    D = random_dictionary(100, 200, random_state=0)
    assert D.shape == (100, 200)
    assert D.dtype == np.float64
    assert is_standard_gaussian(D.ravel())
    assert np.linalg.norm(D, axis=0).std() > 0.1
    assert random_dictionary().shape == (32, 32)
    assert random_dictionary(5).shape == (5, 5)


@settings(max_examples=25, deadline=None)
@given(side=st.integers(1, 40), n_factors=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_factorizable_dictionaries_have_the_papers_structure(side, n_factors, seed):
    D = factorizable_dictionary(side, n_factors, random_state=seed)
    assert isinstance(D, SparseProduct)
    assert D.shape == (side, side)
    assert D.dtype == np.float64
    assert D.scale == 1.0
    assert len(D.factors) == n_factors
    for factor in D.factors:
        assert factor.shape == (side, side)
        assert min(2 * side, side**2) <= factor.size <= min(4 * side, side**2)
        assert (maximum_bipartite_matching(sp.csr_array(factor)) >= 0).all()
    for factor in D.factors[:-1]:
        assert np.linalg.matrix_rank(as_array(factor)) == side
    np.testing.assert_allclose(np.linalg.norm(D.toarray(), axis=0), 1.0, rtol=1e-12)


def test_a_dictionary_of_one_feature_is_a_sign():
    D = factorizable_dictionary(1, random_state=0)
    assert abs(D.toarray()[0, 0]) == pytest.approx(1.0)
    assert D.nnz == 5


# -- signals -------------------------------------------------------------------------------------------


def test_signals_are_the_dictionary_times_their_codes():
    D = random_dictionary(10, 15, random_state=0)
    X, codes = synthetic_signals(D, 40, 3, random_state=1)
    assert X.shape == (10, 40)
    assert isinstance(codes, sp.csc_array)
    assert codes.shape == (15, 40)
    assert codes.has_canonical_format
    np.testing.assert_array_equal(np.diff(codes.indptr), 3)
    G = codes.toarray()
    for j in range(40):
        np.testing.assert_allclose(X[:, j], sum(D[:, k] * G[k, j] for k in range(15)), atol=1e-13)


def test_atoms_are_chosen_uniformly_and_coefficients_are_gaussian():
    _, codes = synthetic_signals(np.eye(5), 20_000, 2, random_state=0)
    pairs = codes.indices.reshape(-1, 2)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    _, counts = np.unique(pairs, axis=0, return_counts=True)
    assert counts.size == 10
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    assert is_standard_gaussian(codes.data)
    assert is_standard_gaussian(codes.data[::2])  # whatever the place


@pytest.mark.parametrize(("values", "law"), [("half-normal", "halfnorm"), ("uniform", "uniform")])
def test_coefficients_may_be_drawn_without_signs_at_the_same_places(values, law):
    X, codes = synthetic_signals(np.eye(5), 4_000, 2, values=values, random_state=0)
    assert (X >= 0).all()
    assert scipy.stats.kstest(codes.data, law).pvalue > 1e-3
    _, others = synthetic_signals(np.eye(5), 4_000, 2, random_state=0)
    np.testing.assert_array_equal(codes.indices, others.indices)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda D: SparseProduct([D])])
def test_signals_have_the_dictionarys_dtype_and_codes_its_precision(dtype, form):
    D = random_dictionary(8, random_state=0).astype(dtype) * dtype(1 + 1j if np.dtype(dtype).kind == "c" else 1)
    X, codes = synthetic_signals(form(D), 20, 3, random_state=0)
    assert X.dtype == dtype
    assert codes.dtype == dtype(0).real.dtype
    assert X.flags.c_contiguous
    np.testing.assert_allclose(X, D @ codes.toarray(), rtol=0, atol=1e-5)


# -- the paper's experiments ---------------------------------------------------------------------------


@pytest.mark.parametrize("make", [rand, fact])
def test_the_papers_experiments_have_the_papers_sizes(make):
    result = make(random_state=0)
    assert isinstance(result, Synthetic)
    signals, dictionary, codes = result
    assert signals.shape == (32, 500)
    assert dictionary.shape == (32, 32)
    assert codes.shape == (32, 500)
    np.testing.assert_array_equal(np.diff(codes.indptr), 5)
    np.testing.assert_allclose(signals, as_array(dictionary) @ codes.toarray(), atol=1e-12)
    smaller = make(20, n_features=9, n_nonzero_coefs=2, random_state=0)
    assert smaller.signals.shape == (9, 20)
    assert smaller.codes.nnz == 40


# -- patches -------------------------------------------------------------------------------------------


def grey(name):
    from sklearn.datasets import load_sample_image

    red, green, blue = np.moveaxis(load_sample_image(f"{name}.jpg").astype(float) / 255, 2, 0)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def places_of(patch, image):
    """Where ``image`` holds ``patch``, up to rounding."""
    windows = np.lib.stride_tricks.sliding_window_view(image, patch.shape)
    rows, columns = np.nonzero(np.abs(windows[:, :, 0, 0] - patch[0, 0]) < 1e-9)
    same = np.abs(windows[rows, columns] - patch).max(axis=(1, 2)) < 1e-9
    return list(zip(rows[same].tolist(), columns[same].tolist(), strict=True))


@pytest.mark.parametrize("size", [(8, 8), (3, 11), (20, 6)])
def test_patches_are_parts_of_the_photographs(size):
    patches = image_patches(20, size, remove_mean=False, random_state=0)
    assert patches.shape == (20, size[0] * size[1])
    assert patches.flags.c_contiguous
    assert patches.min() >= 0
    assert patches.max() <= 1
    china, flower = grey("china"), grey("flower")
    of_china = [bool(places_of(patch.reshape(size), china)) for patch in patches]
    of_flower = [bool(places_of(patch.reshape(size), flower)) for patch in patches]
    assert np.logical_or(of_china, of_flower).all()
    assert any(of_china)
    assert any(of_flower)


@pytest.mark.parametrize("name", ["china", "flower"])
def test_one_image_may_be_chosen(name):
    patches = image_patches(10, images=name, remove_mean=False, random_state=0)
    assert all(places_of(patch.reshape(8, 8), grey(name)) for patch in patches)
    np.testing.assert_array_equal(patches, image_patches(10, images=[name], remove_mean=False, random_state=0))


def test_the_default_is_ten_thousand_patches_of_8_by_8_without_their_means():
    patches = image_patches(random_state=0)
    assert patches.shape == (10_000, 64)
    assert patches.dtype == np.float64
    assert np.abs(patches.mean(axis=1)).max() < 1e-15
    raw = image_patches(remove_mean=False, random_state=0)
    np.testing.assert_array_equal(patches, raw - raw.mean(axis=1, keepdims=True))


SMALL = {"china": np.arange(42.0).reshape(6, 7) / 100, "flower": 0.5 + np.arange(20.0).reshape(5, 4) / 100}


@pytest.fixture
def small_images(monkeypatch):
    """Images of different sizes in which no two pixels are equal, so that the first pixel tells the place."""
    monkeypatch.setattr(datasets, "_luminances", SMALL.get)


def all_patches(rows, columns, names=("china", "flower")):
    return [
        SMALL[name][i : i + rows, j : j + columns].ravel()
        for name in names
        for i in range(SMALL[name].shape[0] - rows + 1)
        for j in range(SMALL[name].shape[1] - columns + 1)
    ]


@pytest.mark.usefixtures("small_images")
def test_all_places_of_all_images_are_equally_likely():
    expected = [patch[0] for patch in all_patches(3, 2)]
    patches = image_patches(5000, (3, 2), remove_mean=False, random_state=0)
    values, counts = np.unique(patches[:, 0], return_counts=True)
    np.testing.assert_array_equal(values, np.sort(expected))
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.usefixtures("small_images")
def test_a_patch_must_fit_into_every_image():
    assert image_patches(1, (5, 4)).shape == (1, 20)
    assert image_patches(1, (6, 7), images="china").shape == (1, 42)
    with pytest.raises(ValueError, match=r"^patch_size must.*flower"):
        image_patches(1, (6, 4))


# -- input, import -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: random_dictionary(0), ValueError, "n_features"),
        (lambda: random_dictionary(2.5), TypeError, "n_features"),
        (lambda: random_dictionary(4, 0), ValueError, "n_components"),
        (lambda: factorizable_dictionary(0), ValueError, "n_features"),
        (lambda: factorizable_dictionary(4, 0), ValueError, "n_factors"),
        (lambda: factorizable_dictionary(4, "5"), TypeError, "n_factors"),
        (lambda: synthetic_signals([1.0, 2.0]), ValueError, "dictionary"),
        (lambda: synthetic_signals([[np.nan]]), ValueError, "dictionary"),
        (lambda: synthetic_signals(np.ones((3, 0))), ValueError, "dictionary"),
        (lambda: synthetic_signals(np.eye(9), 0), ValueError, "n_signals"),
        (lambda: synthetic_signals(np.eye(9), 5, 0), ValueError, "n_nonzero_coefs"),
        (lambda: synthetic_signals(np.eye(4)), ValueError, "n_nonzero_coefs"),
        (lambda: synthetic_signals(hadamard(4)), ValueError, "n_nonzero_coefs"),
        (lambda: synthetic_signals(np.eye(9), values="gamma"), ValueError, "values"),
        (lambda: rand(0), ValueError, "n_signals"),
        (lambda: rand(n_features=3), ValueError, "n_nonzero_coefs"),
        (lambda: fact(n_features=0), ValueError, "n_features"),
        (lambda: fact(n_nonzero_coefs=True), TypeError, "n_nonzero_coefs"),
        (lambda: image_patches(0), ValueError, "n_patches"),
        (lambda: image_patches(10, 0), ValueError, "patch_size"),
        (lambda: image_patches(10, 428), ValueError, "patch_size"),
        (lambda: image_patches(10, (8, 641)), ValueError, "patch_size"),
        (lambda: image_patches(10, (8, 8, 3)), ValueError, "patch_size"),
        (lambda: image_patches(10, 8.0), TypeError, "patch_size"),
        (lambda: image_patches(10, images="lena"), ValueError, "images"),
        (lambda: image_patches(10, images=["china", "lena"]), ValueError, "images"),
        (lambda: image_patches(10, images=[]), ValueError, "images"),
        (lambda: image_patches(10, images=3), ValueError, "images"),
        (lambda: image_patches(10, dtype=np.uint8), TypeError, "dtype"),
        (lambda: image_patches(10, dtype=complex), TypeError, "dtype"),
    ],
)
def test_bad_arguments_are_named(make, error, named):
    with pytest.raises(error, match=f"^{named} must"):
        make()


def test_without_pillow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"needs Pillow: pip install pillow"):
        image_patches(10)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_random_state_moves_on(draw, make):
    state = make(7)
    assert not np.array_equal(draw(state)[0], draw(state)[0])
    assert not np.array_equal(draw(None)[0], draw(None)[0])
