"""Temperatures of a network of stations, cleaned by a graph Fourier transform that runs as a fast transform.

    python examples/graph_signals.py [FOLDER]

A thousand stations at irregular places report every hour, and their thermometers are noisy. Each station is joined
to its nearest neighbours. On this graph weather is smooth: it lies in the low frequencies of the graph Fourier
transform, while noise is everywhere. So each coefficient is shrunk by the share of noise in its variance over a
month, as in a Wiener filter.

The transform is the matrix of eigenvectors of the Laplacian: a million numbers, multiplied with each report.
`papilio.graphs.fourier` finds a product of rotations in its place, which is an approximation. It is good at
high frequencies and mixes the lowest ones, so that more noise is left over; and it takes longer to find than the
eigenvectors by LAPACK at this size. What it gains is the time and memory of each use. The script prints both
sides. Data are simulated, with a fixed seed.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.figure
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial import KDTree

import papilio as pp

STATIONS, NEIGHBOURS, HOURS, SHOWN, NOISE = 1000, 6, 30 * 24, 100, 1.0
COMPLEXITIES = (0.02, 0.05, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    random = np.random.default_rng(0)
    places = random.random((STATIONS, 2))
    graph = network(places)
    laplacian = pp.graphs.laplacian(graph)
    truth = weather(places, random)
    reports = truth + NOISE * random.standard_normal(truth.shape)

    pp.graphs.fourier(graph[:64, :64])  # kernels are compiled, once on a machine: that is not timed
    print(f"{STATIONS} stations, {HOURS} hours, noise of {NOISE:.1f} degrees\n")
    columns = ("error", 8), ("to find", 10), ("an hour", 12), ("a month", 12), ("memory", 10), ("left over", 11)
    print(f"{'transform':<18}" + "".join(f"{name:>{width}}" for name, width in columns))
    begin = perf_counter()
    _, basis = scipy.linalg.eigh(laplacian.toarray())
    seconds = perf_counter() - begin
    result = cleaned(basis, reports)
    report("dense, LAPACK", 0.0, seconds, basis.nbytes, result, basis, truth)
    for complexity in COMPLEXITIES:
        begin = perf_counter()
        fit = pp.graphs.fourier(graph, complexity=complexity)
        seconds = perf_counter() - begin
        result = cleaned(fit.operator, reports)
        memory = sum(each.data.nbytes + each.indices.nbytes + each.indptr.nbytes for each in fit.operator.factors)
        report(f"rotations, {complexity:.2f}", fit.error, seconds, memory, result, fit.operator, truth)
    print(f"\nLeft over: what is still wrong, root mean square in degrees; {NOISE:.2f} as reported.")

    figure = matplotlib.figure.Figure(figsize=(11, 8), layout="constrained")
    upper, lower = figure.subplots(2, 2, width_ratios=[1.2, 1])
    for axes, name, signals in ((upper, "as reported", reports), (lower, "filtered", result)):
        signal = signals[:, SHOWN] - signals[:, SHOWN].mean()
        pp.plot.graph_signal(fit, signal, places, graph, list(axes))
        axes[0].set_title(f"temperatures of one hour less their mean, {name}", fontsize="small")
    figure.savefig(folder / "graph_signals.png", dpi=130)
    print(f"\nFigure: {folder / 'graph_signals.png'}")


def network(places: np.ndarray) -> sp.csr_array:
    """Each station joined to its nearest neighbours, by weights that fall with the distance."""
    distances, neighbours = KDTree(places).query(places, NEIGHBOURS + 1)
    rows = np.repeat(np.arange(STATIONS), NEIGHBOURS)
    weights = np.exp(-((distances[:, 1:] / distances[:, 1:].mean()) ** 2)).ravel()
    one_way = sp.csr_array((weights, (rows, neighbours[:, 1:].ravel())), shape=(STATIONS, STATIONS))
    return sp.csr_array(one_way.maximum(one_way.T))


def weather(places: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Smooth temperatures, one column per hour: waves that drift, and the time of the day."""
    hours = np.arange(HOURS)
    waves = random.uniform(-12, 12, (40, 2))
    speeds, phases = random.uniform(-0.2, 0.2, 40), random.uniform(0, 2 * np.pi, 40)
    sizes = 4 / (1 + np.linalg.norm(waves, axis=1) / 3)
    angles = (places @ waves.T)[:, :, None] + speeds[:, None] * hours + phases[:, None]
    fronts = np.einsum("k,skh->sh", sizes, np.cos(angles)) / 2
    return 15 + 5 * np.sin(2 * np.pi * hours / 24) + fronts


def cleaned(basis, reports: np.ndarray) -> np.ndarray:
    """Reports without most of their noise, whose variance is known: it is the same for each coefficient."""
    coefficients = basis.T @ reports
    variances = np.mean(coefficients**2, axis=1, keepdims=True)
    return basis @ (np.maximum(1 - NOISE**2 / variances, 0) * coefficients)


def report(name: str, error: float, seconds: float, memory: float, result: np.ndarray, basis, truth) -> None:
    """One line of the table."""
    left = np.sqrt(np.mean((result - truth) ** 2))
    hour, month = best_time(basis, truth[:, 0].copy()), best_time(basis, truth)
    print(
        f"{name:<18}{error:>8.3f}{seconds:>8.1f} s{1e3 * hour:>9.3f} ms{1e3 * month:>9.1f} ms"
        f"{memory / 2**20:>7.1f} MB{left:>11.2f}"
    )


def best_time(basis, signals: np.ndarray) -> float:
    """Seconds of the analysis of signals, the best of several."""
    times = []
    for _ in range(7):
        begin = perf_counter()
        basis.T @ signals
        times.append(perf_counter() - begin)
    return min(times)


if __name__ == "__main__":
    main()
