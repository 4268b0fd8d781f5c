"""Fast dictionaries as an estimator."""

from typing import Any

import numpy as np

from ..dictionary.fast import FastOptions, learn_fast
from ..dictionary.refinement import FastState
from ..results import Step
from ..samples import Samples
from ..solvers.palm import Callback, Run
from ..solvers.schedule import Schedule
from ..typing import Array
from ..validation import as_integer, as_random
from .streams import StreamEstimator


class FastDictionaryLearning(StreamEstimator):
    """A dictionary that is a product of sparse factors, and so a fast transform: `papilio.fast_dictionary`.

    Parameters
    ----------
    n_components, n_nonzero_coefs, transform_sparse, random_state, callback, checkpoint, verbose
        As for `KSVD`.
    n_factors : int, optional
        The number of sparse factors, at least 2.
    complexity : float, optional
        The dial: entries of all factors, relative to those of the dense dictionary. The result has at most that.
        By default 0.5, or as little as possible where that is more. `Schedule.with_complexity` says how entries
        are dealt out.
    schedule : Schedule, optional
        The constraint sets of the factors, instead of ``n_factors`` and ``complexity``.
    init : {"ksvd", "online"} or (n_components, n_features) array
        The dense dictionary that is factorized first.
    refine : bool
        Improve all factors and codes together in the end; False is the paper to the letter.
    max_iter : int
        Of PALM's iterations in each split and each global step.
    tol : float
        Stop these when the relative error changes by less.
    memory : int, optional
        Mini-batches that count in `partial_fit` and `fit_stream`, for data that drift; no limit by default.

    Attributes
    ----------
    components_, relative_complexity_, history_, n_iter_
        As for `KSVD`.
    operator_ : SparseProduct
        The dictionary, (n_features, n_components), as a fast transform.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.FastDictionaryLearning(n_nonzero_coefs=5, complexity=0.4, random_state=0).fit(X)
    >>> bool(model.relative_complexity_ <= 0.4)
    True
    """

    _state: FastState

    def __init__(
        self,
        n_components: int | None = None,
        n_nonzero_coefs: int | None = None,
        *,
        n_factors: int | None = None,
        complexity: float | None = None,
        schedule: Schedule | None = None,
        init: Any = "ksvd",
        refine: bool = True,
        max_iter: int = 500,
        tol: float = 1e-6,
        memory: int | None = None,
        transform_sparse: bool = False,
        random_state: Any = None,
        callback: Callback | None = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.n_factors = n_factors
        self.complexity = complexity
        self.schedule = schedule
        self.init = init
        self.refine = refine
        self.max_iter = max_iter
        self.tol = tol
        self.memory = memory
        self.transform_sparse = transform_sparse
        self.random_state = random_state
        self.callback = callback
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _learn(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> None:
        schedule = self._schedule_for((samples.shape[1], n_components))
        init = self.init if isinstance(self.init, str) else np.transpose(self.init)
        options = FastOptions(init, self.refine, self.max_iter, self.tol).checked()
        memory = None if self.memory is None else as_integer("memory", self.memory, 1)
        run, checkpoint = Run(self._reporter()), self._opened_checkpoint(schedule=schedule)
        random = as_random(self.random_state)
        product, summary, data = learn_fast(samples, schedule, n_nonzero_coefs, options, random, run, checkpoint)
        self._store(product, run.history)
        self._state = FastState(self.operator_, schedule, n_nonzero_coefs, memory)
        self._state.remember(summary, data.unit)
        self._close(run, checkpoint)

    def _schedule_for(self, shape: tuple[int, int]) -> Schedule:
        if self.schedule is None:
            return Schedule.with_complexity(shape, self.complexity, self.n_factors)
        if self.n_factors is not None or self.complexity is not None:
            raise ValueError("schedule must not be given together with n_factors or complexity")
        if not isinstance(self.schedule, Schedule):
            raise TypeError(f"schedule must be a Schedule, got {type(self.schedule).__name__}")
        if self.schedule.shape != shape:
            raise ValueError(
                f"schedule must be for (n_features, n_components) = {shape}, got one for {self.schedule.shape}"
            )
        return self.schedule

    def _add(self, rows: Array) -> None:
        error = self._state.learn(rows)
        self.history_.append(Step("partial fit", len(self.history_) + 1, error, self._state.operator.scale, 0.0))
        self._store(self._state.operator, self.history_)

    def _begin(self, rows: Array) -> None:
        self.fit(rows)
