"""Random sparse products: which of them `factorize` recovers from their entries alone."""

from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from papilio import factorize
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

TITLE = "Random products of sparse factors: which sizes, depths and sparsities factorize recovers"

SETTINGS = {
    # Each trial draws its factors anew; its seeds follow from this one and the draw.
    "seed": 2026,
    "trials": 3,
    "sizes": [32, 64],
    "depths": [2, 3, 4, 5],  # numbers of factors, all square
    "entries": [1, 2, 3, 4, 5, 6],  # in each column of a factor, at random places
    "values": ["gaussian", "signs"],
    "seconds": 3.0,  # processor time for each call of factorize
}

PRESETS = {
    "paper": Preset("sizes 32 and 64, two to five factors, one to six entries per column", 10),
    "tiny": Preset(
        "size 8",
        0.2,
        {
            "trials": 1,
            "sizes": [8],
            "depths": [2, 3],
            "entries": [1, 2],
            "values": ["gaussian"],
            "seconds": 0.5,
        },
    ),
}
SAMPLE: dict[str, Any] = {"trials": 1}
MEASURED: tuple[str, ...] = ()


# -- measuring -------------------------------------------------------------------------------------------------

KEYS = ("size", "depth", "entries", "values", "trial")
RESULTS = (*KEYS, "planted", "product", "found", "error", "recovered", "method")
TIMES = (*KEYS, "seconds")
SIGNS, GAUSSIAN = "signs", "gaussian"
EXACT = 1e-6  # the largest relative error of a product that counts as recovered
ROOM = 1.1  # how many entries it may have, over those of the planted factors


class Draw(NamedTuple):
    """A planted product: ``depth`` square factors with so many ``entries`` per column."""

    size: int
    depth: int
    entries: int
    values: str
    trial: int


def run(settings: dict[str, Any], folder: Path, jobs: int, progress: OnProgress) -> None:
    """Write table.csv with a row for each draw, and times.csv with the seconds of one core.

    ``planted``, ``product`` and ``found`` are numbers of entries: of the planted factors, of their product as one
    matrix, and of the factors that were found. A draw is ``recovered`` if the error is at most 1e-6 with at most
    10 % more entries than planted.
    """
    trials = as_integer("trials", settings["trials"], 1)

    def expected(draw: Draw) -> list[tuple[str, ...]]:
        return [tuple(map(str, draw))]

    table = Ledger[Draw](folder / "table.csv", RESULTS, KEYS, expected)
    times = Ledger[Draw](folder / "times.csv", TIMES, KEYS, expected)
    draws = [
        Draw(size, depth, entries, values, trial)
        for values in settings["values"]
        for size in settings["sizes"]
        for depth in settings["depths"]
        for entries in settings["entries"]
        for trial in range(trials)
    ]
    run_trials(draws, partial(measure, settings), table, times, jobs=jobs, progress=progress)


def measure(settings: dict[str, Any], draw: Draw) -> tuple[Rows, Rows]:
    """The row of a draw in the table, and the one with its time."""
    factors = plant(settings["seed"], draw)
    M = reduce(np.matmul, factors)
    planted = sum(np.count_nonzero(factor) for factor in factors)
    begin = process_time()
    # What a user would say who knows about how sparse the factors are, but not how many.
    complexity = min(ROOM * planted / M.size, 1.0)
    fit = factorize(M, complexity=complexity, callback=lambda step: process_time() - begin > settings["seconds"])
    seconds = process_time() - begin
    found = fit.operator.nnz
    is_recovered = int(fit.error <= EXACT and found <= ROOM * planted)
    row = (*draw, planted, np.count_nonzero(M), found, rounded(fit.error, 3), is_recovered, fit.method)
    return [dict(zip(RESULTS, row, strict=True))], [dict(zip(TIMES, (*draw, rounded(seconds, 3)), strict=True))]


def plant(seed: int, draw: Draw) -> list[Array]:
    """The factors of a draw: in each column, entries at random places; signs, or Gaussian numbers."""
    random = np.random.default_rng([seed, *draw[:3], draw.trial, *draw.values.encode()])
    n, k = draw.size, draw.entries
    factors = []
    for _ in range(draw.depth):
        places = random.permuted(np.tile(np.arange(n), (n, 1)), axis=1)[:, :k]
        numbers = random.standard_normal((n, k))
        factor = np.zeros((n, n))
        factor[places, np.arange(n)[:, None]] = np.sign(numbers) if draw.values == SIGNS else numbers
        factors.append(factor)
    return factors


# -- claims ----------------------------------------------------------------------------------------------------

PAGE = """\
# Which random sparse products are recovered

{claims}

M = S₁…S_K, where each square factor has k entries per column at random places. `factorize(M, complexity=…)`
knows about how many entries all factors have, not how many factors there are; a draw is recovered if the
relative error is at most 10⁻⁶ with at most 10 % more entries than planted. {draws} per cell, {seconds} s for
each call; {made_by}.

The largest k up to which two thirds of the draws are recovered, for this and all smaller k:

{table}
"""

_AIM = 3
_SURE = 2 / 3  # the share of draws from which a cell counts as recovered


def page(rows: list[Row], times: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    trials = settings["trials"]
    return PAGE.format(
        claims=claims_table(claims_of(rows, times), "Claim"),
        table=_table(rows),
        seconds=f"{settings['seconds']:g}",
        draws="one draw" if trials == 1 else f"{trials} draws",
        made_by=made_by(meta),
    )


def most_entries(rows: list[Row]) -> dict[tuple[int, str], dict[int, int]]:
    """By size and values: for each depth, the most entries per column up to which all cells are recovered."""
    found: dict[tuple[int, str], dict[int, int]] = {}
    for key, cells in shares(rows).items():
        for depth in sorted({depth for depth, _ in cells}):
            most = 0
            for k in sorted(k for d, k in cells if d == depth):
                if cells[depth, k] < _SURE:
                    break
                most = k
            found.setdefault(key, {})[depth] = most
    return found


def claims_of(rows: list[Row], times: list[Row]) -> list[Claim]:
    """Where products are recovered, and what it takes."""
    kinds, cells = most_entries(rows), shares(rows)
    trivial = [share for kind in cells.values() for (_, k), share in kind.items() if k == 1]
    found = [
        Claim(
            "With one entry per column, every product is recovered, at any depth.",
            verdict(min(trivial) == 1),
            f"at least {min(trivial):.0%} of the draws of a cell",
        )
    ]
    for (size, values), most in kinds.items():
        if values == GAUSSIAN and 2 in most:
            found.append(
                Claim(
                    f"n = {size}, Gaussian entries: two factors are recovered up to {_AIM} entries per column.",
                    verdict(most[2] >= _AIM, better=most[2] > _AIM),
                    f"up to {most[2]}",
                )
            )
    total = sum(float(row["seconds"]) for row in times)
    found.append(
        Claim("The diagram takes at most ten minutes of one core.", verdict(total <= 600), f"{total:.0f} s")
    )
    return found


def _table(rows: list[Row]) -> str:
    kinds = most_entries(rows)
    depths = sorted({depth for most in kinds.values() for depth in most})
    headings = ("n", "entries", *(f"{depth} factors" for depth in depths))
    return markdown_table(
        headings,
        [(str(size), values, *(str(most.get(d, "")) for d in depths)) for (size, values), most in kinds.items()],
        "rl",
    )


# -- figures ---------------------------------------------------------------------------------------------------

_TITLES = {"signs": "entries ±1", "gaussian": "Gaussian entries"}


def shares(rows: list[Row]) -> dict[tuple[int, str], dict[tuple[int, int], float]]:
    """By size and values: the share of recovered draws for each depth and number of entries per column."""
    return _means(rows, lambda row: int(row["recovered"]))


def trivial_shares(rows: list[Row]) -> dict[tuple[int, str], dict[tuple[int, int], float]]:
    """The same for draws whose product has no more entries than its factors: it is its own best factorization."""
    return _means(rows, lambda row: int(row["product"]) <= ROOM * int(row["planted"]))


def _means(rows: list[Row], value: Callable[[Row], float]) -> dict[tuple[int, str], dict[tuple[int, int], float]]:
    groups: dict[tuple[int, str], dict[tuple[int, int], list[float]]] = {}
    for row in rows:
        cell = int(row["depth"]), int(row["entries"])
        kind = groups.setdefault((int(row["size"]), row["values"]), {})
        kind.setdefault(cell, []).append(value(row))
    return {key: {cell: float(np.mean(found)) for cell, found in kind.items()} for key, kind in groups.items()}


def figure_of(rows: list[Row]) -> Any:
    """One diagram per size and kind of values; lines where products have k^depth = √n and n entries per column."""
    found, trivial = shares(rows), trivial_shares(rows)
    sizes, kinds = sorted({size for size, _ in found}), list(dict.fromkeys(values for _, values in found))
    figure = new_figure(4.4 * len(kinds) + 1.0, 2.9 * len(sizes) + 0.4)
    axes = figure.subplots(len(sizes), len(kinds), squeeze=False)
    image = None
    for (size, values), cells in found.items():
        ax = axes[sizes.index(size), kinds.index(values)]
        depths, entries = sorted({d for d, _ in cells}), sorted({k for _, k in cells})
        grid = np.array([[cells[depth, k] for k in entries] for depth in depths])
        extent = (entries[0] - 0.5, entries[-1] + 0.5, depths[0] - 0.5, depths[-1] + 0.5)
        image = ax.imshow(grid, cmap="viridis", vmin=0, vmax=1, origin="lower", extent=extent, aspect="auto")
        line = np.linspace(depths[0] - 0.5, depths[-1] + 0.5, 50)
        for power, style, label in ((0.5, "--", "√n"), (1.0, ":", "n")):
            ax.plot(size ** (power / line), line, style, color="white", linewidth=2)
            ax.plot(size ** (power / line), line, style, color="#D55E00", label=f"$k^{{depth}}$ = {label}")
        for (depth, k), share in cells.items():
            is_trivial = trivial[size, values][depth, k] == 1
            text = "trivial" if is_trivial else f"{share:.0%}"
            dark = "black" if share > 0.6 else "white"
            ax.text(k, depth, text, ha="center", va="center", fontsize="x-small", color=dark)
        ax.set_xlim(*extent[:2])
        ax.set_ylim(*extent[2:])
        ax.set_xticks(entries)
        ax.set_yticks(depths)
        ax.set_title(f"n = {size}, {_TITLES.get(values, values)}", fontsize="medium")
        ax.set_xlabel("entries per column of a factor, k")
        ax.set_ylabel("factors")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside lower center", ncols=2, frameon=False)
    figure.colorbar(image, ax=axes, label="share of draws that are recovered", shrink=0.8)
    return figure


def write(folder: Path) -> list[Path]:
    """Draw figure.png and compare the tables in ``folder`` with the claims."""
    rows = read_table(folder / "table.csv")
    text = page(rows, read_table(folder / "times.csv"), read_meta(folder))
    return [save(figure_of(rows), folder / "figure.png"), write_text(folder / "claims.md", text)]
