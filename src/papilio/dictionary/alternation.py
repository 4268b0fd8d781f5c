"""The rounds that K-SVD and its kin share: code some signals, see how good it is, let the atoms be updated."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..linalg import frobenius
from ..runtime.checkpoint import Checkpoint
from ..runtime.threads import blas_threads
from ..solvers.palm import Run
from ..typing import Array
from .atoms import Progress, growing_share, relative, residuals_of
from .signals import Held


class Round(NamedTuple):
    """Some signals, one a row, with their codes and residuals."""

    rows: Array
    codes: sp.csc_array
    residuals: Array


class Rounds:
    """Rounds over growing shares of signals in memory.

    Parameters
    ----------
    name : str
        Of the phase, in histories, and of the stage, in checkpoints.
    data : Held
    max_iter, tol
        Of the learner.
    """

    def __init__(
        self, name: str, data: Held, max_iter: int, tol: float, random: Any, run: Run, checkpoint: Checkpoint
    ) -> None:
        self._name = name
        self._data = data
        self._max_iter = max_iter
        self._progress = Progress(tol)
        self._random = random
        self._run = run
        self._checkpoint = checkpoint
        self._iteration = 0
        self.codes: sp.csc_array | None = None  # of all signals, in the best dictionary

    def restored(self) -> dict[str, Array]:
        """The arrays that a checkpoint of these rounds has; none if there is no such."""
        saved = self._checkpoint.saved(self._name)
        model = {name.removeprefix("model_"): array for name, array in saved.items() if name.startswith("model_")}
        best = {name.removeprefix("best_"): array for name, array in saved.items() if name.startswith("best_")}
        if saved:
            self._iteration = int(saved["iteration"])
            self._progress.restore(saved, best or None)
        return model

    def over(self, model: Mapping[str, Array]) -> Iterator[Round]:
        """One round after the other; ``model``, with its ``atoms``, is changed in place in between."""
        atoms, rows, n_nonzero_coefs = model["atoms"], self._data.rows, self._data.n_nonzero_coefs
        run, progress = self._run, self._progress
        with blas_threads(atoms.shape[0] * atoms.size):
            while True:
                self._checkpoint.offer(self._name, lambda: self._state(model))
                some = growing_share(
                    rows, len(atoms), n_nonzero_coefs, self._iteration, self._max_iter, self._random
                )
                codes = Coder(atoms.T).code(some.T, n_nonzero_coefs)
                residuals = residuals_of(some, atoms, codes)
                error = relative(residuals, frobenius(some))
                run.report(self._name, error, 1.0, [atoms.T.copy()])
                if some is rows:
                    if error < progress.error:
                        self.codes = codes.copy()
                    progress.record(error, {name: array.copy() for name, array in model.items()})
                if run.stopped or progress.has_ended or self._iteration == self._max_iter:
                    break
                yield Round(some, codes, residuals)
                self._iteration += 1
        if progress.best is None:  # stopped before all signals were coded
            progress.best = model

    @property
    def best(self) -> dict[str, Array]:
        """The arrays of the model at its best."""
        best: dict[str, Array] = self._progress.best
        return best

    def _state(self, model: Mapping[str, Array]) -> dict[str, Array]:
        best: Mapping[str, Array] = self._progress.best or {}
        return {
            "iteration": np.array(self._iteration),
            **{f"model_{name}": array for name, array in model.items()},
            **{f"best_{name}": array for name, array in best.items()},
            **self._progress.to_arrays(),
        }
