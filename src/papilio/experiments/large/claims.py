"""What large fast dictionaries cost and gain, and what the table says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..claims import Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import Row, read_table, write_text
from .run import DCT, FAST, K_SVD, sizes_of

# For each complexity: how far the error on new patches may be above that of K-SVD.
_ERRORS = {"0.5": 1.03, "0.25": 1.06}
_TIMES = 4.0  # the time to learn, over that of K-SVD
_CODING = {"0.1": 3.0}  # how much faster coding is, at least
_BYTES = {"0.1": 0.25}  # of the dense dictionary's, at most
_LARGE = 4096  # atoms from which coding is claimed to be faster


def write(folder: Path) -> list[Path]:
    """Write claims.md from the table in ``folder``."""
    text = page(read_table(folder / "table.csv"), read_meta(folder))
    return [write_text(folder / "claims.md", text)]


def page(rows: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    return filled_page(
        "large",
        claims=claims_table(list(claims_of(rows)), "Claim"),
        tables="\n\n".join(
            _table(size.side, [row for row in rows if row["side"] == str(size.side)])
            for size in sizes_of(settings)
        ),
        iterations=str(settings["ksvd_max_iter"]),
        patience=" and ".join(f"{size.patience:g}" for size in sizes_of(settings)),
        made_by=made_by(meta),
    )


def claims_of(rows: list[Row]) -> Iterator[Claim]:
    starts = {row["side"]: row for row in rows if row["kind"] == K_SVD}
    for row in rows:
        if row["kind"] != FAST or row["side"] not in starts:
            continue
        start, complexity = starts[row["side"]], row["complexity"]
        name = f"{row['atoms']} atoms of {row['side']}×{row['side']}, complexity {complexity}"
        ratio = _ratio(row, start, "error_held_out")
        if complexity in _ERRORS and int(row["atoms"]) < _LARGE:
            above, times = _ERRORS[complexity], _ratio(row, start, "fit_seconds")
            yield Claim(
                f"{name}: the error on new patches is at most {above - 1:.0%} above that of K-SVD.",
                verdict(ratio <= above, better=ratio <= 1),
                f"{_error(row)} against {_error(start)}, {ratio - 1:+.1%}",
            )
            yield Claim(
                f"{name}: learning takes at most {_TIMES:g} times as long as K-SVD.",
                verdict(times <= _TIMES),
                f"{_seconds(row['fit_seconds'])} against {_seconds(start['fit_seconds'])}, {times:.1f}×",
            )
        if complexity in _CODING and int(row["atoms"]) >= _LARGE:
            faster = float(row["coding_seconds_dense"]) / float(row["coding_seconds"])
            share = _ratio(row, start, "bytes")
            yield Claim(
                f"{name}: coding is at least {_CODING[complexity]:g} times as fast as with the dense matrix.",
                verdict(faster >= _CODING[complexity]),
                f"{_seconds(row['coding_seconds'])} against {_seconds(row['coding_seconds_dense'])}, "
                f"{faster:.1f}×",
            )
            yield Claim(
                f"{name}: it takes at most a quarter of the bytes.",
                verdict(share <= _BYTES[complexity]),
                f"{share:.2f}; error on new patches {ratio - 1:+.1%}",
            )
    for side, start in starts.items():
        dct = next((row for row in rows if row["side"] == side and row["kind"] == DCT), None)
        fast = [row for row in rows if row["side"] == side and row["kind"] == FAST]
        if dct is not None and fast:
            worst = max(fast, key=lambda row: float(row["error_held_out"]))
            yield Claim(
                f"{start['atoms']} atoms of {side}×{side}: at every complexity, the error on new patches is below "
                "that of the redundant DCT.",
                verdict(_ratio(worst, dct, "error_held_out") < 1),
                f"at most {_error(worst)} against {_error(dct)}",
            )


def _ratio(row: Row, other: Row, column: str) -> float:
    return float(row[column]) / float(other[column])


def _error(row: Row) -> str:
    return f"{float(row['error_held_out']):.4f}"


def _seconds(text: str) -> str:
    seconds = float(text)
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2f} s"


def _table(side: int, rows: list[Row]) -> str:
    headings = ("dictionary", "limit", "atoms", "complexity", "new patches", "to learn", "to code", "dense", "kB")
    lines = [
        (
            row["kind"] + (f", {float(row['passes']):.2g} passes" if row["passes"] not in ("", "nan") else ""),
            row["complexity"],
            row["atoms"],
            f"{float(row['relative_complexity']):.3f}",
            _error(row),
            _seconds(row["fit_seconds"]),
            _seconds(row["coding_seconds"]),
            _seconds(row["coding_seconds_dense"]),
            f"{int(row['bytes']) / 1000:,.0f}",
        )
        for row in rows
    ]
    return f"## {side}×{side}\n\n{markdown_table(headings, lines, 'lr')}"
