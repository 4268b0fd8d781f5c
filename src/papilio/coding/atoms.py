"""What a dictionary offers to those who code with it: correlations, single atoms, their norms and Gram matrix.

Norms of the columns of a product come, without its dense matrix,

- From the *structure* of the factors, where these have few entries and the columns of each are orthogonal as far
  as later factors mix them: orthogonal transforms, butterflies of any entries, and unions of these.
- From *probes*, where there are many columns: for a Gaussian vector z, the entries of Dᴴz have the variances
  ‖d_j‖². The estimates come with bounds, and become exact for the columns that are looked at.
- By all columns, block by block, else.
"""

from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.special import chdtri

from ..linalg import column_norms, wide
from ..operators import SparseProduct
from ..operators.cost import rates
from ..operators.engine import modelled_times
from ..runtime.session import Session
from ..runtime.threads import one_blas_thread, scratch, split_work
from ..typing import Array, ArrayLike, MatrixLike
from ..validation import as_array, as_matrix, as_numbers

CHUNK = 1 << 18  # correlations that a thread works on at a time
GRAM_BYTES = 1 << 30  # the largest Gram matrix, or part of one
ROOM_BYTES = 1 << 28  # the largest dense form of a SparseProduct that is kept beside it, and of some of its atoms
_KEPT_BYTES = 1 << 25  # Largest dense form, and largest Gram matrix, that are kept with an operator.
SMALL = 512  # atoms up to which the whole Gram matrix costs nothing worth saving
_AT_ONCE = 1024  # rows of a Gram matrix from one call of BLAS
_ORTHONORMAL = 100  # rounding errors, by which inner products of orthonormal atoms may differ from 0 and 1
_COLUMN_MAJOR = 1.4  # the time of a column-major block, relative to a row-major one
_PAIRS = 12  # Pairs of entries in common rows, per entry; factors with more are not considered.
_ROUNDING = 64  # rounding errors of an inner product that count as zero
_SMALLEST, _LARGEST = 1e-60, 1e60  # Limits for the entries of factors, whose squares are multiplied.
_MANY = 8192  # columns from which on probes pay
_PROBES = 1024
_UNLIKELY = 1e-9  # Probability that a norm is outside of its bounds, on either side.
_BLOCK = 1 << 21  # entries of the largest block of probes or columns
_COLUMNS = 32  # Columns in a block of probes; more do not make products faster.

T = TypeVar("T")


class HasOperator(Protocol):
    """A fitted estimator of this package."""

    operator_: SparseProduct


def as_dictionary(dictionary: Any) -> Array | SparseProduct:
    """``dictionary`` as a finite matrix, or as the product that it is or stands for."""
    found = getattr(dictionary, "operator_", dictionary)
    if isinstance(found, SparseProduct):
        return found
    if hasattr(found, "fit"):
        name = type(found).__name__
        raise TypeError(
            "dictionary must be a matrix, a SparseProduct or a fitted estimator of papilio, whose operator_ is "
            f"used, got a {name} without operator_"
        )
    return as_matrix("dictionary", found)


def as_signals(signals: MatrixLike) -> Array:
    """``signals`` as a finite matrix with one signal per column; there may be none."""
    array = as_numbers("signals", signals)
    if array.ndim == 1:
        array = array[:, None]
    return array if array.ndim == 2 and array.shape[0] and not array.shape[1] else as_matrix("signals", array)


class Atoms:
    """A dictionary whose atoms are used with unit norms.

    It is kept as a dense matrix, as a product, or as both: the product to correlate with, where that is faster,
    and the matrix to look up atoms in. Of a product, norms and the matrix are made when they are needed.

    Parameters
    ----------
    dictionary : matrix or SparseProduct
        Known to be finite, of the dtype of the signals.
    norms : number or (n_components,) array, optional
        The norms of the atoms, if they are known.
    """

    def __init__(self, dictionary: Array | SparseProduct, norms: ArrayLike | None = None) -> None:
        self.shape: tuple[int, int] = dictionary.shape
        self.dtype = dictionary.dtype
        self.dense: Array | None = None
        self.is_unit = True  # whether the atoms of the matrix have unit norms
        # Atoms with their own norms, if the product is faster or the only form.
        self.product: SparseProduct | None = None
        self.gram: Array | None = None
        self._norms: Norms | None = None  # The norms of a product may be estimates.
        self._is_basis: bool | None = None  # whether the atoms are an orthonormal basis; not known yet
        self._operator: SparseProduct | None = None  # Computed forms are kept with this operator.
        known = None if norms is None else _as_norms(norms, dictionary)
        if isinstance(dictionary, SparseProduct):
            self.product = dictionary
            if known is None:
                self._operator = dictionary
                if "coding" in dictionary._cache:
                    self._restore(dictionary._cache["coding"])
                    return
            if dictionary.shape[1] > SMALL:
                structure = structure_of(dictionary)
                self._is_basis = structure.are_orthogonal
                known = structure.norms if known is None else known
            if known is not None:
                self._set_norms(known)
        else:
            self._set_norms(column_norms(dictionary) if known is None else known)
            self.dense = dictionary * self.scales

    def _set_norms(self, norms: Array) -> None:
        if not np.isfinite(norms).all():
            raise ValueError("dictionary must have finite atoms, got a product that overflows")
        self.inverse_norms = inverse(norms, self.dtype)  # zero for atoms of zeros
        self.scales = self.inverse_norms.astype(np.empty(0, self.dtype).real.dtype)

    @property
    def stays(self) -> bool:
        """Whether the dense form and the Gram matrix, once made, stay with the operator."""
        n_bytes = self.shape[1] * max(self.shape) * self.dtype.itemsize
        return self._operator is not None and n_bytes <= _KEPT_BYTES

    def _keep(self) -> None:
        """Let the operator have what was made; it does not refer to itself."""
        if self.stays:
            names = "dense", "is_unit", "gram", "inverse_norms", "scales", "_is_basis"
            kept = {name: getattr(self, name) for name in names}
            assert self._operator is not None
            self._operator._cache["coding"] = kept | {"is_fast": self.product is not None}

    def _restore(self, kept: dict[str, Any]) -> None:
        self.product = self._operator if kept["is_fast"] else None
        self.__dict__.update({name: value for name, value in kept.items() if name != "is_fast"})

    def count_choices(self, choices: int) -> int:
        """How often atoms of the operator may have been chosen so far, with this many more."""
        if self._operator is None:
            return choices
        counts = self._operator._cache
        counts["choices"] = counts.get("choices", 0) + choices
        return int(counts["choices"])

    @property
    def cost(self) -> "Cost":
        """What correlations take by the product."""
        assert self.product is not None
        known = self.product._cache
        found: Cost = known.get("correlations") or known.setdefault("correlations", self._cost())
        return found

    def _cost(self) -> "Cost":
        assert self.product is not None
        dense = rates(self.dtype, True).blas(self.shape[::-1])
        if self.product.relative_complexity >= 1:  # The factors cannot make it faster.
            return Cost(dense, dense, dense)
        vector, block = modelled_times([link.packed() for link in self.product.H._links], self.dtype)
        return Cost(vector, _COLUMN_MAJOR * block, dense)

    @property
    def is_fast(self) -> bool:
        """Whether there is a product, and it is faster than the dense matrix."""
        return self.product is not None and self.cost.is_fast

    @property
    def fits(self) -> bool:
        """Whether there is a dense matrix, or might be one beside the product."""
        return self.dense is not None or self.shape[0] * self.shape[1] * self.dtype.itemsize <= ROOM_BYTES

    @property
    def has_norms(self) -> bool:
        return hasattr(self, "scales")

    def find_norms(self) -> None:
        """Find the norms of the atoms, which may be lower bounds where these are many: see `settle`."""
        if not self.has_norms:
            assert self.product is not None
            self._norms = norms_of(self.product)
            self._set_norms(self._norms.bounds()[0])

    def require_norms(self) -> None:
        """Find the norms of all atoms."""
        self.find_norms()
        self.look_at(np.arange(self.shape[1]))

    def make_dense(self) -> None:
        """Make the matrix of a product where it fits; it then replaces the product, unless that is faster."""
        if self.dense is not None or not self.fits:
            return
        assert self.product is not None
        dense = self.product.toarray()
        if not self.has_norms or self._norms is not None:
            self._norms = None
            self._set_norms(column_norms(dense))
        if not self.cost.is_fast:
            self.product = None
        # To scale the atoms takes a pass over memory, which a fast product can do without.
        self.is_unit = self.product is None or not _have_squares(self.inverse_norms)
        if self.is_unit:
            dense *= self.scales
        self.dense = dense
        self._keep()

    def is_orthonormal(self) -> bool:
        """Whether the atoms are known to be orthogonal: then pursuit keeps the largest coefficients."""
        if self._is_basis is None:
            n_features, n_atoms = self.shape
            self._is_basis = False
            if self.dense is not None and n_features == n_atoms <= SMALL:
                atoms = self.dense if self.is_unit else self.dense * self.scales
                with one_blas_thread:
                    gap = np.abs(atoms.conj().T @ atoms - np.eye(n_atoms, dtype=self.dtype)).max()
                self._is_basis = bool(gap <= _ORTHONORMAL * np.finfo(self.dtype).eps)
        return self._is_basis

    def settle(self, correlations: Array, best: Array) -> bool:
        """Whether norms of the ``best`` atoms were bounds; all that may be best, one per column, are exact then.

        Where the best by lower bounds is exact, it is the best.
        """
        if self._norms is None or self._norms.exact[best].all():
            return False
        high, low = (inverse(bound, self.dtype).astype(self.scales.dtype) for bound in self._norms.bounds())
        sizes = np.abs(correlations)
        tops = (sizes * low[:, None]).max(axis=0)
        sizes *= high[:, None]
        self.look_at(np.flatnonzero((sizes >= tops).any(axis=1)))
        return True

    def look_at(self, indices: Array) -> None:
        """Make the norms of some atoms exact."""
        if self._norms is not None:
            assert self.product is not None
            if self._norms.look_at(self.product, indices):
                self._set_norms(self._norms.bounds()[0])

    def correlate(self, block: Array, out: Array | None = None) -> Array:
        """Dᴴx of each signal in ``block``, one per row, as a row; in ``out``, if given."""
        if self.product is not None:
            adjoint = self.product.H
            found = (adjoint @ block[0])[None] if len(block) == 1 else np.ascontiguousarray((adjoint @ block.T).T)
            return np.multiply(found, self.scales, out=found if out is None else out)
        assert self.dense is not None
        return np.matmul(block, self.dense.conj() if self.dtype.kind == "c" else self.dense, out=out)

    def rows(self, indices: Array | slice) -> Array:
        """Some unit-norm atoms, one per row."""
        if self.dense is not None:
            atoms = self.dense.T[indices]
            return np.ascontiguousarray(atoms if self.is_unit else atoms * self.scales[indices, None])
        return np.ascontiguousarray(self.columns(np.arange(self.shape[1])[indices]).T)

    def combine(self, indices: Array, columns: Array, values: Any, width: int) -> Array:
        """So many combinations of unit-norm atoms, one per column, by the product."""
        assert self.product is not None
        (block,) = scratch("combine", ((self.shape[1], width), self.dtype))
        block.fill(0)
        block[indices, columns] = values * self.scales[indices]  # the product's atoms have norms of their own
        return self.product @ block

    def columns(self, indices: Array) -> Array:
        """Some unit-norm atoms of a product."""
        return self.combine(indices, np.arange(len(indices)), 1.0, len(indices))

    def gram_pays(self, choices: int) -> bool:
        """Whether the whole Gram matrix fits, and costs no more than what takes its place with so many choices."""
        n_atoms = self.shape[1]
        pays = self.gram is not None or n_atoms <= SMALL
        pays |= choices >= (n_atoms if self.product is not None else n_atoms // 2)  # BLAS uses the symmetry
        pays |= self.stays and self.count_choices(0) >= n_atoms
        return pays and self.gram_fits

    @property
    def gram_fits(self) -> bool:
        return self.shape[1] ** 2 * self.dtype.itemsize <= GRAM_BYTES

    def whole_gram(self) -> Array:
        """The Gram matrix DᴴD, which is kept."""
        if self.gram is None:
            self.gram = self._gram_by_product() if self.product is not None else self._gram_by_blas()
            self._keep()
        return self.gram

    def _gram_by_product(self) -> Array:
        assert self.product is not None
        n_atoms = self.shape[1]
        width = max(2 * CHUNK // n_atoms, 1)  # columns of the matrix are written in runs that long
        gram = np.empty((n_atoms, n_atoms), self.dtype)
        for start in range(0, n_atoms, width):
            part = slice(start, min(start + width, n_atoms))
            # By columns, as the matrix is Hermitian: products are fastest on row-major blocks.
            columns = self.product.H @ np.ascontiguousarray(self.rows(part).T)
            np.multiply(columns.conj(), self.scales[:, None], out=gram[:, part])
        return gram

    def _gram_by_blas(self) -> Array:
        assert self.dense is not None
        n_atoms = self.shape[1]
        # Row j is (Dᴴd_j)ᵀ.
        conjugate = self.dense.conj() if self.dtype.kind == "c" else self.dense
        if n_atoms <= 4 * _AT_ONCE:
            return self.dense.T @ conjugate  # BLAS sees the symmetry of a real one
        gram = np.empty((n_atoms, n_atoms), self.dtype)
        for start in range(0, n_atoms, _AT_ONCE):  # In parts, so that Ctrl-C works.
            stop = min(start + _AT_ONCE, n_atoms)
            np.matmul(self.dense[:, start:stop].T, conjugate[:, :stop], out=gram[start:stop, :stop])
            gram[:start, start:stop] = gram[start:stop, :start].conj().T
        return gram

    def normalize(self, signals: Array) -> Array:
        """Give signals, one per row, unit norms, those of zeros excepted, and return the norms that they had."""
        norms = column_norms(signals.T)
        if not np.isfinite(norms).all():
            raise ValueError(
                f"signals must have norms within the range of {self.dtype}: divide them by a power of two"
            )
        np.multiply(signals, inverse(norms, self.dtype)[:, None], out=signals, casting="same_kind")
        return norms

    def require_finite(self, values: Array) -> None:
        """Refuse codes that overflowed."""
        if not np.isfinite(values).all():
            raise ValueError(
                f"signals must have codes within the range of {self.dtype}, got signals that are too large for "
                "the atoms of the dictionary: divide them by a power of two"
            )


class GramRows:
    """Rows Dᴴd_j of the Gram matrix: all of them, or those of the atoms that were required so far.

    ``rows[where[j]]`` is the row of atom j, if it is there; ``where[j]`` is −1 if not. There is room for as many
    as fit into memory, and for ``least`` of them at least.
    """

    def __init__(self, atoms: Atoms, is_whole: bool, choices: int, least: int) -> None:
        self._atoms, n_atoms, self._used, self.is_whole = atoms, atoms.shape[1], 0, is_whole
        if is_whole:
            self.rows, self.where = atoms.whole_gram(), np.arange(n_atoms)
        else:
            most = max(GRAM_BYTES // (n_atoms * atoms.dtype.itemsize), least)
            self.rows = np.empty((min(most, choices, n_atoms), n_atoms), atoms.dtype)
            self.where = np.full(n_atoms, -1)

    def make_room(self, count: int) -> None:
        """Forget all rows if ``count`` more might not fit."""
        if not self.is_whole and self._used + count > len(self.rows):
            self._forget()

    def require(self, atoms: Array) -> None:
        """Compute the rows of ``atoms`` that are missing; all others are forgotten if there is no room."""
        if self.is_whole:
            return
        atoms = np.unique(atoms)
        missing = atoms[self.where[atoms] < 0]
        if self._used + missing.size > len(self.rows):
            self._forget()
            missing = atoms
        if missing.size:
            places = slice(self._used, self._used + missing.size)
            self.rows[places] = self._atoms.correlate(self._atoms.rows(missing))
            self.where[missing] = np.arange(places.start, places.stop)
            self._used = places.stop

    def _forget(self) -> None:
        self.where[:] = -1
        self._used = 0


def in_parts(
    code: Callable[[slice], T], count: int, length: int, session: Session | None, is_shared: bool = True
) -> list[T]:
    """``code`` of so many signals, some at a time: on several threads, or in order unless it ``is_shared``."""
    starts, caller = range(0, count, length), get_ident()
    parts: list[Any] = [None] * len(starts)
    if session is not None:
        session.tick("signal", 0, count)

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            parts[i] = code(slice(starts[i], min(starts[i] + length, count)))
            if session is not None and get_ident() == caller:
                session.tick("signal", min((len(parts) - parts.count(None)) * length, count), count)

    if is_shared and len(starts) > 1:
        with one_blas_thread:
            split_work(run, len(starts), 1, shares=len(starts))
    else:
        run(0, len(starts))
    return parts


def as_columns(counts: Array, indices: Array, values: Array, n_atoms: int) -> sp.csc_array:
    """Codes as the columns of a matrix, from their numbers of entries, and these one code after the other."""
    pointers = np.concatenate([[0], np.cumsum(counts)])
    kind = np.int32 if pointers[-1] < 2**31 else np.int64
    return sp.csc_array((values, indices.astype(kind), pointers.astype(kind)), shape=(n_atoms, len(counts)))


def inverse(norms: Array, dtype: np.dtype[Any]) -> Array:
    """1/norm, and 0 for what is zero, or so small that this would overflow."""
    return np.divide(1.0, norms, out=np.zeros(norms.size), where=norms > 1 / np.finfo(dtype).max)


def _as_norms(norms: ArrayLike, dictionary: Array | SparseProduct) -> Array:
    found = as_array("norms", norms).astype(np.float64)
    if found.shape not in ((), dictionary.shape[1:]) or not (found >= 0).all():
        raise ValueError(
            f"norms must be a number or an array of {dictionary.shape[1]}, one per atom, none below 0, got "
            f"{np.array2string(found, threshold=4)}"
        )
    return np.broadcast_to(found, dictionary.shape[1:])


def _have_squares(norms: Array) -> bool:
    """Whether the squares of all norms but zeros neither overflow nor underflow, not even in float32."""
    return bool(((norms == 0) | ((norms > 1e-10) & (norms < 1e10))).all())


class Cost(NamedTuple):
    """The modelled time of correlations Dᴴx in nanoseconds."""

    vector: float  # One signal, by the product.
    product: float  # the same for each signal of a column-major block
    dense: float  # Many signals, by BLAS.

    @property
    def is_fast(self) -> bool:
        """Whether the product is faster, for correlations and, by measurements, also for the whole Gram matrix.

        BLAS uses the symmetry of that matrix, but has to mirror it in memory.
        """
        return self.product < self.dense


# -- norms of a product's columns -----------------------------------------------------------------------


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
