"""The leading singular vectors of a matrix, in each of its blocks."""

from collections.abc import Iterator, Sequence

import numpy as np

from ...operators import SparseProduct
from ..curves import Curve
from ..problems import Block, assembled, decomposed
from ..search import Method, Search, two_factors

NAME = "low_rank"
_SLOW = 1000  # the short side from which all singular values may take seconds
_QUICK, _MOST_QUICK = 64, 256  # ranks of a first product of a large matrix


def low_rank(blocks: Sequence[Block], shape: tuple[int, int], energy: float) -> Curve:
    """The best approximations of low rank, in each block: those triplets first that save most per entry.

    ``energy`` is the squared norm of the matrix, of which large blocks may have lost a part.
    """
    owners = np.concatenate([np.full(block.values.size, b) for b, block in enumerate(blocks)])
    costs = np.array([block.rows.size + block.columns.size for block in blocks])[owners]
    gains = np.concatenate([block.values.astype(np.float64) ** 2 for block in blocks])
    order = np.argsort(-gains / costs, kind="stable")
    entries, ordered = np.cumsum(costs[order]), gains[order]
    outside = 0.0 if all(block.is_whole for block in blocks) else max(energy - gains.sum(), 0.0)
    missed = np.append(np.cumsum(ordered[::-1])[::-1][1:], 0.0) + outside
    useful = entries < shape[0] * shape[1]

    def build(place: int) -> SparseProduct:
        counts = np.bincount(owners[order[: place + 1]], minlength=len(blocks))
        return assembled(blocks, counts, shape)

    def detail(place: int) -> str:
        return f"rank {place + 1}" + (f" in {len(blocks)} blocks" if len(blocks) > 1 else "")

    return Curve(NAME, entries[useful], np.sqrt(missed[useful] / energy), build, detail)


def _curves(search: Search) -> Iterator[Curve]:
    problem, budget = search.problem, search.target.budget
    rows, columns = (np.arange(count) for count in problem.shape)
    if min(problem.shape) >= _SLOW and not problem.is_zero:
        # So that there is something if the time ends before the singular vectors are found.
        rank = _QUICK if budget is None else max(budget // sum(problem.shape), 1)
        turned = problem.turned(problem.matrix)
        block = decomposed(search.session, turned, rows, columns, min(rank, _MOST_QUICK), True)
        block = block._replace(right=problem.turned_back(block.right))
        yield low_rank([block], problem.shape, problem.energy)
    blocks = problem.blocks(search.target.budget if search.target.pricing is None else None)
    if blocks:
        yield low_rank(blocks, problem.shape, problem.energy)


METHOD = Method(
    NAME,
    "leading singular vectors, in each block if M is block-diagonal up to the order of its lines; also as "
    "sparse factors",
    _curves,
    n_factors=two_factors,
    takes_sparse=True,
    is_weighted=True,
)
