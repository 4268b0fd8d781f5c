"""What the two ways of a pursuit cost: by Gram rows, or by residuals that go through a fast product at each step.

The figures are in nanoseconds, measured on one core beside those of `papilio.operators.cost`. They need not hold
elsewhere: what counts is how they compare.
"""

from typing import Any, NamedTuple

import numpy as np

from ..operators import SparseProduct
from ..operators.cost import rates
from ..operators.engine import modelled_times

_CACHE = 1 << 24  # bytes of a Gram matrix up to which its rows come from cache
_NEAR_BYTE, _FAR_BYTE = 0.02, 0.035  # of a row that is subtracted
_NEW_BYTE = 0.3  # of a Gram matrix, for its memory
_COLUMN_MAJOR = 1.4  # the time of a column-major block, relative to a row-major one
_SEARCH_BYTE = 0.055  # of correlations that are searched in row-major blocks
_TURN_BYTE = 0.12  # of residuals that become a row-major block
_ATOM_BYTE = 0.055  # of an atom that is multiplied with another and subtracted
_STEP = 400.0  # of a signal, besides


class Cost(NamedTuple):
    """The time of correlations Dᴴx, per signal of a column-major block: by the product, and by BLAS."""

    product: float
    dense: float

    @property
    def is_fast(self) -> bool:
        """Whether the product is faster, for correlations and, by measurements, also for the whole Gram matrix.

        BLAS uses the symmetry of that matrix, but has to mirror it in memory.
        """
        return self.product < self.dense


def cost_of(dictionary: SparseProduct) -> Cost:
    """What correlations with a product take, many signals at a time."""
    adjoint, dtype = dictionary.H, dictionary.dtype
    dense = rates(dtype, True).blas(adjoint.shape)
    if dictionary.relative_complexity >= 1:  # not worth a look at its factors
        return Cost(dense, dense)
    return Cost(_COLUMN_MAJOR * modelled_times([link.packed() for link in adjoint._links], dtype)[1], dense)


def prefer_residuals(
    cost: Cost, shape: tuple[int, int], dtype: np.dtype[Any], count: int, limit: int, has_gram: bool
) -> bool:
    """Whether to pursue ``count`` signals up to ``limit`` atoms by residuals, not by the whole Gram matrix."""
    item, past = dtype.itemsize, limit * (limit - 1) // 2  # atoms that a signal chose before, in all its steps
    line, gram = shape[1] * item, shape[1] ** 2 * item
    row = line * (_NEAR_BYTE if gram <= _CACHE else _FAR_BYTE)
    by_gram = count * (cost.product + past * row)
    if not has_gram:
        by_gram += shape[1] * cost.product + gram * _NEW_BYTE
    step = cost.product / _COLUMN_MAJOR + line * _SEARCH_BYTE + shape[0] * item * _TURN_BYTE + _STEP
    return count * (limit * step + 2 * past * shape[0] * item * _ATOM_BYTE) < by_gram
