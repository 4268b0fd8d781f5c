"""The denoising experiment: what it measures, draws and claims."""

import builtins

import numpy as np
import pytest

import papilio as pp
from experiments import denoising
from experiments.denoising import DCT, FIXED, KSVD, ONLINE, PAPILIO, TARGET, Case, Draw, Results
from experiments.harness import settings_of

TINY = settings_of("denoising", "tiny")
META = {"preset": "paper", "versions": {"papilio": "0"}}


def rows(psnr, sigmas=(10, 30, 50), images=("aero", "coins")):
    """A table in which ``psnr`` gives the value of each case at each noise level."""
    settings = settings_of("denoising", "paper") | {"atoms": [64, 256]}
    return [
        dict(zip(denoising.KEYS, map(str, (image, sigma, 0, *case)), strict=True))
        | {"relative_complexity": case.complexity or "1.0", "entries": "9", "ssim": "0.5", "noisy_psnr": "20"}
        | {"psnr": str(psnr(case, sigma) + i)}
        for i, image in enumerate(images)
        for sigma in sigmas
        for case in denoising.cases(settings)
    ]


def as_claimed(case, sigma):
    """Everything as the claims have it."""
    if case.coding == FIXED:
        return 25.0 + (case.method == PAPILIO) * (0.2 if sigma >= 30 else -0.2)
    if case.method == PAPILIO:
        return 25.0 + (0.05 if sigma == 50 else -0.05)
    return {DCT: 24.5, KSVD: 25.0, ONLINE: 25.0}[case.method]


def verdicts(psnr):
    page = denoising.page(Results(rows(psnr)), [], META)
    lines = [line for line in page.splitlines() if line.startswith("| ") and "**" in line]
    return ["**holds**" in line for line in lines]


def test_every_claim_holds_where_the_table_says_so():
    assert verdicts(as_claimed) == [True] * 6


@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        (lambda case, sigma: (case.coding, case.method, sigma) == (FIXED, PAPILIO, 30), 0),
        (lambda case, sigma: (case.coding, case.method, sigma) == (FIXED, KSVD, 10), 1),
        (lambda case, sigma: (case.coding, case.complexity, sigma) == (TARGET, "0.4", 30), 2),
        (lambda case, sigma: (case.coding, case.complexity, sigma) == (TARGET, "0.4", 50), 4),
    ],
)
def test_each_claim_fails_where_the_table_speaks_against_it(wrong, place):
    found = verdicts(lambda case, sigma: as_claimed(case, sigma) - 0.3 * wrong(case, sigma))
    assert not found[place]


def test_cosines_that_are_too_good_speak_against_the_claim():
    found = verdicts(lambda case, sigma: as_claimed(case, sigma) + 0.4 * (case.method == DCT))
    assert found == [True, True, True, False, True, False]


def test_the_page_shows_every_mean():
    page = denoising.page(Results(rows(as_claimed)), [], META)
    assert "| papilio, 0.4 | 0.400 | 25.45 / 0.500 | 25.45 / 0.500 | 25.55 / 0.500 |" in page
    for heading in ("64 atoms", "256 atoms", "Coding with a fixed number of atoms", "Seconds"):
        assert heading in page


def test_the_figures_show_psnr_against_noise_and_complexity():
    results = Results(rows(as_claimed))
    noise = denoising.against_noise(results)
    absolute, relative = noise.axes
    assert absolute.get_ylabel() == "PSNR in dB"
    curves = {line.get_label(): line.get_ydata() for line in relative.lines}
    np.testing.assert_allclose(curves["papilio, complexity 0.4"], [-0.05, -0.05, 0.05])
    np.testing.assert_allclose(curves["redundant DCT"], [-0.5] * 3)
    assert list(absolute.lines[0].get_xdata()) == [10, 30, 50]
    complexity = denoising.against_complexity(results)
    assert [ax.get_title() for ax in complexity.axes] == ["σ = 10", "σ = 30", "σ = 50"]
    assert all(ax.get_xlabel() == "relative complexity" for ax in complexity.axes)
    first = complexity.axes[0].lines[0]
    np.testing.assert_allclose(first.get_xdata(), [0.2, 0.3, 0.4, 1.0])
    np.testing.assert_allclose(first.get_ydata(), [25.45] * 3 + [25.5])


def test_every_dictionary_is_measured_as_denoise_would_do_it():
    settings = TINY | {"complexities": [], "followup_atoms": [], "ksvd_max_iter": 1, "online_max_iter": 1}
    draw = Draw("aero", 20, 0)
    results, times = denoising.measure(settings, draw)
    assert [row["method"] for row in results] == [row["method"] for row in times] == [DCT, KSVD, ONLINE]
    clean = denoising.photograph("aero", settings["crop"])
    noise = np.random.default_rng(denoising.seeds_of(settings["seed"], draw)[0]).standard_normal(clean.shape)
    noisy = (clean + 20 * noise).astype(np.float32)
    expected = pp.images.denoise(noisy, 20, pp.images.redundant_dct(4, 5), gain=settings["gain"])
    assert abs(results[0]["psnr"] - pp.metrics.psnr(np.clip(expected, 0, 255), clean, 255)) < 1e-3
    assert results[0]["psnr"] > results[0]["noisy_psnr"] + 3


def test_seeds_differ_between_draws_and_repeat():
    draws = [Draw("aero", 20, 0), Draw("aero", 30, 0), Draw("aero", 20, 1), Draw("coins", 20, 0)]
    seeds = [denoising.seeds_of(2016, draw) for draw in draws]
    assert len(set(seeds)) == 4
    assert seeds == [denoising.seeds_of(2016, draw) for draw in draws]


@pytest.mark.parametrize("name", denoising.NAMES)
def test_photographs_are_grey_and_of_the_size_that_was_asked_for(name):
    pytest.importorskip("skimage")
    image = denoising.photograph(name, 64)
    assert image.shape == (64, 64)
    assert image.dtype == np.float64
    assert image.min() >= 0
    assert image.max() <= 255
    assert np.std(image) > 3


def test_a_missing_package_is_named(monkeypatch):
    original = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("skimage"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="'coins' needs scikit-image, which `make setup` installs"):
        denoising.photograph("coins", 64)


def test_unknown_images_are_refused():
    with pytest.raises(ValueError, match="images must be among aero"):
        denoising.photograph("lena", 64)


def test_all_dictionaries_of_the_full_run_are_possible():
    settings = settings_of("denoising", "paper")
    for case in denoising.cases(settings):
        if case.method == PAPILIO:
            schedule = denoising._schedule(settings, case, (64, case.atoms))
            limit = float(case.complexity) if case.coding == TARGET else 0.5
            assert schedule.n_nonzero <= limit * 64 * case.atoms
    assert Case(TARGET, 256, PAPILIO, "0.4") in denoising.cases(settings)
