"""Dictionaries made ready for orthogonal matching pursuit."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.pursuit import Pursuit, pack, pursue
from ..linalg import column_norms, wide
from ..operators import SparseProduct
from ..runtime.threads import one_blas_thread, scratch, split_work
from ..typing import Array
from ..validation import as_integer, as_real
from .gram import GramRows

_CHUNK = 1 << 18  # correlations that a thread works on at a time
_LOCKSTEP = 1 << 22  # correlations at a time where Gram rows are computed between steps
_GRAM_BYTES = 1 << 30  # the largest Gram matrix, or part of one
_DENSE_BYTES = 1 << 28  # the largest dense form of a SparseProduct that is kept beside it
_FAST = 0.15  # the relative complexity up to which a product correlates faster than BLAS
_SMALL = 512  # atoms up to which the whole Gram matrix costs nothing worth saving


class Coder:
    """A dictionary made ready to code signals of its dtype: atoms of unit norm, and their Gram matrix.

    The dictionary, which is known to be sound, is kept as a dense matrix, as a product, or as both: the product to
    correlate with, where that is faster, and the matrix to look up atoms in.
    """

    def __init__(self, dictionary: Array | SparseProduct) -> None:
        self.shape: tuple[int, int] = dictionary.shape
        self._dtype = dictionary.dtype
        self._dense: Array | None = None  # the atoms with unit norm
        self._product: SparseProduct | None = None  # the same, if it is faster or the only form
        self._gram: Array | None = None
        dense = None
        if not isinstance(dictionary, SparseProduct):
            dense = dictionary
        elif dictionary.shape[0] * dictionary.shape[1] * self._dtype.itemsize <= _DENSE_BYTES:
            dense = dictionary.toarray()
        norms = _norms_by_blocks(dictionary) if dense is None else column_norms(dense)
        if not np.isfinite(norms).all():
            raise ValueError("dictionary must have atoms within the number range, got a product that overflows")
        self._inverse_norms = _inverse(norms, self._dtype)
        narrow = self._inverse_norms.astype(np.empty(0, self._dtype).real.dtype)
        if dense is not None:
            self._dense = dense * narrow
        if isinstance(dictionary, SparseProduct) and (dense is None or dictionary.relative_complexity <= _FAST):
            *others, last = dictionary.factors
            self._product = SparseProduct([*others, last * narrow], dictionary.scale)

    def code(self, signals: Array, n_nonzero_coefs: int | None = None, tol: float | None = None) -> sp.csc_array:
        """What `omp` does, for a matrix of signals that is known to be finite."""
        (n_features, n_atoms), count = self.shape, signals.shape[1]
        if signals.shape[0] != n_features:
            raise ValueError(f"signals must have {n_features} rows, as the dictionary has, got {signals.shape[0]}")
        if n_nonzero_coefs is None:
            n_nonzero_coefs = max(n_features // 10, 1) if tol is None else n_features
        limit = min(as_integer("n_nonzero_coefs", n_nonzero_coefs, 1), n_features, n_atoms)
        tol = -np.inf if tol is None else as_real("tol", tol, 0.0)
        if count == 0:
            return sp.csc_array((n_atoms, 0), dtype=self._dtype)
        gram = self._gram_for(count * limit, limit)
        length = self._signals_at_a_time(gram, limit)
        starts = range(0, count, length)
        parts: list[Any] = [None] * len(starts)

        def run(first: int, last: int) -> None:
            for i in range(first, last):
                chunk = signals[:, starts[i] : starts[i] + length].T.astype(self._dtype, copy=False)
                parts[i] = self._pursue(gram, chunk, limit, tol)

        if gram.is_whole and len(starts) > 1:
            with one_blas_thread:
                split_work(run, len(starts), 1, shares=len(starts))
        else:
            run(0, len(starts))
        counts, indices, values = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        pointers = np.concatenate([[0], np.cumsum(counts)])
        kind = np.int32 if pointers[-1] < 2**31 else np.int64
        return sp.csc_array((values, indices.astype(kind), pointers.astype(kind)), shape=(n_atoms, count))

    def _signals_at_a_time(self, gram: GramRows, limit: int) -> int:
        n_atoms = self.shape[1]
        chunk = _CHUNK if gram.is_whole else _LOCKSTEP
        length = min(chunk // n_atoms, chunk // limit**2)
        if len(gram.rows) < n_atoms:
            length = min(length, len(gram.rows) // limit)  # all atoms that they choose must find room
        return max(length, 1)

    def _pursue(self, gram: GramRows, signals: Array, limit: int, tol: float) -> tuple[Array, Array, Array]:
        """Counts, atoms and values of the codes of ``signals``, here one per row."""
        norms = column_norms(signals.T)
        state = self._start(signals, _inverse(norms, self._dtype), limit, tol)
        eps, count = float(np.finfo(self._dtype).eps), len(signals)
        gram.make_room(count * limit)
        calls, steps = (1, limit) if gram.is_whole else (limit, 1)  # of the kernel, and the steps in each

        def run(start: int, stop: int) -> None:
            pursue(tuple(state), gram.rows, gram.where, eps, steps, start, stop)

        for call in range(calls):
            split_work(run, count, 16, shares=4)
            if call == calls - 1 or state.done.all():
                break
            gram.require(state.chosen[~state.done, state.counts[~state.done] - 1])
        values = np.empty(int(state.counts.sum()), self._dtype)
        indices = np.empty(values.size, np.int64)
        pack(state.counts, state.chosen, state.codes, norms, self._inverse_norms, indices, values)
        return state.counts, indices, values

    def _start(self, signals: Array, inverse_norms: Array, limit: int, tol: float) -> Pursuit:
        """The pursuit of ``signals``, one per row, with unit norms, before its first step."""
        count, kind = len(signals), wide(self._dtype)
        unit, correlations, chosen, triangles, changes, codes = scratch(
            "omp",
            (signals.shape, self._dtype),
            ((count, self.shape[1]), self._dtype),
            ((count, limit), np.int64),
            ((count, limit, limit), kind),
            ((count, limit), kind),
            ((count, limit), kind),
        )
        np.multiply(signals, inverse_norms[:, None], out=unit, casting="same_kind")
        for array in (chosen, changes, codes):
            array.fill(0)
        with np.errstate(over="ignore", invalid="ignore"):  # far above any residual; none, for a zero signal
            tolerances = tol * inverse_norms * inverse_norms
        # Residuals are not known more precisely: there, rounding decides.
        tolerances[tolerances < 8 * np.finfo(self._dtype).eps] = -np.inf
        return Pursuit(
            correlations=self._correlate(unit, correlations),
            tolerances=tolerances,
            remaining=(inverse_norms > 0).astype(np.float64),
            counts=np.zeros(count, np.int64),
            chosen=chosen,
            triangles=triangles,
            changes=changes,
            codes=codes,
            done=inverse_norms == 0,
        )

    def _correlate(self, block: Array, out: Array | None = None) -> Array:
        """Dᴴx of each signal in ``block``, one per row, as a row; in ``out``, where that saves memory."""
        if self._product is not None:
            return np.ascontiguousarray((self._product.H @ block.T).T)
        assert self._dense is not None
        return np.matmul(block, self._dense.conj() if self._dtype.kind == "c" else self._dense, out=out)

    def _atoms(self, indices: Array) -> Array:
        """Some unit-norm atoms, one per row."""
        if self._dense is not None:
            return np.ascontiguousarray(self._dense[:, indices].T)
        assert self._product is not None
        return np.ascontiguousarray(self._product[:, indices].toarray().T)

    def _rows_of_gram(self, indices: Array) -> Array:
        return self._correlate(self._atoms(indices))

    def _gram_for(self, choices: int, limit: int) -> GramRows:
        """The whole Gram matrix if it fits, and costs no more than the rows of the atoms that will be chosen."""
        n_atoms = self.shape[1]
        rows = max(_GRAM_BYTES // (n_atoms * self._dtype.itemsize), limit)  # those of one signal at least
        pays = choices >= (n_atoms if self._product is not None else n_atoms // 2)  # BLAS uses the symmetry
        if rows < n_atoms or not (self._gram is not None or n_atoms <= _SMALL or pays):
            return GramRows(np.empty((min(rows, choices, n_atoms), n_atoms), self._dtype), self._rows_of_gram)
        if self._gram is None and self._product is not None:
            self._gram = self._rows_of_gram(np.arange(n_atoms))
        elif self._gram is None:
            assert self._dense is not None
            adjoint = self._dense.T.conj() if self._dtype.kind == "c" else self._dense.T
            self._gram = np.ascontiguousarray((adjoint @ self._dense).T)  # BLAS sees the symmetry
        return GramRows(self._gram)


def _inverse(norms: Array, dtype: np.dtype[Any]) -> Array:
    """1/norm, and 0 for what is zero, or so small that this would overflow."""
    return np.divide(1.0, norms, out=np.zeros(norms.size), where=norms > 1 / np.finfo(dtype).max)


def _norms_by_blocks(product: Any) -> Array:
    width = max(_CHUNK // product.shape[0], 1)
    blocks = (product[:, start : start + width] for start in range(0, product.shape[1], width))
    return np.concatenate([column_norms(block.toarray()) for block in blocks])
