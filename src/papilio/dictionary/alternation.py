"""The loop that K-SVD and its variants share: code some signals, record the error, let the atoms be updated."""

from collections.abc import Iterator
from typing import NamedTuple

import scipy.sparse as sp

from ..coding import Coder
from ..linalg import frobenius
from ..results import Status
from ..runtime.session import Session, State
from ..runtime.threads import blas_threads
from ..typing import Array
from ..validation import as_integer, as_real
from .atoms import growing_share
from .learner import Best
from .signals import Held
from .sums import relative, residuals_of


class AlternationLimits(NamedTuple):
    """When the loop ends (see `ksvd`)."""

    max_iter: int = 100
    tol: float = 1e-4

    def checked(self) -> "AlternationLimits":
        return AlternationLimits(as_integer("max_iter", self.max_iter, 0), as_real("tol", self.tol, 0.0))


class Round(NamedTuple):
    """Some signals, one per row, with their codes and residuals."""

    rows: Array
    codes: sp.csc_array
    residuals: Array


class Alternation:
    """Rounds over growing shares of signals in memory.

    Parameters
    ----------
    name : str
        The name of the phase in the history.
    signals : Held
    limits : AlternationLimits
    session : Session
    state : mapping
        Where to continue from: what an alternation of this name gave to `Session.offer`; or anything else.

    Attributes
    ----------
    model : dict of arrays
        What is learned: the ``atoms``, one per row, and more. Its arrays are changed in place between rounds.
    """

    def __init__(
        self, name: str, signals: Held, limits: AlternationLimits, session: Session, state: State
    ) -> None:
        self._name = name
        self._signals = signals
        self._limits = limits
        self._session = session
        self._iteration = int(state.get("iteration", 0))
        self._best = Best(limits.tol, state.get("progress", {}), state.get("best"))
        self.model: dict[str, Array] = dict(state.get("model", {}))

    def rounds(self) -> Iterator[Round]:
        """One round after the other."""
        atoms, rows, best, session = self.model["atoms"], self._signals.rows, self._best, self._session
        n_nonzero_coefs, max_iter = self._signals.n_nonzero_coefs, self._limits.max_iter
        with blas_threads(atoms.shape[0] * atoms.size):
            while True:
                session.offer(self._state)
                some = growing_share(rows, len(atoms), n_nonzero_coefs, self._iteration, max_iter, session.random)
                codes = Coder(atoms.T).code(some.T, n_nonzero_coefs)
                residuals = residuals_of(some, atoms, codes)
                error = relative(residuals, frobenius(some))
                session.report(self._name, error, 1.0, [atoms.T.copy()], (self._iteration + 1) / (max_iter + 1))
                if some is rows:
                    best.record(error, {name: array.copy() for name, array in self.model.items()})
                if session.stopped or best.has_settled or self._iteration == max_iter:
                    break
                yield Round(some, codes, residuals)
                self._iteration += 1
        if best.candidate is None:  # stopped before all signals were coded
            best.candidate = self.model

    @property
    def best(self) -> dict[str, Array]:
        """The arrays of the model at its best."""
        best: dict[str, Array] = self._best.candidate
        return best

    @property
    def status(self) -> Status:
        """Why the rounds ended."""
        return self._best.status(self._session.stopped)

    def _state(self) -> State:
        best = {} if self._best.candidate is None else {"best": self._best.candidate}
        progress = self._best.to_state()
        return {"iteration": self._iteration, "model": self.model, "progress": progress, **best}
