"""
A covariance from few samples
=============================

With 64 sensors and fewer measurements than that, the sample covariance is singular, and cannot be used for a
whitening filter or a likelihood. :class:`papilio.rotations.SparseMatrixTransform` describes the covariance by a
few rotations of pairs of sensors; cross-validation chooses how many. It is compared with estimators of
scikit-learn, on data that suit it and on data that do not.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.covariance import OAS, LedoitWolf

import papilio as pp

SENSORS, NEW = 64, 2000
COUNTS = 16, 32, 64, 128, 256

# %%
# Three kinds of data
# -------------------
#
# *Few mixtures*: independent sources, mixed by 60 rotations of pairs, as SparseMatrixTransform assumes. *A
# chain*: neighbours are correlated, and correlations fall with the distance; no product of few rotations is
# exact. *Patches*: 8×8 pixels of photographs, which are far from normally distributed.

rng = np.random.default_rng(0)


def mixtures():
    basis = np.eye(SENSORS)
    for _ in range(60):
        i, j = rng.choice(SENSORS, 2, replace=False)
        angle = rng.uniform(0.3, 1.2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        basis[:, [i, j]] = basis[:, [i, j]] @ turn
    return basis @ np.diag(np.geomspace(0.05, 20, SENSORS)) @ basis.T


def chain():
    places = np.arange(SENSORS)
    return np.exp(-np.abs(places[:, None] - places) / 5)


def normal(covariance):
    root = np.linalg.cholesky(covariance)
    return lambda count: rng.standard_normal((count, SENSORS)) @ root.T


mixed = mixtures()
pixels = iter(100 * pp.datasets.image_patches(40_000, 8, random_state=0).reshape(-1, SENSORS))
kinds = {
    "few mixtures": normal(mixed),
    "a chain": normal(chain()),
    "patches": lambda count: np.array([next(pixels) + 0.5 * rng.standard_normal(SENSORS) for _ in range(count)]),
}

# %%
# Likelihoods of new samples
# --------------------------
#
# The score of an estimator is the Gaussian log-likelihood per sample, averaged over three draws: the higher, the
# better. The table and the figure show how far each one is below the best of the three.

estimators = {"SparseMatrixTransform": pp.rotations.SparseMatrixTransform, "Ledoit–Wolf": LedoitWolf, "OAS": OAS}
styles = dict(zip(estimators, (("#d55e00", "o"), ("#0072b2", "s"), ("0.45", "^")), strict=True))
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
print(f"{'samples':<36}" + "".join(f"{count:>8}" for count in COUNTS))
for ax, (kind, draw) in zip(axes, kinds.items(), strict=True):
    new = draw(NEW)
    scores = {name: [] for name in estimators}
    for count in COUNTS:
        draws = [draw(count) for _ in range(3)]
        for name, estimator in estimators.items():
            scores[name].append(np.mean([estimator(assume_centered=True).fit(X).score(new) for X in draws]))
    best = np.max(list(scores.values()), axis=0)
    for name, (colour, marker) in styles.items():
        below = np.array(scores[name]) - best
        print(f"{kind:<14}{name:<22}" + "".join(f"{each:>8.2f}" for each in below))
        ax.semilogx(COUNTS, below, marker=marker, color=colour, label=name)
    ax.axvline(SENSORS, color="0.85", zorder=0)
    ax.set_xticks(COUNTS, COUNTS)
    ax.minorticks_off()
    ax.set(xlabel="samples", title=kind)
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("log-likelihood below the best")
axes[0].legend(frameon=False, fontsize="small")

# %%
# What is gained, and where not
# -----------------------------
#
# The gain is largest where few rotations describe the covariance, also with fewer samples than sensors. On the
# chain it is smaller, and vanishes with more samples. On patches Ledoit–Wolf is about as good, except with very
# few samples, and it needs no cross-validation. The estimate is also a fast transform: its matrix of eigenvectors
# is the product of the chosen rotations.

X = kinds["few mixtures"](64)
model = pp.rotations.SparseMatrixTransform(assume_centered=True).fit(X)
print(f"{model.n_rotations_} rotations, {model.operator_.nnz} entries of {SENSORS**2} for the eigenvectors")

fig, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
shown = {
    "the truth": mixed,
    "sample covariance, 64 samples": X.T @ X / len(X),
    "SparseMatrixTransform": model.covariance_,
    "Ledoit–Wolf": LedoitWolf(assume_centered=True).fit(X).covariance_,
}
for ax, (name, covariance) in zip(axes, shown.items(), strict=True):
    pp.plot.matrix(np.clip(covariance, -3, 3), ax, name)

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
