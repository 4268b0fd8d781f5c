"""The largest entries of a matrix, and the matrix itself where it is sparse."""

from collections.abc import Iterator

import scipy.sparse as sp

from ...operators import SparseProduct
from ...results import Factorization, Status
from ..curves import Curve, largest, single, sizes_of, thresholding
from ..problems import Stored
from ..search import Method, Search
from ..targets import Target

NAME = "thresholding"


def _curves(search: Search) -> Iterator[Curve]:
    """The matrix itself, if it has zeros, and its largest entries; beside identities for more factors."""
    problem, target = search.problem, search.target

    def around(kept: sp.csr_array) -> SparseProduct:
        return problem.beside_identities(target.n_factors, problem.fitted(problem.matrix, kept))

    if problem.nnz < search.target.size:
        yield single("itself", "sparse as it is", around(sp.csr_array(problem.matrix)), 0.0)
    if not problem.is_zero:
        fixed = ((target.n_factors or 1) - 1) * min(problem.shape)
        yield thresholding(problem.matrix, target, around, fixed, NAME, "", problem.weights)


def itself(problem: Stored, target: Target) -> Factorization:
    """What remains if no product was found: the matrix, or its largest entries if their number is limited."""
    matrix, method = problem.matrix, "itself"
    if target.budget is not None and target.pricing is None:
        count = target.budget - ((target.n_factors or 1) - 1) * min(matrix.shape)
        if count < problem.nnz:
            matrix, method = largest(matrix, sizes_of(matrix, problem.weights), count), NAME
    operator = problem.beside_identities(target.n_factors, matrix)
    error = problem.error_of(operator)
    return Factorization(operator, error=error, status=Status.NO_STRUCTURE, method=method)


METHOD = Method(
    NAME,
    "the largest entries of M, or M itself if it is sparse",
    _curves,
    lambda search: True,
    is_first=True,
    takes_sparse=True,
)
