"""Fast dictionaries: the paper's PROPOSED (section 4.2), and joint refinement."""

from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..operators import SparseProduct
from ..runtime.checkpoint import Checkpoint
from ..samples import PassStopped, Samples, held
from ..solvers.hierarchical import Peeled, peel
from ..solvers.palm import Callback, Run
from ..solvers.schedule import Schedule
from ..typing import Array
from ..validation import as_choice, as_integer, as_random, as_real
from .atoms import Learned, as_rows, as_sparsity, as_start
from .full_passes import STAGE as ALL_DATA
from .full_passes import from_arrays, improved_on_all, to_arrays
from .ksvd import learn_ksvd
from .online import OnlineLimits, learn_online
from .refinement import STAGE as REFINE
from .refinement import descended, order_of, refined
from .signals import Data, Held, as_learned, opened
from .statistics import Summary

_HIERARCHY = "hierarchy"


def fast_dictionary(
    signals: Any,
    schedule: Schedule,
    n_nonzero_coefs: int | None = None,
    *,
    init: Any = "ksvd",
    refine: bool = True,
    max_iter: int = 500,
    tol: float = 1e-6,
    random_state: Any = None,
    callback: Callback | None = None,
) -> Learned:
    """Learn a dictionary that is a product of sparse factors.

    The paper's PROPOSED: a dense dictionary D₀ with codes Γ, by `ksvd`, is factorized by `hierarchical`, whose
    splits see the residual of D₀ and whose global steps see the data, through the `Moments` of X and Γ; after each
    global step `omp` gives new codes. Then, with ``refine``, rounds of new codes and some steps of `palm` for all
    factors, on random shares of the signals that grow to all of them, as long as these lower the error.

    With very many signals, a random sample of them serves for D₀ and for the refinement; the hierarchy sees all,
    and so does the end: passes over all signals, each with new codes and steps of `palm`, as long as they pay.

    Parameters
    ----------
    signals : (d, n) matrix
        X, one signal a column.
    schedule : Schedule
        The sets of the factors; its shape is that of the dictionary, (d, a).
    n_nonzero_coefs : int, optional
        Atoms a signal; a tenth of d by default, at least one.
    init : {"ksvd", "online"} or (d, a) matrix
        D₀, or who learns it: `ksvd` or `online_dictionary`.
    refine : bool
        False is the paper to the letter.
    max_iter, tol
        Of each `palm` in the hierarchy.
    random_state : int, RandomState or None
        Of `ksvd`.
    callback : callable, optional
        Called with a `Step` after each iteration of any phase: "ksvd", "split 1", "global 1", …, "refine",
        "all data"; a true result stops the learner, which returns what it has.

    Returns
    -------
    dictionary : SparseProduct
    codes : (a, n) csc_array
        Of the signals, by `omp`.
    history : History
        The error is relative: that of the residual in splits, that of the data else.
    """
    rows = as_rows(signals)
    if not isinstance(schedule, Schedule):
        raise TypeError(f"schedule must be a Schedule, got {type(schedule).__name__}")
    if schedule.shape[0] != rows.shape[1]:
        raise ValueError(
            f"schedule must be for {rows.shape[1]} features, as the signals have, got {schedule.shape[0]}"
        )
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, *schedule.shape)
    options = FastOptions(init, refine, max_iter, tol).checked()
    random, run = as_random(random_state), Run(callback)
    product, _, data = learn_fast(held(rows), schedule, n_nonzero_coefs, options, random, run, Checkpoint())
    return as_learned(data if isinstance(data, Held) else Held(rows, n_nonzero_coefs), product, run)


class FastOptions(NamedTuple):
    """The options of `fast_dictionary`."""

    init: Any = "ksvd"
    refine: bool = True
    max_iter: int = 500
    tol: float = 1e-6

    def checked(self) -> "FastOptions":
        """Before a start is learned."""
        if isinstance(self.init, str):
            as_choice("init", self.init, ("ksvd", "online"))
        limits = as_integer("max_iter", self.max_iter, 1), as_real("tol", self.tol, 0.0)
        return FastOptions(self.init, bool(self.refine), *limits)


def learn_fast(
    samples: Samples,
    schedule: Schedule,
    n_nonzero_coefs: int,
    options: FastOptions,
    random: np.random.RandomState,
    run: Run,
    checkpoint: Checkpoint,
) -> tuple[SparseProduct, Summary, Data]:
    """What `fast_dictionary` does, from samples of any size: the product, and sums over the signals in it."""
    start: Any = None
    if not isinstance(options.init, str):
        start = as_start(options.init, schedule.shape, samples.dtype)
    data = opened(samples, n_nonzero_coefs, schedule.shape[1], random, run, checkpoint)
    later = {_HIERARCHY: 1, REFINE: 2, ALL_DATA: 3}.get(checkpoint.stage, 0)
    if later == 0:
        if start is None:
            start = _start(data.start, schedule.shape[1], options.init, random, run, checkpoint)
        product = SparseProduct([start])
    else:
        product = from_arrays("now", checkpoint.saved())
    if later < 2 and not run.stopped:
        product = _factorized(data, schedule, start, options, run, checkpoint)
    if later < 3 and options.refine and not run.stopped:
        product = refined(data.start, schedule, product, run, random, checkpoint)
    improve = partial(_improved, schedule)
    n_passes = data.n_passes if options.refine else 0
    product, summary = improved_on_all(data, product.astype(samples.dtype), improve, n_passes, run, checkpoint)
    run.report("final", summary.error, product.scale, ())
    return product, summary, data


def _start(
    data: Held, n_components: int, init: str, random: np.random.RandomState, run: Run, checkpoint: Checkpoint
) -> Array:
    """A dense dictionary (d, a) to start from."""
    if init == "ksvd":
        return learn_ksvd(data, n_components, None, 100, 1e-4, random, run, checkpoint).T.copy()
    return learn_online(data, n_components, None, OnlineLimits(), random, run, checkpoint).T.copy()


def _factorized(
    data: Data, schedule: Schedule, start: Array | None, options: FastOptions, run: Run, checkpoint: Checkpoint
) -> SparseProduct:
    """The hierarchy, whose global steps see all signals with new codes."""
    if saved := checkpoint.saved(_HIERARCHY):
        product = from_arrays("now", saved)
        last = Peeled(int(saved["levels"]), [factor.toarray() for factor in product.factors], product.scale)
    else:
        assert start is not None
        last = Peeled(0, [start], 1.0)

    def keep(peeled: Peeled) -> None:
        nonlocal last
        last = peeled
        state = to_arrays("now", SparseProduct(peeled.factors, peeled.scale))
        checkpoint.save(_HIERARCHY, {"levels": np.array(peeled.levels), **state})

    keep(last)
    limits = order_of(schedule), options.max_iter, options.tol, False
    with suppress(PassStopped):
        last, _, _ = peel(run, schedule, lambda now: data.summary(now).moments(now), limits, last, keep)
    return SparseProduct(last.factors, last.scale)


def _improved(schedule: Schedule, product: SparseProduct, summary: Summary) -> SparseProduct:
    """Some steps of PALM on the moments of all signals."""
    return descended(summary.moments(product), schedule, product).astype(product.dtype)
