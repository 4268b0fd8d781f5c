"""Sums, stacks and Kronecker products of SparseProducts, as SparseProducts: their factors side by side.

A + B = [A₁ B₁] · diag(A₂, B₂) ⋯ [A_M; B_M]. In a stack, the first or the last factor is block-diagonal, too. A
shorter chain is filled up with identities, where it is narrowest.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from ..typing import Array, MatrixLike
from ..validation import as_real, is_series, require_finite
from .base import FactoredOperator
from .chains import pruned
from .csr import Factor, entries, is_moderate, same, to_csr, to_dense, with_scale
from .product import SparseProduct

_LARGEST = 2**31 - 1  # rows or columns of a factor

Operator = TypeVar("Operator", bound=FactoredOperator)


def hstack(operators: "Iterable[SparseProduct | MatrixLike]") -> SparseProduct:
    """Products side by side, [A B …], as one product: ``numpy.hstack`` of the dense matrices.

    [A₁ B₁] · diag(A₂, B₂) ⋯ diag(A_M, B_M). First factors that all have in common stand once, in front.

    Parameters
    ----------
    operators : sequence of SparseProducts and matrices
        With equally many rows. A matrix is a product of one factor.

    Returns
    -------
    SparseProduct
        With as many factors as the longest of them. Its entries are those of all; to a product with m factors
        fewer, m identities are added, of its shortest side, inside or out. The largest scale stands in front, the
        others go into factors.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.hstack([pp.transforms.hadamard(2), [[5], [6]]]).toarray()
    array([[ 1.,  1.,  5.],
           [ 1., -1.,  6.]])
    """
    parts = _as_products(operators)
    _require_equal("rows", [part.shape[0] for part in parts])
    return _joined(parts, rows=True, columns=False)


def vstack(operators: "Iterable[SparseProduct | MatrixLike]") -> SparseProduct:
    """Products on top of each other, [A; B; …], as one product: ``numpy.vstack`` of the dense matrices.

    diag(A₁, B₁) ⋯ diag(A_{M−1}, B_{M−1}) · [A_M; B_M]. Last factors that all have in common stand once, at the
    end.

    Parameters
    ----------
    operators : sequence of SparseProducts and matrices
        With equally many columns. A matrix is a product of one factor.

    Returns
    -------
    SparseProduct
        With factors and entries as for `hstack`.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.vstack([pp.transforms.hadamard(2), [[5, 6]]]).toarray()
    array([[ 1.,  1.],
           [ 1., -1.],
           [ 5.,  6.]])
    """
    parts = _as_products(operators)
    _require_equal("columns", [part.shape[1] for part in parts])
    return _joined(parts, rows=False, columns=True)


def block_diag(operators: "Iterable[SparseProduct | MatrixLike]") -> SparseProduct:
    """Products as the blocks of a block-diagonal one: ``scipy.sparse.block_diag`` of the dense matrices.

    diag(A₁, B₁) · diag(A₂, B₂) ⋯ diag(A_M, B_M).

    Parameters
    ----------
    operators : sequence of SparseProducts and matrices
        A matrix is a product of one factor.

    Returns
    -------
    SparseProduct
        With factors and entries as for `hstack`.

    Examples
    --------
    >>> import papilio as pp
    >>> pp.block_diag([pp.transforms.hadamard(2), [[5]]]).toarray()
    array([[ 1.,  1.,  0.],
           [ 1., -1.,  0.],
           [ 0.,  0.,  5.]])
    """
    return _joined(_as_products(operators), rows=False, columns=False)


def added(operators: Sequence[FactoredOperator]) -> SparseProduct:
    """The sum of products of one shape; see `SparseProduct`."""
    _require_equal("rows and columns", [part.shape for part in operators])
    return _joined(operators, rows=True, columns=True)


def _as_products(operators: Any) -> list[FactoredOperator]:
    if not is_series(operators) or isinstance(operators, np.ndarray | LinearOperator):
        raise TypeError(
            f"operators must be a sequence of SparseProducts or matrices, got {type(operators).__name__}"
        )
    products = [_as_product(f"operators[{i}]", each) for i, each in enumerate(operators)]
    if not products:
        raise ValueError("operators must hold at least one SparseProduct or matrix, got none")
    return products


def _as_product(name: str, value: Any) -> FactoredOperator:
    if isinstance(value, FactoredOperator):
        return value
    if isinstance(value, LinearOperator):
        raise TypeError(f"{name} must be a SparseProduct or a matrix, got {type(value).__name__}")
    try:
        return SparseProduct([value])
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("factors[0]", name)) from None


def _require_equal(lines: str, counts: Sequence[Any]) -> None:
    if len(set(counts)) > 1:
        raise ValueError(f"operators must have equally many {lines}, got {', '.join(map(str, counts))}")


# -- factors side by side ------------------------------------------------------------------------------


def _joined(operators: Sequence[FactoredOperator], rows: bool, columns: bool) -> SparseProduct:
    """Products on the same rows or not, and on the same columns or not."""
    if len(operators) == 1:
        return SparseProduct([operators[0]])
    dtype = np.result_type(*(op.dtype for op in operators))
    chains = [list(op.astype(dtype)._factors) for op in operators]
    scale, shares = _common_scale([op.scale for op in operators])
    before, after = _common(chains, 0) if rows else [], _common(chains, -1) if columns else []
    for chain, share in zip(chains, shares, strict=True):
        if share != 1.0:
            i, factor = with_scale(chain, share)
            chain[i] = factor
    _fill_up(chains)
    count = len(chains[0])
    middle = [
        _side_by_side([chain[i] for chain in chains], rows and i == 0, columns and i == count - 1)
        for i in range(count)
    ]
    for factor in middle:
        require_finite("operators, joined,", entries(factor))
    return SparseProduct._trusted([*before, *middle, *reversed(after)], scale)


def _common_scale(scales: Sequence[float]) -> tuple[float, list[float]]:
    """The scale of largest magnitude, and all others relative to it."""
    largest = max(scales, key=abs)
    return largest, [scale / largest if largest else 1.0 for scale in scales]


def _common(chains: Sequence[list[Factor]], end: int) -> list[Factor]:
    """Take off the equal factors at one end of all chains, apart from the last of any chain."""
    taken = []
    while min(map(len, chains)) > 1 and all(same(chain[end], chains[0][end]) for chain in chains[1:]):
        taken.append(chains[0][end])
        for chain in chains:
            del chain[end]
    return taken


def _fill_up(chains: Sequence[list[Factor]]) -> None:
    """Bring all chains to the same length by identities, each where its chain is narrowest."""
    longest = max(map(len, chains))
    for chain in chains:
        sides = [chain[0].shape[0], *(factor.shape[1] for factor in chain)]
        place = int(np.argmin(sides))
        identity = sp.eye_array(sides[place], dtype=chain[0].dtype, format="csr")
        chain[place:place] = [identity] * (longest - len(chain))


def _side_by_side(blocks: Sequence[Factor], rows: bool, columns: bool) -> Factor:
    """Blocks on the same rows or not, and on the same columns or not."""
    are_dense = all(isinstance(block, np.ndarray) for block in blocks)
    if rows and columns:
        any_dense = any(isinstance(block, np.ndarray) for block in blocks)
        with np.errstate(over="ignore"):
            return sum(map(to_dense, blocks[1:]), to_dense(blocks[0])) if any_dense else sum(blocks[1:], blocks[0])
    if are_dense and (rows or columns):
        return (np.hstack if rows else np.vstack)(blocks)
    stack: Callable[..., Factor] = sp.hstack if rows else sp.vstack if columns else sp.block_diag
    return sp.csr_array(stack([to_csr(block) for block in blocks], format="csr"))


# -- Kronecker products --------------------------------------------------------------------------------


def kron(a: SparseProduct | MatrixLike, b: SparseProduct | MatrixLike) -> SparseProduct:
    """The Kronecker product A ⊗ B as one product: ``numpy.kron`` of the dense matrices.

    A ⊗ B is a product of A_i ⊗ I, I ⊗ B_j and A_i ⊗ B_j. Of all orders, and all choices of which factors are
    multiplied out, the one with the fewest entries is taken; of several, the one with the fewest factors.

    Parameters
    ----------
    a, b : SparseProduct or matrix
        A matrix is a product of one factor.

    Returns
    -------
    SparseProduct
        With no more entries than (A ⊗ I)(I ⊗ B) has: those of A times the rows of B, and those of B times the
        columns of A.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(8)
    >>> pp.kron(H, H).nnz == pp.transforms.hadamard(64).nnz
    True
    """
    left, right = _as_product("a", a), _as_product("b", b)
    shape = tuple(m * n for m, n in zip(left.shape, right.shape, strict=True))
    if max(shape) > _LARGEST:
        raise ValueError(f"a and b must make a product of at most {_LARGEST} rows and columns, got {shape}")
    dtype = np.result_type(left.dtype, right.dtype)
    scale = as_real("scale", left.scale * right.scale)
    A, B = left.astype(dtype)._factors, right.astype(dtype)._factors
    steps = _shortest(A, B)
    return SparseProduct._trusted([_kron(*step) for step in steps], scale)


def _kron(left: Factor, right: Factor) -> Factor:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.kron(left, right)
    return sp.kron(to_csr(left), to_csr(right), format="csr").astype(left.dtype)  # SciPy: an empty one is float64


def _shortest(A: Sequence[Factor], B: Sequence[Factor]) -> list[tuple[Factor, Factor]]:
    """The pairs whose Kronecker products, from left to right, are the product, with the fewest entries in all.

    A path from (0, 0) to (M, N), where (i, j) stands for the first i factors of A and the first j of B. A step
    goes along A, along B, or along both.
    """
    a_sides, b_sides = ([chain[0].shape[0], *(factor.shape[1] for factor in chain)] for chain in (A, B))
    dtype = A[0].dtype
    moderate = [[is_moderate(entries(factor)) for factor in chain] for chain in (A, B)]
    paths: dict[tuple[int, int], tuple[int, int, list[tuple[int, int]]]] = {(0, 0): (0, 0, [])}
    for i in range(len(A) + 1):
        for j in range(len(B) + 1):
            options = []
            for di, dj in ((1, 1), (1, 0), (0, 1)):
                if i < di or j < dj:
                    continue
                if di and dj and not (moderate[0][i - 1] and moderate[1][j - 1]):
                    continue  # a product of entries may leave the number range
                entries_left = A[i - 1].size if di else a_sides[i]
                entries_right = B[j - 1].size if dj else b_sides[j]
                cost, count, path = paths[i - di, j - dj]
                options.append((cost + entries_left * entries_right, count + 1, [*path, (di, dj)]))
            if options:
                paths[i, j] = min(options, key=lambda option: option[:2])
    path = paths[len(A), len(B)][2]
    ends = accumulate(path, lambda place, step: (place[0] + step[0], place[1] + step[1]))
    return [
        (
            A[i - 1] if di else sp.eye_array(a_sides[i], dtype=dtype, format="csr"),
            B[j - 1] if dj else sp.eye_array(b_sides[j], dtype=dtype, format="csr"),
        )
        for (i, j), (di, dj) in zip(ends, path, strict=True)
    ]


# -- real and imaginary parts --------------------------------------------------------------------------


def part_of(op: Operator, imaginary: bool) -> Operator:
    """The real or the imaginary part of a product, which is a product of real factors.

    With z as [Re z; Im z], a factor S is [[Re S, −Im S], [Im S, Re S]]; the first has the upper or the lower rows
    only, the last the left columns. What only meets zeros is left out.
    """
    if op.dtype.kind != "c":
        return _zero(op) if imaginary else op
    chain = [_real_and_imaginary(factor) for factor in op._factors]
    if len(chain) == 1:
        return op._trusted([chain[0][imaginary]], op._scale)
    (real, imag), last = chain[0], chain[-1]
    factors = [
        sp.hstack([imag, real] if imaginary else [real, -imag], format="csr"),
        *(sp.block_array([[re, -im], [im, re]], format="csr") for re, im in chain[1:-1]),
        sp.vstack(last, format="csr"),
    ]
    factors = pruned([sp.csr_array(factor) for factor in factors])
    return op._trusted(factors, op._scale) if all(factor.nnz for factor in factors) else _zero(op)


def _real_and_imaginary(factor: Factor) -> tuple[sp.csr_array, sp.csr_array]:
    matrix = to_csr(factor)

    def part(values: Array) -> sp.csr_array:
        made = sp.csr_array((values.copy(), matrix.indices.copy(), matrix.indptr.copy()), shape=matrix.shape)
        made.eliminate_zeros()
        return made

    return part(matrix.data.real), part(matrix.data.imag)


def _zero(op: Operator) -> Operator:
    return op._trusted([sp.csr_array(op.shape, dtype=op.dtype.type(0).real.dtype)], 1.0)
