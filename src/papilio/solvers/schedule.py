"""Schedules: the sets of the hierarchical factorization, split by split, and which lines share blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import DTypeLike

from ..constraints import Constraint, Sparse, SparseBlocks, SparseColumns, SparseRows, SparseRowsAndColumns
from ..constraints.sparsity import as_block, n_blocks_of, sums_of_groups
from ..kernels.grouping import exchange_labels
from ..typing import Array
from ..validation import as_choice, as_factor_count, as_flag, as_integer, as_power_of_two, as_real, as_shape


@dataclass(frozen=True)
class Schedule:
    """The constraint sets E_k and Ẽ_k of the paper's Algorithm 3, in the order of peeling.

    `paper` has the paper's own sets; those of the other constructors are ours.

    Split k replaces the residual by (factor k) × (new residual), or for ``side="right"`` by
    (new residual) × (factor k). The last residual is the last factor.

    Parameters
    ----------
    factors : sequence of Constraint
        E_1, E_2, …: the sets of the factors that are peeled off.
    residuals : sequence of Constraint
        Ẽ_1, Ẽ_2, …: the sets of what is left after each split.
    side : {"left", "right"}, default="left"
        The side from which factors are peeled off.
    regroup : bool, default=False
        Whether solvers choose the orders of rows and columns of `SparseBlocks` sets, so that lines with similar
        entries share blocks. The factors then lie in these sets with other orders.

    Examples
    --------
    Three factors of a 6 × 6 matrix. The two residuals get sparser; the last one is the third factor.

    >>> import papilio as pp
    >>> from papilio.constraints import Sparse
    >>> pp.Schedule([Sparse(6, 12), Sparse(6, 12)], [Sparse(6, 24), Sparse(6, 18)]).constraints
    [Sparse((6, 6), 12), Sparse((6, 6), 12), Sparse((6, 6), 18)]
    """

    factors: Sequence[Constraint]
    residuals: Sequence[Constraint]
    side: str = "left"
    regroup: bool = False

    def __post_init__(self) -> None:
        as_choice("side", self.side, ("left", "right"))
        object.__setattr__(self, "regroup", as_flag("regroup", self.regroup))
        for name in ("factors", "residuals"):
            sets = getattr(self, name)
            if isinstance(sets, Constraint) or not isinstance(sets, Sequence):
                raise TypeError(f"{name} must be a sequence of constraints, got {sets!r}")
            for i, constraint in enumerate(sets):
                if not isinstance(constraint, Constraint):
                    raise TypeError(f"{name}[{i}] must be a constraint, got {type(constraint).__name__}")
            object.__setattr__(self, name, tuple(sets))
        if not self.factors or len(self.factors) != len(self.residuals):
            raise ValueError(
                "factors and residuals must each hold one constraint per split, at least one; "
                f"got {len(self.factors)} and {len(self.residuals)}"
            )
        for k in range(len(self.factors)):
            left, right = self.split(k)
            whole = self.residuals[k - 1].shape if k else (left.shape[0], right.shape[1])
            if left.shape[1] != right.shape[0] or (left.shape[0], right.shape[1]) != whole:
                raise ValueError(
                    f"factors[{k}] and residuals[{k}] must chain to what they split, shape {whole}; "
                    f"their shapes are, left to right, {left.shape} and {right.shape}"
                )

    def split(self, k: int) -> tuple[Constraint, Constraint]:
        """The two sets of split k, left to right: (E, Ẽ) for ``side="left"``, (Ẽ, E) for ``side="right"``.

        Parameters
        ----------
        k : int
            From 0 to ``len(factors) - 1``.
        """
        pair = self.factors[k], self.residuals[k]
        return pair if self.side == "left" else (pair[1], pair[0])

    def together(self, k: int) -> list[Constraint]:
        """The sets of the factors after split k and of the residual, left to right, for the global step.

        Parameters
        ----------
        k : int
            From 0 to ``len(factors) - 1``.
        """
        sets = [*self.factors[: k + 1], self.residuals[k]]
        return sets if self.side == "left" else sets[::-1]

    def sets_for(self, factors: Sequence[Array], share: float = 0.0) -> list[Constraint]:
        """The sets for the next steps from some factors: `together`, relaxed, and regrouped if ``regroup``.

        Parameters
        ----------
        factors : sequence of arrays
            Left to right, as many as after one of the splits.
        share : float
            By how much the sets are relaxed.
        """
        sets = [each.relaxed(share) if share else each for each in self.together(len(factors) - 2)]
        return [
            regrouped(each, factor) if self.regroup and isinstance(each, SparseBlocks) else each
            for each, factor in zip(sets, factors, strict=True)
        ]

    @property
    def constraints(self) -> list[Constraint]:
        """The sets of the final factors, left to right."""
        return self.together(len(self.factors) - 1)

    @property
    def order(self) -> str:
        """The order of PALM's updates, for `palm`, in which the residual comes first."""
        return "right_to_left" if self.side == "left" else "left_to_right"

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrices that this schedule factorizes."""
        left, right = self.split(0)
        return left.shape[0], right.shape[1]

    @property
    def n_nonzero(self) -> int:
        """An upper bound on the entries of the resulting product."""
        return sum(constraint.n_nonzero for constraint in self.constraints)

    @classmethod
    def hadamard(cls, n: int) -> "Schedule":
        """Our sets for the paper's section 4.1: log₂n factors with two entries per row and column.

        The residuals have n/2, n/4, …, 2 entries per row and column. The paper has as many entries, but anywhere
        in a factor (p = 2n): with such sets the butterfly is not found.

        Parameters
        ----------
        n : int
            Rows and columns of the matrix: a power of two, at least 4.

        Examples
        --------
        >>> import papilio as pp
        >>> [residual.k for residual in pp.Schedule.hadamard(16).residuals]
        [8, 4, 2]
        """
        levels = as_power_of_two("n", n)[1] - 1
        if levels < 1:
            raise ValueError(f"n must be a power of two of at least 4, got {n}")
        return cls(
            [SparseRowsAndColumns((n, n), 2)] * levels,
            [SparseRowsAndColumns((n, n), n >> k) for k in range(1, levels + 1)],
        )

    @classmethod
    def paper(cls, d: int, Q: int, p: float, P: float) -> "Schedule":
        """The paper's sets, those of section 4.2, peeled off from the right: Q − 1 square factors of size d.

        ‖E_k‖₀ ≤ p·d and ‖Ẽ_k‖₀ ≤ P/2^(k−2) for k = 2, …, Q − 1; k = 1, which splits off the codes Γ, is done by
        dictionary learning.

        Parameters
        ----------
        d : int
            Rows and columns of the dictionary.
        Q : int
            The number of factors as the paper counts them, Γ included; at least 3.
        p : float
            Mean number of entries per row of a sparse factor, which has p·d entries in all.
        P : float
            Entries of the first residual. Counts are rounded down: the paper's P = 512·1.2 is not an integer.

        Examples
        --------
        >>> import papilio as pp
        >>> schedule = pp.Schedule.paper(32, 5, 4, 512 * 1.2)
        >>> schedule.constraints
        [Sparse((32, 32), 153), Sparse((32, 32), 128), Sparse((32, 32), 128), Sparse((32, 32), 128)]
        """
        d = as_integer("d", d, 2)
        # With more factors, a residual would be empty.
        splits = as_integer("Q", Q, 3, (d * d).bit_length() + 2) - 2
        entries = max(int(as_real("p", p, 1.0 / d, d) * d + 1e-9), 1)
        start = as_real("P", P, 2.0 ** (splits - 1), d * d)
        return cls(
            [Sparse((d, d), entries)] * splits,
            [Sparse((d, d), int(start / 2**k + 1e-9)) for k in range(splits)],
            side="right",
        )

    @classmethod
    def with_complexity(
        cls,
        shape: int | tuple[int, int],
        complexity: float | None = None,
        n_factors: int | None = None,
        block: int | tuple[int, int] | None = None,
    ) -> "Schedule":
        """Our sets for a dictionary with at most ``complexity`` times the entries of the dense matrix.

        They are unit-norm l0 balls as the paper's, with numbers of entries of our own; so are those of
        `with_speedup` and `rectangular`.

        A wide or square matrix is peeled from the right: one factor of its shape, and square ones of its short
        side to the left of it. A tall matrix is the mirror image. Each column of the last factor keeps an entry,
        so that no atom is lost. With ρ the long side over the short one, the
        entries are shared out by weight: 5 for the innermost factor (the last residual), 4/(M − 1) for each
        other square one, and 4√ρ/(M − 1) for the outer one, of M factors in all.

        The weights were measured on dictionaries of Gaussian data (32×32) and of image patches (64×64, 64×256),
        with complexities from 0.15 to 0.8. Two factors gave the lowest error; the outer one had 35 to 50 % of
        the entries in the best square dictionaries, and 65 % in the best redundant one. In blocks, 45 %
        were better than 55 % in redundant ones, too, by 0.3 to 0.6 % of the held-out error (64×128, and 64×256 at
        complexity 0.25, where 0.5 made no difference; one draw each): the root is left out.

        Parameters
        ----------
        shape : int or (int, int)
            Features and atoms of the dictionary; one integer n stands for (n, n).
        complexity : float, optional
            By default 0.5, or the smallest possible value if that is larger.
        n_factors : int, optional
            The number of factors, at least 2; by default 2.
        block : int or (int, int), optional
            Rows and columns of the blocks of `SparseBlocks` sets; one integer b stands for (b, b). By default
            each entry is free (`Sparse`). The schedule lets solvers regroup rows and columns.

        Examples
        --------
        >>> import papilio as pp
        >>> pp.Schedule.with_complexity((8, 32), complexity=0.5).constraints
        [Sparse((8, 8), 49), Sparse((8, 32), 79, every_column=True)]
        >>> pp.Schedule.with_complexity((8, 32), complexity=0.5, block=2).constraints
        [SparseBlocks((8, 8), 16, block=(2, 2)), SparseBlocks((8, 32), 16, block=(2, 2), every_column=True)]
        """
        rows, columns = as_shape("shape", shape)
        short, long = sorted((rows, columns))
        count = 2 if n_factors is None else as_factor_count("n_factors", n_factors)
        square = (short, short)
        p, q = (1, 1) if block is None else as_block(block, square)
        shapes = [(rows, columns), *[square] * (count - 1)]  # outer, middle, inner
        # In blocks, of which single entries are the smallest. With an empty line, atoms would be zero.
        floors = [max(ceil(m / p), ceil(n / q)) for m, n in shapes]
        caps = [n_blocks_of(shape, (p, q)) for shape in shapes]
        if complexity is None:
            budget = max(rows * columns // (2 * p * q), sum(floors))
        else:
            share = as_real("complexity", complexity, 0.0, 1.0)
            budget = int(min(share * rows * columns / (p * q) + 1e-9, sum(caps)))
        if budget < sum(floors):
            least = sum(floors) * p * q / (rows * columns)
            blocks = "" if block is None else f" in blocks of {p}×{q}"
            raise ValueError(
                f"complexity must be at least {least:.4g} for {count} factors of a {rows}×{columns} matrix"
                f"{blocks}, got {complexity}"
            )

        def few(shape: tuple[int, int], n_blocks: int, last: bool) -> Constraint:
            if block is None:
                return Sparse(shape, n_blocks, every_column=last)
            return SparseBlocks(shape, n_blocks, (p, q), every_column=last)

        redundancy = long / short if block is None else 1
        weights = [4 * sqrt(redundancy) / (count - 1), *[4 / (count - 1)] * (count - 2), 5]
        outer, *middle, inner = _deal(budget, weights, floors, caps)
        wide = rows <= columns
        thinning = [(inner / caps[-1]) ** (k / (count - 1)) for k in range(1, count)]
        return cls(
            [few((rows, columns), outer, wide), *(few(square, n_blocks, False) for n_blocks in middle)],
            [few(square, max(int(share * caps[-1] + 1e-9), inner), not wide) for share in thinning],
            side="right" if wide else "left",
            regroup=block is not None,
        )

    @classmethod
    def with_speedup(
        cls,
        shape: int | tuple[int, int],
        speedup: float,
        n_factors: int | None = None,
        block: int | tuple[int, int] | None = None,
        *,
        vectors: int = 256,
        dtype: DTypeLike = np.float64,
    ) -> "Schedule":
        """Sets for a dictionary that runs ``speedup`` times as fast as the dense matrix on this machine.

        Products with random members of `with_complexity` are measured; the schedule is that of the largest one
        that is fast enough.

        Parameters
        ----------
        shape : int or (int, int)
            Features and atoms of the dictionary; one integer n stands for (n, n).
        speedup : float
            Above 1.
        n_factors : int, optional
            The number of factors, at least 2; by default 2.
        block : int or (int, int), optional
            Rows and columns of blocks, as in `with_complexity`; they run two to three times as fast per entry.
        vectors : int
            How many vectors are applied at a time.
        dtype : dtype
            In which the product is applied.

        Examples
        --------
        >>> import papilio as pp
        >>> schedule = pp.Schedule.with_speedup((64, 256), 3, block=4)  # doctest: +SKIP
        """
        from ..search.pricing import schedule_with_speedup
        from ..search.targets import as_speedup

        size, speedup = as_shape("shape", shape), as_speedup("speedup", speedup)
        vectors = as_integer("vectors", vectors, 1)
        return schedule_with_speedup(size, np.dtype(dtype), speedup, vectors, n_factors, block)

    @classmethod
    def rectangular(cls, shape: int | tuple[int, int], n_factors: int, k: int, decay: float) -> "Schedule":
        """Sets for a tall or wide matrix: one factor of its shape, the others square, of its short side.

        For a tall m × n matrix the rectangular factor is leftmost, with ``k`` entries in each row. The others
        are n × n with n·k entries in all, and the j-th residual has n²·decay^j entries, but at least n·k. A wide
        matrix is the mirror image: columns in place of rows, peeled from the right.

        Parameters
        ----------
        shape : int or (int, int)
            Rows and columns of the matrix; one integer n stands for (n, n).
        n_factors : int
            The number of factors, at least 2.
        k : int
            Entries per row (per column of a wide matrix) of the rectangular factor, and on average of the others.
        decay : float
            The share of the residual's entries that each split keeps, above 0 and at most 1.

        Examples
        --------
        >>> import papilio as pp
        >>> pp.Schedule.rectangular((20, 8), n_factors=3, k=2, decay=0.5).constraints
        [SparseRows((20, 8), 2), Sparse((8, 8), 16), Sparse((8, 8), 16)]
        """
        rows, columns = as_shape("shape", shape)
        short = min(rows, columns)
        splits = as_factor_count("n_factors", n_factors) - 1
        k = as_integer("k", k, 1, short)
        if as_real("decay", decay, 0.0, 1.0) == 0.0:
            raise ValueError("decay must be above 0 and at most 1, got 0")
        square = (short, short)
        wide = rows < columns
        outer: Constraint = SparseColumns((rows, columns), k) if wide else SparseRows((rows, columns), k)
        thinning = [max(int(short * short * decay**j + 1e-9), k * short) for j in range(1, splits + 1)]
        return cls(
            [outer] + [Sparse(square, k * short)] * (splits - 1),
            [Sparse(square, entries) for entries in thinning],
            side="right" if wide else "left",
        )


def _deal(budget: int, weights: Sequence[float], floors: Sequence[int], caps: Sequence[int]) -> list[int]:
    """``budget`` dealt out by ``weights``, each share between floor and cap; the first takes the remainder."""
    shares = [
        min(max(int(budget * weight / sum(weights)), floor), cap)
        for weight, floor, cap in zip(weights, floors, caps, strict=True)
    ]
    for i in [*range(len(shares)), 0]:
        others = sum(shares) - shares[i]
        shares[i] = min(max(budget - others, floors[i]), caps[i])
    return shares


_MAX_SWEEPS = 30
_ALL = 1 - 1e-12  # Share of the energy that counts as all, up to rounding.
_LEAST_GAIN = 1e-3  # Relative gain of a sweep for which another one follows.


def regrouped(constraint: SparseBlocks, matrix: Array) -> SparseBlocks:
    """The set with other orders of rows and columns, in which its blocks hold much of ‖matrix‖_F².

    If the grid of some orders has no more than n_blocks blocks with non-zeros, and these have no zeros except in
    lines of zeros, such orders are found. Otherwise similar lines make groups, those whose magnitudes correlate,
    if their blocks hold more than those of ``constraint``. As in k-means, the best blocks for the groups and
    better groups for these blocks alternate: rows of two groups are exchanged while the blocks hold more after
    it, then columns. The orders depend on the set and the matrix only, so that a factor is enough to continue in
    the orders that it was found in.
    """
    energies = np.square(np.abs(matrix), dtype=np.float64)
    all_but_rounding = _ALL * energies.sum()
    for groups in _quick_starts(constraint, energies):
        if _kept(energies, *groups, constraint.n_blocks) >= all_but_rounding:
            break
    else:
        groups = _best_groups(constraint, energies)
    return constraint.regrouped(*(np.argsort(labels, kind="stable") for labels in groups))


def _best_groups(constraint: SparseBlocks, energies: Array) -> tuple[Array, Array]:
    """The start that holds most, after exchanges."""
    starts = [*_quick_starts(constraint, energies), _similar_lines(constraint, energies)]
    kept = [_kept(energies, *start, constraint.n_blocks) for start in starts]
    best = int(np.argmax(kept))
    _improve(energies, *starts[best], constraint.n_blocks, kept[best])
    return starts[best]


def _quick_starts(constraint: SparseBlocks, energies: Array) -> Iterator[tuple[Array, Array]]:
    """Groups of rows and of columns as they are, and by equal supports; the last group may be smaller."""
    height, width = constraint.block
    yield _labels(constraint.row_order, height), _labels(constraint.column_order, width)
    used = energies > 0
    yield _with_equal_supports(used, height), _with_equal_supports(used.T, width)


def _similar_lines(constraint: SparseBlocks, energies: Array) -> tuple[Array, Array]:
    """Groups of similar rows, and of columns that are similar in these groups."""
    height, width = constraint.block
    rows = _similar(np.sqrt(energies), height)
    return rows, _similar(np.sqrt(sums_of_groups(energies, rows).T), width)


def _labels(order: Array, size: int) -> Array:
    labels = np.empty(order.size, dtype=np.int64)
    labels[order] = np.arange(order.size) // size
    return labels


def _similar(magnitudes: Array, size: int) -> Array:
    """Groups of similar lines: the largest one left, then one by one the most similar to those in the group."""
    lines = magnitudes - magnitudes.mean(axis=0)  # The mean of all lines says nothing about groups.
    norms = np.linalg.norm(lines, axis=1)
    lines /= np.where(norms > 0, norms, 1)[:, None]
    sizes = np.linalg.norm(magnitudes, axis=1)
    free = np.ones(len(lines), dtype=bool)
    order: list[int] = []
    while len(order) < len(lines):
        likeness = sizes if len(order) % size == 0 else lines @ lines[order[-(len(order) % size) :]].sum(axis=0)
        order.append(int(np.argmax(np.where(free, likeness, -np.inf))))
        free[order[-1]] = False
    return _labels(np.array(order), size)


def _with_equal_supports(used: Array, size: int) -> Array:
    """Groups of lines with the same support; lines with a smaller one fill up what is left.

    In any groups if there are more supports than groups.
    """
    keys = np.ascontiguousarray(np.packbits(used, axis=1))
    _, first, which = np.unique(keys.view(f"V{keys.shape[1]}").ravel(), return_index=True, return_inverse=True)
    supports = used[first]
    if len(supports) > len(used) // size + 2:
        return _labels(np.arange(len(used)), size)
    largest_first = np.argsort(-supports.sum(axis=1), kind="stable")
    if not (np.bincount(which) % size).any():  # whole groups of each
        return _labels(np.argsort(np.argsort(largest_first)[which], kind="stable"), size)
    complete: list[int] = []
    open_groups: list[tuple[Array, list[int]]] = []  # Each group with its support.
    for s in largest_first:
        for line in np.flatnonzero(which == s):
            fitting = [group for group in open_groups if not (supports[s] & ~group[0]).any()]
            if not fitting:
                fitting = [(supports[s], [])]
                open_groups += fitting
            home = min(fitting, key=lambda group: int(group[0].sum()))
            home[1].append(int(line))
            if len(home[1]) == size:
                complete += home[1]
                open_groups = [group for group in open_groups if group is not home]
    return _labels(np.array(complete + [line for _, group in open_groups for line in group]), size)


def _kept(energies: Array, rows: Array, columns: Array, n_blocks: int) -> float:
    """The energy of the best blocks."""
    blocks = sums_of_groups(sums_of_groups(energies, rows).T, columns)
    return float(np.sort(blocks, axis=None)[-n_blocks:].sum())


def _improve(energies: Array, rows: Array, columns: Array, n_blocks: int, kept: float) -> None:
    """Exchange lines of ``rows`` and ``columns`` while the best blocks, which hold ``kept``, hold more."""
    for _ in range(_MAX_SWEEPS):
        before = kept
        for lines, groups, others in ((energies, rows, columns), (energies.T, columns, rows)):
            parts = sums_of_groups(lines.T, others).T  # Sums of each line over the groups of the other side.
            blocks = sums_of_groups(parts, groups)
            chosen = np.zeros(blocks.size)
            chosen[np.argsort(-blocks, axis=None, kind="stable")[:n_blocks]] = 1
            exchange_labels(-(parts @ chosen.reshape(blocks.shape).T), groups, _MAX_SWEEPS)
        kept = _kept(energies, rows, columns, n_blocks)
        if kept <= before * (1 + _LEAST_GAIN):
            break
