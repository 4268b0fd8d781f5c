"""Denoising photographs with dictionaries that are learned from the noisy image itself."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from math import isqrt
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from matplotlib.lines import Line2D

from papilio import Schedule, SparseProduct
from papilio.dictionary import fast_dictionary, ksvd, online_dictionary
from papilio.images import ABOVE_NOISE, Grid, PlaneDenoiser, atoms_per_patch, redundant_dct, training_patches
from papilio.metrics import psnr, ssim
from papilio.typing import Array
from papilio.validation import as_integer

from .harness import (
    DARK_TO_LIGHT,
    Claim,
    Ledger,
    OnProgress,
    Preset,
    Row,
    Rows,
    claims_table,
    made_by,
    markdown_table,
    new_figure,
    read_meta,
    read_table,
    rounded,
    run_trials,
    save,
    verdict,
    write_text,
)

TITLE = "Image denoising in dictionaries learned from the noisy image, against noise and complexity"

SETTINGS = {
    # Each trial draws the noise anew; its seeds follow from this one, its number, the image and the noise level.
    "seed": 2016,
    "trials": 1,
    # Photographs that PyWavelets (the first two) and scikit-image ship: grey, and the middle
    # of at most crop × crop pixels.
    "images": [
        "aero",
        "ascent",
        "astronaut",
        "brick",
        "camera",
        "chelsea",
        "coffee",
        "coins",
        "grass",
        "gravel",
        "moon",
        "rocket",
    ],
    "crop": 256,
    "sigmas": [10, 15, 20, 30, 50],  # Noise levels in grey values from 0 to 255.
    "patch_size": 8,
    "atoms": [64, 128, 256, 512],
    # "error target": as papilio.images.denoise does it, whatever the dictionary. All learners see the same
    # patches.
    "gain": 1.1,
    "n_patches": 8000,
    "complexities": [0.2, 0.3, 0.4],
    "ksvd_max_iter": 100,
    "online_max_iter": 30,
    "palm_max_iter": 50,
    # "5 atoms": the paper of 2016. Patches are drawn from the whole image, and n_nonzero_coefs atoms code each,
    # when learning and when denoising; the product is factorized to the letter, without refinement.
    "followup_atoms": [128, 256, 512],
    "followup_n_nonzero_coefs": 5,
    "followup_n_patches": 10000,
    "followup_n_factors": 4,
    "followup_entries_per_column": 6,
    "followup_decay": 0.7,
}

PRESETS = {
    "paper": Preset("twelve images, five noise levels, four sizes", 100),
    "tiny": Preset(
        "one small image, two noise levels",
        0.5,
        {
            "images": ["aero"],
            "crop": 40,
            "sigmas": [20, 50],
            "patch_size": 4,
            "atoms": [25],
            "n_patches": 400,
            "complexities": [0.5, 0.7],
            "ksvd_max_iter": 5,
            "online_max_iter": 2,
            "palm_max_iter": 10,
            "followup_atoms": [25],
            "followup_n_nonzero_coefs": 2,
            "followup_n_patches": 400,
            "followup_n_factors": 3,
            "followup_entries_per_column": 2,
        },
    ),
}
SAMPLE: dict[str, Any] = {"images": ["aero"], "sigmas": [20], "atoms": [64], "followup_atoms": [128]}
MEASURED: tuple[str, ...] = ()


# -- photographs -----------------------------------------------------------------------------------------------

_LUMINANCE = (0.299, 0.587, 0.114)  # Weights of red, green and blue (ITU-R BT.601).
_PYWAVELETS = ("aero", "ascent")
_SCIKIT_IMAGE = ("astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "moon", "rocket")
NAMES = (*_PYWAVELETS, *_SCIKIT_IMAGE)


def photograph(name: str, crop: int) -> Array:
    """The middle of a photograph, at most ``crop`` × ``crop`` pixels: integers from 0 to 255, as float64."""
    pixels = np.asarray(_loaded(name), np.float64)
    grey = pixels[:, :, :3] @ np.array(_LUMINANCE) if pixels.ndim == 3 else pixels
    top, left = (max(side - crop, 0) // 2 for side in grey.shape)
    return np.clip(np.rint(grey[top : top + crop, left : left + crop]), 0, 255)


def _loaded(name: str) -> Any:
    if name not in NAMES:
        raise ValueError(f"images must be among {', '.join(NAMES)}, got {name!r}")
    package = "PyWavelets" if name in _PYWAVELETS else "scikit-image"
    try:
        if name in _PYWAVELETS:
            import pywt.data as photographs
        else:
            import skimage.data as photographs
        return getattr(photographs, name)()
    except ImportError as error:
        raise ImportError(f"the image {name!r} needs {package}, which `make setup` installs") from error


# -- measuring -------------------------------------------------------------------------------------------------

DCT, KSVD, ONLINE, PAPILIO = "redundant DCT", "K-SVD", "online", "papilio"
TARGET, FIXED = "error target", "fixed atoms"

KEYS = ("image", "sigma", "trial", "coding", "atoms", "method", "complexity")
RESULTS = (*KEYS, "relative_complexity", "entries", "psnr", "ssim", "noisy_psnr")
TIMES = (*KEYS, "learning_seconds", "denoising_seconds")


class Draw(NamedTuple):
    """An image with noise."""

    image: str
    sigma: int
    trial: int


class Case(NamedTuple):
    """A dictionary and how patches are coded in it; ``complexity`` is the limit for papilio."""

    coding: str
    atoms: int
    method: str
    complexity: str = ""


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each image, noise level and dictionary, and times.csv with the seconds.

    ``complexity`` is the limit, ``relative_complexity`` what the dictionary has.
    """
    trials = as_integer("trials", settings["trials"], 1)
    for name in settings["images"]:  # now, not after an hour of work
        photograph(name, settings["crop"])

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [tuple(map(str, (*draw, *case))) for case in cases(settings)]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [Draw(*key) for key in product(settings["images"], settings["sigmas"], range(trials))]
    run_trials(draws, partial(measure, settings), table, times, jobs=jobs, progress=progress)


def cases(settings: dict[str, Any]) -> list[Case]:
    """All dictionaries in the order of the table; K-SVD comes before those that start from it."""
    found = []
    for atoms in settings["atoms"]:
        found += [Case(TARGET, atoms, method) for method in (DCT, KSVD, ONLINE)]
        found += [Case(TARGET, atoms, PAPILIO, str(c)) for c in settings["complexities"]]
    for atoms in settings["followup_atoms"]:
        found += [Case(FIXED, atoms, KSVD), Case(FIXED, atoms, PAPILIO)]
    return found


def measure(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The rows of a draw in the table, and those with its times."""
    noise_seed, seed = seeds_of(settings["seed"], draw)
    clean = photograph(draw.image, settings["crop"])
    noisy = clean + draw.sigma * np.random.default_rng(noise_seed).standard_normal(clean.shape)
    before = psnr(np.clip(noisy, 0, 255), clean, 255)
    plane = (noisy / draw.sigma).astype(np.float32)
    grid = Grid(plane.shape, settings["patch_size"], 1)
    results, times = [], []
    for case, dictionary, learning in _dictionaries(settings, plane, grid, seed):
        begin = perf_counter()
        n_nonzero_coefs = settings["followup_n_nonzero_coefs"] if case.coding == FIXED else None
        denoiser = PlaneDenoiser(dictionary.astype(np.float32), grid, settings["gain"], n_nonzero_coefs)
        image = np.clip(denoiser.denoise(plane) * draw.sigma, 0, 255)
        denoising = perf_counter() - begin
        operator = dictionary if isinstance(dictionary, SparseProduct) else SparseProduct([dictionary])
        scores = (rounded(score, 10) for score in (psnr(image, clean, 255), ssim(image, clean, 255), before))
        values = operator.relative_complexity, operator.nnz, *scores
        results.append(dict(zip(RESULTS, (*draw, *case, *values), strict=True)))
        times.append(dict(zip(TIMES, (*draw, *case, learning, denoising), strict=True)))
    return results, times


def seeds_of(seed: int, draw: Draw) -> tuple[int, int]:
    """The seeds of the noise and of the learners, which depend on nothing but the draw."""
    stream = [seed, draw.trial, draw.sigma, *draw.image.encode()]
    first, second = np.random.SeedSequence(stream).generate_state(2)
    return int(first), int(second)


def _dictionaries(
    settings: dict[str, Any], plane: Array, grid: Grid, seed: int
) -> Iterator[tuple[Case, Any, float]]:
    """Each case with its dictionary and the seconds that it took to learn.

    For one way of coding, all dictionaries are learned from the same patches with the same number of atoms per
    patch. papilio starts from the result of K-SVD, as it does by default; its seconds include those of K-SVD.
    """
    signals = {
        coding: training_patches([plane], grid, louder_than, count, np.random.RandomState(seed)).T
        for coding, louder_than, count in (
            (TARGET, ABOVE_NOISE, settings["n_patches"]),
            (FIXED, 0.0, settings["followup_n_patches"]),
        )
    }
    n_nonzero_coefs = {
        TARGET: atoms_per_patch(signals[TARGET].T, grid.size, settings["gain"]),
        FIXED: settings["followup_n_nonzero_coefs"],
    }
    start, start_seconds = np.empty(0), 0.0
    for case in cases(settings):
        X, k, begin = signals[case.coding], n_nonzero_coefs[case.coding], perf_counter()
        if case.method == DCT:
            dictionary: Any = redundant_dct(grid.size, isqrt(case.atoms - 1) + 1)
        elif case.method == KSVD:
            start = ksvd(X, case.atoms, k, max_iter=settings["ksvd_max_iter"], random_state=seed).dictionary
            dictionary, start_seconds = start, perf_counter() - begin
        elif case.method == ONLINE:
            passes = settings["online_max_iter"]
            dictionary = online_dictionary(X, case.atoms, k, max_iter=passes, random_state=seed).dictionary
        else:
            begin -= start_seconds
            dictionary = fast_dictionary(
                X,
                _schedule(settings, case, (len(X), case.atoms)),
                k,
                init=start,
                effort=float(case.coding == TARGET),
                max_iter=settings["palm_max_iter"],
                random_state=seed,
            ).dictionary
        yield case, dictionary, perf_counter() - begin


def _schedule(settings: dict[str, Any], case: Case, shape: tuple[int, int]) -> Schedule:
    if case.coding == TARGET:
        return Schedule.with_complexity(shape, float(case.complexity))
    return Schedule.rectangular(
        shape,
        settings["followup_n_factors"],
        settings["followup_entries_per_column"],
        settings["followup_decay"],
    )


# -- averages --------------------------------------------------------------------------------------------------


class Results:
    """The table, by noise level and case."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[int, Case], list[Row]] = {}
        for row in rows:
            case = Case(row["coding"], int(row["atoms"]), row["method"], row["complexity"])
            self._rows.setdefault((int(row["sigma"]), case), []).append(row)
        self.sigmas = sorted({sigma for sigma, _ in self._rows})
        self.cases = list(dict.fromkeys(case for _, case in self._rows))
        self.images = list(dict.fromkeys(row["image"] for group in self._rows.values() for row in group))

    def atoms(self, coding: str = TARGET) -> list[int]:
        """The sizes of dictionaries for a way of coding."""
        return sorted({case.atoms for case in self.cases if case.coding == coding})

    def complexities(self, atoms: int) -> list[str]:
        """The limits that papilio was given, in ascending order."""
        wanted = (TARGET, atoms, PAPILIO)
        return sorted((case.complexity for case in self.cases if case[:3] == wanted), key=float)

    def mean(self, sigma: int, case: Case, column: str) -> float:
        """The mean of a column over images and trials."""
        return float(np.mean([float(row[column]) for row in self._rows[sigma, case]]))

    def gains(self, sigma: int, case: Case, other: Case) -> list[float]:
        """The PSNR of ``case`` minus that of ``other`` in decibels, for each image and trial."""
        pairs = zip(self._rows[sigma, case], self._rows[sigma, other], strict=True)
        return [float(row["psnr"]) - float(beside["psnr"]) for row, beside in pairs]


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# Denoising, claim by claim

Preset `{preset}`, {images}; {made_by}.

{claims}

1 and 2 are from Le Magoarou and Gribonval, *Flexible multilayer sparse approximations of matrices and
applications* (2016), section VI, with its coding: the same number of atoms per patch, when learning and when
denoising, whatever the noise. The others are our own, for coding to an error that depends on the noise. The
redundant DCT has the next square number of atoms: 144 instead of 128, 529 instead of 512.

{means}

## Coding with a fixed number of atoms

{fixed}

## Seconds

Means, on one thread. The time that papilio takes to learn includes K-SVD, from which it starts.

{times}
"""

_STRONG = (30, 50)  # noise levels of the claims
_COLUMNS = ("learning_seconds", "denoising_seconds")
_NEAR, _ABOVE_DCT = 0.1, 0.3  # dB


def page(results: Results, times: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    return PAGE.format(
        preset=meta["preset"],
        images=f"{len(results.images)} image{'s' * (len(results.images) > 1)} ({', '.join(results.images)})",
        made_by=made_by(meta),
        claims=claims_table([*_followup(results), *_own(results)], "Claim"),
        means="\n\n".join(_means(results, atoms) for atoms in results.atoms()),
        fixed=_fixed_table(results),
        times=_times_table(times),
    )


def _followup(results: Results) -> list[Claim]:
    """Factorized dictionaries win if the noise is strong, having less freedom to learn it, and lose otherwise."""

    def claim(text: str, sigmas: list[int], sign: int) -> Claim:
        gains = {
            (sigma, atoms): np.mean(results.gains(sigma, Case(FIXED, atoms, PAPILIO), Case(FIXED, atoms, KSVD)))
            for sigma in sigmas
            for atoms in sizes
        }
        listed = (
            f"σ = {sigma}: " + ", ".join(f"{gains[sigma, atoms]:+.2f} dB ({atoms})" for atoms in sizes)
            for sigma in sigmas
        )
        holds = all(sign * gain > 0 for gain in gains.values())
        return Claim(text, verdict(holds), "; ".join(listed), "so on average, at each number of atoms")

    sizes = results.atoms(FIXED)
    strong = [sigma for sigma in results.sigmas if sigma in _STRONG]
    levels = " and ".join(map(str, strong))
    better = f"At σ = {levels}, factorized dictionaries denoise better than K-SVD's."
    low = claim("At low noise they do worse.", results.sigmas[:1], -1)
    return [claim(better, strong, 1), low] if strong else [low]


def _own(results: Results) -> list[Claim]:
    """How near papilio at its largest complexity is to K-SVD, and how far above the DCT."""
    sizes = results.atoms()
    atoms = 256 if 256 in sizes else sizes[-1]
    complexity = results.complexities(atoms)[-1]
    ours = Case(TARGET, atoms, PAPILIO, complexity)
    claims = []
    for sigma in (sigma for sigma in results.sigmas if sigma in _STRONG):
        dense, dct = (results.gains(sigma, ours, Case(TARGET, atoms, name)) for name in (KSVD, DCT))
        above = sigma == max(_STRONG)
        claims += [
            Claim(
                f"At σ = {sigma}, papilio with {atoms} atoms and complexity {complexity} is "
                + ("above K-SVD." if above else f"within {_NEAR} dB of K-SVD."),
                verdict(float(np.mean(dense)) > (0.0 if above else -_NEAR)),
                _gain(dense),
            ),
            Claim(
                f"At σ = {sigma}, it is at least {_ABOVE_DCT} dB above the redundant DCT.",
                verdict(float(np.mean(dct)) >= _ABOVE_DCT),
                _gain(dct),
            ),
        ]
    return claims


def _gain(gains: list[float]) -> str:
    won = sum(gain > 0 for gain in gains)
    span = f"from {min(gains):+.2f} to {max(gains):+.2f}"
    return f"{np.mean(gains):+.3f} dB on average, {span}; above in {won} of {len(gains)}"


def _means(results: Results, atoms: int) -> str:
    """PSNR and SSIM of all dictionaries of one size, against the noise."""
    cases = [case for case in results.cases if (case.coding, case.atoms) == (TARGET, atoms)]
    rows = [
        (f"{PAPILIO}, {case.complexity}" if case.method == PAPILIO else case.method, *_scores(results, case))
        for case in cases
    ]
    table = markdown_table(("dictionary", "complexity", *_levels(results)), rows, "lr")
    return f"## {atoms} atoms: PSNR in dB / SSIM\n\n{table}"


def _fixed_table(results: Results) -> str:
    rows = [
        (str(case.atoms), "factorized" if case.method == PAPILIO else case.method, *_scores(results, case))
        for case in results.cases
        if case.coding == FIXED
    ]
    return markdown_table(("atoms", "dictionary", "complexity", *_levels(results)), rows, "rlr")


def _levels(results: Results) -> list[str]:
    return [f"σ = {sigma}" for sigma in results.sigmas]


def _scores(results: Results, case: Case) -> list[str]:
    """The complexity of a dictionary, then PSNR and SSIM at each noise level."""
    complexity = results.mean(results.sigmas[0], case, "relative_complexity")
    pairs = ([results.mean(sigma, case, column) for column in ("psnr", "ssim")] for sigma in results.sigmas)
    return [f"{complexity:.3f}", *(f"{psnr:.2f} / {ssim:.3f}" for psnr, ssim in pairs)]


def _times_table(times: list[Row]) -> str:
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in times:
        groups.setdefault((row["coding"], row["atoms"], row["method"], row["complexity"]), []).append(row)
    rows = [
        (*key, *(f"{np.mean([float(row[column]) for row in group]):.2f}" for column in _COLUMNS))
        for key, group in groups.items()
    ]
    return markdown_table(("coding", "atoms", "method", "limit", "learning", "denoising"), rows, "lrlr")


# -- figures ---------------------------------------------------------------------------------------------------

# Each has its own colour, marker and line style.
_LOOKS: dict[str, dict[str, Any]] = {
    DCT: {"color": "#E69F00", "marker": "^", "linestyle": "-."},
    KSVD: {"color": "#000000", "marker": "s", "linestyle": "-"},
    ONLINE: {"color": "#0072B2", "marker": "D", "linestyle": ":"},
}
_OF_PAPILIO = (("v", (0, (1, 2))), ("X", "--"), ("o", "-"))


def against_noise(results: Results) -> Any:
    """The mean PSNR of dictionaries of one size, and its difference from that of K-SVD."""
    sizes = results.atoms()
    atoms = 256 if 256 in sizes else sizes[-1]
    reference = Case(TARGET, atoms, KSVD)
    figure = new_figure(10.5, 4.6)
    left, right = figure.subplots(1, 2)
    for case in (case for case in results.cases if (case.coding, case.atoms) == (TARGET, atoms)):
        means = [results.mean(sigma, case, "psnr") for sigma in results.sigmas]
        gains = [sum(g) / len(g) for g in (results.gains(sigma, case, reference) for sigma in results.sigmas)]
        label = f"{PAPILIO}, complexity {case.complexity}" if case.method == PAPILIO else case.method
        look = {"label": label, "markersize": 6, **_look(case, results.complexities(atoms))}
        left.plot(results.sigmas, means, **look)
        right.plot(results.sigmas, gains, **look)
    left.set_ylabel("PSNR in dB")
    right.set_ylabel("PSNR above K-SVD's, in dB")
    for ax in (left, right):
        ax.set_xticks(results.sigmas)
        ax.set_xlabel("standard deviation of the noise")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
    images = len(results.images)
    figure.suptitle(f"{atoms} atoms, means of {images} image{'s' * (images > 1)}", fontsize="medium")
    return figure


def against_complexity(results: Results) -> Any:
    """A panel for each of three noise levels; lines join dictionaries of one size, up to K-SVD at 1."""
    sigmas = sorted({results.sigmas[0], *results.sigmas[-2:]})
    colours = dict(zip(results.atoms(), DARK_TO_LIGHT, strict=False))
    figure = new_figure(4.0 * len(sigmas), 4.6)
    for ax, sigma in zip(figure.subplots(1, len(sigmas), squeeze=False)[0], sigmas, strict=True):
        for atoms, colour in colours.items():
            limits = results.complexities(atoms)
            cases = [
                *(Case(TARGET, atoms, PAPILIO, c) for c in limits),
                *(Case(TARGET, atoms, m) for m in (KSVD, DCT)),
            ]
            x, y = (
                [results.mean(sigma, case, column) for case in cases] for column in ("relative_complexity", "psnr")
            )
            ax.plot(x[:-1], y[:-1], color=colour, linewidth=1, zorder=1)
            ax.plot(x[:-2], y[:-2], color=colour, marker="o", linestyle="none")
            ax.plot(x[-2], y[-2], color=colour, marker="s", linestyle="none")
            ax.plot(x[-1], y[-1], color=colour, marker="^", linestyle="none", fillstyle="none")
        ax.set_title(f"σ = {sigma}", fontsize="medium")
        ax.set_xlim(0, 1.08)
        ax.set_xlabel("relative complexity")
        ax.set_ylabel("PSNR in dB")
    key = [Line2D([], [], color=colour, label=f"{atoms} atoms") for atoms, colour in colours.items()]
    for name, marker, fill in ((PAPILIO, "o", "full"), (KSVD, "s", "full"), (DCT, "^", "none")):
        look: dict[str, Any] = {"color": "0.3", "marker": marker, "fillstyle": fill, "linestyle": "none"}
        key.append(Line2D([], [], label=name, **look))
    figure.legend(handles=key, loc="outside lower center", ncols=len(key), frameon=False)
    return figure


def _look(case: Case, complexities: list[str]) -> dict[str, Any]:
    if case.method != PAPILIO:
        return _LOOKS[case.method]
    place = complexities.index(case.complexity) - len(complexities)  # the last always looks the same
    marker, linestyle = _OF_PAPILIO[place % len(_OF_PAPILIO)]
    return {"color": "#D55E00", "marker": marker, "linestyle": linestyle}


def write(folder: Path) -> list[Path]:
    """Draw figure.png (against the noise) and complexity.png, and compare the tables with the claims."""
    results = Results(read_table(folder / "table.csv"))
    text = page(results, read_table(folder / "times.csv"), read_meta(folder))
    return [
        save(against_noise(results), folder / "figure.png"),
        save(against_complexity(results), folder / "complexity.png"),
        write_text(folder / "claims.md", text),
    ]
