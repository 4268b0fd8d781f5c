"""A photograph with noise, cleaned in a fast dictionary that was learned from the noisy photograph alone.

    python examples/denoising.py [FOLDER]

Small patches of a photograph are made of few strokes, and noise is not. Coded with as few strokes as explain a
patch up to its noise, most of the noise stays behind. The strokes are best learned from the photograph itself,
noise and all; as a product of sparse factors they cost less than half of the entries of a dense dictionary.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.figure
import numpy as np
from sklearn.datasets import load_sample_image

from papilio.images import denoise, redundant_dct
from papilio.metrics import psnr

SIGMA, SIDE = 25, 200
TOP, LEFT = 60, 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # The luminance of a part of a photograph, from 0 to 255, and white noise, of which only the size is known.
    photograph = load_sample_image("china.jpg") @ [0.299, 0.587, 0.114]
    clean = photograph[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
    noisy = clean + SIGMA * np.random.default_rng(0).standard_normal(clean.shape)
    images = {"clean": clean, "noisy": noisy}
    print(f"{SIDE}×{SIDE} pixels, noise with a standard deviation of {SIGMA}.\n")
    print(f"{'dictionary':<22} {'seconds':>8} {'PSNR, dB':>9}")
    print(f"{'none':<22} {'':>8} {psnr(noisy, clean, 255):>9.2f}")

    # Any dictionary will do: the cosines know nothing of the photograph. By default a fast one is learned from it.
    for name, dictionary in (("cosines", redundant_dct(8, 16)), ("learned, fast", None)):
        begin = perf_counter()
        images[name] = denoise(noisy, SIGMA, dictionary, random_state=0)
        seconds = perf_counter() - begin
        print(f"{name:<22} {seconds:>8.1f} {psnr(images[name], clean, 255):>9.2f}")
    gain = psnr(images["learned, fast"], clean, 255) - psnr(noisy, clean, 255)
    print(f"\nThe learned dictionary, which has never seen a clean pixel, takes {gain:.1f} dB of the noise off.")

    figure = matplotlib.figure.Figure(figsize=(11, 3.2), layout="constrained")
    for ax, (name, image) in zip(figure.subplots(1, 4), images.items(), strict=True):
        ax.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        level = "" if name == "clean" else f", {psnr(image, clean, 255):.1f} dB"
        ax.set_title(f"{name}{level}", fontsize="medium")
        ax.set_axis_off()
    path = folder / "denoising.png"
    figure.savefig(path, dpi=150)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
