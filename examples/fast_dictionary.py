"""
A fast dictionary, judged on new data
=====================================

A dictionary is learned from patches of a photograph, so that each patch is a sum of five of its atoms. Dense
ones are learned by K-SVD and by scikit-learn; :class:`papilio.FastDictionaryLearning` learns one that is a
product of two sparse factors. What counts is the error on patches that were not used for learning, next to the
time to learn, and the time to apply.
"""

import sys
import warnings
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning

import papilio as pp

N_ATOMS, N_NONZERO = 128, 5
SIZES = 300, 1000, 3000, 10_000

# %%
# Three sets of patches
# ---------------------
#
# Patches of 8×8 pixels, without their means. One half of the patches of one photograph is learned from, and the
# other half is held out. Another photograph is harder: its textures are different.

patches = pp.datasets.image_patches(20_000, 8, images="china", random_state=0)
X, held_out = patches[::2], patches[1::2]
other = pp.datasets.image_patches(10_000, 8, images="flower", random_state=1)

# %%
# Five dictionaries
# -----------------
#
# All are used in the same way: orthogonal matching pursuit with five atoms per patch. The 121 cosines are not
# learned. scikit-learn's learner minimises another objective, with an ℓ1 penalty. The last column is the time of
# products with 256 vectors, relative to the same matrix in dense form.


def error_on(dictionary, samples):
    """The relative error of coding."""
    return np.linalg.norm(samples.T - dictionary @ pp.omp(dictionary, samples.T, N_NONZERO)) / np.linalg.norm(
        samples
    )


def relative_time(op):
    dense, block = op.toarray(), np.random.default_rng(0).standard_normal((op.shape[1], 256))
    best = [np.inf, np.inf]
    for _ in range(200):
        for i, operator in enumerate((dense, op)):
            begin = perf_counter()
            operator @ block
            best[i] = min(best[i], perf_counter() - begin)
    return best[1] / best[0]


def learned_by_sklearn():
    options = {"fit_algorithm": "cd", "alpha": 0.1, "max_iter": 10, "batch_size": 256, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # Codes of early batches need not converge.
        return pp.SparseProduct([MiniBatchDictionaryLearning(N_ATOMS, **options).fit(X).components_.T])


def fast(complexity, samples=X):
    options = {"complexity": complexity, "random_state": 0}
    return pp.FastDictionaryLearning(N_ATOMS, N_NONZERO, **options).fit(samples).operator_


def dense(samples=X):
    return pp.KSVD(N_ATOMS, N_NONZERO, tol=0, random_state=0).fit(samples).operator_


learners = {
    "cosines": lambda: pp.images.redundant_dct(8, 11),
    "scikit-learn": learned_by_sklearn,
    "K-SVD": dense,
    "fast, 0.5": lambda: fast(0.5),
    "fast, 0.25": lambda: fast(0.25),
}
fast(0.5, X[:500])  # kernels are compiled, once on a machine: that is not timed
dictionaries, summary = {}, {}
print(f"{'':<14}{'to learn':>9}{'learned from':>14}{'held out':>10}{'other photo':>13}{'entries':>9}{'time':>7}")
for name, learn in learners.items():
    begin = perf_counter()
    D = dictionaries[name] = learn()
    seconds = perf_counter() - begin
    errors = [error_on(D, samples) for samples in (X, held_out, other)]
    print(f"{name:<14}{seconds:>7.1f} s", end="")
    time = relative_time(D)
    summary[name] = errors[1], time
    print(f"{errors[0]:>14.3f}{errors[1]:>10.3f}{errors[2]:>13.3f}{D.nnz:>9,}{time:>7.2f}")
print("on held-out patches, beside K-SVD:")
for name in ("fast, 0.5", "fast, 0.25"):
    error, time = summary[name]
    print(f"  {name}: {error / summary['K-SVD'][0] - 1:+.1%} error, in {time:.2f} of the time per product")

# %%
# What they look like
# -------------------
#
# With half of the entries, the atoms look much like those of the dense dictionary. With a quarter of them, they
# are simpler.

fig, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for ax, name in zip(axes, ("K-SVD", "fast, 0.5", "fast, 0.25"), strict=True):
    D = dictionaries[name]
    pp.plot.atoms(D, (8, 8), ax).set_title(f"{name}: {D.nnz:,} entries", fontsize="medium")

# %%
# Few samples
# -----------
#
# With few patches, a dense dictionary memorises them: its error is low on what it has seen, and high on what it
# has not. The error on the data that were learned from then says little. The fast dictionary has a quarter of
# the numbers, and the gap between its two errors closes sooner. That does not make it better on new patches:
# compare the two solid lines. What it can gain is time: choose it where products with the dictionary take most
# of it.

curves = {"K-SVD": dense, "fast, 0.25": lambda samples: fast(0.25, samples)}
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, learn), colour in zip(curves.items(), ("0.4", "#d55e00"), strict=True):
    some = [learn(X[:n]) for n in SIZES]
    ax.semilogx(SIZES, [error_on(D, held_out) for D in some], "o-", color=colour, label=f"{name}, held out")
    seen = [error_on(D, X[:n]) for n, D in zip(SIZES, some, strict=True)]
    ax.semilogx(SIZES, seen, "o:", color=colour, label=f"{name}, learned from")
ax.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
ax.minorticks_off()
ax.set(xlabel="patches to learn from", ylabel="relative error", ylim=(0, 0.7))
ax.legend(frameon=False, fontsize="small")
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
