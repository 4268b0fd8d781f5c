"""Patches out and back, the redundant DCT, and denoising."""

import numpy as np
import pytest

import papilio as pp
from papilio.images import average_patches, denoise, extract_patches, redundant_dct
from papilio.metrics import psnr

DCT = redundant_dct(8, 16)


def picture(shape=(48, 40), dtype=np.float64):
    """Edges, stripes and a slope, from 40 to 200."""
    i, j = np.indices(shape[:2])
    grey = 80.0 + 60 * (i // 12 % 2) * (j // 16 % 2) + 40 * np.sin(j / 2.0) * (i > 24) + i - 24
    channels = [1.0, 0.7, 0.4][: shape[2]] if len(shape) == 3 else 1.0
    return (np.clip(np.multiply.outer(grey, channels), 0, 255)).astype(dtype)


def with_noise(image, sigma, seed=0):
    return image + sigma * np.random.default_rng(seed).standard_normal(image.shape)


def patches_one_by_one(image, size, stride):
    """The definition, pixel by pixel."""
    starts = [sorted({*range(0, side - size + 1, stride), side - size}) for side in image.shape[:2]]
    return np.array([image[i : i + size, j : j + size].ravel() for i in starts[0] for j in starts[1]])


@pytest.mark.parametrize("shape", [(8, 8), (9, 8), (20, 13), (17, 21, 3), (12, 12, 1)])
@pytest.mark.parametrize(("size", "stride"), [(8, 1), (8, 3), (8, 8), (3, 2), (1, 1)])
def test_patches_are_those_of_the_definition(shape, size, stride):
    image = np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)
    patches = extract_patches(image, size, stride)
    assert patches.dtype == np.uint8
    np.testing.assert_array_equal(patches, patches_one_by_one(image, size, stride))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("shape", [(8, 8), (30, 23), (16, 19, 3)])
@pytest.mark.parametrize("stride", range(1, 9))
def test_averages_of_patches_give_the_image_back_to_the_last_bit(shape, stride, dtype):
    image = (255 * np.random.default_rng(0).random(shape)).astype(dtype)
    back = average_patches(extract_patches(image, 8, stride), shape, stride)
    assert back.dtype == (np.float64 if dtype is np.uint8 else dtype)
    np.testing.assert_array_equal(back, image)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
def test_each_pixel_is_the_mean_of_the_patches_that_cover_it(stride):
    shape, size = (14, 11, 2), 5
    places = patches_one_by_one(np.arange(14 * 11 * 2).reshape(shape), size, stride)
    patches = np.random.default_rng(0).standard_normal(places.shape)
    means = [patches[places == pixel].mean() for pixel in range(14 * 11 * 2)]
    np.testing.assert_allclose(average_patches(patches, shape, stride), np.reshape(means, shape), atol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: extract_patches(np.zeros((7, 9)), 8), ValueError, "size must be .* at most 7"),
        (lambda: extract_patches(np.zeros((9, 9)), 8, 9), ValueError, "stride"),
        (lambda: extract_patches(np.zeros((9, 9)), 8, 0), ValueError, "stride"),
        (lambda: extract_patches(np.zeros(9), 3), ValueError, "image must have shape"),
        (lambda: extract_patches([[1.0], [1.0, 2.0]], 1), ValueError, "image must be a rectangular array"),
        (lambda: extract_patches(np.zeros((0, 9)), 3), ValueError, "image must have shape"),
        (lambda: average_patches(np.zeros((4, 63)), (9, 9)), ValueError, "patches must have rows of size²"),
        (lambda: average_patches(np.zeros((3, 64)), (9, 9)), ValueError, "patches must have 4 rows"),
        (lambda: average_patches(np.zeros(64), (8, 8)), ValueError, "patches must be a matrix"),
        (lambda: average_patches(np.zeros((1, 64)), (8, 0)), ValueError, "image_shape"),
        (lambda: average_patches(np.zeros((1, 64)), 8), ValueError, "image_shape must be"),
        (lambda: average_patches(np.zeros((1, 64)), (8,)), ValueError, "image_shape must be"),
        (lambda: average_patches(np.zeros((1, 64)), (7, 8)), ValueError, "image_shape must be at least 8×8"),
        (lambda: average_patches(np.zeros((1, 64)) * 1j, (8, 8)), TypeError, "patches must be real"),
        (lambda: average_patches(np.full((1, 64), np.nan), (8, 8)), ValueError, "patches must hold finite"),
        (lambda: redundant_dct(4, 2**31), ValueError, "atoms_per_side must leave a result that fits into memory"),
        (lambda: redundant_dct(1, 2), ValueError, "atoms_per_side must be .* at most 1"),
    ],
)
def test_bad_arguments_of_patches_are_named(call, error, named):
    with pytest.raises(error, match=named):
        call()


@pytest.mark.parametrize(("p", "K"), [(8, 16), (4, 4), (5, 7), (1, 1)])
def test_the_redundant_dct_is_that_of_elad_and_aharon(p, K):
    one = np.array([[np.cos(i * k * np.pi / K) for k in range(K)] for i in range(p)])
    one[:, 1:] -= one[:, 1:].mean(axis=0)
    one /= np.maximum(np.linalg.norm(one, axis=0), 1e-300)
    np.testing.assert_allclose(redundant_dct(p, K).toarray(), np.kron(one, one), atol=1e-14)


def test_the_redundant_dct_is_fast():
    assert DCT.shape == (64, 256)
    assert DCT.relative_complexity < 0.2
    with pytest.raises(ValueError, match="atoms_per_side"):
        redundant_dct(8, 7)


def denoised_one_by_one(image, sigma, D, gain):
    """The definition, patch by patch."""
    size = int(np.sqrt(D.shape[0]))
    sums, counts = np.zeros(image.shape), np.zeros(image.shape)
    for i in range(image.shape[0] - size + 1):
        for j in range(image.shape[1] - size + 1):
            x = image[i : i + size, j : j + size].ravel()
            codes = pp.omp(D, x - x.mean(), tol=(gain * sigma) ** 2 * size**2)
            sums[i : i + size, j : j + size] += (D @ codes.toarray()).reshape(size, size) + x.mean()
            counts[i : i + size, j : j + size] += 1
    return sums / counts


def test_denoising_is_the_average_of_patches_coded_to_the_error_target():
    noisy = with_noise(picture((20, 18)), 20)
    for D in (DCT, DCT.toarray()):
        expected = denoised_one_by_one(noisy, 20, D, 1.1)
        np.testing.assert_allclose(denoise(noisy, 20, D, gain=1.1), expected, atol=1e-9)


@pytest.mark.slow
def test_a_dictionary_learned_from_the_noisy_image_removes_more_than_the_dct():
    clean = 100 + 50 * np.random.default_rng(1).choice([-1.0, 1.0], (1, 12)).repeat(8, axis=0)
    clean = np.tile(clean, (8, 6))[:48, :48]  # a texture which cosines know nothing of
    noisy = with_noise(clean, 30)
    learned = denoise(noisy, 30, n_components=32, complexity=0.3, random_state=0)
    assert psnr(learned, clean, 255) > psnr(denoise(noisy, 30, DCT), clean, 255) + 1


def test_any_form_of_dictionary_will_do():
    noisy = with_noise(picture((24, 24)), 20)
    rows = extract_patches(noisy, 8)
    model = pp.KSVD(32, 2, max_iter=3, random_state=0).fit(rows - rows.mean(axis=1, keepdims=True))
    expected = denoise(noisy, 20, model.components_.T)
    for D in (model, model.operator_):
        np.testing.assert_allclose(denoise(noisy, 20, D), expected, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32, np.float64])
def test_dtypes_stay(dtype):
    unit = 257 if dtype is np.uint16 else 1
    clean = picture((24, 24)) * unit
    noisy = with_noise(clean, 20 * unit)
    if np.dtype(dtype).kind in "iu":
        noisy = np.clip(np.rint(noisy), 0, 255 * unit)
    noisy = noisy.astype(dtype)
    result = denoise(noisy, 20 * unit, DCT)
    assert result.dtype == dtype
    expected = denoise(noisy.astype(np.float64), 20.0 * unit, DCT)
    np.testing.assert_allclose(result.astype(float), expected, atol=(0.51 if unit == 1 else 1.0) * 1.01)


def test_integers_are_clipped_and_do_not_wrap():
    noisy = np.clip(np.rint(with_noise(np.where(np.arange(32) < 16, 0.0, 255.0) * np.ones((32, 1)), 40)), 0, 255)
    result = denoise(noisy.astype(np.uint8), 40, DCT).astype(int)
    assert result[:, :8].max() < 80
    assert result[:, 24:].min() > 175


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_very_strong_noise_leaves_the_mean(dtype):
    image = picture((16, 16)).astype(dtype)
    assert np.ptp(denoise(image, 1e60, DCT).astype(float)) < np.ptp(image.astype(float))
    assert denoise(image, 1e60, DCT).mean() == pytest.approx(image.mean(), rel=0.2)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_units_do_not_matter(unit):
    noisy = with_noise(picture((24, 24)), 20)
    expected = denoise(noisy, 20, DCT)
    np.testing.assert_allclose(denoise(noisy * unit, 20 * unit, DCT) / unit, expected, rtol=1e-9)


@pytest.mark.parametrize("dictionary", [DCT, DCT[:, :4]])
def test_weak_noise_costs_no_detail_whatever_the_dictionary(dictionary):
    image = np.random.default_rng(0).random((24, 24)) * 255
    assert np.abs(denoise(image, 0.01, dictionary) - image).max() < 0.1


def test_the_image_is_not_changed():
    image = with_noise(picture((16, 16)), 20)
    before = image.copy()
    denoise(image, 20, DCT)
    np.testing.assert_array_equal(image, before)


@pytest.mark.slow
def test_a_callback_sees_all_of_the_work_and_may_end_it(monkeypatch):
    monkeypatch.setattr("papilio.images._BAND", 50)
    noisy = with_noise(picture((40, 32)), 10)
    steps = []
    denoise(noisy, 10, n_components=32, random_state=0, callback=steps.append)
    phases = [step.phase for step in steps]
    assert phases.index("denoise") > phases.index("refine")
    done = [step.done for step in steps if step.phase == "denoise"]
    assert done == sorted(done)
    assert done[-1] == 1.0
    stopped = denoise(noisy, 10, DCT, callback=lambda step: step.iteration == 4)
    np.testing.assert_allclose(stopped[-8:], noisy[-8:], rtol=1e-14)
    assert np.std(stopped[:8] - noisy[:8]) > 5


@pytest.mark.parametrize(
    ("arguments", "options", "error", "named"),
    [
        ((np.zeros((7, 9)), 1), {}, ValueError, "image must have at least 8×8"),
        ((np.zeros(64), 1), {}, ValueError, "image must have shape"),
        ((np.zeros((9, 9, 3, 1)), 1), {}, ValueError, "image must have shape"),
        ((np.zeros((0, 9)), 1), {}, ValueError, "image must have shape"),
        ((np.full((9, 9), np.nan), 1), {}, ValueError, "image must hold finite"),
        ((np.zeros((9, 9), bool), 1), {}, TypeError, "image must hold integers"),
        ((np.zeros((9, 9), complex), 1), {}, TypeError, "image must hold integers"),
        ((np.zeros((9, 9)), -1), {}, ValueError, "sigma"),
        ((np.zeros((9, 9)), np.nan), {}, ValueError, "sigma"),
        ((np.zeros((9, 9)), "30"), {}, TypeError, "sigma"),
        ((np.zeros((9, 9)), 1, np.eye(63)), {}, ValueError, "dictionary must have a square number of rows"),
        ((np.zeros((9, 9)), 1, np.eye(64)), {"patch_size": 7}, ValueError, "dictionary must have 49 rows"),
        ((np.zeros((9, 9)), 1, np.eye(64) * 1j), {}, TypeError, "dictionary must be real"),
        ((np.zeros((9, 9)), 1, pp.KSVD()), {}, ValueError, "dictionary must be fitted"),
        ((np.zeros((9, 9)), 1, "dct"), {}, TypeError, "dictionary"),
        (([[1.0], [1.0, 2.0]], 1), {}, ValueError, "image must be a rectangular array"),
        ((np.zeros((9, 9)), 1), {"n_components": 1}, ValueError, "n_components"),
        ((np.zeros((9, 9)), 1), {"patch_size": 1}, ValueError, "patch_size"),
        ((np.zeros((9, 9)), 1), {"complexity": 0.01}, ValueError, "complexity"),
        ((np.zeros((9, 9)), 1), {"stride": 9}, ValueError, "stride"),
        ((np.zeros((9, 9)), 1), {"gain": -1}, ValueError, "gain"),
        ((np.zeros((9, 9)), 1), {"random_state": "x"}, ValueError, "random_state"),
        ((np.zeros((9, 9)), 1), {"callback": 3}, TypeError, "callback"),
    ],
)
def test_bad_arguments_of_denoise_are_named(arguments, options, error, named):
    with pytest.raises(error, match=named):
        denoise(*arguments, **options)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_largest_integers_do_not_wrap(dtype):
    image = np.full((16, 16), np.iinfo(dtype).max)
    np.testing.assert_allclose(denoise(image, 1e15, DCT).astype(float), image.astype(float))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3), (9, 30), (16, 16)])
def test_small_and_constant_images_come_out_constant(shape):
    image = np.full(shape, 90, np.uint8)
    np.testing.assert_array_equal(denoise(image, 10), image)
    noisy = denoise(with_noise(np.full(shape, 90.0), 10), 10)
    assert noisy.shape == shape
    assert np.std(noisy) < 10
