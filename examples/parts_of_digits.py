"""Parts of parts: handwritten digits as sums of parts, parts of strokes, and strokes of a few pixels.

    python examples/parts_of_digits.py [FOLDER]

Non-negative matrix factorization describes pictures by parts, because parts can only be added. With one more
factor, the parts are themselves made of smaller parts, and with fewer strokes than parts they have to share them.
The question is what that costs in error.
"""

import argparse
from pathlib import Path

import matplotlib.figure
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF

import papilio as pp

N_STROKES, N_PARTS = 24, 36
PIXELS, STROKES = 6, 3  # of a stroke, and of a part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # 1,797 digits of 8×8 pixels, from 0 (white) to 1 (black).
    X = load_digits().data / 16
    size = np.linalg.norm(X)
    print(f"{len(X)} digits of {X.shape[1]} pixels, as sums of {N_PARTS} parts.\n")

    # One level is NMF. The second one: parts are sums of a few strokes, and strokes are a few pixels.
    plain = NMF(N_PARTS, init="nndsvda", max_iter=3000, tol=1e-4).fit(X)
    layers = pp.MultilayerNMF(
        ranks=(N_STROKES, N_PARTS), sparsity=(PIXELS, STROKES), n_init=1, random_state=0
    ).fit(X)
    strokes, combinations = layers.operator_.factors
    rows = {
        "NMF": (plain.components_, np.count_nonzero(plain.components_)),
        "two levels": (layers.components_, layers.operator_.nnz),
    }
    codes = {"NMF": plain.transform(X), "two levels": layers.transform(X)}
    print(f"{'components':<12} {'entries':>8} {'error':>7}")
    for name, (components, entries) in rows.items():
        error = np.linalg.norm(X - codes[name] @ components) / size
        print(f"{name:<12} {entries:>8,} {error:>7.3f}")
    uses = np.bincount(combinations.tocoo().row, minlength=N_STROKES)
    print(f"\n{np.count_nonzero(uses > 1)} of {N_STROKES} strokes are in more than one part.")

    figure = matplotlib.figure.Figure(figsize=(11, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    parts = layers.components_.T
    pp.plot.atoms(strokes, (8, 8), left).set_title(f"{N_STROKES} strokes of {PIXELS} pixels", fontsize="medium")
    pp.plot.atoms(parts, (8, 8), middle).set_title(f"{N_PARTS} parts of {STROKES} strokes", fontsize="medium")
    some = np.concatenate([X[:8], layers.inverse_transform(codes["two levels"][:8])]).T
    pp.plot.atoms(some, (8, 8), right).set_title("8 digits, and the sums of their parts", fontsize="medium")
    path = folder / "parts_of_digits.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
