"""What the paper says about its figure 3, claim by claim, and what the table says."""

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from ..claims import DIFFERS, Claim, claims_table, filled_page, made_by, markdown_table, read_meta, verdict
from ..tables import Row, read_table, write_text
from .averages import MethodResult, averages, comparable, published
from .run import ANALYTIC, HAD, KSVD, ONLINE, PROPOSED, SPARSE_KSVD, Method

_NEAR = 1.03  # times the paper's RMSE: the accuracy of the draws and of reading the figure
Points = dict[tuple[str, Method], MethodResult]


def write(folder: Path) -> list[Path]:
    """Write claims.md from the tables in ``folder``."""
    meta = read_meta(folder)
    ours = averages(read_table(folder / "table.csv"), meta["settings"]["n_nonzero_coefs"])
    return [write_text(folder / "claims.md", page(ours, read_table(folder / "times.csv"), meta))]


def page(ours: Points, times: list[Row], meta: dict[str, Any]) -> str:
    """The page, as markdown: the claims, then all points beside the paper's, then why some differ."""
    trials = max(point.trials for point in ours.values())
    return filled_page(
        "figure3",
        preset=meta["preset"],
        trials=f"{trials} trial{'s' * (trials > 1)}",
        made_by=made_by(meta),
        claims=claims_table(claims_of(ours, times)),
        points=_points_table(ours),
    )


def claims_of(ours: Points, times: list[Row]) -> list[Claim]:
    """The paper's section 4.2, sentence by sentence; those for which the table has no rows are left out."""
    claims = []
    for data in sorted({data for data, _ in ours}):
        view = _View(ours, data)
        claims += [_analytic(view), _dense(view), _online(view), _between(view)]
        if view.has("3", "716.8") and view.has("5") and view.has("6"):
            claims += [_close_to_dense(view), _compact(view), _within(view)]
        if data == "RAND":
            claims.append(_half_the_error(view))
        if view.published:
            claims.append(_points(view))
    return [*claims, _constant(ours), _seconds(times)]


class _View:
    """The points of one data set."""

    def __init__(self, ours: Points, data: str) -> None:
        self.data = data
        points = [point for point in ours.values() if point.data == data]
        self.baselines = {point.method.name: point for point in points if point.method.name != PROPOSED}
        self.proposed = [point for point in points if point.method.name == PROPOSED]
        self.analytic = [self.baselines[name] for name in ANALYTIC]
        theirs = comparable(ours)
        self.published = [(point, theirs[key]) for key, point in ours.items() if key in theirs and key[0] == data]

    def has(self, Q: str, P: str | None = None) -> bool:
        return any(point.method.Q == Q and P in (None, point.method.P) for point in self.proposed)

    def ratio(self, ours: MethodResult, theirs: MethodResult) -> float:
        """Our RMSE divided by the paper's, both relative to HAD, which learns nothing and so measures the data."""
        had = published()[self.data, Method(HAD)]
        return (ours.rmse / self.baselines[HAD].rmse) / (theirs.rmse / had.rmse)


def _ranges(points: Iterable[MethodResult]) -> tuple[float, float, float, float]:
    """The smallest and the largest RMSE, then the smallest and the largest relative complexity."""
    errors, costs = zip(*((point.rmse, point.relative_complexity) for point in points), strict=True)
    return min(errors), max(errors), min(costs), max(costs)


def _is_close(point: MethodResult) -> bool:
    """Whether the paper says that this configuration is almost as good as K-SVD."""
    return point.method.Q == "3" and bool(point.method.P) and float(point.method.P) > 700


def _is_compact(point: MethodResult) -> bool:
    """Whether the paper says that this configuration is almost as compact as analytic dictionaries."""
    return point.method.Q in ("5", "6") and point.method.p == "2"


def _analytic(view: _View) -> Claim:
    others = [*view.proposed, *(point for name, point in view.baselines.items() if name not in ANALYTIC)]
    best, _, _, cost = _ranges(view.analytic)
    _, worst, cheapest, _ = _ranges(others)
    return Claim(
        f"{view.data}: HAD, DCT and HAAR are poor in approximation, and very good in complexity.",
        verdict(best > worst and cost <= cheapest),
        f"RMSE from {best:.3g}, all others up to {worst:.3g};"
        f" complexity up to {cost:.3f}, others from {cheapest:.3f}",
    )


def _dense(view: _View) -> Claim:
    dense = view.baselines[KSVD]
    best = _ranges(view.proposed)[0]
    return Claim(
        f"{view.data}: K-SVD approximates well, and saves nothing.",
        verdict(dense.relative_complexity == 1 and dense.rmse <= 1.05 * best),
        f"RMSE {dense.rmse:.4f}, PROPOSED from {best:.4f}; complexity {dense.relative_complexity:g}",
    )


def _online(view: _View) -> Claim:
    dense, online = view.baselines[KSVD].rmse, view.baselines[ONLINE].rmse
    gap = abs(online - dense) / _ranges(view.analytic)[0]
    return Claim(
        f"{view.data}: online dictionary learning is almost identical to K-SVD.",
        verdict(gap <= 0.02),
        f"RMSE {online:.4f} and {dense:.4f}; they differ by {gap:.1%} of an analytic dictionary's",
    )


def _between(view: _View) -> Claim:
    sparse = view.baselines[SPARSE_KSVD]
    best = _ranges(view.analytic)[0]
    return Claim(
        f"{view.data}: Sparse K-SVD is better than analytic dictionaries, at a slightly higher complexity.",
        verdict(sparse.rmse < best),
        f"RMSE {sparse.rmse:.3g}, analytic from {best:.3g}; complexity {sparse.relative_complexity:.3f}",
    )


def _close_to_dense(view: _View) -> Claim:
    dense = view.baselines[KSVD].rmse
    best, worst, low, high = _ranges(filter(_is_close, view.proposed))
    theirs = [point for point in published().values() if point.data == view.data and _is_close(point)]
    level = _ranges(theirs)[1] / published()[view.data, Method(KSVD)].rmse
    return Claim(
        f"{view.data}: with Q = 3 and P = 1.4 or 1.6 times 512, PROPOSED is almost as good as K-SVD, with"
        " complexities between 0.7 and 0.9.",
        verdict(worst / dense <= level),
        f"RMSE {best / dense:.2f} to {worst / dense:.2f} times K-SVD's (paper: up to {level:.2f} times);"
        f" complexity {low:.2f} to {high:.2f}",
    )


def _compact(view: _View) -> Claim:
    best = _ranges(view.analytic)[0]
    least_error, largest_error, low, high = _ranges(filter(_is_compact, view.proposed))
    most, least = best / least_error, best / largest_error
    fact = view.data == "FACT"  # the paper says it of FACT, and of RAND that it is qualitatively the same
    return Claim(
        f"{view.data}: with p = 2 and Q = 5 or 6, PROPOSED is almost as compact as analytic dictionaries, with an"
        + (" RMSE up to twice smaller." if fact else " RMSE that is smaller."),
        verdict(least > 1 and (most >= 1.9 or not fact), better=fact and most > 2.4),
        f"{least:.2f} to {most:.2f} times smaller; complexity {low:.3f} to {high:.3f}",
    )


def _within(view: _View) -> Claim:
    ends = [point for point in view.proposed if _is_close(point) or _is_compact(point)]
    low, high = _ranges(ends)[:2]
    others = [point for point in view.proposed if point not in ends]
    inside = sum(low <= point.rmse <= high for point in others)
    return Claim(
        f"{view.data}: the other configurations lie between these two behaviours.",
        verdict(inside == len(others)),
        f"{inside} of {len(others)} have an RMSE from {low:.3g} to {high:.3g}",
    )


def _half_the_error(view: _View) -> Claim:
    sparse = view.baselines[SPARSE_KSVD]
    rivals = [point for point in view.proposed if point.relative_complexity <= sparse.relative_complexity + 1e-9]
    if not rivals:
        return Claim("RAND: PROPOSED halves the error of Sparse K-SVD.", DIFFERS, "no configuration is as cheap")
    best = min(rivals, key=lambda point: point.rmse)
    share = best.rmse / sparse.rmse
    paper = [theirs.rmse for ours, theirs in view.published if ours is sparse]
    other = f"; {best.rmse / paper[0]:.2f} of the paper's Sparse K-SVD, {paper[0]:g}" if paper else ""
    return Claim(
        "RAND: as cheap as Sparse K-SVD, PROPOSED has half its approximation error.",
        verdict(share <= 0.55),
        f"{share:.2f} of it: {best.rmse:.3f} (Q = {best.method.Q}, p = {best.method.p}, P = {best.method.P})"
        f" against {sparse.rmse:.3f}{other}",
    )


def _points(view: _View) -> Claim:
    pairs = [pair for pair in view.published if pair[0].method.name == PROPOSED]
    ratios = [view.ratio(*pair) for pair in pairs]
    reached = sum(ratio <= _NEAR for ratio in ratios)
    figures = (
        f"{min(ratios):.2f} to {max(ratios):.2f} of the paper's relative to HAD,"
        f" {sum(ratios) / len(ratios):.2f} on average; {reached} within 3 % or below,"
        f" {sum(ratio < 1 for ratio in ratios)} below"
    )
    if view.data == "RAND":  # its scale is known: also the comparison that is not relative to HAD
        absolute = [ours.normalised / theirs.rmse for ours, theirs in pairs]
        figures += (
            f"; not relative to HAD, {min(absolute):.2f} to {max(absolute):.2f},"
            f" {sum(ratio <= _NEAR for ratio in absolute)} within 3 % or below"
        )
    text = f"{view.data}: the {len(ratios)} points of PROPOSED that can be read off figure 3."
    return Claim(text, verdict(reached == len(ratios), better=max(ratios) < 1), figures)


def _constant(ours: Points) -> Claim:
    proposed = [point for point in ours.values() if point.method.name == PROPOSED]
    constant = sum(point.n_complexities == 1 for point in proposed)
    return Claim(
        "For a given configuration the relative complexity is constant over all trials.",
        verdict(constant == len(proposed)),
        f"in {constant} of {len(proposed)} configurations",
    )


def _seconds(times: list[Row]) -> Claim:
    seconds = [float(row["seconds"]) for row in times if row["method"] == PROPOSED]
    return Claim(
        "PROPOSED takes between 8 and 9 seconds for each draw.",
        verdict(median(seconds) <= 9, better=max(seconds) < 8),
        f"median {median(seconds):.2f} s, at most {max(seconds):.2f} s, after K-SVD",
    )


def _points_table(ours: Points) -> str:
    headings = ("data", "method", "Q", "p", "P", "complexity", "RMSE", "±", "paper", "ratio", "not relative")
    theirs = comparable(ours)
    views = {data: _View(ours, data) for data, _ in ours}
    rows = []
    for (data, method), point in ours.items():
        paper = theirs.get((data, method))
        P = f"{float(method.P):g}" if method.P else ""
        numbers = (point.relative_complexity, point.rmse, point.standard_error)
        beside = ["", "", ""]
        if paper:
            absolute = f"{point.normalised / paper.rmse:.3f}" if data == "RAND" else ""
            beside = [f"{paper.rmse:g}", f"{views[data].ratio(point, paper):.3f}", absolute]
        rows.append((data, method.name, method.Q, method.p, P, *(f"{number:.4f}" for number in numbers), *beside))
    return markdown_table(headings, rows, "ll")
