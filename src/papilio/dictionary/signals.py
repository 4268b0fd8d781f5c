"""What learners see of their signals: sums over them with new codes, and signals in memory to start from.

``start``, in memory, is all signals or a random sample of them; ``statistics`` are sums over all signals, which
are read part by part if there are many.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from functools import reduce
from operator import add
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..coding import Atoms, lasso_codes, omp_codes
from ..kernels.atom_updates import add_energies, add_moments, subtract_codes
from ..linalg import frobenius, largest_part, shifted, wide
from ..operators import SparseProduct
from ..operators.factors import to_dense
from ..runtime.checkpoint import stored
from ..runtime.session import Session
from ..runtime.threads import scratch, split_work
from ..samples import Samples, map_reduce
from ..solvers.moments import Moments
from ..typing import Array
from ..validation import require_fits

_SAMPLE, _LARGEST_SAMPLE, _SAMPLE_PER_ATOM = 50_000, 100_000, 200  # signals that are enough to start from
_SOME = 5_000  # Signals that suffice to compare two dictionaries.
_PASSES = 4  # over all signals that improve a start from a sample
_SIGNALS_PER_PASS = 20  # coded in a pass in the time that the start takes for one
_ROWS_PER_ATOM = 4  # Rows per atom that are coded and summed together, at least.
# Parts of the signals whose moments are summed in parallel, and their size.
_MOST_SHARES, _SHARE_BYTES = 8, 1 << 27
SMALL = 1 << 15  # entries of a dictionary that BLAS is quick with
_LEAST_SHARE = 8192  # signals that make a share worthwhile


@stored
class Coder(NamedTuple):
    """How learners code signals: by OMP with so many atoms, or with an ℓ1 penalty ``alpha``."""

    n_nonzero_coefs: int
    positive: bool = False
    alpha: float | None = None

    def codes(self, ready: Atoms, rows: Array) -> sp.csc_array:
        """The codes of signals, one per row."""
        if self.alpha is None:
            return omp_codes(ready, rows.T, self.n_nonzero_coefs, positive=self.positive)
        return lasso_codes(ready, rows.T, self.alpha, self.positive)

    def within(self, unit: float) -> "Coder":
        """The same for signals that were divided by ``unit``."""
        if self.alpha is None:
            return self
        limits = np.finfo(np.float64)
        return self._replace(alpha=float(np.clip(self.alpha / unit, limits.tiny, limits.max)))

    def penalty(self, codes: sp.csc_array) -> float:
        """2·alpha·‖Γ‖₁: with the squared error, twice the objective."""
        return 0.0 if self.alpha is None else 2 * self.alpha * float(np.abs(codes.data).sum())

    def error(self, residuals: Array, rows: Array, codes: sp.csc_array) -> float:
        """The relative error of codes; with a penalty, the root of the objective over that of empty codes."""
        size = frobenius(rows)
        error = relative(residuals, size)
        if self.alpha is None or size == 0:
            return error
        return float(np.sqrt(error**2 + self.penalty(codes) / size**2))


# -- sums over signals with their codes ----------------------------------------------------------------


@stored
class Statistics(NamedTuple):
    """Sums over signals X with codes Γ in a dictionary D, and the signals that are represented worst."""

    gram: Array  # ΓΓᴴ
    cross: Array  # XΓᴴ, one atom per row
    energy: float  # ‖X‖²
    residual: float  # ‖X − DΓ‖², plus the penalty of the codes if they have one
    uses: Array  # how many signals use each atom
    worst: Array  # signals, one per row, the worst first
    badness: Array  # their ‖x − Dγ‖²

    @property
    def error(self) -> float:
        """‖X − DΓ‖/‖X‖, or the root of the objective over that of empty codes; 0 for zero data."""
        return float(np.sqrt(self.residual / self.energy)) if self.energy > 0 else 0.0

    def moments(self, dictionary: SparseProduct) -> Moments:
        """The moments for PALM; if all codes are zero, those of the dictionary itself."""
        if not self.gram.any():
            return Moments(dictionary.toarray())
        return Moments(self.cross.T, self.gram, self.energy)


def statistics_of(
    rows: Array, atoms: Array, codes: sp.csc_array, n_worst: int = 0, penalty: float = 0.0
) -> Statistics:
    """The statistics of signals, one per row, with their codes in ``atoms``, one per row."""
    gram, cross = moments_of_rows(rows, codes)
    energies, badness = energies_of_codes(rows, atoms, codes)
    energy, residual = float(energies.sum()), float(badness.sum()) + penalty
    badness[is_rounding(badness, energies, rows.dtype)] = 0
    order = np.argsort(-badness, kind="stable")[:n_worst] if n_worst else np.zeros(0, np.int64)
    uses = np.bincount(codes.indices, minlength=len(atoms)).astype(float)
    return Statistics(gram, cross, energy, residual, uses, rows[order], badness[order])


def merge_statistics(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of all signals: those of their parts, added in this order."""
    *sums, worst, badness = zip(*parts, strict=True)
    gram, cross, energy, residual, uses = (reduce(add, each) for each in sums)
    errors = np.concatenate(badness)
    order = np.argsort(-errors, kind="stable")[: max(map(len, worst))]
    return Statistics(gram, cross, energy, residual, uses, np.concatenate(worst)[order], errors[order])


class Coding(NamedTuple):
    """What a pass computes: codes of signals divided by ``unit`` in a dictionary (d, a), and the worst signals."""

    dictionary: SparseProduct | Array
    coder: Coder
    n_worst: int = 0
    unit: float = 1.0


def code_part(blocks: Iterator[tuple[int, Array]], coding: Coding) -> Statistics:
    """The statistics of one part of the samples, divided by the unit."""
    ready: Atoms | None = None
    found: Statistics | None = None
    for rows in _gathered(blocks, _ROWS_PER_ATOM * coding.dictionary.shape[1]):
        rows = scaled(rows, coding.unit)
        if ready is None:
            ready, atoms = prepared(coding.dictionary.astype(rows.dtype))
        codes = coding.coder.codes(ready, rows)
        new = statistics_of(rows, atoms, codes, coding.n_worst, coding.coder.penalty(codes))
        # One at a time, because they may be large.
        found = new if found is None else merge_statistics([found, new])
    return _of_nothing(coding.dictionary) if found is None else found


def _gathered(blocks: Iterator[tuple[int, Array]], least: int) -> Iterator[Array]:
    """Rows of several blocks together, at least so many but at the end: sums take a time of their own."""
    waiting: list[Array] = []
    for _, rows in blocks:
        if not waiting and len(rows) >= least:
            yield rows
            continue
        waiting.append(rows.copy())  # the next block may overwrite it
        if sum(map(len, waiting)) >= least:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


class Loss(NamedTuple):
    """Squared sums over signals."""

    energy: float  # ‖X‖²
    residual: float  # ‖X − DΓ‖²

    @property
    def error(self) -> float:
        """‖X − DΓ‖/‖X‖, and 0 for zero data."""
        return float(np.sqrt(self.residual / self.energy)) if self.energy > 0 else 0.0


def loss_of_part(blocks: Iterator[tuple[int, Array]], coding: Coding) -> Loss:
    """The loss of one part of the samples."""
    ready: Atoms | None = None
    found = [Loss(0.0, 0.0)]
    for _, rows in blocks:
        if ready is None:
            ready, atoms = prepared(coding.dictionary)
        rows = rows.astype(atoms.dtype, copy=False)
        energies, errors = energies_of_codes(rows, atoms, coding.coder.codes(ready, rows))
        found.append(Loss(float(energies.sum()), float(errors.sum())))
    return merge_losses(found)


def merge_losses(parts: Sequence[Loss]) -> Loss:
    """The loss of all signals: those of their parts, added in this order."""
    return Loss(*(reduce(add, each) for each in zip(*parts, strict=True)))


def prepared(dictionary: SparseProduct | Array) -> tuple[Atoms, Array]:
    """A dictionary (d, a) to code with, and its atoms, one per row.

    A small product is coded with as a matrix: to make it ready would take longer than it could save.
    """
    dense = multiplied(dictionary) if isinstance(dictionary, SparseProduct) else dictionary
    return Atoms(dense if dense.size <= SMALL else dictionary), np.ascontiguousarray(dense.T)


def _of_nothing(dictionary: SparseProduct | Array) -> Statistics:
    """The statistics of no signal."""
    (features, atoms), kind = dictionary.shape, wide(dictionary.dtype)
    sums = np.zeros((atoms, atoms), kind), np.zeros((atoms, features), kind)
    return Statistics(*sums, 0.0, 0.0, np.zeros(atoms), np.zeros((0, features), dictionary.dtype), np.zeros(0))


def unit_for(largest: float) -> float:
    """A power of two near ``largest``; 1 unless squares of such numbers might overflow or underflow."""
    return 1.0 if largest == 0.0 or 1e-5 < largest < 1e5 else 2.0 ** min(int(np.frexp(largest)[1]), 1023)


def scaled(rows: Array, unit: float) -> Array:
    """``rows`` divided by a power of two."""
    return shifted(rows, 1 - int(np.frexp(unit)[1]))


def in_unit(codes: sp.csc_array, unit: float) -> sp.csc_array:
    """Codes of signals that were divided by a power of two, in the unit of these signals."""
    data = shifted(codes.data, int(np.frexp(unit)[1]) - 1)
    if not np.isfinite(data).all():
        raise ValueError(
            f"signals must have codes within the range of {codes.dtype}, got signals that are too large: divide "
            "them by a power of two"
        )
    return sp.csc_array((data, codes.indices, codes.indptr), shape=codes.shape)


def residuals_of(rows: Array, atoms: Array, codes: sp.csc_array) -> Array:
    """x − Dγ, one signal per row."""
    residuals, where = rows.copy(), (codes.indptr, codes.indices, codes.data)
    split_work(lambda start, stop: subtract_codes(residuals, atoms, *where, start, stop), len(rows), 256)
    return residuals


def moments_of_rows(rows: Array, codes: sp.csc_array) -> tuple[Array, Array]:
    """ΓΓᴴ, and XΓᴴ with one atom per row, in double precision.

    Shares of the signals are summed, by one thread or several, and then added in order, so that any number of
    threads gives the same bits.
    """
    kind, (count, n_features), n_components = wide(rows.dtype), rows.shape, codes.shape[0]
    room = _SHARE_BYTES // (kind.itemsize * n_components * (n_components + n_features))
    share = max(-(-count // min(max(room, 1), _MOST_SHARES)), _LEAST_SHARE)
    starts = range(0, count, share)
    shape = len(starts), n_components
    grams, crosses = scratch("moments", ((*shape, n_components), kind), ((*shape, n_features), kind))
    grams.fill(0)
    crosses.fill(0)
    where = codes.indptr, codes.indices, codes.data

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            add_moments(rows, *where, grams[i], crosses[i], starts[i], min(starts[i] + share, count))

    split_work(run, len(starts), 1, shares=len(starts))
    half = grams.sum(axis=0)
    gram = half + half.conj().T
    np.fill_diagonal(gram, half.diagonal())
    return gram, crosses.sum(axis=0)


def energies_of(rows: Array, residuals: Array) -> Array:
    """‖r‖² of each residual, and 0 where it is rounding."""
    energies = _squares(residuals)
    energies[is_rounding(energies, _squares(rows), rows.dtype)] = 0
    return energies


def is_rounding(errors: Array, energies: Array, dtype: np.dtype[Any]) -> Array:
    """Which squared errors are rounding, given the energies of the signals."""
    return errors <= (100 * np.finfo(dtype).eps) ** 2 * energies


def energies_of_codes(rows: Array, atoms: Array, codes: sp.csc_array) -> tuple[Array, Array]:
    """‖x‖² and ‖x − Dγ‖² of each signal."""
    energies, errors = np.empty((2, len(rows)))
    where = codes.indptr, codes.indices, codes.data
    split_work(
        lambda start, stop: add_energies(rows, atoms, *where, energies, errors, start, stop), len(rows), 256
    )
    return energies, errors


def _squares(rows: Array) -> Array:
    squares = np.einsum("ij,ij->i", rows.real, rows.real)
    if rows.dtype.kind == "c":
        squares += np.einsum("ij,ij->i", rows.imag, rows.imag)
    return squares


def relative(residuals: Array, size: float) -> float:
    """‖R‖/‖X‖, and 0 for zero data."""
    return frobenius(residuals) / size if size > 0 else 0.0


def multiplied(product: SparseProduct) -> Array:
    """The dense matrix of a product: by BLAS if it is small, for which it need not be packed first."""
    rows, columns = product.shape
    if rows * columns > SMALL or not 1e-30 < abs(product.scale) < 1e30:
        return product.toarray()
    first, *others = (to_dense(factor) for factor in product.factors)
    matrix = first * product.dtype.type(product.scale)
    for factor in others:
        matrix = matrix @ factor
    return matrix


# -- signals -------------------------------------------------------------------------------------------


def enough(n_components: int) -> int:
    """The size of a random sample large enough to start from."""
    return min(max(_SAMPLE_PER_ATOM * n_components, _SAMPLE), _LARGEST_SAMPLE)


class Held:
    """Signals in memory, divided by a power of two if their squares might overflow or underflow."""

    n_passes = 0  # No passes follow, because the start has seen all signals.
    pass_share = 0.05  # Relative to the time that a start takes.

    def __init__(
        self,
        rows: Array,
        coder: Coder,
        unit: float | None = None,
        share: float = 1.0,
    ) -> None:
        self.unit = unit_for(largest_part(rows)) if unit is None else unit
        self.rows = scaled(rows, self.unit)
        self.coder = coder.within(self.unit)
        self.share = share  # Share of all signals.
        self.codes: sp.csc_array | None = None  # Codes in the last dictionary given to `statistics`.

    @property
    def start(self) -> "Held":
        """The signals to start from."""
        return self

    def part(self, rows: Array) -> "Held":
        """The same with some of the rows only."""
        part = copy(self)
        part.rows, part.share = rows, self.share * len(rows) / len(self.rows)
        return part

    def statistics(self, dictionary: SparseProduct | Array, n_worst: int = 0) -> Statistics:
        """Sums over all signals with new codes in a dictionary (d, a)."""
        ready, atoms = prepared(dictionary.astype(self.rows.dtype))
        self.codes = self.coder.codes(ready, self.rows)
        return statistics_of(self.rows, atoms, self.codes, n_worst, self.coder.penalty(self.codes))

    def error(self, dictionary: SparseProduct | Array) -> float:
        """The relative error of new codes in a dictionary (d, a); of some signals only if there are many."""
        rows = self.rows[:: max(len(self.rows) // _SOME, 1)]
        ready, atoms = prepared(dictionary.astype(rows.dtype))
        codes = self.coder.codes(ready, rows)
        return relative(residuals_of(rows, atoms, codes), frobenius(rows))


class Streamed:
    """Signals that are read part by part, and a random sample of them in memory."""

    def __init__(self, samples: Samples, coder: Coder, n_components: int, session: Session) -> None:
        self.n_passes = _PASSES
        self._samples = samples
        self._session = session
        self._count = 0  # Number of passes.
        drawn = _drawn(len(samples), enough(n_components), session.seed())
        self.pass_share = len(samples) / (_SIGNALS_PER_PASS * len(drawn))

        def tick(done: int, total: int) -> bool:
            session.tick("scan", done, total)
            return False  # there would be nothing to return

        scan = map_reduce(samples, _scan_part, drawn, _merge_scans, tick=tick)
        self.unit = unit_for(scan.largest)
        self.coder = coder.within(self.unit)
        self.contents = scan.contents
        self.start = Held(scan.rows, coder, self.unit, len(drawn) / len(samples))

    def statistics(self, dictionary: SparseProduct | Array, n_worst: int = 0) -> Statistics:
        """Sums over all signals with new codes in a dictionary (d, a)."""
        self._count += 1
        groups = {int(i): each for i, each in (self._session.take_parts() or {}).items()}
        phase = f"pass {self._count}"

        def tick(done: int, total: int) -> bool:
            self._session.keep_parts(lambda: groups)
            return self._session.tick(phase, done, total)

        coding = Coding(dictionary, self.coder, n_worst, self.unit)
        return map_reduce(self._samples, code_part, coding, merge_statistics, tick=tick, kept=groups)


Signals = Held | Streamed


def open_signals(samples: Samples, coder: Coder, n_components: int, session: Session) -> Signals:
    """The signals of a run: held in memory if they are at most as many as the sample to start from."""
    require_fits("n_components", n_components * samples.shape[1] * samples.dtype.itemsize)
    signals: Signals
    if len(samples) <= enough(n_components):
        signals = Held(samples.load(), coder)
        start, contents = "all samples", crc32(signals.rows.data) if session.keeps_checkpoints else 0
    else:
        with session.part(0.0):
            signals = Streamed(samples, coder, n_components, session)
        start, contents = "some samples", signals.contents
    session.require(samples=samples.shape, dtype=samples.dtype, start=start, contents=f"{contents:08x}")
    return signals


def codes_of(signals: Signals, rows: Array, dictionary: SparseProduct | Array) -> sp.csc_array:
    """The codes of all signals, ``rows``, in the units in which they were given."""
    if isinstance(signals, Held) and signals.codes is not None:
        return in_unit(signals.codes, signals.unit)
    rows = scaled(rows, signals.unit)
    codes = signals.coder.codes(Atoms(dictionary), rows)
    return in_unit(codes, signals.unit)


def _drawn(count: int, wanted: int, seed: int) -> Array:
    """The sorted indices of a random sample."""
    from sklearn.utils.random import sample_without_replacement  # It does not permute a billion numbers.

    return np.sort(sample_without_replacement(count, min(wanted, count), random_state=seed))


class _Scan(NamedTuple):
    """What the scan of all samples finds: the largest magnitude, a checksum, and the random sample."""

    largest: float
    contents: int
    rows: Array


def _scan_part(blocks: Any, drawn: Array) -> _Scan:
    largest, contents, rows = 0.0, 0, []
    for start, block in blocks:
        largest = max(largest, largest_part(block))
        contents = crc32(block, contents)
        first, last = np.searchsorted(drawn, [start, start + len(block)])
        rows.append(block[drawn[first:last] - start])
    return _Scan(largest, contents, np.concatenate(rows) if rows else np.zeros((0, 0)))


def _merge_scans(scans: Sequence[_Scan]) -> _Scan:
    largest = max(scan.largest for scan in scans)
    contents = crc32(np.array([scan.contents for scan in scans]).data)
    pieces = [scan.rows for scan in scans if len(scan.rows)]
    return _Scan(largest, contents, np.concatenate(pieces) if pieces else scans[0].rows)
