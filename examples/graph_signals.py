"""
Weather on a graph
==================

A thousand stations at irregular places report temperatures every hour, and their thermometers are noisy. In a
graph, each station is joined to its nearest neighbours. On this graph weather is smooth: it lies in the low
frequencies of the graph Fourier transform, while noise is spread over all of them. So each coefficient is shrunk
by the share of noise in its variance over a month, as in a Wiener filter.

The transform is the matrix of eigenvectors of the Laplacian: a million numbers, applied to the reports of each
hour. :func:`papilio.rotations.graph_fourier` approximates it by a product of rotations. What does that save, and
how much more noise is left? The data are simulated, with a fixed seed.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial import KDTree

import papilio as pp

STATIONS, NEIGHBOURS, HOURS, SHOWN, NOISE = 1000, 6, 30 * 24, 100, 1.0
COMPLEXITIES = (0.02, 0.05, 0.1)

# %%
# The network and its weather
# ---------------------------
#
# Weights fall with the distance between neighbours. Temperatures are a sum of drifting waves and a daily cycle.

random = np.random.default_rng(0)
places = random.random((STATIONS, 2))
distances, neighbours = KDTree(places).query(places, NEIGHBOURS + 1)
weights = np.exp(-((distances[:, 1:] / distances[:, 1:].mean()) ** 2)).ravel()
ends = np.repeat(np.arange(STATIONS), NEIGHBOURS), neighbours[:, 1:].ravel()
one_way = sp.csr_array((weights, ends), shape=(STATIONS, STATIONS))
graph = sp.csr_array(one_way.maximum(one_way.T))

hours = np.arange(HOURS)
waves = random.uniform(-12, 12, (40, 2))
speeds, phases = random.uniform(-0.2, 0.2, 40), random.uniform(0, 2 * np.pi, 40)
sizes = 2 / (1 + np.linalg.norm(waves, axis=1) / 3)
angles = (places @ waves.T)[:, :, None] + speeds[:, None] * hours + phases[:, None]
truth = 15 + 5 * np.sin(2 * np.pi * hours / 24) + np.einsum("k,skh->sh", sizes, np.cos(angles))
reports = truth + NOISE * random.standard_normal(truth.shape)

# %%
# An exact transform, and three fast ones
# ---------------------------------------
#
# The variance of the noise is known, and the same for each coefficient.


def cleaned(basis):
    coefficients = basis.T @ reports
    variances = np.mean(coefficients**2, axis=1, keepdims=True)
    return basis @ (np.maximum(1 - NOISE**2 / variances, 0) * coefficients)


def best_time(basis, signals):
    """Milliseconds of the analysis of signals, the best of several."""
    times = []
    for _ in range(7):
        begin = perf_counter()
        basis.T @ signals
        times.append(perf_counter() - begin)
    return 1e3 * min(times)


def exact():
    return scipy.linalg.eigh(pp.rotations.graph_laplacian(graph).toarray())[1], 0.0


kept = {}


def rotations(complexity):
    fit = kept[complexity] = pp.rotations.graph_fourier(graph, complexity=complexity)
    return fit.operator, fit.error


pp.rotations.graph_fourier(graph[:64, :64])  # kernels are compiled, once on a machine: that is not timed
found = {"dense, LAPACK": exact}
found |= {f"rotations, {c:.2f}": lambda c=c: rotations(c) for c in COMPLEXITIES}
rows = {}
print(f"{'transform':<18}{'error':>8}{'to find':>10}{'one hour':>12}{'one month':>12}{'left over':>11}")
for name, find in found.items():
    begin = perf_counter()
    basis, error = find()
    seconds = perf_counter() - begin
    left_over = np.sqrt(np.mean((cleaned(basis) - truth) ** 2))
    hour, month = best_time(basis, truth[:, 0].copy()), best_time(basis, truth)
    rows[name] = seconds, hour, month, left_over
    print(f"{name:<18}{error:>8.3f}{seconds:>8.1f} s{hour:>9.3f} ms{month:>9.1f} ms{left_over:>11.2f}")

# %%
# *Error* is the relative error of the Laplacian. *Left over* is the remaining root mean square error in degrees;
# for the reports themselves it is 1.

fig, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
fit = kept[COMPLEXITIES[-1]]
for row, name, signals in zip(axes, ("as reported", "filtered"), (reports, cleaned(fit.operator)), strict=True):
    signal = signals[:, SHOWN] - signals[:, SHOWN].mean()
    pp.plot.graph_signal(fit, signal, places, graph, list(row))
    row[0].set_title(f"temperatures of one hour less their mean, {name}", fontsize="small")

# %%
# What is gained, and what is lost
# --------------------------------
#
# A fast transform takes less memory, and the table shows how much time. But the rotations mix the lowest
# frequencies, in which the weather lies, so that more noise is left over. The more rotations, the longer they take
# to find; compare that with the eigenvectors by LAPACK. For a smooth signal and a few reports, the exact
# transform, or a polynomial of the Laplacian, is the better choice.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharey=True)
colours = ["0.5", *["#d55e00"] * len(COMPLEXITIES)]
left.barh(list(rows), [row[2] for row in rows.values()], color=colours)
left.set_xlabel("milliseconds for a month of reports")
right.barh(list(rows), [row[3] for row in rows.values()], color=colours)
right.set_xlabel("degrees left over (1 as reported)")
left.invert_yaxis()
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
