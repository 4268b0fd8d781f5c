"""Orthogonal dictionaries that are products of rotations, learned from data."""

from contextlib import suppress
from functools import partial
from math import isqrt
from typing import NamedTuple

import numpy as np
from scipy.fft import idct

from ..coding import Coder
from ..linalg import frobenius
from ..operators import SparseProduct
from ..results import Callback
from ..rotations.chain import Chain, entries
from ..rotations.greedy import Growth
from ..rotations.orthogonal import POLAR, Turned, approached, swept, without_rotations
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
_FIRST = {1.0: 1.03, 0.75: 1.0}  # shares of the rotations for a start, data decide about the rest; what rest is worth
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
    tol: float = 1e-3,
    positive: bool = False,
    random_state: RandomState = None,
    callback: Callback | None = None,
) -> LearnedDictionary:
    """Learn an orthogonal dictionary that is a product of rotations, and so a fast transform in both directions.

    With at most k entries in each column of Γ,

        min ‖X − UΓ‖²  over Γ and orthogonal U = G₁G₂…G_g P

    is solved for one after the other. Γ holds the k largest coefficients UᴴX of each signal: a dictionary with
    orthonormal atoms needs no pursuit. With M = XΓᴴ, sweeps choose the angles of all rotations anew, one by one,
    so that Re tr UᴴM grows; every other time a layer of rotations is added, until all are used (Rusu and Rosasco
    2019). The error never rises. The start is a product of rotations near the cosine transform, in two dimensions
    if d is a square, or near the eigenvectors of the covariance, whichever codes the signals better.

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
        Stop when no iteration in ten has lowered the error by this share; 0 never stops early.
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
    warn_if_few(len(rows), d)
    session = Session(callback, random_state=random_state)
    return learned(session, rows, learn_orthogonal(session, held(rows), n_nonzero_coefs, options))


class OrthogonalOptions(NamedTuple):
    """The options of `orthogonal_dictionary`."""

    n_rotations: int | None = None
    complexity: float | None = None
    max_iter: int = 100
    tol: float = 1e-3
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

    def room(self, chain: Chain, share: float = 1.0) -> int:
        """How many rotations another layer may have."""
        count, size = len(chain.pairs), chain.size
        if self.n_rotations is not None:
            return int(share * self.n_rotations) - count
        assert self.complexity is not None
        depth = (entries(chain) - 2 * count) // size if count else 0
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
        best = Best(options.tol, state.get("best", {}))
        product = from_state(state["dictionary"]) if "dictionary" in state else _first(session, start, options)

        def now() -> State:
            return {"iteration": i, "dictionary": to_state(product), "best": best.to_state()}

        with blas_threads(size**3):
            for i in range(int(state.get("iteration", 0)), options.max_iter + 1):
                session.offer(now)
                atoms = product.toarray().astype(start.rows.dtype)
                codes = Coder(atoms).code(start.rows.T, start.n_nonzero_coefs, positive=start.positive)
                error = float(np.sqrt(max(energy - frobenius(codes.data) ** 2, 0.0) / energy)) if energy else 0.0
                best.record(error, to_state(product))
                done = (i + 1) / (options.max_iter + 1)
                session.report(PHASE, error, 1.0, [atoms], done, start.share)
                if session.stopped or best.has_settled or i == options.max_iter:
                    break
                cross = moments_of_rows(start.rows, codes)[1].T
                product = _updated(session, product, cross, options if i % 2 == 0 else None)
        found = to_state(product) if best.candidate is None else best.candidate
        return {"dictionary": found, "status": str(best.status(session.stopped))}

    dictionary = Layouts.of(signals, size).dictionary(range(1, _MOST_FACTORS))
    own = loop("iteration", options.max_iter, {"dictionary": dictionary}, dictionary)
    return Phase(PHASE, 1.0, work, layout=either(mapping({}), own))


def _updated(
    session: Session, product: SparseProduct, cross: Array, options: OrthogonalOptions | None = None
) -> SparseProduct:
    """The dictionary after sweeps on M = XΓᴴ, and with another layer of rotations if there is room for it."""
    if not cross.any():
        return product
    cross = np.ascontiguousarray(cross)
    turned = Turned.from_product(product, float(np.vdot(product.toarray(), cross).real))
    with suppress(Interrupted):
        turned = swept(session, cross, turned, _SWEEPS)
    chain = turned.chain
    if options is not None and (room := options.room(chain)) > 0:
        growth = Growth(POLAR, chain.apply(turned.times_inverse(cross), inverse=True))
        growth.add(room)
        more = growth.chain()
        both = [np.concatenate([one, other]) for one, other in zip(chain[1:], more[1:], strict=True)]
        turned = Turned(Chain(chain.size, *both), turned.columns, turned.signs, turned.trace)
    return turned.as_product(cross.dtype)


def _improved(session: Session, dictionary: SparseProduct, statistics: Statistics) -> SparseProduct:
    """The dictionary after sweeps on the moments of all signals."""
    return _updated(session, dictionary, statistics.cross.T).astype(dictionary.dtype)


# -- the start -----------------------------------------------------------------------------------------


def _first(session: Session, signals: Held, options: OrthogonalOptions) -> SparseProduct:
    """A product of rotations near a known basis: the one in which some signals have the lowest error."""
    some = signals.part(signals.rows[:: max(len(signals.rows) // _SOME, 1)])
    found: list[tuple[float, int, SparseProduct]] = []
    for basis in _bases(some.rows):
        with suppress(Interrupted):
            for share, handicap in _FIRST.items():
                turned = approached(session, basis, lambda growth, s=share: options.room(growth.chain(), s))
                product = turned.as_product(basis.dtype)
                found.append((handicap * some.error(product), len(found), product))
    if not found:
        return without_rotations(np.eye(signals.rows.shape[1])).as_product(np.dtype(float))
    return min(found)[2]


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
        self.operator = _updated(Session(), self.operator, self.cross.T).astype(self.operator.dtype)
        return found.error
