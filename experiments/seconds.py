"""Dictionaries of image patches: the error on new patches against the measured time."""

from collections.abc import Iterable, Iterator
from math import isqrt
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from matplotlib.ticker import FuncFormatter, NullLocator

from papilio import Schedule, SparseProduct, omp
from papilio.datasets import image_patches
from papilio.dictionary import fast_dictionary, ksvd
from papilio.images import redundant_dct
from papilio.operators.speed import compare
from papilio.runtime.threads import one_thread
from papilio.typing import Array

from .harness import (
    Claim,
    OnProgress,
    Preset,
    Row,
    claims_table,
    made_by,
    markdown_table,
    new_figure,
    read_meta,
    read_table,
    rounded,
    save,
    verdict,
    write_table,
    write_text,
)

TITLE = "Dictionaries of image patches: the error on new patches against the measured time"

SETTINGS = {
    # Each seed draws the patches anew: those for training, and others of the same photographs to measure the
    # error.
    "seeds": [0, 1],
    "patch_size": 8,
    "n_training": 10000,
    "n_held_out": 5000,
    "n_nonzero_coefs": 5,
    "atoms": [128, 256],
    "complexities": [0.7, 0.5, 0.35, 0.25, 0.15, 0.1],
    "block": 4,  # rows and columns
    "ksvd_max_iter": 100,
    "palm_max_iter": 500,
    # The time of a product with so many vectors, on one thread: the best of several rounds, in each of which every
    # dictionary has so many seconds.
    "vectors": 256,
    "timing_rounds": 5,
    "timing_seconds": 0.2,
}

PRESETS = {
    "paper": Preset("128 and 256 atoms, 10,000 patches, two draws", 10),
    "tiny": Preset(
        "32 atoms of 4×4",
        0.3,
        {
            "seeds": [0],
            "patch_size": 4,
            "n_training": 300,
            "n_held_out": 200,
            "n_nonzero_coefs": 2,
            "atoms": [32],
            "complexities": [0.5, 0.25],
            "block": 2,
            "ksvd_max_iter": 5,
            "palm_max_iter": 10,
            "timing_rounds": 1,
            "timing_seconds": 0.01,
        },
    ),
}
SAMPLE: dict[str, Any] = {"seeds": [0]}
MEASURED: tuple[str, ...] = ("speedup_forward", "speedup_adjoint", "fit_seconds")


# -- measuring -------------------------------------------------------------------------------------------------

DENSE, SINGLE, BLOCKS, DCT = "dense", "single entries", "blocks", "redundant DCT"

KEYS = ("atoms", "kind", "complexity", "seed")
RESULTS = ("relative_complexity", "error_training", "error_held_out", "speedup_forward", "speedup_adjoint")
COLUMNS = (*KEYS, *RESULTS, "fit_seconds")


class Case(NamedTuple):
    """A dictionary: ``complexity`` is the limit that was asked for, empty where there is none."""

    atoms: int
    kind: str
    complexity: float | str
    seed: int


class Patches(NamedTuple):
    """Patches as columns: those to learn from, and others."""

    training: Array
    held_out: Array


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each dictionary.

    All times are taken at the end, in rounds over all dictionaries: a busy moment of the machine then spoils one
    measurement of each, not all of one.
    """
    total = len(cases(settings)) + settings["timing_rounds"]
    progress(0, total)
    _warm_up(settings)
    rows, dictionaries = [], []
    for seed in settings["seeds"]:
        patches = patches_of(settings, seed)
        for atoms in settings["atoms"]:
            for case, dictionary, seconds in _dictionaries(settings, patches, atoms, seed):
                errors = (rounded(error(dictionary, X, settings["n_nonzero_coefs"]), 6) for X in patches)
                values = (*case, rounded(_complexity(dictionary), 6), *errors)
                rows.append(dict(zip(COLUMNS, values, strict=False)) | {"fit_seconds": rounded(seconds, 3)})
                dictionaries.append(dictionary)
                progress(len(rows), total)
    best = np.full(
        (len(rows), 2, 2), np.inf
    )  # seconds, forward and adjoint, of the dense matrix and of the product
    for done in range(settings["timing_rounds"]):
        for i, dictionary in enumerate(dictionaries):
            best[i] = np.minimum(best[i], _seconds(settings, dictionary))
        progress(len(rows) + done + 1, total)
    for row, (forward, adjoint) in zip(rows, best, strict=True):
        row["speedup_forward"] = rounded(forward[0] / forward[1], 4)
        row["speedup_adjoint"] = rounded(adjoint[0] / adjoint[1], 4)
    write_table(folder / "table.csv", COLUMNS, rows)


def cases(settings: dict[str, Any]) -> list[Case]:
    """All dictionaries, in the order of the table."""
    return [
        Case(atoms, kind, complexity, seed)
        for seed in settings["seeds"]
        for atoms in settings["atoms"]
        for kind, limits in (
            (DENSE, [""]),
            (SINGLE, settings["complexities"]),
            (BLOCKS, settings["complexities"]),
            (DCT, [""]),
        )
        for complexity in limits
    ]


def patches_of(settings: dict[str, Any], seed: int) -> Patches:
    """Patches that are all different; those that are held out may overlap with others."""
    count = settings["n_training"]
    drawn = image_patches(count + settings["n_held_out"], settings["patch_size"], random_state=seed).T
    return Patches(np.asfortranarray(drawn[:, :count]), np.asfortranarray(drawn[:, count:]))


def error(dictionary: Array | SparseProduct, signals: Array, n_nonzero_coefs: int) -> float:
    """The relative error of signals in their sparse codes: one judge for all."""
    approximations = dictionary @ omp(dictionary, signals, n_nonzero_coefs)
    return float(np.linalg.norm(signals - approximations) / np.linalg.norm(signals))


def _dictionaries(
    settings: dict[str, Any], patches: Patches, atoms: int, seed: int
) -> Iterator[tuple[Case, Array | SparseProduct, float]]:
    """Each case of one size with its dictionary and the seconds that it took to learn.

    All products start from the dense dictionary, and their seconds include its own.
    """
    X, k = patches.training, settings["n_nonzero_coefs"]
    begin = perf_counter()
    start = ksvd(X, atoms, k, max_iter=settings["ksvd_max_iter"], random_state=seed).dictionary
    start_seconds = perf_counter() - begin
    for case in (case for case in cases(settings) if (case.atoms, case.seed) == (atoms, seed)):
        begin = perf_counter()
        if case.kind == DENSE:
            yield case, start, start_seconds
        elif case.kind == DCT:
            yield case, redundant_dct(settings["patch_size"], isqrt(atoms - 1) + 1), 0.0
        else:
            block = settings["block"] if case.kind == BLOCKS else None
            schedule = Schedule.with_complexity((len(X), atoms), float(case.complexity), block=block)
            learned = fast_dictionary(
                X, schedule, k, init=start, max_iter=settings["palm_max_iter"], random_state=seed
            )
            yield case, learned.dictionary, start_seconds + perf_counter() - begin


def _seconds(settings: dict[str, Any], dictionary: Array | SparseProduct) -> Array:
    """Seconds of the dense matrix and of the product: one row forward, one for the adjoint."""
    if not isinstance(dictionary, SparseProduct):
        return np.ones((2, 2))  # it is the measure
    dense = dictionary.toarray()
    seconds = []
    with one_thread():
        for product, matrix in ((dictionary, dense), (dictionary.H, np.ascontiguousarray(dense.T))):
            speed = compare(product, matrix, settings["vectors"], settings["timing_seconds"] / 2)
            seconds.append((speed.dense, speed.product))
    return np.array(seconds)


def _complexity(dictionary: Array | SparseProduct) -> float:
    return dictionary.relative_complexity if isinstance(dictionary, SparseProduct) else 1.0


def _warm_up(settings: dict[str, Any]) -> None:
    """Compile all kernels, which must not count."""
    short = settings | {"n_training": 200, "n_held_out": 1, "ksvd_max_iter": 1, "palm_max_iter": 2}
    short |= {"complexities": settings["complexities"][:1]}
    for _ in _dictionaries(short, patches_of(short, 0), min(settings["atoms"]), settings["seeds"][0]):
        pass


# -- averages --------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """One dictionary of a figure: ``time`` is over that of the dense matrix, forward and adjoint together."""

    complexity: str  # the limit, empty where there is none
    relative_complexity: float
    training: float
    held_out: float
    forward: float
    adjoint: float
    fit_seconds: float
    time: float


def averages(rows: Iterable[Row]) -> dict[int, dict[str, list[Point]]]:
    """The points of each kind of dictionary by the number of atoms, in the order of the table."""
    groups: dict[tuple[int, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((int(row["atoms"]), row["kind"], row["complexity"]), []).append(row)
    points: dict[int, dict[str, list[Point]]] = {}
    for (atoms, kind, complexity), group in groups.items():
        points.setdefault(atoms, {}).setdefault(kind, []).append(_point(complexity, group))
    return points


def _point(complexity: str, rows: list[Row]) -> Point:
    def mean(column: str) -> float:
        return float(np.mean([float(row[column]) for row in rows]))

    # Those of seconds, not of speed-ups: the mean time counts.
    forward, adjoint = (
        float(np.mean([1 / float(row[column]) for row in rows]))
        for column in ("speedup_forward", "speedup_adjoint")
    )
    return Point(
        complexity,
        mean("relative_complexity"),
        mean("error_training"),
        mean("error_held_out"),
        1 / forward,
        1 / adjoint,
        mean("fit_seconds"),
        (forward + adjoint) / 2,
    )


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# Error against seconds

{claims}

Dictionaries of {side}×{side} image patches with {coefs} atoms per patch, learned from {training} patches and
measured on {held_out} others of the same photographs; {draws}; {made_by}. All products start from the same
dense dictionary. Speed-ups are over the dense matrix for {vectors} vectors, on one thread; blocks are
{block}×{block}. The time to fit includes K-SVD, from which products start. The redundant DCT has the next
square number of atoms, and is compared with the dense matrix of its own shape.

{tables}
"""

# For each complexity: how far blocks may be above single entries, and how much faster than dense they must be.
_LIMITS = {"0.5": (1.015, 1.5), "0.25": (1.04, 3.0)}


def page(points: dict[int, dict[str, list[Point]]], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    n_draws = len(settings["seeds"])
    return PAGE.format(
        claims=claims_table([claim for atoms in points for claim in _claims(atoms, points[atoms])], "Claim"),
        tables="\n\n".join(_table(atoms, points[atoms]) for atoms in points),
        training=f"{settings['n_training']:,}",
        held_out=f"{settings['n_held_out']:,}",
        side=str(settings["patch_size"]),
        coefs=str(settings["n_nonzero_coefs"]),
        block=str(settings["block"]),
        vectors=str(settings["vectors"]),
        draws="one draw" if n_draws == 1 else f"means of {n_draws} draws",
        made_by=made_by(meta),
    )


def _claims(atoms: int, kinds: dict[str, list[Point]]) -> list[Claim]:
    single, blocks = ({point.complexity: point for point in kinds[kind]} for kind in (SINGLE, BLOCKS))
    claims = []
    for complexity, (above, faster) in _LIMITS.items():
        if complexity not in blocks:
            continue
        ours, other = blocks[complexity], single[complexity]
        ratio = ours.held_out / other.held_out
        speed = min(ours.forward, ours.adjoint)
        claims += [
            Claim(
                f"{atoms} atoms, complexity {complexity}: on new patches, the error in blocks is at most "
                f"{above - 1:.1%} above that of single entries.",
                verdict(ratio <= above, better=ratio <= 1),
                f"{ours.held_out:.4f} against {other.held_out:.4f}, {ratio - 1:+.1%}",
            ),
            Claim(
                f"{atoms} atoms, complexity {complexity}: blocks are at least {faster:g} times as fast as the "
                "dense matrix.",
                verdict(speed >= faster),
                f"{_speeds(ours)}; single entries {_speeds(other)}",
            ),
        ]
    if "0.5" in blocks and "0.25" in single:
        ours, other = blocks["0.5"], single["0.25"]
        claims.append(
            Claim(
                f"{atoms} atoms: blocks at complexity 0.5 have a lower error than single entries at 0.25, and are "
                "at least 0.9 times as fast.",
                verdict(ours.held_out < other.held_out and ours.time <= other.time / 0.9),
                f"{ours.held_out:.4f} against {other.held_out:.4f}, {1 / ours.time:.1f}× against "
                f"{1 / other.time:.1f}×",
            )
        )
    return claims


def _speeds(point: Point) -> str:
    return f"{point.forward:.1f}× forward, {point.adjoint:.1f}× adjoint"


def _table(atoms: int, kinds: dict[str, list[Point]]) -> str:
    headings = ("dictionary", "limit", "complexity", "training", "new patches", "forward", "adjoint", "fit")
    rows = [
        (
            kind,
            point.complexity,
            f"{point.relative_complexity:.3f}",
            f"{point.training:.4f}",
            f"{point.held_out:.4f}",
            *("1" if kind == DENSE else f"{gain:.2f}×" for gain in (point.forward, point.adjoint)),
            f"{point.fit_seconds:.1f} s" if point.fit_seconds else "",
        )
        for kind, members in kinds.items()
        for point in members
    ]
    return f"## {atoms} atoms\n\n{markdown_table(headings, rows, 'lr')}"


# -- figures ---------------------------------------------------------------------------------------------------

# Each has its own colour and marker, and its labels their own side.
_LOOKS: dict[str, dict[str, Any]] = {
    DENSE: {"color": "#000000", "marker": "s", "markersize": 8, "linestyle": "none", "zorder": 3},
    SINGLE: {"color": "#0072B2", "marker": "D", "markersize": 5, "linestyle": "--", "zorder": 4},
    BLOCKS: {"color": "#D55E00", "marker": "o", "linestyle": "-", "zorder": 4},
    DCT: {"color": "#E69F00", "marker": "^", "markersize": 8, "linestyle": "none", "zorder": 4},
}
_SIDES = {SINGLE: ((5, 5), "left", "bottom"), BLOCKS: ((-5, -5), "right", "top")}
_TICKS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)


def figure_of(points: dict[int, dict[str, list[Point]]], settings: dict[str, Any]) -> Any:
    """A panel for each number of atoms, with a line for each kind of product."""
    figure = new_figure(5.2 * len(points), 4.8)
    axes = figure.subplots(1, len(points), squeeze=False)[0]
    size = settings["block"]
    labels = {
        DENSE: "dense (K-SVD)",
        SINGLE: "product, single entries",
        BLOCKS: f"product, {size}×{size} blocks",
        DCT: "redundant DCT",
    }
    for ax, (atoms, kinds) in zip(axes, points.items(), strict=True):
        for kind, members in kinds.items():
            x, y = [point.time for point in members], [point.held_out for point in members]
            ax.plot(x, y, label=labels[kind], **_LOOKS[kind])
            if kind in _SIDES:
                _write_complexities(ax, kind, members)
        ax.axvline(1, color="0.35", linewidth=1, zorder=2)
        ax.set_title(f"{atoms} atoms", fontsize="medium")
        ax.set_xscale("log")
        ax.set_xticks(_TICKS)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        times = [point.time for members in kinds.values() for point in members]
        ax.set_xlim(0.8 * min(times), 1.35 * max(times))
        ax.margins(y=0.08)
        ax.grid(color="0.92", zorder=0)
        ax.set_xlabel(f"time for {settings['vectors']} vectors, over the dense matrix's")
    axes[0].set_ylabel(f"relative error on new patches, {settings['n_nonzero_coefs']} atoms each")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def _write_complexities(ax: Any, kind: str, members: list[Point]) -> None:
    """The complexity beside each point."""
    offset, across, along = _SIDES[kind]
    look = {"ha": across, "va": along, "fontsize": "small", "color": _LOOKS[kind]["color"]}
    for point in members:
        place = point.time, point.held_out
        ax.annotate(point.complexity, place, offset, textcoords="offset points", **look)


def write(folder: Path) -> list[Path]:
    """Draw figure.png and compare the table in ``folder`` with the claims."""
    meta, points = read_meta(folder), averages(read_table(folder / "table.csv"))
    return [
        save(figure_of(points, meta["settings"]), folder / "figure.png"),
        write_text(folder / "claims.md", page(points, meta)),
    ]
