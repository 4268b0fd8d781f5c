"""What an iteration reports, and the history of a run."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..typing import Array


class Status(StrEnum):
    """Why a solver or a learner ended. Each member equals its value, a string.

    Attributes
    ----------
    CONVERGED : "converged"
        The error no longer changed by more than the tolerance, or the search was complete.
    MAX_ITER : "max_iter"
        The limit on the number of iterations was reached first.
    STOPPED : "stopped"
        A callback or the time budget ended it early.
    NO_STRUCTURE : "no_structure"
        Nothing better than the matrix itself was found.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> M = np.random.default_rng(0).standard_normal((16, 16))
    >>> fit = pp.factorize(M, method="butterfly")
    >>> fit.status is pp.results.Status.NO_STRUCTURE, fit.status == "no_structure"
    (True, True)
    """

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STOPPED = "stopped"
    NO_STRUCTURE = "no_structure"


class Step(NamedTuple):
    """One iteration, as a callback sees it. A history keeps it without the factors.

    Attributes
    ----------
    phase : str
        The phase of the computation, such as "ksvd" or "global 1".
    iteration : int
        Its number within the phase, from 1. In passes over large data ("scan", "pass 1", …) and in the search for
        butterflies, the number of parts done; 0 while a single long step goes on. These steps are reported but not
        recorded in a history.
    error : float
        The relative error; NaN as long as none is known.
    scale : float
        The scale in front of the factors.
    seconds : float
        Seconds since the start; the clock is stopped while a callback runs.
    factors : tuple of ndarray
        The current factors, read-only.
    done : float
        The estimated share of the work done, from 0 to 1; it never falls.
    share : float
        The share of all signals that ``error`` is measured on, above 0. Learners begin with random shares, which
        grow to 1. Until then, errors differ by chance, and that of all signals may be larger.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(8).toarray()
    >>> phases = []
    >>> fit = pp.hierarchical(H, pp.Schedule.hadamard(8), callback=lambda step: phases.append(step.phase))
    >>> sorted(set(phases))
    ['global 1', 'global 2', 'split 1', 'split 2']
    """

    phase: str
    iteration: int
    error: float
    scale: float
    seconds: float
    factors: tuple[Array, ...] = ()
    done: float = 0.0
    share: float = 1.0

    def __str__(self) -> str:
        of = f" of {self.share:.2g} of the signals" if self.share < 1 else ""
        return f"{self.seconds:8.2f} s  {self.phase} {self.iteration}: relative error {self.error:.6g}{of}"


Callback: TypeAlias = Callable[[Step], Any]


class History(list[Step]):
    """All iterations in order, as a list of `Step` and as columns.

    Examples
    --------
    >>> import papilio as pp
    >>> H = pp.transforms.hadamard(8).toarray()
    >>> history = pp.hierarchical(H, pp.Schedule.hadamard(8)).history
    >>> history[0].phase, history[-1].phase
    ('split 1', 'global 2')
    >>> history.error.shape == (len(history),)
    True
    """

    @property
    def error(self) -> Array:
        """Relative errors."""
        return np.array([step.error for step in self])

    @property
    def scale(self) -> Array:
        """The scales in front of the factors."""
        return np.array([step.scale for step in self])

    @property
    def seconds(self) -> Array:
        """Seconds since the start; the clock is stopped while a callback runs."""
        return np.array([step.seconds for step in self])

    @property
    def share(self) -> Array:
        """The shares of all signals that the errors are measured on."""
        return np.array([step.share for step in self])

    @property
    def phase(self) -> list[str]:
        """The names of the phases."""
        return [step.phase for step in self]
