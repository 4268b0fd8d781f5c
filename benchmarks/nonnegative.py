"""Non-negative chains: objectives and times beside scikit-learn's NMF, and supports of planted chains.

``python benchmarks/nonnegative.py [FIRST]`` prints both tables, for the ten draws from seed FIRST on.
"""

import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

import numpy as np
from common import best_times, clock
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import papilio as pp

N_ITER, N_DRAWS = 100, 10
# Sizes from the rows over the ranks to the columns, entries per column, and whether units are read equally often.
CHAINS = (
    ((60, 20, 20, 100), 3, False),
    ((50, 12, 16, 150), (4, 3, 3), False),
    ((100, 15, 10, 60), (6, 3, 2), False),
    ((40, 12, 24, 200), 3, False),
    ((50, 20, 10, 100), 3, False),
    ((20, 8, 8, 40), (3, 2, 2), False),
    ((30, 30, 30, 60), 3, False),
    ((80, 10, 10, 80), 2, False),
    ((30, 10, 15, 120), (3, 3, 2), False),
    ((50, 20, 10, 100), (3, 4, 3), True),
    ((20, 8, 8, 40), (3, 2, 2), True),
)


@dataclass
class Lines:
    """A table of text."""

    title: str
    note: str
    head: str
    rows: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        line = "|".join("---" if i == 0 else "---:" for i in range(self.head.count("|") - 1))
        return "\n".join([f"## {self.title}", "", self.note, "", self.head, f"|{line}|", *self.rows, ""])


def run(folder: Path, first: int = 0) -> list[Lines]:
    warnings.simplefilter("ignore", ConvergenceWarning)
    return [beside_nmf(first), planted_chains(first)]


def beside_nmf(seed: int) -> Lines:
    """Two factors: the same first factors and iterations for both."""
    table = Lines(
        "Non-negative chains of two factors",
        f"The same first factors, {N_ITER} iterations. Objectives are ½‖V − V̂‖² and the Kullback–Leibler "
        "divergence; a ratio below 1 is lower than scikit-learn's. Times are the best of several runs, in turns.",
        "| matrix | loss | objective | sklearn NMF | ratio | time | sklearn NMF | its time ÷ ours |",
    )
    random = np.random.default_rng(seed)
    sparse = random.random((2000, 30)) * (random.random((2000, 30)) < 0.3)
    matrices = {
        "digits, 1797×64, rank 16": (load_digits().data, 16),
        "random, 2000×500, rank 30": (sparse @ random.random((30, 500)) + 0.1 * random.random((2000, 500)), 30),
    }
    for name, (V, rank) in matrices.items():
        scale = np.sqrt(V.mean() / rank)
        W, H = (scale * np.abs(random.standard_normal(s)) for s in ((len(V), rank), (rank, V.shape[1])))
        for loss, solver in (("frobenius", "cd"), ("frobenius", "mu"), ("kullback-leibler", "mu")):
            model = NMF(rank, init="custom", solver=solver, beta_loss=loss, max_iter=N_ITER, tol=0)

            def theirs(model=model, V=V, W=W, H=H):
                return model.fit_transform(V, W=W.copy(), H=H.copy())

            def ours(loss=loss, V=V, W=W, H=H):
                return pp.nonnegative.nonnegative_chain(
                    V, W.shape[1], init=(W, H), loss=loss, max_iter=N_ITER, tol=0
                )

            objective = ours().objective
            theirs()
            other = model.reconstruction_err_**2 / 2
            times = best_times({"ours": ours, "theirs": theirs}, rounds=7, burst=1)
            cells = (
                *(name, f"{loss}, {solver}", f"{objective:.6g}", f"{other:.6g}", f"{objective / other:.4f}"),
                *(clock(times["ours"]), clock(times["theirs"]), f"**{times['theirs'] / times['ours']:.2f}**"),
            )
            table.rows.append(f"| {' | '.join(cells)} |")
    return table


def planted_chains(first: int) -> Lines:
    """Three sparse factors, which are known."""
    table = Lines(
        "Planted chains of three sparse factors",
        f"Entries uniform between 0.5 and 1.5 at random places; their number is given; {N_DRAWS} draws. Supports "
        "are compared after hidden units are matched by their composed columns; F1 is the mean of the three "
        "factors'. Units that no later factor reads cannot be found: the second count leaves them out. Exact is a "
        "relative error of at most 1e-6. A product may be exact with other supports: two units that one and the "
        "same column alone reads may trade entries, and units that the planted chain does not need may take some. "
        "In balanced draws, all units are read equally often, up to one. Seconds are processor time.",
        "| sizes | entries per column | draws | F1 ≥ 0.9 | … of units that are read | least F1 of these | exact | "
        "exact, F1 < 0.9 | median error | seconds per draw |",
    )
    for chain in CHAINS:
        table.rows.append(row(chain, [measured(chain, draw) for draw in range(first, first + N_DRAWS)]))
    return table


def measured(chain, draw: int) -> tuple[float, ...]:
    """One draw: F1, F1 of what is read, the relative error, and seconds."""
    sizes, entries, is_balanced = chain
    truth = planted(sizes, entries, draw, is_balanced)
    V, begin = truth[0] @ truth[1] @ truth[2], process_time()
    fit = pp.nonnegative.nonnegative_chain(V, sizes[1:-1], sparsity=entries)
    seconds = process_time() - begin
    found = [factor.toarray() for factor in fit.operator.factors]
    scores = support_score(found, truth), support_score(only_read(found), only_read(truth))
    return *scores, fit.error, seconds


def row(chain, draws: list[tuple[float, ...]]) -> str:
    """What the table tells about some draws."""
    sizes, entries, is_balanced = chain
    scores, read, errors, seconds = np.array(draws).T
    exact = errors <= 1e-6
    cells = (
        *("×".join(map(str, sizes)), str(entries), "balanced" if is_balanced else "random"),
        *(f"**{(scores >= 0.9).sum()} of {len(draws)}**", f"{(read >= 0.9).sum()} of {len(draws)}"),
        *(f"{read.min():.3f}", f"{exact.sum()} of {len(draws)}", f"{(exact & (read < 0.9)).sum()}"),
        *(f"{np.median(errors):.1e}", f"{seconds.mean():.2g}"),
    )
    return f"| {' | '.join(cells)} |"


def planted(sizes, entries, seed: int, is_balanced: bool = False) -> list[np.ndarray]:
    """Random sparse non-negative factors."""
    random = np.random.default_rng(seed)
    counts = (entries,) * (len(sizes) - 1) if isinstance(entries, int) else entries
    factors = []
    for m, n, k in zip(sizes[:-1], sizes[1:], counts, strict=True):
        places = random.permuted(np.tile(np.arange(m), (n, 1)), axis=1)[:, :k]
        if is_balanced:
            places = balanced(places, m, random)
        factor = np.zeros((m, n))
        factor[places, np.arange(n)[:, None]] = random.uniform(0.5, 1.5, places.shape)
        factors.append(factor)
    return factors


def balanced(places: np.ndarray, m: int, random: np.random.Generator) -> np.ndarray:
    """The same number of places per line, moved one by one from the most frequent to the least frequent one."""
    places = places.copy()
    while np.ptp(counts := np.bincount(places.ravel(), minlength=m)) > 1:
        most, least = np.argmax(counts), np.argmin(counts)
        lines = np.flatnonzero((places == most).any(axis=1) & ~(places == least).any(axis=1))
        line = random.choice(lines)
        places[line, places[line] == most] = least
    return places


def only_read(factors: list[np.ndarray]) -> list[np.ndarray]:
    """The factors without the columns that later ones do not read, on which the product does not depend."""
    kept = [factors[-1]]
    for factor in reversed(factors[:-1]):
        kept.append(np.where((kept[-1] != 0).any(axis=1), factor, 0))
    return kept[::-1]


def support_score(found: list[np.ndarray], truth: list[np.ndarray]) -> float:
    """The mean F1 of supports, after the columns of each product S₁…S_j are matched with those of the truth."""
    scores, order = [], None
    ours, theirs = np.eye(len(truth[0])), np.eye(len(truth[0]))
    for factor, true in zip(found, truth, strict=True):
        ours, theirs = unit(ours @ factor), unit(theirs @ true)
        mask = factor != 0 if order is None else factor[order] != 0
        if true is not truth[-1]:
            order = linear_sum_assignment(-theirs.T @ ours)[1]
            mask = mask[:, order]
        scores.append(2 * (mask & (true != 0)).sum() / (mask.sum() + (true != 0).sum()))
    return float(np.mean(scores))


def unit(columns: np.ndarray) -> np.ndarray:
    """Columns of unit norm, or zero."""
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms > 0, norms, 1)


if __name__ == "__main__":
    for each in run(Path(__file__).parent, *map(int, sys.argv[1:])):
        sys.stdout.write(each.markdown() + "\n")
