"""Orthogonal dictionaries that are products of rotations, learned from data."""

from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import isqrt
from typing import NamedTuple

import numpy as np
from scipy.fft import idct

from ..coding import Coder
from ..kernels.rotations import POLAR
from ..linalg import frobenius, wide
from ..operators import SparseProduct
from ..results import Callback, Status
from ..rotations.chain import Chain, depth
from ..rotations.greedy import Growth
from ..rotations.orthogonal import Turned, approached, swept, without_rotations
from ..runtime.layout import either, mapping
from ..runtime.session import Interrupted, Phase, Session, State
from ..runtime.threads import blas_threads
from ..samples import Samples, held
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_flag, as_integer, as_real
from .full_passes import Outcome, improve_on_all, learned, run_phases
from .learner import Best, LearnedDictionary, as_rows, as_sparsity, from_state, to_state, warn_if_few
from .online import FadingMoments
from .signals import Held, Signals, open_signals
from .states import Layouts, loop
from .statistics import Coding, Statistics, code_part
from .sums import moments_of_rows

PHASE = "rotations"
_COMPLEXITY = 0.5  # by default
_FIRST = 0.75  # of the rotations, or entries, for a start near a known basis; data decide about the others
_NEAR = 1.03  # times the error of that basis; if the start has more, all rotations are for it
_SWEEPS = 3  # in each iteration
_SOME = 5_000  # signals that are enough to tell which start is better
_MOST_FACTORS = 1 << 16


def orthogonal_dictionary(
    signals: ArrayLike,
    n_nonzero_coefs: int | None = None,
    *,
    n_rotations: int | None = None,
    complexity: float | None = None,
    max_iter: int = 100,
    tol: float = 5e-4,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn an orthogonal dictionary that is a product of rotations, and so a fast transform in both directions.

    With at most k entries in each column of Γ,

        min ‖X − UΓ‖²  over Γ and orthogonal U = G₁G₂…G_g P

    is solved for one after the other. Γ holds the k largest coefficients UᴴX of each signal: a dictionary with
    orthonormal atoms needs no pursuit. With M = XΓᴴ, sweeps choose the angles of all rotations anew, one by one,
    so that Re tr UᴴM grows; each time a layer of rotations is added, until all are used (Rusu and Rosasco 2019).
    The error never rises. The start is a product of rotations near the cosine transform, in two dimensions if d is
    a square, or near the eigenvectors of the covariance, whichever codes the signals better.

    Above 50,000 signals, or 200 per atom up to 100,000, the iterations see a random sample of this size; passes
    over all signals then improve the dictionary.

    Parameters
    ----------
    signals : (d, n) array
        X, one signal per column.
    n_nonzero_coefs : int, optional
        k, atoms per signal; a tenth of d by default, at least one.
    n_rotations : int, optional
        The largest number of rotations.
    complexity : float, optional
        The largest relative complexity: entries of all factors over d². By default 0.5, or the least possible if
        that is more, if ``n_rotations`` is not given.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when an iteration with all rotations lowers the error by less than this share; 0 never stops early.
    positive : bool
        Whether codes must not be negative, as in `omp`; the atoms may have any sign.
    random_state : int, RandomState, Generator or None
        The source of the random numbers, which draw the sample; None is NumPy's global state.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.

    Returns
    -------
    LearnedDictionary
        The dictionary is a `SparseProduct` with one factor per layer of rotations.

    Examples
    --------
    >>> import papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals
    >>> learned = pp.orthogonal_dictionary(X, 5, complexity=0.4)
    >>> learned.dictionary.shape, learned.dictionary.relative_complexity <= 0.4
    ((32, 32), True)
    """
    rows = as_rows(signals)
    d = rows.shape[1]
    n_nonzero_coefs = as_sparsity(n_nonzero_coefs, d, d)
    options = OrthogonalOptions(n_rotations, complexity, max_iter, tol, positive).checked(d)
    warn_if_few(rows.shape, d)
    session = Session(callback, random_state=random_state)
    return learned(session, rows, learn_orthogonal(session, held(rows), n_nonzero_coefs, options))


class OrthogonalOptions(NamedTuple):
    """The options of `orthogonal_dictionary`."""

    n_rotations: int | None = None
    complexity: float | None = None
    max_iter: int = 100
    tol: float = 5e-4
    positive: bool = False

    def checked(self, size: int) -> "OrthogonalOptions":
        """The same after checks, for a dictionary of this size; one of the two limits is given."""
        rotations, complexity = self.n_rotations, self.complexity
        if rotations is not None and complexity is not None:
            raise ValueError("n_rotations and complexity cannot be combined: give one of them")
        if rotations is not None:
            rotations = as_integer("n_rotations", rotations, 0)
        elif complexity is None:
            complexity = max(_COMPLEXITY, 1 / size)
        elif as_real("complexity", complexity, 0.0, 1.0) * size < 1 - 1e-9:
            raise ValueError(
                f"complexity must be at least {1 / size:.3g}, one entry per row of a {size}×{size} matrix, "
                f"got {complexity:g}"
            )
        limits = as_integer("max_iter", self.max_iter, 1), as_real("tol", self.tol, 0.0)
        return OrthogonalOptions(rotations, complexity, *limits, as_flag("positive", self.positive))

    def room(self, size: int, count: int, depth: int, share: float = 1.0) -> int:
        """How many rotations another layer may have, after so many in so many layers."""
        if self.n_rotations is not None:
            return int(share * self.n_rotations) - count
        assert self.complexity is not None
        return (int(share * self.complexity * size**2 + 1e-9) - size * (depth + 1)) // 2 - count


def learn_orthogonal(
    session: Session, samples: Samples, n_nonzero_coefs: int, options: OrthogonalOptions
) -> Outcome:
    """`orthogonal_dictionary` from samples of any size."""
    size = samples.shape[1]
    signals = open_signals(samples, n_nonzero_coefs, size, session, options.positive)
    layouts, counts = Layouts.of(signals, size), range(1, _MOST_FACTORS)
    end = improve_on_all(session, signals, partial(_improved, session), signals.n_passes, layouts, counts)
    return run_phases(session, signals, [_phase(session, signals, options), *end])


def _phase(session: Session, signals: Signals, options: OrthogonalOptions) -> Phase:
    """The iterations on the signals in memory."""
    start, size = signals.start, signals.start.rows.shape[1]
    energy = frobenius(start.rows) ** 2

    def work(state: State) -> State:
        best, status = Best(options.tol, state.get("best", {})), Status.MAX_ITER
        if "dictionary" in state:
            turned = Turned.from_product(from_state(state["dictionary"]))
        else:
            turned = _first(session, start, options)

        def now() -> State:
            return {"iteration": i, "dictionary": to_state(as_product(turned)), "best": best.to_state()}

        with blas_threads(size**3):
            for i in range(int(state.get("iteration", 0)), options.max_iter + 1):
                session.offer(now)
                atoms = turned.toarray().astype(start.rows.dtype)
                codes = Coder(atoms).code(start.rows.T, start.n_nonzero_coefs, positive=start.positive)
                error = float(np.sqrt(max(energy - frobenius(codes.data) ** 2, 0.0) / energy)) if energy else 0.0
                is_slow = options.tol > 0 and error > (1 - options.tol) * best.error
                best.record(error, None)
                done = (i + 1) / (options.max_iter + 1)
                session.report(PHASE, error, 1.0, [atoms], done, start.share)
                if session.stopped or i == options.max_iter:
                    break
                cross = np.ascontiguousarray(moments_of_rows(start.rows, codes)[1].T)
                longer = _extended(turned, cross, options)
                if error == 0.0 or (is_slow and longer is turned):
                    status = Status.CONVERGED
                    break
                turned = _updated(session, longer, cross)
        status = Status.STOPPED if session.stopped else status
        return {"dictionary": to_state(as_product(turned)), "status": str(status)}

    def as_product(turned: Turned) -> SparseProduct:
        return turned.as_product(turned.chain.blocks.dtype)

    dictionary = Layouts.of(signals, size).dictionary(range(1, _MOST_FACTORS))
    own = loop("iteration", options.max_iter, {"dictionary": dictionary}, None)
    return Phase(PHASE, 1.0, work, layout=either(mapping({}), own))


def _updated(session: Session, turned: Turned, cross: Array) -> Turned:
    """The rotations after sweeps on M = XΓᴴ."""
    if not cross.any():
        return turned
    turned = replace(turned, trace=float(np.vdot(turned.toarray(), cross).real))
    with suppress(Interrupted):
        return swept(session, cross, turned, _SWEEPS)
    return turned


def _extended(turned: Turned, cross: Array, options: OrthogonalOptions) -> Turned:
    """The rotations with another layer, if there is room for it."""
    chain = turned.chain
    room = options.room(chain.size, len(chain.pairs), depth(chain))
    if room <= 0 or not cross.any():
        return turned
    growth = Growth(POLAR, chain.apply(turned.times_inverse(cross), inverse=True))
    if not growth.add(room):
        return turned
    more = growth.chain()
    both = [np.concatenate([one, other]) for one, other in zip(chain[1:], more[1:], strict=True)]
    return replace(turned, chain=Chain(chain.size, *both))


def _improved(session: Session, dictionary: SparseProduct, statistics: Statistics) -> SparseProduct:
    """The dictionary after sweeps on the moments of all signals."""
    turned = Turned.from_product(dictionary)
    return _updated(session, turned, np.ascontiguousarray(statistics.cross.T)).as_product(dictionary.dtype)


# -- the start -----------------------------------------------------------------------------------------


def _first(session: Session, signals: Held, options: OrthogonalOptions) -> Turned:
    """Rotations near a known basis: those by which some signals have the lowest error."""
    some, size = signals.part(signals.rows[:: max(len(signals.rows) // _SOME, 1)]), signals.rows.shape[1]
    lowest, best = np.inf, without_rotations(np.eye(size, dtype=wide(signals.rows.dtype)))
    with suppress(Interrupted):
        bases = _bases(some.rows)
        for own_error, place in sorted((some.error(basis), k) for k, basis in enumerate(bases)):
            if lowest <= own_error:  # rotations near this basis will not do better
                break
            for share in (_FIRST, 1.0):

                def room(growth: Growth, share: float = share) -> int:
                    return options.room(size, growth.count, growth.depth, share)

                turned = approached(session, bases[place], room, _SWEEPS)
                error = some.error(turned.toarray())
                if error < lowest:
                    lowest, best = error, turned
                if error <= _NEAR * own_error:
                    break
    return best


def _bases(rows: Array) -> list[Array]:
    """The cosine transform, and the eigenvectors of the covariance, as columns."""
    d = rows.shape[1]
    side = isqrt(d)
    cosines = idct(np.eye(side if side**2 == d else d), norm="ortho", axis=0)
    vectors = np.linalg.eigh((rows.T @ rows.conj()).astype(np.result_type(rows.dtype, np.float64)))[1]
    basis = np.kron(cosines, cosines) if side**2 == d else cosines
    return [np.ascontiguousarray(basis, vectors.dtype), np.ascontiguousarray(vectors[:, ::-1])]


# -- streams -------------------------------------------------------------------------------------------


class OrthogonalState(FadingMoments):
    """An orthogonal dictionary that learns from one mini-batch after the other, on `FadingMoments`."""

    def __init__(
        self,
        operator: SparseProduct,
        n_nonzero_coefs: int,
        options: OrthogonalOptions,
        memory: int | None = None,
    ) -> None:
        super().__init__(operator.shape[1], memory=memory)
        self.operator, self._n_nonzero_coefs, self._options = operator, n_nonzero_coefs, options

    def learn(self, rows: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(rows)
        coding = Coding(self.operator, self._n_nonzero_coefs, 0, self.unit, self._options.positive)
        found = code_part(iter([(0, rows)]), coding)
        self.fade_and_add(found.gram, found.cross, found.uses, found.energy)
        turned, cross = Turned.from_product(self.operator), np.ascontiguousarray(self.cross.T)
        self.operator = _updated(Session(), turned, cross).as_product(self.operator.dtype)
        return found.error
