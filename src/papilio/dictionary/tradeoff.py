"""Fast dictionaries of the same signals at many complexities."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Step
from ..runtime.checkpoint import Checkpoint
from ..solvers.hierarchical import Peeled, peel
from ..solvers.palm import Callback, Run, palm
from ..solvers.schedule import Schedule
from ..typing import Array
from .atoms import as_rows
from .ksvd import learn_ksvd
from .refinement import STAGE as REFINE
from .refinement import descended, order_of, refined
from .signals import Held, enough

_ROUNDS = 25  # of refinement: the neighbour has done part of the work
_KSVD_STEPS, _KSVD_TOL = 100, 1e-4
_MAX_ITER, _TOL = 500, 1e-6  # of PALM in the hierarchy


class DictionarySweep:
    """Dictionaries for one schedule after the other, from the loosest to the tightest.

    The dense dictionary D₀ is learned once, by `ksvd`. Each point starts from the better one of two: D₀ factorized
    by the hierarchical strategy, and the factors of the point before, projected onto the tighter sets. Then rounds
    of new codes and PALM refine it, a quarter of those that a fit from nothing takes. On 10,000 image patches this
    gives the errors of separate fits in a third of their time.

    Parameters
    ----------
    signals : (d, n) matrix
    n_components, n_nonzero_coefs : int
    random : RandomState
    callback : callable, optional
        Called with a `Step` that knows how much is done; a true result ends the sweep.

    Attributes
    ----------
    dense_error : float
        The relative error with D₀.
    """

    def __init__(
        self,
        signals: Any,
        n_components: int,
        n_nonzero_coefs: int,
        random: np.random.RandomState,
        callback: Callback | None = None,
    ) -> None:
        self._data = self._sample = Held(as_rows(signals), n_nonzero_coefs)
        rows = self._data.rows
        if len(rows) > enough(n_components):
            self._sample = self._data.part(rows[np.sort(random.permutation(len(rows))[: enough(n_components)])])
        self._n_atoms = n_components
        self._random = random
        self._callback = callback
        self._run = Run(None if callback is None else self._report)
        self._place, self._begin, self._width = "", 0.0, 0.0
        self.dense_error = np.inf

    @property
    def stopped(self) -> bool:
        return self._run.stopped

    def points(self, schedules: Sequence[Schedule]) -> Iterator[tuple[SparseProduct, float]]:
        """The dictionary of each schedule, and its relative error, until the sweep is stopped; always one."""
        self._width = 1 / (len(schedules) + 1)
        atoms = learn_ksvd(
            self._sample, self._n_atoms, None, _KSVD_STEPS, _KSVD_TOL, self._random, self._run, Checkpoint()
        )
        dense = atoms.T.copy()
        self.dense_error = self._data.error(dense)
        before: SparseProduct | None = None
        for i, schedule in enumerate(schedules):
            self._place, self._begin = f"point {i + 1} of {len(schedules)}: ", (i + 1) * self._width
            product = self._start(dense, schedule, before)
            if not self.stopped:
                product = refined(self._sample, schedule, product, self._run, self._random, Checkpoint(), _ROUNDS)
            if self.stopped and before is not None:
                return
            before = product.astype(self._data.rows.dtype)
            yield before, self._data.error(before)
            if self.stopped:
                return

    def _start(self, dense: Array, schedule: Schedule, before: SparseProduct | None) -> SparseProduct:
        """D₀ factorized, or the neighbour in the tighter sets: the better one after some steps of PALM."""
        sets = schedule.together(len(schedule.factors) - 1)
        if self.stopped:
            return palm(dense, sets, max_iter=1).operator
        limits = order_of(schedule), _MAX_ITER, _TOL, False
        peeled, _, _ = peel(self._run, schedule, self._moments, limits, Peeled(0, [dense], 1.0))
        if len(peeled.factors) < len(sets):  # stopped before the last split: the residual is too dense
            return palm(dense, sets, max_iter=1).operator
        factorized = SparseProduct(peeled.factors, peeled.scale)
        if before is None or self.stopped:
            return factorized
        scale = before.scale * prod(frobenius(factor.data) for factor in before.factors)
        members = [c.project(factor.toarray()) for c, factor in zip(sets, before.factors, strict=True)]
        starts = [SparseProduct(members, scale), factorized]
        starts = [descended(self._moments(start), schedule, start) for start in starts]
        return min(starts, key=self._sample.error)

    def _moments(self, product: SparseProduct) -> Any:
        return self._sample.summary(product).moments(product)

    def _report(self, step: Step) -> Any:
        """Tell the callback which point it is, and how much is done."""
        assert self._callback is not None
        steps = {REFINE: _ROUNDS, "ksvd": _KSVD_STEPS + 1}.get(step.phase)
        share = 0.0 if steps is None else min(step.iteration / steps, 1.0)
        done = self._begin + self._width * share
        return self._callback(step._replace(phase=f"{self._place}{step.phase}", done=min(done, 1.0)))
