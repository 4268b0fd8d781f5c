"""The loop of K-SVD and its variants: code some signals, record the error, update the atoms."""

from collections.abc import Callable
from typing import NamedTuple

import scipy.sparse as sp

from ..coding import Coder
from ..linalg import frobenius
from ..operators import SparseProduct
from ..runtime.layout import Check, either, mapping
from ..runtime.session import Phase, Session, State
from ..runtime.threads import blas_threads
from ..typing import Array
from ..validation import as_integer, as_real
from .atoms import early_signals
from .learner import Best, to_state
from .signals import Held
from .states import loop
from .sums import relative, residuals_of

Model = dict[str, Array]  # what is learned: the ``atoms``, one per row, and any other arrays


class AlternationLimits(NamedTuple):
    """When the loop ends (see `ksvd`)."""

    max_iter: int = 100
    tol: float = 1e-4

    def checked(self) -> "AlternationLimits":
        return AlternationLimits(as_integer("max_iter", self.max_iter, 0), as_real("tol", self.tol, 0.0))


def alternation_phase(
    session: Session,
    name: str,
    signals: Held,
    limits: AlternationLimits,
    begin: Callable[[], Model],
    update: Callable[[Model, Array, sp.csc_array, Array], None],
    finish: Callable[[Model], Array | SparseProduct],
    layout: dict[str, Check],
) -> Phase:
    """Iterations on signals in memory, few at first, for the best dictionary.

    ``begin`` returns the first model. ``update`` changes the arrays of a model in place, given signals (one per
    row), their codes and their residuals. ``finish`` returns the dictionary (d, a) of the best model. ``layout``
    says what the arrays of a model are.
    """
    rows, n_nonzero_coefs, max_iter = signals.rows, signals.n_nonzero_coefs, limits.max_iter

    def work(state: State) -> State:
        model = dict(state["model"]) if "model" in state else begin()
        atoms, best = model["atoms"], Best(limits.tol, state.get("best", {}))

        def now() -> State:
            return {"iteration": i, "model": model, "best": best.to_state()}

        with blas_threads(atoms.shape[0] * atoms.size):
            for i in range(int(state.get("iteration", 0)), max_iter + 1):
                session.offer(now)
                some, n_atoms = early_signals(rows, len(atoms), n_nonzero_coefs, i, max_iter, session.random)
                codes = Coder(atoms.T).code(some.T, n_atoms, positive=signals.positive)
                residuals = residuals_of(some, atoms, codes)
                error = relative(residuals, frobenius(some))
                share = signals.part(some).share
                session.report(name, error, 1.0, [atoms.T.copy()], (i + 1) / (max_iter + 1), share)
                if some is rows and n_atoms == n_nonzero_coefs:
                    best.record(error, {key: array.copy() for key, array in model.items()})
                if session.stopped or best.has_settled or i == max_iter:
                    break
                update(model, some, codes, residuals)
        # There is no best model if the run stopped before all signals were coded.
        dictionary = finish(model if best.candidate is None else best.candidate)
        return {"dictionary": to_state(dictionary), "status": str(best.status(session.stopped))}

    kept = mapping(layout)
    return Phase(name, 1.0, work, layout=either(mapping({}), loop("iteration", max_iter, {"model": kept}, kept)))
