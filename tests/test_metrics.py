"""The measures of dictionaries against their definitions, in plain loops."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from papilio import SparseProduct, metrics
from papilio.metrics import mean_max_cosine, mutual_coherence, psnr, recovery_rate, rmse, ssim
from papilio.transforms import dft, hadamard

from .helpers import DTYPES, gaussian

NAMES = ["signals", "dictionary", "codes"]
SEEDS = st.integers(0, 2**32 - 1)


def data(dtype=np.float64, seed=0):
    """Signals (5, 30), a dictionary (5, 7) and codes (7, 30) with many zeros."""
    mask = np.random.default_rng(seed + 3).random((7, 30)) < 0.4
    return (
        gaussian((5, 30), dtype, seed),
        gaussian((5, 7), dtype, seed + 1),
        gaussian((7, 30), dtype, seed + 2) * mask,
    )


def plain_similarity(left, right):
    sizes = np.sqrt(sum(abs(x) ** 2 for x in left)) * np.sqrt(sum(abs(x) ** 2 for x in right))
    return abs(sum(np.conj(x) * y for x, y in zip(left, right, strict=True))) / sizes if sizes else 0.0


def plain_similarities(left, right):
    return np.array([[plain_similarity(x, y) for y in right.T] for x in left.T])


def most_pairs(allowed):
    """The largest number of pairs, by trying every way to give each row a column of its own, or none."""
    n_rows, n_columns = allowed.shape
    spare = list(range(n_columns)) + [-1] * n_rows
    ways = set(itertools.permutations(spare, n_rows))
    return max(sum(j >= 0 and allowed[i, j] for i, j in enumerate(way)) for way in ways)


# -- rmse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_rmse_is_the_root_of_the_mean_squared_error(dtype):
    X, D, G = data(dtype)
    X, D, G = (array.astype(np.result_type(array, np.float64)) for array in (X, D, G))
    squares = [abs(X[i, j] - sum(D[i, k] * G[k, j] for k in range(7))) ** 2 for i in range(5) for j in range(30)]
    result = rmse(*data(dtype))
    assert type(result) is float
    assert result == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", [sp.csc_array, sp.csr_array, sp.coo_array, sp.csr_matrix])
def test_sparse_codes_and_products_give_the_same_rmse(dtype, form):
    X, D, G = data(dtype)
    product = SparseProduct([D, np.eye(7, dtype=dtype)], scale=1.0)
    expected = rmse(X, D, G)
    for dictionary, codes in [(D, form(G)), (product, G), (product, form(G)), (sp.csr_array(D), form(G))]:
        assert rmse(X, dictionary, codes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ((np.ones((5, 3)), np.ones((4, 2)), np.ones((2, 3))), ValueError, "dictionary"),
        ((np.ones((4, 3)), SparseProduct([np.ones((5, 2))]), np.ones((2, 3))), ValueError, "dictionary"),
        ((np.ones((4, 3)), np.ones((4, 2)), np.ones((3, 3))), ValueError, "codes"),
        ((np.ones((4, 3)), np.ones((4, 2)), np.ones((2, 4))), ValueError, "codes"),
        ((np.ones((4, 3)), np.ones((4, 2)), sp.csc_array(np.ones((2, 4)))), ValueError, "codes"),
        ((np.ones(4), np.ones((4, 2)), np.ones((2, 1))), ValueError, "signals"),
        ((np.ones((4, 0)), np.ones((4, 2)), np.ones((2, 0))), ValueError, "signals"),
        (([[np.nan]], [[1]], [[1]]), ValueError, "signals"),
        (([[1]], [[np.inf]], [[1]]), ValueError, "dictionary"),
        (([[1]], [[1]], [[np.nan]]), ValueError, "codes"),
        (([[1]], [[1]], sp.csr_array([[np.nan]])), ValueError, "codes"),
        (([["a"]], [[1]], [[1]]), TypeError, "signals"),
    ],
)
def test_bad_arguments_of_rmse_are_named(arguments, error, named):
    with pytest.raises(error, match=f"^{named} must"):
        rmse(*arguments)


# -- recovery_rate -------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, learned=st.integers(1, 4), wanted=st.integers(1, 4), threshold=st.floats(0, 1))
def test_recovery_counts_the_most_pairs_there_can_be(seed, learned, wanted, threshold):
    # Few features and a reference made of similar atoms: many matches, and conflicts between them.
    D = gaussian((2, learned), seed=seed)
    R = gaussian((2, wanted), seed=seed + 1)
    similarities = plain_similarities(R, D)
    if np.abs(similarities - threshold).min() > 1e-12:
        assert recovery_rate(D, R, threshold) == most_pairs(similarities > threshold) / wanted


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, dtype=st.sampled_from([np.float64, np.complex128]))
def test_recovery_agrees_with_an_optimal_assignment(seed, dtype):
    D, R = gaussian((3, 12), dtype, seed), gaussian((3, 9), dtype, seed + 1)
    allowed = plain_similarities(R, D) > 0.9
    assert recovery_rate(D, R, 0.9) == allowed[linear_sum_assignment(allowed, maximize=True)].sum() / 9


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_sign_phase_and_norm_do_not_matter(dtype):
    R = gaussian((8, 12), dtype)
    rng = np.random.default_rng(1)
    signs = np.exp(2j * np.pi * rng.random(12)) if np.dtype(dtype).kind == "c" else rng.choice([-1, 1], 12)
    D = (R * signs * rng.uniform(0.1, 10, 12))[:, rng.permutation(12)].astype(dtype)
    assert recovery_rate(D, R) == 1.0
    D[:, :3] = gaussian((8, 3), dtype, 2)
    assert recovery_rate(D, R) == 0.75


def test_the_phase_of_complex_atoms_is_free_but_not_their_shape():
    R = np.array([[1.0], [1j]])
    assert recovery_rate(1j * R, R) == 1.0
    assert recovery_rate(R.conj(), R) == 0.0


@pytest.mark.parametrize("angle", [0.13, 0.16])
def test_the_threshold_is_aharons(angle):
    D, R = np.array([[np.cos(angle)], [np.sin(angle)]]), np.array([[1.0], [0.0]])
    assert recovery_rate(D, R) == float(1 - abs(np.cos(angle)) < 0.01)


def test_products_are_dictionaries_and_references():
    H = hadamard(8)
    assert recovery_rate(H, H.toarray()[:, ::-1]) == recovery_rate(-H.toarray(), H) == 1.0
    assert recovery_rate(dft(8), dft(8)) == 1.0
    assert type(recovery_rate(H, H)) is float


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ((np.eye(3), np.eye(4)), ValueError, "dictionary"),
        ((np.ones(3), np.eye(3)), ValueError, "dictionary"),
        (([[np.nan]], [[1]]), ValueError, "dictionary"),
        ((np.ones((3, 0)), np.eye(3)), ValueError, "dictionary"),
        (([[1]], [[np.inf]]), ValueError, "reference"),
        ((np.eye(3), np.ones((3, 0))), ValueError, "reference"),
        (([[1]], [["a"]]), TypeError, "reference"),
        ((np.eye(3), np.eye(3), 1.5), ValueError, "threshold"),
        ((np.eye(3), np.eye(3), -0.1), ValueError, "threshold"),
        ((np.eye(3), np.eye(3), np.nan), ValueError, "threshold"),
        ((np.eye(3), np.eye(3), "0.9"), TypeError, "threshold"),
    ],
)
def test_bad_arguments_of_recovery_rate_are_named(arguments, error, named):
    with pytest.raises(error, match=f"^{named} must"):
        recovery_rate(*arguments)


# -- mean_max_cosine -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_mean_is_that_of_the_largest_cosine_of_each_atom_of_the_reference(dtype):
    D, R = gaussian((3, 6), dtype), gaussian((3, 4), dtype, 1)
    D[:, 2], wide = 0, np.result_type(dtype, np.float64)
    cosines = [[_cosine(x.astype(wide), y.astype(wide)) for y in D.T] for x in R.T]
    result = mean_max_cosine(D, R)
    assert type(result) is float
    assert result == pytest.approx(np.mean([max(map(abs, row)) for row in cosines]), rel=1e-12)
    signed = np.mean([max(value.real for value in row) for row in cosines])
    assert mean_max_cosine(D, R, signed=True) == pytest.approx(signed, rel=1e-12)


def _cosine(left, right):
    sizes = np.linalg.norm(left) * np.linalg.norm(right)
    return np.vdot(left, right) / sizes if sizes else 0.0


def test_opposite_atoms_are_alike_unless_signs_count():
    R = gaussian((5, 3))
    assert mean_max_cosine(-2 * R[:, ::-1], R) == pytest.approx(1.0)
    assert mean_max_cosine(R * [1, 7, 1e-3], R, signed=True) == pytest.approx(1.0)
    assert mean_max_cosine(-R[:, :1], R[:, :1], signed=True) == pytest.approx(-1.0)
    assert max(mean_max_cosine(R, R), mean_max_cosine(R, R, signed=True)) <= 1.0


def test_all_atoms_of_the_reference_count_and_products_are_dictionaries():
    assert mean_max_cosine(np.eye(4)[:, :3], np.eye(4)) == 0.75
    assert mean_max_cosine(np.eye(4), np.eye(4)[:, :3], signed=True) == 1.0
    assert mean_max_cosine(hadamard(8), hadamard(8).toarray()) == pytest.approx(1.0)


# -- mutual_coherence ----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, features=st.integers(1, 4), atoms=st.integers(1, 6), dtype=st.sampled_from(DTYPES))
def test_coherence_is_the_largest_similarity_of_two_atoms(seed, features, atoms, dtype):
    D = gaussian((features, atoms), dtype, seed)
    double = D.astype(np.result_type(dtype, np.float64))
    pairs = itertools.combinations(double.T, 2)
    expected = max((plain_similarity(x, y) for x, y in pairs), default=0.0)
    assert mutual_coherence(D) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert mutual_coherence(SparseProduct([D])) == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert mutual_coherence(D) <= 1.0


def test_known_coherences():
    assert mutual_coherence(np.eye(5)) == 0.0
    assert mutual_coherence([[3.0], [4.0]]) == 0.0
    assert mutual_coherence(hadamard(16)) == pytest.approx(0.0, abs=1e-15)
    assert mutual_coherence(np.hstack([np.eye(16), hadamard(16).toarray()])) == pytest.approx(0.25)
    assert mutual_coherence(np.hstack([np.eye(16), dft(16).toarray()])) == pytest.approx(0.25)
    assert mutual_coherence([[1.0, -2.0], [3.0, -6.0]]) == pytest.approx(1.0)
    assert mutual_coherence([[1.0, 1j], [1j, -1.0]]) == pytest.approx(1.0)
    assert type(mutual_coherence(np.eye(5))) is float


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_norms_do_not_matter(dtype):
    D = gaussian((4, 7), dtype)
    scaled = D * [1e-170, 1e-20, 1e-3, 1.0, 1e3, 1e20, 1e150]
    assert mutual_coherence(scaled) == pytest.approx(mutual_coherence(D), rel=1e-12)
    assert recovery_rate(scaled, D) == 1.0


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((3, 0)), [[np.nan, 1.0]], [[np.inf]], [[1.0], [1.0, 2.0]]])
def test_a_bad_dictionary_of_mutual_coherence_is_named(bad):
    with pytest.raises(ValueError, match=r"^dictionary must"):
        mutual_coherence(bad)


# -- all of them ---------------------------------------------------------------------------------------

D, R, (X, SMALL, CODES) = gaussian((3, 40)), gaussian((3, 30), seed=1), data()
IN_BLOCKS = {
    "rmse": (lambda: rmse(X, SMALL, CODES), 28),
    "rmse of sparse codes": (lambda: rmse(X, SMALL, sp.csr_array(CODES)), 28),
    "recovery": (lambda: recovery_rate(D, R, 0.95), 280),
    "cosines": (lambda: mean_max_cosine(D, R), 280),
    "signed cosines": (lambda: mean_max_cosine(D, R, signed=True), 280),
    "coherence": (lambda: mutual_coherence(gaussian((6, 20), complex)), 20),
    "coherence by lines": (lambda: mutual_coherence(gaussian((6, 20), complex)), 1),
}


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_measures_in_blocks_are_the_same(name, monkeypatch):
    measure, entries = IN_BLOCKS[name]
    whole = measure()
    assert 0 < whole < 3
    monkeypatch.setattr(metrics, "_BLOCK_ENTRIES", entries)
    assert measure() == pytest.approx(whole, rel=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arguments_are_not_changed(dtype):
    given_arrays = data(dtype)
    for array in given_arrays:
        array.flags.writeable = False
    X, D, G = given_arrays
    copies = [array.copy() for array in given_arrays]
    codes = sp.csc_array(G)
    before = codes.copy()
    rmse(X, D, G)
    rmse(X, D, codes)
    recovery_rate(D, D)
    mutual_coherence(D)
    for array, copy in zip(given_arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert codes.dtype == before.dtype
    np.testing.assert_array_equal(codes.indices, before.indices)
    np.testing.assert_array_equal(codes.data, before.data)


def two_images(shape, dtype=np.float64):
    """A smooth image with edges, and the same with noise, from 0 to 255."""
    rng = np.random.default_rng(0)
    steps = np.add.outer(np.arange(shape[0]) // 7 % 3, np.arange(shape[1]) // 5 % 4) * 40.0
    clean = steps.reshape(*shape[:2], *[1] * (len(shape) - 2)) + np.zeros(shape)
    return np.clip(clean + 20 * rng.standard_normal(shape), 0, 255).astype(dtype), clean.astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 31), (11, 11), (24, 30, 3)])
def test_psnr_and_ssim_are_those_of_scikit_image(shape, dtype):
    theirs = pytest.importorskip("skimage.metrics")
    image, reference = two_images(shape, dtype)
    span = {np.uint8: 255, np.uint16: 65535}.get(dtype, 255.0)
    given = span if np.dtype(dtype).kind == "f" else None
    wide = image.astype(float), reference.astype(float)
    expected = theirs.structural_similarity(
        *wide,
        data_range=span,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
        channel_axis=2 if len(shape) == 3 else None,
    )
    np.testing.assert_allclose(ssim(image, reference, given), expected, rtol=1e-7)
    expected = theirs.peak_signal_noise_ratio(*wide[::-1], data_range=span)
    np.testing.assert_allclose(psnr(image, reference, given), expected)


@pytest.mark.parametrize("metric", [psnr, ssim])
@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        (
            (np.zeros((12, 12)), np.zeros((12, 13)), 1.0),
            ValueError,
            "image and reference must have the same shape",
        ),
        ((np.zeros((0, 12)), np.zeros((0, 12)), 1.0), ValueError, "image"),
        ((np.zeros((12, 12)), np.zeros((12, 12))), ValueError, "data_range must be given"),
        ((np.zeros((12, 12)), [[1.0], [1.0, 2.0]], 1), ValueError, "reference must be a rectangular array"),
        ((np.zeros((12, 12)), np.zeros((12, 12)), 0.0), ValueError, "data_range"),
        ((np.full((12, 12), np.nan), np.zeros((12, 12)), 1.0), ValueError, "image"),
        ((np.zeros((12, 12)), np.full((12, 12), np.inf), 1.0), ValueError, "reference"),
        ((np.zeros((12, 12)) * 1j, np.zeros((12, 12)), 1.0), TypeError, "real"),
    ],
)
def test_bad_images_are_named(metric, arguments, error, named):
    with pytest.raises(error, match=named):
        metric(*arguments)


def test_images_that_are_smaller_than_the_window_have_no_ssim():
    with pytest.raises(ValueError, match="11×11"):
        ssim(np.zeros((10, 40)), np.zeros((10, 40)), 1.0)
