"""Sparse codes of many signals at once: orthogonal matching pursuit."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..kernels.pursuit import pack, pursue
from ..linalg import column_norms, wide
from ..operators import SparseProduct
from ..runtime.threads import one_blas_thread, scratch, split_work
from ..typing import Array
from ..validation import as_integer, as_matrix, as_numbers, as_real

_CHUNK = 1 << 18  # correlations that a thread works on at a time
_LOCKSTEP = 1 << 22  # correlations at a time where Gram rows are computed between steps
_GRAM_BYTES = 1 << 30  # the largest Gram matrix, or part of one
_DENSE_BYTES = 1 << 28  # the largest dense form of a SparseProduct that is kept beside it
_FAST = 0.15  # the relative complexity up to which a product correlates faster than BLAS
_SMALL = 512  # atoms up to which the whole Gram matrix costs nothing worth saving


def omp(
    dictionary: Any, signals: Any, n_nonzero_coefs: int | None = None, *, tol: float | None = None
) -> sp.csc_array:
    """Sparse codes Γ with X ≈ DΓ, by orthogonal matching pursuit.

    For each signal, atoms are chosen one after the other, each time the one with the largest correlation
    |⟨d_j, r⟩|/‖d_j‖ with the residual r, and all coefficients are refitted by least squares. A signal is done
    earlier when no atom would lower its residual by more than rounding: zero signals have empty codes, and no code
    has more entries than the dictionary has independent atoms.

    Parameters
    ----------
    dictionary : (d, a) matrix or SparseProduct
        D, one atom a column, of any norm. A `SparseProduct` correlates by its fast transform.
    signals : (d, n) matrix or (d,) vector
        X, one signal a column.
    n_nonzero_coefs : int, optional
        The largest number of atoms a signal. By default a tenth of d, at least one; with ``tol``, no limit.
    tol : float, optional
        Stop when the squared residual ‖x − Dγ‖² of a signal is not above this, as scikit-learn's ``tol``.

    Returns
    -------
    codes : (a, n) csc_array

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> codes = pp.omp(pp.transforms.hadamard(4).T, np.array([[3.0], [3.0], [1.0], [1.0]]), n_nonzero_coefs=2)
    >>> codes.toarray().ravel()
    array([2., 0., 1., 0.])
    """
    X = as_signals(signals)
    D = dictionary if isinstance(dictionary, SparseProduct) else as_matrix("dictionary", dictionary)
    dtype = np.result_type(D.dtype, X.dtype)
    return Coder(D if D.dtype == dtype else D.astype(dtype)).code(X, n_nonzero_coefs, tol)


def as_signals(signals: Any) -> Array:
    """``signals`` as a finite matrix with one signal a column; there may be none."""
    array = as_numbers("signals", signals)
    if array.ndim == 1:
        array = array[:, None]
    return array if array.ndim == 2 and array.shape[0] and not array.shape[1] else as_matrix("signals", array)


class Coder:
    """A dictionary made ready to code signals of its dtype: atoms of unit norm, and their Gram matrix.

    Parameters
    ----------
    dictionary : (d, a) array or SparseProduct
        Known to be sound.
    """

    def __init__(self, dictionary: Array | SparseProduct) -> None:
        self.shape: tuple[int, int] = dictionary.shape
        self._dtype = dictionary.dtype
        self._product: SparseProduct | None = None
        self._dense: Array | None = None
        if isinstance(dictionary, SparseProduct):
            if dictionary.shape[0] * dictionary.shape[1] * self._dtype.itemsize <= _DENSE_BYTES:
                self._dense = dictionary.toarray()
            if self._dense is None or dictionary.relative_complexity <= _FAST:
                self._product = dictionary
        else:
            self._dense = dictionary
        norms = _norms_by_blocks(dictionary) if self._dense is None else column_norms(self._dense)
        if not np.isfinite(norms).all():
            raise ValueError("dictionary must have atoms within the number range, got a product that overflows")
        self._inverse_norms = _inverse(norms, self._dtype)
        narrow = self._inverse_norms.astype(np.empty(0, self._dtype).real.dtype)
        if self._product is not None:
            *others, last = self._product.factors
            scaled = sp.csr_array((last.data * narrow[last.indices], last.indices, last.indptr), shape=last.shape)
            self._product = SparseProduct([*others, scaled], self._product.scale)
        elif self._dense is not None:
            self._dense = self._dense * narrow
        self._gram: Array | None = None

    def code(self, signals: Array, n_nonzero_coefs: int | None = None, tol: float | None = None) -> sp.csc_array:
        """What `omp` does, for a matrix of signals that is known to be finite."""
        (features, atoms), count = self.shape, signals.shape[1]
        if signals.shape[0] != features:
            raise ValueError(f"signals must have {features} rows, as the dictionary has, got {signals.shape[0]}")
        if n_nonzero_coefs is None:
            n_nonzero_coefs = max(features // 10, 1) if tol is None else features
        limit = min(as_integer("n_nonzero_coefs", n_nonzero_coefs, 1), features, atoms)
        wanted = -np.inf if tol is None else as_real("tol", tol, 0.0)
        gram = self._gram_for(count * limit, limit)
        length = max(min(gram.chunk // atoms, gram.chunk // limit**2, gram.capacity // limit), 1)
        if count == 0:
            return sp.csc_array((atoms, 0), dtype=self._dtype)
        starts = range(0, count, length)
        parts: list[Any] = [None] * len(starts)

        def run(first: int, last: int) -> None:
            for i in range(first, last):
                chunk = signals[:, starts[i] : starts[i] + length].T.astype(self._dtype, copy=False)
                parts[i] = self._pursue(gram, chunk, limit, wanted)

        if gram.is_whole and len(starts) > 1:
            with one_blas_thread:
                split_work(run, len(starts), 1, shares=len(starts))
        else:
            run(0, len(starts))
        counts, indices, values = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        pointers = np.concatenate([[0], np.cumsum(counts)])
        kind = np.int32 if pointers[-1] < 2**31 else np.int64
        return sp.csc_array((values, indices.astype(kind), pointers.astype(kind)), shape=(atoms, count))

    def _pursue(self, gram: "_Gram", signals: Array, limit: int, tol: float) -> tuple[Array, Array, Array]:
        """Counts, atoms and values of the codes of ``signals``, here one a row."""
        sizes = column_norms(signals.T)
        inverse = _inverse(sizes, self._dtype)
        count, eps, kind = len(signals), float(np.finfo(self._dtype).eps), wide(self._dtype)
        block, correlations, chosen, triangles, changes, codes = scratch(
            "omp",
            (signals.shape, self._dtype),
            ((count, self.shape[1]), self._dtype),
            ((count, limit), np.int64),
            ((count, limit, limit), kind),
            ((count, limit), kind),
            ((count, limit), kind),
        )
        np.multiply(signals, inverse[:, None], out=block, casting="same_kind")
        correlations = self._correlate(block, correlations)
        for array in (chosen, changes, codes):
            array.fill(0)
        remaining = (inverse > 0).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # far above any residual; none, for a zero signal
            tolerances = tol * inverse * inverse
        tolerances[tolerances < 8 * eps] = -np.inf  # residuals are not known so well: the floor decides
        counts, done = np.zeros(count, np.int64), inverse == 0
        gram.begin(count * limit)
        steps = 1 if gram.is_whole else limit  # calls of the kernel
        for step in range(steps):

            def run(start: int, stop: int) -> None:
                pursue(
                    correlations,
                    gram.rows,
                    gram.where,
                    tolerances,
                    (16 * eps) ** 2,
                    64 * eps,
                    limit if gram.is_whole else 1,
                    remaining,
                    counts,
                    chosen,
                    triangles,
                    changes,
                    codes,
                    done,
                    start,
                    stop,
                )

            split_work(run, count, 16, shares=4)
            if step == steps - 1 or done.all():
                break
            gram.require(chosen[~done, counts[~done] - 1])
        values = np.empty(int(counts.sum()), self._dtype)
        indices = np.empty(values.size, np.int64)
        pack(counts, chosen, codes, sizes, self._inverse_norms, indices, values)
        return counts, indices, values

    def _correlate(self, block: Array, out: Array | None = None) -> Array:
        """Dᴴx of each signal in ``block``, one a row, as a row; in ``out``, where that saves memory."""
        if self._product is not None:
            return np.ascontiguousarray((self._product.H @ block.T).T)
        assert self._dense is not None
        return np.matmul(block, self._dense.conj() if self._dtype.kind == "c" else self._dense, out=out)

    def _atoms(self, indices: Array) -> Array:
        """Some unit-norm atoms, one a row."""
        if self._dense is None:
            assert self._product is not None
            return np.ascontiguousarray(self._product[:, indices].toarray().T)
        atoms = np.ascontiguousarray(self._dense[:, indices].T)
        if self._product is not None:  # then the dense form is as it was given
            atoms *= self._inverse_norms[indices, None].astype(atoms.real.dtype)
        return atoms

    def _gram_for(self, choices: int, limit: int) -> "_Gram":
        """The whole Gram matrix if it fits, and costs no more than the rows of the atoms that will be chosen."""
        atoms = self.shape[1]
        rows = max(_GRAM_BYTES // (atoms * self._dtype.itemsize), limit)  # those of one signal at least
        pays = choices >= (atoms if self._product is not None else atoms // 2)  # BLAS uses the symmetry
        if rows < atoms or not (self._gram is not None or atoms <= _SMALL or pays):
            return _Gram(self, min(rows, choices, atoms))
        if self._gram is None and self._product is None:
            assert self._dense is not None
            adjoint = self._dense.T.conj() if self._dtype.kind == "c" else self._dense.T
            self._gram = np.ascontiguousarray((adjoint @ self._dense).T)  # BLAS sees the symmetry
        elif self._gram is None:
            self._gram = self._correlate(self._atoms(np.arange(atoms)))
        return _Gram(self, atoms, self._gram)


def _inverse(norms: Array, dtype: np.dtype[Any]) -> Array:
    """1/norm, and 0 for what is zero, or so small that this would overflow."""
    return np.divide(1.0, norms, out=np.zeros(norms.size), where=norms > 1 / np.finfo(dtype).max)


def _norms_by_blocks(product: Any) -> Array:
    width = max(_CHUNK // product.shape[0], 1)
    blocks = (product[:, start : start + width] for start in range(0, product.shape[1], width))
    return np.concatenate([column_norms(block.toarray()) for block in blocks])


class _Gram:
    """Rows of a Gram matrix: all of them, or those that were asked for, up to ``capacity`` at a time."""

    def __init__(self, coder: Coder, capacity: int, whole: Array | None = None) -> None:
        atoms = coder.shape[1]
        self._coder = coder
        self.is_whole = whole is not None
        self.rows = np.empty((capacity, atoms), coder._dtype) if whole is None else whole
        self.where = np.full(atoms, -1) if whole is None else np.arange(atoms)
        self._used = capacity if self.is_whole else 0
        self.chunk = _CHUNK if self.is_whole else _LOCKSTEP
        self.capacity = _LOCKSTEP if capacity == atoms else capacity  # choices that surely find room

    def begin(self, choices: int) -> None:
        """Forget the rows if there may not be room for so many more."""
        if self._used + choices > len(self.rows) < len(self.where):
            self.where[:] = -1
            self._used = 0

    def require(self, atoms: Array) -> None:
        """Compute the rows of ``atoms`` that are missing."""
        missing = np.unique(atoms)
        missing = missing[self.where[missing] < 0]
        if missing.size:
            places = slice(self._used, self._used + missing.size)
            self.rows[places] = self._coder._correlate(self._coder._atoms(missing))
            self.where[missing] = np.arange(places.start, places.stop)
            self._used = places.stop
