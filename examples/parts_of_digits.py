"""
Parts of parts
==============

Non-negative matrix factorization describes pictures by parts, because parts can only be added. With one more
factor, the parts are themselves made of smaller parts: handwritten digits are sums of parts, parts are sums of
strokes, and a stroke is a few pixels. Parts may share strokes. What does that save, and what does it cost in
error?
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import papilio as pp

N_STROKES, N_PARTS = 36, 16
PIXELS, STROKES = 4, 5  # Pixels of a stroke, and strokes of a part.

# %%
# One level, and two
# ------------------
#
# The first 300 of scikit-learn's digits, with 8×8 pixels from 0 (white) to 1 (black). One level is its ``NMF``.
# Two levels add that each part has at most five strokes, and each stroke at most four pixels.

X = load_digits().data[:300] / 16
plain = NMF(N_PARTS, init="nndsvda", max_iter=3000, random_state=0).fit(X)
layers = pp.nonnegative.MultilayerNMF(
    ranks=(N_STROKES, N_PARTS), sparsity=(PIXELS, STROKES), n_init=1, random_state=0
).fit(X)
strokes, combinations = layers.operator_.factors
codes = layers.transform(X)

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 4.2), layout="constrained")
pp.plot.atoms(strokes, (8, 8), left).set_title(
    f"{N_STROKES} strokes of at most {PIXELS} pixels", fontsize="medium"
)
parts = layers.components_.T
pp.plot.atoms(parts, (8, 8), middle).set_title(f"{N_PARTS} parts of at most {STROKES} strokes", fontsize="medium")
some = np.concatenate([X[:8], layers.inverse_transform(codes[:8])]).T
pp.plot.atoms(some, (8, 8), right).set_title("8 digits, and the sums of their parts", fontsize="medium")

# %%
# What it costs
# -------------
#
# NMF finds sparse parts by itself. The strokes and what the parts take of them are fewer numbers still, at nearly
# the same error.

rows = {
    "NMF": (np.count_nonzero(plain.components_), X - plain.transform(X) @ plain.components_),
    "two levels": (layers.operator_.nnz, X - codes @ layers.components_),
}
print(f"{'components':<12} {'entries':>8} {'error':>7}")
for name, (entries, rest) in rows.items():
    print(f"{name:<12} {entries:>8,} {np.linalg.norm(rest) / np.linalg.norm(X):>7.3f}")
uses = np.bincount(combinations.tocoo().row, minlength=N_STROKES)
print(f"{np.count_nonzero(uses > 1)} of {N_STROKES} strokes are in more than one part")

# %%
# Digits as sums of parts
# -----------------------
#
# The parts with the largest coefficients come first.

shown = 0, 4, 5
counts = 2, 4, 8, N_PARTS
fig, axes = plt.subplots(len(shown), 1 + len(counts), figsize=(7, 4.5), layout="constrained")
for row, digit in zip(axes, shown, strict=True):
    order = np.argsort(-codes[digit])
    sums = [codes[digit, order[:n]] @ layers.components_[order[:n]] for n in counts]
    for ax, picture in zip(row, [X[digit], *sums], strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
for ax, title in zip(axes[0], ("digit", *(f"{n} parts" for n in counts)), strict=True):
    ax.set_title(title, fontsize="medium")

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
