"""`ConvolutionChain`: a product of short periodic convolutions as an operator that is not stored as a matrix."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..constraints.places import Grid, as_grid, as_supports, require_on_grid, sources
from ..operators import SparseProduct
from ..typing import Array, ArrayLike, DTypeLike
from ..validation import as_dtype, as_numbers, as_real, is_series, require_finite, working_dtype


class ConvolutionChain(LinearOperator):  # type: ignore[misc]
    """scale · h¹ ∗ h² ∗ … ∗ h^K as an operator on signals or images of a periodic grid.

    Each kernel is non-zero at few places of the grid only. The operator is its kernels: it takes no memory beside
    them, and applies them one after the other, each with as many multiplications per pixel as it has places. On
    images all kernels run on a tile of rows while it is in the cache, on several threads.

    Parameters
    ----------
    kernels : sequence of (n_places,) arrays
        The values of each kernel, from left to right.
    supports : sequence of (n_places,) or (n_places, 2) arrays of int
        The places of each kernel on the grid; negative ones count from its end, so that −1 is next to 0.
    grid : int or (int, int)
        The sides of the grid: the length of signals, or rows and columns of images.
    scale : float, default=1.0
        A real number in front of the product.

    Attributes
    ----------
    kernels, supports, grid, scale
        As given; arrays are read-only.
    n_coefficients : int
        The number of places of all kernels together.

    See Also
    --------
    papilio.convolution_chain : Finds the kernels for an atom or a signal.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> chain = pp.ConvolutionChain([[1, 1], [1, -1]], [[0, 1], [0, 2]], 8)
    >>> chain.atom
    array([ 1.,  1., -1., -1.,  0.,  0.,  0.,  0.])
    >>> chain @ np.arange(8.0)
    array([ -4., -12.,  -4.,   4.,   4.,   4.,   4.,   4.])
    """

    def __init__(
        self,
        kernels: Sequence[ArrayLike],
        supports: Sequence[ArrayLike],
        grid: int | Sequence[int],
        scale: float = 1.0,
    ) -> None:
        self.grid: Grid = as_grid("grid", grid)
        places = as_supports(supports, len(self.grid))
        require_on_grid(places, self.grid)
        if not is_series(kernels) or len(kernels) != len(places):
            raise ValueError(f"kernels must hold the values of {len(places)} kernels, one per support")
        values = [as_numbers(f"kernels[{k}]", kernel) for k, kernel in enumerate(kernels)]
        for k, kernel in enumerate(values):
            if kernel.shape != (len(places[k]),):
                raise ValueError(
                    f"kernels[{k}] must have {len(places[k])} values, one per place, got shape {kernel.shape}"
                )
            require_finite(f"kernels[{k}]", kernel)
        self.scale = as_real("scale", scale)
        dtype = np.result_type(*values)
        self.kernels = tuple(_frozen(kernel.astype(dtype)) for kernel in values)
        self.supports = tuple(_frozen(each.copy()) for each in places)
        size = int(np.prod(self.grid))
        super().__init__(dtype, (size, size))
        self._plans: dict[np.dtype[Any], Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kernels, self.supports, self.grid, self.scale)

    def __repr__(self) -> str:
        sides = "×".join(map(str, self.grid))
        places = "+".join(str(len(kernel)) for kernel in self.kernels)
        return f"<ConvolutionChain on a grid of {sides}, {places} places, {self.dtype}>"

    @property
    def n_coefficients(self) -> int:
        """The number of places of all kernels together."""
        return sum(map(len, self.kernels))

    @property
    def atom(self) -> Array:
        """The composed kernel on the grid: what the operator makes of a single one at the origin."""
        unit = np.zeros(self.grid, self.dtype)
        unit[(0,) * len(self.grid)] = 1
        return self.apply(unit)

    def apply(self, images: ArrayLike) -> Array:
        """The chain applied to each of some signals or images.

        Parameters
        ----------
        images : (..., *grid) array
            Signals or images along the last axes.

        Returns
        -------
        (..., *grid) ndarray

        Examples
        --------
        >>> import numpy as np, papilio as pp
        >>> blur = pp.ConvolutionChain([[1, 1], [1, 1]], [[(0, 0), (0, 1)], [(0, 0), (1, 0)]], (4, 4), scale=0.25)
        >>> blur.apply(np.eye(4))[0]
        array([0.5 , 0.25, 0.  , 0.25])
        """
        pixels = as_numbers("images", images)
        if pixels.shape[pixels.ndim - len(self.grid) :] != self.grid or pixels.ndim < len(self.grid):
            raise ValueError(f"images must have shape (..., {', '.join(map(str, self.grid))}), got {pixels.shape}")
        dtype = np.result_type(self.dtype, pixels.dtype)
        if dtype.kind == "c" and self.dtype.kind != "c":
            return np.asarray(self.apply(pixels.real) + 1j * self.apply(pixels.imag), dtype)
        rows = (1,) if len(self.grid) == 1 else ()
        kind = (
            np.dtype(np.complex128) if dtype.kind == "c" else dtype
        )  # complex64 is not worth a kernel of its own
        source = np.ascontiguousarray(pixels, kind).reshape(-1, *rows, *self.grid)
        if not source.flags.writeable:  # numba would compile the kernel once more
            source = source.copy()
        from .stencils import run_plan

        return run_plan(self._plan(kind), source).reshape(pixels.shape).astype(dtype, copy=False)

    def _plan(self, dtype: np.dtype[Any]) -> Any:
        if dtype not in self._plans:
            from .stencils import plan  # loads numba

            *others, last = (kernel.astype(dtype) for kernel in self.kernels)
            last = (last * self.scale).astype(dtype)
            self._plans[dtype] = plan([*others, last], self.supports, self.grid)
        return self._plans[dtype]

    def _matvec(self, x: Array) -> Array:
        return self.apply(np.reshape(x, self.grid)).ravel()

    def _matmat(self, X: Array) -> Array:
        return self.apply(np.ascontiguousarray(X.T).reshape(-1, *self.grid)).reshape(-1, self.shape[0]).T

    def _rmatvec(self, x: Array) -> Array:
        return self._adjoint()._matvec(x)

    def _transpose(self) -> Self:
        return self._mirrored(list(self.kernels))

    def _adjoint(self) -> Self:
        return self._mirrored([kernel.conj() for kernel in self.kernels])

    def _mirrored(self, kernels: list[Array]) -> Self:
        places = [-(each % np.array(self.grid)) for each in self.supports]
        return type(self)(kernels[::-1], places[::-1], self.grid, self.scale)

    def astype(self, dtype: DTypeLike) -> Self:
        """The same chain in another dtype.

        Parameters
        ----------
        dtype : dtype
            float32, float64, complex64 or complex128; a complex chain stays complex.

        Returns
        -------
        ConvolutionChain
        """
        kind = as_dtype("dtype", dtype)
        if working_dtype("dtype", kind) != kind or (self.dtype.kind == "c" and kind.kind != "c"):
            raise TypeError(
                f"dtype must be float32, float64, complex64 or complex128, and keep {self.dtype}, got {kind}"
            )
        return type(self)([kernel.astype(kind) for kernel in self.kernels], self.supports, self.grid, self.scale)

    def to_product(self) -> SparseProduct:
        """The chain as a `SparseProduct`, whose factors are sparse circulant matrices.

        In two dimensions they are block circulant with circulant blocks. A factor has as many entries as the grid
        has points, times the places of its kernel: on large grids, this operator itself is faster by far.

        Returns
        -------
        SparseProduct

        Examples
        --------
        >>> import papilio as pp
        >>> chain = pp.ConvolutionChain([[2, 1]], [[0, 1]], 3)
        >>> chain.to_product().toarray()
        array([[2., 0., 1.],
               [1., 2., 0.],
               [0., 1., 2.]])
        """
        factors = (_circulant(*each, self.grid) for each in zip(self.kernels, self.supports, strict=True))
        return SparseProduct(factors, self.scale)

    def toarray(self) -> Array:
        """The dense matrix.

        Returns
        -------
        (n, n) ndarray
        """
        return self._matmat(np.eye(self.shape[0], dtype=self.dtype))


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _circulant(kernel: Array, places: Array, grid: Grid) -> sp.csr_array:
    """The matrix of one convolution: a value at (i, i − p) for each place p."""
    columns = sources(places, grid)
    n, count = columns.shape
    pointers = np.arange(0, n * count + 1, count)
    return sp.csr_array((np.tile(kernel, n), columns.ravel(), pointers), shape=(n, n))
