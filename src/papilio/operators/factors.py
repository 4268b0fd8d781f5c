"""Valid factors, and chains of them.

A factor is a csr_array with every index in range and in order, or a plain array where no entry is zero.
Every value is finite, and arrays are read-only. Kernels index without bounds checks, so whatever comes from a user
or a file passes through here first.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import ReferenceType, ref

import numpy as np
import scipy.sparse as sp

from ..linalg import wide
from ..typing import Array
from ..validation import as_matrix, as_sparse, require_finite, working_dtype

if TYPE_CHECKING:
    from .engine import PackedFactor

Factor: TypeAlias = sp.csr_array | Array

_LARGEST = 2**31 - 1  # rows, columns: what a 32-bit index can name
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


class Link:
    """A factor of a product, with what is made from it when it is first needed: packed for the engine, and turned.

    Products that have a factor in common share its link: multiples, selections, compositions, and what is turned
    twice.
    """

    __slots__ = ("__weakref__", "_packed", "_turned", "factor")

    def __init__(self, factor: "Factor") -> None:
        self.factor = factor  # It comes from `frozen`.
        self._packed: PackedFactor | None = None
        self._turned: dict[str, Link | ReferenceType[Link]] = {}

    def packed(self) -> "PackedFactor":
        if self._packed is None:
            from .engine import PackedFactor  # loads numba, which `import papilio` does not

            self._packed = PackedFactor(self.factor)
        return self._packed

    def transpose(self) -> "Link":
        return turned_once(self, self._turned, "transpose", lambda: Link(frozen(_turned(self.factor.T))))

    def adjoint(self) -> "Link":
        if self.factor.dtype.kind != "c":
            return self.transpose()
        return turned_once(self, self._turned, "adjoint", lambda: Link(frozen(_turned(self.factor.conj().T))))


T = TypeVar("T")


def turned_once(original: T, known: dict[Any, Any], name: str, turn: Callable[[], T]) -> T:
    """``turn()``, made once; turned again, it is the original, as long as that is there.

    What is turned refers to the original weakly: a cycle would keep the memory of both until the garbage collector
    runs.
    """
    found: Any = known.get(name)
    if isinstance(found, ReferenceType):
        found = found()
    if found is None:
        found = known[name] = turn()
        found._turned[name] = ref(original)
    return found


def _turned(factor: "Factor") -> "Factor":
    return sp.csr_array(factor) if sp.issparse(factor) else factor


def as_csr(name: str, value: Any) -> sp.csr_array:
    """A copy of ``value`` as csr_array: two dimensions, finite, no duplicates, no zeros."""
    if not sp.issparse(value):
        return sp.csr_array(as_matrix(name, value))
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, got shape {value.shape}")
    matrix = sp.csr_array(as_sparse(name, value), copy=True)
    with np.errstate(over="ignore"):
        matrix.sum_duplicates()
    require_finite(name, matrix.data)
    matrix.eliminate_zeros()
    return matrix


def as_factor(name: str, value: Any) -> Factor:
    """A copy of ``value``, as it is stored: a plain array if no entry is zero, else a csr_array."""
    if sp.issparse(value):
        return as_csr(name, value)
    matrix = as_matrix(name, value)
    return matrix.copy("K") if matrix.all() else sp.csr_array(matrix)


def to_dense(factor: Factor) -> Array:
    """``factor`` as a plain array."""
    return factor if isinstance(factor, np.ndarray) else factor.toarray()


def to_csr(factor: Factor) -> sp.csr_array:
    """``factor`` as a csr_array."""
    return sp.csr_array(factor) if isinstance(factor, np.ndarray) else factor


def entries(factor: Factor) -> Array:
    """The values of the entries that are not zero, in any order."""
    return factor.ravel("K") if isinstance(factor, np.ndarray) else factor.data


def scaled(factor: Factor, scale: float) -> Factor:
    """``factor`` times the scale, which is a float64 in any precision."""
    if scale == 1.0:
        return factor
    with np.errstate(over="ignore", invalid="ignore"):  # Any product may overflow.
        return (factor.astype(wide(factor.dtype)) * scale).astype(factor.dtype)


def from_parts(name: str, data: Array, indices: Array, indptr: Array, shape: Array) -> sp.csr_array:
    """The csr_array of arrays that a file holds, after a check of everything that a kernel relies on."""
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or not ((shape >= 1) & (shape <= _LARGEST)).all():
        raise ValueError(f"{name} has shape {shape}")
    if data.ndim != 1 or working_dtype(name, data.dtype) != data.dtype:
        raise ValueError(f"{name} has values of dtype {data.dtype} in {data.ndim} dimensions")
    for part, array in (("indices", indices), ("indptr", indptr)):
        if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
            raise ValueError(f"{name} has {part} of dtype {array.dtype} in {array.ndim} dimensions")
    if indptr.size == 0 or indptr[-1] != data.size:
        raise ValueError(f"{name} has {data.size} entries, and other line pointers")
    try:
        matrix = sp.csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{name} is broken: {error}") from None
    if not matrix.has_canonical_format:
        raise ValueError(f"{name} has indices that are not in order")
    return matrix


def frozen(factor: Factor) -> Factor:
    """``factor`` as it is stored, on read-only arrays."""
    if isinstance(factor, np.ndarray):
        if not factor.flags.writeable:
            return factor
        if not factor.all():
            return frozen(sp.csr_array(factor))
        factor.flags.writeable = False
        return factor
    if factor.data.flags.writeable:
        if not factor.data.all():
            factor.eliminate_zeros()
        if factor.nnz == factor.shape[0] * factor.shape[1]:
            return frozen(factor.toarray())
        factor.sort_indices()
        for array in (factor.data, factor.indices, factor.indptr):
            array.flags.writeable = False
    return factor


def shared(factor: Factor) -> Factor:
    """A read-only view of the factor."""
    if isinstance(factor, np.ndarray):
        return factor.view()
    return sp.csr_array((factor.data, factor.indices, factor.indptr), shape=factor.shape, copy=False)


def same(left: Factor, right: Factor) -> bool:
    """Whether two frozen factors are equal, place by place."""
    if left.shape != right.shape or sp.issparse(left) != sp.issparse(right):
        return False
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    return all(np.array_equal(getattr(left, part), getattr(right, part)) for part in ("indptr", "indices", "data"))


# -- chains --------------------------------------------------------------------------------------------


class Chain:
    """scale · S₁…S_M with sparse factors, applied one after the other by SciPy."""

    def __init__(self, factors: Sequence[Factor], scale: float) -> None:
        self._factors = [*factors[:0:-1], scaled(factors[0], scale)]  # They are in the order of application.

    def vector(self, x: Array) -> Array:
        return reduce(lambda y, factor: factor @ y, self._factors, x)

    def block(self, X: Array) -> Array:
        """The product with a block, row-major for row-major X and column-major for column-major X."""
        Y = self.vector(X)
        return Y if X.flags.c_contiguous or not X.flags.f_contiguous else np.asfortranarray(Y)


def without_rounding(factor: sp.csr_array) -> sp.csr_array:
    """``factor`` without entries that are rounding errors relative to its largest one."""
    sizes = np.abs(factor.data)
    if not sizes.size or sizes.min() > _ROUNDING * sizes.max():
        return factor
    factor = factor.copy()
    factor.data[sizes <= _ROUNDING * sizes.max()] = 0
    factor.eliminate_zeros()
    return factor


def pruned(factors: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """The same product without inner rows that no factor reads and inner columns that only meet zeros."""
    chain = [factor.copy() for factor in factors]
    for factor in chain:
        factor.eliminate_zeros()
    for i in range(len(chain) - 1):
        read = np.unique(chain[i].indices)
        chain[i : i + 2] = chain[i][:, read], chain[i + 1][read]
    for i in reversed(range(len(chain) - 1)):
        filled = np.flatnonzero(np.diff(chain[i + 1].indptr))
        chain[i : i + 2] = chain[i][:, filled], chain[i + 1][filled]
    return chain


def joined(factors: Sequence[sp.csr_array]) -> list[sp.csr_array]:
    """The same product with neighbours multiplied out where that saves entries.

    Dynamic programming over where groups of neighbours end. A group does not grow once its product has more than
    twice as many entries as its factors.
    """
    best: list[tuple[int, list[sp.csr_array]]] = [(0, [])]
    for end in range(1, len(factors) + 1):
        options: list[tuple[int, list[sp.csr_array]]] = []
        apart, product = 0, None
        for begin in reversed(range(end)):
            factor = factors[begin]
            product = factor if product is None else without_rounding(factor @ product)
            options.append((best[begin][0] + product.nnz, [*best[begin][1], product]))
            apart += factor.nnz
            if product.nnz > 2 * apart:
                break
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]
