"""What methods find: curves, which are families of products with known entries and errors, and single products."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Factorization
from ..typing import Array
from .targets import Target

_MANY = 1 << 19  # places of a curve; above, those of many entries are thinned out
_STEP = 1.002  # Growth of the number of entries between two points of a thinned curve.


class Curve(NamedTuple):
    """Products of one family: their numbers of entries, ascending, and their relative errors.

    ``build`` makes the product at a place of these arrays, and ``detail`` says in a few words what it is. Of all
    curves of a method, only the best product is built. A curve with a ``fit`` is a product that is there already,
    and one without entries is an attempt that failed; both are recorded by themselves. ``noise`` is the part of
    its error that noise in the matrix explains, where the method can tell.
    """

    method: str
    entries: Array
    errors: Array
    build: Callable[[int], SparseProduct]
    detail: Callable[[int], str]
    fit: Factorization | None = None
    noise: float = 0.0

    def best(self, target: Target) -> tuple[float, int]:
        """The lowest rank by a target, and its first place; infinite if no product meets it."""
        ranks = target.ranks(self.entries, target.estimated(self.errors))
        place = int(np.argmin(ranks)) if ranks.size else 0
        return (float(ranks[place]) if ranks.size else np.inf), place

    def place_of(self, entries: int) -> int:
        """The last place with at most so many entries; −1 if there is none."""
        return int(np.searchsorted(self.entries, entries, side="right")) - 1


def single(method: str, detail: str, operator: SparseProduct, error: float) -> Curve:
    """A curve of one product."""
    return Curve(method, np.array([operator.nnz]), np.array([error]), lambda _: operator, lambda _: detail)


def found(method: str, detail: str, fit: Factorization) -> Curve:
    """A product that took iterations to find, with its history."""
    return single(method, detail, fit.operator, fit.error)._replace(fit=fit)


def failed(method: str, detail: str) -> Curve:
    """An attempt that found nothing; ``detail`` says why."""
    none = np.zeros(0, int)
    return Curve(method, none, none.astype(float), lambda _: SparseProduct([]), lambda _: detail)


def exact_error(dtype: np.dtype[Any]) -> float:
    """The relative error up to which a product counts as exact for a matrix of this dtype."""
    return 1e-4 if dtype.char in "fF" else 1e-9


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def of_factors(method: str, detail: str, matrix: Array, factors: Sequence[sp.csr_array]) -> Curve | None:
    """The curve of one product, whose error is measured; None unless it has fewer entries than the matrix."""
    if sum(factor.nnz for factor in factors) >= np.count_nonzero(matrix):
        return None
    operator = SparseProduct(factors).astype(matrix.dtype)
    return single(method, detail, operator, relative_error(matrix, operator))


def thresholding(
    values: Any,
    target: Target,
    around: Callable[[sp.csr_array], SparseProduct],
    fixed: int,
    method: str,
    name: str,
    weights: Array | None = None,
) -> Curve:
    """Keep the largest entries of ``values``: S = around(kept), whose other factors have ``fixed`` entries.

    The errors are those of S if multiplying by the other factors keeps norms. With ``weights`` of the columns, the
    squares of their entries count as many times.
    """
    sizes = sizes_of(values, weights)
    squares = np.sort(sizes**2)
    missed = np.concatenate([[0.0], np.cumsum(squares)])[::-1]  # the energy outside of the k largest
    count = int(np.count_nonzero(squares))
    kept = np.arange(1, count + 1)
    if count > _MANY:
        grown = _STEP ** np.arange(np.log(_MANY / 8) / np.log(_STEP), np.log(count) / np.log(_STEP))
        kept = np.unique(np.concatenate([grown.astype(int), kept[: _MANY // 8], [count]]))
        if target.budget is not None and 0 < target.budget - fixed < count:
            kept = np.unique(np.append(kept, target.budget - fixed))
    errors = np.sqrt(np.maximum(missed[kept], 0) / missed[0]) if count else np.zeros(0)

    def build(place: int) -> SparseProduct:
        return around(sp.csr_array(largest(values, sizes, int(kept[place]))))

    def detail(place: int) -> str:
        return f"{name}{kept[place]:,} of {values.shape[0] * values.shape[1]:,} entries"

    return Curve(method, fixed + kept, errors, build, detail)


def sizes_of(values: Any, weights: Array | None = None) -> Array:
    """The absolute values of the entries, of a sparse matrix those that it stores.

    With ``weights`` of the columns of an array, they are multiplied by the roots of these.
    """
    if weights is not None:
        values = values * np.sqrt(weights)
    return np.abs(values.data if sp.issparse(values) else values.ravel()).astype(np.float64, copy=False)


def largest(values: Any, sizes: Array, count: int) -> Any:
    """An array or csr_array with its ``count`` largest entries, by their `sizes_of`; of equal ones, the first."""
    threshold = np.partition(sizes, sizes.size - count)[sizes.size - count]
    above, equal = np.flatnonzero(sizes > threshold), np.flatnonzero(sizes == threshold)
    places = np.concatenate([above, equal[: count - above.size]])
    entries = values.data if sp.issparse(values) else values.ravel()
    result = np.zeros(entries.size, values.dtype)
    result[places] = entries[places]
    if not sp.issparse(values):
        return result.reshape(values.shape)
    kept = sp.csr_array((result, values.indices, values.indptr), shape=values.shape, copy=True)
    kept.eliminate_zeros()
    return kept


def relative_error(matrix: Array, operator: SparseProduct) -> float:
    """‖M − product‖/‖M‖."""
    size = frobenius(matrix)
    return frobenius(matrix - operator.toarray()) / size if size > 0 else 0.0
