"""What the paper says about the Hadamard matrix, and what the tables say."""

from pathlib import Path

from ..claims import Claim, claims_table, filled_page, markdown_table, verdict
from ..tables import Row, read_table, write_text
from .run import AT_ONCE, HIERARCHICAL, IN_ALL, KEYS, PER_LINE

_EXACT = 1e-12


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    text = page(read_table(folder / "table.csv"), read_table(folder / "times.csv"))
    return [write_text(folder / "claims.md", text)]


def page(results: list[Row], times: list[Row]) -> str:
    """The page, as markdown."""
    seconds = {tuple(row[key] for key in KEYS): float(row["seconds"]) for row in times}
    headings = ("size", "method", "entries of a factor", "factors", "entries", "complexity", "error", "seconds")
    rows = [
        (
            f"{row['size']}×{row['size']}",
            row["method"],
            row["sets"],
            row["factors"],
            row["entries"],
            f"{float(row['relative_complexity']):.4f}",
            f"{float(row['error']):.1e}",
            f"{seconds[tuple(row[key] for key in KEYS)]:.2f}",
        )
        for row in results
    ]
    table = markdown_table(headings, rows, "lll")
    return filled_page("hadamard", results=table, claims=claims_table(_claims(results, seconds)))


def _claims(results: list[Row], seconds: dict[tuple[str, ...], float]) -> list[Claim]:
    """Section 4.1 and section 3.4, sentence by sentence."""
    by_key = {tuple(row[key] for key in KEYS): row for row in results}
    sizes = [row["size"] for row in results if (row["method"], row["sets"]) == (HIERARCHICAL, PER_LINE)]
    chosen = [by_key[n, HIERARCHICAL, PER_LINE] for n in sizes]
    worst = max(float(row["error"]) for row in chosen)
    as_known = all(
        int(row["entries"]) == 2 * int(row["size"]) * (int(row["size"]).bit_length() - 1) for row in chosen
    )
    naive, naive_per_line = (float(by_key[sizes[0], AT_ONCE, sets]["error"]) for sets in (IN_ALL, PER_LINE))
    first, last = (seconds[n, HIERARCHICAL, PER_LINE] for n in (sizes[0], sizes[-1]))
    return [
        Claim(
            "The naive approach, all factors at once with their true numbers of entries, performs quite poorly.",
            verdict(naive > 0.1, better=naive_per_line <= 0.1),
            f"error {naive:.2f} with 2n entries per factor; {naive_per_line:.1e} with two per row and column",
        ),
        Claim(
            "The hierarchical factorization is exact.",
            verdict(worst <= _EXACT),
            f"largest error for sizes {sizes[0]} to {sizes[-1]}: {worst:.1e}",
        ),
        Claim(
            "It is as good as the reference in complexity: 2n·log₂n entries.",
            verdict(as_known),
            f"{chosen[0]['entries']} entries at size {sizes[0]}, {chosen[-1]['entries']} at {sizes[-1]}",
        ),
        Claim(
            "The running time is less than a second at size 32.",
            verdict(first < 1),
            f"{first:.2f} s at size {sizes[0]}",
        ),
        Claim(
            "Up to size 1024 it performs identically, in up to ten minutes.",
            verdict(worst <= _EXACT and last <= 600, better=last < 60),
            f"{last:.1f} s at size {sizes[-1]}",
        ),
    ]
