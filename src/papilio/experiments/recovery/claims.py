"""What of the planted dictionaries was found, and what the table says."""

from pathlib import Path
from typing import Any

from ..claims import Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import read_table, write_text
from .averages import Point, Points, Size, averages, published
from .run import KSVD, START, TRUE

_LEAST = 0.95  # of the mean max cosines of all draws
_SECONDS = 300


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    points = averages(read_table(folder / "table.csv"), read_table(folder / "times.csv"))
    return [write_text(folder / "claims.md", page(points, read_meta(folder)))]


def page(points: Points, meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    trials = settings["trials"]
    return filled_page(
        "recovery",
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
