"""What a fast gain matrix should give, and what the tables say."""

from math import isnan
from pathlib import Path
from typing import Any

from ..claims import Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import Row, read_table, write_text
from .run import DENSE, PAPILIO, PYFAUST, SVD, Case, quantile_column

_MOST_ERRORS = {25: 0.16}  # by how many times fewer entries
_OF_SVD = {6: 0.8, 12: 0.8}
_NOT_DECIDED = "not decided"  # the other method was stopped
_SECONDS, _TIMES_FASTER, _OMP_FASTER, _FARTHER = 60.0, 10.0, 3.0, 0.5

Tables = dict[Case, Row]  # rows of both tables together


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    found = merged(*(read_table(folder / name) for name in ("table.csv", "times.csv")))
    return [write_text(folder / "claims.md", page(found, read_meta(folder)))]


def merged(table: list[Row], times: list[Row]) -> Tables:
    """The rows of both tables by their case."""
    found: Tables = {}
    for row in (*table, *times):
        found.setdefault(Case(row["kind"], int(row["ratio"])), {}).update(row)
    return found


def page(found: Tables, meta: dict[str, Any]) -> str:
    """The page, as markdown."""
    settings, dense = meta["settings"], found[Case(DENSE, 1)]
    claims = [*_errors(found), *_peer(found), *_localisation(found, settings), *_pursuit(found)]
    return filled_page(
        "meg",
        claims=claims_table(claims, "Claim"),
        shape=dense["shape"],
        matrix=dense["matrix"],
        draws=str(settings["draws"]),
        errors=_error_table(found),
        distances=_distance_table(found, settings),
        pursuit=_pursuit_table(found),
        made_by=made_by(meta),
    )


def _errors(found: Tables) -> list[Claim]:
    claims = []
    for ratio, most in _MOST_ERRORS.items():
        if (ours := found.get(Case(PAPILIO, ratio))) is not None:
            error, seconds = float(ours["error"]), float(ours["cpu_seconds"])
            claims.append(
                Claim(
                    f"{ratio} times fewer entries: an error of at most {most:g}, in less than {_SECONDS:g} s of "
                    "one core.",
                    verdict(error <= most and seconds < _SECONDS),
                    f"{error:.4f} in {seconds:.1f} s",
                )
            )
    for ratio, share in _OF_SVD.items():
        if (ours := found.get(Case(PAPILIO, ratio))) is not None:
            error, other = float(ours["error"]), float(found[Case(SVD, ratio)]["error"])
            claims.append(
                Claim(
                    f"{ratio} times fewer entries: an error of at most {share:g} times that of the truncated SVD.",
                    verdict(error <= share * other),
                    f"{error:.4f} against {other:.4f}, {error / other:.2f} times",
                )
            )
    return claims


def _peer(found: Tables) -> list[Claim]:
    claims = []
    for case, peer in found.items():
        if case.kind == PYFAUST and (ours := found.get(Case(PAPILIO, case.ratio))) is not None:
            text = f"{case.ratio} times fewer entries: an error below pyfaust's, {_TIMES_FASTER:g} times faster."
            if peer["error"] == "inf":
                claims.append(Claim(text, _NOT_DECIDED, f"no result after {_seconds(float(peer['seconds']))}"))
                continue
            faster = float(peer["cpu_seconds"]) / float(ours["cpu_seconds"])
            is_better = float(ours["error"]) < float(peer["error"]) and faster >= _TIMES_FASTER
            figures = f"{_error_of(ours)} against {_error_of(peer)}, {faster:.0f} times"
            claims.append(Claim(text, verdict(is_better), figures))
    return claims


def _localisation(found: Tables, settings: dict[str, Any]) -> list[Claim]:
    ratio, last = min(settings["located"]), len(settings["ranges"]) - 1
    ours, dense = (
        float(found[case][quantile_column(last, 50)]) for case in (Case(PAPILIO, ratio), Case(DENSE, 1))
    )
    return [
        Claim(
            f"Sources more than {settings['ranges'][last][0]:g} cm apart, {ratio} times fewer entries: the median "
            f"distance is at most {_FARTHER:g} cm above the dense matrix's.",
            verdict(ours <= dense + _FARTHER),
            f"{ours:.2f} cm against {dense:.2f} cm",
        )
    ]


def _pursuit(found: Tables) -> list[Claim]:
    timed = [case for case, row in found.items() if row.get("omp_together")]
    if not timed:
        return []
    case = max(timed, key=lambda case: case.ratio)
    together, one = _omp_gains(found[case])
    return [
        Claim(
            f"Matching pursuit is at least {_OMP_FASTER:g} times faster with {case.ratio} times fewer entries.",
            verdict(min(together, one) >= _OMP_FASTER),
            f"{together:.1f} times for all signals together, {one:.1f} times for one at a time",
        )
    ]


def _omp_gains(row: Row) -> tuple[float, float]:
    """How many times faster matching pursuit is: for all signals together, and one by one."""
    return (
        float(row["dense_omp_together"]) / float(row["omp_together"]),
        float(row["dense_omp_one"]) / float(row["omp_one"]),
    )


def _error_of(row: Row) -> str:
    return "no result" if row["error"] == "inf" else f"{float(row['error']):.4f}"


def _seconds_of(row: Row) -> str:
    return ("more than " if row["error"] == "inf" else "") + _seconds(float(row["seconds"]))


def _seconds(value: float) -> str:
    return "" if isnan(value) else f"{value:.{1 if value < 100 else 0}f} s"


def _error_table(found: Tables) -> str:
    rows = [
        (
            case.kind,
            str(case.ratio),
            f"{int(row['entries']):,}",
            _error_of(row),
            row["method"],
            _seconds_of(row),
            _seconds(float(row["cpu_seconds"])),
        )
        for case, row in found.items()
        if case.kind != DENSE
    ]
    return markdown_table(
        ("", "fewer entries", "entries", "error", "method", "time", "of one core"), rows, "lrrrl"
    )


def _distance_table(found: Tables, settings: dict[str, Any]) -> str:
    ranges = settings["ranges"]
    headings = ("matrix", *(f"{low:g} to {high:g} cm" for low, high in ranges[:-1]), f"above {ranges[-1][0]:g} cm")
    rows = [
        (
            "dense" if case.kind == DENSE else f"{case.ratio} times fewer",
            *(
                "{:.2f} ({:.2f}, {:.2f})".format(*(float(row[quantile_column(i, each)]) for each in (50, 25, 75)))
                for i in range(len(ranges))
            ),
        )
        for case, row in found.items()
        if row[quantile_column(0, 50)]
    ]
    return markdown_table(headings, rows, "l")


def _pursuit_table(found: Tables) -> str:
    rows = []
    for case, row in found.items():
        if row.get("omp_together"):
            together, one = _omp_gains(row)
            dense, ours = (
                [f"{1e3 * float(row[prefix + name]):.2f} ms" for name in ("omp_together", "omp_one")]
                for prefix in ("dense_", "")
            )
            rows.append(
                (
                    f"{case.ratio} times fewer",
                    f"{float(row['speedup_vector']):.1f}×",
                    f"{float(row['speedup_block']):.1f}×",
                    f"{ours[0]} against {dense[0]}, {together:.1f}×",
                    f"{ours[1]} against {dense[1]}, {one:.1f}×",
                )
            )
    return markdown_table(
        ("matrix", "one vector", "256 vectors", "all signals together", "one signal at a time"), rows, "l"
    )
