"""Results of solvers, searches and trade-offs."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from . import typing as types
from .linalg import error_in_words
from .operators import SparseProduct
from .operators.speed import Speedup as Speedup
from .operators.speed import is_slower, modelled_speedup, speedup_of, with_warning
from .runtime.files import as_path, replacing
from .runtime.history import Callback as Callback
from .runtime.history import History as History
from .runtime.history import Status as Status
from .runtime.history import Step as Step
from .validation import as_real

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "Attempt",
    "Factorization",
    "History",
    "Result",
    "Speedup",
    "Status",
    "Step",
    "Tradeoff",
    "TradeoffPoint",
]

SLOWER = "the product is slower than the dense matrix"  # First words of the warning.


class Attempt(NamedTuple):
    """One method that `factorize` tried, and its result.

    Attributes
    ----------
    method : str
        One of the methods of `factorize`, or "itself" for the matrix as one factor.
    detail : str
        What was tried by this method, such as "2 factors from the left".
    error : float
        The relative error; infinite if nothing was found.
    nnz : int
        Entries of all factors; 0 if nothing was found.
    seconds : float
        How long it took.

    Examples
    --------
    >>> import papilio as pp
    >>> fit = pp.factorize(pp.transforms.hadamard(16).toarray())
    >>> [(attempt.method, attempt.nnz, attempt.error) for attempt in fit.attempts if attempt.error < 1e-12]
    [('kronecker', 128, 0.0), ('transform', 144, 0.0)]
    """

    method: str
    detail: str
    error: float
    nnz: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Result:
    """What all solvers return: how large the error is, and how the solver came there.

    Attributes
    ----------
    error : float
        The relative error of the result.
    status : Status
        Why the computation ended.
    history : History
        The error after each iteration.

    Examples
    --------
    >>> import papilio as pp
    >>> fit = pp.factorize(pp.transforms.hadamard(8).toarray())
    >>> isinstance(fit, pp.results.Result), fit.status.value
    (True, 'converged')
    """

    error: float
    status: Status = Status.CONVERGED
    history: History = field(default_factory=History, repr=False, compare=False)


@dataclass(frozen=True)
class Factorization(Result):
    """A factorization X ≈ scale · S₁…S_M and how it was found.

    Attributes
    ----------
    operator : SparseProduct
        scale · S₁…S_M.
    error : float
        The relative Frobenius error ‖X − scale·S₁…S_M‖ / ‖X‖, computed on the result.
    n_iter : int
        Iterations of PALM in all phases.
    status : Status
        "converged", "max_iter", "stopped" (by a callback or the time budget), or "no_structure" if nothing better
        than the matrix itself, or its largest entries, was found.
    history : History
        Error, scale, phase and seconds of each iteration.
    method : str
        The method by which `factorize` found it; empty from other solvers.
    attempts : tuple of Attempt
        Everything that `factorize` tried, in order; empty from other solvers.
    error_is_estimate : bool
        Whether ``error`` was measured on a part of X only, as for a matrix that is not stored.
    n_products : int
        How many products with vectors were taken, of an operator that is known by them only.
    least_error : float
        No factors on the same supports have a smaller error; 0 where no such bound is known, as it is from
        `papilio.butterfly` on chainable supports.
    error_of : {"matrix", "outputs"}
        What ``error`` is an error of: of X itself, or of its outputs where `factorize` knew its ``inputs``.
    matrix_error : float or None
        The relative Frobenius error of X itself, where ``error`` is that of outputs.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(8).toarray()
    >>> fit = pp.hierarchical(H, pp.Schedule.hadamard(8))
    >>> fit.operator.nnz, fit.status.value, fit.error < 1e-12
    (48, 'converged', True)
    >>> fit.n_iter == len(fit.history)
    True
    """

    operator: SparseProduct
    n_iter: int = 0
    method: str = ""
    attempts: tuple[Attempt, ...] = field(default=(), repr=False, compare=False)
    error_is_estimate: bool = False
    n_products: int = 0
    least_error: float = 0.0
    error_of: str = "matrix"
    matrix_error: float | None = None

    @cached_property
    def speedup(self) -> Speedup:
        """How many times faster than the dense matrix ``operator`` is, for one vector and for a block of 256.

        Measured on first use, which takes a few tenths of a second, and kept: the best of many calls of
        ``operator @ x`` and of BLAS with a dense matrix of the same shape, in turns. The figures depend on the
        machine and on what else runs on it; they are neither compared nor pickled. They are NaN where the dense
        matrix would take more than a quarter of the memory.

        Examples
        --------
        >>> import papilio as pp
        >>> fit = pp.factorize(pp.transforms.hadamard(64).toarray())
        >>> vector, block = fit.speedup
        >>> fit.speedup.block == block, fit.speedup.block_size
        (True, 256)
        """
        return speedup_of(self.operator)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "speedup"}

    def plot(self, figure: "Figure | SubFigure | None" = None) -> "list[Axes]":
        """Draw the product, its factors, and how it was found (`papilio.plot.factorization`).

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, optional
            Where to draw; a new figure by default.

        Returns
        -------
        list of matplotlib Axes
            The product, its factors, the error of each iteration if there were some, and from `papilio.factorize`
            the attempts.

        Examples
        --------
        >>> import papilio as pp
        >>> axes = pp.factorize(pp.transforms.hadamard(8).toarray()).plot()
        """
        from . import plot

        return plot.factorization(self, figure)

    def __str__(self) -> str:
        """What was found, on one line; `repr` has every field.

        Examples
        --------
        >>> import papilio as pp
        >>> print(pp.factorize(pp.transforms.hadamard(8).toarray()))
        kronecker: 48 of 64 entries in 3 factors, exact, converged
        """
        op = self.operator
        error = error_in_words(self.error, op.dtype)
        how = f"{self.method}: " if self.method else ""
        whose = "of outputs " if self.error_of == "outputs" else ""
        what = error if error == "exact" else f"relative error {whose}{error}"
        entries = f"{op.nnz:,} of {op.shape[0] * op.shape[1]:,} entries in {len(op.factors)} factors"
        return f"{how}{entries}, {what}, {self.status}"

    def _repr_html_(self) -> str:
        from .plot.notebook import factorization_html

        return factorization_html(self)


def warn_if_slower(fit: Factorization) -> None:
    """Warn the caller's caller if the product is slower than the dense matrix, by the model of the kernels."""
    sentence = slower_sentence(fit.operator, modelled_speedup(fit.operator), "by the model of the kernels")
    if sentence:
        warnings.warn(sentence, UserWarning, stacklevel=3)


def slower_sentence(op: SparseProduct, speedup: Speedup, source: str = "measured on this machine") -> str:
    """A warning about a product that is slower than the dense matrix (`is_slower`), else an empty string."""
    if not is_slower(op, speedup):
        return ""
    figures = str(speedup).replace(" (slower)", "")  # The sentence already says so.
    return (
        f"{SLOWER}: {figures}, {source}. Ask for fewer entries (a lower complexity or a higher "
        "max_error), or use the dense matrix, operator.toarray()"
    )


def pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """The indices of the points that no other one beats in both cost and error, by growing cost."""
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], errors[i])):
        if not front or errors[i] < errors[front[-1]]:
            front.append(i)
    return front


class TradeoffPoint(NamedTuple):
    """One point of a `Tradeoff`: a limit on the relative complexity, and the best product found within it.

    Attributes
    ----------
    complexity : float
        The limit that was set; that of the product, ``operator.relative_complexity``, may be lower.
    error : float
        The relative error of the product.
    operator : SparseProduct
        The product.

    Examples
    --------
    >>> import papilio as pp
    >>> point = pp.tradeoff(pp.transforms.hadamard(16).toarray(), [0.9]).knee
    >>> point.complexity, point.operator.relative_complexity, point.error < 1e-12
    (0.9, 0.5, True)
    """

    complexity: float
    error: float
    operator: SparseProduct


@dataclass(frozen=True)
class Tradeoff:
    """Products of one matrix, or dictionaries of the same samples, at many complexities.

    Attributes
    ----------
    points : tuple of TradeoffPoint
        By growing complexity; the error never rises from one to the next.
    dense_error : float
        The error of the dense matrix: zero for a matrix, that of K-SVD for samples.
    status : Status
        "converged", or "stopped" if a callback ended the computation and points are missing.
    seconds : float
        How long the computation took.
    error_name : str
        What ``error`` is, for tables and figures.

    Examples
    --------
    >>> import papilio as pp
    >>> curve = pp.tradeoff(pp.transforms.hadamard(16).toarray(), [0.2, 0.5, 0.9])
    >>> [point.operator.nnz for point in curve.points], [point.operator.nnz for point in curve.front]
    ([51, 128, 128], [51, 128])
    >>> curve.knee is curve.points[1]
    True
    >>> print(curve)
    complexity  needed  entries  relative error
           0.2   0.199       51            0.89
           0.5     0.5      128           exact  knee
           0.9     0.5      128           exact
    """

    points: tuple[TradeoffPoint, ...]
    dense_error: float
    status: Status
    seconds: float = field(compare=False)
    error_name: str = "relative error"

    @property
    def front(self) -> tuple[TradeoffPoint, ...]:
        """The Pareto front: the points that no other one beats in both entries and error."""
        entries, errors = [point.operator.nnz for point in self.points], [point.error for point in self.points]
        return tuple(self.points[i] for i in pareto_front(entries, errors))

    @cached_property
    def speedups(self) -> tuple[Speedup, ...]:
        """The speed-up of each point, measured on first use as in `Factorization`; equal operators share it.

        Examples
        --------
        >>> import papilio as pp
        >>> curve = pp.tradeoff(pp.transforms.hadamard(16).toarray(), [0.2, 0.5, 0.9])
        >>> len(curve.speedups), curve.speedups[1] is curve.speedups[2]
        (3, True)
        """
        operators = {id(point.operator): point.operator for point in self.points}
        measured = {key: speedup_of(op) for key, op in operators.items()}
        return tuple(measured[id(point.operator)] for point in self.points)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "speedups"}

    @property
    def knee(self) -> TradeoffPoint:
        """The recommended point: that of the front with the lowest relative complexity + relative error.

        The latter is (error − lowest)/(highest − lowest): one percent more entries would save less than one
        percent of the range of errors.
        """
        front = self.front
        highest, lowest = front[0].error, front[-1].error
        span = (highest - lowest) or 1.0
        return min(front, key=lambda point: point.operator.relative_complexity + (point.error - lowest) / span)

    def at(self, complexity: float) -> TradeoffPoint:
        """The best point within a complexity.

        Parameters
        ----------
        complexity : float
            The largest relative complexity of the product.
        """
        complexity = as_real("complexity", complexity, 0.0)
        within = [point for point in self.points if point.operator.relative_complexity <= complexity + 1e-12]
        if not within:
            least = min(point.operator.relative_complexity for point in self.points)
            raise ValueError(
                f"complexity must be at least {least:.4g}, that of the first point, got {complexity:g}"
            )
        return min(within, key=lambda point: point.error)

    def plot(self, ax: Any = None) -> Any:
        """Draw the points, their front and the knee (`papilio.plot.tradeoff`).

        On the left errors against relative complexities, on the right against times: those for a block of 256
        vectors, relative to the dense matrix, from ``speedups``, which are measured at the first use.

        Parameters
        ----------
        ax : matplotlib Axes, Figure or SubFigure, optional
            Where to draw: both diagrams in a figure, a new one by default, or complexities alone in axes, without
            measuring.

        Returns
        -------
        matplotlib Axes
            The diagram of complexities; ``ax.figure.axes`` are both.

        Examples
        --------
        >>> import papilio as pp
        >>> left = pp.tradeoff(pp.transforms.hadamard(16).toarray(), [0.2, 0.5]).plot()
        >>> [ax.get_xscale() for ax in left.figure.axes]
        ['linear', 'log']
        """
        from . import plot

        return plot.tradeoff(self, ax)

    def save(self, folder: types.Path) -> None:
        """Write all operators and a table of the points into a folder.

        The table is ``points.csv``, one line per point. Its columns: complexity, relative_complexity, entries,
        error, knee (1 or 0), and the operator's file, which `papilio.load` reads. The knee is also saved as
        ``knee.npz``.

        Parameters
        ----------
        folder : path
            Created if it does not exist.
        """
        place = as_path("folder", folder)
        place.mkdir(parents=True, exist_ok=True)
        knee = self.knee
        knee.operator.save(place / "knee.npz")
        lines = ["complexity,relative_complexity,entries,error,knee,file"]
        for i, point in enumerate(self.points):
            op, name = point.operator, f"operator-{i + 1:02d}.npz"
            op.save(place / name)
            numbers = f"{point.complexity:.6g},{op.relative_complexity:.6g},{op.nnz},{point.error:.9g}"
            lines.append(f"{numbers},{int(point is knee)},{name}")
        with replacing(place / "points.csv") as partial:
            partial.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        if not self.points:
            return f"<Tradeoff without points, {self.status}>"
        op, knee, count = self.points[0].operator, self.knee, len(self.points)
        error = error_in_words(knee.error, op.dtype)
        return (
            f"<Tradeoff of a {op.shape[0]}×{op.shape[1]} {op.dtype} matrix: {count} point{'s' * (count > 1)}, "
            f"knee at relative complexity {knee.operator.relative_complexity:.3g}, "
            f"{error if error == 'exact' else f'{self.error_name} {error}'}>"
        )

    def __str__(self) -> str:
        """A table of the points, with the block's speed-up if ``speedups`` were measured."""
        lines = tradeoff_cells(self)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        rows = ("  ".join(cell.rjust(n) for cell, n in zip(line, widths, strict=True)) for line in lines)
        return "\n".join(row.rstrip() for row in rows)

    def _repr_html_(self) -> str:
        from .plot.notebook import tradeoff_html

        return tradeoff_html(self)


def tradeoff_cells(found: Tradeoff) -> list[list[str]]:
    """The table of a trade-off for texts, terminals and pages: the headings, then a line for each point.

    The last cell is "knee" or empty; the one before is the block's speed-up, if ``speedups`` were measured.
    """
    measured = vars(found).get("speedups", ())
    gains = [] if any(isnan(speedup.block) for speedup in measured) else [speedup.block for speedup in measured]
    lines = [["complexity", "needed", "entries", found.error_name, *["speed-up"] * bool(gains), ""]]
    for i, point in enumerate(found.points):
        op = point.operator
        numbers = [f"{point.complexity:.3g}", f"{op.relative_complexity:.3g}", f"{op.nnz:,}"]
        error = error_in_words(point.error, op.dtype)
        knee = "knee" if point is found.knee else ""
        lines.append([*numbers, error, *map(with_warning, gains[i : i + 1]), knee])
    return lines
