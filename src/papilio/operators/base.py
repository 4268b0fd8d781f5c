"""What a SparseProduct is made of: its immutable state, and how it is turned and composed."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..typing import Array, DTypeLike, MatrixLike
from ..validation import as_dtype, as_real, is_series, working_dtype
from . import csr

if TYPE_CHECKING:
    from .packing import PackedFactor, PackedProduct, PackedSum

Operator = TypeVar("Operator")


@dataclass(slots=True)
class _Derived(Generic[Operator]):
    """What is built from an operator when it is first needed."""

    halves: tuple[Operator, Operator] | None = None  # of which it is the product, if it is one
    packed: "PackedProduct | PackedSum | None" = None
    packed_factors: "list[PackedFactor] | None" = None
    transpose: Operator | None = None
    adjoint: Operator | None = None
    converted: dict[np.dtype[Any], Operator] = field(default_factory=dict)  # to other dtypes


class FactoredOperator(LinearOperator):  # type: ignore[misc]
    """scale · S₁…S_M without its arithmetic; see `SparseProduct`, the one class that users see."""

    _factors: tuple[csr.Factor, ...]
    _scale: float
    _derived: _Derived[Self]
    __iter__ = None  # NumPy would take it for a sequence of vectors, but op[i] is a matrix of one row

    def __init__(self, factors: "Iterable[MatrixLike | FactoredOperator]", scale: float = 1.0) -> None:
        if not is_series(factors):
            raise TypeError(f"factors must be a sequence of matrices, got {type(factors).__name__}")
        scale = as_real("scale", scale)
        matrices: list[csr.Factor] = []
        for i, factor in enumerate(factors):
            if isinstance(factor, FactoredOperator):
                matrices.extend(factor._factors)
                scale = as_real("scale", scale * factor._scale)
            else:
                matrices.append(csr.as_factor(f"factors[{i}]", factor))
        if not matrices:
            raise ValueError("factors must hold at least one matrix, got none")
        for i, (left, right) in enumerate(pairwise(matrices)):
            if left.shape[1] != right.shape[0]:
                raise ValueError(
                    f"factors must chain: factors[{i}] has {left.shape[1]} columns "
                    f"but factors[{i + 1}] has {right.shape[0]} rows"
                )
        dtype = np.result_type(*(matrix.dtype for matrix in matrices))
        self._set([matrix.astype(dtype, copy=False) for matrix in matrices], scale)

    def _set(self, factors: Iterable[csr.Factor], scale: float) -> None:
        frozen = tuple(csr.frozen(factor) for factor in factors)
        # What else SciPy keeps in an operator differs between its versions.
        LinearOperator.__init__(self, frozen[0].dtype, (frozen[0].shape[0], frozen[-1].shape[1]))
        self._factors = frozen
        self._scale = scale
        self._derived = _Derived()  # the last one: nothing can be set from here on

    @classmethod
    def _trusted(cls, factors: Iterable[csr.Factor], scale: float) -> Self:
        """A product of factors that are known to be sound, of one dtype and chained."""
        op = cls.__new__(cls)
        op._set(factors, scale)
        return op

    def __setattr__(self, name: str, value: Any) -> None:
        if "_derived" in self.__dict__:
            raise AttributeError(f"a SparseProduct cannot be changed: {name!r} was not set")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a SparseProduct cannot be changed: {name!r} was not deleted")

    @property
    def factors(self) -> tuple[csr.Factor, ...]:
        """S₁, …, S_M from left to right: csr_arrays, or plain arrays where no entry is zero; all read-only."""
        return tuple(map(csr.shared, self._factors))

    @property
    def scale(self) -> float:
        """The real number in front of the product."""
        return self._scale

    @property
    def nnz(self) -> int:
        """Entries of all factors that are not zero."""
        return sum(factor.size for factor in self._factors)

    @property
    def relative_complexity(self) -> float:
        """nnz / (rows · columns): the cost of applying it, relative to the dense matrix."""
        return self.nnz / (self.shape[0] * self.shape[1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FactoredOperator):
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

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        caller = sys._getframe(1).f_locals
        if caller.get("other") is self and sp.issparse(caller.get("self")):
            # A sparse array, asked for ``array @ op``, leaves it to us only if we do not look like an array.
            unknown = np.empty((), dtype=object)
            unknown[()] = self
            return unknown
        if copy is False:
            raise ValueError("a SparseProduct becomes an array by multiplying its factors, never without a copy")
        return np.asarray(self.toarray(), dtype=dtype)

    def astype(self, dtype: DTypeLike) -> Self:
        """The same operator in another dtype.

        Parameters
        ----------
        dtype : dtype
            float32, float64, complex64 or complex128; a complex operator stays complex.

        Returns
        -------
        SparseProduct
            This operator itself if it has that dtype.

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> pp.transforms.haar(4).astype(np.float32).dtype
        dtype('float32')
        """
        dtype = as_dtype("dtype", dtype)
        if dtype == self.dtype:
            return self
        if working_dtype("dtype", dtype) != dtype:
            raise TypeError(f"dtype must be float32, float64, complex64 or complex128, got {dtype}")
        if self.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"dtype must be complex for a complex operator, got {dtype}")
        with np.errstate(over="ignore"):
            return type(self)([factor.astype(dtype) for factor in self._factors], self._scale)

    def _transpose(self) -> Self:
        if self._derived.transpose is None:
            turned = self._reversed(lambda factor: factor.T, FactoredOperator._transpose)
            turned._derived.transpose, self._derived.transpose = self, turned
        return self._derived.transpose

    def _adjoint(self) -> Self:
        if self.dtype.kind != "c":
            return self._transpose()
        if self._derived.adjoint is None:
            turned = self._reversed(lambda factor: factor.conj().T, FactoredOperator._adjoint)
            turned._derived.adjoint, self._derived.adjoint = self, turned
        return self._derived.adjoint

    def _reversed(self, turn_factor: Callable[[Any], Any], turn_half: Callable[[Self], Self]) -> Self:
        """The turned factors in reverse order; those of the halves, where these may be known already."""
        if self._derived.halves:
            left, right = self._derived.halves
            return turn_half(right)._compose(turn_half(left))
        factors = (turn_factor(factor) for factor in reversed(self._factors))
        return self._trusted([sp.csr_array(f) if sp.issparse(f) else f for f in factors], self._scale)

    def _compose(self, other: Self) -> Self:
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"x must have {self.shape[1]} rows, got an operator of shape {other.shape}")
        dtype = np.result_type(self.dtype, other.dtype)
        halves = self.astype(dtype), other.astype(dtype)
        scale = as_real("scale", self._scale * other._scale)
        product = self._trusted([*halves[0]._factors, *halves[1]._factors], scale)
        product._derived.halves = halves
        return product
