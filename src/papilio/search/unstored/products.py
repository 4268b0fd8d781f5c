"""A matrix that is known by its products with vectors: checked, counted, and kept."""

from time import perf_counter
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ...linalg import frobenius, in_units, shifted, wide
from ...runtime.session import Session
from ...typing import Array
from ...validation import as_array, working_dtype

_MODERATE = 60  # bits of a number whose square is far from the limits of the number range
_SECONDS = 0.3  # that one call should take at most, so that there are looks at the session in between
_MOST_AT_ONCE = 64
_EQUAL = {"f": 1e-4, "F": 1e-4}  # a relative difference of products that are equal up to rounding, by dtype
_ADJOINT = {"f": 3e-4, "F": 3e-4}  # the same for inner products, also of solvers that are not exact


class Products:
    """Products of an operator M and its adjoint with random vectors.

    ``tests`` are real vectors Ω of which ``samples`` are the products MΩ; ``adjoint_tests`` and
    ``adjoint_samples`` are the same for Mᴴ. ``count`` counts them all. If M is self-adjoint, or symmetric,
    products with M tell those with Mᴴ. Very large and very small numbers are divided by 2^unit, so that their
    squares stay in the number range.

    The dot test ⟨Mx, y⟩ = ⟨x, Mᴴy⟩ comes first, with a random pair; both become part of what is kept.
    """

    def __init__(self, operator: LinearOperator, session: Session) -> None:
        self.operator, self.shape, self._session = operator, _shape_of(operator), session
        self.count, self.unit, self._at_once = 0, 0, 1
        self.mirror = ""  # "self-adjoint" or "symmetric"
        self._is_declared = operator.dtype is not None
        self.dtype = working_dtype("M", operator.dtype if self._is_declared else np.dtype(np.float64))
        m, n = self.shape
        x, y = self._drawn(n, 1), self._drawn(m, 1)
        begin = perf_counter()
        image = self._product(x, False)
        self._at_once = int(np.clip(_SECONDS / max(perf_counter() - begin, 1e-9), 1, _MOST_AT_ONCE))
        back = self._product(y, True)
        self.dtype, self._is_declared = np.result_type(image, back), True
        unit = in_units(image)[1]
        self.unit = unit if abs(unit) > _MODERATE else 0
        image, back = self._in_units(image), self._in_units(back)
        self._require_adjoint(x, y, image, back)
        self.tests, self.samples, self.adjoint_tests, self.adjoint_samples = x, image, y, back
        if m == n:
            self._look_for_mirror(y, back)

    @property
    def known(self) -> int:
        """With how many vectors there are products, each way."""
        return min(self.samples.shape[1], self.adjoint_samples.shape[1])

    @property
    def norm(self) -> float:
        """An estimate of the Frobenius norm."""
        squares = [np.linalg.norm(each) ** 2 / each.shape[1] for each in (self.samples, self.adjoint_samples)]
        return float(np.sqrt(np.mean(squares)))

    def extend(self, count: int) -> None:
        """Until there are products with ``count`` vectors each way."""
        self.tests, self.samples = self._extended(self.tests, self.samples, count, False)
        if self.mirror:
            self.adjoint_tests = self.tests
            self.adjoint_samples = self.samples.conj() if self.mirror == "symmetric" else self.samples
        else:
            known = self.adjoint_tests, self.adjoint_samples
            self.adjoint_tests, self.adjoint_samples = self._extended(*known, count, True)

    def fresh(self, count: int) -> tuple[Array, Array]:
        """New random vectors and their products, for `absorb` later on."""
        tests = self._drawn(self.shape[1], count)
        return tests, self._in_units(self._in_blocks(tests, False))

    def absorb(self, tests: Array, samples: Array) -> None:
        """Keep fresh vectors and their products with the others; before `extend`."""
        self.tests, self.samples = np.hstack([self.tests, tests]), np.hstack([self.samples, samples])

    def whole(self) -> Array:
        """The matrix, from as many products as its shorter side has lines."""
        m, n = self.shape
        is_wide = m < n
        block = self._product(np.eye(min(m, n)), is_wide)
        return block.conj().T if is_wide else block

    # -- one product -----------------------------------------------------------------------------------

    def _drawn(self, size: int, count: int) -> Array:
        return np.asarray(self._session.random.standard_normal((size, count)))

    def _extended(self, tests: Array, samples: Array, count: int, adjoint: bool) -> tuple[Array, Array]:
        more = self._drawn(tests.shape[0], max(count - tests.shape[1], 0))
        found = self._in_units(self._in_blocks(more, adjoint))
        return np.hstack([tests, more]), np.hstack([samples, found])

    def _in_blocks(self, vectors: Array, adjoint: bool) -> Array:
        total = vectors.shape[1]
        height = self.shape[1] if adjoint else self.shape[0]
        found = [np.empty((height, 0), self.dtype)]
        for begin in range(0, total, self._at_once):
            self._session.check()
            found.append(self._product(vectors[:, begin : begin + self._at_once], adjoint))
            self._session.tick("products with the adjoint" if adjoint else "products", begin, total)
        return np.hstack(found)

    def _product(self, vectors: Array, adjoint: bool) -> Array:
        """M, or Mᴴ, times some vectors, checked."""
        name = "M.rmatmat" if adjoint else "M.matmat"
        given = vectors.astype(self.dtype)
        try:
            result = self.operator.rmatmat(given) if adjoint else self.operator.matmat(given)
        except Exception as error:
            if adjoint and self._lacks_adjoint(given):
                raise TypeError(
                    "M must have an adjoint, rmatvec or rmatmat: factorize needs products with both of them"
                ) from error
            error.add_note(f"raised by {name}, which factorize called with a block of shape {given.shape}")
            raise
        block = as_array(name, result)
        self.count += vectors.shape[1]
        wanted = (self.shape[1] if adjoint else self.shape[0], vectors.shape[1])
        if block.shape != wanted:
            raise ValueError(f"{name} must return shape {wanted} for {given.shape}, got {block.shape}")
        dtype = working_dtype(name, block.dtype)
        if self._is_declared and dtype.kind == "c" and self.dtype.kind != "c":
            raise TypeError(f"{name} must return real numbers, as M.dtype = {self.dtype} says, got {block.dtype}")
        if not np.isfinite(block).all():
            raise ValueError(f"{name} must return finite numbers only, got NaN or infinity")
        return np.asarray(block, self.dtype if self._is_declared else dtype)

    def _lacks_adjoint(self, vectors: Array) -> bool:
        """Whether rmatvec is not defined, after rmatmat has failed: SciPy then says something else there."""
        try:
            self.operator.rmatvec(vectors[:, 0])
        except NotImplementedError:
            return True
        except Exception:
            return False
        return False

    def _in_units(self, block: Array) -> Array:
        """In double precision, and in units."""
        block = block.astype(wide(block.dtype))
        return shifted(block, -self.unit) if self.unit else block

    def _require_adjoint(self, x: Array, y: Array, image: Array, back: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            difference = abs(complex(np.vdot(y, image)) - complex(np.vdot(back, x)))
            size = max(frobenius(y) * frobenius(image), frobenius(back) * frobenius(x))
        if not difference <= _ADJOINT.get(self.dtype.char, 1e-5) * size:
            raise ValueError(
                "M's adjoint must satisfy <M x, y> = <x, M^H y>, got inner products that differ by "
                f"{difference / size:.2g} of ‖M x‖·‖y‖ for a random pair: check rmatvec or rmatmat"
            )

    def _look_for_mirror(self, y: Array, back: Array) -> None:
        """Whether My = Mᴴy or its conjugate for the real vector y, which is then true of all vectors."""
        tests, samples = y, self._in_units(self._product(y, False))
        self.absorb(tests, samples)
        size = _EQUAL.get(self.dtype.char, 1e-8) * np.linalg.norm(samples)
        if np.linalg.norm(samples - back) <= size:
            self.mirror = "self-adjoint"
        elif np.linalg.norm(samples.conj() - back) <= size:
            self.mirror = "symmetric"


def known_by_products(value: Any) -> LinearOperator | None:
    """The operator that a matrix is given by, if it cannot become an array.

    What has SciPy's ``matvec`` and ``rmatvec`` is an operator, whatever its class; those of PyLops are not
    SciPy's.
    """
    if isinstance(value, LinearOperator):
        return None if hasattr(value, "toarray") else value
    if hasattr(value, "toarray") or not (hasattr(value, "matvec") and hasattr(value, "rmatvec")):
        return None
    several = {name: getattr(value, name, None) for name in ("matmat", "rmatmat")}
    return LinearOperator(value.shape, value.matvec, value.rmatvec, dtype=value.dtype, **several)


def _shape_of(operator: LinearOperator) -> tuple[int, int]:
    m, n = (int(side) for side in operator.shape)
    if 0 in (m, n):
        raise ValueError(f"M must not be empty, got shape {(m, n)}")
    return m, n
