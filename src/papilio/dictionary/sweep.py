"""Fast dictionaries of the same signals at many complexities."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Step
from ..solvers.hierarchical import hierarchical
from ..solvers.palm import Callback, Run, palm
from ..solvers.schedule import Schedule
from ..validation import Array
from .common import Progress, as_rows, growing_shares, in_range
from .fast import _Data, _descended, _sample, relayed
from .ksvd import ksvd

_ROUNDS = 25  # of refinement: neighbours have done part of the work
_REFINE_TOL = 1e-3
_KSVD_STEPS = 101


class DictionarySweep:
    """Dictionaries for one schedule after the other, from the loosest to the tightest.

    The dense dictionary D₀ is learned once, by `ksvd`. Each point starts from the better one of two: D₀ factorized
    by `hierarchical`, and the factors of the point before, projected onto the tighter sets. Then rounds of new
    codes and PALM refine it, a quarter of those that a fit from nothing takes. On 10,000 image patches this gives
    the errors of separate fits in a third of their time.

    Parameters
    ----------
    signals : (d, n) matrix
    n_atoms, n_nonzero : int
    random : RandomState
    callback : callable, optional
        Called with a `Step` that knows how much is done; a true result ends the sweep.

    Attributes
    ----------
    dense_error : float
        The relative error with D₀.
    stopped : bool
    """

    def __init__(
        self,
        signals: Any,
        n_atoms: int,
        n_nonzero: int,
        random: np.random.RandomState,
        callback: Callback | None = None,
    ) -> None:
        rows = in_range(as_rows(signals))[0]
        self._random = random
        self._callback = callback
        self._place = ""
        self._begin, self._width = 0.0, 0.0
        self._run = Run(None if callback is None else self._report)
        self._data = _Data(rows, n_nonzero)
        self._sample = _Data(_sample(rows, n_atoms, random), n_nonzero)
        self._n_atoms = n_atoms
        self.dense_error = np.inf

    @property
    def stopped(self) -> bool:
        return self._run.stopped

    def points(self, schedules: Sequence[Schedule]) -> Iterator[tuple[SparseProduct, float]]:
        """The dictionary of each schedule, and its relative error, until the sweep is stopped; always one."""
        self._width = 1 / (len(schedules) + 1)
        dense = self._dense()
        before: SparseProduct | None = None
        for i, schedule in enumerate(schedules):
            self._place, self._begin = f"point {i + 1} of {len(schedules)}: ", (i + 1) * self._width
            product = self._refined(self._start(dense, schedule, before), schedule)
            if self.stopped and before is not None:
                return
            before = product.astype(self._data.rows.dtype)
            yield before, self._data.code(before)[1]
            if self.stopped:
                return

    def _dense(self) -> Array:
        learned = ksvd(
            self._sample.rows.T,
            self._n_atoms,
            self._data.n_nonzero,
            random_state=self._random,
            callback=relayed(self._run),
        )
        dense: Array = learned.dictionary
        self.dense_error = self._data.code(SparseProduct([dense]))[1]
        return dense

    def _start(self, dense: Array, schedule: Schedule, before: SparseProduct | None) -> SparseProduct:
        """D₀ factorized, or the neighbour in the tighter sets: the better one after some steps of PALM."""
        sets = schedule.together(len(schedule.factors) - 1)
        if self.stopped:
            return palm(dense, sets, max_iter=1).operator
        fit = hierarchical(
            dense, schedule, retarget=self._sample.moments, polish=False, callback=relayed(self._run)
        )
        if len(fit.operator.factors) < len(sets):  # stopped before the last split
            return palm(dense, sets, max_iter=1).operator
        if before is None or self.stopped:
            return fit.operator
        scale = before.scale * prod(frobenius(factor.data) for factor in before.factors)
        members = [c.project(factor.toarray()) for c, factor in zip(sets, before.factors, strict=True)]
        starts = [SparseProduct(members, scale), fit.operator]
        starts = [_descended(self._sample.moments(start), schedule, start) for start in starts]
        return min(starts, key=lambda start: self._sample.code(start)[1])

    def _refined(self, product: SparseProduct, schedule: Schedule) -> SparseProduct:
        """Rounds of new codes and PALM on growing shares of the signals, as for a single dictionary, but fewer."""
        if self.stopped:
            return product
        progress = Progress(_REFINE_TOL)
        progress.record(self._sample.code(product)[1], product)
        rows = self._sample.rows
        for some in growing_shares(rows, self._n_atoms, self._data.n_nonzero, _ROUNDS - 1, self._random):
            part = _Data(some, self._data.n_nonzero)
            product = _descended(part.moments(product), schedule, product)
            error = part.code(product)[1]
            self._run.report("refine", error, product.scale, [factor.toarray() for factor in product.factors])
            if some is rows:
                progress.record(error, product)
            if self.stopped or progress.has_ended:
                break
        best: SparseProduct = progress.best
        return best

    def _report(self, step: Step) -> Any:
        """Tell the callback which point it is, and how much is done."""
        assert self._callback is not None
        share = step.iteration / _ROUNDS if step.phase == "refine" else 0.0
        if step.phase == "ksvd":
            share = step.iteration / _KSVD_STEPS
        done = min(self._begin + self._width * min(share, 1.0), 1.0)
        return self._callback(step._replace(phase=f"{self._place}{step.phase}", done=done))
