"""`convolutional_dictionary`: atoms that may stand anywhere in an image, as compositions of short convolutions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Literal

import numpy as np
import scipy.fft

from ..constraints.places import Grid, as_supports, require_on_grid
from ..kernels.stencils import pursue_shifts
from ..linalg import in_units
from ..results import Callback, Result, Status
from ..runtime.session import Interrupted, Session
from ..runtime.threads import get_num_threads, one_blas_thread
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_numbers, as_real, require_finite
from .composition import convolution_chain
from .operator import ConvolutionChain, as_stack
from .spectra import Places, Restarts, combined, composed, multiplicities, spectrum

_SWEEPS = 3  # Sweeps of alternating least squares per atom and iteration.
_KEPT_SHARES = 0.5, 0.7, 0.9  # Shares of the coefficients that stay, in turns; the others are chosen again.
_STALL_WINDOW = 2 * len(_KEPT_SHARES)  # iterations over which progress is judged
_START_RESTARTS, _START_ITERATIONS = 4, 40  # Limits of the composition that is fitted to a patch.
_TRIED_PATCHES = 20  # An atom starts from the patch of largest energy.
_START_NOISE = 1e-3  # relative to the largest value of the patch

_LEAST_CORRELATION = 1e-12  # relative to the largest one: smaller ones are rounding
_MOST_OPERATIONS = 3e8  # Operations of a pursuit between two checks whether to stop.
_LEAST_SQUARES_STEPS = 10  # Steps of conjugate gradients.
_LEAST_GRADIENT = 1e-20  # Energy of the gradient relative to that of the image.


@dataclass(frozen=True)
class ConvolutionalDictionary(Result):
    """What `convolutional_dictionary` returns: y_l ≈ Σ_m x_lm ∗ d_m, each d_m a composition of convolutions.

    Attributes
    ----------
    chains : tuple of ConvolutionChain
        The atoms, of unit norm, as operators.
    codes : (n_images, n_atoms, *grid) ndarray
        x, with few non-zero entries.
    error : float
        The relative error of all images together.
    status : Status
        "converged", "max_iter" or "stopped".
    history : History
        The relative error after each iteration; it never rises.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> image = np.random.default_rng(0).standard_normal((16, 16))
    >>> supports = pp.convolution.kernel_supports((2, 2), [1, 1])
    >>> learned = pp.convolution.convolutional_dictionary(image, 2, supports, 20, max_iter=3)
    >>> learned.codes.shape, bool(np.count_nonzero(learned.codes) <= 20)
    ((1, 2, 16, 16), True)
    """

    chains: tuple[ConvolutionChain, ...]
    codes: Array = field(repr=False, compare=False)

    @property
    def atoms(self) -> Array:
        """(n_atoms, *grid): each atom on the grid, at the origin."""
        return np.stack([chain.atom for chain in self.chains])

    def reconstruct(self, codes: ArrayLike | None = None) -> Array:
        """The images with given codes.

        Parameters
        ----------
        codes : (n_images, n_atoms, *grid) array, optional
            By default those of the training images.

        Returns
        -------
        (n_images, *grid) ndarray
        """
        values = self.codes if codes is None else _as_codes(codes, None, self.codes.shape[1:])
        return np.sum([chain.apply(values[:, m]) for m, chain in enumerate(self.chains)], axis=0)

    def encode(self, images: ArrayLike, n_nonzero_coefs: int) -> Array:
        """Codes of images on the same grid: matching pursuit with all shifts, then least squares on their support.

        Parameters
        ----------
        images : (*grid) or (n_images, *grid) array
            The images.
        n_nonzero_coefs : int
            The number of coefficients per image.

        Returns
        -------
        (n_images, n_atoms, *grid) ndarray
        """
        grid = self.chains[0].grid
        pixels = _as_images(images, len(grid))
        if pixels.shape[1:] != grid:
            raise ValueError(f"images must have shape {grid}, or one more dimension in front, got {pixels.shape}")
        count = as_integer("n_nonzero_coefs", n_nonzero_coefs, 1, self.codes[0].size)
        units, exponent = in_units(pixels.astype(np.float64))
        atoms = Atoms(self.atoms.astype(np.float64), self.chains[0].supports)
        return np.ldexp(shift_codes(Session(), units, atoms, count), exponent).astype(pixels.dtype)


def convolutional_dictionary(
    images: ArrayLike,
    n_atoms: int,
    supports: Sequence[ArrayLike],
    n_nonzero_coefs: int,
    *,
    codes: ArrayLike | None = None,
    max_iter: int = 30,
    tol: float = 1e-3,
    random_state: RandomState = 0,
    time_budget: float | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> ConvolutionalDictionary:
    """Learn atoms that may stand anywhere in images, each a composition of short convolutions.

    With at most ``n_nonzero_coefs`` entries in the codes x_l of each image,

        min Σ_l ‖y_l − Σ_m x_lm ∗ d_m‖²,   d_m = scale_m · h_m¹ ∗ … ∗ h_m^K,   ‖d_m‖ = 1,

    on a periodic grid. An iteration first codes the images: between half and nine tenths of the coefficients, the
    largest ones, stay; matching pursuit with all shifts of all atoms chooses the others, and least squares fits
    all values. The previous codes are kept if they are better. Then the kernels of one atom after the other are
    updated by a few sweeps of alternating least squares. So the error never rises.

    Parameters
    ----------
    images : (*grid) or (n_images, *grid) array
        y, real images, or signals if the places of ``supports`` have one dimension. Subtract their mean, or all
        low frequencies, first: short atoms cannot explain these with few coefficients.
    n_atoms : int
        The number of atoms.
    supports : sequence of (n_places,) or (n_places, 2) arrays of int
        The places of the kernels, the same for each atom; see `kernel_supports`.
    n_nonzero_coefs : int
        The number of coefficients per image. Not used with ``codes``.
    codes : (n_images, n_atoms, *grid) array, optional
        Known codes, which are kept up to the scale of each atom: only the kernels are learned.
    max_iter : int, default=30
        The largest number of iterations.
    tol : float, default=1e-3
        Stop when the error falls by less than this share in six iterations; 0 never stops early.
    random_state : int, RandomState, Generator or None
        The source of the patches of the images with which atoms start.
    time_budget : float, optional
        Seconds after which the best result so far is returned.
    progress : bool, default=False
        Show the share of work done on the standard error.
    callback : callable, optional
        Called with a `papilio.results.Step` after each iteration; a true result stops learning.

    Returns
    -------
    ConvolutionalDictionary

    Notes
    -----
    Codes and their spectra are stored densely: about 24 bytes for each pixel of each image and atom.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> image = np.random.default_rng(0).standard_normal((16, 16))
    >>> supports = pp.convolution.kernel_supports((2, 2), [1, 1])
    >>> learned = pp.convolution.convolutional_dictionary(image, 2, supports, 20, max_iter=3)
    >>> learned.reconstruct().shape, len(learned.chains[0].kernels)
    ((1, 16, 16), 2)
    """
    places = as_supports(supports)
    pixels = _as_images(images, places[0].shape[1])
    if not pixels.any():
        raise ValueError("images must not be zero, got zeros only")
    grid: Grid = pixels.shape[1:]
    require_on_grid(places, grid)
    n_atoms = as_integer("n_atoms", n_atoms, 1)
    shape = (n_atoms, *grid)
    count = as_integer("n_nonzero_coefs", n_nonzero_coefs, 1, int(np.prod(shape)))
    known = None if codes is None else _as_codes(codes, len(pixels), shape).astype(np.float64)
    if known is not None and not known.any():
        raise ValueError("codes must not be zero, got zeros only")
    max_iter, tol = as_integer("max_iter", max_iter, 1), as_real("tol", tol, 0.0, 1.0)
    session = Session(
        callback,
        random_state=random_state,
        time_budget=time_budget,
        progress=progress,
        title="convolutional_dictionary",
    )
    units, exponent = in_units(pixels.astype(np.float64))
    with session.interruptible(), one_blas_thread:
        learning = _Learning(session, units, places, n_atoms, count, known)
        status = learning.run(max_iter, tol)
    chains = tuple(chain.astype(pixels.dtype) for chain in learning.chains())
    found = np.ldexp(learning.codes, exponent).astype(pixels.dtype)
    return ConvolutionalDictionary(chains, found, error=learning.error, status=status, history=session.history)


def _as_images(images: Any, n_axes: int) -> Array:
    pixels = as_stack("images", images, n_axes)
    if pixels.dtype.kind == "c":
        raise TypeError("images must be real, got complex numbers")
    return pixels


def _as_codes(codes: Any, n_images: int | None, shape: tuple[int, ...]) -> Array:
    values = as_numbers("codes", codes)
    expected = f"({'n' if n_images is None else n_images}, {', '.join(map(str, shape))})"
    if values.shape[1:] != shape or (n_images is not None and len(values) != n_images):
        raise ValueError(f"codes must have shape {expected}, got {values.shape}")
    if values.dtype.kind == "c":
        raise TypeError("codes must be real, got complex numbers")
    require_finite("codes", values)
    return values


class _Learning:
    """Atoms and codes so far, and their spectra as in `papilio.convolution.spectra`."""

    def __init__(
        self,
        session: Session,
        images: Array,
        places: Sequence[Array],
        n_atoms: int,
        count: int,
        known: Array | None,
    ) -> None:
        self._session, self._images, self._supports, self._count = session, images, places, count
        self._grid: Grid = images.shape[1:]
        self._half = *self._grid[:-1], self._grid[-1] // 2 + 1  # the frequencies of real arrays
        self._places = [Places(each, self._grid, True) for each in places]
        self._weights = np.broadcast_to(multiplicities(self._grid), self._half).ravel()
        self._target = spectrum(images, len(self._grid))
        self._energy = float((np.abs(self._target) ** 2).sum())
        self._kernels = [self._start(images) for _ in range(n_atoms)]  # (1, places) for each kernel of each atom
        self._atoms = np.stack([self._normalised(m)[0] for m in range(n_atoms)])
        self._is_known = known is not None
        self.codes = np.zeros((len(images), n_atoms, *self._grid)) if known is None else in_units(known)[0]
        self._n_codings = 0
        self._measure()

    def _measure(self) -> None:
        """Compute the spectra of the codes, (images, atoms, frequencies), and the residual."""
        self._spectra = spectrum(self.codes, len(self._grid)).reshape(*self.codes.shape[:2], -1)
        self._residual = self._target - (self._spectra * self._atoms).sum(axis=1)

    def run(self, max_iter: int, tol: float) -> Status:
        """Iterate until the error settles."""
        errors: list[float] = []
        try:
            for iteration in range(max_iter):
                self._session.check()
                self._iterate()
                errors.append(self.error)
                self._session.report("atoms", errors[-1], fraction=(iteration + 1) / max_iter)
                past = errors[-1 - _STALL_WINDOW :]
                is_settled = tol and len(past) > _STALL_WINDOW and past[-1] > (1 - tol) * past[0]
                if past[-1] == 0 or is_settled:
                    return Status.CONVERGED
            self._session.check()
        except Interrupted:
            return Status.STOPPED
        return Status.MAX_ITER

    @property
    def error(self) -> float:
        return sqrt(float((np.abs(self._residual) ** 2).sum()) / self._energy)

    def _iterate(self) -> None:
        """Update the codes, unless they are known, and then the kernels."""
        if not self._is_known:
            self._code()
        for m in range(len(self._kernels)):
            self._session.check()
            self._update(m)

    def _code(self) -> None:
        before, error = (self.codes, self._spectra, self._residual), self.error
        share = _KEPT_SHARES[self._n_codings % len(_KEPT_SHARES)]
        self._n_codings += 1
        kept = _largest(self.codes, int(share * self._count))
        atoms = Atoms(self._on_grid(self._atoms), self._supports)
        self.codes = shift_codes(self._session, self._images, atoms, self._count, kept)
        self._measure()
        if self.error > error:
            self.codes, self._spectra, self._residual = before

    def _on_grid(self, spectra: Array, norm: Literal["ortho"] | None = None) -> Array:
        """(n, *grid) real arrays with given spectra."""
        axes = tuple(range(1, len(self._grid) + 1))
        return np.fft.irfftn(spectra.reshape(-1, *self._half), self._grid, axes=axes, norm=norm)

    def _update(self, m: int) -> None:
        """Update the kernels of one atom by least squares; restart an unused atom from the residual."""
        if not self._spectra[:, m].any():
            self._kernels[m] = self._start(self._on_grid(self._residual / self._weights, "ortho"))
            self._atoms[m], _ = self._normalised(m)
            return
        own = self._spectra[:, m] * self._atoms[m]
        fit = Restarts(combined(self._spectra[:, m], self._residual + own), self._places, self._kernels[m])
        before = fit.errors[0]
        for _ in range(_SWEEPS):
            fit.sweep()
        if not fit.errors[0] <= before:  # This also holds for NaN.
            return
        self._kernels[m] = fit.kernels
        self._atoms[m], norm = self._normalised(m)
        self.codes[:, m] *= norm
        self._spectra[:, m] *= norm
        self._residual = self._residual + own - self._spectra[:, m] * self._atoms[m]

    def _normalised(self, m: int) -> tuple[Array, float]:
        """The spectrum of an atom, divided by its norm, and the norm; its first kernel is divided, too."""
        kernels = self._kernels[m]
        found = composed(
            [places.spectrum(kernel)[0] for places, kernel in zip(self._places, kernels, strict=True)]
        )
        norm = float(np.linalg.norm(found * self._weights)) / sqrt(np.prod(self._grid)) or 1.0
        kernels[0] = kernels[0] / norm
        return found / norm, norm

    def _start(self, images: Array) -> list[Array]:
        """Fit kernels to a patch of the images: the one of largest energy among some random patches."""
        random = self._session.random
        lowest = sum(places.min(axis=0) for places in self._supports)
        sides = sum(np.ptp(places, axis=0) for places in self._supports) + 1
        size = np.minimum(sides, self._grid)
        window = np.prod(np.meshgrid(*(np.hanning(n + 2)[1:-1] for n in size), indexing="ij"), axis=0)
        best = np.zeros(window.shape)
        for _ in range(_TRIED_PATCHES):
            image = images[random.randint(len(images))]
            patch = image[self._box([random.randint(n) for n in self._grid], size)] * window
            if (patch**2).sum() > (best**2).sum():
                best = patch
        # With a little noise, no atom is zero at all sums of places.
        noise = random.standard_normal(best.shape)
        best = best + (_START_NOISE * float(np.abs(best).max()) or 1.0) * noise
        atom = np.zeros(self._grid)
        atom[self._box(lowest, size)] = best
        fit = convolution_chain(
            atom,
            None,
            self._supports,
            n_restarts=_START_RESTARTS,
            max_iter=_START_ITERATIONS,
            random_state=random,
            callback=lambda _: self._session.stopped,
        )
        return [kernel[None].copy() for kernel in fit.chain.kernels]

    def _box(self, corner: Any, size: Array) -> tuple[Array, ...]:
        """The indices of a box on the periodic grid."""
        return np.ix_(*((at + np.arange(n)) % side for at, n, side in zip(corner, size, self._grid, strict=True)))

    def chains(self) -> list[ConvolutionChain]:
        """The atoms as operators, with kernels of unit norm."""
        found = []
        for kernels in self._kernels:
            norms = [float(np.linalg.norm(kernel)) or 1.0 for kernel in kernels]
            unit = [kernel[0] / norm for kernel, norm in zip(kernels, norms, strict=True)]
            found.append(ConvolutionChain(unit, self._supports, self._grid, float(np.prod(norms))))
        return found


# -- sparse codes with all shifts ------------------------------------------------------------------------


class Atoms:
    """Atoms (n_atoms, *grid) as their spectra; all of them lie in a box that is the sum of the supports."""

    def __init__(self, atoms: Array, supports: Sequence[Array]) -> None:
        self.grid: Grid = atoms.shape[1:]
        self._axes = tuple(range(-len(self.grid), 0))
        self._spectra = self._forward(atoms)
        self._reach = [int(n) for n in sum(np.ptp(places, axis=0) for places in supports)]

    def __len__(self) -> int:
        return len(self._spectra)

    def _forward(self, arrays: Array) -> Array:
        return scipy.fft.rfftn(arrays, axes=self._axes, workers=get_num_threads())

    def _back(self, spectra: Array) -> Array:
        return scipy.fft.irfftn(spectra, self.grid, axes=self._axes, workers=get_num_threads())

    def synthesis(self, codes: Array) -> Array:
        """Σ_m x_m ∗ d_m of codes (n_atoms, *grid)."""
        return self._back((self._forward(codes) * self._spectra).sum(axis=0))

    def analysis(self, image: Array) -> Array:
        """The correlations of an image with all shifts of the atoms: the adjoint of `synthesis`."""
        return self._back(self._forward(image) * self._spectra.conj())

    def pursue(self, session: Session, image: Array, count: int) -> Array:
        """Codes (n_atoms, *grid) of one image by matching pursuit."""
        # A line is an image of one column: the kernel searches the rows that change again at each step.
        sides = self.grid if len(self.grid) == 2 else (*self.grid, 1)
        codes = np.zeros((len(self), *sides))
        rows = np.ascontiguousarray(self.analysis(image).reshape(codes.shape).transpose(1, 0, 2))
        gram, top, left = self._gram()
        least = _LEAST_CORRELATION * float(np.abs(rows).max())
        at_once = max(int(_MOST_OPERATIONS / (gram.shape[2] * rows[0].size)), 1)
        # A coefficient that is chosen again does not count, so there may be more steps than coefficients.
        missing, steps_left, steps = count, 4 * count, -1
        while missing and steps_left and steps:
            session.check()
            some = min(at_once, steps_left)
            taken, steps = pursue_shifts(rows, gram, top, left, codes, missing, some, least)
            missing, steps_left = missing - taken, steps_left - steps
        return codes.reshape(len(self), *self.grid)

    def _gram(self) -> tuple[Array, int, int]:
        """Correlations of atoms with shifted atoms where they overlap, and the place of the shift by zero."""
        gram = self._back(self._spectra[:, None] * self._spectra.conj())
        for i, (reach, side) in enumerate(zip(self._reach, self.grid, strict=True)):
            if 2 * reach + 1 < side:
                gram = np.take(gram, np.arange(-reach, reach + 1), axis=2 + i)
        at = [reach if 2 * reach + 1 < side else 0 for reach, side in zip(self._reach, self.grid, strict=True)]
        if len(self.grid) == 1:
            return np.ascontiguousarray(gram[..., None]), at[0], 0
        return np.ascontiguousarray(gram), at[0], at[1]

    def refit(self, image: Array, codes: Array) -> Array:
        """Codes on the same places by least squares: conjugate gradients, which never raise the error."""
        mask = codes != 0
        difference = self.analysis(image - self.synthesis(codes)) * mask
        direction, energy = difference, float((difference**2).sum())
        least = _LEAST_GRADIENT * float((image**2).sum())
        for _ in range(_LEAST_SQUARES_STEPS):
            if energy <= least:
                break
            turned = self.synthesis(direction)
            step = energy / float((turned**2).sum())
            codes = codes + step * direction
            difference = difference - step * self.analysis(turned) * mask
            before, energy = energy, float((difference**2).sum())
            direction = difference + energy / before * direction
        return codes


def shift_codes(session: Session, images: Array, atoms: Atoms, count: int, before: Array | None = None) -> Array:
    """Codes (n_images, n_atoms, *grid) with ``count`` entries per image, those of ``before`` among them."""
    codes = np.zeros((len(images), len(atoms), *atoms.grid)) if before is None else before.copy()
    for i, image in enumerate(images):
        session.check()
        left = image if before is None else image - atoms.synthesis(codes[i])
        more = atoms.pursue(session, left, max(count - int(np.count_nonzero(codes[i])), 0))
        codes[i] = atoms.refit(image, codes[i] + more)
    return codes


def _largest(codes: Array, count: int) -> Array:
    """Keep at most the ``count`` largest coefficients of each image."""
    kept = np.zeros_like(codes)
    for own, new in zip(codes.reshape(len(codes), -1), kept.reshape(len(codes), -1), strict=True):
        chosen = np.argsort(-np.abs(own), kind="stable")[:count]
        new[chosen] = own[chosen]
    return kept
