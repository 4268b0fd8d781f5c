"""Handwritten digits: sparse codes as the features of a classifier, in a scikit-learn pipeline.

    python examples/digits.py [FOLDER]

A dictionary of small strokes is learned from the digits themselves, without their labels. Each digit is then
described by the few strokes that make it up, and a linear classifier sees these instead of the pixels. The
question is what the classifier loses when the dictionary is a fast one, with a third of a dense one's entries.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.figure
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import papilio as pp

N_ATOMS, N_NONZERO, COMPLEXITY = 256, 4, 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # 1,797 digits of 8×8 pixels. Half of them are kept away from everything that learns.
    digits = load_digits()
    X, X_test, y, y_test = train_test_split(
        digits.data / 16, digits.target, test_size=0.5, random_state=0, stratify=digits.target
    )
    print(f"{len(X)} digits to learn from, {len(X_test)} to be tested with.")
    print(f"A digit is {X.shape[1]} pixels, or {N_NONZERO} of {N_ATOMS} strokes.\n")

    # An estimator of papilio is a transformer as any other: it fits a dictionary and gives codes.
    coders = {
        "raw pixels": None,
        "dense dictionary": pp.KSVD(N_ATOMS, N_NONZERO, random_state=0),
        "fast dictionary": pp.FastDictionaryLearning(N_ATOMS, N_NONZERO, complexity=COMPLEXITY, random_state=0),
    }
    accuracies = {}
    print(f"{'features':<18} {'entries':>8} {'time to fit':>12} {'accuracy':>9}")
    for name, coder in coders.items():
        # Codes are of both signs and of very different sizes: scaled, all atoms have a say.
        steps = [StandardScaler(), LogisticRegression(C=0.1, max_iter=3000)]
        pipeline = make_pipeline(*([] if coder is None else [coder]), *steps)
        begin = perf_counter()
        pipeline.fit(X, y)
        seconds = perf_counter() - begin
        accuracies[name] = pipeline.score(X_test, y_test)
        entries = "" if coder is None else f"{coder.operator_.nnz:,}"
        print(f"{name:<18} {entries:>8} {seconds:>10.1f} s {accuracies[name]:>9.3f}")

    dense, fast = coders["dense dictionary"].operator_, coders["fast dictionary"].operator_
    print(
        f"\nSaid in {N_NONZERO} numbers instead of {X.shape[1]}, digits are recognised about as well; the fast "
        f"dictionary does it with {fast.relative_complexity:.0%} of the entries of a dense one."
    )

    figure = matplotlib.figure.Figure(figsize=(10, 3.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    styles = {
        "raw pixels": ("0.4", "o"),
        "dense dictionary": ("#0072b2", "s"),
        "fast dictionary": ("#d55e00", "D"),
    }
    for place, (name, (colour, marker)) in enumerate(styles.items()):
        left.plot(accuracies[name], place, marker, color=colour, markersize=9)
        left.annotate(
            f"{accuracies[name]:.3f}", (accuracies[name], place), (0, 9), textcoords="offset points", ha="center"
        )
    left.set_yticks(range(3), list(styles))
    left.set_ylim(2.5, -0.5)
    left.set_xlim(0.9, 1)
    left.grid(axis="x", color="0.9")
    left.set_xlabel("accuracy on digits that nothing has seen")
    left.spines[["top", "right"]].set_visible(False)
    pp.plot.atoms(dense, ax=middle).set_title(f"dense: {dense.nnz:,} entries", fontsize="medium")
    pp.plot.atoms(fast, ax=right).set_title(f"fast: {fast.nnz:,} entries", fontsize="medium")
    path = folder / "digits.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
