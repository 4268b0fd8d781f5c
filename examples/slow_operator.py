"""
A matrix that is too slow
=========================

Suppose you are given a matrix, say the calibration of an instrument: 512 inputs, 512 readings, and a little noise
in every entry. Each reading depends on every input, so that the matrix is dense, and it has full rank. In fact it
is a fast transform whose inputs and outputs were connected in an order that nobody wrote down.
:func:`papilio.factorize` finds it without being told, and a linear system is solved with it.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import aslinearoperator, lsqr

import papilio as pp

SIZE, NOISE, ITERATIONS = 512, 1e-3, 60

# %%
# The instrument
# --------------
#
# An orthogonal butterfly transform with random angles, whose inputs have different scales. Its rows and columns
# are in random order. Only the noisy calibration is known.


def scrambled_transform(n, random):
    matrix, half = np.eye(n), 1
    while half < n:
        angles = random.uniform(0.2, 1.4, (n // (2 * half), half))
        cosine, sine = np.cos(angles)[..., None], np.sin(angles)[..., None]
        blocks = matrix.reshape(n // (2 * half), 2, half, n)
        upper, lower = blocks[:, 0], blocks[:, 1]
        matrix = np.stack([cosine * upper - sine * lower, sine * upper + cosine * lower], axis=1).reshape(n, n)
        half *= 2
    sizes = np.exp(random.uniform(-1, 1, n))
    return (matrix * sizes)[random.permutation(n)][:, random.permutation(n)]


random = np.random.default_rng(0)
instrument = scrambled_transform(SIZE, random)
noise = random.standard_normal(instrument.shape)
measured = instrument + NOISE * np.linalg.norm(instrument) / np.linalg.norm(noise) * noise

# %%
# One call
# --------
#
# Without a target, ``factorize`` minimises the sum of error and relative complexity, over many methods.

begin = perf_counter()
fit = pp.factorize(measured)
seconds = perf_counter() - begin
op = fit.operator
print(
    f"method {fit.method!r}: {len(op.factors)} factors, {op.nnz:,} entries of {measured.size:,}, {seconds:.1f} s"
)

fig, axes = plt.subplots(2, 5, figsize=(10.5, 4.8), layout="constrained")
panels = {f"calibration: {measured.size:,} entries": measured}
panels |= {f"$S_{i}$: {factor.size} entries": factor for i, factor in enumerate(op.factors, start=1)}
for ax, (title, panel) in zip(axes.flat, panels.items(), strict=True):
    pp.plot.matrix(panel, ax, title)

# %%
# What is gained
# --------------
#
# The product is nearer to the instrument than the calibration is, since so few entries cannot reproduce the noise.
# The simplest alternative, a truncated SVD with as many entries, is of no use here: the matrix has full rank.

rank = op.nnz // (2 * SIZE)
singular = np.linalg.svd(measured, compute_uv=False)
truncated = np.sqrt(np.sum(singular[rank:] ** 2)) / np.linalg.norm(measured)
nearer = np.linalg.norm(op.toarray() - instrument) / np.linalg.norm(instrument)
print(f"relative error against the calibration: {fit.error:.1e}, where the noise is {NOISE:.0e}")
print(f"relative error against the instrument:  {nearer:.1e}")
print(f"truncated SVD with as many entries (rank {rank}): {truncated:.2f}")


# %%
# The time of a product with one vector. A dense matrix of this size fits into the cache, where BLAS is at its
# best; larger ones gain more, and much smaller ones nothing.


def seconds_of(call, repeats=200):
    """The best of ten rounds."""
    best = np.inf
    for _ in range(10):
        begin = perf_counter()
        for _ in range(repeats // 10):
            call()
        best = min(best, (perf_counter() - begin) / (repeats // 10))
    return best


inputs = np.cumsum(random.standard_normal(SIZE))
dense, fast = seconds_of(lambda: measured @ inputs), seconds_of(lambda: op @ inputs)
print(f"one product: {1e6 * dense:.1f} µs dense, {1e6 * fast:.1f} µs fast, {dense / fast:.1f} times as fast")

# %%
# Solving a linear system
# -----------------------
#
# A :class:`papilio.SparseProduct` is a SciPy ``LinearOperator``: iterative solvers take it as it is. The
# readings come from the instrument itself, so that the noise of the calibration is the only error.

readings = instrument @ inputs
solved = {}
for name, operator in (("dense calibration", aslinearoperator(measured)), ("sparse product", op)):
    x, _, iterations = lsqr(operator, readings, atol=1e-14, btol=1e-14, iter_lim=ITERATIONS)[:3]
    solved[name] = x
    error = np.linalg.norm(x - inputs) / np.linalg.norm(inputs)
    print(f"lsqr with the {name:<18}: {iterations} iterations, relative error {error:.1e}")

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", width_ratios=[1.5, 1])
left.plot(inputs, color="0.75", linewidth=4, label="true inputs")
left.plot(solved["sparse product"], color="#d55e00", linewidth=1.2, label="recovered with the product")
left.set_xlabel("input")
left.legend(frameon=False, fontsize="small")
for name, colour, marker in (("dense calibration", "0.55", "s"), ("sparse product", "#d55e00", "o")):
    right.semilogy(np.abs(solved[name] - inputs), marker, color=colour, markersize=3, label=name)
right.set(xlabel="input", ylabel="error after lsqr", ylim=(1e-5, None))
right.legend(frameon=False, fontsize="small", loc="lower right", markerscale=2)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
