"""Products for any array library: gathers and batched products of small blocks, in the array API standard.

NumPy, CuPy, JAX, PyTorch and others apply it on any device, and under tracing: `jax.jit`, `torch.compile`, `vmap`,
`grad`. Where entries are traced, too, it is differentiable in them.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..typing import Array
from .factors import scaled, to_csr
from .product import SparseProduct

_MANY_SHAPES = 8  # With more shapes of blocks in a factor, rows are padded to a power of two entries each.
_ON_CPU = 1  # kDLCPU, of DLPack

# -- the form ------------------------------------------------------------------------------------------


class Blocks(NamedTuple):
    """Blocks of one shape within a factor: ``n_blocks`` times ``height`` rows with the same ``width`` columns."""

    n_blocks: int
    height: int
    width: int
    columns: slice | None  # the part of the indices that tells the columns; None for all of them in order
    entries: slice  # the part of the entries or, if they are not in this order, of the indices that tell them
    in_order: bool


class Plan:
    """How a product on given supports is applied.

    Each factor gathers the columns of its blocks, and multiplies. Its rows stay in the order of the blocks: the
    next factor gathers them from there. ``indices`` is one array, to be kept where the vectors are.
    """

    def __init__(self, supports: Sequence[sp.csr_array]) -> None:
        self.shape = supports[0].shape[0], supports[-1].shape[1]
        self._steps: list[list[Blocks]] = []  # They are in the order of application.
        self._parts: list[Array] = []
        self._size = 0
        self._end = sum(support.nnz for support in supports)  # the place of a zero, which fills up blocks
        begin, stands = self._end, np.arange(self.shape[1])  # The places of the rows of the previous factor.
        for support in reversed(supports):
            begin -= support.nnz
            found = blocks_of(support, _MANY_SHAPES)
            self._steps.append(
                [self._blocks(stands[columns], places, begin, support.shape[1]) for _, columns, places in found]
            )
            stands = np.argsort(np.concatenate([rows.ravel() for rows, _, _ in found]))
        self._order = None if _is_range(stands) else self._keep(stands)
        self.indices = np.concatenate([np.empty(0, np.int32), *self._parts])

    def _blocks(self, columns: Array, places: Array, begin: int, n_read: int) -> Blocks:
        """Blocks of a factor of ``n_read`` columns, whose entries begin at ``begin``; see `blocks_of`."""
        shape, columns = places.shape, columns.ravel()
        places = np.where(places < 0, self._end, begin + places).ravel()
        reads_all = columns.size == n_read and _is_range(columns)
        in_order = bool((places < self._end).all()) and _is_range(places - places[0])
        return Blocks(
            shape[0],
            shape[1],
            shape[2],
            None if reads_all else self._keep(columns),
            slice(int(places[0]), int(places[-1]) + 1) if in_order else self._keep(places),
            in_order,
        )

    def _keep(self, indices: Array) -> slice:
        self._parts.append(indices.astype(np.int32))
        begin, self._size = self._size, self._size + indices.size
        return slice(begin, self._size)

    def values(self, xp: Any, entries: Any, indices: Any) -> list[list[Any]]:
        """The blocks of all factors, from the entries of S₁ row by row, then of S₂, and so on."""
        padded = entries
        if not all(blocks.in_order for step in self._steps for blocks in step):
            zero = xp.reshape(xp.sum(entries[:0]), (1,))  # A zero of the same library, dtype and device.
            padded = xp.concat([entries, zero])
        return [
            [
                xp.reshape(
                    entries[each.entries] if each.in_order else _take(xp, padded, indices[each.entries]),
                    (each.n_blocks, each.height, each.width),
                )
                for each in step
            ]
            for step in self._steps
        ]

    def apply(self, xp: Any, values: list[list[Any]], indices: Any, X: Any) -> Any:
        """The product with the block of columns X, of the dtype of the ``values``."""
        n_vectors = X.shape[1]
        for step, blocks in zip(self._steps, values, strict=True):
            products = []
            for each, block in zip(step, blocks, strict=True):
                read = X if each.columns is None else _take(xp, X, indices[each.columns])
                read = xp.reshape(read, (each.n_blocks, each.width, n_vectors))
                product = block * read if each.width == 1 else block @ read
                products.append(xp.reshape(product, (each.n_blocks * each.height, n_vectors)))
            X = xp.concat(products) if len(products) > 1 else products[0]
        return X if self._order is None else _take(xp, X, indices[self._order])


def blocks_of(support: sp.csr_array, most: float = np.inf) -> list[tuple[Array, Array, Array]]:
    """All rows of a factor in blocks that read the same columns, those of each shape together.

    Three arrays for each shape: rows, blocks × height; columns, blocks × width; and the places of the entries,
    blocks × height × width, which are −1 for zeros. Empty rows read one column. If there are more shapes than
    ``most``, rows stand alone, and are filled up to a power of two entries.
    """
    counts, found = np.diff(support.indptr), []
    for width in np.unique(counts):
        rows = np.flatnonzero(counts == width)
        columns = support.indices[support.indptr[rows][:, None] + np.arange(width)]
        _, first, block = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        rows = rows[np.argsort(first[block.ravel()], kind="stable")]  # blocks in the order of their first rows
        heights = np.bincount(block.ravel())[np.argsort(first)]
        starts = np.cumsum(heights) - heights
        for height in np.unique(heights):
            found.append((rows[starts[heights == height][:, None] + np.arange(height)], width))
    if len(found) > most:
        widths = np.where(counts > 0, 2 ** np.ceil(np.log2(np.maximum(counts, 1))), 0)
        found = [(np.flatnonzero(widths == width)[:, None], width) for width in np.unique(widths)]
    blocks = []
    for rows, width in found:
        each = np.arange(max(int(width), 1))
        is_entry = each < counts[rows][..., None]
        places = np.where(is_entry, support.indptr[rows][..., None].astype(np.int64) + each, -1)
        columns = np.where(is_entry[:, 0], np.append(support.indices, 0)[places[:, 0]], 0)
        blocks.append((rows, columns, places))
    return blocks


def _is_range(numbers: Array) -> bool:
    return bool((numbers == np.arange(numbers.size)).all())


def _take(xp: Any, x: Any, indices: Any) -> Any:
    """The rows of x with these indices; PyTorch's ``take`` is another function."""
    return xp.index_select(x, 0, indices) if hasattr(xp, "index_select") else xp.take(x, indices, axis=0)


def _cast(xp: Any, x: Any, dtype: Any) -> Any:
    """x in another dtype, in the way that its library has."""
    if hasattr(x, "to"):
        return x.to(dtype)
    return x.astype(dtype) if hasattr(x, "astype") else xp.astype(x, dtype)


def multiplied(xp: Any, x: Any, n_columns: int, apply: Callable[[Any], Any]) -> Any:
    """``apply``, which takes blocks of columns, to a vector, a block, or a batch of blocks."""
    if x.shape[-2:][:1] != (n_columns,):
        raise ValueError(
            f"x must be a vector of {n_columns} entries or a block of as many rows, got shape {tuple(x.shape)}"
        )
    if x.ndim == 2:
        return apply(x)
    if x.ndim == 1:
        return apply(x[:, None])[:, 0]
    rows = xp.moveaxis(x, -2, 0)
    product = apply(xp.reshape(rows, (n_columns, -1)))
    return xp.moveaxis(xp.reshape(product, (product.shape[0], *rows.shape[1:])), 0, -2)


# -- operators in other libraries ------------------------------------------------------------------------


class PortableProduct:
    """A SparseProduct whose entries are arrays of another library, on one of its devices; see `SparseProduct.to`.

    ``@`` takes vectors, blocks of columns and batches of blocks of that library, on that device or traced.

    Parameters
    ----------
    op : SparseProduct
    namespace : module
        Of the array API standard, or ``torch``.
    device : optional
        By default the one that the library takes.

    Attributes
    ----------
    shape : tuple of int
    T, H : PortableProduct
        The transpose and the adjoint.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> from papilio.operators.portable import PortableProduct
    >>> PortableProduct(pp.transforms.hadamard(2), np).H @ np.array([3.0, 1.0])
    array([4., 2.])
    """

    def __init__(self, op: SparseProduct, namespace: Any, device: Any = None) -> None:
        if not all(hasattr(namespace, name) for name in ("asarray", "reshape", "concat", "result_type")):
            raise TypeError(f"namespace must be a module of the array API, such as jax.numpy, got {namespace!r}")
        self.shape = op.shape
        self._op, self._xp, self._device = op, namespace, device
        where = {} if device is None else {"device": device}
        self._plan = plan_of(op)
        values = self._plan.values(np, scaled_entries(op), self._plan.indices)
        self._values = [[namespace.asarray(block, **where) for block in step] for step in values]
        self._indices = namespace.asarray(self._plan.indices.copy(), **where)

    @property
    def T(self) -> "PortableProduct":
        return PortableProduct(self._op.T, self._xp, self._device)

    @property
    def H(self) -> "PortableProduct":
        return PortableProduct(self._op.H, self._xp, self._device)

    def __matmul__(self, x: Any) -> Any:
        xp, first = self._xp, self._values[0][0]
        dtype = getattr(xp, "promote_types", xp.result_type)(first.dtype, x.dtype)
        values = self._values
        if first.dtype != dtype:
            values = [[_cast(xp, block, dtype) for block in step] for step in values]
        x = x if x.dtype == dtype else _cast(xp, x, dtype)
        return multiplied(xp, x, self.shape[1], lambda X: self._plan.apply(xp, values, self._indices, X))

    dot = __call__ = __matmul__

    def __repr__(self) -> str:
        return f"<PortableProduct of {self._xp.__name__}: {self._op!r}>"


def plan_of(op: SparseProduct) -> Plan:
    """The plan of an operator, made once."""
    if "plan" not in op._cache:
        op._cache["plan"] = Plan([to_csr(factor) for factor in op._factors])
    return op._cache["plan"]


def scaled_entries(op: SparseProduct) -> Array:
    """The entries of all factors row by row, those of the first times the scale."""
    first, *others = op._factors
    return np.concatenate([to_csr(factor).data for factor in (scaled(first, op.scale), *others)])


def namespace_of(x: Any) -> Any:
    """The library of an array that is not NumPy's, as far as it has the array API standard; else None."""
    if isinstance(x, (np.ndarray, np.generic)):
        return None
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    library = type(x).__module__.partition(".")[0]
    found = sys.modules[library] if library in ("torch", "cupy") else None
    return found if hasattr(x, "dtype") and hasattr(x, "shape") else None


def apply(op: SparseProduct, xp: Any, x: Any) -> Any:
    """``op @ x`` for an array of another library: by the kernels where the memory of x can be read."""
    if xp.__name__ == "torch":
        from ..torch.operations import apply as apply_to_tensor

        return apply_to_tensor(op, x)
    try:
        vectors = np.from_dlpack(x) if x.__dlpack_device__()[0] == _ON_CPU else None
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        vectors = None  # traced, or of a dtype that NumPy does not have
    if vectors is not None:
        return xp.asarray(op @ vectors, device=x.device)
    if not hasattr(x, "__dlpack_device__"):  # traced by JAX: its constants are not kept after that
        return PortableProduct(op, xp) @ x
    return prepared(op, xp, x.device) @ x


def prepared(op: SparseProduct, xp: Any, device: Any) -> PortableProduct:
    """``op.to(xp, device)``, made once."""
    key = "portable", xp.__name__, str(device)
    if key not in op._cache:
        op._cache[key] = PortableProduct(op, xp, device)
    return op._cache[key]


def to_jax(op: SparseProduct) -> tuple[Callable[[Any, Any], Any], list[Any]]:
    """See `SparseProduct.to_jax`."""
    try:
        import jax.numpy as jnp
    except ImportError as error:
        raise ImportError("to_jax needs JAX: pip install jax") from error
    plan, indices, n_columns = plan_of(op), jnp.asarray(plan_of(op).indices), op.shape[1]

    def apply(params: Any, x: Any) -> Any:
        values = plan.values(jnp, jnp.concatenate(params), indices)
        return op.scale * multiplied(jnp, jnp.asarray(x), n_columns, lambda X: plan.apply(jnp, values, indices, X))

    return apply, [jnp.asarray(to_csr(factor).data) for factor in op._factors]
