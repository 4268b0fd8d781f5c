"""`convolution_chain`: an atom or a signal as a composition of short convolutions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from ..constraints.places import as_supports, require_on_grid
from ..linalg import in_units, wide
from ..operators import SparseProduct
from ..results import Callback, History, Status
from ..runtime.forks import cached_property
from ..runtime.session import Interrupted, Session
from ..runtime.threads import one_blas_thread
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_numbers, as_real, is_series, require_finite
from .operator import ConvolutionChain
from .restarts import Limits, Search
from .spectra import Places, Spectra, cropped, product_of_spectra, spectra_of
from .splitting import of_atom


@dataclass(frozen=True)
class ConvolutionFit:
    """What `convolution_chain` returns: y ≈ scale · h¹ ∗ … ∗ h^K ∗ x.

    Attributes
    ----------
    chain : ConvolutionChain
        The kernels as an operator that applies them one after the other.
    error : float
        The relative error ‖y − ŷ‖ / ‖y‖, computed on the result.
    n_iter : int
        Iterations of the restart that was best, each a sweep over all kernels or a joint step.
    status : Status
        "converged" if the error is rounding, or no restart makes progress; "max_iter", or "stopped".
    history : History
        The lowest relative error of all restarts after each iteration; it never rises.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> fit = pp.convolution_chain([1.0, 3.0, 2.0, 0.0, 0.0], None, [[0, 1], [0, 1]])  # (1 + z)(1 + 2z)
    >>> len(fit.kernels), fit.error < 1e-12, fit.operator.shape
    (2, True, (5, 5))
    """

    chain: ConvolutionChain
    error: float
    n_iter: int
    status: Status
    history: History = field(repr=False, compare=False)

    @property
    def kernels(self) -> tuple[Array, ...]:
        """The values of each kernel at its places, of unit norm; real ones but the first have a positive peak."""
        return self.chain.kernels

    @property
    def supports(self) -> tuple[Array, ...]:
        """The places of each kernel."""
        return self.chain.supports

    @property
    def scale(self) -> float:
        """The positive number in front of the chain."""
        return self.chain.scale

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

    Restarts begin at random kernels, all at once: sweeps of alternating least squares, one kernel after the other,
    and then damped Gauss–Newton steps of all kernels together, which go on where sweeps hardly move. If none of
    them is exact, kernels are split off one by one, each from as many restarts, and then descend together. What
    does not move any more is left behind, and the search ends when one chain is exact up to rounding. The error
    never rises.

    Parameters
    ----------
    signal : (n,) or (rows, columns) array
        y, an atom or a signal; or several signals along one more axis, in front, which share their kernels.
    codes : array of the same shape, or None
        x, the code of each signal. None stands for a single one at the origin: the signal is the atom itself.
    supports : sequence of (n_places,) or (n_places, 2) arrays of int
        The places of each kernel; negative ones count from the end of the grid. `kernel_supports` makes boxes.
    n_restarts : int, default=25
        How many random starts there are.
    init : sequence of (n_places,) arrays, optional
        Kernels to start from, as one more restart.
    max_iter : int, default=300
        The largest number of iterations of a restart.
    tol : float, default=1e-6
        A restart ends when its error falls by less than this share in ten iterations; 0 never ends early.
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
    papilio.convolutional_dictionary : Learns such atoms, and codes, from images.
    papilio.constraints.Circulant : The same law for a factor in `palm`, which is enough for two kernels.

    Notes
    -----
    All sums are taken in the Fourier domain: with S places, the normal equations of a kernel are S correlations of
    the code with all other kernels. An atom is first cut to the grid that its kernels can reach.

    Examples
    --------
    A scaling function of Daubechies, whose kernels are dilated copies of one filter:

    >>> import numpy as np, papilio as pp
    >>> taps = np.array([1 + 3**0.5, 3 + 3**0.5, 3 - 3**0.5, 1 - 3**0.5]) / 8
    >>> supports = pp.kernel_supports(4, [1, 2, 4])
    >>> atom = pp.ConvolutionChain([taps] * 3, supports, 64).atom
    >>> fit = pp.convolution_chain(atom, None, supports)
    >>> bool(np.allclose(fit.chain.atom, atom)), fit.chain.n_coefficients
    (True, 12)
    """
    places = as_supports(supports)
    signals, inputs = _as_data(signal, codes, places[0].shape[1])
    grid = signals.shape[1:]
    require_on_grid(places, grid)
    limits = Limits(
        as_integer("n_restarts", n_restarts, 0 if init is not None else 1),
        as_integer("max_iter", max_iter, 1),
        as_real("tol", tol, 0.0, 1.0),
        1e-13 if signals.dtype.char in "dD" else 1e-7,
    )
    start = None if init is None else _as_start(init, places, signals.dtype)
    session = Session(
        callback, random_state=random_state, time_budget=time_budget, progress=progress, title="convolution_chain"
    )
    (scaled, exponent), is_real = in_units(signals.astype(wide(signals.dtype))), signals.dtype.kind != "c"
    if inputs is None:
        part, moved, rest = cropped(scaled[0], places)
        if not part.any():
            raise ValueError(
                "signal must have an entry other than zero at sums of the places of supports, got none"
            )
        data, shape = of_atom(part), part.shape
        data = Spectra(data.code, data.signal, data.rest + rest, data.energy + rest)
    else:
        codes_scaled, code_exponent = in_units(inputs.astype(scaled.dtype))
        data, shape, moved = spectra_of(scaled, codes_scaled, len(grid)), grid, list(places)
        exponent -= code_exponent
    search = Search(session, data, moved, shape, is_real, limits)
    with session.interruptible(), one_blas_thread:
        try:
            search.run(start)
        except Interrupted:
            search.status = Status.STOPPED
    kernels, scale, error = _in_dtype(search.kernels, search.places, data, signals.dtype)
    chain = ConvolutionChain(kernels, places, grid, float(np.ldexp(scale, exponent)))
    return ConvolutionFit(chain, error, search.n_iter, search.status, session.history)


def _as_data(signal: Any, codes: Any, n_axes: int) -> tuple[Array, Array | None]:
    """Signals and codes as (n, *grid), of one dtype."""
    signals = _as_signals("signal", signal, n_axes)
    if codes is None:
        if signals.ndim > n_axes:
            raise ValueError(
                f"codes must be given for several signals, got None for signal of shape {signals.shape}"
            )
        return signals[None], None
    inputs = _as_signals("codes", codes, n_axes)
    if inputs.shape != signals.shape:
        raise ValueError(f"codes must have shape {signals.shape}, as signal has, got {inputs.shape}")
    dtype = np.result_type(signals, inputs)
    signals, inputs = signals.astype(dtype, copy=False), inputs.astype(dtype, copy=False)
    return (signals, inputs) if signals.ndim > n_axes else (signals[None], inputs[None])


def _as_signals(name: str, value: Any, n_axes: int) -> Array:
    array = as_numbers(name, value)
    if array.ndim not in (n_axes, n_axes + 1):
        raise ValueError(
            f"{name} must have {n_axes} dimensions, as the places of supports have, or one more for several, "
            f"got {array.ndim}"
        )
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    require_finite(name, array)
    if not array.any():
        raise ValueError(f"{name} must not be zero, got zeros only")
    return array


def _as_start(init: Any, places: Sequence[Array], dtype: np.dtype[Any]) -> list[Array]:
    if not is_series(init) or len(init) != len(places):
        raise ValueError(f"init must hold {len(places)} kernels, one per support")
    kernels = [as_numbers(f"init[{k}]", kernel) for k, kernel in enumerate(init)]
    for k, kernel in enumerate(kernels):
        if kernel.shape != (len(places[k]),):
            raise ValueError(
                f"init[{k}] must have {len(places[k])} values, one per place, got shape {kernel.shape}"
            )
        require_finite(f"init[{k}]", kernel)
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
        # The largest value of each real kernel is positive, for readers; the first kernel takes the signs.
        if dtype.kind != "c" and unit[k][np.argmax(np.abs(unit[k]))] < 0:
            unit[0], unit[k] = -unit[0], -unit[k]
    spectra = [
        places.spectrum(kernel[None].astype(wide(dtype))) for places, kernel in zip(waves, unit, strict=True)
    ]
    model = data.code * product_of_spectra(spectra)[0]
    energy = float(np.vdot(model, model).real)
    scale = float(np.vdot(model, data.signal).real) / energy if energy else 0.0
    if scale < 0:  # which no descent leaves: a start that was stopped at once
        unit[0], scale, model = -unit[0], -scale, -model
    difference = data.signal - scale * model
    return unit, scale, sqrt((float(np.vdot(difference, difference).real) + data.rest) / data.energy)
