"""The picture at the top of the README and of the site: writes docs/_static/preview.png.

Above, a Hadamard matrix as the product of sparse factors that papilio finds from its entries. Below, on the left,
times from benchmarks/RESULTS.md; on the right, atoms of a dictionary that is learned here, in about a minute.
"""

import re
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import NullLocator

import papilio as pp
from papilio.plot.common import BETWEEN, HIGHLIGHT, SERIES

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT = 1280, 640  # pixels, at 100 per inch; saved at twice the resolution
INK, SOFT, PAPER, LINE = "#1c1c1a", "#5c5b55", "#fdfdfb", "#d9d7cf"
SIZE = 32  # Size of the Hadamard matrix.
N_ATOMS, N_NONZERO, COMPLEXITY = 96, 5, 0.3
ACROSS, DOWN = 13, 4  # atoms that are shown
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
SHOWN = {"dense NumPy": ("dense matrix", *SERIES[1]), "scipy.fft.rfft": ("FFT of as many values", *SERIES[3])}


def axes(figure, left, top, width, height):
    """Axes at a place in pixels, from the upper left corner."""
    return figure.add_axes((left / WIDTH, 1 - (top + height) / HEIGHT, width / WIDTH, height / HEIGHT))


def text(figure, left, top, words, **options):
    """Words whose baseline begins at a place in pixels."""
    figure.text(left / WIDTH, 1 - top / HEIGHT, words, **({"color": INK, "va": "baseline"} | options))


def frame(ax):
    for spine in ax.spines.values():
        spine.set(color=LINE, linewidth=1)


def draw_product(figure, top=142, side=162, first_gap=62, gap=36):
    """The matrix and its factors in a line."""
    fit = pp.hierarchical(pp.transforms.hadamard(SIZE).toarray(), pp.Schedule.hadamard(SIZE))
    op, left = fit.operator, 48
    for i, (matrix, count) in enumerate([(op, SIZE * SIZE), *((factor, factor.size) for factor in op.factors)]):
        ax = axes(figure, left, top, side, side)
        frame(pp.plot.matrix(matrix, ax))
        label = f"$S_{i}$: {count:,} entries" if i else f"{count:,} entries"
        text(figure, left + side / 2, top + side + 24, label, ha="center", fontsize=12.5, color=SOFT)
        room = gap if i else first_gap
        if i < len(op.factors):
            sign = "·" if i else r"$= \lambda$"
            text(figure, left + side + room / 2, top + side / 2, sign, ha="center", va="center", fontsize=21)
        left += side + room


def block_times():
    """Sizes and seconds for 256 vectors, by name, from the results of the benchmarks."""
    section = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8").partition("## Applying to a block")[2]
    times = {}
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        case = re.fullmatch(r"Hadamard (\d+)", cells[0])
        if case and cells[1] in SHOWN:
            for name, told in (("papilio", cells[5]), (cells[1], cells[6])):
                number, unit = told.split()
                times.setdefault(name, {})[int(case[1])] = float(number) * UNITS[unit]
    return times


def draw_times(figure, left=112, top=418, width=330, height=172):
    """Seconds against the size, with the gain at the largest one."""
    times = block_times()
    ax = axes(figure, left, top, width, height)
    looks = SHOWN | {"papilio": ("papilio", INK, "o")}
    for name, (label, colour, marker) in looks.items():
        sizes, seconds = zip(*sorted(times[name].items()), strict=True)
        wide = 2.6 if name == "papilio" else 1.8
        ax.loglog(sizes, seconds, color=colour, marker=marker, markersize=6, linewidth=wide)
        ax.annotate(
            label,
            (sizes[-1], seconds[-1]),
            (12, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=12.5,
            fontweight="bold" if name == "papilio" else "normal",
            annotation_clip=False,
        )
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.set_yticks([1e-5, 1e-3, 1e-1], ["10 µs", "1 ms", "100 ms"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_locator(NullLocator())
    ax.tick_params(colors=SOFT, labelsize=11.5, length=3)
    ax.grid(color=LINE, linewidth=0.8, alpha=0.7)
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(LINE)
    n, dense, ours = sizes[-1], times["dense NumPy"][sizes[-1]], times["papilio"][sizes[-1]]
    ax.annotate(
        "", (n, 1.25 * ours), (n, 0.8 * dense), arrowprops={"arrowstyle": "<->", "color": HIGHLIGHT, "lw": 1.4}
    )
    middle = (dense * times["scipy.fft.rfft"][n]) ** 0.5
    gain = f"{dense / ours:.0f}×"
    style = {
        "textcoords": "offset points",
        "va": "center",
        "color": HIGHLIGHT,
        "fontsize": 14,
        "fontweight": "bold",
    }
    ax.annotate(gain, (n, middle), (12, 0), annotation_clip=False, **style)
    text(figure, 48, top - 22, "Measured: a Hadamard matrix, by size, times 256 vectors", fontsize=13.5)


def learned():
    """A fast dictionary of image patches, and its atoms, the most used first."""
    X = pp.datasets.image_patches(6_000, 8, random_state=0)
    model = pp.FastDictionaryLearning(N_ATOMS, N_NONZERO, complexity=COMPLEXITY, random_state=0).fit(X)
    uses = np.count_nonzero(model.transform(X), axis=0)
    return model.operator_.relative_complexity, model.components_[np.argsort(-uses, kind="stable")]


def draw_atoms(figure, left=700, top=422, pixel=4.5):
    """Some atoms side by side, in the colours of their signs."""
    complexity, atoms = learned()
    step = 9 * pixel
    ax = axes(figure, left, top, ACROSS * step, DOWN * step)
    tiles = np.full((9 * DOWN, 9 * ACROSS), np.nan)
    for i, atom in enumerate(atoms[: ACROSS * DOWN]):
        row, column = divmod(i, ACROSS)
        patch = atom.reshape(8, 8) / np.abs(atom).max()
        tiles[9 * row : 9 * row + 8, 9 * column : 9 * column + 8] = patch
    ax.imshow(tiles, cmap=pp.plot.matrix(atoms).images[0].cmap.with_extremes(bad=PAPER), vmin=-1, vmax=1)
    for i in range(ACROSS * DOWN):  # zero is nearly white
        row, column = divmod(i, ACROSS)
        box = FancyBboxPatch(
            (9 * column - 0.5, 9 * row - 0.5), 8, 8, "square,pad=0", fill=False, ec=BETWEEN, lw=0.8
        )
        ax.add_patch(box)
    ax.set_axis_off()
    title = f"Learned: atoms of a product with {complexity:.0%} of the entries"
    text(figure, left, top - 26, title, fontsize=13.5)


def main():
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor=PAPER)
    text(figure, 46, 78, "papilio", fontsize=42, fontweight="bold")
    text(figure, 300, 59, "Matrices and dictionaries as products of sparse factors,", fontsize=17.5)
    text(figure, 300, 88, "so that they run as fast transforms", fontsize=17.5)
    draw_product(figure)
    draw_times(figure)
    draw_atoms(figure)
    path = ROOT / "docs" / "_static" / "preview.png"
    figure.savefig(path, dpi=200, metadata={"Software": None})


if __name__ == "__main__":
    main()
