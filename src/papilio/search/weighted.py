"""Matrices that are applied to certain inputs: errors of their outputs, from the second moments of the inputs.

For inputs with second moments A = E xxᴴ, the mean squared error of the outputs is tr(E A Eᴴ) = ‖EC‖² with
E = M − M̂ and A = CCᴴ. So the best approximation of low rank is that of MC times C⁻¹, and PALM fits the `Moments`
B = MA and A.

Few inputs tell little about A: it is estimated by (1 − ρ)·XXᴴ/N + ρμI, where μ is the mean of its diagonal. The
share ρ = Var(XXᴴ/N)/‖XXᴴ/N − μI‖² minimises the expected error of the estimate (Ledoit and Wolf 2004; the variance
without bias, as in Schäfer and Strimmer 2005). It is at least 1/(N + 1), so that no direction counts for nothing.
"""

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from math import sqrt
from operator import add
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from ..linalg import column_norms, frobenius, in_units, inner, wide
from ..operators import SparseProduct
from ..operators.factors import as_csr
from ..runtime.session import Session
from ..runtime.threads import blas_threads
from ..samples import Samples, as_samples, held, is_large, map_reduce, on_disk
from ..solvers.moments import Moments
from ..typing import Array, MatrixLike, Path
from ..validation import as_matrix
from .nested.cluster_trees import Coordinates
from .problems import Block, Stored

#: What `papilio.factorize` takes for the inputs of a matrix.
Inputs: TypeAlias = MatrixLike | Path | Samples | Moments

_WHITE = 0.9  # a share ρ from which inputs are treated as white: the fit could hardly gain from what is left
_MOST_WORK = 1e10  # the sum of cubes of the numbers of entries of rows up to which their values are fitted
_ROUNDING = 1e-6  # the share ρ where the second moments themselves are given


class Sums(NamedTuple):
    """Of some samples: XXᴴ, Σ‖x‖⁴ and their number."""

    gram: Array
    fourth: float
    number: int


def second_moments(inputs: Any, n: int) -> Array | None:
    """The estimate of A for n×N inputs, with a mean diagonal of 1; None where inputs look white.

    ``inputs`` is an array, dense or sparse, with one sample per column, `Moments` whose gram is A up to a factor,
    a path or `Samples`; see `papilio.factorize`.
    """
    if isinstance(inputs, Moments):
        gram = np.eye(n) if inputs.gram is None else inputs.gram
        if gram.shape != (n, n):
            raise ValueError(
                f"inputs must have a gram of shape {(n, n)}, one row per column of M, got {gram.shape}"
            )
        gram = in_units(gram.astype(wide(gram.dtype)))[0]
        return _with_ridge(gram, 1.0 if _is_white(gram) else _ROUNDING)
    found = _sums(inputs, n)
    return _with_ridge(found.gram, _share(found))


def _sums(inputs: Any, n: int) -> Sums:
    if isinstance(inputs, Sums):
        return inputs
    if sp.issparse(inputs):
        X = as_csr("inputs", inputs)
        _require_rows(X.shape, n)
        X.data = in_units(X.data.astype(wide(X.dtype)))[0]
        norms = np.asarray((abs(X) ** 2).sum(axis=0))
        return Sums((X @ X.conj().T).toarray(), float((norms**2).sum()), X.shape[1])
    if isinstance(inputs, str | os.PathLike):
        samples = on_disk(inputs)
    elif is_large(inputs):
        samples = as_samples(inputs if isinstance(inputs, Samples) else inputs.T)
    else:
        samples = held(in_units(as_matrix("inputs", inputs))[0].T)
    _require_rows(samples.shape[::-1], n)
    with np.errstate(over="ignore", invalid="ignore"):
        found = map_reduce(samples, sums_of, n, merged)
    if not np.isfinite(found.fourth):
        raise ValueError(
            "inputs must have fourth powers within the range of float64: divide them by a power of two"
        )
    return found


def sums_of(blocks: Iterable[tuple[int, Array]], n: int) -> Sums:
    """The sums of samples in blocks: the index of the first row of each, which does not matter, and its rows."""
    gram, fourth, count = np.zeros((n, n)), 0.0, 0
    for _, rows in blocks:
        rows = rows.astype(wide(rows.dtype), copy=False)
        gram = gram + rows.T @ rows.conj()
        fourth += float((np.einsum("ij,ij->i", rows, rows.conj()).real ** 2).sum())
        count += len(rows)
    return Sums(gram, fourth, count)


def merged(parts: Sequence[Sums]) -> Sums:
    return Sums(*(reduce(add, each) for each in zip(*parts, strict=True)))


def _require_rows(shape: tuple[int, int], n: int) -> None:
    if shape[0] != n:
        raise ValueError(
            f"inputs must have {n} numbers per sample, one per column of M, got {shape[0]}: arrays have one "
            "sample per column, files one per row"
        )


def _is_white(gram: Array) -> bool:
    mean = gram.diagonal().real.mean()
    return frobenius(gram - mean * np.eye(len(gram))) <= 1e-6 * frobenius(gram)


def _share(found: Sums) -> float:
    """ρ, the share of the multiple of the identity."""
    gram, fourth, count = found
    if count == 1 or _is_white(gram):
        return 1.0
    centred = gram - gram.diagonal().real.mean() * np.eye(len(gram))
    variance = (fourth - frobenius(gram) ** 2 / count) * count / (count - 1)
    return float(np.clip(variance / frobenius(centred) ** 2, 1 / (count + 1), 1.0))


def _with_ridge(gram: Array, share: float) -> Array | None:
    mean = float(gram.diagonal().real.mean())
    if not mean > 0:
        raise ValueError("inputs must not be zero: outputs of zeros have no error")
    return None if share >= _WHITE else (1 - share) / mean * gram + share * np.eye(len(gram))


def stored(session: Session, matrix: Array, coordinates: Coordinates | None, inputs: Any) -> Stored:
    """A matrix in memory as a problem, with the inputs that it is applied to, if they are known."""
    A = None if inputs is None else second_moments(inputs, matrix.shape[1])
    return Stored(session, matrix, coordinates) if A is None else Weighted(session, matrix, coordinates, A)


class Weighted(Stored):
    """A matrix in memory that is applied to inputs with second moments A; errors are those of its outputs."""

    is_weighted = True

    def __init__(
        self, session: Session, matrix: Array, coordinates: Coordinates | None, second_moments: Array
    ) -> None:
        super().__init__(session, matrix, coordinates)
        # Real errors see only the real part of A.
        A = second_moments if matrix.dtype.kind == "c" else second_moments.real
        with blas_threads(len(A) ** 3):
            eigenvalues, vectors = np.linalg.eigh(A)
            roots = np.sqrt(np.maximum(eigenvalues, 1e-12 * eigenvalues[-1]))
            root, inverse = ((vectors * each) @ vectors.conj().T for each in (roots, 1 / roots))
        self.weights: Array = A.diagonal().real.copy()
        self._root, self._inverse = root.astype(matrix.dtype), inverse.astype(matrix.dtype)
        self._turned = Stored(session, matrix @ self._root)
        self._A = A.astype(matrix.dtype)
        self.moments = self._moments_of(matrix, self._A)
        self.energy = self._turned.energy

    def part(self, lines: Array) -> tuple[Array, Moments]:
        some, _ = super().part(lines)
        return some, self._moments_of(
            some, self._A[np.ix_(lines, lines)] if self.shape[0] < self.shape[1] else self._A
        )

    def _moments_of(self, matrix: Array, A: Array) -> Moments:
        cross = matrix @ A
        return Moments(cross, A, max(inner(cross, matrix), 0.0))

    def error_of(self, operator: SparseProduct) -> float:
        missed = (self.matrix - operator.toarray()) @ self._root
        return frobenius(missed) / sqrt(self.energy) if self.energy > 0 else 0.0

    def fitted(self, matrix: Array, kept: sp.csr_array) -> sp.csr_array:
        # Each row m gets the s on its places J with sA = mA there: s_J A_JJ = (mA)_J.
        counts = np.diff(kept.indptr)
        if float((counts.astype(float) ** 3).sum()) > _MOST_WORK:
            return kept
        self.session.check()
        values = kept.data.astype(wide(kept.dtype))
        gram = self._A.astype(values.dtype)
        cross = matrix @ gram
        for i, (begin, end) in enumerate(pairwise(kept.indptr)):
            places = kept.indices[begin:end]
            values[begin:end] = np.linalg.solve(gram[np.ix_(places, places)].T, cross[i, places])
        return sp.csr_array((values.astype(kept.dtype), kept.indices, kept.indptr), shape=kept.shape)

    def turned(self, matrix: Array) -> Array:
        return matrix @ self._root

    def turned_back(self, right: Array) -> Array:
        return right @ self._inverse

    def weights_in(self, transform: SparseProduct) -> Array:
        return column_norms((transform @ self._root).conj().T) ** 2

    def blocks(self, budget: int | None = None) -> list[Block]:
        return [self._in_place(block) for block in self._turned.blocks(budget)]

    def _in_place(self, block: Block) -> Block:
        """A block of MC with its right vectors times C⁻¹, which may fill all columns."""
        inverse = self._inverse[block.columns]
        columns = np.flatnonzero(inverse.any(axis=0)) if block.columns.size < self.shape[1] else block.columns
        return block._replace(columns=columns, right=block.right @ inverse[:, columns])
