"""SparseProducts for other operator libraries, which are imported when they are asked for."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..validation import as_integer, require_finite
from .factors import Factor, entries, with_scale
from .product import SparseProduct

if TYPE_CHECKING:
    import pyfaust


def absorbed(op: SparseProduct) -> list[Factor]:
    """The factors, with the scale in one of them: in the first, unless that would leave the number range."""
    factors = list(op.factors)
    if op.scale != 1.0:
        i, factors[i] = with_scale(factors, op.scale)
        require_finite("the scale times a factor", entries(factors[i]))
    return factors


def to_pylops(op: SparseProduct, dims: Any, dimsd: Any) -> Any:
    """See `SparseProduct.to_pylops`."""
    try:
        import pylops
    except ImportError as error:
        raise ImportError("to_pylops needs PyLops: pip install pylops") from error
    dims, dimsd = _as_dims("dims", dims, op.shape[1]), _as_dims("dimsd", dimsd, op.shape[0])
    return pylops.LinearOperator(op, dims=dims, dimsd=dimsd)


def _as_dims(name: str, value: int | Sequence[int] | None, size: int) -> tuple[int, ...]:
    given = (size,) if value is None else value if isinstance(value, Sequence) else (value,)
    dims = tuple(as_integer(f"{name}[{i}]", side, 1) for i, side in enumerate(given))
    if prod(dims) != size:
        raise ValueError(f"{name} must have {size} entries in all, got {dims}")
    return dims


def to_faust(op: SparseProduct) -> Any:
    """See `SparseProduct.to_faust`."""
    try:
        import pyfaust
    except ImportError as error:
        raise ImportError("to_faust needs pyfaust: pip install pyfaust") from error
    dtype = np.dtype(np.complex128) if op.dtype.kind == "c" else op.dtype  # FAµST has no complex64
    factors = [factor.astype(dtype) for factor in absorbed(op)]
    return pyfaust.Faust([sp.csr_matrix(f) if sp.issparse(f) else np.asfortranarray(f) for f in factors])


def from_faust(faust: "pyfaust.Faust") -> SparseProduct:
    """The factors of a Faust of pyfaust, as a SparseProduct.

    Parameters
    ----------
    faust : pyfaust.Faust
        Also transposed, conjugated or sliced.

    Returns
    -------
    SparseProduct
        With the same factors, bit by bit, and scale 1.

    Examples
    --------
    >>> import papilio as pp
    >>> try:
    ...     op = pp.from_faust(pp.transforms.hadamard(4).to_faust())
    ... except ImportError:  # pyfaust is not installed
    ...     op = pp.transforms.hadamard(4)
    >>> op == pp.transforms.hadamard(4)
    True
    """
    try:
        count, factor = faust.numfactors(), faust.factors
    except AttributeError:
        raise TypeError(f"faust must be a Faust of pyfaust, got {type(faust).__name__}") from None
    return SparseProduct([factor(i) for i in range(count)])
