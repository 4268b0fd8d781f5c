"""What blocks cost in error and gain in time, and what the table says."""

from pathlib import Path
from typing import Any

from ..claims import Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import read_table, write_text
from .averages import Point, averages
from .run import BLOCKS, DENSE, SINGLE

# For each complexity: how far blocks may be above single entries, and how much faster than dense they must be.
_LIMITS = {"0.5": (1.015, 1.5), "0.25": (1.04, 3.0)}


def write(folder: Path) -> list[Path]:
    """Write claims.md from the table in ``folder``."""
    text = page(averages(read_table(folder / "table.csv")), read_meta(folder))
    return [write_text(folder / "claims.md", text)]


def page(points: dict[int, dict[str, list[Point]]], meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings = meta["settings"]
    n_draws = len(settings["seeds"])
    return filled_page(
        "seconds",
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
