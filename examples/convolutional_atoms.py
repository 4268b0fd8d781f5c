"""
Atoms that may stand anywhere
=============================

Dictionaries of patches learn the same pattern many times, once for each position in a patch. Here an atom may
stand at any pixel, so that each pattern is learned once. An atom is a convolution of small kernels: these are
fewer numbers than its pixels, and it takes fewer operations to apply them one after the other.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

import papilio as pp

SIDE, TOP, LEFT = 128, 150, 120
N_ATOMS, N_COEFS = 8, 800

# %%
# Learning from one photograph
# ----------------------------
#
# Atoms should describe edges and textures, so slow changes of brightness are removed first. Each of the eight
# atoms is the convolution of three 3×3 kernels, the last of them with gaps; together they cover 9×9 pixels.

photograph = load_sample_image("china.jpg") @ [0.299, 0.587, 0.114]
image = photograph[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
detail = image - gaussian_filter(image, 4, mode="wrap")
supports = pp.convolution.kernel_supports((3, 3), [1, 1, 2], centered=True)

begin = perf_counter()
learned = pp.convolution.convolutional_dictionary(detail, N_ATOMS, supports, N_COEFS, max_iter=25, random_state=0)
errors = learned.history.error
print(f"{len(errors)} iterations in {perf_counter() - begin:.1f} s: error {errors[0]:.3f} → {learned.error:.3f}")

# %%
# Compared with wavelets
# ----------------------
#
# A wavelet transform is not learned. It keeps as many coefficients, its largest ones, which are the best since
# the transform is orthogonal. The places of the learned atoms are found by matching pursuit, which takes longer.

wavelet = pp.transforms.wavelet(SIDE, "db4")
coefficients = wavelet @ (wavelet @ detail).T
limit = np.sort(np.abs(coefficients), axis=None)[-N_COEFS]
rival = wavelet.T @ (wavelet.T @ np.where(np.abs(coefficients) >= limit, coefficients, 0)).T
rival_error = np.linalg.norm(detail - rival) / np.linalg.norm(detail)
places = learned.chains[0].n_coefficients
print(
    f"{N_COEFS} coefficients: error {learned.error:.3f} with learned atoms, {rival_error:.3f} with wavelets (db4)"
)
print(f"an atom is 9×9 pixels and {places} numbers: it takes {places} multiplications per pixel, not 81")

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
shown = {
    "photograph without slow changes": detail,
    f"learned atoms, error {learned.error:.2f}": learned.reconstruct()[0],
    f"wavelets, error {rival_error:.2f}": rival,
}
for ax, (name, picture) in zip(axes, shown.items(), strict=True):
    ax.imshow(picture, cmap="gray", vmin=-60, vmax=60, interpolation="nearest")
    ax.set_title(name, fontsize="medium")
    ax.set_axis_off()

# %%
# The atoms and their kernels
# ---------------------------
#
# Each atom with its three kernels, the most used atoms first.

fig, axes = plt.subplots(N_ATOMS // 2, 8, figsize=(8.5, 4.8), layout="constrained")
atoms = np.roll(learned.atoms, (5, 5), axis=(1, 2))[:, :11, :11]
uses = np.count_nonzero(learned.codes[0], axis=(1, 2))
for n, m in enumerate(np.argsort(-uses)):
    row, column = n % (N_ATOMS // 2), 4 * (n // (N_ATOMS // 2))
    pictures = [atoms[m], *(kernel.reshape(3, 3) for kernel in learned.chains[m].kernels)]
    for ax, picture in zip(axes[row, column : column + 4], pictures, strict=True):
        pp.plot.matrix(picture, ax)
    axes[row, column].set_title(f"{uses[m]} times", fontsize="small")
    axes[row, column + 1].set_title("= kernels", fontsize="small")

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
