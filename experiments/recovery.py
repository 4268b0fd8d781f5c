"""Planted dictionaries with non-negative codes: how much of them is found, against published figures."""

import csv
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from papilio import omp
from papilio.datasets import random_dictionary, synthetic_signals
from papilio.dictionary import ksvd
from papilio.linalg import column_norms
from papilio.metrics import mean_max_cosine, recovery_rate
from papilio.typing import Array
from papilio.validation import as_integer

from .harness import (
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

TITLE = "Planted dictionaries with non-negative codes: how much of them K-SVD finds"

SETTINGS = {
    # Each trial draws a dictionary, its signals and the first atoms anew; its seeds follow from this one and the
    # draw.
    "seed": 2026,
    "trials": 3,
    # Atoms, features and signals. Features are 2k·ln(atoms/k) for k atoms per signal, rounded up.
    "sizes": [[100, 47, 5000], [500, 79, 5000], [1000, 93, 5000], [1000, 93, 20000]],
    "values": ["uniform", "half-normal"],  # Distributions of the coefficients.
    "n_nonzero_coefs": 10,
    "n_held_out": 5000,  # new signals, whose codes are compared with the True ones
    "max_iter": 100,
}

PRESETS = {
    "paper": Preset("100 to 1000 atoms, 5,000 and 20,000 signals, three draws each", 5),
    "tiny": Preset(
        "20 atoms",
        0.2,
        {
            "trials": 2,
            "sizes": [[20, 12, 300]],
            "values": ["uniform"],
            "n_nonzero_coefs": 2,
            "n_held_out": 100,
            "max_iter": 10,
        },
    ),
}
SAMPLE: dict[str, Any] = {"trials": 1}
MEASURED: tuple[str, ...] = ()


# -- measuring -------------------------------------------------------------------------------------------------

START, KSVD, TRUE = "signals drawn at random", "K-SVD", "true dictionary"

KEYS = ("atoms", "features", "signals", "values", "trial", "method")
RESULTS = (*KEYS, "cosine", "recovered", "correlation", "error")
TIMES = (*KEYS, "seconds")


class Draw(NamedTuple):
    """A planted dictionary and its signals."""

    atoms: int
    features: int
    signals: int
    values: str
    trial: int


class Planted(NamedTuple):
    """A dictionary with unit-norm atoms, signals to learn from, and new ones with their codes."""

    dictionary: Array
    training: Array
    held_out: Array
    codes: sp.csc_array


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each draw and method, and times.csv with the seconds of one core.

    ``cosine`` is the mean over the true atoms of the largest cosine with a learned one, with its sign;
    ``recovered`` is the share of true atoms with a cosine above 0.99. ``correlation`` and ``error`` are those of
    non-negative codes of new signals (see `mean_correlation`; the error is relative).
    """
    trials = as_integer("trials", settings["trials"], 1)

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [tuple(map(str, (*draw, method))) for method in (START, KSVD, TRUE)]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [
        Draw(atoms, features, signals, values, trial)
        for values in settings["values"]
        for atoms, features, signals in settings["sizes"]
        for trial in range(trials)
    ]
    run_trials(draws, partial(measure, settings), table, times, jobs=jobs, progress=progress)


def measure(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The rows of a draw in the table, and those with its times."""
    planted, seed = plant(settings, draw)
    truth, k = planted.dictionary, settings["n_nonzero_coefs"]
    results, times = [], []
    for method, dictionary, seconds in _dictionaries(settings, planted, seed):
        codes = omp(dictionary, planted.held_out, k, positive=True)
        rest = planted.held_out - dictionary @ codes
        values = (
            mean_max_cosine(dictionary, truth, signed=True),
            recovery_rate(dictionary, truth),
            mean_correlation(codes, planted.codes),
            float(np.linalg.norm(rest) / np.linalg.norm(planted.held_out)),
        )
        row = (*draw, method, *(rounded(value, 6) for value in values))
        results.append(dict(zip(RESULTS, row, strict=True)))
        times.append(dict(zip(TIMES, (*draw, method, rounded(seconds, 3)), strict=True)))
    return results, times


def plant(settings: dict[str, Any], draw: Draw) -> tuple[Planted, int]:
    """The data of a draw and the seed of the learner, which depend on nothing but the draw."""
    stream = [settings["seed"], *draw[:3], draw.trial, *draw.values.encode()]
    first, seed = np.random.SeedSequence(stream).generate_state(2)
    random = np.random.RandomState(first)
    dictionary = random_dictionary(draw.features, draw.atoms, random_state=random)
    dictionary /= column_norms(dictionary)
    training, held_out = (
        synthetic_signals(dictionary, count, settings["n_nonzero_coefs"], values=draw.values, random_state=random)
        for count in (draw.signals, settings["n_held_out"])
    )
    return Planted(dictionary, training[0], *held_out), int(seed)


def mean_correlation(codes: sp.csc_array, truth: sp.csc_array) -> float:
    """The mean correlation coefficient of codes with the true ones: what is published for sparse autoencoders.

    Each true atom is paired with one learned atom, such that the mean of |correlation| over all pairs is largest.
    """
    correlations = np.abs(_standardised(truth) @ _standardised(codes).T)
    return float(correlations[linear_sum_assignment(correlations, maximize=True)].mean())


def _standardised(codes: sp.csc_array) -> Array:
    """Rows with mean zero and norm one; constant rows become zero."""
    rows = codes.toarray()
    rows -= rows.mean(axis=1, keepdims=True)
    norms = column_norms(rows.T)
    return rows / np.where(norms > 0, norms, 1.0)[:, None]


def _dictionaries(settings: dict[str, Any], planted: Planted, seed: int) -> Iterator[tuple[str, Array, float]]:
    """What K-SVD starts from, what it learns in so many seconds, and the truth.

    The seconds are those of the processor, as other work beside it should not count.
    """
    X, n_atoms, k = planted.training, planted.dictionary.shape[1], settings["n_nonzero_coefs"]
    learn = partial(ksvd, X, n_atoms, k, positive=True, random_state=seed)
    yield START, np.asarray(learn(max_iter=0).dictionary), 0.0
    begin = process_time()
    learned = np.asarray(learn(max_iter=settings["max_iter"]).dictionary)
    yield KSVD, learned, process_time() - begin
    yield TRUE, planted.dictionary, 0.0


# -- averages --------------------------------------------------------------------------------------------------

PUBLISHED = """\
method,atoms,features,signals,correlation
top-k sparse autoencoder,100,47,5000,0.71
top-k sparse autoencoder,500,79,5000,0.21
top-k sparse autoencoder,1000,93,5000,0.19
dictionary learning with FISTA,100,47,5000,0.95
dictionary learning with FISTA,500,79,5000,0.96
dictionary learning with FISTA,1000,93,5000,0.48
"""


class Size(NamedTuple):
    """Of a problem."""

    atoms: int
    features: int
    signals: int

    def __str__(self) -> str:
        return f"{self.atoms}×{self.features}, {self.signals:,} signals"


class Point(NamedTuple):
    """Means over the trials; ``least`` is the smallest cosine of a trial, ``seconds`` the longest time."""

    cosine: float
    least: float
    recovered: float
    correlation: float
    error: float
    seconds: float


Points = dict[Size, dict[str, dict[str, Point]]]  # by the distribution of values, and the method


def averages(rows: Iterable[Row], times: Iterable[Row]) -> Points:
    """The points in the order of the table; ``times`` has the same rows."""
    groups: dict[tuple[Size, str, str], list[tuple[Row, Row]]] = {}
    for row, time in zip(rows, times, strict=True):
        key = size_of(row), row["values"], row["method"]
        groups.setdefault(key, []).append((row, time))
    points: Points = {}
    for (size, values, method), group in groups.items():
        points.setdefault(size, {}).setdefault(values, {})[method] = _point(group)
    return points


def published() -> dict[str, dict[Size, float]]:
    """The mean correlations of codes that others report, by method (Barin Pacela et al., 2026)."""
    text = PUBLISHED
    found: dict[str, dict[Size, float]] = {}
    for row in csv.DictReader(text.splitlines()):
        found.setdefault(row["method"], {})[size_of(row)] = float(row["correlation"])
    return found


def size_of(row: Row) -> Size:
    return Size(int(row["atoms"]), int(row["features"]), int(row["signals"]))


def _point(group: list[tuple[Row, Row]]) -> Point:
    def mean(column: str) -> float:
        return float(np.mean([float(row[column]) for row, _ in group]))

    least = min(float(row["cosine"]) for row, _ in group)
    longest = max(float(time["seconds"]) for _, time in group)
    return Point(mean("cosine"), least, mean("recovered"), mean("correlation"), mean("error"), longest)


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# Recovery of planted dictionaries

{claims}

Signals are sums of {coefs} atoms, at random places, of a random Gaussian dictionary with unit-norm atoms;
coefficients are uniform between 0 and 1, or moduli of Gaussian numbers, and there is no noise. K-SVD with
non-negative codes (`ksvd(…, positive=True)`, {iterations} iterations) learns the dictionary from the signals
alone; {draws}; {made_by}.

The cosine is the mean over the true atoms of the largest cosine with a learned atom, with its sign
(`papilio.metrics.mean_max_cosine`). It is far above zero by chance, as the signals that K-SVD starts from show:
each contains {coefs} atoms. An atom is found if a cosine is above 0.99. The correlation is the mean correlation
coefficient of the codes of {held_out} new signals with the true ones, each atom paired with one other; the true
dictionary shows what OMP leaves to gain. The seconds are processor time on one core, the longest of all draws.

The published figures are those that V. Barin Pacela, S. Joshi et al. call MCC (Stop Probing, Start Coding,
arXiv 2603.28744, 2026): by their code, the same correlation, for the same sizes and uniform coefficients. There
new signals combine atoms that were never seen together, and one atom is in half of the training signals; they
are for orientation.

{table}
"""

_LEAST = 0.95  # Least mean max cosine of all draws.
_SECONDS = 300


def page(points: Points, meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    trials = settings["trials"]
    return PAGE.format(
        claims=claims_table(claims_of(points), "Claim"),
        table=_table(points),
        coefs=str(settings["n_nonzero_coefs"]),
        held_out=f"{settings['n_held_out']:,}",
        iterations=str(settings["max_iter"]),
        draws="one draw" if trials == 1 else f"means of {trials} draws",
        made_by=made_by(meta),
    )


def claims_of(points: Points) -> list[Claim]:
    """Each must hold for every draw, whatever the distribution of the coefficients."""
    found = []
    for size, kinds in points.items():
        learned = [methods[KSVD] for methods in kinds.values()]
        least = min(point.least for point in learned)
        found.append(
            Claim(
                f"{size}: in every draw, the mean max cosine is above {_LEAST:g}.",
                verdict(least > _LEAST),
                f"at least {least:.3f}; the signals to start from "
                f"{_listed(methods[START].cosine for methods in kinds.values())}",
            )
        )
        others = {name: figures[size] for name, figures in published().items() if size in figures}
        if others:
            ours = min(point.correlation for point in learned)
            found.append(
                Claim(
                    f"{size}: the codes of new signals correlate better with the true ones than published.",
                    verdict(ours > max(others.values())),
                    f"{_listed(point.correlation for point in learned)} against "
                    + ", ".join(f"{value:.2f} ({name})" for name, value in others.items()),
                )
            )
    longest = max(methods[KSVD].seconds for kinds in points.values() for methods in kinds.values())
    found.append(
        Claim(
            f"A dictionary takes less than {_SECONDS // 60} minutes of one core.",
            verdict(longest < _SECONDS),
            f"at most {longest:.0f} s",
        )
    )
    return found


def _listed(numbers: Any) -> str:
    return " and ".join(f"{number:.3f}" for number in numbers)


def _table(points: Points) -> str:
    headings = ("size", "coefficients", "dictionary", "cosine", "found", "correlation", "error", "seconds")
    rows = []
    theirs = published()
    for size, kinds in points.items():
        for values, methods in kinds.items():
            rows += [_row(size, values, method, methods[method]) for method in (START, KSVD, TRUE)]
        rows += [
            (str(size), "uniform", f"{name}, published", "", "", f"{figures[size]:.2f}", "", "")
            for name, figures in theirs.items()
            if size in figures
        ]
    return markdown_table(headings, rows, "lll")


def _row(size: Size, values: str, method: str, point: Point) -> tuple[str, ...]:
    return (
        str(size),
        values,
        method,
        f"{point.cosine:.3f}",
        f"{point.recovered:.1%}",
        f"{point.correlation:.3f}",
        f"{point.error:.4f}",
        f"{point.seconds:.0f}" if method == KSVD else "",
    )


# -- figures ---------------------------------------------------------------------------------------------------

_MARKERS = {"uniform": "o", "half-normal": "D"}
_COLOURS = {KSVD: "#D55E00", START: "0.6", TRUE: "#000000"}
_OTHERS = (("#0072B2", "^"), ("#E69F00", "s"))  # colour and marker of each published method


def figure_of(points: Points) -> Any:
    """The cosines on the left, the correlations with what is published on the right."""
    figure = new_figure(10.5, 4.8)
    left, right = figure.subplots(1, 2)
    places = {size: place for place, size in enumerate(points)}
    for ax, column, methods in ((left, "cosine", (START, KSVD)), (right, "correlation", (START, KSVD, TRUE))):
        for method in methods:
            for side, values in enumerate(next(iter(points.values()))):
                x = [place + 0.12 * (2 * side - 1) for place in places.values()]
                y = [getattr(kinds[values][method], column) for kinds in points.values()]
                look = {"color": _COLOURS[method], "marker": _MARKERS.get(values, "v"), "linestyle": "none"}
                ax.plot(x, y, label=f"{method}, {values}", fillstyle="none" if method == TRUE else "full", **look)
    for (name, figures), (colour, marker) in zip(published().items(), _OTHERS, strict=True):
        known = {places[size]: value for size, value in figures.items() if size in places}
        look = {"color": colour, "marker": marker, "linestyle": "none"}
        right.plot(list(known), list(known.values()), label=f"{name} (published)", **look)
    for ax in (left, right):
        ax.set_xticks(list(places.values()), [f"{s.atoms}×{s.features}\n{s.signals:,} signals" for s in places])
        ax.set_xlim(-0.5, len(places) - 0.5)
        ax.set_ylim(0, 1.04)
        ax.grid(axis="y", color="0.92", zorder=0)
    left.set_ylabel("mean max cosine with the true atoms")
    right.set_ylabel("mean correlation of codes of new signals")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize="small")
    return figure


def write(folder: Path) -> list[Path]:
    """Draw figure.png and compare the tables in ``folder`` with the claims."""
    points = averages(read_table(folder / "table.csv"), read_table(folder / "times.csv"))
    return [
        save(figure_of(points), folder / "figure.png"),
        write_text(folder / "claims.md", page(points, read_meta(folder))),
    ]
