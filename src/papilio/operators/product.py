"""SparseProduct: scale · S₁S₂…S_M as an immutable SciPy LinearOperator."""

import os
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..typing import Array
from ..validation import as_float, as_numbers, as_real, is_scalar, require_finite, working_dtype
from . import csr
from .indexing import is_index, selected

if TYPE_CHECKING:
    from .packing import Application


class SparseProduct(LinearOperator):  # type: ignore[misc]
    """The matrix scale · S₁S₂…S_M, kept and applied as its sparse factors.

    Applying it costs one pass over the entries of the factors, ``nnz`` in all, where the dense matrix would
    cost rows × columns; `relative_complexity` is the ratio of the two (the paper's RC, eq. 5).

    Parameters
    ----------
    factors : sequence of matrices
        S₁, …, S_M from left to right, dense or sparse, real or complex; a SparseProduct stands for its
        factors. They are copied; all take the common dtype. Integers and booleans become float64.
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
    ``op[rows, columns]`` are SparseProducts. A selection takes the chosen rows of the chosen columns (as
    ``numpy.ix_`` would) and keeps two dimensions, except that ``op[i, j]`` with two integers is the entry. Sums
    and everything else are SciPy's lazy operators.

    The factors are applied by one fused kernel, compiled on first use and cached, on as many threads as pay
    (`papilio.set_num_threads`). A complex scalar goes into a factor, as the scale is real; scalars never change
    the precision.

    Examples
    --------
    >>> import papilio as pp
    >>> op = pp.SparseProduct([[[1, 1], [1, -1]], [[1, 0], [0, 3]]], scale=0.5)
    >>> op @ [1, 1]
    array([ 2., -1.])
    """

    _factors: tuple[sp.csr_array, ...]
    _scale: float
    _cache: dict[str, Any]

    def __init__(self, factors: Iterable[Any], scale: float = 1.0) -> None:
        if isinstance(factors, str) or not isinstance(factors, Iterable) or sp.issparse(factors):
            raise TypeError(f"factors must be a sequence of matrices, got {type(factors).__name__}")
        scale = as_real("scale", scale)
        matrices: list[sp.csr_array] = []
        for i, factor in enumerate(factors):
            if isinstance(factor, SparseProduct):
                matrices.extend(factor._factors)
                scale = as_real("scale", scale * factor._scale)
            else:
                matrices.append(csr.as_csr(f"factors[{i}]", factor))
        if not matrices:
            raise ValueError("factors must hold at least one matrix, got none")
        for i, (left, right) in enumerate(pairwise(matrices)):
            if left.shape[1] != right.shape[0]:
                raise ValueError(
                    f"factors must chain: factors[{i}] has {left.shape[1]} columns "
                    f"but factors[{i + 1}] has {right.shape[0]} rows"
                )
        dtype = np.result_type(*matrices)
        self._set([matrix.astype(dtype, copy=False) for matrix in matrices], scale)

    def _set(self, factors: Iterable[sp.csr_array], scale: float) -> None:
        frozen = tuple(csr.frozen(factor) for factor in factors)
        object.__setattr__(self, "_factors", frozen)
        object.__setattr__(self, "_scale", scale)
        object.__setattr__(self, "_cache", {})
        object.__setattr__(self, "shape", (frozen[0].shape[0], frozen[-1].shape[1]))
        object.__setattr__(self, "dtype", frozen[0].dtype)

    @classmethod
    def _trusted(cls, factors: Iterable[sp.csr_array], scale: float) -> Self:
        """A product of csr_arrays that are known to be sound, of one dtype and chained."""
        op = cls.__new__(cls)
        op._set(factors, scale)
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

    def _repr_html_(self) -> str:
        from ..plot.notebook import html

        return html(self)

    def plot(self, target: Any = None, axes: Any = None) -> Any:
        """Draw the factors (`papilio.plot.factors`), or with a target how near they are (`plot.comparison`)."""
        from .. import plot

        return plot.factors(self, axes) if target is None else plot.comparison(target, self, axes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseProduct):
            return NotImplemented
        return (
            self._scale == other._scale
            and self.dtype == other.dtype
            and len(self._factors) == len(other._factors)
            and all(map(csr.same, self._factors, other._factors))
        )

    def __hash__(self) -> int:
        return hash((self._scale, self.shape, self.dtype, len(self._factors)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.factors, self._scale)

    def __copy__(self) -> Self:
        return self

    # -- applying it -----------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        # The shortest way for what is called most: dense vectors and blocks of the operator's own dtype.
        if type(other) is np.ndarray and other.dtype == self.dtype and other.shape[:1] == self.shape[1:]:
            if other.ndim == 1:
                return self._application.vector(other)
            if other.ndim == 2:
                return self._application.block(other)
        if is_scalar(other):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_scalar(other):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        if sp.issparse(other):
            return sp.csr_array(self.T.dot(other.T).T)
        return self.T._times(as_numbers("x", other).T).T

    def dot(self, x: Any) -> Any:
        """This operator times a scalar, a vector, a block of columns, a sparse block or another operator."""
        if isinstance(x, SparseProduct):
            return self._compose(x)
        if is_scalar(x):
            return self._scaled(x)
        if isinstance(x, LinearOperator):
            return super().dot(x)
        if not sp.issparse(x):
            return self._times(as_numbers("x", x))
        if x.ndim != 2 or x.shape[0] != self.shape[1]:
            raise ValueError(f"x must be a block of {self.shape[1]} rows, got shape {x.shape}")
        block = sp.csr_array(x, dtype=working_dtype("x", x.dtype))
        product = reduce(lambda right, left: left @ right, reversed(self._factors), block)
        return product * product.dtype.type(self._scale)

    def _times(self, x: Array) -> Array:
        """The fused product with a dense vector or block of any dtype and layout."""
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ValueError(
                f"x must be a vector of {self.shape[1]} entries or a block of as many rows, got shape {x.shape}"
            )
        dtype = np.result_type(self.dtype, x.dtype)
        if dtype.kind == "c" and self.dtype.kind != "c":
            # A real operator sees real and imaginary parts as two columns.
            parts = np.ascontiguousarray(x, dtype=dtype).reshape(x.shape[0], -1).view(dtype.type(0).real.dtype)
            return self._times(parts).view(dtype).reshape(self.shape[:1] + x.shape[1:])
        op = self._cache.get(dtype.str) or self._cache.setdefault(dtype.str, self.astype(dtype))
        application = op._application
        x = x.astype(dtype, copy=False)
        return application.vector(x) if x.ndim == 1 else application.block(x)

    @property
    def _application(self) -> "Application":
        application = self._cache.get("application")
        if application is None:
            from .packing import Application  # loads numba, which `import papilio` does not

            application = self._cache["application"] = Application(self._factors, self._scale, self._forms())
        return application

    def _forms(self) -> list[Any]:
        """How the kernels see each factor; products take over what their parts know."""
        forms: list[Any] | None = self._cache.get("forms")
        if forms is None:
            from .packing import form_of

            parts = self._cache.get("parts")
            forms = [*parts[0]._forms(), *parts[1]._forms()] if parts else [form_of(f) for f in self._factors]
            self._cache["forms"] = forms
        return forms

    def _matvec(self, x: Array) -> Array:
        return self._times(as_numbers("x", x).reshape(-1))

    def _matmat(self, X: Array) -> Array:
        return self.dot(X)

    def _rmatvec(self, x: Array) -> Array:
        return self.H._matvec(x)

    def _rmatmat(self, X: Array) -> Array:
        return self.H._matmat(X)

    def _transpose(self) -> "SparseProduct":
        return self._turned("T", conjugated=False)

    def _adjoint(self) -> "SparseProduct":
        return self._turned("H", conjugated=True) if self.dtype.kind == "c" else self._transpose()

    def _turned(self, name: str, conjugated: bool) -> "SparseProduct":
        """The transpose or adjoint, built once; turned again it is this operator."""
        turned = self._cache.get(name)
        if turned is None:
            parts = self._cache.get("parts")
            if parts:
                turned = parts[1]._turned(name, conjugated)._compose(parts[0]._turned(name, conjugated))
            else:
                factors = [f.conj() for f in self._factors] if conjugated else self._factors
                turned = self._trusted([sp.csr_array(f.T) for f in reversed(factors)], self._scale)
            turned._cache[name] = self
            self._cache[name] = turned
        return turned

    def conj(self) -> "SparseProduct":
        """The complex conjugate."""
        return self._adjoint()._transpose()

    def __mul__(self, other: Any) -> Any:
        return self.dot(other)

    def __rmul__(self, other: Any) -> Any:
        return self._scaled(other) if is_scalar(other) else self.__rmatmul__(other)

    def __truediv__(self, other: Any) -> Any:
        if not is_scalar(other):
            return NotImplemented
        if not other:
            raise ZeroDivisionError("a SparseProduct cannot be divided by zero")
        if np.iscomplexobj(other):
            return self._scaled(1 / complex(other))
        return self._trusted(self._factors, as_real("scale", self._scale / as_float("scale", other)))

    def __neg__(self) -> "SparseProduct":
        return self._trusted(self._factors, -self._scale)

    def _scaled(self, number: Any) -> "SparseProduct":
        """A real number goes into the scale; a complex one into the smallest factor (the scale is real)."""
        if not np.iscomplexobj(number):
            return self._trusted(self._factors, as_real("scale", self._scale * as_float("scale", number)))
        require_finite("scale", np.asarray(number))
        factors = list(self.astype(np.result_type(self.dtype, np.complex64))._factors)
        smallest = min(range(len(factors)), key=lambda i: factors[i].nnz)
        with np.errstate(over="ignore"):
            factors[smallest] = factors[smallest] * factors[smallest].dtype.type(number)
        require_finite("scale", factors[smallest].data)
        factors[smallest].eliminate_zeros()
        return self._trusted(factors, self._scale)

    def _compose(self, other: "SparseProduct") -> "SparseProduct":
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"x must have {self.shape[1]} rows, got an operator of shape {other.shape}")
        dtype = np.result_type(self.dtype, other.dtype)
        parts = self.astype(dtype), other.astype(dtype)
        scale = as_real("scale", self._scale * other._scale)
        product = self._trusted([*parts[0]._factors, *parts[1]._factors], scale)
        product._cache["parts"] = parts
        return product

    # -- parts and forms of it -------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) > 2:
            raise IndexError(f"a SparseProduct has 2 dimensions, got {len(parts)} indices")
        rows, columns = (*parts, slice(None), slice(None))[:2]
        if np.shape(rows)[1:] == (1,) and np.shape(columns)[:1] == (1,) and np.ndim(columns) == 2:
            rows, columns = np.ravel(rows), np.ravel(columns)  # the two parts of numpy.ix_
        row_indices = selected("rows", rows, self.shape[0])
        column_indices = selected("columns", columns, self.shape[1])
        factors = list(self._factors)
        if row_indices is not None:
            factors[0] = sp.csr_array(factors[0][row_indices, :])
        if column_indices is not None:
            factors[-1] = sp.csr_array(factors[-1][:, column_indices])
        part = self._trusted(factors, self._scale)
        return part.toarray()[0, 0] if is_index(rows) and is_index(columns) else part

    def toarray(self) -> Array:
        """The dense matrix."""
        if self.shape[0] < self.shape[1]:
            return self.T.toarray().T
        *others, last = self._factors
        if not others:
            return self._times(np.eye(self.shape[1], dtype=self.dtype))
        rest = self._trusted(others, self._scale)
        rest._cache["forms"] = self._forms()[:-1]
        return rest @ last.toarray()

    def astype(self, dtype: Any) -> "SparseProduct":
        """The same operator in float32, float64, complex64 or complex128."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if working_dtype("dtype", dtype) != dtype:
            raise TypeError(f"dtype must be float32, float64, complex64 or complex128, got {dtype}")
        if self.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"dtype must be complex for a complex operator, got {dtype}")
        with np.errstate(over="ignore"):
            return type(self)([factor.astype(dtype) for factor in self._factors], self._scale)

    def optimized(self) -> "SparseProduct":
        """An equal operator (up to rounding) that is faster to apply.

        Neighbouring factors are multiplied out wherever a model of the kernels says that this saves time; the
        model is fixed, so that the same operator always gives the same result. An operator that cannot be made
        faster is returned itself.
        """
        from .packing import merged

        factors = merged(self._factors)
        return self if len(factors) == len(self._factors) else self._trusted(factors, self._scale)

    def norm(self, ord: int | str = "fro") -> float:
        """The Frobenius norm (``ord="fro"``) or the spectral norm (``ord=2``), as ``numpy.linalg.norm``.

        The spectral norm is found by Lanczos iteration on the factors; the matrix is not formed. The
        Frobenius norm forms it, a block of columns at a time.
        """
        from .norms import norm_of

        return norm_of(self, ord)

    # -- keeping it ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the operator to ``path``, an npz file without pickle. `papilio.load` reads it back."""
        from .storage import save

        save(self, path)
