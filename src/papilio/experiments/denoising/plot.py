"""PSNR against the noise, and against the complexity of the dictionary."""

from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from ..drawing import DARK_TO_LIGHT, new_figure, save
from ..tables import read_table
from .averages import Results
from .run import DCT, KSVD, ONLINE, PAPILIO, TARGET, Case

# Each has its own colour, marker and line style.
_LOOKS: dict[str, dict[str, Any]] = {
    DCT: {"color": "#E69F00", "marker": "^", "linestyle": "-."},
    KSVD: {"color": "#000000", "marker": "s", "linestyle": "-"},
    ONLINE: {"color": "#0072B2", "marker": "D", "linestyle": ":"},
}
_OF_PAPILIO = (("v", (0, (1, 2))), ("X", "--"), ("o", "-"))


def write(folder: Path) -> list[Path]:
    """Draw figure.png (against the noise) and complexity.png from the table in ``folder``."""
    results = Results(read_table(folder / "table.csv"))
    return [
        save(against_noise(results), folder / "figure.png"),
        save(against_complexity(results), folder / "complexity.png"),
    ]


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
