"""What solvers return and report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from .operators import SparseProduct
from .validation import Array


class Status(StrEnum):
    """Why a solver stopped."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"
    NO_STRUCTURE = "no structure"


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


class Road(NamedTuple):
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
        ``"converged"``, ``"max_iter"``, ``"stopped"`` (by a callback), or ``"no structure"`` where none was found.
    history : History
        Error, scale, phase and seconds of each iteration.
    method : str
        Which road `factorize` took; empty from other solvers.
    roads : tuple of Road
        All roads that `factorize` tried, with what they gave, in the order of trying.
    """

    operator: SparseProduct
    error: float
    n_iter: int
    status: Status
    history: History = field(repr=False, compare=False)
    method: str = ""
    roads: tuple[Road, ...] = field(default=(), repr=False, compare=False)

    def plot(self, ax: Any = None) -> Any:
        """Draw how the error fell (`papilio.plot.convergence`); ``fit.operator.plot()`` draws the factors."""
        from . import plot

        return plot.convergence(self, ax)
