"""Schedules: which sets the hierarchical factorization uses, split by split."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

from ..constraints import Constraint, Sparse, SparseColumns, SparseRows, SparseRowsAndColumns
from ..validation import as_choice, as_integer, as_power_of_two, as_real, as_shape

SIDES = ("left", "right")


@dataclass(frozen=True)
class Schedule:
    """The constraint sets E_k and Ẽ_k of the paper's Algorithm 3, in the order of peeling.

    Split k replaces the residual by (factor k) × (new residual), or for ``side="right"`` by
    (new residual) × (factor k). The last residual is the last factor.

    Parameters
    ----------
    factors : sequence of Constraint
        E_1, E_2, …: the sets of the factors that are peeled off.
    residuals : sequence of Constraint
        Ẽ_1, Ẽ_2, …: the sets of what is left after each split.
    side : {"left", "right"}
        From which side factors are peeled off.
    """

    factors: Sequence[Constraint]
    residuals: Sequence[Constraint]
    side: str = "left"

    def __post_init__(self) -> None:
        as_choice("side", self.side, SIDES)
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
                "factors and residuals must hold one constraint each per split, at least one; "
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
        """The two sets of split k, left to right."""
        pair = self.factors[k], self.residuals[k]
        return pair if self.side == "left" else (pair[1], pair[0])

    def together(self, k: int) -> list[Constraint]:
        """All sets after split k, left to right: the constraints of the global step."""
        sets = [*self.factors[: k + 1], self.residuals[k]]
        return sets if self.side == "left" else sets[::-1]

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrices that this schedule factorizes."""
        left, right = self.split(0)
        return left.shape[0], right.shape[1]

    @property
    def n_nonzero(self) -> int:
        """An upper bound on the entries of the resulting product."""
        return sum(constraint.n_nonzero for constraint in self.together(len(self.factors) - 1))

    @classmethod
    def hadamard(cls, n: int) -> "Schedule":
        """log₂n factors with two entries per row and column; residuals with n/2, n/4, …, 2 (section 4.1).

        n is a power of two, at least 4.
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
        """The sets of section 4.2, from the right: Q − 1 square dictionary factors of size d.

        ‖E_k‖₀ ≤ p·d and ‖Ẽ_k‖₀ ≤ P/2^(k−2) for k = 2, …, Q − 1; k = 1, which splits off the codes Γ, is done by
        dictionary learning and is not in the schedule.

        Parameters
        ----------
        d : int
            Rows and columns of the dictionary.
        Q : int
            The number of factors as the paper counts them, Γ included; at least 3.
        p : float
            Entries per row of the sparse factors: each has p·d in all.
        P : float
            Entries of the first residual; not an integer in the paper (512·1.2), rounded down.
        """
        d = as_integer("d", d, 2)
        splits = as_integer("Q", Q, 3) - 2
        entries = max(int(as_real("p", p, 1.0 / d, d) * d + 1e-9), 1)
        start = as_real("P", P, 2.0 ** (splits - 1), d * d)
        return cls(
            [Sparse((d, d), entries)] * splits,
            [Sparse((d, d), int(start / 2**k + 1e-9)) for k in range(splits)],
            side="right",
        )

    @classmethod
    def with_complexity(
        cls, shape: Any, complexity: float | None = None, n_factors: int | None = None
    ) -> "Schedule":
        """Factors with at most ``complexity`` times the entries of the dense matrix, to learn a dictionary.

        A wide or square matrix is peeled from the right: one factor of its shape, and square ones of its short
        side to the left of it; a tall matrix is the mirror image. The innermost factor, the last residual, gets
        five parts of the entries, and the others share four: in two factors, the outer one gets 4√ρ parts, where
        ρ is the long side over the short one. Among dictionaries of Gaussian data (32×32) and of image patches
        (64×64, 64×256), with complexities from 0.15 to 0.8, two factors gave the lowest error, and of their
        entries the outer one had 35 to 50 % of them in the best square ones, and 65 % in the best redundant one.

        Parameters
        ----------
        shape : (int, int) or int
        complexity : float, optional
            By default 0.5, or the least that is possible where that is more.
        n_factors : int, optional
            By default 2.
        """
        rows, columns = as_shape("shape", shape)
        short, long = sorted((rows, columns))
        count = 2 if n_factors is None else as_integer("n_factors", n_factors, 2)
        floors = [long, *[short] * (count - 1)]  # outer, middle, inner: one entry a line, else atoms are zero
        caps = [rows * columns, *[short * short] * (count - 1)]
        if complexity is None:
            budget = max(rows * columns // 2, sum(floors))
        else:
            budget = int(as_real("complexity", complexity, 0.0) * rows * columns + 1e-9)
        if budget < sum(floors):
            raise ValueError(
                f"complexity must be at least {sum(floors) / (rows * columns):.4g} for {count} factors of a "
                f"{rows}×{columns} matrix, got {complexity}"
            )
        weights = [4 * sqrt(long / short) / (count - 1), *[4 / (count - 1)] * (count - 2), 5]
        outer, *middle, inner = _dealt(budget, weights, floors, caps)
        square = (short, short)
        thinning = [(inner / short**2) ** (k / (count - 1)) for k in range(1, count)]
        return cls(
            [Sparse((rows, columns), outer), *(Sparse(square, entries) for entries in middle)],
            [Sparse(square, max(int(share * short**2 + 1e-9), inner)) for share in thinning],
            side="right" if rows <= columns else "left",
        )

    @classmethod
    def rectangular(cls, shape: Any, n_factors: int, k: int, decay: float) -> "Schedule":
        """A tall or wide matrix as one rectangular factor of its shape and square ones of its short side.

        For a tall matrix (m ≥ n) the rectangular factor is leftmost, with ``k`` entries in each
        row; the others are n × n with n·k entries in all, and the j-th residual has n²·decay^j, or
        as many as a factor where that is more. A wide matrix is the mirror image: columns for rows, from the
        right.

        Parameters
        ----------
        shape : (int, int) or int
        n_factors : int
            Factors in all, at least 2.
        k : int
        decay : float
            By how much each split thins the residual, above 0 and at most 1.
        """
        rows, columns = as_shape("shape", shape)
        short = min(rows, columns)
        splits = as_integer("n_factors", n_factors, 2) - 1
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


def _dealt(budget: int, weights: Sequence[float], floors: Sequence[int], caps: Sequence[int]) -> list[int]:
    """``budget`` dealt out by ``weights``, each share within floor and cap; what is over goes to the first."""
    shares = [
        min(max(int(budget * weight / sum(weights)), floor), cap)
        for weight, floor, cap in zip(weights, floors, caps, strict=True)
    ]
    for i in [*range(len(shares)), 0]:
        others = sum(shares) - shares[i]
        shares[i] = min(max(budget - others, floors[i]), caps[i])
    return shares
