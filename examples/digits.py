"""
Sparse codes as features
========================

A dictionary is learned from handwritten digits, without their labels. Each digit is then described by four atoms
and their coefficients, and a linear classifier sees these codes instead of the pixels, in a scikit-learn pipeline.
What does the classifier lose when the dictionary is a fast one, with 30 % of the entries of a dense matrix?
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import papilio as pp

N_ATOMS, N_NONZERO, COMPLEXITY = 256, 4, 0.3

# %%
# The digits
# ----------
#
# 1,797 digits of 8×8 pixels. Half of them are held out for testing.

digits = load_digits()
X, X_test, y, y_test = train_test_split(
    digits.data / 16, digits.target, test_size=0.5, random_state=0, stratify=digits.target
)

# %%
# Three pipelines
# ---------------
#
# An estimator of papilio is a scikit-learn transformer like any other: it fits a dictionary and returns codes.
# Codes have both signs and very different sizes, so they are scaled before classification.

coders = {
    "raw pixels": None,
    "dense dictionary": pp.KSVD(N_ATOMS, N_NONZERO, random_state=0),
    "fast dictionary": pp.FastDictionaryLearning(N_ATOMS, N_NONZERO, complexity=COMPLEXITY, random_state=0),
}
accuracies = {}
print(f"{'features':<18} {'entries':>8} {'time to fit':>12} {'accuracy':>9}")
for name, coder in coders.items():
    steps = [StandardScaler(), LogisticRegression(C=0.1, max_iter=3000)]
    pipeline = make_pipeline(*([] if coder is None else [coder]), *steps)
    begin = perf_counter()
    pipeline.fit(X, y)
    seconds = perf_counter() - begin
    accuracies[name] = pipeline.score(X_test, y_test)
    entries = "" if coder is None else f"{coder.operator_.nnz:,}"
    print(f"{name:<18} {entries:>8} {seconds:>10.1f} s {accuracies[name]:>9.3f}")

# %%
# What is lost
# ------------
#
# With 4 coefficients instead of 64 pixels, digits are recognised about as well, with either dictionary. A
# difference of a hundredth is nine digits; another split of the data may change as many. For accuracy alone no
# dictionary is needed, as pixels do as well: the example shows that so few coefficients are enough.

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained")
styles = (("0.4", "o"), ("#0072b2", "s"), ("#d55e00", "D"))
for place, (accuracy, (colour, marker)) in enumerate(zip(accuracies.values(), styles, strict=True)):
    left.plot(accuracy, place, marker, color=colour, markersize=9)
    left.annotate(f"{accuracy:.3f}", (accuracy, place), (0, 9), textcoords="offset points", ha="center")
left.set_yticks(range(3), list(accuracies))
left.set(xlim=(0.9, 1), ylim=(2.5, -0.5), xlabel="accuracy on digits that nothing has seen")
left.grid(axis="x", color="0.9")
left.spines[["top", "right"]].set_visible(False)
dense, fast = coders["dense dictionary"].operator_, coders["fast dictionary"].operator_
pp.plot.atoms(dense, ax=middle).set_title(f"dense: {dense.nnz:,} entries", fontsize="medium")
pp.plot.atoms(fast, ax=right).set_title(f"fast: {fast.nnz:,} entries", fontsize="medium")

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
