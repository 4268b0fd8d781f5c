"""Chains of Kronecker-sparse supports: the supports of butterfly factors."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..typing import Array
from ..validation import as_integer, as_real, as_shape, is_scalar, is_series
from .known import prime_factors

_KEPT = 1 << 16  # Entries of a factor up to which its indices are kept for the next one.


class Pattern(NamedTuple):
    """The support I_a ⊗ 1_{b×c} ⊗ I_d of a factor: a·d dense blocks of b×c entries.

    Examples
    --------
    >>> from papilio.transforms.chains import Pattern
    >>> Pattern(1, 2, 2, 2).support().toarray().astype(int)
    array([[1, 0, 1, 0],
           [0, 1, 0, 1],
           [1, 0, 1, 0],
           [0, 1, 0, 1]])
    """

    a: int
    b: int
    c: int
    d: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the factor."""
        return self.a * self.b * self.d, self.a * self.c * self.d

    @property
    def nnz(self) -> int:
        """Entries of the factor."""
        return self.a * self.b * self.c * self.d

    def support(self) -> sp.csr_array:
        """The support as a boolean matrix."""
        return self.factor(np.ones((self.a * self.d, self.b, self.c), bool))

    def factor(self, blocks: Array) -> sp.csr_array:
        """The factor with these dense blocks, an array (a·d, b, c)."""
        a, b, c, d = self
        data = blocks.reshape(a, d, b, c).transpose(0, 2, 1, 3).reshape(-1)
        indices, pointers = _places(self) if self.nnz <= _KEPT else _places.__wrapped__(self)
        return sp.csr_array((data, indices.copy(), pointers.copy()), shape=self.shape)

    def blocks(self, matrix: Array) -> Array:
        """The dense blocks of a matrix on this support, an array (a·d, b, c)."""
        a, b, c, d = self
        parts = np.einsum("abdacd->adbc", matrix.reshape(a, b, d, a, c, d))
        return np.ascontiguousarray(parts).reshape(a * d, b, c)


@lru_cache(64)
def _places(pattern: Pattern) -> tuple[Array, Array]:
    """Column indices and row pointers of a factor."""
    a, b, c, d = pattern
    dtype: Any = np.int32 if pattern.nnz < 2**31 else np.int64
    columns: Array = np.arange(a * c * d, dtype=dtype).reshape(a, 1, c, d).transpose(0, 1, 3, 2)
    indices: Array = np.broadcast_to(columns, (a, b, d, c)).reshape(-1)
    pointers: Array = np.arange(0, pattern.nnz + 1, c, dtype=dtype)
    return indices, pointers


def as_pattern(name: str, value: Any) -> Pattern | None:
    """Four numbers as a pattern; None for anything else."""
    if isinstance(value, Pattern):
        return value
    if not isinstance(value, tuple | list) or len(value) != 4 or not all(map(is_scalar, value)):
        return None
    return Pattern(*(as_integer(name, number, 1) for number in value))


def rank_between(left: Pattern, right: Pattern) -> int:
    """The rank q of the blocks at the cut between two factors; 0 if they are not chainable.

    They are if a₁ divides a₂, d₂ divides d₁, and q = a₁c₁/a₂ = b₂d₂/d₁ is an integer.
    """
    q = left.a * left.c // right.a
    divides = right.a % left.a == 0 and left.d % right.d == 0
    return q if divides and left.a * left.c == q * right.a and right.b * right.d == q * left.d else 0


def is_chainable(supports: Sequence[Any]) -> bool:
    """Whether they are patterns of which all neighbours are chainable."""
    return all(isinstance(support, Pattern) for support in supports) and all(
        rank_between(left, right) > 0 for left, right in pairwise(supports)
    )


def butterfly_chain(
    shape: tuple[int, int],
    radices: Sequence[int | tuple[int, int]] | None = None,
    *,
    n_factors: int | None = None,
    complexity: float | None = None,
    rank: int = 1,
) -> list[Pattern]:
    """The supports (a, b, c, d) of butterfly factors that multiply to a matrix of this shape.

    Factor i of a chain of radices (b₁, c₁), (b₂, c₂), … has the support I_a ⊗ 1_{b×c} ⊗ I_d with a = c₁⋯c_{i−1},
    d = b_{i+1}⋯b_L, b = bᵢ·rᵢ₋₁ and c = cᵢ·rᵢ, where rᵢ is the rank of the blocks at the cut after factor i.

    Parameters
    ----------
    shape : (m, n)
    radices : sequence of int or of (int, int), optional
        bᵢ and cᵢ of each factor, with the products m and n. By default the prime factors of m and n, some of them
        multiplied such that there are equally many.
    n_factors : int, optional
        How many factors there are; two of them make a Monarch matrix. By default as many as possible.
    complexity : float, optional
        The entries of all factors relative to m·n, at most: as few factors as that allows.
    rank : int, default=1
        The rank of the blocks at each cut, or their smaller side if that is less.

    Returns
    -------
    list of Pattern
        For `papilio.butterfly`.

    Examples
    --------
    >>> from papilio.transforms import butterfly_chain
    >>> [tuple(pattern) for pattern in butterfly_chain((8, 8))]
    [(1, 2, 2, 4), (2, 2, 2, 2), (4, 2, 2, 1)]
    >>> [tuple(pattern) for pattern in butterfly_chain((1024, 1024), n_factors=2)]
    [(1, 32, 32, 32), (32, 32, 32, 1)]
    >>> [tuple(pattern) for pattern in butterfly_chain((6, 8), [(2, 4), (3, 2)], rank=2)]
    [(1, 2, 8, 3), (4, 6, 2, 1)]
    """
    m, n = as_shape("shape", shape)
    rank = as_integer("rank", rank, 1)
    if radices is not None:
        if n_factors is not None or complexity is not None:
            raise ValueError("radices already say the number of factors: leave out n_factors and complexity")
        return _chain(_as_pairs(radices, (m, n)), rank)
    primes = prime_factors(m), prime_factors(n)
    most = max(min(map(len, primes)), 1)
    if n_factors is not None:
        counts = [as_integer("n_factors", n_factors, 1, most)]
    else:
        counts = list(range(1, most + 1)) if complexity is not None else [most]
    chains = [_chain(list(zip(*(_merged(each, count) for each in primes), strict=True)), rank) for count in counts]
    if complexity is None:
        return chains[-1]
    limit = as_real("complexity", complexity, 0.0, 1.0) * m * n
    for chain in chains:
        if sum(pattern.nnz for pattern in chain) <= limit:
            return chain
    least = min(sum(pattern.nnz for pattern in chain) for chain in chains) / (m * n)
    raise ValueError(f"complexity must be at least {least:.4g} for this shape and rank, got {complexity:g}")


def _chain(pairs: Sequence[tuple[int, int]], rank: int) -> list[Pattern]:
    rows, columns = zip(*pairs, strict=True)
    ranks = [1, *(min(rank, prod(rows[:i]), prod(columns[i:])) for i in range(1, len(pairs))), 1]
    return [
        Pattern(prod(columns[:i]), b * ranks[i], c * ranks[i + 1], prod(rows[i + 1 :]))
        for i, (b, c) in enumerate(pairs)
    ]


def _as_pairs(radices: Any, shape: tuple[int, int]) -> list[tuple[int, int]]:
    if not is_series(radices):
        raise TypeError(f"radices must be a sequence of integers or pairs of integers, got {radices!r}")
    pairs = []
    for i, radix in enumerate(radices):
        sides = tuple(radix) if is_series(radix) else (radix, radix)
        if len(sides) != 2:
            raise ValueError(f"radices[{i}] must be an integer or a pair of integers, got {radix!r}")
        b, c = (as_integer(f"radices[{i}]", side, 1) for side in sides)
        pairs.append((b, c))
    if not pairs or tuple(prod(side) for side in zip(*pairs, strict=True)) != shape:
        raise ValueError(f"radices must multiply to the shape {shape}, got {radices!r}")
    return pairs


def _merged(primes: list[int], count: int) -> list[int]:
    """The product of all primes as ``count`` numbers that are as nearly equal as possible."""
    numbers = [1] * count
    for prime in reversed(primes):
        numbers[numbers.index(min(numbers))] *= prime
    return sorted(numbers)
