"""What is a photograph made of? Small atoms that may stand anywhere, each a chain of tiny convolutions.

    python examples/convolutional_atoms.py [FOLDER]

Dictionaries of patches learn the same stroke again and again, at each place where a patch may cut it. Here an atom
may stand at any pixel, so that each stroke is learned once. An atom is a composition of small kernels: that takes
fewer numbers than its pixels, and a transform that applies them one after the other takes less time.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.figure
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

import papilio as pp

SIDE, TOP, LEFT = 128, 150, 120
N_ATOMS, N_COEFS = 8, 800


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # Edges and textures are what atoms are for: slow changes of brightness are taken off first.
    photograph = load_sample_image("china.jpg") @ [0.299, 0.587, 0.114]
    image = photograph[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
    detail = image - gaussian_filter(image, 4, mode="wrap")
    supports = pp.kernel_supports((3, 3), [1, 1, 2], centered=True)
    print(f"{SIDE}×{SIDE} pixels, {N_COEFS} coefficients, {N_ATOMS} atoms of three 3×3 kernels each.\n")

    begin = perf_counter()
    learned = pp.convolutional_dictionary(detail, N_ATOMS, supports, N_COEFS, max_iter=25, random_state=0)
    errors = learned.history.error
    print(f"{len(errors)} iterations in {perf_counter() - begin:.1f} s: the relative error fell from", end=" ")
    print(f"{errors[0]:.3f} to {learned.error:.3f}.")

    # The same number of coefficients in a transform that knows nothing of the photograph.
    wavelet = pp.transforms.wavelet(SIDE, "db4")
    coefficients = wavelet @ (wavelet @ detail).T
    limit = np.sort(np.abs(coefficients), axis=None)[-N_COEFS]
    kept = np.where(np.abs(coefficients) >= limit, coefficients, 0)
    rival = wavelet.T @ (wavelet.T @ kept).T
    print(f"As many wavelets (db4) leave {np.linalg.norm(detail - rival) / np.linalg.norm(detail):.3f}.")
    places = learned.chains[0].n_coefficients
    print(f"An atom is 9×9 pixels and {places} numbers: it takes {places} multiplications per pixel, not 81.")

    figure = matplotlib.figure.Figure(figsize=(11, 5.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.5])
    shown = {"photograph, slow changes off": detail, f"{N_COEFS} coefficients": learned.reconstruct()[0]}
    for ax, (name, picture) in zip(left.subplots(2, 1), shown.items(), strict=True):
        ax.imshow(picture, cmap="gray", vmin=-60, vmax=60, interpolation="nearest")
        ax.set_title(name, fontsize="medium")
        ax.set_axis_off()
    axes = right.subplots(N_ATOMS // 2, 8)
    atoms = np.roll(learned.atoms, (5, 5), axis=(1, 2))[:, :11, :11]
    uses = np.count_nonzero(learned.codes[0], axis=(1, 2))
    for n, m in enumerate(np.argsort(-uses)):
        row, column = n % (N_ATOMS // 2), 4 * (n // (N_ATOMS // 2))
        pictures = [atoms[m], *(kernel.reshape(3, 3) for kernel in learned.chains[m].kernels)]
        for ax, picture in zip(axes[row, column : column + 4], pictures, strict=True):
            pp.plot.matrix(picture, ax).set_axis_off()
        axes[row, column].set_title(f"{uses[m]} times", fontsize="small")
        axes[row, column + 1].set_title("= kernels", fontsize="small")
    path = folder / "convolutional_atoms.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
