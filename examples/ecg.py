"""
Heart beats in few coefficients
===============================

One heart beat looks much like the next. A dictionary that was learned from the first part of a recording should
need fewer coefficients for the rest of it than a general transform. The learned one is a product of sparse
factors; it is compared with the discrete cosine transform and with wavelets, on the part that it has not seen.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pywt

import papilio as pp

WINDOW, COMPLEXITY = 64, 0.3
COUNTS = range(1, 11)  # coefficients per window
SHOWN = 4

# %%
# The recording
# -------------
#
# It comes with PyWavelets. All windows of its first three quarters, which overlap, are for learning. The rest is
# cut into windows without overlap: only a few, as the recording is short. Each window is coded without its mean,
# which is one more number for each transform.

signal = np.asarray(pywt.data.ecg(), dtype=float)
split = len(signal) * 3 // 4
learned_from = np.lib.stride_tricks.sliding_window_view(signal[:split], WINDOW)
learned_from = learned_from - learned_from.mean(axis=1, keepdims=True)
new = signal[split : split + (len(signal) - split) // WINDOW * WINDOW].reshape(-1, WINDOW)
means = new.mean(axis=1, keepdims=True)
print(f"{len(learned_from)} windows of {WINDOW} samples to learn from, {len(new)} new ones")

# %%
# Learning, and three transforms
# ------------------------------

model = pp.FastDictionaryLearning(
    n_components=WINDOW, n_nonzero_coefs=SHOWN, complexity=COMPLEXITY, random_state=0
).fit(learned_from)
transforms = {
    "learned": model.operator_,
    "DCT": pp.transforms.dct(WINDOW).T,
    "wavelet (db4)": pp.transforms.wavelet(WINDOW, "db4").T,
}


def rebuilt(op, k):
    """The new windows from their ``k`` best coefficients; in an orthogonal transform these are the largest."""
    return (op @ pp.omp(op, (new - means).T, k)).T + means


size = np.linalg.norm(new - new.mean())
errors = {name: [np.linalg.norm(new - rebuilt(op, k)) / size for k in COUNTS] for name, op in transforms.items()}
print("relative error of the new windows")
print(f"{'coefficients':<14} {'entries':>8} " + " ".join(f"{k:>6}" for k in COUNTS))
for name, op in transforms.items():
    print(f"{name:<14} {op.nnz:>8,} " + " ".join(f"{error:6.3f}" for error in errors[name]))

# %%
# What is gained, and what is lost
# --------------------------------
#
# With few coefficients, the learned transform follows the beats where the cosines oscillate. With more of them the
# others come closer, and they need no learning. The learned transform is not orthogonal: its codes take
# orthogonal matching pursuit, not only a product. And it was learned from this recording alone: for another
# patient it has to be learned again.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1.8, 1])
time = np.arange(new.size) + split
left.plot(time, new.ravel(), color="0.7", linewidth=3, label="recorded")
for name, colour, line in (("learned", "#d55e00", "-"), ("DCT", "#0072b2", ":")):
    back = rebuilt(transforms[name], SHOWN)
    left.plot(time, back.ravel(), line, color=colour, linewidth=1.4, label=f"{name}, {SHOWN} coefficients")
left.set_title("Heart beats that the dictionary has not seen", fontsize="medium")
left.set_xlabel("sample")
left.legend(frameon=False, fontsize="small")
styles = (("#d55e00", "o"), ("#0072b2", "s"), ("#009e73", "^"))
for (name, values), (colour, marker) in zip(errors.items(), styles, strict=True):
    right.plot(list(COUNTS), values, marker=marker, color=colour, label=name)
right.set(ylim=(0, None), xlabel=f"coefficients per {WINDOW} samples", ylabel="relative error")
right.legend(frameon=False, fontsize="small")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# sphinx_gallery_start_ignore
if "__file__" in globals() and len(sys.argv) > 1:  # run as a script, with a folder for the figures
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in plt.get_fignums():
        path = folder / f"{Path(__file__).stem}_{number}.png"
        plt.figure(number).savefig(path, dpi=130)
        print(f"Figure: {path}")
# sphinx_gallery_end_ignore
