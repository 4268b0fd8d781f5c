"""Which measurements say the same? Groups of correlated features, found by treelets in medical data.

    python examples/treelets.py [FOLDER]

A cell nucleus in scikit-learn's breast cancer data is described by thirty measurements, many of which say nearly
the same: radius, perimeter and area, for instance. Principal components mix all thirty. Treelets build a tree
instead, and a basis whose vectors are sums and differences of groups of it, and zero elsewhere. The question is
what that costs a classifier that only sees a few numbers per patient.
"""

import argparse
from pathlib import Path

import matplotlib.figure
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import papilio as pp

N_COMPONENTS = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # Measurements have different units: scaled, all have variance one.
    data = load_breast_cancer()
    X, features = StandardScaler().fit_transform(data.data), data.feature_names
    print(f"{len(X)} patients, {X.shape[1]} measurements each.\n")

    model = pp.Treelets(N_COMPONENTS).fit(X)
    print("The first merges, with the correlation of the two that are merged:")
    for (total, difference), correlation in list(zip(model.merges_, model.correlations_, strict=True))[:5]:
        print(f"  {correlation:6.3f}  {features[total]} and {features[difference]}")

    pca = PCA(N_COMPONENTS).fit(X)
    print(f"\nThe best basis of {N_COMPONENTS} vectors is that of level {model.level_}. Its vectors are made of:")
    for vector, energy in zip(model.components_, model.energies_, strict=True):
        support = np.flatnonzero(np.abs(vector) > 1e-9)
        names = [features[k] for k in support[np.argsort(-np.abs(vector[support]))]]
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        print(f"  {energy:5.1%}  {', '.join(names[:4])}{more}")
    entries = np.count_nonzero(np.abs(model.components_) > 1e-9)
    shares = {"treelets": model.energies_.sum(), "PCA": pca.explained_variance_ratio_.sum()}

    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0)
    coders = {"all": None, "PCA": PCA(N_COMPONENTS), "treelets": pp.Treelets(N_COMPONENTS)}
    accuracies = {}
    for name, coder in coders.items():
        steps = [StandardScaler(), *([] if coder is None else [coder]), LogisticRegression()]
        accuracies[name] = cross_val_score(make_pipeline(*steps), data.data, data.target, cv=folds).mean()
    print(f"\n{'a classifier sees':<24} {'entries':>8} {'energy':>8} {'accuracy':>9}")
    print(f"{'all 30 measurements':<24} {'':>8} {1:>8.1%} {accuracies['all']:>9.3f}")
    rows = {"PCA": ("principal components", pca.components_.size), "treelets": ("treelets", entries)}
    for name, (title, count) in rows.items():
        title = f"{N_COMPONENTS} {title}"
        print(f"{title:<24} {count:>8} {shares[name]:>8.1%} {accuracies[name]:>9.3f}")
    print(
        f"\nWhat can be read costs little: {N_COMPONENTS} treelets keep {shares['treelets']:.0%} of the variance, "
        f"where principal components keep {shares['PCA']:.0%}, with {entries / pca.components_.size:.0%} of their "
        "entries."
    )

    figure = matplotlib.figure.Figure(figsize=(10, 8), layout="constrained")
    pp.plot.treelets(model, names=features, figure=figure)
    path = folder / "treelets.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
