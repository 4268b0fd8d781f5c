"""Dictionaries made ready for orthogonal matching pursuit."""

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.nonnegative import pursue_nonnegative
from ..kernels.pursuit import Pursuit, extend, pack, pursue, search
from ..kernels.thresholding import largest_of_rows
from ..linalg import column_norms, wide
from ..operators import SparseProduct
from ..runtime.session import Session
from ..runtime.threads import one_blas_thread, scratch, split_work
from ..typing import Array
from ..validation import as_flag, as_integer, as_real
from .cost import cost_of, prefer_residuals
from .rows import Rows, as_columns

_CHUNK = 1 << 18  # correlations that a thread works on at a time
_LOCKSTEP = 1 << 22  # correlations at a time where rows are computed between steps
_GRAM_BYTES = 1 << 30  # the largest Gram matrix, or part of one
_DENSE_BYTES = 1 << 28  # the largest dense form of a SparseProduct that is kept beside it
_AT_ONCE = 1024  # rows of a Gram matrix from one call of BLAS
_SMALL = 512  # atoms up to which the whole Gram matrix costs nothing worth saving
_STEPS = 10  # per atom of a code, for atoms that leave its support again
_ORTHONORMAL = 100  # rounding errors, by which inner products of orthonormal atoms may differ from 0 and 1
_TOGETHER = 16  # signals that a product should have at a time to be fast


class Coder:
    """A dictionary made ready to code signals of its dtype: atoms of unit norm, and their Gram matrix.

    The dictionary, which is known to be sound, is kept as a dense matrix, as a product, or as both: the product to
    correlate with, where that is faster, and the matrix to look up atoms in.
    """

    def __init__(self, dictionary: Array | SparseProduct) -> None:
        self.shape: tuple[int, int] = dictionary.shape
        self._dtype = dictionary.dtype
        self._dense: Array | None = None  # the atoms
        self._is_unit = True  # whether these have unit norms
        self._product: SparseProduct | None = None  # with their own norms, if it is faster or the only form
        self._gram: Array | None = None
        self._is_basis: bool | None = None  # whether the atoms are an orthonormal basis; not known yet
        dense = None
        if not isinstance(dictionary, SparseProduct):
            dense = dictionary
        elif dictionary.shape[0] * dictionary.shape[1] * self._dtype.itemsize <= _DENSE_BYTES:
            dense = dictionary.toarray()
        norms = column_norms(dense) if dense is not None else _norms_by_blocks(dictionary)
        if not np.isfinite(norms).all():
            raise ValueError("dictionary must have atoms within the number range, got a product that overflows")
        self._inverse_norms = _inverse(norms, self._dtype)
        self._scales = self._inverse_norms.astype(np.empty(0, self._dtype).real.dtype)
        if isinstance(dictionary, SparseProduct):
            self._cost = cost_of(dictionary)
            if dense is None or self._cost.is_fast:
                self._product = dictionary
        if dense is dictionary:
            self._dense = dense * self._scales
        elif dense is not None:
            self._dense = dense
            # To scale them takes a pass over memory, which a fast product can do without.
            self._is_unit = self._product is None or not _have_squares(norms)
            if self._is_unit:
                dense *= self._scales

    def code(
        self,
        signals: Array,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        positive: bool = False,
        session: Session | None = None,
    ) -> sp.csc_array:
        """What `omp` does, for a matrix of signals that is known to be finite; a session may show the progress."""
        (n_features, n_atoms), count = self.shape, signals.shape[1]
        if signals.shape[0] != n_features:
            raise ValueError(f"signals must have {n_features} rows, as the dictionary has, got {signals.shape[0]}")
        if n_nonzero_coefs is None:
            n_nonzero_coefs = max(n_features // 10, 1) if tol is None else n_features
        limit = min(as_integer("n_nonzero_coefs", n_nonzero_coefs, 1), n_features, n_atoms)
        tol = -np.inf if tol is None else as_real("tol", tol, 0.0)
        if as_flag("positive", positive) and self._dtype.kind == "c":
            raise ValueError(f"positive must be False for complex data, got {positive} for {self._dtype}")
        if count == 0:
            return sp.csc_array((n_atoms, 0), dtype=self._dtype)
        pursue_chunk: Callable[[Rows, Pursuit, Array], None]
        if session is not None:
            session.tick("signal", 0, count)
        if tol < 0 and not positive and self._is_orthonormal():
            return self._thresholded(signals, limit)
        if by_residuals := not positive and self._prefers_residuals(count, limit):
            rows, pursue_chunk = self._rows_of_atoms(count, limit), self._pursue_residuals
            length = self._residuals_at_a_time(rows, limit)
        else:
            rows, pursue_chunk = self._gram_for(count * limit, limit), partial(self._pursue, positive)
            length = self._signals_at_a_time(rows, limit)
        starts, caller = range(0, count, length), get_ident()
        parts: list[Any] = [None] * len(starts)

        def run(first: int, last: int) -> None:
            for i in range(first, last):
                state, unit, norms = self._start(signals[:, starts[i] : starts[i] + length].T, limit, tol)
                pursue_chunk(rows, state, unit)
                parts[i] = self._packed(state, norms)
                if session is not None and get_ident() == caller:
                    session.tick("signal", min((len(parts) - parts.count(None)) * length, count), count)

        # Between the steps of dense residuals there are long products, for which BLAS has threads of its own.
        if rows.is_whole and len(starts) > 1 and not (by_residuals and self._product is None):
            with one_blas_thread:
                split_work(run, len(starts), 1, shares=len(starts))
        else:
            run(0, len(starts))
        counts, indices, values = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        self._require_finite(values)
        return as_columns(counts, indices, values, n_atoms)

    def _is_orthonormal(self) -> bool:
        """Whether the atoms, with unit norms, are a basis in which pursuit keeps the largest coefficients."""
        if self._is_basis is None:
            n_features, n_atoms = self.shape
            self._is_basis = False
            if n_features == n_atoms <= _SMALL and self._dense is not None:
                atoms = self._dense if self._is_unit else self._dense * self._scales
                with one_blas_thread:
                    gap = np.abs(atoms.conj().T @ atoms - np.eye(n_atoms, dtype=self._dtype)).max()
                self._is_basis = bool(gap <= _ORTHONORMAL * np.finfo(self._dtype).eps)
        return self._is_basis

    def _thresholded(self, signals: Array, limit: int) -> sp.csc_array:
        """Codes in an orthonormal basis: the largest coefficients of each signal."""
        n_atoms, count = self.shape[1], signals.shape[1]
        indices, counts = np.zeros((count, limit), np.int64), np.zeros(count, np.int64)
        values = np.empty((count, limit), self._dtype)
        length = max(_CHUNK // n_atoms, 1)

        def run(first: int, last: int) -> None:
            for begin in range(first * length, min(last * length, count), length):
                some = slice(begin, begin + length)
                unit = np.array(signals[:, some].T, self._dtype, order="C")
                norms = self._normalize(unit)
                coefficients = self._correlate(unit)
                floors = np.full(len(unit), 8 * float(np.finfo(self._dtype).eps))
                largest_of_rows(np.abs(coefficients), floors, indices[some], counts[some], 0, len(unit))
                with np.errstate(over="ignore", invalid="ignore"):  # refused below
                    sizes = norms[:, None] * self._inverse_norms[indices[some]]
                    values[some] = np.take_along_axis(coefficients, indices[some], axis=1) * sizes

        parts = -(-count // length)
        with one_blas_thread:
            split_work(run, parts, 1, shares=parts)
        is_used = np.arange(limit) < counts[:, None]
        self._require_finite(values[is_used])
        return as_columns(counts, indices[is_used], values[is_used], n_atoms)

    def _require_finite(self, values: Array) -> None:
        if not np.isfinite(values).all():
            raise ValueError(
                f"signals must have codes within the range of {self._dtype}, got signals that are too large for "
                "the atoms of the dictionary: divide them by a power of two"
            )

    def _prefers_residuals(self, count: int, limit: int) -> bool:
        """Whether correlations come from the product at each step, which needs no Gram matrix."""
        if limit**2 * _TOGETHER > _LOCKSTEP:
            return False  # too few signals at a time
        is_large = self.shape[1] ** 2 * self._dtype.itemsize > _GRAM_BYTES
        if self._product is None:
            return is_large
        if not self._cost.is_fast or self.shape[1] <= _SMALL:
            return False
        if is_large:
            return True  # rows of the Gram matrix would come from the product at each step, too
        return prefer_residuals(self._cost, self.shape, self._dtype, count, limit, self._gram is not None)

    def _signals_at_a_time(self, rows: Rows, limit: int) -> int:
        n_atoms = self.shape[1]
        chunk = _CHUNK if rows.is_whole else _LOCKSTEP
        length = min(chunk // n_atoms, chunk // limit**2)
        if len(rows.rows) < n_atoms:
            length = min(length, len(rows.rows) // limit)  # all atoms that they choose must find room
        return max(length, 1)

    def _residuals_at_a_time(self, rows: Rows, limit: int) -> int:
        chunk = _LOCKSTEP if self._product is None else _CHUNK // 2  # BLAS wants more of them than a product
        length = min(max(chunk // self.shape[1], 2 * _TOGETHER), _LOCKSTEP // limit**2)
        return max(min(length, len(rows.rows) // limit), 1)

    def _pursue(self, positive: bool, gram: Rows, state: Pursuit, unit: Array) -> None:
        """The pursuit of signals ``unit``, one per row, by Gram rows."""
        eps, (count, limit) = float(np.finfo(self._dtype).eps), state.chosen.shape
        room = None  # a product makes its own
        if self._product is None:
            (room,) = scratch("correlations", ((count, self.shape[1]), self._dtype))
        correlations = self._correlate(unit, room)
        gram.make_room(count * limit)
        kernel, most = (pursue_nonnegative, _STEPS * limit) if positive else (pursue, limit)
        calls, steps = (1, most) if gram.is_whole else (most, 1)  # of the kernel, and the steps in each

        def run(start: int, stop: int) -> None:
            kernel(tuple(state), correlations, gram.rows, gram.where, eps, steps, start, stop)

        for call in range(calls):
            split_work(run, count, 16, shares=4)
            if call == calls - 1 or state.done.all():
                break
            if positive:  # all that the next step reads: supports, and atoms that just left them
                gram.require(state.chosen[((state.codes > 0) | (state.changes != 0)) & ~state.done[:, None]])
            else:
                gram.require(state.chosen[~state.done, state.counts[~state.done] - 1])

    def _pursue_residuals(self, atoms: Rows, state: Pursuit, residuals: Array) -> None:
        """The pursuit of signals, one per row of ``residuals``, by correlations with what is left of them."""
        eps, (count, limit) = float(np.finfo(self._dtype).eps), state.chosen.shape
        if self._product is not None:
            adjoint, norms = self._product.H, self._scales
        else:
            assert self._dense is not None
            adjoint = (self._dense.conj() if self._dtype.kind == "c" else self._dense).T
            norms = np.ones_like(self._scales)
        integer = np.dtype(f"i{self._scales.itemsize}")
        atoms.make_room(count * limit)
        scales = np.ones_like(self._scales) if self._is_unit else self._scales  # of the atoms in their rows
        tops, best, values = np.empty(count, integer), np.empty(count, integer), np.empty(count, self._dtype)
        np.logical_or(state.done, state.remaining <= state.tolerances, out=state.done)
        while (active := np.flatnonzero(~state.done)).size:
            block = np.ascontiguousarray((residuals if active.size == count else residuals[active]).T)
            # Row-major, in which products and search are fastest.
            correlations = adjoint @ block if active.size > 1 else (adjoint @ block[:, 0])[:, None]
            search(correlations, norms, tops[: active.size], best[: active.size], values)
            atoms.require(best[: active.size])

            def add(start: int, stop: int, active: Array = active) -> None:
                extend(
                    tuple(state),
                    residuals,
                    atoms.rows,
                    atoms.where,
                    scales,
                    active,
                    best,
                    values,
                    eps,
                    start,
                    stop,
                )

            split_work(add, active.size, 16)

    def _packed(self, state: Pursuit, norms: Array) -> tuple[Array, Array, Array]:
        """Counts, atoms and values of the codes."""
        values = np.empty(int(state.counts.sum()), self._dtype)
        indices = np.empty(values.size, np.int64)
        pack(state.counts, state.chosen, state.codes, norms, self._inverse_norms, indices, values)
        return state.counts, indices, values

    def _start(self, signals: Array, limit: int, tol: float) -> tuple[Pursuit, Array, Array]:
        """The pursuit of ``signals``, one per row, before its first step; these with unit norms; the norms."""
        count, kind = len(signals), wide(self._dtype)
        unit, chosen, triangles, changes, codes = scratch(
            "omp",
            (signals.shape, self._dtype),
            ((count, limit), np.int64),
            ((count, limit, limit), kind),
            ((count, limit), kind),
            ((count, limit), kind),
        )
        unit[:] = signals
        norms = self._normalize(unit)
        inverse_norms = _inverse(norms, self._dtype)
        for array in (chosen, changes, codes):
            array.fill(0)
        with np.errstate(over="ignore", invalid="ignore"):  # far above any residual; none, for a zero signal
            tolerances = tol * inverse_norms * inverse_norms
        # Residuals are not known more precisely: there, rounding decides.
        tolerances[tolerances < 8 * np.finfo(self._dtype).eps] = -np.inf
        state = Pursuit(
            tolerances=tolerances,
            remaining=(inverse_norms > 0).astype(np.float64),
            counts=np.zeros(count, np.int64),
            chosen=chosen,
            triangles=triangles,
            changes=changes,
            codes=codes,
            done=inverse_norms == 0,
        )
        return state, unit, norms

    def _normalize(self, rows: Array) -> Array:
        """Give rows unit norms, those of zeros excepted, and return the norms that they had."""
        norms = column_norms(rows.T)
        if not np.isfinite(norms).all():
            raise ValueError(
                f"signals must have norms within the range of {self._dtype}: divide them by a power of two"
            )
        np.multiply(rows, _inverse(norms, self._dtype)[:, None], out=rows, casting="same_kind")
        return norms

    def _correlate(self, block: Array, out: Array | None = None) -> Array:
        """Dᴴx of each signal in ``block``, one per row, as a row; in ``out``, if given."""
        if self._product is not None:
            correlations = _times(self._product.H, block)
            return np.multiply(correlations, self._scales, out=correlations if out is None else out)
        assert self._dense is not None
        return np.matmul(block, self._dense.conj() if self._dtype.kind == "c" else self._dense, out=out)

    def _atoms(self, indices: Array | slice) -> Array:
        """Some unit-norm atoms, one per row."""
        if self._dense is not None:
            atoms = self._dense.T[indices]
            return np.ascontiguousarray(atoms if self._is_unit else atoms * self._scales[indices, None])
        assert self._product is not None
        return _columns(self._product, np.arange(self.shape[1])[indices], self._scales)

    def _rows_of_gram(self, indices: Array) -> Array:
        return self._correlate(self._atoms(indices))

    def _rows_of_atoms(self, count: int, limit: int) -> Rows:
        """All atoms, if the dictionary has a dense form, else room for those that some signals choose."""
        n_features, n_atoms = self.shape
        if self._dense is not None:
            self._dense = np.asfortranarray(self._dense)
            return Rows(self._dense.T, n_atoms)
        rows = max(_DENSE_BYTES // (n_features * self._dtype.itemsize), limit)  # those of one signal at least
        return Rows(np.empty((min(rows, count * limit), n_features), self._dtype), n_atoms, self._atoms)

    def _gram_for(self, choices: int, limit: int) -> Rows:
        """The whole Gram matrix if it fits, and costs no more than the rows of the atoms that will be chosen."""
        n_atoms = self.shape[1]
        rows = max(_GRAM_BYTES // (n_atoms * self._dtype.itemsize), limit)  # those of one signal at least
        pays = choices >= (n_atoms if self._product is not None else n_atoms // 2)  # BLAS uses the symmetry
        if rows < n_atoms or not (self._gram is not None or n_atoms <= _SMALL or pays):
            room = np.empty((min(rows, choices, n_atoms), n_atoms), self._dtype)
            return Rows(room, n_atoms, self._rows_of_gram)
        if self._gram is None:
            self._gram = self._whole_gram()
        return Rows(self._gram, n_atoms)

    def _whole_gram(self) -> Array:
        n_atoms = self.shape[1]
        if self._product is not None:
            width = max(2 * _CHUNK // n_atoms, 1)  # columns of the matrix are written in runs that long
            gram = np.empty((n_atoms, n_atoms), self._dtype)
            for start in range(0, n_atoms, width):
                part = slice(start, min(start + width, n_atoms))
                # By columns, as the matrix is Hermitian: products are fastest on row-major blocks.
                columns = self._product.H @ np.ascontiguousarray(self._atoms(part).T)
                np.multiply(columns.conj(), self._scales[:, None], out=gram[:, part])
            return gram
        assert self._dense is not None
        # Row j is (Dᴴd_j)ᵀ.
        conjugate = self._dense.conj() if self._dtype.kind == "c" else self._dense
        if n_atoms <= 4 * _AT_ONCE:
            return self._dense.T @ conjugate  # BLAS sees the symmetry of a real one
        gram = np.empty((n_atoms, n_atoms), self._dtype)
        for start in range(0, n_atoms, _AT_ONCE):  # in parts that Ctrl-C need not wait for
            stop = min(start + _AT_ONCE, n_atoms)
            np.matmul(self._dense[:, start:stop].T, conjugate[:, :stop], out=gram[start:stop, :stop])
            gram[:start, start:stop] = gram[start:stop, :start].conj().T
        return gram


def _times(op: SparseProduct, block: Array) -> Array:
    """op @ x of each vector in ``block``, one per row, as a row."""
    if len(block) == 1:
        return (op @ block[0])[None]
    return np.ascontiguousarray((op @ block.T).T)


def _columns(product: SparseProduct, indices: Array, scales: Array) -> Array:
    """Some columns of a product times their scales, one per row, by what is packed for it already."""
    chosen = np.zeros((len(indices), product.shape[1]), product.dtype)
    chosen[np.arange(len(indices)), indices] = scales[indices]
    return _times(product, chosen)


def _inverse(norms: Array, dtype: np.dtype[Any]) -> Array:
    """1/norm, and 0 for what is zero, or so small that this would overflow."""
    return np.divide(1.0, norms, out=np.zeros(norms.size), where=norms > 1 / np.finfo(dtype).max)


def _have_squares(norms: Array) -> bool:
    """Whether the squares of all norms but zeros are well within the number range, that of float32, too."""
    return bool(((norms == 0) | ((norms > 1e-10) & (norms < 1e10))).all())


def _norms_by_blocks(product: Any) -> Array:
    n_atoms = product.shape[1]
    width, ones = max(_CHUNK // n_atoms, 1), np.ones(n_atoms)
    starts = range(0, n_atoms, width)
    blocks = (_columns(product, np.arange(i, min(i + width, n_atoms)), ones) for i in starts)
    return np.concatenate([column_norms(block.T) for block in blocks])
