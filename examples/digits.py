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

N_ATOMS, N_NONZERO, COMPLEXITY = 128, 8, 0.3


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
    print(f"{len(X)} digits to learn from, {len(X_test)} to be tested with, {X.shape[1]} pixels each.\n")

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
        steps = [StandardScaler(), LogisticRegression(C=0.1, max_iter=2000)]
        pipeline = make_pipeline(*([] if coder is None else [coder]), *steps)
        begin = perf_counter()
        pipeline.fit(X, y)
        seconds = perf_counter() - begin
        accuracies[name] = pipeline.score(X_test, y_test)
        entries = "" if coder is None else f"{coder.operator_.nnz:,}"
        print(f"{name:<18} {entries:>8} {seconds:>10.1f} s {accuracies[name]:>9.3f}")

    dense, fast = coders["dense dictionary"], coders["fast dictionary"]
    lost = accuracies["dense dictionary"] - accuracies["fast dictionary"]
    print(
        f"\nThe fast dictionary has {fast.relative_complexity_:.0%} of the entries of the dense one; the accuracy "
        f"{'falls' if lost > 0 else 'rises'} by {100 * abs(lost):.1f} points."
    )

    figure = matplotlib.figure.Figure(figsize=(10, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1])
    bars = left.barh(list(accuracies), list(accuracies.values()), color=["0.75", "#0072b2", "#d55e00"])
    left.bar_label(bars, fmt="%.3f", padding=4)
    left.set_xlim(0, 1.2)
    left.set_xticks([0, 0.5, 1])
    left.invert_yaxis()
    left.set_xlabel("accuracy on digits that nothing has seen")
    left.spines[["top", "right"]].set_visible(False)
    pp.plot.atoms(dense.operator_, ax=middle).set_title("dense: 8,192 entries", fontsize="medium")
    pp.plot.atoms(fast.operator_, ax=right).set_title(f"fast: {fast.operator_.nnz:,} entries", fontsize="medium")
    path = folder / "digits.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
