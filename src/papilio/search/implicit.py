"""Implicit matrices: known by a function of their entries, or by products with vectors; checked and counted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse.linalg import LinearOperator

from ..linalg import frobenius, in_units, largest_part, shifted, wide
from ..runtime.session import Session
from ..typing import Array
from ..validation import as_array, working_dtype
from .nested.cluster_trees import Clusters

EntriesFunction = Callable[[Array, Array], Any]

CHUNK = 1 << 20  # entries that are asked for at a time: the function may need several times their memory
_FEWEST = 1 << 12  # the same of a slow function
_LARGEST = 2.0**400  # beyond it, relative to the first block, squares and their sums may overflow
_MODERATE = 60  # Bits of a number whose square neither overflows nor underflows.
_PROBED = 16  # rows and columns of the block that shows the dtype
_SECONDS = 0.3  # Largest duration of one call, so that the session is checked in between.
_MOST_AT_ONCE = 64
_EQUAL = {"f": 1e-4, "F": 1e-4}  # a relative difference of products that are equal up to rounding, by dtype
_ADJOINT = {"f": 3e-4, "F": 3e-4}  # the same for inner products, also of solvers that are not exact


def is_function(value: object) -> TypeGuard[EntriesFunction]:
    """Whether a matrix is given by a function; operators, which may be called too, are none."""
    return callable(value) and not isinstance(value, LinearOperator) and not hasattr(value, "__array__")


class Entries:
    """M[rows, columns] from a function of two index arrays, each block checked; ``touched`` counts entries.

    Very large and very small numbers are divided by 2^unit, unless they are in units already: their squares then
    neither overflow nor underflow.
    """

    def __init__(
        self, function: EntriesFunction, shape: tuple[int, int], session: Session, is_in_units: bool = False
    ) -> None:
        self._function, self.shape, self.session = function, shape, session
        self.touched, self.unit, self._can_stop, self._seconds = 0, 0, False, 0.0
        self.dtype: np.dtype[Any] | None = None
        self._is_probed = False
        rows, columns = (np.unique(np.linspace(0, size - 1, _PROBED).astype(np.int64)) for size in shape)
        probe = self(rows, columns)
        self.dtype, self._can_stop = probe.dtype, True
        unit = in_units(probe)[1]
        self.unit = unit if abs(unit) > _MODERATE and not is_in_units else 0
        self._is_probed = bool(probe.any()) and not is_in_units

    @contextmanager
    def without_stopping(self) -> Iterator[None]:
        """Let a short step end, whatever the session says: there must be a result."""
        self._can_stop = False
        try:
            yield
        finally:
            self._can_stop = True

    @property
    def at_once(self) -> int:
        """How many entries to ask for at a time."""
        if self.touched == 0:
            return CHUNK
        return int(np.clip(_SECONDS * self.touched / max(self._seconds, 1e-9), _FEWEST, CHUNK))

    @property
    def is_complex(self) -> bool:
        return self.dtype is not None and self.dtype.kind == "c"

    @property
    def is_single(self) -> bool:
        return self.dtype is not None and self.dtype.char in "fF"

    def __call__(self, rows: Array, columns: Array) -> Array:
        """The block of some rows and columns."""
        if self._can_stop:
            self.session.check()
        wanted = (rows.size, columns.size)
        if 0 in wanted:
            return np.zeros(wanted, self.dtype)
        begin = perf_counter()
        try:
            result = self._function(rows.copy(), columns.copy())  # The function may change them.
        except Exception as error:
            error.add_note(
                f"raised by entries(rows, columns), which factorize called with {wanted[0]} rows and {wanted[1]} "
                f"columns: rows[0] = {rows[0]}, columns[0] = {columns[0]}"
            )
            raise
        block = as_array("entries(rows, columns)", result)
        if block.shape != wanted:
            raise ValueError(
                "entries(rows, columns) must return an array of shape (len(rows), len(columns)) = "
                f"{wanted}, as from rows[:, None] and columns[None, :], got {block.shape}"
            )
        dtype = working_dtype("entries(rows, columns)", block.dtype)
        if self.dtype is not None and dtype.kind == "c" and self.dtype.kind != "c":
            raise ValueError(
                "entries(rows, columns) must return numbers of one kind, got complex numbers after real ones"
            )
        block = np.asarray(block, self.dtype or dtype)
        if not np.isfinite(block).all():
            raise ValueError("entries(rows, columns) must return finite numbers only, got NaN or infinity")
        self.touched, self._seconds = self.touched + block.size, self._seconds + perf_counter() - begin
        block = shifted(block, -self.unit) if self.unit else block
        if self._is_probed and not largest_part(block) <= _LARGEST:
            raise ValueError(
                "entries(rows, columns) must return numbers of comparable size, got some that are more than 1e120 "
                f"times as large as those of the first block of {_PROBED}×{_PROBED} entries spread over the matrix"
            )
        return block


def in_chunks(entries: Entries, rows: Array, columns: Array) -> Array:
    """A block, asked for in parts if it is large."""
    if rows.size * columns.size <= entries.at_once:
        return entries(rows, columns)
    block = np.empty((rows.size, columns.size), entries.dtype)
    top = 0
    while top < rows.size:
        height = max(entries.at_once // columns.size, 1)
        some, left = rows[top : top + height], 0
        while left < columns.size:
            width = max(entries.at_once // some.size, 1)
            others = columns[left : left + width]
            block[top : top + height, left : left + width] = entries(some, others)
            left += width
        top += height
    return block


def sampled_lines(
    clusters: Clusters,
    level: int,
    i: int,
    count: int,
    random: np.random.RandomState,
    points: Array | None = None,
) -> Array:
    """Some lines of a cluster, or all if it has no more: half of them spread evenly, half denser at its ends.

    Each is drawn at random from a stretch of its own. Functions that are smooth, or oscillate evenly, over the
    cluster are determined by such samples. Points in the plane or in space have no two ends: there, the outermost
    ones in random directions are among the sample.
    """
    lines = clusters.lines(level, i)
    if count >= lines.size:
        return lines
    if points is None or points.shape[1] == 1:
        return lines[spread(lines.size, count, random)]
    directions = random.standard_normal((points.shape[1], count // 2))
    outer = np.unique(np.argmax(points[lines] @ directions, axis=0))
    return lines[np.union1d(outer, spread(lines.size, count - outer.size, random))]


def spread(size: int, count: int, random: np.random.RandomState) -> Array:
    """``count`` different places of ``size``, in order: half of them spread evenly, half denser at the ends."""
    if count >= size:
        return np.arange(size)
    half = count // 2
    even = (np.arange(count - half) + random.random_sample(count - half)) / (count - half)
    dense = (1 - np.cos(np.pi * (np.arange(half) + random.random_sample(half)) / max(half, 1))) / 2
    places = np.unique((np.concatenate([even, dense]) * size).astype(np.int64))
    missing = count - places.size
    if missing > 0:
        others = np.setdiff1d(random.randint(size, size=4 * missing), places)
        places = np.sort(np.concatenate([places, random.permutation(others)[:missing]]))
    return places


class Products:
    """Products of an operator M and its adjoint with random vectors.

    ``tests`` are real vectors Ω of which ``samples`` are the products MΩ; ``adjoint_tests`` and
    ``adjoint_samples`` are the same for Mᴴ. ``count`` counts them all. If M is self-adjoint, or symmetric,
    products with M tell those with Mᴴ. Very large and very small numbers are divided by 2^unit, so that their
    squares neither overflow nor underflow.

    The dot test ⟨Mx, y⟩ = ⟨x, Mᴴy⟩ comes first, with a random pair; both become part of what is kept.
    """

    def __init__(self, operator: LinearOperator, session: Session) -> None:
        self.operator, self.shape, self.session = operator, _shape_of(operator), session
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
        more = self._drawn(self.shape[1], max(count - self.tests.shape[1], 0))
        for tests, samples in self._in_blocks(more, False):
            self.absorb(tests, samples)
        if self.mirror:
            return
        more = self._drawn(self.shape[0], max(count - self.adjoint_tests.shape[1], 0))
        for tests, samples in self._in_blocks(more, True):
            self.adjoint_tests = np.hstack([self.adjoint_tests, tests])
            self.adjoint_samples = np.hstack([self.adjoint_samples, samples])

    def fresh(self, count: int) -> tuple[Array, Array]:
        """New random vectors and their products, for `absorb` later on."""
        tests = self._drawn(self.shape[1], count)
        return tests, np.hstack([samples for _, samples in self._in_blocks(tests, False)])

    def absorb(self, tests: Array, samples: Array) -> None:
        """Keep fresh vectors and their products with the others; before `extend`."""
        self.tests, self.samples = np.hstack([self.tests, tests]), np.hstack([self.samples, samples])
        if self.mirror:
            self.adjoint_tests = self.tests
            self.adjoint_samples = self.samples.conj() if self.mirror == "symmetric" else self.samples

    def whole(self) -> Array:
        """The matrix, from as many products as its shorter side has lines."""
        m, n = self.shape
        is_wide = m < n
        block = self._product(np.eye(min(m, n)), is_wide)
        return block.conj().T if is_wide else block

    # -- one product -----------------------------------------------------------------------------------

    def _drawn(self, size: int, count: int) -> Array:
        return np.asarray(self.session.random.standard_normal((size, count)))

    def _in_blocks(self, vectors: Array, adjoint: bool) -> Iterator[tuple[Array, Array]]:
        """Some vectors and their products after the other, with looks at the session."""
        total = vectors.shape[1]
        for begin in range(0, total, self._at_once):
            self.session.check()
            some = vectors[:, begin : begin + self._at_once]
            yield some, self._in_units(self._product(some, adjoint))
            self.session.tick("products with the adjoint" if adjoint else "products", begin, total)

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
