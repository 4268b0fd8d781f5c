"""SparseProduct: scale · S₁S₂…S_M as an immutable SciPy LinearOperator."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..linalg import wide
from ..typing import Array, ArrayLike, DTypeLike, MatrixLike, Path
from ..validation import (
    as_dtype,
    as_float,
    as_numbers,
    as_real,
    as_sparse,
    is_scalar,
    is_series,
    require_finite,
    working_dtype,
)
from .factors import (
    Chain,
    Factor,
    Link,
    as_factor,
    entries,
    frozen,
    same,
    scaled,
    shared,
    to_csr,
    to_dense,
    turned_once,
)

if TYPE_CHECKING:
    import pyfaust
    import pylops

    from ..torch import FastLinear
    from .engine import Packed
    from .portable import PortableProduct

_FEW_VECTORS = 32  # packing takes as long as applying the factors, one by one, to some dozens
_LONG_TO_PACK = 10_000  # entries: packing takes more than some milliseconds


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
    factors : tuple of scipy.sparse.csr_array and numpy.ndarray
        Plain arrays where no entry is zero.
    scale : float
    shape : tuple of int
    dtype : numpy.dtype
        float32, float64, complex64 or complex128.
    nnz : int
        Entries of all factors that are not zero.
    relative_complexity : float
        nnz / (rows · columns).

    Notes
    -----
    ``op @ x`` takes vectors, blocks of columns, batches of blocks (the last two axes are a block, as in NumPy),
    sparse blocks (the result is then sparse) and other SparseProducts (the result is then one too). Arrays of
    PyTorch, JAX, CuPy and others of the array API give arrays of the same library and device. ``2 * op``,
    ``op / 2``, ``-op``, ``op.T``, ``op.H`` and ``op[rows, columns]`` are SparseProducts. A selection takes the
    chosen rows of the chosen columns (as ``numpy.ix_`` would) and keeps two dimensions, except that ``op[i, j]``
    with two integers is the entry. ``numpy.asarray(op)`` is the dense matrix, which is also what NumPy's functions
    take an operator for, unless they refuse it. SciPy's sparse arrays do so, too: ``A @ op`` is a dense array, and
    ``(op.T @ A.T).T`` a sparse one. ``op == 0`` is true if the operator is zero.

    Sums and differences of two SparseProducts are SparseProducts: [A₁ B₁] · diag(A₂, B₂) ⋯ [A_M; B_M], with the
    entries of both; first and last factors that both have stand once, and the shorter chain is filled up with
    identities, as in `hstack`. Sums with other operators, powers and everything else are SciPy's lazy operators.
    ``op.real`` and ``op.imag`` are products of real factors. Those inside have up to four times the entries, the
    first and the last one twice; what only meets zeros is left out.

    Sparse factors are applied by one fused kernel, compiled on first use and cached, on as many threads as pay
    (`papilio.set_num_threads`); dense ones by BLAS where that is faster. The first product packs the factors,
    which takes as long as some products with a block, or some hundred with one vector. Operators of more than
    100,000 entries do so when they have been applied to 32 vectors; until then SciPy applies one factor after the
    other, and results may differ from later ones by rounding errors. Operators that share factors, such as
    ``2 * op``, ``op[rows]`` and ``op @ other``, share what is packed; ``op.T`` packs its own.
    Zeros may take part in sums, as in a dense matrix: an infinite entry of ``x`` may give NaN in any row. A
    complex scalar goes into a factor, as the scale is real; scalars never change the precision.

    Examples
    --------
    >>> import papilio as pp
    >>> op = pp.SparseProduct([[[1, 1], [1, -1]], [[1, 0], [0, 3]]], scale=0.5)
    >>> op @ [1, 1]
    array([ 2., -1.])
    """

    _links: tuple[Link, ...]
    _scale: float
    _cache: dict[Any, Any]  # Packed and transposed forms, and those in other dtypes, made on first use.
    __iter__ = None  # NumPy would take it for a sequence of vectors, but op[i] is a matrix of one row

    def __init__(self, factors: "Iterable[MatrixLike | SparseProduct]", scale: float = 1.0) -> None:
        if not is_series(factors):
            raise TypeError(f"factors must be a sequence of matrices, got {type(factors).__name__}")
        scale = as_real("scale", scale)
        matrices: list[Factor] = []
        for i, factor in enumerate(factors):
            if isinstance(factor, SparseProduct):
                matrices.extend(factor._factors)
                scale = as_real("scale", scale * factor._scale)
            else:
                matrices.append(as_factor(f"factors[{i}]", factor))
        if not matrices:
            raise ValueError("factors must hold at least one matrix, got none")
        for i, (left, right) in enumerate(pairwise(matrices)):
            if left.shape[1] != right.shape[0]:
                raise ValueError(
                    f"factors must chain: factors[{i}] has {left.shape[1]} columns "
                    f"but factors[{i + 1}] has {right.shape[0]} rows"
                )
        dtype = np.result_type(*(matrix.dtype for matrix in matrices))
        self._set([Link(frozen(matrix.astype(dtype, copy=False))) for matrix in matrices], scale)

    def _set(self, links: Sequence[Link], scale: float) -> None:
        # What else SciPy keeps in an operator differs between its versions.
        first, last = links[0].factor, links[-1].factor
        LinearOperator.__init__(self, first.dtype, (first.shape[0], last.shape[1]))
        self._vector_shape = (last.shape[1],)
        self._links = tuple(links)
        self._scale = scale
        self._cache = {}  # the last one: nothing can be set from here on

    @classmethod
    def _of_links(cls, links: Sequence[Link], scale: float) -> Self:
        """A product of factors that others have, too."""
        op = cls.__new__(cls)
        op._set(links, scale)
        return op

    @classmethod
    def _trusted(cls, factors: Iterable[Factor], scale: float) -> Self:
        """A product of factors that are known to be valid, of one dtype and chained."""
        return cls._of_links([Link(frozen(factor)) for factor in factors], scale)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_cache" in self.__dict__:
            raise AttributeError(f"a SparseProduct cannot be changed: {name!r} was not set")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a SparseProduct cannot be changed: {name!r} was not deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.factors, self._scale)

    def __copy__(self) -> Self:
        return self

    # -- what it is ------------------------------------------------------------------------------------

    @property
    def factors(self) -> tuple[Factor, ...]:
        """S₁, …, S_M from left to right: csr_arrays, or plain arrays where no entry is zero; all read-only."""
        return tuple(map(shared, self._factors))

    @property
    def _factors(self) -> tuple[Factor, ...]:
        return tuple(link.factor for link in self._links)

    @property
    def scale(self) -> float:
        """The real number in front of the product."""
        return self._scale

    @property
    def nnz(self) -> int:
        """Entries of all factors that are not zero."""
        return sum(link.factor.size for link in self._links)

    @property
    def relative_complexity(self) -> float:
        """nnz / (rows · columns): the cost of applying it, relative to the dense matrix."""
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
        if is_scalar(other) and other == 0:  # NumPy's `isreal` asks whether op.imag == 0
            return self._scale == 0 or any(link.factor.size == 0 for link in self._links)
        if not isinstance(other, SparseProduct):
            return NotImplemented
        return (
            self._scale == other._scale
            and self.dtype == other.dtype
            and len(self._links) == len(other._links)
            and all(map(same, self._factors, other._factors))
        )

    def __hash__(self) -> int:
        return hash((self._scale, self.shape, self.dtype, len(self._links)))

    # -- applying it -----------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        # The shortest way for what is called most: dense vectors and blocks of the operator's own dtype.
        if type(other) is np.ndarray and other.dtype == self.dtype:
            if other.shape == self._vector_shape:
                return self._applied_to(1).vector(other)
            if other.ndim == 2 and len(other) == self.shape[1]:
                return self._applied_to(other.shape[1]).block(other)
        if is_scalar(other):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        return self.dot(other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_scalar(other):
            raise ValueError("@ takes a vector, a matrix or an operator; use * for a scalar")
        if sp.issparse(other):
            return sp.csr_array(self.T.dot(as_sparse("x", other).T).T)
        if not isinstance(other, np.ndarray) and (library := _library_of(other)) is not None:
            if other.ndim < 2:
                return self.T.dot(other)
            return library.moveaxis(self.T.dot(library.moveaxis(other, -1, -2)), -1, -2)
        x = as_numbers("x", other)
        return self.T._times(x) if x.ndim < 2 else np.swapaxes(self.T._times(np.swapaxes(x, -1, -2)), -1, -2)

    def dot(self, x: Any) -> Any:
        """This operator times ``x``; the same as ``op @ x``, and as ``op * x`` for scalars.

        Parameters
        ----------
        x : scalar, vector, (..., n_columns, n_vectors) array, sparse matrix or operator

        Returns
        -------
        array, csr_array or LinearOperator
            An array of the library of ``x`` for dense ``x``, sparse for sparse ``x``, and an operator for scalars
            and operators.

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1, 1], [1, -1]]]).dot([3, 1])
        array([4., 2.])
        """
        if isinstance(x, SparseProduct):
            return self._compose(x)
        if is_scalar(x):
            return self._scaled(x)
        if isinstance(x, LinearOperator):
            return super().dot(x)
        if not sp.issparse(x):
            if not isinstance(x, np.ndarray) and (library := _library_of(x)) is not None:
                from .portable import apply

                return apply(self, library, x)
            return self._times(as_numbers("x", x))
        if x.ndim != 2 or x.shape[0] != self.shape[1]:
            raise ValueError(f"x must be a block of {self.shape[1]} rows, got shape {x.shape}")
        block = sp.csr_array(as_sparse("x", x))
        product = reduce(lambda right, left: to_csr(left) @ right, reversed(self._factors), block)
        with np.errstate(over="ignore", invalid="ignore"):
            return (product.astype(wide(product.dtype)) * self._scale).astype(product.dtype)

    def _matvec(self, x: ArrayLike) -> Array:
        vectors = as_numbers("x", x)
        if vectors.shape == (self.shape[1], 1):
            vectors = vectors[:, 0]
        if vectors.shape[-1:] != self.shape[1:]:
            raise ValueError(f"x must hold vectors of {self.shape[1]} entries, got shape {vectors.shape}")
        if vectors.ndim == 1:
            return self._times(vectors)
        product = self._times(vectors.reshape(-1, self.shape[1]).T)
        return product.T.reshape(*vectors.shape[:-1], self.shape[0])

    def _matmat(self, X: MatrixLike) -> Any:
        return self.dot(X)

    def _times(self, x: Array) -> Array:
        """The fused product with a dense vector, block or batch of blocks of any dtype and layout."""
        if x.shape[-2:][:1] != self.shape[1:]:
            raise ValueError(
                f"x must be a vector of {self.shape[1]} entries or a block of as many rows, got shape {x.shape}"
            )
        if x.ndim > 2:
            return self._times_batch(x)
        dtype = np.result_type(self.dtype, x.dtype)
        if dtype.kind == "c" and self.dtype.kind != "c":
            # A real operator sees real and imaginary parts as two columns.
            parts = np.ascontiguousarray(x, dtype=dtype).reshape(x.shape[0], -1).view(dtype.type(0).real.dtype)
            return self._times(parts).view(dtype).reshape(self.shape[:1] + x.shape[1:])
        if dtype != self.dtype and dtype not in self._cache:
            self._cache[dtype] = self.astype(dtype)
        op, x = self._cache.get(dtype, self), x.astype(dtype, copy=False)
        return op._applied_to(1).vector(x) if x.ndim == 1 else op._applied_to(x.shape[1]).block(x)

    def _times_batch(self, x: Array) -> Array:
        """The product with (…, N, K) blocks, as one block of all their columns."""
        turned = np.swapaxes(x, -1, -2)
        if turned.flags.c_contiguous:
            return np.swapaxes(self._matvec(turned), -1, -2)
        rows = np.moveaxis(x, -2, 0)
        product = self._times(rows.reshape(self.shape[1], -1))
        return np.moveaxis(product.reshape(-1, *rows.shape[1:]), 0, -2)

    def _applied_to(self, n_vectors: int) -> "Packed | Chain":
        """What applies the operator to so many vectors: the packed factors, unless packing would not pay yet."""
        packed: Packed | None = self._cache.get("packed")
        if packed is not None:
            return packed
        if self.nnz < _LONG_TO_PACK or not all(map(sp.issparse, self._factors)):
            return self._packed()
        self._cache["n_vectors"] = self._cache.get("n_vectors", 0) + n_vectors
        if self._cache["n_vectors"] >= _FEW_VECTORS:
            self._cache.pop("chain", None)
            return self._packed()
        return self._cache.get("chain") or self._cache.setdefault("chain", Chain(self._factors, self._scale))

    def _packed(self) -> "Packed":
        try:
            return self._cache["packed"]
        except KeyError:
            from .engine import Packed  # loads numba, which `import papilio` does not

            return self._cache.setdefault("packed", Packed(self._links, self._scale))

    # -- parts and forms of it -------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        rows, columns, is_entry = _read_key(key, self.shape)
        links = list(self._links)
        if rows is not None:
            links[0] = Link(frozen(links[0].factor[rows, :]))
        if columns is not None:
            links[-1] = Link(frozen(links[-1].factor[:, columns]))
        part = self._of_links(links, self._scale)
        return part.toarray()[0, 0] if is_entry else part

    def toarray(self) -> Array:
        """The dense matrix.

        Returns
        -------
        (n_rows, n_columns) array

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1, 2]], [[1, 0], [0, 3]]], scale=0.5).toarray()
        array([[0.5, 3. ]])
        """
        *others, last = self._factors
        if not others:
            matrix = scaled(last, self._scale)
            return matrix.copy("K") if isinstance(matrix, np.ndarray) else matrix.toarray()
        if self.shape[0] < self.shape[1]:
            return self.T.toarray().T
        return self._of_links(self._links[:-1], self._scale) @ to_dense(last)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a SparseProduct becomes an array by multiplying its factors, never without a copy")
        return np.asarray(self.toarray(), dtype=dtype)

    @property
    def _turned(self) -> dict[Any, Any]:
        return self._cache

    def _transpose(self) -> Self:
        links = reversed(self._links)
        return turned_once(
            self,
            self._cache,
            "transpose",
            lambda: self._of_links([link.transpose() for link in links], self._scale),
        )

    def _adjoint(self) -> Self:
        if self.dtype.kind != "c":
            return self._transpose()
        links = reversed(self._links)
        return turned_once(
            self, self._cache, "adjoint", lambda: self._of_links([link.adjoint() for link in links], self._scale)
        )

    def conj(self) -> Self:
        """The complex conjugate.

        Returns
        -------
        SparseProduct

        Examples
        --------
        >>> import papilio as pp
        >>> pp.SparseProduct([[[1j]]]).conj().toarray()
        array([[0.-1.j]])
        """
        return self._adjoint()._transpose()

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

    @property
    def real(self) -> Self:
        """The real part: a product of real factors, twice as wide inside; see `SparseProduct`."""
        from .algebra import part_of

        return part_of(self, imaginary=False)

    @property
    def imag(self) -> Self:
        """The imaginary part: a product of real factors, twice as wide inside; see `SparseProduct`."""
        from .algebra import part_of

        return part_of(self, imaginary=True)

    # -- arithmetic ------------------------------------------------------------------------------------

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
        return self._of_links(self._links, as_real("scale", self._scale / as_float("scale", other)))

    def __neg__(self) -> Self:
        return self._of_links(self._links, -self._scale)

    def _scaled(self, number: Any) -> Self:
        """A real number goes into the scale; a complex one into the smallest factor (the scale is real)."""
        if not np.iscomplexobj(number):
            return self._of_links(self._links, as_real("scale", self._scale * as_float("scale", number)))
        require_finite("scale", np.asarray(number))
        factors = list(self.astype(np.result_type(self.dtype, np.complex64))._factors)
        smallest = min(range(len(factors)), key=lambda i: factors[i].size)
        with np.errstate(over="ignore"):
            factors[smallest] = factors[smallest] * factors[smallest].dtype.type(number)
        require_finite("scale", entries(factors[smallest]))
        return self._trusted(factors, self._scale)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, SparseProduct):
            return super().__add__(other)  # SciPy's lazy sum, which applies one after the other
        from .algebra import added

        return added([self, other])

    def __radd__(self, other: Any) -> Any:
        return self if type(other) is int and other == 0 else NotImplemented  # Python's sum() begins with 0

    def _compose(self, other: "SparseProduct") -> Self:
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"x must have {self.shape[1]} rows, got an operator of shape {other.shape}")
        dtype = np.result_type(self.dtype, other.dtype)
        links = [*self.astype(dtype)._links, *other.astype(dtype)._links]
        return self._of_links(links, as_real("scale", self._scale * other._scale))

    # -- numbers about it, and faster forms ------------------------------------------------------------

    def norm(self, ord: float | str = "fro") -> float:
        """The Frobenius norm, the spectral norm, or the largest sum of a column or row, as ``numpy.linalg.norm``.

        The spectral norm is found by Lanczos iteration on the factors; the matrix is not formed. The others are
        exact: they form it, a block of columns at a time, which takes as long as ``toarray()`` and 32 MB.

        Parameters
        ----------
        ord : {"fro", 2, 1, numpy.inf}
            1 for the largest sum of the magnitudes of a column, infinity for that of a row.

        Returns
        -------
        float
            Infinity if it overflows.

        Examples
        --------
        >>> import papilio as pp
        >>> round(pp.transforms.hadamard(4).norm(), 6), round(pp.transforms.hadamard(4).norm(2), 6)
        (4.0, 2.0)
        >>> pp.SparseProduct([[[1, -3], [2, 0]]]).norm(1)
        3.0
        """
        from .algebra import norm_of

        return norm_of(self, ord)

    def pinv(self, *, tol: float | None = None, max_iter: int | None = None) -> LinearOperator:
        """The pseudoinverse A⁺ as an operator, which solves least-squares problems by iteration.

        ``op.pinv() @ b`` is the x of smallest norm that minimises ‖A x − b‖, found by LSQR on all columns of b
        together. An iteration takes one product with A and one with its adjoint; for orthogonal transforms, one is
        enough. The matrix is never formed. Small singular values take many iterations.

        Parameters
        ----------
        tol : float, optional
            x is exact for an A and a b that differ by this much, relative to their norms. By default 1e-12, and
            1e-6 in single precision.
        max_iter : int, optional
            By default 4 · min(rows, columns) + 20. A warning is issued if it is reached.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator

        Examples
        --------
        >>> import papilio as pp
        >>> op = pp.SparseProduct([[[2, 0], [0, 0], [0, 4]]])
        >>> op.pinv() @ [2, 5, 2]
        array([1. , 0.5])
        """
        from .algebra import PseudoInverse

        return PseudoInverse(self, tol, max_iter)

    def optimized(self) -> "SparseProduct":
        """An equal operator (up to rounding) that is faster to apply.

        Neighbouring factors are multiplied out wherever a model of the kernels and of BLAS says that this saves
        time, and that it costs none, neither for one vector nor for a block; the model is fixed, so that the same
        operator always gives the same result.

        Returns
        -------
        SparseProduct
            This operator itself if it cannot be made faster.

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> op = pp.SparseProduct([np.eye(3), 2 * np.eye(3), np.ones((3, 2))])
        >>> len(op.optimized().factors)
        1
        """
        from .engine import merged

        links = merged(self._links)
        return self if len(links) == len(self._links) else self._of_links(links, self._scale)

    # -- showing it ------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        from ..plot.notebook import html

        return html(self)

    def plot(self, target: "MatrixLike | SparseProduct | None" = None, axes: Any = None) -> Any:
        """Draw the factors, or how near their product is to a target.

        Parameters
        ----------
        target : matrix, optional
            What this operator approximates (`papilio.plot.comparison`). By default the factors are drawn
            (`papilio.plot.factors`).
        axes : sequence of matplotlib axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        sequence of matplotlib axes

        Examples
        --------
        >>> import papilio as pp
        >>> axes = pp.transforms.hadamard(8).plot()
        """
        from .. import plot

        return plot.factors(self, axes) if target is None else plot.comparison(target, self, axes)

    # -- keeping it, and in other libraries ------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the operator to a file without pickle; `papilio.load` reads it back.

        The file is written whole or not at all: a crash leaves what was there before.

        Parameters
        ----------
        path : path
            Taken as it is; no suffix is added. A name that ends in .mat gives a MATLAB file as FAµST has them (see
            `to_faust`): the scale goes into a factor. Names of other formats, such as .npy and .csv, are refused.
            All others give an npz file.

        Examples
        --------
        >>> import tempfile, papilio as pp
        >>> pp.transforms.haar(8).save(tempfile.mkdtemp() + "/haar.npz")
        """
        from .storage import save

        save(self, path)

    def export(self, path: Path) -> None:
        """Write the operator as a program that needs no Python: C99, or ONNX.

        Parameters
        ----------
        path : path
            If it ends in .c, a file of C99 with the factors as tables. Its functions ``NAME_apply`` and
            ``NAME_adjoint``, after the name of the file, multiply a vector; they need no library and no heap. They
            compute in the dtype of the operator, and take complex numbers as pairs. If it ends in .onnx, a model
            that multiplies a block of columns; the operator must be real. This needs the extra ``onnx``.

        Examples
        --------
        >>> import tempfile, papilio as pp
        >>> pp.transforms.hadamard(8).export(tempfile.mkdtemp() + "/hadamard.c")
        """
        from .export import export

        export(self, path)

    def to_torch(self) -> "FastLinear":
        """A PyTorch layer that applies this operator, and whose entries can be trained; needs the extra ``torch``.

        Returns
        -------
        papilio.torch.FastLinear
            Without a bias.

        Examples
        --------
        >>> import papilio as pp
        >>> op = pp.transforms.hadamard(4)
        >>> layer = op.to_torch()  # doctest: +SKIP
        """
        from ..torch import FastLinear

        return FastLinear.from_operator(self)

    def to_jax(self) -> "tuple[Callable[[Any, Any], Any], list[Any]]":
        """This operator as a pure function for JAX, differentiable in its entries too; needs the extra ``jax``.

        Returns
        -------
        apply : callable
            ``apply(params, x)`` is the product with a vector, a block of columns or a batch of blocks.
        params : list of jax.Array
            The entries of each factor, row by row, from left to right; the scale stays as it is.

        Examples
        --------
        >>> import papilio as pp
        >>> apply, params = pp.transforms.hadamard(4).to_jax()  # doctest: +SKIP
        >>> y = apply(params, jax.numpy.ones(4))  # doctest: +SKIP
        """
        from .portable import to_jax

        return to_jax(self)

    def to(self, namespace: ModuleType, device: Any = None) -> "PortableProduct":
        """This operator on arrays of another library, on one of its devices.

        ``op @ x`` takes such arrays, too, and prepares this when it is first needed. In functions that
        ``torch.compile`` or `jax.jit` traces, an operator that is prepared before takes no part of the tracing.

        Parameters
        ----------
        namespace : module
            ``torch``, ``jax.numpy``, ``cupy`` or another one of the array API standard.
        device : optional
            As that library names its devices; by default its own default.

        Returns
        -------
        PortableProduct
            With ``@``, ``T``, ``H`` and ``shape``.

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> pp.transforms.hadamard(2).to(np) @ np.array([3.0, 1.0])
        array([4., 2.])
        """
        from .portable import PortableProduct

        return PortableProduct(self, namespace, device)

    def to_pylops(
        self, dims: int | Sequence[int] | None = None, dimsd: int | Sequence[int] | None = None
    ) -> "pylops.LinearOperator":
        """This operator for PyLops.

        Parameters
        ----------
        dims, dimsd : int or sequence of int, optional
            The dimensions of the model, which are the columns in order, and those of the data, which are the rows:
            arrays of these shapes are then taken and given. By default one dimension each.

        Returns
        -------
        pylops.LinearOperator

        Raises
        ------
        ImportError
            If PyLops is not installed.

        Examples
        --------
        >>> import papilio as pp
        >>> try:
        ...     shape = pp.transforms.hadamard(4).to_pylops(dims=(2, 2)).shape
        ... except ImportError:  # PyLops is not installed
        ...     shape = (4, 4)
        >>> tuple(map(int, shape))
        (4, 4)
        """
        from .storage import to_pylops

        return to_pylops(self, dims, dimsd)

    def to_faust(self) -> "pyfaust.Faust":
        """This operator for pyfaust; `papilio.operators.from_faust` is the inverse.

        The scale goes into the first factor. FAµST has no single precision for complex numbers: complex64 becomes
        complex128.

        Returns
        -------
        pyfaust.Faust

        Raises
        ------
        ImportError
            If pyfaust is not installed.

        Examples
        --------
        >>> import papilio as pp
        >>> try:
        ...     count = pp.transforms.hadamard(8).to_faust().numfactors()
        ... except ImportError:  # pyfaust is not installed
        ...     count = 3
        >>> count
        3
        """
        from .storage import to_faust

        return to_faust(self)


def _library_of(x: Any) -> Any:
    """The namespace of an array of another library than NumPy, else None."""
    from .portable import namespace_of

    return namespace_of(x)


# -- keys ----------------------------------------------------------------------------------------------


def _read_key(key: Any, shape: tuple[int, int]) -> tuple[Array | None, Array | None, bool]:
    """The rows and the columns that ``key`` selects, None for all, and whether it names a single entry."""
    parts = key if isinstance(key, tuple) else (key,)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1 or len(parts) - len(dots) > 2:
        raise IndexError(f"a SparseProduct has 2 dimensions, got {len(parts)} indices")
    place = dots[0] if dots else len(parts)
    filled = (*parts[:place], *[slice(None)] * (2 - len(parts) + len(dots)), *parts[place + 1 :])
    rows, columns = (list(key) if isinstance(key, tuple) else key for key in filled)
    if isinstance(rows, np.ndarray) and rows.shape[1:] == (1,) and np.shape(columns)[:1] == (1,):
        rows, columns = rows.ravel(), np.ravel(columns)  # the two parts of numpy.ix_
    is_entry = all(isinstance(key, int | np.integer | np.ndarray) and np.ndim(key) == 0 for key in (rows, columns))
    return _selected("rows", rows, shape[0]), _selected("columns", columns, shape[1]), is_entry


def _selected(name: str, key: Any, size: int) -> Array | None:
    """The indices that ``key`` selects along an axis of ``size``, by NumPy's rules; None for all of them."""
    if isinstance(key, slice) and key == slice(None):
        return None
    try:
        indices = np.atleast_1d(np.arange(size)[key])
    except (IndexError, OverflowError, TypeError, ValueError) as error:
        raise IndexError(f"{name} must be selected by integers, slices or booleans: {error}") from None
    if indices.ndim > 1 or indices.size == 0:
        raise IndexError(f"{name} must be selected so that at least one of {size} is left, got {key!r}")
    return indices
