"""The denoising experiment: what it measures, draws and claims."""

import numpy as np
import pytest

import papilio as pp
from experiments import denoising
from experiments.denoising import DCT, FIXED, KSVD, ONLINE, PAPILIO, TARGET, Draw, Results
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
