"""`convolution_chain`: an atom or a signal as a composition of short convolutions.

Many random starts descend together. With many kernels, there are many local minima. An atom that is split into one
kernel and the composition of all others, which may have any values at the sums of their places, has far fewer: for
four planted kernels of 3×3, one random start in five is exact, instead of one in thirty. What remains is an atom
of one kernel less. So kernels are split off one by one where random starts alone do not succeed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import sqrt
from typing import Any

import numpy as np

from ..constraints.places import Grid, as_supports, require_on_grid
from ..linalg import in_units, wide
from ..operators import SparseProduct
from ..results import Callback, Result, Status
from ..runtime.session import Interrupted, Session
from ..runtime.threads import one_blas_thread
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_real
from .operator import ConvolutionChain, as_kernels, as_stack
from .spectra import Places, Restarts, Spectra, composed, correlations, cropped, spectra_of, spectra_of_atom

_FIRST_SWEEPS = 3  # Sweeps of alternating least squares before joint steps.
_FIRST_ITERATIONS = 60  # Iterations of all restarts before most of them are dropped.
_KEPT_RESTARTS = 5
_STALL_WINDOW = 10  # iterations over which progress is judged
_MOST_NUMBERS = 1 << 22  # Largest number of entries in the Jacobians of a batch of restarts.
_MANY_NUMBERS = 1 << 21  # With more entries in the Jacobians, a small atom is fitted first.
_EXACT, _EXACT_SINGLE = 1e-13, 1e-7  # relative errors in double and single precision

_SPLIT_ROUNDS = 3
_SPLIT_SWEEPS, _SPLIT_JOINT_STEPS = 2, 80
_EXACT_SPLIT = 1e-11  # relative error
_SPLIT_RIDGE = 1e-12  # relative to the mean of the diagonal
_MOST_OTHER_PLACES = 300  # Places of the composition of all kernels but the one that is split off.
_MOST_SPLIT_WORK = 3e8  # multiplications of a joint step of all restarts


@dataclass(frozen=True)
class ConvolutionFit(Result):
    """What `convolution_chain` returns: y ≈ scale · h¹ ∗ … ∗ h^K ∗ x.

    Attributes
    ----------
    chain : ConvolutionChain
        An operator that applies the kernels one after the other. ``chain.kernels`` are their values, of unit norm;
        real ones but the first have a positive peak. ``chain.scale`` is positive.
    error : float
        The relative error ‖y − ŷ‖ / ‖y‖, computed on the result.
    n_iter : int
        Iterations of the restart that was best, each a sweep over all kernels or a joint step.
    status : Status
        "converged" if the error is rounding, or no restart makes progress any more; otherwise "max_iter" or
        "stopped".
    history : History
        The lowest relative error of all restarts after each iteration; it never rises.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> atom = [1.0, 3.0, 2.0, 0.0, 0.0]  # (1 + z)(1 + 2z)
    >>> fit = pp.convolution.convolution_chain(atom, None, [[0, 1], [0, 1]])
    >>> len(fit.chain.kernels), fit.error < 1e-12, fit.operator.shape
    (2, True, (5, 5))
    """

    chain: ConvolutionChain
    n_iter: int

    @cached_property
    def operator(self) -> SparseProduct:
        """The chain as a product of circulant factors, built on first use; see `ConvolutionChain.to_product`."""
        return self.chain.to_product()


def convolution_chain(
    signal: ArrayLike,
    codes: ArrayLike | None,
    supports: Sequence[ArrayLike],
    *,
    n_restarts: int = 25,
    init: Sequence[ArrayLike] | None = None,
    max_iter: int = 300,
    tol: float = 1e-6,
    random_state: RandomState = 0,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> ConvolutionFit:
    """Find short kernels whose composition explains a signal, or an atom (Chabiron et al. 2013).

    With known places for the values of each kernel, on a periodic grid of one or two dimensions,

        min ‖y − scale · h¹ ∗ … ∗ h^K ∗ x‖²  over kernels of unit norm.

    Restarts begin at random kernels, all at once: first sweeps of alternating least squares, one kernel after the
    other, then damped Gauss–Newton steps of all kernels together, which still progress where sweeps hardly do. If
    none is exact, kernels are split off one by one, each from as many restarts, and then descend together. Those
    without progress are dropped, and the search ends when one is exact up to rounding. The error never rises.

    Parameters
    ----------
    signal : (n,) or (rows, columns) array
        y, an atom or a signal; or several signals along one more axis, in front, which share their kernels.
    codes : array of the same shape, or None
        x, the code of each signal. None is a unit impulse at the origin: the signal is the atom itself.
    supports : sequence of (n_places,) or (n_places, 2) arrays of int
        The places of each kernel; negative ones count from the end of the grid. `kernel_supports` makes boxes.
    n_restarts : int, default=25
        The number of random starts.
    init : sequence of (n_places,) arrays, optional
        Kernels of one more restart, which comes first.
    max_iter : int, default=300
        The largest number of iterations of a restart.
    tol : float, default=1e-6
        A restart ends when its error falls by less than this share in ten iterations; 0 never stops early.
    random_state : int, RandomState, Generator or None
        The source of the random starts.
    time_budget : float, optional
        Seconds after which the best result so far is returned.
    progress : bool, default=False
        Show the share of work done on the standard error.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result ends the search.

    Returns
    -------
    ConvolutionFit

    See Also
    --------
    papilio.convolution.convolutional_dictionary : Learns such atoms, and codes, from images.
    papilio.constraints.Circulant : The same structure as a constraint of `palm`, which is enough for two kernels.

    Notes
    -----
    All sums are taken in the Fourier domain: with S places, the normal equations of a kernel are S correlations of
    the code with all other kernels. An atom is first cut to the grid that its kernels can reach.

    Examples
    --------
    A scaling function of Daubechies, whose kernels are dilated copies of one filter:

    >>> import numpy as np, papilio as pp
    >>> taps = np.array([1 + 3**0.5, 3 + 3**0.5, 3 - 3**0.5, 1 - 3**0.5]) / 8
    >>> supports = pp.convolution.kernel_supports(4, [1, 2, 4])
    >>> atom = pp.convolution.ConvolutionChain([taps] * 3, supports, 64).atom
    >>> fit = pp.convolution.convolution_chain(atom, None, supports)
    >>> bool(np.allclose(fit.chain.atom, atom)), fit.chain.n_coefficients
    (True, 12)
    """
    places = as_supports(supports)
    signals, inputs = _as_data(signal, codes, places[0].shape[1])
    grid = signals.shape[1:]
    require_on_grid(places, grid)
    n_restarts = as_integer("n_restarts", n_restarts, 0 if init is not None else 1)
    max_iter, tol = as_integer("max_iter", max_iter, 1), as_real("tol", tol, 0.0, 1.0)
    start = None if init is None else _as_start(init, places, signals.dtype)
    session = Session(
        callback, random_state=random_state, time_budget=time_budget, progress=progress, title="convolution_chain"
    )
    (scaled, exponent), is_real = in_units(signals.astype(wide(signals.dtype))), signals.dtype.kind != "c"
    if inputs is None:
        part, moved, rest = cropped(scaled[0], places)
        if not part.any():
            raise ValueError("signal must have a non-zero entry at sums of the places of supports, got none")
        data, shape = spectra_of_atom(part), part.shape
        data = Spectra(data.code, data.signal, data.rest + rest, data.energy + rest)
    else:
        codes_scaled, code_exponent = in_units(inputs.astype(scaled.dtype))
        data, shape, moved = spectra_of(scaled, codes_scaled, len(grid)), grid, list(places)
        exponent -= code_exponent
    exact = _EXACT if signals.dtype.char in "dD" else _EXACT_SINGLE
    search = _Search(session, data, moved, shape, is_real, n_restarts, max_iter, tol, exact)
    with session.interruptible(), one_blas_thread:
        try:
            search.run(start)
        except Interrupted:
            search.status = Status.STOPPED
    kernels, scale, error = _in_dtype(search.kernels, search.places, data, signals.dtype)
    chain = ConvolutionChain(kernels, places, grid, float(np.ldexp(scale, exponent)))
    return ConvolutionFit(chain, search.n_iter, error=error, status=search.status, history=session.history)


def _as_data(signal: Any, codes: Any, n_axes: int) -> tuple[Array, Array | None]:
    """Signals and codes as (n, *grid), of one dtype."""
    signals = _as_nonzero("signal", signal, n_axes)
    if codes is None:
        if len(signals) > 1:
            raise ValueError(f"codes must be given for several signals, got None for {len(signals)} signals")
        return signals, None
    inputs = _as_nonzero("codes", codes, n_axes)
    if inputs.shape != signals.shape:
        raise ValueError(f"codes must have shape {np.shape(signal)}, as signal has, got {np.shape(codes)}")
    dtype = np.result_type(signals, inputs)
    return signals.astype(dtype, copy=False), inputs.astype(dtype, copy=False)


def _as_nonzero(name: str, value: Any, n_axes: int) -> Array:
    array = as_stack(name, value, n_axes)
    if not array.any():
        raise ValueError(f"{name} must not be zero, got zeros only")
    return array


def _as_start(init: Any, places: Sequence[Array], dtype: np.dtype[Any]) -> list[Array]:
    kernels = as_kernels("init", init, places)
    for k, kernel in enumerate(kernels):
        if not kernel.any():
            raise ValueError(f"init[{k}] must not be zero, got zeros only")
        if kernel.dtype.kind == "c" and dtype.kind != "c":
            raise ValueError(f"init[{k}] must be real, as the signal is, got complex values")
    return [in_units(kernel.astype(wide(dtype)))[0] for kernel in kernels]


def _in_dtype(
    kernels: Sequence[Array], waves: Sequence[Places], data: Spectra, dtype: np.dtype[Any]
) -> tuple[list[Array], float, float]:
    """Kernels of unit norm in the signal's dtype, the best scale with them, and the relative error."""
    unit = [(kernel / np.linalg.norm(kernel)).astype(dtype) for kernel in kernels]
    for k in range(1, len(unit)):
        # For readers, the largest value of each real kernel is positive; the first kernel takes the signs.
        if dtype.kind != "c" and unit[k][np.argmax(np.abs(unit[k]))] < 0:
            unit[0], unit[k] = -unit[0], -unit[k]
    spectra = [
        places.spectrum(kernel[None].astype(wide(dtype))) for places, kernel in zip(waves, unit, strict=True)
    ]
    model = data.code * composed(spectra)[0]
    energy = float(np.vdot(model, model).real)
    scale = float(np.vdot(model, data.signal).real) / energy if energy else 0.0
    if scale < 0:
        # No descent leaves a negative scale; a random start that was stopped at once may have one.
        unit[0], scale, model = -unit[0], -scale, -model
    difference = data.signal - scale * model
    return unit, scale, sqrt((float(np.vdot(difference, difference).real) + data.rest) / data.energy)


class _Search:
    """The best kernels of all restarts so far.

    ``supports`` are places on ``grid``; both may be cropped to what the composition can reach.
    """

    def __init__(
        self,
        session: Session,
        data: Spectra,
        supports: Sequence[Array],
        grid: Grid,
        is_real: bool,
        n_restarts: int,
        max_iter: int,
        tol: float,
        exact: float,
        *,
        reports: bool = True,
    ) -> None:
        self._session, self._data, self._reports = session, data, reports
        self._supports, self._grid, self._is_real = list(supports), grid, is_real
        self._n_restarts, self._max_iter, self._tol, self._exact = n_restarts, max_iter, tol, exact
        known = {each.tobytes(): Places(each, grid, is_real) for each in supports}
        self.places = [known[each.tobytes()] for each in supports]  # equal supports share their large arrays
        self._lowest = np.inf
        self.kernels: list[Array] = []
        self.n_iter = 0
        self.status = Status.CONVERGED

    def run(self, start: Sequence[Array] | None) -> None:
        """Run random restarts, then splits, then continue the best restarts; stop as soon as one is exact."""
        if start is not None:
            self._descend_from(start)
            if self._is_exact:
                return
        n_waves, count = sum(len(places.waves) for places in self.places), self._n_restarts
        if n_waves * self._data.signal.size * count > _MANY_NUMBERS and self._run_small():
            return
        unfinished: list[Restarts] = []
        most = max(_MOST_NUMBERS // (n_waves * self._data.signal.size), 1)
        with self._session.part(0.4):
            for begin in range(0, count, most):
                size = min(most, count - begin)
                with self._session.part(size / count):
                    starts = _random_kernels(self._session, size, self.places)
                    restarts = Restarts(self._data, self.places, starts)
                    if self._descend(restarts, min(_FIRST_ITERATIONS, self._max_iter)):
                        unfinished.append(restarts)
                if self._is_exact:
                    return
        with self._session.part(0.3):
            self._split()
        for restarts in unfinished:
            if self._is_exact:
                return
            with self._session.part(0.3 / len(unfinished)):
                restarts.keep(np.argsort(restarts.errors)[:_KEPT_RESTARTS])
                if self._descend(restarts, max(self._max_iter - _FIRST_ITERATIONS, 0), _FIRST_ITERATIONS):
                    self.status = Status.MAX_ITER

    def _run_small(self) -> bool:
        """For large data: run the restarts on the composed atom, which is small, then descend on all data."""
        atom = _composed_atom(self._data, self._supports, self._grid, self._is_real)
        if atom is None:
            return False
        part, moved, _ = cropped(atom, self._supports)
        if part.size >= atom.size or not part.any():
            return False
        limits = self._n_restarts, self._max_iter, self._tol, self._exact
        data = spectra_of_atom(part)
        small = _Search(self._session, data, moved, part.shape, self._is_real, *limits, reports=False)
        try:
            small.run(None)
        finally:
            self.kernels = self.kernels or small.kernels  # the result if the session is stopped
        self._descend_from(small.kernels)
        return True

    def _descend_from(self, start: Sequence[Array]) -> None:
        restarts = Restarts(self._data, self.places, [kernel[None] for kernel in start])
        if self._descend(restarts, self._max_iter):
            self.status = Status.MAX_ITER

    def _split(self) -> None:
        """Split kernels off the composed atom, in several orders; each result then descends."""
        if len(self.places) < 3 or not self._n_restarts or self._max_iter <= _FIRST_SWEEPS:
            return
        atom = _composed_atom(self._data, self._supports, self._grid, self._is_real)
        if atom is None or not atom.any():
            return
        order = np.arange(len(self.places))
        for attempt in range(_SPLIT_ROUNDS):
            supports = [self._supports[k] for k in order]
            split = split_kernels(self._session, atom, supports, self._n_restarts, self._is_real)
            if split is not None and all(kernel.any() for kernel in split):
                start = [split[int(at)][None] for at in np.argsort(order)]
                self._descend(Restarts(self._data, self.places, start), self._max_iter)
            if self._is_exact:
                return
            order = order[::-1] if attempt == 0 else self._session.random.permutation(len(order))

    def _descend(self, restarts: Restarts, n_iter: int, done: int = 0) -> bool:
        """Iterate, and return whether any restart still makes progress."""
        restarts.balance()
        past: list[Array] = []  # errors at the last iterations of the restarts that go on
        for iteration in range(done, done + n_iter):
            restarts.sweep() if iteration < _FIRST_SWEEPS else restarts.joint_step()
            self._record(restarts, iteration + 1, (iteration + 1 - done) / n_iter)
            if self._is_exact:
                return False
            past = [*past[-_STALL_WINDOW:], restarts.errors]
            if len(past) > _STALL_WINDOW and self._tol:
                improves = np.sqrt(past[-1]) < (1 - self._tol) * np.sqrt(past[0])
                if not improves.any():
                    return False
                if not improves.all():
                    restarts.keep(improves)
                    past = [errors[improves] for errors in past]
        return True

    def _record(self, restarts: Restarts, iteration: int, fraction: float) -> None:
        """Keep the best kernels, report, and stop if the session is stopped."""
        errors = np.where(np.isfinite(restarts.errors), restarts.errors, np.inf)
        best = int(np.argmin(errors))
        if errors[best] < self._lowest or not self.kernels:
            self._lowest, self.n_iter = float(errors[best]), iteration
            self.kernels = [kernel[best].copy() for kernel in restarts.kernels]
        if self._reports:
            error = sqrt((self._lowest + self._data.rest) / self._data.energy)
            self._session.report("restarts", error, fraction=fraction)
        self._session.check()

    @property
    def _is_exact(self) -> bool:
        """Whether the error is rounding, apart from what no kernels explain."""
        return self._lowest <= self._exact**2 * self._data.energy


def _random_kernels(session: Session, count: int, places: Sequence[Places]) -> list[Array]:
    """(count, n_places) Gaussian numbers for each kernel."""
    kernels = []
    for each in places:
        drawn = session.random.standard_normal((count, len(each.waves)))
        if not each.is_real:
            drawn = drawn + 1j * session.random.standard_normal((count, len(each.waves)))
        kernels.append(drawn)
    return kernels


# -- splitting kernels off an atom -----------------------------------------------------------------------


def _sums_of(supports: Sequence[Array], grid: Grid) -> Array:
    """All sums of one place of each kernel, on a periodic grid."""
    sides = np.array(grid)
    return reduce(
        lambda left, right: np.unique((left[:, None] + right).reshape(-1, len(grid)) % sides, axis=0), supports
    )


def _composed_atom(data: Spectra, supports: Sequence[Array], grid: Grid, is_real: bool) -> Array | None:
    """Fit free values at all sums of places by least squares; None if there are too many."""
    sums = _sums_of(supports, grid)
    if len(sums) > _MOST_OTHER_PLACES:
        return None
    energies, products = np.abs(data.code) ** 2, data.code.conj() * data.signal
    autocorrelation, correlation = (correlations(each, grid, is_real) for each in (energies, products))
    differences = (sums[:, None] - sums) % np.array(grid)
    gram = autocorrelation[tuple(np.moveaxis(differences, -1, 0))]
    gram[np.diag_indices(len(sums))] += _SPLIT_RIDGE * np.trace(gram).real / len(sums)
    atom = np.zeros(grid, correlation.dtype)
    atom[tuple(sums.T)] = np.linalg.solve(gram, correlation[tuple(sums.T)])
    return atom


def split_kernels(
    session: Session, atom: Array, supports: Sequence[Array], n_restarts: int, is_real: bool
) -> list[Array] | None:
    """Split the kernels of an atom off one by one; None if a split is underdetermined or too expensive."""
    found: list[Array] = []
    remaining = list(supports)
    while len(remaining) > 1:
        part, moved, _ = cropped(atom, remaining)
        others = _sums_of(moved[1:], part.shape)
        n_values = len(others) + len(moved[0])
        restarts = min(n_restarts, int(_MOST_SPLIT_WORK / (n_values**2 * part.size)))
        if len(moved) > 2 and n_values > len(_sums_of(moved, part.shape)):
            return None  # The split is underdetermined.
        if len(others) > _MOST_OTHER_PLACES or restarts < min(n_restarts, 4) or not part.any():
            return None
        places = [Places(others, part.shape, is_real), Places(moved[0], part.shape, is_real)]
        starts = _random_kernels(session, restarts, places)
        rest, kernel = _best_split(session, Restarts(spectra_of_atom(part), places, starts))
        found.append(kernel)
        atom = np.zeros(part.shape, part.dtype)
        atom[tuple(others.T)] = rest
        remaining = moved[1:]
    # All that is left at the places of the last kernel is this kernel.
    sides = np.array(atom.shape)
    return [*found, atom[tuple((remaining[0] % sides).T)]]


def _best_split(session: Session, restarts: Restarts) -> list[Array]:
    restarts.balance()
    goal = _EXACT_SPLIT**2 * restarts.data.energy
    for step in range(_SPLIT_SWEEPS + _SPLIT_JOINT_STEPS):
        session.check()
        restarts.sweep() if step < _SPLIT_SWEEPS else restarts.joint_step()
        if restarts.errors.min() <= goal:
            break
    best = int(np.argmin(restarts.errors))
    return [kernel[best] for kernel in restarts.kernels]
