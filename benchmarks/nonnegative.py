"""Non-negative chains: objectives and times beside scikit-learn's NMF, and supports of planted chains.

``python benchmarks/nonnegative.py [FIRST]`` prints both tables, for the ten draws from seed FIRST on.
"""

import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from common import best_times, clock
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import papilio as pp

N_ITER, N_DRAWS = 100, 10
# Sizes from the rows over the ranks to the columns, and entries per column.
CHAINS = (
    ((60, 20, 20, 100), 3),
    ((50, 12, 16, 150), (4, 3, 3)),
    ((100, 15, 10, 60), (6, 3, 2)),
    ((40, 12, 24, 200), 3),
    ((50, 20, 10, 100), 3),
    ((20, 8, 8, 40), (3, 2, 2)),
    ((30, 30, 30, 60), 3),
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
                return pp.nonnegative_chain(V, W.shape[1], init=(W, H), loss=loss, max_iter=N_ITER, tol=0)

            objective = ours().objective
            theirs()
            other = model.reconstruction_err_**2 / 2
            times = best_times({"ours": ours, "theirs": theirs}, rounds=3, burst=1)
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
        f"Entries uniform between 0.5 and 1.5 at random places; their number is given; {N_DRAWS} draws. "
        "Supports are compared after the inner sizes are matched; F1 is the mean of the three factors'.",
        "| sizes | entries per column | draws with F1 ≥ 0.9 | least F1 | median error | seconds per draw |",
    )
    for sizes, entries in CHAINS:
        scores, errors, begin = [], [], perf_counter()
        for draw in range(first, first + N_DRAWS):
            truth = planted(sizes, entries, draw)
            fit = pp.nonnegative_chain(truth[0] @ truth[1] @ truth[2], sizes[1:-1], sparsity=entries, n_init=4)
            scores.append(support_score(fit.operator.factors, truth))
            errors.append(fit.error)
        seconds = (perf_counter() - begin) / N_DRAWS
        good = sum(score >= 0.9 for score in scores)
        cells = (
            *("×".join(map(str, sizes)), str(entries), f"**{good} of {N_DRAWS}**", f"{min(scores):.3f}"),
            *(f"{np.median(errors):.1e}", f"{seconds:.2g}"),
        )
        table.rows.append(f"| {' | '.join(cells)} |")
    return table


def planted(sizes: tuple[int, ...], entries: int | tuple[int, ...], seed: int) -> list[np.ndarray]:
    """Random sparse non-negative factors."""
    random = np.random.default_rng(seed)
    counts = (entries,) * (len(sizes) - 1) if isinstance(entries, int) else entries
    factors = []
    for m, n, k in zip(sizes[:-1], sizes[1:], counts, strict=True):
        places = random.permuted(np.tile(np.arange(m), (n, 1)), axis=1)[:, :k]
        factor = np.zeros((m, n))
        factor[places, np.arange(n)[:, None]] = random.uniform(0.5, 1.5, places.shape)
        factors.append(factor)
    return factors


def support_score(found, truth) -> float:
    """The mean F1 of supports, after columns of each factor are matched with those of the truth."""
    scores, order = [], None
    for factor, true in zip(found, truth, strict=True):
        mask = (factor.toarray() if hasattr(factor, "toarray") else factor) != 0
        mask = mask if order is None else mask[order]
        if true is not truth[-1]:
            order = linear_sum_assignment(-(true != 0).T.astype(float) @ mask)[1]
            mask = mask[:, order]
        both = (mask & (true != 0)).sum()
        scores.append(2 * both / (mask.sum() + (true != 0).sum()))
    return float(np.mean(scores))


if __name__ == "__main__":
    for each in run(Path(__file__).parent, *map(int, sys.argv[1:])):
        sys.stdout.write(each.markdown() + "\n")
