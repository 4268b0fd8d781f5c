"""`factorize` on twenty matrices of other kinds than those of `matrices`, beside simple candidates.

``python benchmarks/unseen.py [NAME…]`` runs the cases whose names contain one of these.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from common import Speeds, clock
from matrices import Simple
from scipy.sparse.linalg import splu
from scipy.special import sph_harm_y
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.neural_network import MLPClassifier

import papilio as pp

N, COMPLEXITY = 256, 0.1
NOTE = (
    f"`factorize(M, complexity={COMPLEXITY})`, beside the largest entries and the truncated SVD with as many "
    "entries, by the relative error. A specialist knows where the matrix comes from; its entries, relative to "
    "M's, are those of what it stores for an exact product. Compilation is not counted."
)
HEADINGS = ("matrix", "method", "error", "entries", "time", "thresholding", "truncated SVD", "specialist: entries")


def path_laplacian(side: int) -> sp.csc_array:
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sp.csc_array(sp.kronsum(line, line) + 0.01 * sp.eye_array(side * side))


def random_graph(rng: np.random.Generator) -> sp.csc_array:
    """The Laplacian of the 6 nearest neighbours of points in the plane."""
    points = rng.random((N, 2))
    near = np.argsort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)[:, 1:7]
    A = sp.coo_array((np.ones(6 * N), (np.repeat(np.arange(N), 6), near.ravel())), shape=(N, N)).tocsr()
    A = A.maximum(A.T)
    return sp.csc_array(sp.diags_array(A.sum(axis=1) + 0.1) - A)


def tomography(side: int, angles: int) -> np.ndarray:
    """Parallel rays through a square of pixels; the weight of a pixel is linear in its distance to the ray."""
    grid = np.arange(side) - (side - 1) / 2
    x, y = (each.ravel() for each in np.meshgrid(grid, grid))
    rows = []
    for angle in np.linspace(0, np.pi, angles, endpoint=False):
        along = x * np.cos(angle) + y * np.sin(angle)
        rows += [np.maximum(1 - np.abs(along - offset), 0) for offset in grid]
    return np.array(rows)


def spherical_harmonics(degree: int) -> np.ndarray:
    theta = np.arccos(np.linspace(-0.99, 0.99, 16))
    phi = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    polar, around = (each.ravel() for each in np.meshgrid(theta, phi, indexing="ij"))
    pairs = [(k, m) for k in range(degree) for m in range(-k, k + 1)]
    return np.stack([sph_harm_y(k, m, polar, around) for k, m in pairs], axis=1)


def trained_weights() -> np.ndarray:
    X, y = load_digits(return_X_y=True)
    network = MLPClassifier((N, N), max_iter=12, random_state=0).fit(X / 16, y)
    return network.coefs_[1]


def loewner(rng: np.random.Generator) -> np.ndarray:
    """Divided differences of a function at interlaced points."""
    points = np.sort(rng.random(2 * N))
    left, right = points[::2, None], points[1::2]
    return (np.sin(9 * left) - np.sin(9 * right)) / (left - right)


def stiffness(side: int) -> sp.csc_array:
    """Bilinear finite elements on a square."""
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    mass = sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(side, side)) / 6
    return sp.csc_array(sp.kron(line, mass) + sp.kron(mass, line))


def incidence(rng: np.random.Generator) -> np.ndarray:
    edges = np.array([rng.choice(128, 2, replace=False) for _ in range(512)])
    matrix = np.zeros((512, 128))
    matrix[np.arange(512), edges[:, 0]], matrix[np.arange(512), edges[:, 1]] = 1, -1
    return matrix


def triangles(matrix: sp.csc_array) -> int:
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return int(factors.L.nnz + factors.U.nnz)


def cases() -> dict[str, Callable[[np.random.Generator], tuple[np.ndarray, str, float]]]:
    """By name: the matrix, and the specialist with its entries; none if there is none."""
    t, k = np.linspace(0, 1, N), np.arange(N)
    hats = np.maximum(1 - np.abs(t[:, None] * 63 - np.arange(64)), 0)  # linear interpolation
    smooth = np.exp(-40 * np.abs(t[:, None] - t)) + 1e-3 * np.eye(N)

    def inverse(A: sp.csc_array) -> tuple[np.ndarray, str, float]:
        return la.inv(A.toarray()), "sparse Cholesky", triangles(A)

    def alone(matrix: np.ndarray) -> tuple[np.ndarray, str, float]:
        return matrix, "", 0

    def sparse(matrix: np.ndarray) -> tuple[np.ndarray, str, float]:
        return matrix, "as it is", int(np.count_nonzero(matrix))

    return {
        "tomography": lambda rng: sparse(tomography(16, 24)),
        "grid Laplacian inverse": lambda rng: inverse(path_laplacian(16)),
        "graph Laplacian inverse": lambda rng: inverse(random_graph(rng)),
        "heat kernel of a graph": lambda rng: alone(la.expm(-random_graph(rng).toarray())),
        "stiffness": lambda rng: sparse(stiffness(16).toarray()),
        "stiffness inverse": lambda rng: inverse(stiffness(16)),
        "incidence": lambda rng: sparse(incidence(rng)),
        "trained weights": lambda rng: alone(trained_weights()),
        "Vandermonde": lambda rng: (np.vander(np.linspace(-1, 1, N), 64), "generators", N),
        "Vandermonde, circle": lambda rng: alone(np.exp(2j * np.pi * np.outer(np.sort(rng.random(N)), k))),
        "Chebyshev": lambda rng: (np.cos(np.outer(np.pi * k / (N - 1), k)), "FFT of 2n", 4 * N * np.log2(2 * N)),
        "spherical harmonics": lambda rng: alone(spherical_harmonics(16)),
        "non-uniform DFT": lambda rng: alone(np.exp(-2j * np.pi * N * np.outer(np.sort(rng.random(N)), t))),
        "covariance of digits": lambda rng: alone(np.cov(load_digits().data.T)),
        "covariance of features": lambda rng: alone(np.corrcoef(load_breast_cancer().data[:200])),
        "Cauchy": lambda rng: (1 / (t[:, None] + np.sort(rng.random(N)) + 0.01), "generators", 4 * N),
        "Hilbert": lambda rng: (la.hilbert(N), "generators", 2 * N),
        "Loewner": lambda rng: (loewner(rng), "generators", 6 * N),
        "interpolated DFT": lambda rng: (hats @ la.dft(64), "interpolation and FFT", 2 * N + 2 * 64 * 6),
        "radial basis, inverse": lambda rng: alone(la.inv(smooth)),
    }


def run(folder: Path, names: Sequence[str] = ()) -> list[Speeds]:
    table = Speeds("Matrices of other kinds", NOTE, HEADINGS)
    for dtype in (np.float64, np.complex128):
        pp.factorize(np.random.default_rng(0).standard_normal((32, 32)).astype(dtype), complexity=0.3)  # compiles
    for name, make in cases().items():
        if names and not any(part in name for part in names):
            continue
        matrix, specialist, entries = make(np.random.default_rng(7))
        begin = perf_counter()
        fit = pp.factorize(matrix, complexity=COMPLEXITY)
        seconds = perf_counter() - begin
        simple = [f"{error:.2g}" for error in Simple(matrix).errors(COMPLEXITY)]
        figures = f"{fit.error:.2g}", f"{fit.operator.relative_complexity:.3g}", clock(seconds)
        told = f"{specialist}: {entries / matrix.size:.3g}" if specialist else "–"
        table.add(f"{name} {matrix.shape[0]}×{matrix.shape[1]}", fit.method, *figures, *simple, told)
    return [table]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.stdout.write(run(Path(__file__).parent, sys.argv[1:])[0].markdown())
