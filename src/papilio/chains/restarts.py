"""Restarts: many random chains descend together, and those that lag behind are abandoned."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from ..results import Status
from ..runtime.session import Session
from ..typing import Array
from .descent import Chains
from .spectra import Places, Spectra

_SWEEPS = 30  # of alternating least squares, before joint steps
_LOOKBACK = 10  # iterations over which progress is judged
_ROUNDING = 1e-13  # the relative error that counts as exact
_MOST_NUMBERS = 1 << 23  # in the Jacobians of all chains of a batch


class Limits(NamedTuple):
    n_restarts: int
    max_iter: int
    tol: float


class Search:
    """The best kernels of all restarts so far."""

    def __init__(
        self, session: Session, data: Spectra, places: Sequence[Places], limits: Limits, is_exact: bool = True
    ) -> None:
        self._session, self._data, self._places, self._limits = session, data, places, limits
        self._goal = _ROUNDING if is_exact else 1e-7
        self._best = np.inf
        self.kernels: list[Array] = []
        self.n_iter = 0
        self.status = Status.CONVERGED

    def run(self, start: Sequence[Array] | None) -> None:
        """All restarts, in batches that fit into memory."""
        n_waves = sum(len(places.waves) for places in self._places)
        most = max(_MOST_NUMBERS // (n_waves * self._data.signal.size), 1)
        starts = self._starts(start)
        count = len(starts[0])
        for begin in range(0, count, most):
            with self._session.part(min(most, count - begin) / count):
                self._descend(Chains(self._data, self._places, [each[begin : begin + most] for each in starts]))
            if self._is_exact:
                break

    def _starts(self, start: Sequence[Array] | None) -> list[Array]:
        """(restarts, places) of each kernel: what was given, then random kernels."""
        count, random = self._limits.n_restarts, self._session.random
        starts = []
        for k, places in enumerate(self._places):
            n_places = len(places.waves)
            drawn = random.standard_normal((count, n_places))
            if not places.is_real:
                drawn = drawn + 1j * random.standard_normal((count, n_places))
            starts.append(drawn if start is None else np.concatenate([start[k][None], drawn]))
        return starts

    def _descend(self, chains: Chains) -> None:
        chains.balance()
        past: list[Array] = []  # errors of the chains that go on, at the last iterations
        for iteration in range(self._limits.max_iter):
            chains.sweep() if iteration < _SWEEPS else chains.leap()
            self._take(chains, iteration + 1)
            past.append(chains.errors)
            if self._is_exact:
                return
            going = self._going(past)
            if not going.any():
                return
            if not going.all():
                chains.keep(going)
                past = [errors[going] for errors in past]
            past = past[-_LOOKBACK:]
        self.status = Status.MAX_ITER

    def _going(self, past: list[Array]) -> Array:
        """Which chains still make progress."""
        if len(past) <= _LOOKBACK or not self._limits.tol:
            return np.ones(len(past[-1]), bool)
        return np.sqrt(past[-1]) < (1 - self._limits.tol) * np.sqrt(past[0])

    def _take(self, chains: Chains, iteration: int) -> None:
        errors = np.where(np.isfinite(chains.errors), chains.errors, np.inf)
        best = int(np.argmin(errors))
        if errors[best] < self._best or not self.kernels:
            self._best, self.n_iter = float(errors[best]), iteration
            self.kernels = [kernel[best].copy() for kernel in chains.kernels]
        self._session.report("restarts", self._relative(self._best), fraction=iteration / self._limits.max_iter)
        self._session.check()

    @property
    def _is_exact(self) -> bool:
        """Whether what a chain can explain is explained up to rounding."""
        return self._best <= self._goal**2 * self._data.energy

    def _relative(self, error: float) -> float:
        return sqrt((error + self._data.rest) / self._data.energy)
