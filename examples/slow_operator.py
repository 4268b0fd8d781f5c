"""A slow operator, made fast, and a linear system solved with it.

    python examples/slow_operator.py [FOLDER]

Somebody hands you a matrix, say the calibration of an instrument: 256 inputs, 256 readings, and a little noise in
every entry. Each reading depends on every input, so it looks as dense as a matrix can be. It is in truth a fast
transform whose inputs and outputs were wired up in an order that nobody wrote down. `factorize` is not told.
"""

import argparse
from functools import partial
from pathlib import Path
from time import perf_counter

import matplotlib.figure
import numpy as np
from scipy.sparse.linalg import aslinearoperator, lsqr

import papilio as pp

SIZE, NOISE, ITERATIONS = 256, 1e-3, 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("."), help="for the figure")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)

    # The instrument, which only this function knows, and its calibration, which is all that is handed over.
    random = np.random.default_rng(0)
    instrument = scrambled_transform(SIZE, random)
    noise = random.standard_normal(instrument.shape)
    measured = instrument + NOISE * np.linalg.norm(instrument) / np.linalg.norm(noise) * noise

    begin = perf_counter()
    fit = pp.factorize(measured)
    seconds = perf_counter() - begin
    op = fit.operator
    print(f"{SIZE}×{SIZE} matrix, {np.count_nonzero(measured):,} entries, none of them zero.")
    print(
        f"factorize took the road {fit.method!r}: {len(op.factors)} factors, {op.nnz:,} entries, {seconds:.1f} s."
    )
    print(f"Relative error against the calibration: {fit.error:.1e}, of which the noise is {NOISE:.0e}.")
    nearer = np.linalg.norm(op.toarray() - instrument) / np.linalg.norm(instrument)
    print(f"Against the instrument itself: {nearer:.1e}. Structure that is found takes the noise off.\n")

    # A SparseProduct is a SciPy LinearOperator: whatever solves with one solves with it.
    inputs = np.cumsum(random.standard_normal(SIZE))
    readings = instrument @ inputs
    solved = {}
    for name, operator in (("dense calibration", aslinearoperator(measured)), ("sparse product", op)):
        solve = partial(lsqr, operator, readings, atol=1e-14, btol=1e-14, iter_lim=ITERATIONS)
        x, _, iterations = solve()[:3]
        spent = seconds_of(solve, 50)
        error = float(np.linalg.norm(x - inputs) / np.linalg.norm(inputs))
        solved[name] = x, error, spent
        print(f"lsqr with the {name:<18}: {iterations:3d} iterations, {1e3 * spent:6.1f} ms, error {error:.1e}")
    apply = {
        "dense calibration": seconds_of(lambda: measured @ inputs),
        "sparse product": seconds_of(lambda: op @ inputs),
    }
    gain = apply["dense calibration"] / apply["sparse product"]
    print(f"\nOne application takes {1e6 * apply['sparse product']:.1f} µs, {gain:.1f} times less than dense.")

    figure = matplotlib.figure.Figure(figsize=(10, 5), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[0.6, 1])
    count = len(op.factors)
    axes = above.subplots(1, count + 1)
    pp.plot.matrix(measured, axes[0], f"calibration\n{measured.size:,} entries")
    for i, (ax, factor) in enumerate(zip(axes[1:], op.factors, strict=True)):
        pp.plot.matrix(factor, ax, f"$S_{{{i + 1}}}$\n{factor.size} entries")
    left, right = below.subplots(1, 2, width_ratios=[1.7, 1])
    left.plot(inputs, color="0.75", linewidth=4, label="true inputs")
    left.plot(solved["sparse product"][0], color="#d55e00", linewidth=1.2, label="recovered with the product")
    left.set_xlabel("input")
    left.legend(frameon=False, fontsize="small")
    styles = {"dense calibration": ("0.55", "s"), "sparse product": ("#d55e00", "o")}
    for name, (colour, marker) in styles.items():
        missed = np.abs(solved[name][0] - inputs)
        right.semilogy(missed, marker, color=colour, markersize=3, label=f"{name}, error {solved[name][1]:.1e}")
    right.set_ylim(bottom=1e-5)
    right.set_xlabel("input")
    right.set_ylabel("error after lsqr")
    right.legend(frameon=False, fontsize="small", loc="lower right")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    path = folder / "slow_operator.png"
    figure.savefig(path, dpi=130)
    print(f"Figure: {path}")


def scrambled_transform(n: int, random: np.random.Generator) -> np.ndarray:
    """An orthogonal butterfly transform with random angles, its rows and columns in random order."""
    matrix = np.eye(n)
    half = 1
    while half < n:
        angles = random.uniform(0.2, 1.4, (n // (2 * half), half))
        cosine, sine = np.cos(angles)[..., None], np.sin(angles)[..., None]
        blocks = matrix.reshape(n // (2 * half), 2, half, n)
        upper, lower = blocks[:, 0], blocks[:, 1]
        matrix = np.stack([cosine * upper - sine * lower, sine * upper + cosine * lower], axis=1).reshape(n, n)
        half *= 2
    # Sizes that differ from input to input make the system worth an iterative solver.
    sizes = np.exp(random.uniform(-1, 1, n))
    return (matrix * sizes)[random.permutation(n)][:, random.permutation(n)]


def seconds_of(call: object, repeats: int = 200) -> float:
    """The best of several rounds."""
    best = np.inf
    for _ in range(10):
        begin = perf_counter()
        for _ in range(repeats // 10):
            call()  # type: ignore[operator]
        best = min(best, (perf_counter() - begin) / (repeats // 10))
    return best


if __name__ == "__main__":
    main()
