"""What solvers return and report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .operators import SparseProduct
from .runtime.files import replacing
from .typing import Array
from .validation import as_real


class Status(StrEnum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"
    NO_STRUCTURE = "no_structure"


class Step(NamedTuple):
    """One iteration, as a callback sees it; histories keep it without the factors.

    ``done`` is the share of all work, and ``total`` the number of iterations of the phase, where these are known.
    Passes over large data, "scan" and "pass 1", …, are reported while they go on, one iteration a part of the
    data, and are in no history.
    """

    phase: str
    iteration: int
    error: float
    scale: float
    seconds: float
    factors: tuple[Array, ...] = ()
    done: float | None = None
    total: int | None = None


class History(list[Step]):
    """All iterations in order, as a list of `Step` and as columns."""

    @property
    def error(self) -> Array:
        """Relative errors."""
        return np.array([step.error for step in self])

    @property
    def scale(self) -> Array:
        return np.array([step.scale for step in self])

    @property
    def seconds(self) -> Array:
        """Seconds since the start; the clock stands still while a callback runs."""
        return np.array([step.seconds for step in self])

    @property
    def phase(self) -> list[str]:
        return [step.phase for step in self]

    def to_arrays(self) -> dict[str, Array]:
        """As arrays, for a file."""
        numbers = np.array([[step.iteration, step.error, step.scale, step.seconds] for step in self])
        return {"history_phase": np.array(self.phase, dtype=np.str_), "history": numbers.reshape(-1, 4)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> "History":
        """What `to_arrays` returned."""
        numbers, phases = arrays["history"].tolist(), arrays["history_phase"].tolist()
        return cls(
            Step(phase, int(iteration), *rest) for phase, (iteration, *rest) in zip(phases, numbers, strict=True)
        )


class Attempt(NamedTuple):
    """One way to factorize that was tried, and what it gave."""

    method: str
    detail: str
    error: float
    nnz: int
    seconds: float


@dataclass(frozen=True)
class Factorization:
    """A factorization X ≈ scale · S₁…S_M and how it came about.

    Attributes
    ----------
    operator : SparseProduct
    error : float
        Relative Frobenius error ‖X − scale·S₁…S_M‖ / ‖X‖, computed on the result.
    n_iter : int
        Iterations of PALM in all phases.
    status : Status
        ``"converged"``, ``"max_iter"``, ``"stopped"`` (by a callback), or ``"no_structure"`` where none was found.
    history : History
        Error, scale, phase and seconds of each iteration.
    method : str
        Which road `factorize` took; empty from other solvers.
    attempts : tuple of Attempt
        All attempts that `factorize` tried, with what they gave, in the order of trying.
    """

    operator: SparseProduct
    error: float
    n_iter: int
    status: Status
    history: History = field(repr=False, compare=False)
    method: str = ""
    attempts: tuple[Attempt, ...] = field(default=(), repr=False, compare=False)

    def plot(self, ax: Any = None) -> Any:
        """Draw how the error fell (`papilio.plot.convergence`); ``fit.operator.plot()`` draws the factors."""
        from . import plot

        return plot.convergence(self, ax)


class TradeoffPoint(NamedTuple):
    """One setting of the dial: a largest relative complexity, and the best product within it that was found."""

    complexity: float
    error: float
    operator: SparseProduct


@dataclass(frozen=True)
class Tradeoff:
    """What error costs: products of one matrix, or dictionaries of the same samples, at many complexities.

    Attributes
    ----------
    points : tuple of TradeoffPoint
        By growing complexity; the error never rises from one to the next. ``complexity`` is what was asked for,
        ``operator.relative_complexity`` what was needed.
    dense_error : float
        Of the dense matrix: zero for a matrix, that of K-SVD for samples.
    status : Status
        "converged", or "stopped" where a callback ended the sweep and points are missing.
    seconds : float
        That the sweep took.
    error_name : str
        What ``error`` is.
    """

    points: tuple[TradeoffPoint, ...]
    dense_error: float
    status: Status
    seconds: float = field(compare=False)
    error_name: str = "relative error"

    @property
    def front(self) -> tuple[TradeoffPoint, ...]:
        """The points that no other one beats in both the entries that it needs and the error: the Pareto front."""
        chosen: list[TradeoffPoint] = []
        for point in sorted(self.points, key=lambda point: (point.operator.nnz, point.error)):
            if not chosen or point.error < chosen[-1].error:
                chosen.append(point)
        return tuple(chosen)

    @property
    def knee(self) -> TradeoffPoint:
        """The point that is recommended where nothing else is known.

        Of the front, that with the lowest sum of relative complexity and (error − lowest)/(highest − lowest): one
        percent more entries would save less than one percent of the error that the sweep can save at all.
        """
        front = self.front
        highest, lowest = front[0].error, front[-1].error
        span = (highest - lowest) or 1.0
        return min(front, key=lambda point: point.operator.relative_complexity + (point.error - lowest) / span)

    def at(self, complexity: float) -> TradeoffPoint:
        """The best point with at most this relative complexity."""
        complexity = as_real("complexity", complexity, 0.0)
        within = [point for point in self.points if point.operator.relative_complexity <= complexity + 1e-12]
        if not within:
            least = min(point.operator.relative_complexity for point in self.points)
            raise ValueError(
                f"complexity must be at least {least:.4g}, that of the first point, got {complexity:g}"
            )
        return min(within, key=lambda point: point.error)

    def plot(self, ax: Any = None) -> Any:
        """Draw the points, their front and the knee (`papilio.plot.tradeoff`)."""
        from . import plot

        return plot.tradeoff(self, ax)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write all operators, and ``points.csv`` with a line for each, into a folder, which is made if need be.

        Columns: complexity, relative_complexity, entries, error, knee (1 or 0), and the operator's file, which
        `papilio.load` reads. The knee is there once more, as ``knee.npz``.
        """
        place = Path(folder)
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

    def _repr_html_(self) -> str:
        knee = self.knee
        bold = ' style="font-weight:bold"'
        cells = "".join(
            f"<tr{bold * (point is knee)}>"
            f"<td>{point.complexity:.3g}</td><td>{point.operator.relative_complexity:.3g}</td>"
            f"<td>{point.operator.nnz:,}</td><td>{point.error:.4g}</td></tr>"
            for point in self.points
        )
        head = "".join(f"<th>{name}</th>" for name in ("complexity", "needed", "entries", escape(self.error_name)))
        return f"<table><caption>Tradeoff; the knee is bold</caption><tr>{head}</tr>{cells}</table>"
