"""
A first factorization
=====================

A matrix costs rows × columns operations each time it is applied. Some matrices are products of a few sparse
ones, and cost far less that way: the Hadamard matrix is the best known example. Here one is hidden
by shuffling its rows and columns and adding noise, and one call of :func:`papilio.factorize` finds it again. Then
we look at a matrix without any structure.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import papilio as pp

rng = np.random.default_rng(0)

# %%
# A matrix with hidden structure
# ------------------------------
#
# Every entry is near 1/8 or −1/8, and every singular value is near 1: there are neither zeros nor a low rank.

H = pp.transforms.hadamard(64).toarray()
M = H[rng.permutation(64)][:, rng.permutation(64)] + 0.01 * np.abs(H) * rng.standard_normal((64, 64))
fit = pp.factorize(M)
op = fit.operator
print(f"found by {fit.method!r}: {len(op.factors)} factors, {op.nnz} entries instead of {M.size:,}")
print(f"relative error {fit.error:.4f}: that is the noise")

fig, axes = plt.subplots(2, 4, figsize=(8.5, 4.8), layout="constrained")
panels = {f"the matrix: {M.size:,} entries": M}
panels |= {f"$S_{i}$: {factor.size} entries": factor for i, factor in enumerate(op.factors, start=1)}
panels["the product $S_1 … S_6$"] = op.toarray()
for ax, (title, panel) in zip(axes.flat, panels.items(), strict=True):
    pp.plot.matrix(panel, ax, title)

# %%
# The simplest alternatives with as many entries, the largest entries and a truncated SVD, are of no use here.


def thresholded(matrix, n_entries):
    """The relative error if only the largest entries are kept."""
    kept = np.sort(np.abs(matrix), axis=None)[-n_entries:]
    return np.sqrt(1 - np.sum(kept**2) / np.linalg.norm(matrix) ** 2)


def truncated(matrix, n_entries):
    """The relative error of the best matrix of a rank that costs at most so many entries."""
    rank = int(n_entries / sum(matrix.shape))
    return np.linalg.norm(np.linalg.svd(matrix, compute_uv=False)[rank:]) / np.linalg.norm(matrix)


print(f"largest entries: error {thresholded(M, op.nnz):.2f}; truncated SVD: error {truncated(M, op.nnz):.2f}")

# %%
# An operator like any other
# --------------------------
#
# The result is a SciPy ``LinearOperator``. In a notebook it shows itself:

op

# %%
# It behaves like a matrix, and can be saved and loaded. The speed-up is measured on this machine, against the
# dense matrix. At this size the dense matrix fits into the fastest cache, and a product may even be slower; larger
# ones gain more.

x = rng.standard_normal(64)
with tempfile.TemporaryDirectory() as folder:
    op.save(Path(folder, "op.npz"))
    assert np.array_equal(pp.load(Path(folder, "op.npz")) @ x, op @ x)
print("adjoint:", np.allclose(op.H @ x, op.toarray().T @ x), "  columns:", op[:, :8].shape)
print(f"times as fast as dense: {fit.speedup.vector:.1f} for one vector, {fit.speedup.block:.1f} for 256")

# %%
# A matrix without structure
# --------------------------
#
# A matrix of random entries is no fast transform. Fewer entries then mean a larger error, and
# :func:`papilio.tradeoff` shows the whole curve. With few entries nothing that it tries is better than the largest
# entries of the matrix, so it returns these. With more, a product has a lower error than they have, but still not
# a small one.

A = rng.standard_normal((32, 32))
curve = pp.tradeoff(A, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
shares = np.array([point.operator.relative_complexity for point in curve.points])

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.plot(shares, [truncated(A, s * A.size) for s in shares], "s-", color="0.55", label="truncated SVD")
ax.plot(shares, [thresholded(A, int(s * A.size)) for s in shares], "^-", color="#0072b2", label="largest entries")
ax.plot(shares, [point.error for point in curve.points], "o-", color="#d55e00", label="papilio.tradeoff")
ax.set(xlabel="entries, relative to the dense matrix", ylabel="relative error", ylim=(0, 1))
ax.set_title("a random 32×32 matrix", fontsize="medium")
ax.legend(frameon=False)
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
