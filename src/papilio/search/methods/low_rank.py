"""The leading singular vectors of a matrix, in each of its blocks."""

from collections.abc import Iterator

from ..curves import Curve
from ..search import Method, Search, two_factors
from ..singular import low_rank

NAME = "low_rank"


def _curves(search: Search) -> Iterator[Curve]:
    problem = search.problem
    blocks = problem.blocks(search.target.budget if search.target.pricing is None else None)
    if blocks:
        yield low_rank(blocks, problem.shape, problem.energy)._replace(method=NAME)


METHOD = Method(
    NAME,
    "leading singular vectors, in each block if M is block-diagonal up to the order of its lines; also as "
    "sparse factors",
    _curves,
    n_factors=two_factors,
)
