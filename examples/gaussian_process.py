"""A Gaussian process on thousands of soil samples, by products that are several times faster than dense ones.

    python examples/gaussian_process.py [FOLDER]

A field of one square kilometre, sampled at thousands of irregular places; each sample has a measurement error.
The posterior mean needs a system with the covariance of all samples plus the noise. Dense, that matrix is filled
entry by entry and factorized by Cholesky's method, in time that grows as n³. Here `factorize` looks at some of its
entries only, and conjugate gradients use the product of sparse factors that it returns.

Products were four times faster on a quiet machine at 8,192 samples, and more beside other work. The whole solve
gains less, since the build costs more than a solve: it was two to three times faster than Cholesky, and twice as
fast as dense conjugate gradients. With fewer samples, Cholesky is faster. The script also measures a covariance of
half the length scale, and one along a line, where products gain ten times and more. Data are simulated, with a
fixed seed.
"""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib.figure
import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.sparse import eye_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg
from scipy.spatial.distance import cdist

import papilio as pp

SIZES, LARGEST = (1024, 2048, 4096, 8192), 16384  # LARGEST is for the fast product only: dense, it has 2 GB
LENGTH, NOISE, MAX_ERROR = 0.2, 0.5, 1e-4  # length scale in km, standard deviation of the noise
CANDIDATES = (0.25, 0.5, 1.0)  # noise levels to choose from, as if NOISE were not known
HELD_OUT, GRID, TRANSECT, COMPARED = 500, 60, 80, 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    random = np.random.default_rng(0)
    field = random_field(random)
    places = random.random((LARGEST + HELD_OUT, 2))
    values = field(places)
    values[:LARGEST] += NOISE * random.standard_normal(LARGEST)

    fast_operator(places[:512])  # kernels are compiled, once on a machine: that is not timed
    print(f"Matérn 3/2 covariance, length scale {1e3 * LENGTH:.0f} m, noise {NOISE}. Seconds, on this machine:\n")
    print(f"{'':>8}{'fast':^27}{'dense':^36}")
    print(f"{'samples':>8}" + "".join(f"{name:>9}" for name in ("build", "product", "cg")), end="")
    print("".join(f"{name:>9}" for name in ("fill", "product", "cg", "Cholesky")))
    rows = {}
    for n in SIZES:
        X, y = places[:n], values[:n]
        fast, fit, weights = solved_fast(X, y)
        dense, by_cg, exact, factor = solved_dense(X, y)
        rows[n] = {**fast, **dense}
        print(f"{n:>8,}" + "".join(f"{seconds:>9.4f}" for seconds in list(rows[n].values())[:7]))
    rows[LARGEST] = solved_fast(places[:LARGEST], values[:LARGEST])[0]
    print(f"{LARGEST:>8,}" + "".join(f"{seconds:>9.4f}" for seconds in rows[LARGEST].values()))

    # What the fast product changes in the mean, in units of the posterior's own width.
    axis = (np.arange(GRID) + 0.5) / GRID
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    means = kernel(grid, X) @ np.stack([weights, by_cg, exact], axis=1)
    line = np.stack([np.linspace(0, 1, TRANSECT), np.full(TRANSECT, 0.5)], axis=1)
    cross = kernel(line, X)
    reduced = solve_triangular(factor, cross.T, lower=True, check_finite=False)
    deviation = np.sqrt(1 - np.sum(reduced**2, axis=0))
    off = np.abs(means[:, :2] - means[:, 2:]).max(axis=0) / np.median(deviation)
    t, op = rows[n], fit.operator
    whole = t["build"] + t["fast cg"]
    print(f"\n{n:,} samples: {len(op.factors)} factors, {op.relative_complexity:.1%} of the matrix's entries,")
    gain = t["product"] / t["fast product"]
    print(f"estimated error {fit.error:.1e}. A product takes {gain:.1f} times less than dense.")
    cholesky, by_dense_cg = (t["fill"] + t["cholesky"]) / whole, (t["fill"] + t["cg"]) / whole
    print(
        f"For the whole, fill or build included, Cholesky takes {cholesky:.1f} times as long as the fast way, and"
    )
    print(f"conjugate gradients with the dense matrix take {by_dense_cg:.1f} times as long.")
    slower = [n for n, t in rows.items() if "fill" in t and t["fill"] + t["cholesky"] < t["build"] + t["fast cg"]]
    print(f"Cholesky, of the sizes above, was faster at {', '.join(f'{n:,}' for n in slower) or 'none'}.")
    print(
        f"Largest change of the mean against Cholesky, of {GRID}×{GRID} places, in posterior standard deviations:"
    )
    print(f"{off[0]:.1e} with the fast product, {off[1]:.1e} with dense conjugate gradients.\n")

    choose_noise(fit.operator, X, y, places[LARGEST:], values[LARGEST:], t)
    compare_covariances(places[:COMPARED], rows[COMPARED]["product"])

    figure = matplotlib.figure.Figure(figsize=(13, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1.4, 1.2])
    image = left.imshow(means[:, 0].reshape(GRID, GRID), origin="lower", extent=(0, 1, 0, 1))
    left.plot(*X[::8].T, ".", color="white", markersize=1, alpha=0.6)
    left.axhline(0.5, color="#d55e00", linewidth=1.2)
    left.set_title("posterior mean, every 8th sample", fontsize="medium")
    left.set(xlabel="km", ylabel="km")
    figure.colorbar(image, ax=left, shrink=0.75)
    near = np.abs(X[:, 1] - 0.5) < 0.01
    mean = cross @ weights
    middle.plot(X[near, 0], y[near], ".", color="0.75", markersize=4, label="samples within 10 m")
    band = mean - 2 * deviation, mean + 2 * deviation
    middle.fill_between(line[:, 0], *band, color="#d55e00", alpha=0.25, linewidth=0)
    middle.plot(line[:, 0], mean, color="#d55e00", label="mean ± 2 standard deviations")
    middle.plot(line[:, 0], field(line), "--", color="black", linewidth=1, label="truth")
    middle.set_xlabel("km along the line")
    middle.set_ylabel("soil value, standardised")
    middle.set_ylim(top=middle.get_ylim()[1] + 1.2)
    middle.legend(frameon=False, fontsize="small", loc="upper left", ncols=2)
    plot_times(right, rows)
    for ax in (middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    path = folder / "gaussian_process.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


def kernel(A: np.ndarray, B: np.ndarray, length: float = LENGTH) -> np.ndarray:
    """Matérn 3/2: (1 + s) exp(−s), s = √3 |a − b| / length; variance 1."""
    s = cdist(A, B)
    s *= np.sqrt(3) / length
    decay = np.exp(-s)
    s += 1
    s *= decay
    return s


def fast_operator(X: np.ndarray, length: float = LENGTH) -> pp.results.Factorization:
    """The covariance from a function of its entries: the matrix is never stored.

    What counts for the mean is the error beside the noise: ‖E‖ well below noise². MAX_ERROR is relative to ‖K‖.
    """
    return pp.factorize(
        lambda rows, columns: kernel(X[rows], X[columns], length),
        shape=(len(X), len(X)),
        method="nested",
        max_error=MAX_ERROR,
        coordinates=(X, X),
    )


def solved_fast(X: np.ndarray, y: np.ndarray) -> tuple[dict, pp.results.Factorization, np.ndarray]:
    build, fit = timed(lambda: fast_operator(X))
    product = seconds_of(lambda: fit.operator @ y)
    seconds, weights = timed(lambda: solved(fit.operator, NOISE, y))
    return {"build": build, "fast product": product, "fast cg": seconds}, fit, weights


def solved_dense(X: np.ndarray, y: np.ndarray) -> tuple[dict, np.ndarray, np.ndarray, np.ndarray]:
    fill, K = timed(lambda: kernel(X, X))
    product = seconds_of(lambda: K @ y)
    seconds, by_cg = timed(lambda: solved(aslinearoperator(K), NOISE, y))
    K[np.diag_indices(len(K))] += NOISE**2
    # K.T is K, and in the order that LAPACK works in: nothing is copied.
    first, factor = timed(lambda: cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)[0])
    next_one, exact = timed(lambda: cho_solve((factor, True), y, check_finite=False))
    times = {"fill": fill, "product": product, "cg": seconds, "cholesky": first + next_one, "next": next_one}
    return times, by_cg, exact, factor


def choose_noise(
    op: LinearOperator, X: np.ndarray, y: np.ndarray, new: np.ndarray, truth: np.ndarray, t: dict
) -> None:
    """The noise is no part of what was factorized: one build serves all noise levels."""
    print(f"Noise levels, tried on {HELD_OUT} other places (where the true values are known, for once):")
    cross, spent = kernel(new, X), 0.0
    for noise in CANDIDATES:
        seconds, weights = timed(lambda noise=noise: solved(op, noise, y))
        spent += seconds
        print(f"  {noise:4.2f}: error {np.sqrt(np.mean((cross @ weights - truth) ** 2)):.4f}, {seconds:.2f} s")
    fast, dense = t["build"] + spent, t["fill"] + len(CANDIDATES) * t["cholesky"]
    print(f"Build and all solves took {fast:.1f} s. Cholesky for each, by its time above, is {dense:.1f} s,")
    print(f"{dense / fast:.1f} times as long. For more right-hand sides at one noise level Cholesky is better:")
    print(f"the next takes {t['next']:.2f} s, and {t['fast cg']:.2f} s by conjugate gradients. A new length scale")
    print("is a new build.\n")


def compare_covariances(X: np.ndarray, dense: float) -> None:
    """What decides about the gain: the dimension, and the length scale."""
    print(f"Covariances of {len(X):,} samples, with the same max_error:")
    for name, Z, length in (("field, 200 m", X, 0.2), ("field, 100 m", X, 0.1), ("line, 50 m", X * [1, 0], 0.05)):
        build, fit = timed(lambda Z=Z, length=length: fast_operator(Z, length))
        op, vector = fit.operator, np.ascontiguousarray(X[:, 0])
        gain = dense / seconds_of(lambda op=op, vector=vector: op @ vector)
        entries = f"{op.relative_complexity:5.1%} of the entries"
        print(f"  {name:<13}: build {build:4.1f} s, {entries}, products {gain:.1f} times faster than dense")
    print("(On a line, Kalman filters solve with Matérn covariances in O(n), and need no matrix.)")


def plot_times(ax, rows: dict[int, dict]) -> None:
    styles = {
        "fill and Cholesky": ("0.4", "s-", ("fill", "cholesky")),
        "fill and conjugate gradients": ("#0072b2", "^-", ("fill", "cg")),
        "fast: build and conjugate gradients": ("#d55e00", "o-", ("build", "fast cg")),
        "fast: each further noise level": ("#d55e00", "o:", ("fast cg",)),
    }
    for label, (colour, style, parts) in styles.items():
        sums = {n: sum(t[part] for part in parts) for n, t in rows.items() if parts[0] in t}
        ax.loglog(list(sums), list(sums.values()), style, color=colour, markersize=5, label=label)
    ax.set_xticks(list(rows), [f"{n:,}" for n in rows])
    ax.minorticks_off()
    ax.set(xlabel="samples", ylabel="seconds")
    ax.set_ylim(top=ax.get_ylim()[1] * 5)  # room for the legend
    ax.legend(frameon=False, fontsize="small", loc="upper left")


def solved(covariance: LinearOperator, noise: float, y: np.ndarray) -> np.ndarray:
    """(K + noise² I)⁻¹ y. The noise is a diagonal beside the covariance, which stays as it is."""
    system = covariance + noise**2 * aslinearoperator(eye_array(len(y)))
    weights, failed = cg(system, y, rtol=1e-5, maxiter=2000)
    if failed:
        raise RuntimeError("conjugate gradients did not converge")
    return weights


def random_field(random: np.random.Generator):
    """A draw from the process itself, by 2,000 random frequencies; a Matérn spectrum is a Student distribution."""
    count, nu = 2000, 1.5
    scale = np.sqrt(2 * nu / random.chisquare(2 * nu, count))
    frequencies = random.standard_normal((2, count)) * scale / LENGTH
    phases = random.uniform(0, 2 * np.pi, count)
    return lambda P: np.concatenate(
        [np.cos(part @ frequencies + phases).sum(axis=1) * np.sqrt(2 / count) for part in np.array_split(P, 20)]
    )


def timed(call):
    begin = perf_counter()
    result = call()
    return perf_counter() - begin, result


def seconds_of(call, repeats: int = 20) -> float:
    """The best of several."""
    return min(timed(call)[0] for _ in range(repeats))


if __name__ == "__main__":
    main()
