"""
Which measurements say the same?
================================

In scikit-learn's breast cancer data, thirty measurements describe the cell nuclei of a patient. Many of them say
nearly the same: radius, perimeter and area, for instance. Principal components mix all thirty.
:class:`papilio.rotations.Treelets` instead builds a tree of the measurements, and a basis whose vectors are zero
outside of a group in this tree. What does that cost a classifier that only sees a few numbers per patient?
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import papilio as pp

N_COMPONENTS = 6

# %%
# The tree
# --------
#
# Measurements have different units, so they are scaled to variance one. The two that are most correlated are
# merged into a sum and a difference; the sum may be merged again, the difference stays, and so on.

data = load_breast_cancer()
X, features = StandardScaler().fit_transform(data.data), data.feature_names
model = pp.rotations.Treelets(N_COMPONENTS).fit(X)
print("The first merges, with the correlation of the two that are merged:")
for (total, difference), correlation in list(zip(model.merges_, model.correlations_, strict=True))[:5]:
    print(f"  {correlation:6.3f}  {features[total]} and {features[difference]}")

fig = plt.figure(figsize=(10, 8), layout="constrained")
pp.plot.treelets(model, names=features, figure=fig)

# %%
# A basis that can be read
# ------------------------

print(f"The best basis of {N_COMPONENTS} vectors is that of level {model.level_}. Its vectors are made of:")
for vector, energy in zip(model.components_, model.energies_, strict=True):
    support = np.flatnonzero(np.abs(vector) > 1e-9)
    names = [features[k] for k in support[np.argsort(-np.abs(vector[support]))]]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    print(f"  {energy:5.1%}  {', '.join(names[:4])}{more}")

# %%
# What it costs
# -------------
#
# Treelets keep less of the variance than as many principal components, which keep the most that is possible. The
# accuracy of the classifier is measured by cross-validation, with a new basis in each fold.

pca = PCA(N_COMPONENTS).fit(X)
entries = np.count_nonzero(np.abs(model.components_) > 1e-9)
rows = {
    "all 30 measurements": (None, "", 1.0),
    f"{N_COMPONENTS} principal components": (
        PCA(N_COMPONENTS),
        pca.components_.size,
        pca.explained_variance_ratio_.sum(),
    ),
    f"{N_COMPONENTS} treelets": (pp.rotations.Treelets(N_COMPONENTS), entries, model.energies_.sum()),
}
folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0)
print(f"{'a classifier sees':<24} {'entries':>8} {'variance':>9} {'accuracy':>9}")
for name, (coder, count, share) in rows.items():
    steps = [StandardScaler(), *([] if coder is None else [coder]), LogisticRegression()]
    accuracy = cross_val_score(make_pipeline(*steps), data.data, data.target, cv=folds).mean()
    print(f"{name:<24} {count:>8} {share:>9.1%} {accuracy:>9.3f}")

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
