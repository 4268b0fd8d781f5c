"""Matrices as engineers have them: blurs, convolutions, kernels, sparse and structured ones; seeds are fixed."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from scipy.fft import dct
from scipy.spatial.distance import cdist

import papilio as pp

N = 512


@dataclass(frozen=True)
class Case:
    """A named matrix; ``is_exact`` says that an exact product with few entries is known."""

    name: str
    make: Callable[[np.random.Generator], np.ndarray]
    is_exact: bool = False

    def matrix(self) -> np.ndarray:
        return self.make(np.random.default_rng(7))


def cases() -> list[Case]:
    return [
        Case("blur-1d", lambda rng: la.toeplitz(gaussian(N, 6))),
        Case("blur-2d-zero", lambda rng: np.kron(*[la.toeplitz(gaussian(32, 1.5))] * 2), True),
        Case("blur-2d-periodic", lambda rng: np.kron(*[la.circulant(periodic_gaussian(32, 1.5))] * 2), True),
        Case("oblique-blur-2d-zero", lambda rng: oblique_blur(32, is_periodic=False)),
        Case("oblique-blur-2d-periodic", lambda rng: oblique_blur(32, is_periodic=True), True),
        Case("circulant", lambda rng: la.circulant(rng.standard_normal(N)), True),
        Case("circulant-complex", lambda rng: la.circulant(complex_normal(rng, N)), True),
        Case("circulant-prime", lambda rng: la.circulant(rng.standard_normal(257))),
        Case("toeplitz-slow", lambda rng: la.toeplitz((1 + np.arange(N)) ** -0.5), True),
        Case("toeplitz-random", lambda rng: la.toeplitz(*rng.standard_normal((2, N))), True),
        Case("toeplitz-triangular", lambda rng: np.tril(la.toeplitz((1 + np.arange(N)) ** -0.7)), True),
        Case("hankel", lambda rng: la.hankel(*rng.standard_normal((2, N))), True),
        Case("kronecker-16-16", lambda rng: np.kron(*rng.standard_normal((2, 16, 16))), True),
        Case("kronecker-8-8-8", kronecker_of_three, True),
        Case("banded", lambda rng: banded(N, 9, rng), True),
        Case("banded-permuted", lambda rng: permuted(banded(N, 9, rng), rng), True),
        Case("arrow", arrow, True),
        Case("blocks-shuffled", lambda rng: permuted(blocks([16] * 32, rng), rng), True),
        Case("blocks-unequal-shuffled", lambda rng: permuted(blocks(unequal_sizes(rng), rng), rng), True),
        Case("kernel-gaussian", lambda rng: np.exp(-(distances(rng, N, N) ** 2) / 0.02)),
        Case("kernel-exponential", lambda rng: np.exp(-distances(rng, N, N) / 0.2)),
        Case("kernel-singular", lambda rng: 1 / (distances(rng, N, N) + 0.02)),
        Case("kernel-300x2000", lambda rng: np.exp(-distances(rng, 300, 2000) / 0.2)),
        Case("kernel-matern-float32", matern),
        Case("sparse-plus-low-rank", sparse_plus_low_rank, True),
        Case("laplacian-inverse", laplacian_inverse),
        Case("orthogonal", lambda rng: np.linalg.qr(rng.standard_normal((N, N)))[0]),
        Case("gaussian", lambda rng: rng.standard_normal((N, N))),
        Case("dct-permuted-noisy", lambda rng: noisy(permuted(dct(np.eye(N), axis=0, norm="ortho"), rng), rng)),
        Case("hadamard-permuted-noisy", lambda rng: noisy(permuted(la.hadamard(N) / np.sqrt(N), rng), rng)),
        Case("wavelet-db4", lambda rng: pp.transforms.wavelet(N, "db4").toarray(), True),
        Case("nonuniform-dft", nonuniform_dft),
        Case("cauchy", lambda rng: 1 / np.add.outer(*(rng.random((2, N)) + 0.01))),
        Case("vandermonde", lambda rng: np.vander(np.sort(rng.uniform(-1, 1, N)), 64, increasing=True)),
        Case("patch-covariance", lambda rng: patch_covariance(16)),
        Case("tomography", lambda rng: tomography(32, 18)),
    ]


# -- parts -----------------------------------------------------------------------------------------------


def gaussian(n: int, sigma: float) -> np.ndarray:
    """exp(−k²/2σ²) for k = 0…n − 1, so that a long convolution with it keeps the mean."""
    values = np.exp(-0.5 * (np.arange(n) / sigma) ** 2)
    return values / (2 * values.sum() - 1)


def periodic_gaussian(n: int, sigma: float) -> np.ndarray:
    lags = np.minimum(np.arange(n), n - np.arange(n))
    values = np.exp(-0.5 * (lags / sigma) ** 2)
    return values / values.sum()


def complex_normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def permuted(matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return matrix[rng.permutation(len(matrix))][:, rng.permutation(matrix.shape[1])]


def noisy(matrix: np.ndarray, rng: np.random.Generator, level: float = 0.05) -> np.ndarray:
    noise = rng.standard_normal(matrix.shape)
    return matrix + level * noise * np.linalg.norm(matrix) / np.linalg.norm(noise)


def distances(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    """|x − y| between random points of an interval, in order."""
    return np.abs(np.sort(rng.random(m))[:, None] - np.sort(rng.random(n)))


def unequal_sizes(rng: np.random.Generator) -> list[int]:
    """Sizes from 4 to 32 whose sum is N."""
    sizes: list[int] = []
    while (left := N - sum(sizes)) > 32:
        sizes.append(min(int(rng.integers(4, 33)), left - 4))
    return [*sizes, left]


# -- matrices --------------------------------------------------------------------------------------------


def oblique_blur(side: int, is_periodic: bool) -> np.ndarray:
    """Blur of an image by a Gaussian that is longer along a diagonal: no Kronecker product."""
    rows, columns = np.divmod(np.arange(side * side), side)
    down, right = rows[:, None] - rows, columns[:, None] - columns
    if is_periodic:
        down, right = ((lag + side // 2) % side - side // 2 for lag in (down, right))
    values = np.exp(-0.5 * (((down + right) / 4) ** 2 + ((down - right) / 1.5) ** 2))
    return values / values.sum(axis=1).max()


def kronecker_of_three(rng: np.random.Generator) -> np.ndarray:
    A, B, C = rng.standard_normal((3, 8, 8))
    return np.kron(A, np.kron(B, C))


def banded(n: int, width: int, rng: np.random.Generator) -> np.ndarray:
    half = width // 2
    return np.triu(np.tril(rng.standard_normal((n, n)), half), -half)


def arrow(rng: np.random.Generator) -> np.ndarray:
    matrix = np.diag(rng.standard_normal(N))
    matrix[:4], matrix[:, :4] = rng.standard_normal((4, N)), rng.standard_normal((N, 4))
    return matrix


def blocks(sizes: list[int], rng: np.random.Generator) -> np.ndarray:
    matrix = np.zeros((sum(sizes), sum(sizes)))
    for size, end in zip(sizes, accumulate(sizes), strict=True):
        matrix[end - size : end, end - size : end] = rng.standard_normal((size, size))
    return matrix


def matern(rng: np.random.Generator) -> np.ndarray:
    """The Matérn covariance of order 3/2 of random points of the unit square, in single precision."""
    r = np.sqrt(3) * cdist(*[rng.random((N, 2))] * 2) / 0.3
    return ((1 + r) * np.exp(-r)).astype(np.float32)


def sparse_plus_low_rank(rng: np.random.Generator) -> np.ndarray:
    """Rank 6 and two entries per row on average, both of the same norm."""
    low = rng.standard_normal((N, 6)) @ rng.standard_normal((6, N))
    spikes = sp.random_array((N, N), density=2 / N, rng=rng, data_sampler=rng.standard_normal).toarray()
    return low / np.linalg.norm(low) + spikes / np.linalg.norm(spikes)


def laplacian_inverse(rng: np.random.Generator) -> np.ndarray:
    """(L + 0.1·I)⁻¹ of the graph that joins points of the unit square closer than 0.08."""
    near = (cdist(*[rng.random((N, 2))] * 2) < 0.08).astype(float)
    np.fill_diagonal(near, 0)
    return np.linalg.inv(np.diag(near.sum(axis=0)) - near + 0.1 * np.eye(N))


def nonuniform_dft(rng: np.random.Generator) -> np.ndarray:
    """exp(−2πi·f·t) at integer frequencies and random times."""
    return np.exp(-2j * np.pi * np.outer(np.arange(N), np.sort(rng.random(N)))) / np.sqrt(N)


def patch_covariance(side: int) -> np.ndarray:
    return np.cov(pp.datasets.image_patches(20_000, side, random_state=0).T)


def tomography(side: int, n_angles: int) -> np.ndarray:
    """Sums of an image's pixels along parallel rays: each pixel is shared by the two rays nearest to it."""
    y, x = np.divmod(np.arange(side * side), side) - (np.array([[side], [side]]) - 1) / 2
    matrix = np.zeros((n_angles * side, side * side))
    for i in range(n_angles):
        angle = np.pi * i / n_angles
        place = x * np.cos(angle) + y * np.sin(angle) + (side - 1) / 2
        first = np.floor(place).astype(int)
        for ray, share in ((first, 1 - place + first), (first + 1, place - first)):
            is_seen = (ray >= 0) & (ray < side)
            matrix[i * side + ray[is_seen], np.flatnonzero(is_seen)] += share[is_seen]
    return matrix
