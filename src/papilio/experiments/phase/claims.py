"""What the phase diagram says."""

from pathlib import Path
from typing import Any

from ..claims import Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import Row, read_table, write_text
from .plot import shares
from .run import GAUSSIAN

_AIM = 3
_SURE = 2 / 3  # the share of draws from which a cell counts as recovered


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    text = page(read_table(folder / "table.csv"), read_table(folder / "times.csv"), read_meta(folder))
    return [write_text(folder / "claims.md", text)]


def page(rows: list[Row], times: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    trials = settings["trials"]
    return filled_page(
        "phase",
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
