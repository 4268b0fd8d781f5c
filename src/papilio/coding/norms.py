"""Norms of the columns of a product, without its dense matrix.

- From the *structure* of the factors, where these have few entries and the columns of each are orthogonal as far
  as later factors mix them: orthogonal transforms, butterflies of any entries, and unions of these.
- From *probes*, where there are many columns: for a Gaussian vector z, the entries of Dᴴz have the variances
  ‖d_j‖². The estimates come with bounds, and become exact for the columns that are looked at.
- By all columns, block by block, else.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtri

from ..linalg import column_norms, wide
from ..operators import SparseProduct
from ..typing import Array

_PAIRS = 12  # of entries in common rows, for each entry: factors with more are not looked at
_ROUNDING = 64  # rounding errors of an inner product that count as zero
_SMALLEST, _LARGEST = 1e-60, 1e60  # of the entries of factors, whose squares are multiplied
_MANY = 8192  # columns from which on probes pay
_PROBES = 1024
_UNLIKELY = 1e-9  # that a norm is outside of its bounds, on either side
_BLOCK = 1 << 21  # entries of the largest block of probes or columns
_COLUMNS = 32  # in a block of probes: more make products no faster


class Norms:
    """The norms of a product's columns, with bounds where they are estimates.

    Attributes
    ----------
    values : (n_columns,) array
        ‖d_j‖, or an estimate.
    exact : (n_columns,) array of bool
    """

    def __init__(self, op: SparseProduct) -> None:
        if op.shape[1] < _MANY:
            self.values, self._factors = _by_columns(op, np.arange(op.shape[1])), (1.0, 1.0)
        else:
            self.values, self._factors = _by_probes(op)
        self.exact = np.full(op.shape[1], op.shape[1] < _MANY)

    def bounds(self) -> tuple[Array, Array]:
        """Numbers between which the norms are."""
        low, high = self._factors
        return np.where(self.exact, 1, low) * self.values, np.where(self.exact, 1, high) * self.values

    def look_at(self, op: SparseProduct, columns: Array) -> bool:
        """Make the norms of some columns of the operator exact; returned is whether any was not."""
        new = np.unique(columns[~self.exact[columns]])
        if new.size:
            self.values[new] = _by_columns(op, new)
            self.exact[new] = True
        return bool(new.size)


def norms_of(op: SparseProduct) -> Norms:
    """The norms of the columns by columns and probes, which are kept with the operator."""
    found: Norms = op._cache.get("norms") or op._cache.setdefault("norms", Norms(op))
    return found


class Structure(NamedTuple):
    """What the structure of the factors tells of the columns."""

    norms: Array | None
    are_orthogonal: bool


def structure_of(op: SparseProduct) -> Structure:
    """The norms of all columns, None if they do not follow, and whether these are known to be orthogonal."""
    found: Structure = op._cache.get("structure") or op._cache.setdefault("structure", _by_structure(op))
    return found


def _by_columns(op: SparseProduct, columns: Array) -> Array:
    """The norms of some columns."""
    found, width = np.empty(columns.size), max(_BLOCK // (8 * max(op.shape)), _block_width(op))
    for start in range(0, columns.size, width):
        some = columns[start : start + width]
        chosen = np.zeros((op.shape[1], some.size), op.dtype)
        chosen[some, np.arange(some.size)] = 1
        found[start : start + width] = column_norms(op @ chosen)
    return found


def _block_width(op: SparseProduct) -> int:
    """How many vectors the operator is applied to at a time: a power of two."""
    width = _COLUMNS
    while width > 2 and width * max(op.shape) > _BLOCK:
        width //= 2
    return width


def _by_probes(op: SparseProduct) -> tuple[Array, tuple[float, float]]:
    """Estimates of all norms, and by which numbers to multiply them for a lower and an upper bound."""
    random, adjoint = np.random.default_rng(0), op.H
    squares, is_complex = np.zeros(op.shape[1]), op.dtype.kind == "c"
    width = _block_width(op)
    for _ in range(0, _PROBES, width):
        probes: Array = random.standard_normal((op.shape[0], width))
        if is_complex:
            probes = (probes + 1j * random.standard_normal(probes.shape)) * np.sqrt(0.5)
        squares += column_norms((adjoint @ probes.astype(op.dtype)).T) ** 2
    freedom = _PROBES * (1 + is_complex)
    low, high = freedom / chdtri(freedom, _UNLIKELY), freedom / chdtri(freedom, 1 - _UNLIKELY)
    return np.sqrt(squares / _PROBES), (float(np.sqrt(low)), float(np.sqrt(high)))


def _by_structure(op: SparseProduct) -> Structure:
    """What `structure_of` finds.

    Let L_k = S₁…S_k. Columns of L_k in different components of the later factors never meet in a sum. If those in
    the same component are orthogonal for each k, with squared norms d_k, then d_k = |S_k|²ᵀ d_{k−1}; and by
    induction, they are if those of diag(√d_{k−1}) S_k are.
    """
    factors = op._factors
    if not all(map(_has_few_pairs, factors)):
        return Structure(None, False)
    squares, are_orthogonal = np.ones(op.shape[0]), True
    for factor, component in zip(factors, reversed(list(_components(factors))), strict=True):
        weighted = sp.csc_array(sp.diags_array(np.sqrt(squares)) @ factor.astype(wide(op.dtype)))
        squares = np.add.reduceat(np.append(np.abs(weighted.data) ** 2, 0), weighted.indptr[:-1])
        squares[np.diff(weighted.indptr) == 0] = 0
        gram = sp.coo_array(weighted.conj().T @ weighted)
        rows, columns = gram.coords
        limit = (_ROUNDING * np.finfo(op.dtype).eps) ** 2 * squares[rows] * squares[columns]
        is_large = (rows != columns) & (np.abs(gram.data) ** 2 > limit)
        if (component[rows[is_large]] == component[columns[is_large]]).any():
            return Structure(None, False)
        are_orthogonal &= not is_large.any()
    norms = np.sqrt(squares) * abs(op.scale)
    return Structure(norms, bool(are_orthogonal)) if np.isfinite(norms).all() else Structure(None, False)


def _has_few_pairs(factor: Any) -> bool:
    """Whether the Gram matrix of a factor costs little, and its entries neither overflow nor underflow."""
    if not sp.issparse(factor):
        return False
    sizes = np.abs(factor.data)
    is_moderate = float(sizes.min(initial=1)) > _SMALLEST and float(sizes.max(initial=1)) < _LARGEST
    return is_moderate and (np.diff(factor.indptr).astype(np.float64) ** 2).sum() <= _PAIRS * (factor.nnz + 1)


def _components(factors: Any) -> Iterator[Array]:
    """For each factor, from the last to the first: which columns later factors connect, by labels."""
    labels = np.arange(factors[-1].shape[1])
    for factor in reversed(factors):
        yield labels
        n_rows, n_labels = factor.shape[0], int(labels.max()) + 1
        # A graph of rows and labels; those have no edges of their own.
        pointers = np.concatenate([factor.indptr, np.full(n_labels, factor.nnz, factor.indptr.dtype)])
        edges = np.ones(factor.nnz, np.int8), n_rows + labels[factor.indices], pointers
        graph = sp.csr_array(edges, shape=(n_rows + n_labels,) * 2)
        labels = connected_components(graph, directed=False)[1][:n_rows]
