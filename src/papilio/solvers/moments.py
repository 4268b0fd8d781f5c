"""Moments: all that PALM needs to know about the data."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..linalg import frobenius, inner, largest_part, wide
from ..operators.factors import as_csr
from ..runtime.threads import blas_threads
from ..typing import Array, MatrixLike
from ..validation import as_array, as_matrix, as_real

_ROOM = 2.0**-32  # Share of the exponent range that the dictionaries of some moments may use.
CANCELLING = 1e-4  # relative errors below which squares lose too many digits


class Compressed(NamedTuple):
    """A small least-squares problem with the same minimisers: ‖X − DΓ‖² = ‖target − D·tail‖² + rest²."""

    target: Array
    tail: Array | None
    rest: float


class Moments:
    """B = XΓᴴ, A = ΓΓᴴ and ‖X‖² of data X with codes Γ; a plain matrix X is A = I.

    With the codes fixed, ‖X − DΓ‖² = ‖X‖² − 2 Re tr(BᴴD) + tr(D A Dᴴ) for every dictionary D. A learning step
    therefore costs the same for a thousand signals as for a billion. Moments of parts of the data add up:
    ``moments + other`` are those of both parts together.

    Parameters
    ----------
    cross : (d, a) matrix
        B = XΓᴴ.
    gram : (a, a) matrix, optional
        A = ΓΓᴴ, Hermitian and positive semidefinite; the identity by default.
    energy : float, optional
        ‖X‖_F². By default ‖B‖_F², which is right if A is the identity; with ``gram`` it must be given.

    Attributes
    ----------
    cross, gram : ndarray
        B and A; ``gram`` is None for the identity.
    norm : float
        ‖X‖_F.

    Examples
    --------
    >>> import numpy as np, papilio as pp
    >>> signals, codes = np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> moments = pp.Moments.of(signals, codes)
    >>> moments.gram
    array([[5., 2.],
           [2., 1.]])
    """

    def __init__(self, cross: MatrixLike, gram: MatrixLike | None = None, energy: float | None = None) -> None:
        self.cross: Array = as_matrix("cross", cross).copy("K")  # its owner may use the memory again
        self.gram: Array | None = None
        if gram is not None:
            side = self.cross.shape[1]
            self.gram = as_matrix("gram", gram, (side, side)).copy("K")
            slack = 1e-6 * np.abs(self.gram).max()
            if np.abs(self.gram - self.gram.conj().T).max() > slack or (self.gram.diagonal().real < -slack).any():
                raise ValueError("gram must be Hermitian and positive semidefinite, got a matrix that is not")
            if energy is None:
                raise ValueError("energy must be given together with gram")
        self.norm = frobenius(self.cross) if energy is None else float(np.sqrt(as_real("energy", energy, 0.0)))

    @classmethod
    def of(cls, signals: MatrixLike, codes: MatrixLike) -> "Moments":
        """The moments of signals with given codes.

        Parameters
        ----------
        signals : (d, n) matrix
            X, one signal per column.
        codes : (a, n) matrix, dense or sparse
            Γ, the code of one signal per column.

        Raises
        ------
        ValueError
            If ‖X‖, XΓᴴ or ΓΓᴴ overflows; ‖X‖² may overflow.
        """
        X = as_matrix("signals", signals)
        G = as_csr("codes", codes) if sp.issparse(codes) else as_matrix("codes", codes)
        if G.shape[1] != X.shape[1]:
            raise ValueError(f"codes must have {X.shape[1]} columns, one per signal, got shape {G.shape}")
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            cross, gram, norm = (G.conj() @ X.T).T, as_array("codes", G @ G.conj().T), frobenius(X)
        size, code_size = largest_part(X), largest_part(np.asarray(G.data) if sp.issparse(G) else G)
        _require_range("codes", gram, code_size, code_size)
        _require_range("signals", cross, size, code_size)
        _require_range("signals", np.array([norm]), size, 1.0)
        return cls._with_norm(cross, gram, norm)

    def __add__(self, other: "Moments") -> "Moments":
        """The moments of both parts of the data together."""
        if not isinstance(other, Moments):
            return NotImplemented
        if self.gram is None or other.gram is None:
            raise ValueError("moments of plain matrices cannot be added: give their gram")
        norm = float(np.hypot(self.norm, other.norm))
        return Moments._with_norm(self.cross + other.cross, self.gram + other.gram, norm)

    @classmethod
    def _with_norm(cls, cross: Array, gram: Array, norm: float) -> "Moments":
        """The moments of data whose norm is known, whose square may overflow."""
        moments = cls(cross, gram, 0.0)
        moments.norm = norm
        return moments

    @property
    def energy(self) -> float:
        """‖X‖_F²; infinity if it overflows."""
        return self.norm * self.norm

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the dictionaries: features and atoms."""
        return self.cross.shape

    @property
    def is_moderate(self) -> bool:
        """Whether products of the moments neither overflow nor underflow."""
        sizes = [largest_part(matrix) for matrix in (self.cross, self.gram) if matrix is not None]
        limit = 1e50 if self.cross.dtype in (np.float64, np.complex128) else 1e8
        return all(1 / limit < size < limit for size in sizes)

    @property
    def in_single_precision(self) -> "Moments":
        """The moments of X and Γ over a power of two, in single precision; the dictionaries are the same.

        The power brings the codes' energies near one, far from overflow in single precision. A plain
        matrix must be far from these itself.
        """
        dtype = np.dtype(np.complex64 if self.cross.dtype.kind == "c" else np.float32)
        if self.gram is None:
            return Moments(self.cross.astype(dtype))
        exponent = int(np.frexp(largest_part(self.gram.diagonal()))[1]) // 2
        near = float(np.ldexp(1.0, -2 * exponent))
        cross, gram = (self.cross * near).astype(dtype), (self.gram * near).astype(dtype)
        return Moments._with_norm(cross, gram, float(np.ldexp(self.norm, -exponent)))

    def error(self, dictionary: Array) -> float:
        """‖X − DΓ‖/‖X‖ for a dictionary D.

        Parameters
        ----------
        dictionary : (d, a) ndarray
            D.

        Returns
        -------
        float
            The relative error; ‖DΓ‖ if X is zero.
        """
        # Large numbers cancel in ‖X‖² − 2 Re tr(BᴴD) + tr(D A Dᴴ) near an exact fit: there alone `compressed`,
        # which takes longer, is used.
        size = self.norm or 1.0
        if self.gram is not None and self.is_moderate:
            near = dictionary / dictionary.real.dtype.type(size)
            with blas_threads(len(self.gram) ** 2 * self.shape[0]):
                square = 1.0 - 2 * inner(self.cross, near) / size + inner(near, near @ self.gram)
            if square > CANCELLING**2:
                return float(np.sqrt(square))
        target, tail, rest = self.compressed
        product = dictionary if tail is None else dictionary @ tail
        return float(np.hypot(frobenius(target - product), rest)) / size

    @cached_property
    def compressed(self) -> Compressed:
        """X and Γ rotated into as few columns as possible, by the eigenvectors of A.

        With A = CCᴴ, C = V Λ^{1/2}, and T = B V Λ^{-1/2}, ‖X − DΓ‖² = ‖T − DC‖² + (‖X‖² − ‖T‖²). PALM then sees
        a plain matrix T and one more fixed factor C, and near an exact fit no large numbers cancel. The null
        space of A is left out: B = XΓᴴ vanishes on it.
        """
        if self.gram is None:
            return Compressed(self.cross, None, 0.0)
        kind = wide(np.result_type(self.gram, self.cross))
        with blas_threads(len(self.gram) ** 2 * self.shape[0]):
            eigenvalues, vectors = np.linalg.eigh(self.gram.astype(kind))
        if eigenvalues[0] < -1e-6 * eigenvalues[-1]:
            raise ValueError("gram must be Hermitian and positive semidefinite, got a matrix that is not")
        used = eigenvalues > eigenvalues.size * np.finfo(kind).eps * eigenvalues[-1]
        if not used.any():
            raise ValueError("gram must not be zero: no signal uses any atom")
        roots = np.sqrt(eigenvalues[used])
        with np.errstate(over="ignore", invalid="ignore"):
            target = (self.cross.astype(kind) @ vectors[:, used]) / roots
        tail, size = vectors[:, used] * roots, frobenius(target)
        dtype = np.result_type(self.cross, self.gram)
        room = roots[0] * _ROOM if roots[0] < 1.0 else 1.0
        if not size < room * np.finfo(dtype).max:
            raise ValueError(
                f"gram must not be so small beside cross that dictionaries leave the range of {dtype}: multiply "
                "the codes by a power of two"
            )
        rest = float(np.sqrt(max(self.norm - size, 0.0)) * np.sqrt(self.norm + size))
        return Compressed(target.astype(dtype), tail.astype(dtype), rest)

    def __repr__(self) -> str:
        return f"<Moments of {self.shape[0]} features, {self.shape[1]} atoms, energy {self.energy:.4g}>"


def _require_range(name: str, moments: Array, left: float, right: float) -> None:
    """Refuse data whose moments overflow, or vanish: the largest term of their sums is ``left * right``."""
    is_lost = left > 0 and right > 0 and left * right < float(np.finfo(moments.dtype).tiny)
    if is_lost or not np.isfinite(moments).all():
        raise ValueError(
            f"{name} must have moments within the range of {moments.dtype}: multiply {name} by a power of two"
        )
