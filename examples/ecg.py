"""An electrocardiogram in a few coefficients: a learned fast transform against the DCT and wavelets.

    python examples/ecg.py [FOLDER]

A heart beats nearly the same way again and again. A transform that was learned from the first part of a recording
should say the rest of it in fewer numbers than one that knows nothing of hearts. The learned one is a product of
sparse factors, so that it could run on the small device that does the recording.
"""

import argparse
from pathlib import Path

import matplotlib.figure
import numpy as np
import pywt

import papilio as pp

WINDOW, COMPLEXITY = 64, 0.3
COUNTS = range(1, 11)  # coefficients a window
SHOWN = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # The first three quarters are for learning, in all windows that there are; the rest is new to the dictionary.
    signal = np.asarray(pywt.data.ecg(), dtype=float)
    split = len(signal) * 3 // 4
    learned_from = np.lib.stride_tricks.sliding_window_view(signal[:split], WINDOW)
    new = signal[split : split + (len(signal) - split) // WINDOW * WINDOW].reshape(-1, WINDOW)
    print(
        f"{len(learned_from)} windows of {WINDOW} samples to learn from, {len(new)} new ones to be compressed.\n"
    )

    # Each window is coded less its mean, which is one more number for every transform alike.
    learned_from = learned_from - learned_from.mean(axis=1, keepdims=True)
    means = new.mean(axis=1, keepdims=True)
    centred = new - means

    model = pp.FastDictionaryLearning(
        n_components=WINDOW, n_nonzero_coefs=SHOWN, complexity=COMPLEXITY, random_state=0
    ).fit(learned_from)
    transforms = {
        "learned": model.operator_,
        "DCT": pp.transforms.dct(WINDOW).T,
        "wavelet (db4)": pp.transforms.wavelet(WINDOW, "db4").T,
    }
    errors = {
        name: [
            float(np.linalg.norm(centred - rebuilt(op, centred, k)) / np.linalg.norm(new - new.mean()))
            for k in COUNTS
        ]
        for name, op in transforms.items()
    }
    print("relative error of the new windows")
    print(f"{'coefficients':<14} {'entries':>8} " + " ".join(f"{k:>6}" for k in COUNTS))
    for name, op in transforms.items():
        print(f"{name:<14} {op.nnz:>8,} " + " ".join(f"{error:6.3f}" for error in errors[name]))
    rival = min(errors["DCT"][SHOWN - 1], errors["wavelet (db4)"][SHOWN - 1])
    print(
        f"\nWith {SHOWN} of {WINDOW} coefficients a window the learned transform leaves an error of "
        f"{errors['learned'][SHOWN - 1]:.3f}, the better one of the others {rival:.3f}."
    )

    figure = matplotlib.figure.Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.8, 1])
    time = np.arange(new.size) + split
    left.plot(time, new.ravel(), color="0.7", linewidth=3, label="recorded")
    styles = {"learned": ("#d55e00", "-"), "DCT": ("#0072b2", ":")}
    for name, (colour, line) in styles.items():
        back = rebuilt(transforms[name], centred, SHOWN) + means
        left.plot(time, back.ravel(), line, color=colour, linewidth=1.4, label=f"{name}, {SHOWN} coefficients")
    left.set_title("Heart beats that the dictionary has not seen", fontsize="medium")
    left.set_xlabel("sample")
    left.legend(frameon=False, fontsize="small")
    markers = dict(zip(transforms, (("#d55e00", "o"), ("#0072b2", "s"), ("#009e73", "^")), strict=True))
    for name, (colour, marker) in markers.items():
        right.plot(list(COUNTS), errors[name], marker=marker, color=colour, label=name)
    right.set_ylim(bottom=0)
    right.set_xlabel(f"coefficients for each {WINDOW} samples")
    right.set_ylabel("relative error")
    right.legend(frameon=False, fontsize="small")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    path = folder / "ecg.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


def rebuilt(op: pp.SparseProduct, windows: np.ndarray, k: int) -> np.ndarray:
    """The windows from their ``k`` best coefficients; in an orthogonal transform these are the largest."""
    return (op @ pp.omp(op, windows.T, k)).T


if __name__ == "__main__":
    main()
