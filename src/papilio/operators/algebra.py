"""Sums, stacks, Kronecker products, parts, norms and pseudoinverses of SparseProducts.

A + B = [A₁ B₁] · diag(A₂, B₂) ⋯ [A_M; B_M]. In a stack, the first or the last factor is block-diagonal, too. A
shorter chain is filled up with identities, where it is narrowest.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from ..linalg import column_norms, frobenius, wide
from ..typing import Array, MatrixLike
from ..validation import as_integer, as_numbers, as_real, is_series, require_finite
from .factors import Factor, entries, pruned, same, scaled, to_csr, to_dense
from .product import SparseProduct

_LARGEST = 2**31 - 1  # rows or columns of a factor
_BLOCK_ENTRIES = 1 << 22  # Entries of the matrix that are computed at a time for a norm: 32 MB of float64.
_MODERATE = 1e100  # a norm from which, or below whose inverse, squares may overflow or underflow
_FEW = 8  # rows or columns up to which the matrix is formed: Lanczos iteration needs more of them than of vectors
_TOL = {"f": 1e-6, "d": 1e-12}  # Tolerance of a pseudoinverse by the letter of the real dtype.
# Iterations of a pseudoinverse; because of rounding it may need more than there are columns.
_LEAST_ITERATIONS = 20


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
    >>> pp.operators.hstack([pp.transforms.hadamard(2), [[5], [6]]]).toarray()
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
    >>> pp.operators.vstack([pp.transforms.hadamard(2), [[5, 6]]]).toarray()
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
    >>> pp.operators.block_diag([pp.transforms.hadamard(2), [[5]]]).toarray()
    array([[ 1.,  1.,  0.],
           [ 1., -1.,  0.],
           [ 0.,  0.,  5.]])
    """
    return _joined(_as_products(operators), rows=False, columns=False)


def added(operators: Sequence[SparseProduct]) -> SparseProduct:
    """The sum of products of one shape; see `SparseProduct`."""
    _require_equal("rows and columns", [part.shape for part in operators])
    return _joined(operators, rows=True, columns=True)


def _as_products(operators: Any) -> list[SparseProduct]:
    if not is_series(operators) or isinstance(operators, np.ndarray | LinearOperator):
        raise TypeError(
            f"operators must be a sequence of SparseProducts or matrices, got {type(operators).__name__}"
        )
    products = [_as_product(f"operators[{i}]", each) for i, each in enumerate(operators)]
    if not products:
        raise ValueError("operators must hold at least one SparseProduct or matrix, got none")
    return products


def _as_product(name: str, value: Any) -> SparseProduct:
    if isinstance(value, SparseProduct):
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


def _joined(operators: Sequence[SparseProduct], rows: bool, columns: bool) -> SparseProduct:
    """Products on the same rows or not, and on the same columns or not."""
    if len(operators) == 1:
        return SparseProduct([operators[0]])
    dtype = np.result_type(*(op.dtype for op in operators))
    chains = [list(op.astype(dtype)._factors) for op in operators]
    scale, shares = _common_scale([op.scale for op in operators])
    before, after = _common(chains, 0) if rows else [], _common(chains, -1) if columns else []
    for chain, share in zip(chains, shares, strict=True):
        chain[0] = scaled(chain[0], share)
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
    >>> pp.operators.kron(H, H).nnz == pp.transforms.hadamard(64).nnz
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
    paths: dict[tuple[int, int], tuple[int, int, list[tuple[int, int]]]] = {(0, 0): (0, 0, [])}
    for i in range(len(A) + 1):
        for j in range(len(B) + 1):
            options = []
            for di, dj in ((1, 1), (1, 0), (0, 1)):
                if i < di or j < dj:
                    continue
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


def part_of(op: SparseProduct, imaginary: bool) -> SparseProduct:
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


def _zero(op: SparseProduct) -> SparseProduct:
    return op._trusted([sp.csr_array(op.shape, dtype=op.dtype.type(0).real.dtype)], 1.0)


# -- norms ---------------------------------------------------------------------------------------------


def norm_of(op: SparseProduct, ord: float | str) -> float:
    """The norm of this name; see `SparseProduct.norm`."""
    if (
        not isinstance(ord, str | int | float | np.integer)
        or isinstance(ord, bool)
        or ord not in (1, 2, np.inf, "fro")
    ):
        raise ValueError(f"ord must be 1, 2, numpy.inf or 'fro', got {ord!r}")
    return _measure(op.astype(wide(op.dtype)), ord)


def _measure(op: SparseProduct, ord: float | str) -> float:
    if ord == 1:
        return max(float(np.abs(block).sum(axis=0).max()) for block in _blocks(op))
    if ord == np.inf:
        return _measure(op.T, 1)
    op = op if op.shape[0] >= op.shape[1] else op.T
    if ord == "fro" or op.shape[1] == 1:
        return frobenius(np.array([frobenius(block) for block in _blocks(op)]))
    return _spectral(op)


def _spectral(op: SparseProduct) -> float:
    """By Lanczos iteration on the factors; on the matrix itself if it has few columns."""
    if op.shape[1] <= _FEW:
        values = op.toarray()
        size = frobenius(values)
        return size * float(np.linalg.norm(values / size, 2)) if size > 0 else 0.0
    start = np.random.default_rng(0).standard_normal(op.shape[1])
    size = frobenius(op @ start)  # zero only for the zero operator; else of the norm's order
    if size == 0.0 or not np.isfinite(size):
        return size
    if not 1 / _MODERATE < size < _MODERATE:  # Lanczos iteration squares the operator
        return size * _spectral(op / size)
    return float(svds(op, k=1, v0=start, return_singular_vectors=False)[0])


def _blocks(op: SparseProduct) -> Iterator[Array]:
    """The matrix, by blocks of columns."""
    width = max(1, _BLOCK_ENTRIES // op.shape[0])
    for start in range(0, op.shape[1], width):
        yield op[:, start : start + width].toarray()


# -- pseudoinverses ------------------------------------------------------------------------------------


class PseudoInverse(LinearOperator):  # type: ignore[misc]
    """A⁺ as an operator: ``pinv @ b`` is the least-squares solution x of A x = b with the smallest norm.

    ``op.pinv()`` makes it. ``H`` and ``T`` are the pseudoinverses of the adjoint and of the transpose.
    """

    def __init__(self, op: SparseProduct, tol: float | None, max_iter: int | None) -> None:
        single = np.finfo(op.dtype).bits == 32
        self.tol = _TOL["f" if single else "d"] if tol is None else as_real("tol", tol, 0.0, 1.0)
        fewest = 4 * min(op.shape) + _LEAST_ITERATIONS
        self.max_iter = fewest if max_iter is None else as_integer("max_iter", max_iter, 1)
        self.op = op
        super().__init__(op.dtype, (op.shape[1], op.shape[0]))

    def _matvec(self, x: Any) -> Array:
        return self._matmat(np.reshape(x, (-1, 1)))[:, 0]

    def _matmat(self, X: Any) -> Array:
        B = as_numbers("X", X)
        require_finite("X", B)
        if not self.op.scale:
            return np.zeros((self.shape[0], B.shape[1]), np.result_type(self.dtype, B.dtype))
        unit = self.op._of_links(self.op._links, 1.0)
        return least_squares(unit, B, self.tol, self.max_iter) / self.op.dtype.type(self.op.scale).real

    def _adjoint(self) -> "PseudoInverse":
        return PseudoInverse(self.op.H, self.tol, self.max_iter)

    def _transpose(self) -> "PseudoInverse":
        return PseudoInverse(self.op.T, self.tol, self.max_iter)


def least_squares(op: SparseProduct, B: Array, tol: float, max_iter: int) -> Array:
    """X of least norm that minimises ‖A X − B‖, by LSQR (Paige and Saunders 1982), column by column in step.

    A column is done when its residual r has ‖r‖ ≤ tol (‖A‖‖x‖ + ‖b‖) or ‖Aᴴr‖ ≤ tol ‖A‖‖r‖, with the Frobenius
    norm of the part of A that was seen: x is then exact for an A and b that differ by a relative tol.
    """
    dtype = np.result_type(op.dtype, B.dtype)
    X = np.zeros((op.shape[1], B.shape[1]), dtype)
    U, beta = _normalised(B.astype(dtype))
    V, alpha = _normalised(op.H @ U)
    W = V.copy()
    sizes, residual, diagonal, norm = beta, beta, alpha, alpha
    here = np.arange(B.shape[1])  # the columns that are not done
    for _ in range(max_iter):
        # ‖r‖ is residual, and ‖Aᴴr‖ is residual · |diagonal|.
        limit = tol * (norm * column_norms(X[:, here]) + sizes)
        left = (residual > limit) & (np.abs(diagonal) > tol * norm)
        if not left.all():
            here, U, V, W = here[left], U[:, left], V[:, left], W[:, left]
            alpha, sizes, residual, diagonal, norm = (
                each[left] for each in (alpha, sizes, residual, diagonal, norm)
            )
        if not here.size:
            return X
        U, beta = _normalised(op @ V - U * alpha.astype(U.real.dtype))
        V, alpha = _normalised(op.H @ U - V * beta.astype(V.real.dtype))
        norm = np.hypot(norm, np.hypot(alpha, beta))
        pivot = np.hypot(diagonal, beta)  # a rotation that takes beta to zero
        cosine, sine = diagonal / pivot, beta / pivot
        X[:, here] += W * (cosine * residual / pivot).astype(W.real.dtype)
        W = V - W * (sine * alpha / pivot).astype(W.real.dtype)
        residual, diagonal = sine * residual, -cosine * alpha
    warnings.warn(
        f"pinv has not converged for {here.size} of {B.shape[1]} vectors in max_iter={max_iter} iterations; "
        "raise max_iter or tol",
        RuntimeWarning,
        stacklevel=2,
    )
    return X


def _normalised(columns: Array) -> tuple[Array, Array]:
    """Columns of norm one, and their norms; zero ones stay zero."""
    norms = column_norms(columns)
    return columns / np.where(norms > 0, norms, 1.0).astype(columns.real.dtype), norms
