"""
Removing noise from a photograph
================================

Small patches of a photograph are sums of few atoms, and noise is not. If a patch is coded with as few atoms as it
takes to come within the noise level, most of the noise is left out. Here the atoms are learned from the noisy
photograph alone, and their matrix is a product of sparse factors. How much better is that than a Gaussian filter,
or than cosines?
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.datasets import load_sample_image

from papilio.images import denoise, redundant_dct
from papilio.metrics import psnr

SIGMA, SIDE = 25, 200
TOP, LEFT = 60, 250

# %%
# The photograph, and its noise
# -----------------------------
#
# The luminance of a part of a photograph, from 0 to 255, plus white noise, of which only the standard deviation
# is known.

photograph = load_sample_image("china.jpg") @ [0.299, 0.587, 0.114]
clean = photograph[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
noisy = clean + SIGMA * np.random.default_rng(0).standard_normal(clean.shape)

# %%
# Three ways to clean it
# ----------------------
#
# A Gaussian filter, whose width is chosen by looking at the clean photograph, is the simplest. Patches can be
# coded in any dictionary: 256 cosines know nothing of the photograph. By default,
# :func:`papilio.images.denoise` learns a fast dictionary of 256 atoms from the noisy patches.

ways = {
    "Gaussian filter": lambda: max(
        (gaussian_filter(noisy, width) for width in np.arange(0.5, 2, 0.1)), key=lambda x: psnr(x, clean, 255)
    ),
    "cosines": lambda: denoise(noisy, SIGMA, redundant_dct(8, 16)),
    "learned, fast": lambda: denoise(noisy, SIGMA, random_state=0),
}
images = {"noisy": noisy}
print(f"{'':<16} {'seconds':>8} {'PSNR, dB':>9}\n{'noisy':<16} {'':>8} {psnr(noisy, clean, 255):>9.2f}")
for name, way in ways.items():
    begin = perf_counter()
    images[name] = way()
    print(f"{name:<16} {perf_counter() - begin:>8.1f} {psnr(images[name], clean, 255):>9.2f}")

# %%
# What is gained, and what it takes
# ---------------------------------
#
# Both dictionaries keep edges that the filter blurs. The table shows what learning adds to cosines, and how long
# it takes. Methods that are made only for denoising, such as BM3D or trained networks, are known to do better
# than any of these.

fig, axes = plt.subplots(2, 2, figsize=(7, 7.4), layout="constrained")
for ax, (name, image) in zip(axes.flat, images.items(), strict=True):
    ax.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.set_title(f"{name}, {psnr(image, clean, 255):.1f} dB", fontsize="medium")
    ax.set_axis_off()

# %%
# A part of it, enlarged, with the clean one last:

fig, axes = plt.subplots(1, 5, figsize=(12, 2.9), layout="constrained")
for ax, (name, image) in zip(axes, {**images, "clean": clean}.items(), strict=True):
    ax.imshow(image[100:160, 30:90], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    ax.set_title(name, fontsize="medium")
    ax.set_axis_off()

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
