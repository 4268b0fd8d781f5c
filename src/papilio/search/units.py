"""Products in the unit of the matrix that was given: the way back from `papilio.linalg.in_units`."""

import numpy as np

from ..linalg import shifted
from ..operators import SparseProduct
from ..typing import Array

_ROOM = 32  # bits between the unit and the largest number, with which nothing can overflow
_LARGE = 1 << 24  # Products with more entries are only sampled.
_SPARE = 24  # bits of the unit that the last factor takes over otherwise


def in_unit_of(name: str, operator: SparseProduct, exponent: int) -> SparseProduct:
    """``operator`` times 2^exponent; an error that names the matrix if this overflows."""
    if -1000 < exponent < np.finfo(operator.dtype).maxexp - _ROOM:
        return operator * 2.0**exponent
    factors = list(operator.factors)
    # The scale might overflow, and so might the first factor, which is multiplied by it.
    if exponent > 0:
        factors[-1] = factors[-1] * factors[-1].real.dtype.type(2**_SPARE)
        exponent -= _SPARE
    scale = float(shifted(np.array([operator.scale]), exponent)[0])
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(scale):
            scaled = SparseProduct(factors, scale)
            if np.isfinite(_looked_at(scaled)).all():
                return scaled
    raise ValueError(
        f"{name} must leave room for rounding below the largest number of {operator.dtype}, got entries for which "
        f"the product overflows: divide {name} by a power of two"
    )


def _looked_at(operator: SparseProduct) -> Array:
    """All entries of a product, or sums of those of each row with random signs if there are many."""
    if operator.shape[0] * operator.shape[1] <= _LARGE:
        return operator.toarray()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], operator.shape[1])
    return np.asarray(operator @ signs.astype(operator.dtype))
