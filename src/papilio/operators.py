"""SparseProduct: scale · S₁S₂…S_M as an immutable SciPy LinearOperator."""

import numbers
import os
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from .io import read_arrays, write_arrays
from .linalg import frobenius
from .validation import Array, as_integer, as_matrix, as_numbers, as_real, require_finite, working_dtype

_FORMAT = "papilio.SparseProduct"
_FORMAT_VERSION = 1
_BLOCK_ENTRIES = 1 << 22  # columns formed at once by `norm("fro")`: 32 MB of float64


class SparseProduct(LinearOperator):  # type: ignore[misc]
    """The matrix scale · S₁S₂…S_M, kept and applied as its sparse factors.

    Applying it costs one pass over the entries of the factors, ``nnz`` in all, where the dense matrix would
    cost rows × columns; `relative_complexity` is the ratio of the two (the paper's RC, eq. 5).

    Parameters
    ----------
    factors : sequence of matrices
        S₁, …, S_M from left to right, dense or sparse, real or complex. They are copied; all take the
        common dtype. Integers and booleans become float64.
    scale : float
        A real number in front of the product.

    Attributes
    ----------
    factors : tuple of scipy.sparse.csr_array
    scale : float
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    nnz : int
        Stored entries of all factors.
    relative_complexity : float
        nnz / (rows · columns).

    Notes
    -----
    ``op @ x`` takes vectors, blocks of columns, sparse blocks (the result is then sparse) and other
    SparseProducts (the result is then one too). ``2 * op``, ``op / 2``, ``-op``, ``op.T``, ``op.H`` and
    ``op[rows, columns]`` are SparseProducts; a selection always keeps two dimensions, except that
    ``op[i, j]`` with two integers is the entry. Sums and everything else are SciPy's lazy operators.

    Examples
    --------
    >>> import papilio as pp
    >>> op = pp.SparseProduct([[[1, 1], [1, -1]], [[1, 0], [0, 3]]], scale=0.5)
    >>> op @ [1, 1]
    array([ 2., -1.])
    """

    _factors: tuple[sp.csr_array, ...]
    _scale: float

    def __init__(self, factors: Iterable[Any], scale: float = 1.0) -> None:
        if isinstance(factors, str) or not isinstance(factors, Iterable) or sp.issparse(factors):
            raise TypeError(f"factors must be a sequence of matrices, got {type(factors).__name__}")
        matrices = [_as_csr(f"factors[{i}]", factor) for i, factor in enumerate(factors)]
        if not matrices:
            raise ValueError("factors must hold at least one matrix, got none")
        for i, (left, right) in enumerate(pairwise(matrices)):
            if left.shape[1] != right.shape[0]:
                raise ValueError(
                    f"factors must chain: factors[{i}] has {left.shape[1]} columns "
                    f"but factors[{i + 1}] has {right.shape[0]} rows"
                )
        dtype = np.result_type(*matrices)
        self._set(tuple(_frozen(matrix.astype(dtype, copy=False)) for matrix in matrices), as_real("scale", scale))

    def _set(self, factors: tuple[sp.csr_array, ...], scale: float) -> None:
        object.__setattr__(self, "_factors", factors)
        object.__setattr__(self, "_scale", scale)
        object.__setattr__(self, "shape", (factors[0].shape[0], factors[-1].shape[1]))
        object.__setattr__(self, "dtype", factors[0].dtype)

    @classmethod
    def _trusted(cls, factors: Iterable[sp.csr_array], scale: float) -> Self:
        """A product of csr_arrays that are known to be sound, of one dtype and chained."""
        op = cls.__new__(cls)
        op._set(tuple(_frozen(factor) for factor in factors), scale)
        return op

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a SparseProduct cannot be changed: {name!r} was not set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a SparseProduct cannot be changed: {name!r} was not deleted")

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def factors(self) -> tuple[sp.csr_array, ...]:
        """S₁, …, S_M from left to right. Their arrays are read-only."""
        return tuple(
            sp.csr_array((factor.data, factor.indices, factor.indptr), shape=factor.shape, copy=False)
            for factor in self._factors
        )

    @property
    def scale(self) -> float:
        return self._scale

    @property
    def nnz(self) -> int:
        return sum(factor.nnz for factor in self._factors)

    @property
    def relative_complexity(self) -> float:
        return self.nnz / (self.shape[0] * self.shape[1])

    def __repr__(self) -> str:
        sizes = [self.shape[0], *(factor.shape[1] for factor in self._factors)]
        chain = "×".join(map(str, sizes)) if len(sizes) <= 6 else f"{sizes[0]}×{sizes[1]}×…×{sizes[-1]}"
        count = len(self._factors)
        return (
            f"<SparseProduct {self.shape[0]}×{self.shape[1]} {self.dtype}: {count} factor{'s' * (count > 1)} "
            f"({chain}), {self.nnz} entries, relative complexity {self.relative_complexity:.4g}>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseProduct):
            return NotImplemented
        return (
            self._scale == other._scale
            and self.dtype == other.dtype
            and len(self._factors) == len(other._factors)
            and all(map(_same_matrix, self._factors, other._factors))
        )

    def __hash__(self) -> int:
        return hash((self._scale, self.shape, self.dtype, len(self._factors)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.factors, self._scale)

    def __copy__(self) -> Self:
        return self

    # -- applying it -----------------------------------------------------------------------------------

    def _chain(self, block: Any) -> Any:
        for factor in reversed(self._factors):
            block = factor @ block
        return block if self._scale == 1.0 else block * self._scale_as(block.dtype)

    def _scale_as(self, dtype: np.dtype[Any]) -> Any:
        return dtype.type(self._scale)

    def _matvec(self, x: Array) -> Array:
        return self._chain(x)

    def _matmat(self, X: Array) -> Array:
        return self._chain(X)

    def _rmatvec(self, x: Array) -> Array:
        return self.H._chain(x)

    def _rmatmat(self, X: Array) -> Array:
        return self.H._chain(X)

    def _transpose(self) -> "SparseProduct":
        return self._trusted([sp.csr_array(factor.T) for factor in reversed(self._factors)], self._scale)

    def _adjoint(self) -> "SparseProduct":
        if self.dtype.kind != "c":
            return self._transpose()
        return self._trusted([sp.csr_array(factor.conj().T) for factor in reversed(self._factors)], self._scale)

    def dot(self, x: Any) -> Any:
        """This operator times a scalar, a vector, a block of columns, a sparse block or another operator."""
        if isinstance(x, SparseProduct):
            return self._compose(x)
        if isinstance(x, numbers.Number):
            return self._scaled(x)
        if sp.issparse(x):
            if x.ndim != 2 or x.shape[0] != self.shape[1]:
                raise ValueError(f"x must be a block of {self.shape[1]} rows, got shape {x.shape}")
            return self._chain(sp.csr_array(x, dtype=working_dtype("x", x.dtype)))
        if isinstance(x, LinearOperator):
            return super().dot(x)
        return super().dot(as_numbers("x", x))

    def __matmul__(self, other: Any) -> Any:
        if isinstance(other, numbers.Number):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        return self.dot(other)

    def __mul__(self, other: Any) -> Any:
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        if isinstance(other, numbers.Number):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        return (self.T.dot(other.T if sp.issparse(other) else as_numbers("x", other).T)).T

    def __rmul__(self, other: Any) -> Any:
        return self._scaled(other) if isinstance(other, numbers.Number) else self.__rmatmul__(other)

    def __truediv__(self, other: Any) -> Any:
        if not isinstance(other, numbers.Number):
            return NotImplemented
        if not other:
            raise ZeroDivisionError("a SparseProduct cannot be divided by zero")
        return self._scaled(1 / other)  # type: ignore[operator]

    def __neg__(self) -> "SparseProduct":
        return self._trusted(self._factors, -self._scale)

    def _scaled(self, number: Any) -> "SparseProduct":
        """A real number goes into the scale; a complex one into the smallest factor (the scale is real)."""
        if not isinstance(number, complex | np.complexfloating):
            return self._trusted(self._factors, as_real("scale", self._scale * number))
        require_finite("scale", np.asarray(number))
        factors = list(self.astype(np.result_type(self.dtype, np.complex64))._factors)
        smallest = min(range(len(factors)), key=lambda i: factors[i].nnz)
        factors[smallest] = factors[smallest] * factors[smallest].dtype.type(number)
        return self._trusted(factors, self._scale)

    def _compose(self, other: "SparseProduct") -> "SparseProduct":
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"shapes {self.shape} and {other.shape} do not chain")
        dtype = np.result_type(self.dtype, other.dtype)
        factors = [*self.astype(dtype)._factors, *other.astype(dtype)._factors]
        return self._trusted(factors, as_real("scale", self._scale * other._scale))

    # -- parts and forms of it -------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) > 2:
            raise IndexError(f"a SparseProduct has 2 dimensions, got {len(parts)} indices")
        rows, columns = (*parts, slice(None))[:2]
        row_indices = _selected("rows", rows, self.shape[0])
        column_indices = _selected("columns", columns, self.shape[1])
        factors = list(self._factors)
        if row_indices is not None:
            factors[0] = factors[0][row_indices, :]
        if column_indices is not None:
            factors[-1] = factors[-1][:, column_indices]
        part = self._trusted(map(sp.csr_array, factors), self._scale)
        if isinstance(rows, numbers.Integral) and isinstance(columns, numbers.Integral):
            return part.toarray()[0, 0]
        return part

    def toarray(self) -> Array:
        """The dense matrix."""
        if self.shape[0] < self.shape[1]:
            return self.T._chain(np.eye(self.shape[0], dtype=self.dtype)).T
        return self._chain(np.eye(self.shape[1], dtype=self.dtype))

    def astype(self, dtype: Any) -> "SparseProduct":
        """The same operator in float32, float64, complex64 or complex128."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if working_dtype("dtype", dtype) != dtype:
            raise TypeError(f"dtype must be float32, float64, complex64 or complex128, got {dtype}")
        if self.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"dtype must be complex for a complex operator, got {dtype}")
        return type(self)([factor.astype(dtype) for factor in self._factors], self._scale)

    def norm(self, ord: int | str = "fro") -> float:
        """The Frobenius norm (``ord="fro"``) or the spectral norm (``ord=2``), as ``numpy.linalg.norm``.

        The spectral norm is found by Lanczos iteration on the factors; the matrix is not formed. The
        Frobenius norm forms it, a block of columns at a time.
        """
        if ord == 2:
            return self._spectral_norm()
        if ord != "fro":
            raise ValueError(f"ord must be 2 or 'fro', got {ord!r}")
        op = self if self.shape[1] <= self.shape[0] else self.T
        width = max(1, _BLOCK_ENTRIES // op.shape[0])
        blocks = range(0, op.shape[1], width)
        return frobenius(np.array([frobenius(op[:, start : start + width].toarray()) for start in blocks]))

    def _spectral_norm(self) -> float:
        if min(self.shape) == 1:
            return self.norm("fro")
        start = np.random.default_rng(0).standard_normal(min(self.shape))
        wide = self.astype(np.result_type(self.dtype, np.float64))
        if not np.any(wide @ np.ones(self.shape[1])) and wide.norm("fro") == 0.0:
            return 0.0  # Lanczos cannot start on a zero operator
        # The scale stands apart, so that very large and very small ones do not leave the number range.
        unscaled = self._trusted(wide._factors, 1.0)
        return abs(self._scale) * float(svds(unscaled, k=1, v0=start, return_singular_vectors=False)[0])

    # -- keeping it ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the operator to ``path``, an npz file without pickle. `papilio.load` reads it back."""
        arrays: dict[str, Any] = {
            "format": np.array(_FORMAT),
            "version": np.array(_FORMAT_VERSION),
            "scale": np.array(self._scale),
            "n_factors": np.array(len(self._factors)),
        }
        for i, factor in enumerate(self._factors):
            arrays[f"shape_{i}"] = np.array(factor.shape, dtype=np.int64)
            arrays[f"data_{i}"] = factor.data
            arrays[f"indices_{i}"] = factor.indices
            arrays[f"indptr_{i}"] = factor.indptr
        write_arrays(path, arrays)


def load(path: str | os.PathLike[str]) -> SparseProduct:
    """The SparseProduct that `SparseProduct.save` wrote to ``path``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, was not written by papilio, or holds anything but a sound SparseProduct.
    """
    arrays = read_arrays(path)
    try:
        return _from_arrays(arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        detail = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{os.fspath(path)!r} does not hold a sound SparseProduct: {detail}") from error


def _from_arrays(arrays: dict[str, Array]) -> SparseProduct:
    if arrays["format"].shape or str(arrays["format"]) != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT!r}")
    if arrays["version"].shape or int(arrays["version"]) != _FORMAT_VERSION:
        raise ValueError(f"its version is {arrays['version']}, this papilio reads {_FORMAT_VERSION}")
    count = as_integer("n_factors", arrays["n_factors"][()], 1, len(arrays))
    names = [f"{part}_{i}" for i in range(count) for part in ("shape", "data", "indices", "indptr")]
    unknown = set(arrays) - {"format", "version", "scale", "n_factors", *names}
    if unknown:
        raise ValueError(f"{sorted(unknown)[0]!r} is unknown")
    factors = []
    for i in range(count):
        parts = (arrays[f"{part}_{i}"] for part in ("data", "indices", "indptr", "shape"))
        factors.append(_checked_csr(f"factor {i}", *parts))
    if len({factor.dtype for factor in factors}) > 1:
        raise ValueError("its factors have different dtypes")
    return SparseProduct(factors, as_real("scale", arrays["scale"]))


def _checked_csr(name: str, data: Array, indices: Array, indptr: Array, shape: Array) -> sp.csr_array:
    """The csr_array of these parts, after a check of everything that a kernel would rely on."""
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or not (shape >= 1).all():
        raise ValueError(f"{name} has shape {shape}")
    n_rows, n_columns = map(int, shape)
    if data.ndim != 1 or working_dtype(name, data.dtype) != data.dtype:
        raise ValueError(f"{name} has values of dtype {data.dtype} in {data.ndim} dimensions")
    for part, array in (("indices", indices), ("indptr", indptr)):
        if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
            raise ValueError(f"{name} has {part} of dtype {array.dtype} in {array.ndim} dimensions")
    if indptr.size != n_rows + 1 or indptr[0] != 0 or indptr[-1] != data.size or (np.diff(indptr) < 0).any():
        raise ValueError(f"{name} has row pointers that do not fit its {n_rows} rows and {data.size} entries")
    if indices.size != data.size or (indices < 0).any() or (indices >= n_columns).any():
        raise ValueError(f"{name} has column indices outside its {n_columns} columns")
    steps = np.diff(indices)
    inside_row = np.ones(steps.size, dtype=bool)
    starts = indptr[1:-1]
    inside_row[starts[(starts > 0) & (starts < data.size)] - 1] = False
    if (steps[inside_row] <= 0).any():
        raise ValueError(f"{name} has column indices that are not in order")
    return sp.csr_array((data, indices, indptr), shape=(n_rows, n_columns))


def _as_csr(name: str, value: Any) -> sp.csr_array:
    """A copy of ``value`` as a sound csr_array: numbers, finite, two dimensions, no duplicates, no zeros."""
    if not sp.issparse(value):
        return sp.csr_array(as_matrix(name, value))
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} must be a matrix with rows and columns, got shape {value.shape}")
    matrix = sp.csr_array(value, dtype=working_dtype(name, value.dtype), copy=True)
    matrix.check_format(full_check=True)
    require_finite(name, matrix.data)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _frozen(matrix: sp.csr_array) -> sp.csr_array:
    """``matrix`` with sorted indices, on read-only arrays."""
    if not matrix.data.flags.writeable:
        return matrix
    matrix.sort_indices()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _same_matrix(left: sp.csr_array, right: sp.csr_array) -> bool:
    return left.shape == right.shape and all(
        np.array_equal(getattr(left, part), getattr(right, part)) for part in ("indptr", "indices", "data")
    )


def _selected(name: str, key: Any, size: int) -> Array | None:
    """The indices that ``key`` selects along an axis of ``size``; None for all of them."""
    if key is Ellipsis or (isinstance(key, slice) and key == slice(None)):
        return None
    if isinstance(key, slice):
        return np.arange(size)[key]
    indices = np.asarray(key)
    if indices.dtype == bool:
        if indices.shape != (size,):
            raise IndexError(f"a boolean mask of {name} must have shape ({size},), got {indices.shape}")
        return np.flatnonzero(indices)
    if indices.size == 0:
        indices = indices.astype(np.intp)
    if indices.ndim > 1 or indices.dtype.kind not in "iu":
        raise IndexError(f"{name} must be selected by integers, slices or booleans, got {key!r}")
    indices = np.atleast_1d(indices).astype(np.intp)
    if ((indices < -size) | (indices >= size)).any():
        raise IndexError(f"index out of range for {size} {name}: {key!r}")
    return np.where(indices < 0, indices + size, indices)
