"""`ConvolutionChain`: a product of short periodic convolutions as a matrix-free operator.

The kernels run in groups of *stages*: all stages of a group run on a tile of rows while it is in the cache.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..constraints.places import Grid, as_grid, as_supports, require_on_grid, sources
from ..kernels.stencils import convolve_tiles
from ..operators import SparseProduct
from ..runtime.threads import get_num_threads, scratch, split_work
from ..typing import Array, ArrayLike, DTypeLike
from ..validation import as_dtype, as_numbers, as_real, is_series, require_finite, working_dtype

_TILE_BYTES = 320 << 10  # both buffers of a tile stay in the second level of cache
_LEAST_TILE_ROWS = 8
_LEAST_WORK_PER_THREAD = 1 << 16  # multiplications


class ConvolutionChain(LinearOperator):  # type: ignore[misc]
    """scale · h¹ ∗ h² ∗ … ∗ h^K as an operator on signals or images of a periodic grid.

    Each kernel is non-zero at a few places of the grid. The operator stores nothing but its kernels, and applies
    them one after the other, with one multiplication per pixel and place. On images, all kernels run on a tile of
    rows while it is in the cache, on several threads.

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
    papilio.convolution.convolution_chain : Finds the kernels for an atom or a signal.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> chain = pp.convolution.ConvolutionChain([[1, 1], [1, -1]], [[0, 1], [0, 2]], 8)
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
        values = as_kernels("kernels", kernels, places)
        self.scale = as_real("scale", scale)
        dtype = np.result_type(*values)
        self.kernels = tuple(_frozen(kernel.astype(dtype)) for kernel in values)
        self.supports = tuple(_frozen(each.copy()) for each in places)
        size = int(np.prod(self.grid))
        super().__init__(dtype, (size, size))
        self._stages: dict[np.dtype[Any], list[Stages]] = {}

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
        """The composed kernel on the grid: the operator applied to a unit impulse at the origin."""
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
        >>> supports = [(0, 0), (0, 1)], [(0, 0), (1, 0)]
        >>> blur = pp.convolution.ConvolutionChain([[1, 1], [1, 1]], supports, (4, 4), scale=0.25)
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
        # complex64 is computed in complex128: it does not deserve a compiled kernel of its own.
        kind = np.dtype(np.complex128) if dtype.kind == "c" else dtype
        result = np.ascontiguousarray(pixels, kind).reshape(-1, *rows, *self.grid)
        if not result.flags.writeable:
            result = result.copy()  # Numba would compile the kernel again for a read-only array.
        if kind not in self._stages:
            *others, last = (kernel.astype(kind) for kernel in self.kernels)
            self._stages[kind] = grouped([*others, (last * self.scale).astype(kind)], self.supports, self.grid)
        for stages in self._stages[kind]:
            source, result = result, np.empty_like(result)
            stages.apply(source, result)
        return result.reshape(pixels.shape).astype(dtype, copy=False)

    def _matvec(self, x: Array) -> Array:
        return self.apply(np.reshape(x, self.grid)).ravel()

    def _matmat(self, X: Array) -> Array:
        return self.apply(np.ascontiguousarray(X.T).reshape(-1, *self.grid)).reshape(-1, self.shape[0]).T

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
        has points, times the places of its kernel: on large grids, this operator itself is much faster.

        Returns
        -------
        SparseProduct

        Examples
        --------
        >>> import papilio as pp
        >>> chain = pp.convolution.ConvolutionChain([[2, 1]], [[0, 1]], 3)
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


class Stages(NamedTuple):
    """Consecutive convolutions that run tile by tile, as arguments of `kernels.stencils.convolve_tiles`."""

    starts: Array
    rows: Array
    columns: Array
    weights: Array
    above: Array
    below: Array
    ghost: int

    @classmethod
    def of(cls, kernels: Sequence[Array], supports: Sequence[Array]) -> Self:
        """Stages of signed places in two dimensions."""
        # Row i of a stage reads rows i − max r to i − min r of the one before: from the last stage backwards.
        highest = np.array([places[:, 0].max() for places in supports])
        lowest = np.array([places[:, 0].min() for places in supports])
        above, below = (np.ascontiguousarray(np.cumsum(each[::-1])[::-1]) for each in (highest, -lowest))
        return cls(
            np.cumsum([0, *map(len, kernels)]),
            np.concatenate([top - places[:, 0] for top, places in zip(highest, supports, strict=True)]),
            np.concatenate([places[:, 1] for places in supports]),
            np.concatenate(kernels),
            above,
            below,
            max(int(np.abs(places[:, 1]).max()) for places in supports),
        )

    def apply(self, source: Array, result: Array) -> None:
        """Convolve images (n, rows, columns) on several threads."""
        count, n_rows, width = source.shape
        halo = int(self.above[0] + self.below[0])
        length = width + 2 * self.ghost
        height = max(_TILE_BYTES // (2 * length * source.itemsize) - halo, 2 * halo, _LEAST_TILE_ROWS)
        height = min(height, -(-count * n_rows // get_num_threads()), n_rows)
        n_tiles = count * -(-n_rows // height)
        grain = -(-_LEAST_WORK_PER_THREAD // max(height * width * len(self.weights), 1))

        def run(begin: int, end: int) -> None:
            (room,) = scratch("stencils", ((2, height + halo, length), source.dtype))
            convolve_tiles(source, result, *self, height, room, begin, end)

        split_work(run, n_tiles, grain, 4)


def grouped(kernels: Sequence[Array], supports: Sequence[Array], grid: Grid) -> list[Stages]:
    """Group the convolutions into stages, so that a tile needs few rows above and below."""
    places = [_signed(each, grid) for each in supports]
    most = max(grid[0] // 8, 16) if len(grid) > 1 else 0
    groups: list[list[int]] = [[]]
    total = 0
    # The kernel on the right of the chain comes first; they commute, but rounding is then that of the product.
    for k in reversed(range(len(kernels))):
        halo = int(np.ptp(places[k][:, 0]))
        if groups[-1] and total + halo > most:
            groups.append([])
            total = 0
        groups[-1].append(k)
        total += halo
    return [Stages.of([kernels[k] for k in group], [places[k] for k in group]) for group in groups]


def _signed(places: Array, grid: Grid) -> Array:
    """Places as signed two-dimensional offsets; a line is an image of one row."""
    sides = np.array(grid)
    near = (places + sides // 2) % sides - sides // 2
    return near if len(grid) == 2 else np.stack([np.zeros(len(near), np.int64), near[:, 0]], axis=1)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _circulant(kernel: Array, places: Array, grid: Grid) -> sp.csr_array:
    """The matrix of one convolution: a value at (i, i − p) for each place p."""
    columns = sources(places, grid)
    n, count = columns.shape
    pointers = np.arange(0, n * count + 1, count)
    return sp.csr_array((np.tile(kernel, n), columns.ravel(), pointers), shape=(n, n))


def as_kernels(name: str, kernels: Any, places: Sequence[Array]) -> list[Array]:
    """The values of one kernel for each array of places."""
    if not is_series(kernels) or len(kernels) != len(places):
        raise ValueError(f"{name} must hold {len(places)} kernels, one per support")
    values = [as_numbers(f"{name}[{k}]", kernel) for k, kernel in enumerate(kernels)]
    for k, kernel in enumerate(values):
        if kernel.shape != (len(places[k]),):
            raise ValueError(
                f"{name}[{k}] must have {len(places[k])} values, one per place, got shape {kernel.shape}"
            )
        require_finite(f"{name}[{k}]", kernel)
    return values


def as_stack(name: str, value: Any, n_axes: int) -> Array:
    """One or several signals or images as (n, *grid)."""
    array = as_numbers(name, value)
    if array.ndim not in (n_axes, n_axes + 1):
        raise ValueError(
            f"{name} must have {n_axes} dimensions, as the places of supports have, or one more for several, "
            f"got {array.ndim}"
        )
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    require_finite(name, array)
    return array if array.ndim > n_axes else array[None]
