"""Random products: sparse factors on random supports, and butterflies."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from ..operators import SparseProduct
from ..typing import Array, DTypeLike, RandomState
from ..validation import as_dtype, as_factor_count, as_power_of_two, as_random, as_real, as_shape, working_dtype
from .known import hadamard


def random_product(
    shape: int | tuple[int, int],
    n_factors: int = 3,
    *,
    complexity: float = 0.25,
    dtype: DTypeLike = np.float64,
    random_state: RandomState = None,
) -> SparseProduct:
    """A product of random sparse factors: Gaussian entries at random places.

    D = S₁S₂…S_M. The outer factors are as large as they must be, those between them square, of the shorter side.
    The entries are shared among the factors in proportion to their sizes. Every row and every column of a factor
    has at least one; all other places are drawn uniformly. An entry is Gaussian with mean zero and variance 1/k
    where its row has k: then D x has unit variance for white noise x.

    Parameters
    ----------
    shape : (rows, columns) or int
    n_factors : int, default=3
        Factors, M.
    complexity : float, default=0.25
        The relative complexity: all entries together, divided by rows · columns.
    dtype : dtype, default=float64
        float32, float64, complex64 or complex128.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    SparseProduct
        With round(complexity · rows · columns) entries.

    Examples
    --------
    >>> import papilio as pp
    >>> op = pp.transforms.random_product((32, 64), n_factors=2, complexity=0.1, random_state=0)
    >>> op.nnz, len(op.factors)
    (205, 2)
    """
    rows, columns = as_shape("shape", shape)
    n_factors = as_factor_count("n_factors", n_factors, 1)
    dtype = _as_dtype(dtype)
    sides = [rows, *[min(rows, columns)] * (n_factors - 1), columns]
    sizes = np.array([left * right for left, right in pairwise(sides)], dtype=np.float64)
    fewest = np.array([max(pair) for pair in pairwise(sides)])
    least, most = float(fewest.sum() / (rows * columns)), float(sizes.sum() / (rows * columns))
    complexity = as_real("complexity", complexity)
    total = round(complexity * rows * columns)
    if not fewest.sum() <= total <= sizes.sum():
        raise ValueError(
            f"complexity must be from {least:.4g}, one entry per row and column of each of {n_factors} factors, "
            f"to {most:.4g} for shape {(rows, columns)}, got {complexity:g}"
        )
    random = as_random(random_state)
    counts = _shares(total, fewest, sizes)
    return SparseProduct(
        [_factor(*pair, int(count), dtype, random) for pair, count in zip(pairwise(sides), counts, strict=True)]
    )


def random_butterfly(n: int, *, dtype: DTypeLike = np.float64, random_state: RandomState = None) -> SparseProduct:
    """A butterfly with Gaussian entries: the supports of the Hadamard transform's factors.

    S₁S₂…S_L with L = log₂ n; the support of S_k is that of I_{2^(k−1)} ⊗ [[1, 1], [1, 1]] ⊗ I_{n/2^k}. Entries
    have mean zero and variance 1/2: then the product with white noise has unit variance.

    Parameters
    ----------
    n : int
        Rows and columns: a power of two.
    dtype : dtype, default=float64
        float32, float64, complex64 or complex128.
    random_state : int, RandomState, Generator or None
        The source of random numbers. An integer gives the same result every time.

    Returns
    -------
    SparseProduct
        log₂ n factors of 2n entries each; for n = 1, one entry.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.transforms.random_butterfly(64, random_state=0).nnz
    768
    """
    n, _ = as_power_of_two("n", n)
    dtype, random = _as_dtype(dtype), as_random(random_state)
    supports = [sp.csr_array(factor) for factor in hadamard(n).factors]
    variance = 0.5 if n > 1 else 1.0
    return SparseProduct(
        [
            sp.csr_array((_gaussian(s.nnz, dtype, random) * variance**0.5, s.indices, s.indptr), shape=s.shape)
            for s in supports
        ]
    ).astype(dtype)


def _as_dtype(value: DTypeLike) -> np.dtype[np.generic]:
    dtype = as_dtype("dtype", value)
    if working_dtype("dtype", dtype) != dtype:
        raise TypeError(f"dtype must be float32, float64, complex64 or complex128, got {dtype}")
    return dtype


def _gaussian(count: int, dtype: np.dtype[np.generic], random: np.random.RandomState) -> Array:
    """Independent entries of unit variance, none of them zero, in double precision."""
    if dtype.kind == "c":
        return (random.standard_normal(count) + 1j * random.standard_normal(count)) * 0.5**0.5
    return random.standard_normal(count)


def _shares(total: int, fewest: Array, sizes: Array) -> Array:
    """``total`` entries for factors of these sizes, as near to proportional as their limits allow."""
    counts = fewest.copy()
    while (left := total - int(counts.sum())) > 0:
        wanted = np.maximum(total * sizes / sizes.sum() - counts, 0) * (counts < sizes)
        if not wanted.any():
            wanted = sizes - counts
        more = np.minimum(left * wanted / wanted.sum(), sizes - counts).astype(np.int64)
        if not more.any():
            more[np.argmax(wanted)] = 1
        counts += more
    return counts


def _factor(
    rows: int, columns: int, count: int, dtype: np.dtype[np.generic], random: np.random.RandomState
) -> sp.csr_array:
    """``count`` entries, at least one in each row and column."""
    longer = max(rows, columns)
    # Repeated permutations of the shorter side give all its lines about the same number of entries.
    i, j = (
        np.concatenate([random.permutation(side) for _ in range(-(-longer // side))])[:longer]
        for side in (rows, columns)
    )
    places = np.sort(i * columns + j)
    while places.size < count:
        wanted = count - places.size
        if 2 * count > rows * columns:
            others = np.setdiff1d(np.arange(rows * columns), places, assume_unique=True)
            drawn = random.choice(others, wanted, replace=False)
        else:
            drawn = np.setdiff1d(random.randint(0, rows * columns, 2 * wanted + 8, dtype=np.int64), places)
            drawn = random.permutation(drawn)[:wanted]
        places = np.sort(np.concatenate([places, drawn]))
    i, j = np.divmod(places, columns)
    per_row = np.bincount(i, minlength=rows)
    values = _gaussian(count, dtype, random) / np.sqrt(per_row[i])
    return sp.csr_array(
        (values.astype(dtype), j, np.concatenate([[0], np.cumsum(per_row)])), shape=(rows, columns)
    )
