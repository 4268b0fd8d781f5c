"""`convolutional_dictionary`: atoms that may stand anywhere in an image, as chains of short convolutions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..constraints.places import Grid, as_supports, require_on_grid
from ..linalg import in_units
from ..results import Callback, History, Status
from ..runtime.session import Interrupted, Session
from ..runtime.threads import one_blas_thread
from ..typing import Array, ArrayLike, RandomState
from ..validation import as_integer, as_numbers, as_real, require_finite
from .learning import Learning
from .operator import ConvolutionChain
from .pursuit import Atoms, shift_codes

_PATIENCE = 6  # iterations: each share of coefficients is tried twice


@dataclass(frozen=True)
class ConvolutionalDictionary:
    """What `convolutional_dictionary` returns: y_l ≈ Σ_m x_lm ∗ d_m, where each d_m is a chain of convolutions.

    Attributes
    ----------
    chains : tuple of ConvolutionChain
        The atoms, of unit norm, as operators.
    codes : (n_images, n_atoms, *grid) ndarray
        x, of which few entries are other than zero.
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
    >>> learned = pp.convolutional_dictionary(image, 2, pp.kernel_supports((2, 2), [1, 1]), 20, max_iter=3)
    >>> learned.codes.shape, bool(np.count_nonzero(learned.codes) <= 20)
    ((1, 2, 16, 16), True)
    """

    chains: tuple[ConvolutionChain, ...]
    codes: Array = field(repr=False, compare=False)
    error: float
    status: Status
    history: History = field(repr=False, compare=False)

    @property
    def atoms(self) -> Array:
        """(n_atoms, *grid): each atom on the grid, at the origin."""
        return np.stack([chain.atom for chain in self.chains])

    def reconstruct(self, codes: ArrayLike | None = None) -> Array:
        """The images that codes stand for.

        Parameters
        ----------
        codes : (n_images, n_atoms, *grid) array, optional
            By default those of the images that were learned from.

        Returns
        -------
        (n_images, *grid) ndarray
        """
        values = self.codes if codes is None else _as_codes(codes, None, self.codes.shape[1:])
        return np.sum([chain.apply(values[:, m]) for m, chain in enumerate(self.chains)], axis=0)

    def encode(self, images: ArrayLike, n_nonzero_coefs: int) -> Array:
        """Codes of images on the same grid: matching pursuit with all shifts, then least squares on its choice.

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

    on a periodic grid. The largest coefficients stay, between half and nine tenths of them; the others are chosen
    anew by matching pursuit with all shifts of all atoms, and least squares gives all of them their values. Where
    the codes of the iteration before are better, these stay. Then come the kernels of one atom after the other, by
    a few sweeps of alternating least squares. So the error never rises.

    Parameters
    ----------
    images : (*grid) or (n_images, *grid) array
        y, real images, or signals if the places of ``supports`` have one dimension. Remove their mean, or all low
        frequencies, first: no short atom can explain these with few coefficients.
    n_atoms : int
        The number of atoms.
    supports : sequence of (n_places,) or (n_places, 2) arrays of int
        The places of the kernels, the same for each atom; see `kernel_supports`.
    n_nonzero_coefs : int
        The number of coefficients per image. Not used with ``codes``.
    codes : (n_images, n_atoms, *grid) array, optional
        Codes that are known, which then stay up to the scale of each atom: only kernels are learned.
    max_iter : int, default=30
        The largest number of iterations.
    tol : float, default=1e-3
        Stop when the error falls by less than this share in six iterations; 0 never stops early.
    random_state : int, RandomState, Generator or None
        The source of the first atoms: patches of the images.
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
    Codes are stored densely, as are their spectra: some 24 bytes for each pixel of each image and atom.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> image = np.random.default_rng(0).standard_normal((16, 16))
    >>> learned = pp.convolutional_dictionary(image, 2, pp.kernel_supports((2, 2), [1, 1]), 20, max_iter=3)
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
    known = None if codes is None else _as_codes(codes, len(pixels), shape)
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
        learning = Learning(session, units, places, n_atoms, count, known)
        status = _run(session, learning, max_iter, tol)
    chains = tuple(chain.astype(pixels.dtype) for chain in learning.chains())
    found = np.ldexp(learning.codes, exponent).astype(pixels.dtype)
    return ConvolutionalDictionary(chains, found, learning.error, status, session.history)


def _run(session: Session, learning: Learning, max_iter: int, tol: float) -> Status:
    try:
        for iteration in range(max_iter):
            session.check()
            learning.iterate()
            session.report("atoms", learning.error, fraction=(iteration + 1) / max_iter)
            errors = session.history.error
            if learning.error == 0 or (
                tol and iteration >= _PATIENCE and errors[-1] > (1 - tol) * errors[-1 - _PATIENCE]
            ):
                return Status.CONVERGED
        session.check()
    except Interrupted:
        return Status.STOPPED
    return Status.MAX_ITER


def _as_images(images: Any, n_axes: int) -> Array:
    """Images as (n, *grid)."""
    pixels = as_numbers("images", images)
    if pixels.ndim not in (n_axes, n_axes + 1):
        raise ValueError(
            f"images must have {n_axes} dimensions, as the places of supports have, or one more for several, "
            f"got {pixels.ndim}"
        )
    if pixels.size == 0:
        raise ValueError(f"images must not be empty, got shape {pixels.shape}")
    if pixels.dtype.kind == "c":
        raise TypeError("images must be real, got complex numbers")
    require_finite("images", pixels)
    return pixels if pixels.ndim > n_axes else pixels[None]


def _as_codes(codes: Any, n_images: int | None, shape: tuple[int, ...]) -> Array:
    values = as_numbers("codes", codes)
    expected = f"({'n' if n_images is None else n_images}, {', '.join(map(str, shape))})"
    if values.shape[1:] != shape or (n_images is not None and len(values) != n_images):
        raise ValueError(f"codes must have shape {expected}, got {values.shape}")
    if values.dtype.kind == "c":
        raise TypeError("codes must be real, got complex numbers")
    require_finite("codes", values)
    return values
