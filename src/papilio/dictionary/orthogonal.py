"""Orthogonal dictionaries that are products of rotations, learned from data."""

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import idct

from .. import typing as types
from ..coding import Atoms
from ..kernels.givens import POLAR
from ..linalg import frobenius, wide
from ..operators import SparseProduct
from ..results import Callback, Status
from ..rotations.chain import Chain, Turned, depth
from ..rotations.growth import Growth, approached, swept, without_rotations
from ..runtime.checkpoint import stored
from ..runtime.session import Interrupted, Session, Stage
from ..runtime.threads import blas_threads
from ..samples import Samples
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_real
from .estimator import StreamEstimator
from .ksvd import as_coder
from .learner import Best, Found, LearnedDictionary, Outcome, PassesOverAll, Plan, as_rows, as_sparsity, learn_rows
from .online import FadingMoments, as_window
from .signals import Coder, Coding, Held, Signals, Statistics, code_part, moments_of_rows

_COMPLEXITY = 0.5  # Default of ``complexity``.
_FIRST = 0.75  # Share of the rotations, or entries, that start near a known basis; data decide about the others.
_NEAR = 1.03  # times the error of that basis; if the start has more, all rotations are for it
_SWEEPS = 3  # Sweeps in each iteration.
_SOME = 5_000  # Signals that suffice to compare two starts.

stored(Turned)
stored(Chain)


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
    orthonormal atoms needs no pursuit. With M = XΓᴴ, sweeps choose the angles of all rotations again, one by one,
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
    >>> learned = pp.dictionary.orthogonal_dictionary(X, 5, complexity=0.4)
    >>> learned.dictionary.shape, learned.dictionary.relative_complexity <= 0.4
    ((32, 32), True)
    """
    rows = as_rows(signals)
    d = rows.shape[1]
    coder = as_coder(n_nonzero_coefs, d, d, positive=positive)
    plan = _plan(OrthogonalOptions(n_rotations, complexity, max_iter, tol).checked(d))
    return learn_rows(rows, d, coder, plan, random_state, callback)


class OrthogonalOptions(NamedTuple):
    """The options of `orthogonal_dictionary`."""

    n_rotations: int | None = None
    complexity: float | None = None
    max_iter: int = 100
    tol: float = 5e-4

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
        return OrthogonalOptions(rotations, complexity, *limits)

    def room(self, size: int, count: int, depth: int, share: float = 1.0) -> int:
        """How many rotations another layer may have, after so many in so many layers."""
        if self.n_rotations is not None:
            return int(share * self.n_rotations) - count
        assert self.complexity is not None
        return (int(share * self.complexity * size**2 + 1e-9) - size * (depth + 1)) // 2 - count


def _plan(options: OrthogonalOptions) -> Plan:
    """The stages of `orthogonal_dictionary`."""

    def plan(session: Session, signals: Signals, n_components: int) -> list[Stage]:
        return [Rotations(session, signals, options), PassesOverAll(session, signals, partial(_improved, session))]

    return plan


@stored
@dataclass
class RotationsState:
    """Rotations after some iterations, and the lowest error."""

    turned: Turned
    iteration: int = 0
    best: Best = field(default_factory=Best)
    has_settled: bool = False
    is_done: bool = False


class Rotations(Stage):
    """The iterations on the signals in memory."""

    name = "rotations"

    def __init__(self, session: Session, signals: Signals, options: OrthogonalOptions) -> None:
        self._session, self._signals, self._options = session, signals.start, options
        self._energy = frobenius(self._signals.rows) ** 2

    def init(self, before: Any) -> RotationsState:
        return RotationsState(_first(self._session, self._signals, self._options))

    def step(self, state: RotationsState) -> RotationsState:
        session, signals, options, energy = self._session, self._signals, self._options, self._energy
        i, turned, best, rows = state.iteration, state.turned, state.best, signals.rows
        with blas_threads(rows.shape[1] ** 3):
            atoms = turned.toarray().astype(rows.dtype)
            codes = signals.coder.codes(Atoms(atoms), rows)
            error = float(np.sqrt(max(energy - frobenius(codes.data) ** 2, 0.0) / energy)) if energy else 0.0
            is_slow = options.tol > 0 and error > (1 - options.tol) * best.error
            best.record(error, None, options.tol)
            session.report(self.name, error, 1.0, [atoms], (i + 1) / (options.max_iter + 1), signals.share)
            state.is_done = session.stopped or i == options.max_iter
            if state.is_done:
                return state
            cross = np.ascontiguousarray(moments_of_rows(rows, codes)[1].T)
            longer = _extended(turned, cross, options)
            state.has_settled = state.is_done = error == 0.0 or (is_slow and longer is turned)
            if not state.is_done:
                state.turned, state.iteration = _updated(session, longer, cross), i + 1
        return state

    def done(self, state: RotationsState) -> bool:
        return state.is_done

    def result(self, state: RotationsState) -> Found:
        status = Status.CONVERGED if state.has_settled else Status.MAX_ITER
        product = state.turned.as_product(state.turned.chain.blocks.dtype)
        return Found(product, Status.STOPPED if self._session.stopped else status)


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


@dataclass
class OrthogonalState(FadingMoments):
    """An orthogonal dictionary that learns from one mini-batch after the other, on `FadingMoments`."""

    dictionary: SparseProduct
    coder: Coder

    def learn(self, rows: Array) -> float:
        """Learn from a batch, one signal per row; returns its relative error before that."""
        self.follow(rows)
        found = code_part(iter([(0, rows)]), Coding(self.dictionary, self.coder, 0, self.unit))
        self.fade_and_add(found.gram, found.cross, found.uses, found.energy)
        turned, cross = Turned.from_product(self.dictionary), np.ascontiguousarray(self.cross.T)
        self.dictionary = _updated(Session(), turned, cross).as_product(self.dictionary.dtype)
        return found.error


@dataclass(eq=False, repr=False)
class OrthogonalDictionaryLearning(StreamEstimator):
    """An orthogonal dictionary that is a product of rotations: `papilio.dictionary.orthogonal_dictionary`.

    Its atoms are orthonormal. So `transform` keeps the largest of the coefficients ``X @ components_.T``, and
    needs no pursuit. As a product of sparse factors it is a fast transform in both directions.

    Parameters
    ----------
    {n_nonzero_coefs}
    n_rotations : int, optional
        The largest number of rotations.
    complexity : float, optional
        The largest relative complexity: entries of all factors over those of the dense dictionary. By default 0.5,
        or the least possible if that is more, if ``n_rotations`` is not given.
    max_iter : int
        The largest number of iterations.
    tol : float
        Stop when an iteration with all rotations lowers the error by less than this share; 0 never stops early.
    {window}
    {positive}
    {coding}
    {running}

    Attributes
    ----------
    components_ : (n_features, n_features) array
        The atoms, one per row.
    operator_ : SparseProduct
        The dictionary as a fast transform: ``operator_.T @ x`` are all coefficients of x.
    {learning}

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> X = pp.datasets.rand(random_state=0).signals.T
    >>> model = pp.OrthogonalDictionaryLearning(n_nonzero_coefs=5, complexity=0.4, random_state=0).fit(X)
    >>> bool(np.allclose(model.components_ @ model.components_.T, np.eye(32)))
    True
    """

    n_components: None = field(init=False, default=None)  # a basis has as many atoms as features
    n_nonzero_coefs: int | None = None
    _: KW_ONLY
    n_rotations: int | None = None
    complexity: float | None = None
    max_iter: int = 100
    tol: float = 5e-4
    window: int | None = None
    positive: bool = False
    transform_algorithm: str = "omp"
    transform_alpha: float | None = None
    transform_sparse: bool = False
    random_state: RandomState = None
    callback: Callback | None = None
    checkpoint: types.Path | None = None

    def _plan(self, samples: Samples, n_components: int, n_nonzero_coefs: int) -> Plan:
        as_window(self.window)
        limits = self.n_rotations, self.complexity, self.max_iter, self.tol
        return _plan(OrthogonalOptions(*limits).checked(n_components))

    def _sizes(self, n_features: int) -> tuple[int, int]:
        return n_features, as_sparsity(self.n_nonzero_coefs, n_features, n_features)

    def _state_after(self, outcome: Outcome) -> OrthogonalState:
        coder = self._coder(self._sizes(outcome.dictionary.shape[0])[1])
        return OrthogonalState(self.operator_, coder, window=as_window(self.window))
