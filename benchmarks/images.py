"""Images: patches out and back, denoising in a given dictionary, and with one that is learned first."""

from pathlib import Path
from time import perf_counter

import numpy as np
from common import OURS, Table, best_times, clock
from peers import spams
from skimage.data import camera
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

import papilio as pp
from papilio.images import average_patches, denoise, extract_patches, redundant_dct

SIGMA, GAIN, SIDE = 30.0, 1.1, 8
LIMIT = 30  # seconds for denoising with learning


def run(folder: Path) -> list[Table]:
    clean = camera().astype(np.float64)
    noisy = clean + SIGMA * np.random.default_rng(0).standard_normal(clean.shape)
    table = Table("Images", "")

    shape = noisy.shape
    contestants = {
        OURS: lambda: average_patches(extract_patches(noisy, SIDE), shape),
        "scikit-learn": lambda: back(out(noisy), shape),
    }
    np.testing.assert_allclose(contestants[OURS](), contestants["scikit-learn"]())
    table.add("all 8×8 patches of 512×512, out and back", best_times(contestants, 3, 1), {"scikit-learn": 1})

    if spams is not None:
        D = redundant_dct(SIDE, 16).toarray()
        contestants = {OURS: lambda: denoise(noisy, SIGMA, D), "SPAMS, 2 threads": lambda: with_spams(noisy, D)}
        results = [run() for run in contestants.values()]
        quality = [pp.metrics.psnr(result, clean, 255) for result in results]
        assert abs(quality[0] - quality[1]) < 0.05, quality
        table.add(
            "denoising 512×512 in a dictionary of 64×256", best_times(contestants, 3, 1), {"SPAMS, 2 threads": 1}
        )

    denoise(noisy[:64, :64], SIGMA, random_state=0)  # compiles
    begin = perf_counter()
    learned = denoise(noisy, SIGMA, random_state=0)
    seconds = perf_counter() - begin
    table.note = (
        "`denoise` of a photograph of 512×512, σ = 30, stride 1, with 256 atoms of complexity 0.4 learned "
        f"from it first: {clock(seconds)} (aim: below {LIMIT} s, {'met' if seconds < LIMIT else '**missed**'}), "
        f"{pp.metrics.psnr(learned, clean, 255):.2f} dB. SPAMS codes the patches that scikit-learn cuts out and "
        "puts back, less their means, to the same error, by forward selection (its `omp`). All in float64."
    )
    return [table]


def out(image: np.ndarray) -> np.ndarray:
    return extract_patches_2d(image, (SIDE, SIDE)).reshape(-1, SIDE**2)


def back(patches: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    return reconstruct_from_patches_2d(patches.reshape(-1, SIDE, SIDE), shape)


def with_spams(image: np.ndarray, D: np.ndarray) -> np.ndarray:
    patches = out(image)
    means = patches.mean(axis=1, keepdims=True)
    X = np.asfortranarray((patches - means).T)
    target = (GAIN * SIGMA) ** 2 * SIDE**2
    codes = spams.omp(X, np.asfortranarray(D), L=SIDE**2 // 2, eps=target, numThreads=2)
    return back((D @ codes).T + means, image.shape)
