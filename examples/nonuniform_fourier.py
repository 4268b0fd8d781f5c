"""
A Fourier transform that no FFT computes
========================================

A signal is measured at irregular times, and its spectrum is wanted. All entries of the matrix of this transform
have the same magnitude, it has full rank, and no FFT computes it. :func:`papilio.factorize` takes a function that
returns entries, and evaluates only a part of them. The product that it returns approximates the matrix to a given
tolerance, and is used to solve for the spectrum.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import aslinearoperator, lsqr

import papilio as pp

SIZE, SAMPLES, TOLERANCE = 1024, 2048, 1e-6
# sphinx_gallery_thumbnail_number = 2

# %%
# The matrix, and its product
# ---------------------------
#
# 2,048 irregular times in [0, 1), and 1,024 frequencies: entry (j, k) is exp(2πi·t_j·f_k). The function is
# asked for blocks of rows and columns.

rng = np.random.default_rng(0)
times = np.sort(rng.random(SAMPLES))
frequencies = np.arange(SIZE) - SIZE // 2


def entries(rows, columns):
    return np.exp(2j * np.pi * times[rows][:, None] * frequencies[columns])


begin = perf_counter()
fit = pp.factorize(entries, shape=(SAMPLES, SIZE), max_error=TOLERANCE)
seconds = perf_counter() - begin
op = fit.operator
print(f"{fit.method!r}: {len(op.factors)} factors, {op.relative_complexity:.1%} of the entries, {seconds:.1f} s")
print(f"estimated error {fit.error:.1e}")

# %%
# What is gained
# --------------
#
# At this size the matrix can be stored, so that errors can be measured. The simplest alternative is an FFT on a
# finer grid, with each time rounded to the nearest grid point.


def best_time(call, repeats=20):
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return 1e3 * min(times)


def rounded_fft(spectrum, finer):
    padded = np.zeros(finer * SIZE, dtype=complex)
    padded[frequencies] = spectrum
    return (np.fft.ifft(padded) * len(padded))[np.rint(times * len(padded)).astype(int) % len(padded)]


matrix = entries(np.arange(SAMPLES), np.arange(SIZE))
x = rng.standard_normal(SIZE) + 1j * rng.standard_normal(SIZE)
truth = matrix @ x
ways = {
    "dense matrix": lambda: matrix @ x,
    "sparse product": lambda: op @ x,
    "FFT, rounded to a grid 4 times as fine": lambda: rounded_fft(x, 4),
    "FFT, rounded to a grid 64 times as fine": lambda: rounded_fft(x, 64),
}
print(f"{'':<40}{'milliseconds':>13}{'error':>10}")
for name, way in ways.items():
    error = np.linalg.norm(way() - truth) / np.linalg.norm(truth)
    print(f"{name:<40}{best_time(way):>13.2f}{error:>10.1e}")

# %%
# Rounding the times leaves an error that falls only in proportion to the grid spacing. Libraries for non-uniform
# FFTs interpolate instead of rounding, and are made for exactly this transform: use them if it is what you need.
# ``factorize`` needs only the function, so that other phases, for which there is no library, take the same call.

fig, axes = plt.subplots(1, len(op.factors) + 1, figsize=(11, 2.6), layout="constrained")
pp.plot.matrix(matrix[:256, :256].real, axes[0], "256×256 entries\nof the matrix")
for i, (ax, factor) in enumerate(zip(axes[1:], op.factors, strict=True), start=1):
    pp.plot.matrix(abs(factor), ax, f"$|S_{i}|$\n{factor.size:,} entries").set_aspect("auto")

# %%
# A spectrum from irregular samples
# ---------------------------------
#
# Five tones, measured with noise. Least squares by ``lsqr`` takes two products per iteration.

tones = {-301: 1.0, -120: 0.5, 17: 0.8, 203: 0.6, 388: 0.3}
spectrum = np.zeros(SIZE, dtype=complex)
spectrum[np.add(list(tones), SIZE // 2)] = list(tones.values())
measured = matrix @ spectrum + 0.2 * (rng.standard_normal(SAMPLES) + 1j * rng.standard_normal(SAMPLES))
found = {}
for name, operator in (("dense matrix", aslinearoperator(matrix)), ("sparse product", op)):
    begin = perf_counter()
    found[name], _, iterations = lsqr(operator, measured, atol=1e-8, btol=1e-8, iter_lim=50)[:3]
    print(f"{name:<15}: {iterations} iterations, {1e3 * (perf_counter() - begin):.0f} ms")
gap = np.linalg.norm(found["dense matrix"] - found["sparse product"]) / np.linalg.norm(found["dense matrix"])
print(f"relative difference of both solutions: {gap:.1e}")

fig, ax = plt.subplots(figsize=(9, 3.2), layout="constrained")
ax.plot(frequencies, np.abs(found["sparse product"]), color="#d55e00", linewidth=0.8, label="found")
ax.plot(list(tones), list(tones.values()), "o", color="black", fillstyle="none", label="true tones")
ax.set(xlabel="frequency", ylabel="amplitude")
ax.legend(frameon=False)
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
