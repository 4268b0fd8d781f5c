"""Restarts: many random chains descend together, then chains that are found kernel by kernel."""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from ..constraints.places import Grid
from ..results import Status
from ..runtime.session import Session
from ..typing import Array
from .descent import Chains
from .spectra import Places, Spectra, cropped
from .splitting import composed, of_atom, random_kernels, split_kernels

_SWEEPS = 3  # of alternating least squares, before joint steps
_FIRST = 60  # iterations of all restarts together
_KEPT = 5  # restarts that go on after these
_ROUNDS = 3  # of splitting
_LOOKBACK = 10  # iterations over which progress is judged
_ROUNDING = 1e-13  # the relative error that counts as exact
_MOST_NUMBERS = 1 << 22  # in the Jacobians of all chains of a batch
_LARGE = 1 << 21  # numbers in those of all restarts, above which an atom is fitted first


class Limits(NamedTuple):
    """What the user allows."""

    n_restarts: int
    max_iter: int
    tol: float
    rounding: float = _ROUNDING


class Search:
    """The best kernels of all restarts so far.

    ``supports`` are places on ``grid``, which both may be cut to what the chain can reach.
    """

    def __init__(
        self,
        session: Session,
        data: Spectra,
        supports: Sequence[Array],
        grid: Grid,
        is_real: bool,
        limits: Limits,
        *,
        reports: bool = True,
    ) -> None:
        self._session, self._data, self._limits, self._reports = session, data, limits, reports
        self._supports, self._grid, self._is_real = list(supports), grid, is_real
        known = {each.tobytes(): Places(each, grid, is_real) for each in supports}
        self.places = [known[each.tobytes()] for each in supports]  # equal supports share what is large
        self._best = np.inf
        self.kernels: list[Array] = []
        self.n_iter = 0
        self.status = Status.CONVERGED

    def run(self, start: Sequence[Array] | None) -> None:
        """Random chains first; then, unless one is exact, splits; then the best of the random ones go on."""
        kept: list[Chains] = []
        if start is not None:
            chains = Chains(self._data, self.places, [kernel[None] for kernel in start])
            if self._descend(chains, self._limits.max_iter):
                self.status = Status.MAX_ITER
            if self._is_exact:
                return
        n_waves = sum(len(places.waves) for places in self.places)
        if n_waves * self._data.signal.size * self._limits.n_restarts > _LARGE and self._run_small():
            return
        most = max(_MOST_NUMBERS // (n_waves * self._data.signal.size), 1)
        count = self._limits.n_restarts
        with self._session.part(0.4):
            for begin in range(0, count, most):
                with self._session.part(min(most, count - begin) / count):
                    chains = Chains(self._data, self.places, self._starts(min(most, count - begin)))
                    if self._descend(chains, min(_FIRST, self._limits.max_iter)):
                        kept.append(chains)
                if self._is_exact:
                    return
        with self._session.part(0.3):
            self._split()
        for chains in kept:
            if self._is_exact:
                return
            with self._session.part(0.3 / len(kept)):
                chains.keep(np.argsort(chains.errors)[:_KEPT])
                if self._descend(chains, max(self._limits.max_iter - _FIRST, 0), _FIRST):
                    self.status = Status.MAX_ITER

    def _run_small(self) -> bool:
        """Of many data: restarts on the composed atom, which is small, then one descent on the data themselves."""
        atom = composed(self._data, self._supports, self._grid, self._is_real)
        if atom is None:
            return False
        part, moved, _ = cropped(atom, self._supports)
        if part.size >= atom.size or not part.any():
            return False
        small = Search(self._session, of_atom(part), moved, part.shape, self._is_real, self._limits, reports=False)
        try:
            small.run(None)
        finally:
            self.kernels = self.kernels or small.kernels  # for the case that the session is stopped
        if self._descend(Chains(self._data, self.places, [k[None] for k in small.kernels]), self._limits.max_iter):
            self.status = Status.MAX_ITER
        return True

    def _starts(self, count: int) -> list[Array]:
        return [
            random_kernels(self._session.random, count, len(places.waves), self._is_real) for places in self.places
        ]

    def _split(self) -> None:
        """Kernel by kernel, in several orders, each time followed by joint steps on the data themselves."""
        if len(self.places) < 3 or not self._limits.n_restarts or self._limits.max_iter <= _SWEEPS:
            return
        atom = composed(self._data, self._supports, self._grid, self._is_real)
        if atom is None or not atom.any():
            return
        order = np.arange(len(self.places))
        for attempt in range(_ROUNDS):
            supports = [self._supports[k] for k in order]
            split = split_kernels(self._session, atom, supports, self._limits.n_restarts, self._is_real)
            if split is not None and all(kernel.any() for kernel in split):
                start = [split[int(at)][None] for at in np.argsort(order)]
                self._descend(Chains(self._data, self.places, start), self._limits.max_iter)
            if self._is_exact:
                return
            order = order[::-1] if attempt == 0 else self._session.random.permutation(len(order))

    def _descend(self, chains: Chains, n_iter: int, done: int = 0) -> bool:
        """So many iterations of some chains; whether any of them still makes progress."""
        chains.balance()
        past: list[Array] = []  # errors of the chains that go on, at the last iterations
        for iteration in range(done, done + n_iter):
            chains.sweep() if iteration < _SWEEPS else chains.leap()
            self._take(chains, iteration + 1, (iteration + 1 - done) / n_iter)
            if self._is_exact:
                return False
            past = [*past[-_LOOKBACK:], chains.errors]
            going = self._going(past)
            if not going.any():
                return False
            if not going.all():
                chains.keep(going)
                past = [errors[going] for errors in past]
        return True

    def _going(self, past: list[Array]) -> Array:
        """Which chains still make progress."""
        if len(past) <= _LOOKBACK or not self._limits.tol:
            return np.ones(len(past[-1]), bool)
        return np.sqrt(past[-1]) < (1 - self._limits.tol) * np.sqrt(past[0])

    def _take(self, chains: Chains, iteration: int, fraction: float) -> None:
        errors = np.where(np.isfinite(chains.errors), chains.errors, np.inf)
        best = int(np.argmin(errors))
        if errors[best] < self._best or not self.kernels:
            self._best, self.n_iter = float(errors[best]), iteration
            self.kernels = [kernel[best].copy() for kernel in chains.kernels]
        if self._reports:
            self._session.report("restarts", self._relative(self._best), fraction=fraction)
        self._session.check()

    @property
    def _is_exact(self) -> bool:
        """Whether what a chain can explain is explained up to rounding."""
        return self._best <= self._limits.rounding**2 * self._data.energy

    def _relative(self, error: float) -> float:
        return sqrt((error + self._data.rest) / self._data.energy)
