"""
A Gaussian process without its matrix
=====================================

A field of one square kilometre is sampled at thousands of irregular places; each sample has a measurement
error. The posterior mean needs a linear system with the covariance of all samples plus the noise. Dense, that
matrix is filled entry by entry and factorized by Cholesky's method, in time that grows as n³. Here
:func:`papilio.factorize` looks at some of its entries only, and conjugate gradients use the product of sparse
factors that it returns. From how many samples on does that pay? The data are simulated, with a fixed seed.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.sparse import eye_array
from scipy.sparse.linalg import aslinearoperator, cg
from scipy.spatial.distance import cdist

import papilio as pp

SIZES = 1536, 3072, 6144
LENGTH, NOISE, MAX_ERROR = 0.2, 0.5, 1e-4  # length scale in km, standard deviation of the noise
GRID, HELD_OUT, LINE = 60, 500, 4096

# %%
# The field
# ---------
#
# A draw from the process itself, with a Matérn 3/2 covariance, (1 + s) exp(−s) with s = √3·distance/length
# scale, by 2,000 random frequencies: the spectrum of a Matérn covariance is a Student distribution.


def kernel(A, B, length=LENGTH):
    s = cdist(A, B) * (np.sqrt(3) / length)
    return (1 + s) * np.exp(-s)


random = np.random.default_rng(0)
scale = np.sqrt(3 / random.chisquare(3, 2000)) / LENGTH
frequencies, phases = random.standard_normal((2, 2000)) * scale, random.uniform(0, 2 * np.pi, 2000)


def field(points):
    parts = np.array_split(points, 1 + len(points) // 1000)
    return np.concatenate([np.cos(part @ frequencies + phases).sum(axis=1) for part in parts]) / np.sqrt(1000)


places = random.random((max(SIZES), 2))
values = field(places) + NOISE * random.standard_normal(len(places))

# %%
# Two ways to the posterior mean
# ------------------------------
#
# The fast way gives ``factorize`` a function of rows and columns, and says where the samples are. The noise is
# a diagonal that is added to the covariance: it is not factorized. For the mean, errors of the covariance need
# only be small compared with the noise, so that a relative error of 1e-4 is enough. The dense way is LAPACK's.


def timed(call):
    begin = perf_counter()
    result = call()
    return perf_counter() - begin, result


def best_times(op, K, y):
    """Seconds of both products, taken in turns."""
    times = [(timed(lambda: op @ y)[0], timed(lambda: K @ y)[0]) for _ in range(20)]
    return np.min(times, axis=0)


def fast_covariance(X, length=LENGTH):
    return pp.factorize(
        lambda rows, columns: kernel(X[rows], X[columns], length),
        shape=(len(X), len(X)),
        method="nested",
        max_error=MAX_ERROR,
        coordinates=(X, X),
    )


def solved(covariance, noise, y):
    """(K + noise² I)⁻¹ y by conjugate gradients."""
    weights, failed = cg(covariance + noise**2 * aslinearoperator(eye_array(len(y))), y, rtol=1e-5, maxiter=2000)
    assert not failed
    return weights


def cholesky(K, y):
    K[np.diag_indices(len(K))] += NOISE**2
    factor = cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
    return factor[0], cho_solve(factor, y, check_finite=False)


fast_covariance(places[:512])  # kernels are compiled, once on a machine: that is not timed
titles = "build", "product", "cg", "fill", "product", "cg", "Cholesky"
print(f"{'':>8}{'fast, seconds':^27}{'dense, seconds':^36}")
print(f"{'samples':>8}" + "".join(f"{title:>9}" for title in titles))
rows = {}
for n in SIZES:
    X, y = places[:n], values[:n]
    build, fit = timed(lambda: fast_covariance(X))
    by_cg, weights = timed(lambda: solved(fit.operator, NOISE, y))
    fill, K = timed(lambda: kernel(X, X))
    product, dense_product = best_times(fit.operator, K, y)
    dense_cg = timed(lambda: solved(aslinearoperator(K), NOISE, y))[0]
    lapack, (factor, exact) = timed(lambda: cholesky(K, y))
    rows[n] = build, product, by_cg, fill, dense_product, dense_cg, lapack
    print(f"{n:>8,}" + "".join(f"{seconds:>9.4f}" for seconds in rows[n]))

# %%
# The mean, and whether it is right
# ---------------------------------
#
# The difference between both means is given in units of the posterior's own width, which comes from Cholesky's
# factor: conjugate gradients would need one more solve per place for it.

axis = (np.arange(GRID) + 0.5) / GRID
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
means = kernel(grid, X) @ np.stack([weights, exact], axis=1)
line = np.stack([np.linspace(0, 1, 80), np.full(80, 0.5)], axis=1)
cross = kernel(line, X)
reduced = solve_triangular(factor, cross.T, lower=True, check_finite=False)
deviation = np.sqrt(1 - np.sum(reduced**2, axis=0))
off = np.abs(means[:, 0] - means[:, 1]).max() / np.median(deviation)
print(
    f"{len(X):,} samples: {fit.operator.relative_complexity:.1%} of the entries, estimated error {fit.error:.1e}"
)
print(f"largest change of the mean: {off:.1e} posterior standard deviations")

fig, (left, middle) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1, 1.3])
image = left.imshow(means[:, 0].reshape(GRID, GRID), origin="lower", extent=(0, 1, 0, 1))
left.plot(*X[::8].T, ".", color="white", markersize=1, alpha=0.6)
left.axhline(0.5, color="#d55e00", linewidth=1.2)
left.set_title("posterior mean, every 8th sample", fontsize="medium")
left.set(xlabel="km", ylabel="km")
fig.colorbar(image, ax=left, shrink=0.75)
near = np.abs(X[:, 1] - 0.5) < 0.01
mean = cross @ weights
middle.plot(X[near, 0], y[near], ".", color="0.75", markersize=4, label="samples within 10 m")
band = mean - 2 * deviation, mean + 2 * deviation
middle.fill_between(line[:, 0], *band, color="#d55e00", alpha=0.25, linewidth=0)
middle.plot(line[:, 0], mean, color="#d55e00", label="mean ± 2 standard deviations")
middle.plot(line[:, 0], field(line), "--", color="black", linewidth=1, label="truth")
middle.set(xlabel="km along the line", ylabel="soil value, standardised", ylim=(None, middle.get_ylim()[1] + 1.2))
middle.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
middle.spines[["top", "right"]].set_visible(False)

# %%
# What is gained, and what is not
# -------------------------------
#
# A single product gains most. The whole solve gains less, or loses, since the product has to be built first.
# The time of Cholesky's method grows as n³, that of the fast way more slowly, so that sooner or later they
# cross: the lines below say where they stand on this machine. One build serves all noise levels, for instance
# to choose one on other samples; a new length scale takes a new build. For many right-hand sides at one noise
# level, Cholesky's factor is the better choice.

build, product, by_cg, fill, dense_product, dense_cg, lapack = rows[n]
print(f"at {n:,} samples the fast product is {dense_product / product:.1f} times as fast as the dense one;")
print(f"fill and Cholesky take {(fill + lapack) / (build + by_cg):.1f} times as long as build and solve")
slower = [f"{n:,}" for n, t in rows.items() if t[3] + t[6] < t[0] + t[2]]
print(f"Cholesky was faster at these sizes: {', '.join(slower) or 'none'}")
new = random.random((HELD_OUT, 2))
for noise in (0.25, 0.5, 1.0):
    seconds, weights = timed(lambda noise=noise: solved(fit.operator, noise, y))
    error = np.sqrt(np.mean((kernel(new, X) @ weights - field(new)) ** 2))
    print(f"noise level {noise:4.2f}: error {error:.4f} at {HELD_OUT} other places, {seconds:.2f} s")

fig, right = plt.subplots(figsize=(6, 4), layout="constrained")
table = np.array(list(rows.values()))
curves = {
    "fill and Cholesky": ("0.4", "s-", (3, 6)),
    "fill and conjugate gradients": ("#0072b2", "^-", (3, 5)),
    "fast: build and conjugate gradients": ("#d55e00", "o-", (0, 2)),
    "fast: each further noise level": ("#d55e00", "o:", (2,)),
}
for label, (colour, style, columns) in curves.items():
    right.loglog(SIZES, table[:, columns].sum(axis=1), style, color=colour, markersize=5, label=label)
right.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
right.minorticks_off()
right.set(xlabel="samples", ylabel="seconds", ylim=(None, right.get_ylim()[1] * 8))
right.legend(frameon=False, fontsize="small", loc="upper left")
right.spines[["top", "right"]].set_visible(False)

# %%
# The gain depends on the dimension. Here are the same samples along a line, with a length scale of 50 m. (On a
# line, Kalman filters solve with Matérn covariances in O(n), without a matrix.)

X = places[:LINE] * [1, 0]
build, fit = timed(lambda: fast_covariance(X, 0.05))
product, dense_product = best_times(fit.operator, kernel(X, X, 0.05), values[:LINE])
print(f"on a line, {LINE:,} samples: {fit.operator.relative_complexity:.1%} of the entries, build {build:.1f} s,")
print(f"products {dense_product / product:.1f} times as fast as dense ones")

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
