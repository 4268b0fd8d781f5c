"""Chains of convolutions: recovery of planted kernels, known atoms, and products beside the FFT.

``python benchmarks/convolutions.py recovery`` measures one part only; there are recovery, palm, atoms and apply.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import scipy.fft
import scipy.ndimage
import scipy.signal
from common import OURS, Table, best_times, clock
from matplotlib.figure import Figure

import papilio as pp

PARTS = ("recovery", "palm", "atoms", "apply")
DRAWS, RESTARTS = 50, 25
PALM_DRAWS, PALM_STARTS, PALM_ITER = 10, 5, 1000


@dataclass
class Figures:
    """A table of any columns."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def markdown(self) -> str:
        lines = [self.head, tuple("---" for _ in self.head), *self.rows]
        table = [f"| {' | '.join(cells)} |" for cells in lines]
        return "\n".join([f"## {self.title}", "", self.note, "", *table, ""])


def run(folder: Path, parts: tuple[str, ...] = PARTS) -> list[Figures | Table]:
    tables: list[Figures | Table] = []
    for part in parts:
        tables += {"recovery": recovery, "palm": by_palm, "atoms": lambda: atoms(folder), "apply": apply}[part]()
    return tables


# -- planted kernels -------------------------------------------------------------------------------------


def spread(rng: np.random.Generator) -> list[np.ndarray]:
    """Four places of twelve, at random, for each of four kernels."""
    return [np.sort(rng.choice(12, 4, replace=False)) for _ in range(4)]


CASES = {
    "4 of 4 places": ((128,), lambda rng: pp.convolution.kernel_supports(4, [1] * 4), None),
    "4 of 4 places, sparse code": ((128,), lambda rng: pp.convolution.kernel_supports(4, [1] * 4), 0.05),
    "4 of 4 places, spread": ((128,), spread, None),
    "4 of 4 places, spread, sparse code": ((128,), spread, 0.05),
    "4 of 4 places, dilated by 1, 2, 4, 8": (
        (128,),
        lambda rng: pp.convolution.kernel_supports(4, [1, 2, 4, 8]),
        None,
    ),
    "6 of 3 places": ((100,), lambda rng: pp.convolution.kernel_supports(3, [1] * 6), None),
    "5 of 5 places": ((135,), lambda rng: pp.convolution.kernel_supports(5, [1] * 5), None),
    "4 of 3×3": ((32, 32), lambda rng: pp.convolution.kernel_supports((3, 3), [1] * 4), None),
    "4 of 3×3, sparse code": ((32, 32), lambda rng: pp.convolution.kernel_supports((3, 3), [1] * 4), 0.02),
    "6 of 3×3": ((32, 32), lambda rng: pp.convolution.kernel_supports((3, 3), [1] * 6), None),
}


def recovery() -> list[Figures]:
    table = Figures(
        "Planted compositions of convolutions",
        f"Random kernels of unit norm on known places, {DRAWS} draws, {RESTARTS} restarts; found means a relative "
        "error of at most 1e-6. The code is a single one, or random Gaussian numbers at 5 % of the points (2 % in "
        "two dimensions).",
        ("kernels", "grid", "found", "median time", "longest"),
    )
    for name, (grid, make, density) in CASES.items():
        rng, found, seconds = np.random.default_rng(0), 0, []
        n_draws = DRAWS if name != "6 of 3×3" else DRAWS // 2  # which takes longest
        for draw in range(n_draws):
            supports = make(rng)
            kernels = [rng.standard_normal(len(places)) for places in supports]
            chain = pp.convolution.ConvolutionChain(
                [kernel / np.linalg.norm(kernel) for kernel in kernels], supports, grid
            )
            code = None if density is None else np.where(rng.random(grid) < density, rng.standard_normal(grid), 0)
            signal = chain.atom if code is None else chain.apply(code)
            begin = perf_counter()
            fit = pp.convolution.convolution_chain(signal, code, supports, n_restarts=RESTARTS, random_state=draw)
            seconds.append(perf_counter() - begin)
            found += fit.error <= 1e-6
        cells = (
            name,
            "×".join(map(str, grid)),
            f"{found} of {n_draws}",
            clock(np.median(seconds)),
            clock(max(seconds)),
        )
        table.rows.append(cells)
    return [table]


PALM_CASES = {
    "2 of 4 places": ((32,), pp.convolution.kernel_supports(4, [1] * 2)),
    "3 of 4 places": ((32,), pp.convolution.kernel_supports(4, [1] * 3)),
    "4 of 4 places": ((32,), pp.convolution.kernel_supports(4, [1] * 4)),
    "2 of 3×3": ((8, 8), pp.convolution.kernel_supports((3, 3), [1] * 2)),
    "3 of 3×3": ((8, 8), pp.convolution.kernel_supports((3, 3), [1] * 3)),
}


def by_palm() -> list[Figures]:
    table = Figures(
        "Planted compositions of convolutions by PALM",
        "`palm` with `constraints.Circulant` on the places, on the matrix of the composed convolution; the best "
        f"of {PALM_STARTS} random starts of {PALM_ITER} iterations with inertia, {PALM_DRAWS} draws. The last "
        "count is that of `convolution_chain` from PALM's kernels, without restarts. Seconds are processor time.",
        ("kernels", "grid", "error ≤ 1e-6", "error ≤ 1e-2", "≤ 1e-6 after joint steps", "seconds per draw"),
    )
    for name, (grid, supports) in PALM_CASES.items():
        rng, errors, polished, begin = np.random.default_rng(0), [], [], process_time()
        for _ in range(PALM_DRAWS):
            kernels = [rng.standard_normal(len(places)) for places in supports]
            chain = pp.convolution.ConvolutionChain(kernels, supports, grid)
            error, start = best_of_palm(chain, rng)
            errors.append(error)
            polished.append(
                pp.convolution.convolution_chain(chain.atom, None, supports, init=start, n_restarts=0).error
            )
        counts = (np.array(errors) <= 1e-6, np.array(errors) <= 1e-2, np.array(polished) <= 1e-6)
        seconds = (process_time() - begin) / PALM_DRAWS
        cells = (f"{count.sum()} of {PALM_DRAWS}" for count in counts)
        table.rows.append((name, "×".join(map(str, grid)), *cells, f"{seconds:.2g}"))
    return [table]


def best_of_palm(
    chain: pp.convolution.ConvolutionChain, rng: np.random.Generator
) -> tuple[float, list[np.ndarray]]:
    """The lowest error of some starts, and its kernels."""
    n, grid = chain.shape[0], chain.grid
    sets = [pp.constraints.Circulant(n, support=places, grid=grid) for places in chain.supports]
    best = None
    for _ in range(PALM_STARTS):
        start = [each.project(rng.standard_normal(each.shape)) for each in sets]
        fit = pp.palm(chain.toarray(), sets, init=start, max_iter=PALM_ITER, tol=1e-9, inertia=True)
        best = fit if best is None or fit.error < best.error else best
        if best.error <= 1e-6:
            break
    factors = zip(best.operator.factors, chain.supports, strict=True)
    return best.error, [f.toarray()[np.ravel_multi_index(places.T, grid), 0] for f, places in factors]


# -- known atoms -----------------------------------------------------------------------------------------


def daubechies(n_levels: int) -> np.ndarray:
    """The scaling function of Daubechies with four vanishing moments at a level, in one dimension."""
    taps = np.array(
        [
            *(0.2303778133088965, 0.7148465705529157, 0.6308807679298589, -0.0279837694168599),
            *(-0.1870348117190931, 0.0308413818355607, 0.0328830116668852, -0.0105974017850690),
        ]
    )
    atom = np.ones(1)
    for level in range(n_levels):
        dilated = np.zeros(7 * 2**level + 1)
        dilated[:: 2**level] = taps
        atom = np.convolve(atom, dilated)
    return atom


def windowed_cosine(shape: tuple[int, ...], frequencies: tuple[float, ...]) -> np.ndarray:
    """A plane wave under a Hann window."""
    places = np.indices(shape).T - (np.array(shape) - 1) / 2
    window = np.prod(np.meshgrid(*(np.hanning(n + 2)[1:-1] for n in shape), indexing="ij"), axis=0)
    return np.cos(2 * np.pi * (places @ np.array(frequencies)).T) * window


def curvelet(shape: tuple[int, int], angle: float, length: float, width: float) -> np.ndarray:
    """A ridge: the second derivative of a Gaussian across, a long Gaussian along."""
    y, x = (np.indices(shape).T - (np.array(shape) - 1) / 2).T
    along, across = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    ridge = (1 - (across / width) ** 2) * np.exp(-0.5 * (across / width) ** 2)
    return ridge * np.exp(-0.5 * (along / length) ** 2)


def lines(n: int, steps: tuple[int, ...], direction: tuple[int, int]) -> list[np.ndarray]:
    """Places on a line through the origin."""
    return [np.outer(step * np.arange(n), direction) for step in steps]


DYADIC = tuple(2**level for level in range(8))
LEVELS = DYADIC[:3]
ATOMS = {
    "Daubechies-4 scaling function, level 3": (daubechies(3), pp.convolution.kernel_supports(8, LEVELS)),
    "Daubechies-4 scaling function, level 7": (daubechies(7), pp.convolution.kernel_supports(8, DYADIC[:7])),
    "Daubechies-4 scaling function, level 8": (daubechies(8), pp.convolution.kernel_supports(8, DYADIC)),
    "Daubechies-4 scaling function, level 3, 2-D": (
        np.outer(daubechies(3), daubechies(3)),
        [*lines(8, LEVELS, (1, 0)), *lines(8, LEVELS, (0, 1))],
    ),
    "windowed cosine": (
        windowed_cosine((470,), (0.05,)),
        [*pp.convolution.kernel_supports(20, [1]), *pp.convolution.kernel_supports(4, [10, 20, 40, 80])],
    ),
    "windowed cosine, 2-D": (
        windowed_cosine((61, 61), (0.06, 0.09)),
        pp.convolution.kernel_supports((5, 5), [1, 2, 3, 4, 5]),
    ),
    "curvelet-like, 2-D": (
        curvelet((45, 69), np.arctan2(1, 2), 9.0, 2.5),
        [*pp.convolution.kernel_supports((5, 5), [1, 2, 2]), *lines(5, (1, 2, 3), (1, 2))],
    ),
}


SHOWN = ("Daubechies-4 scaling function, level 3, 2-D", "windowed cosine", "curvelet-like, 2-D")


def atoms(folder: Path) -> list[Figures]:
    table = Figures(
        "Known atoms as compositions of convolutions",
        "dB = −20 log₁₀ of the relative error, with twelve restarts. The share is the number of places of all "
        "kernels over the number of entries of the atom above a thousandth of its largest one. A wavelet of the "
        "third level has 50 samples in one dimension, a tenth of which is less than one filter of eight taps. "
        "Each level adds eight numbers and doubles the samples: from the seventh on, the share is below a tenth.",
        ("atom", "entries", "kernels", "places", "share", "dB"),
    )
    figure = Figure(figsize=(11, 9.5), layout="constrained")
    parts = figure.subfigures(len(SHOWN), 1)
    for name, (atom, supports) in ATOMS.items():
        fit = pp.convolution.convolution_chain(atom, None, supports, n_restarts=12)
        entries = int((np.abs(atom) > 1e-3 * np.abs(atom).max()).sum())
        count = fit.chain.n_coefficients
        level = -20 * np.log10(fit.error)
        cells = (name, f"{entries}", f"{len(supports)}", f"{count}", f"{count / entries:.3f}", f"{level:.1f}")
        table.rows.append(cells)
        if name in SHOWN:
            part = parts[SHOWN.index(name)]
            part.suptitle(f"{name}: {count / entries:.0%} of the entries, {level:.0f} dB", fontsize="medium")
            pp.plot.convolutions(fit, atom, figure=part)
    figure.savefig(folder / "convolutions.png", dpi=100)
    return [table]


# -- products --------------------------------------------------------------------------------------------


def apply() -> list[Table]:
    table = Table(
        "Six 3×3 convolutions of a 512×512 image",
        "`ConvolutionChain.apply` beside one convolution with the composed 13×13 kernel. The FFT with a known "
        "spectrum is periodic, as the chain is, and transforms the kernel once and for all; `fftconvolve` and "
        "`oaconvolve` transform it each time, as calls of them do.",
    )
    for dtype in (np.float64, np.float32):
        rng = np.random.default_rng(0)
        kernels = rng.standard_normal((6, 9)).astype(dtype)
        chain = pp.convolution.ConvolutionChain(
            kernels, pp.convolution.kernel_supports((3, 3), [1] * 6, centered=True), (512, 512)
        )
        image = rng.standard_normal((512, 512)).astype(dtype)
        composed = np.ones((1, 1), dtype)
        for kernel in kernels:
            composed = scipy.signal.convolve2d(composed, kernel.reshape(3, 3))
        spectrum = scipy.fft.rfft2(chain.atom)
        product = chain.to_product() if dtype is np.float64 else None

        def by_fft(workers: int, image=image, spectrum=spectrum) -> np.ndarray:
            return scipy.fft.irfft2(
                scipy.fft.rfft2(image, workers=workers) * spectrum, (512, 512), workers=workers
            )

        ways = {
            OURS: lambda chain=chain, image=image: chain.apply(image),
            "fftconvolve": lambda image=image, c=composed: scipy.signal.fftconvolve(image, c, mode="same"),
            "oaconvolve": lambda image=image, c=composed: scipy.signal.oaconvolve(image, c, mode="same"),
            "FFT, known spectrum": lambda by_fft=by_fft: by_fft(1),
            "FFT, known spectrum, 2 threads": lambda by_fft=by_fft: by_fft(2),
            "ndimage.convolve": lambda image=image, c=composed: scipy.ndimage.convolve(image, c, mode="wrap"),
        }
        if product is not None:
            vector = image.ravel()
            ways["SparseProduct"] = lambda product=product, vector=vector: product @ vector
        aims = {"fftconvolve": 1.0, "oaconvolve": 1.0}
        table.add(np.dtype(dtype).name, best_times(ways, rounds=3, burst=5), aims)
    return [table]


if __name__ == "__main__":
    found = run(Path(__file__).parent, tuple(sys.argv[1:]) or PARTS)
    sys.stdout.write("\n".join(table.markdown() for table in found))
