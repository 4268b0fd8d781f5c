"""The signals of a learner: held in memory if there are few of them, else read part by part.

A learner sees them in two ways: ``start``, in memory, is all signals or a random sample of them;
``statistics`` are sums over all signals with new codes.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import scipy.sparse as sp

from ..coding import Coder
from ..linalg import frobenius, largest_part
from ..operators import SparseProduct
from ..runtime.memory import require_fits
from ..runtime.session import Session
from ..samples import Samples, groups_of, passed_over
from ..typing import Array
from .statistics import Coding, Statistics, code_part, coder_and_atoms, merge_statistics, statistics_of
from .sums import in_unit, relative, residuals_of, scaled, unit_for

_SAMPLE, _LARGEST_SAMPLE, _SAMPLE_PER_ATOM = 50_000, 100_000, 200  # signals that are enough to start from
_SOME = 5_000  # signals that are enough to tell which of two dictionaries is better
_PASSES = 4  # over all signals that improve a start from a sample
_SIGNALS_PER_PASS = 20  # coded in a pass in the time that the start takes for one


def enough(n_components: int) -> int:
    """The size of a random sample large enough to start from."""
    return min(max(_SAMPLE_PER_ATOM * n_components, _SAMPLE), _LARGEST_SAMPLE)


class Held:
    """Signals in memory, divided by a power of two if their squares might overflow or underflow."""

    n_passes = 0  # to improve a start from a sample: here the start has seen all signals
    n_groups = 0  # whose sums a pass may keep
    pass_share = 0.05  # of the time that a start takes

    def __init__(
        self,
        rows: Array,
        n_nonzero_coefs: int,
        unit: float | None = None,
        positive: bool = False,
        share: float = 1.0,
    ) -> None:
        self.unit = unit_for(largest_part(rows)) if unit is None else unit
        self.rows = scaled(rows, self.unit)
        self.n_nonzero_coefs, self.positive = n_nonzero_coefs, positive
        self.share = share  # of all signals
        self.codes: sp.csc_array | None = None  # in the dictionary that `statistics` saw last

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
        coder, atoms = coder_and_atoms(dictionary.astype(self.rows.dtype))
        self.codes = coder.code(self.rows.T, self.n_nonzero_coefs, positive=self.positive)
        return statistics_of(self.rows, atoms, self.codes, n_worst)

    def error(self, dictionary: SparseProduct | Array) -> float:
        """The relative error of new codes in a dictionary (d, a); of some signals only if there are many."""
        rows = self.rows[:: max(len(self.rows) // _SOME, 1)]
        coder, atoms = coder_and_atoms(dictionary.astype(rows.dtype))
        codes = coder.code(rows.T, self.n_nonzero_coefs, positive=self.positive)
        return relative(residuals_of(rows, atoms, codes), frobenius(rows))


class Streamed:
    """Signals that are read part by part, and a random sample of them in memory."""

    def __init__(
        self, samples: Samples, n_nonzero_coefs: int, n_components: int, session: Session, positive: bool
    ) -> None:
        self.n_nonzero_coefs, self.positive = n_nonzero_coefs, positive
        self.n_passes = _PASSES
        self._samples = samples
        self._session = session
        self._count = 0  # of passes
        self.n_groups = len(groups_of(samples))
        self._unfinished = session.saved.get("groups", {})  # of the pass that was interrupted
        drawn = _drawn(len(samples), enough(n_components), session.seed())
        self.pass_share = len(samples) / (_SIGNALS_PER_PASS * len(drawn))

        def tick(done: int, total: int) -> bool:
            session.tick("scan", done, total)
            return False  # there would be nothing to return

        scan = passed_over(samples, _scan_part, drawn, _merge_scans, tick=tick)
        self.unit = unit_for(scan.largest)
        self.contents = scan.contents
        self.start = Held(scan.rows, n_nonzero_coefs, self.unit, positive, len(drawn) / len(samples))

    def statistics(self, dictionary: SparseProduct | Array, n_worst: int = 0) -> Statistics:
        """Sums over all signals with new codes in a dictionary (d, a)."""
        self._count += 1
        groups = {int(i): Statistics.from_state(each) for i, each in self._unfinished.items()}
        self._unfinished = {}
        phase = f"pass {self._count}"

        def tick(done: int, total: int) -> bool:
            self._session.extend(lambda: {"groups": {str(i): each._asdict() for i, each in groups.items()}})
            return self._session.tick(phase, done, total)

        coding = Coding(dictionary, self.n_nonzero_coefs, n_worst, self.unit, self.positive)
        return passed_over(self._samples, code_part, coding, merge_statistics, tick=tick, kept=groups)


Signals = Held | Streamed


def open_signals(
    samples: Samples, n_nonzero_coefs: int, n_components: int, session: Session, positive: bool = False
) -> Signals:
    """The signals of a run: held in memory if they are no more than a sample to start from."""
    require_fits("n_components", n_components * samples.shape[1] * samples.dtype.itemsize)
    signals: Signals
    if len(samples) <= enough(n_components):
        signals = Held(samples.load(), n_nonzero_coefs, positive=positive)
        start, contents = "all samples", crc32(signals.rows.data) if session.keeps_checkpoints else 0
    else:
        with session.part(0.0):
            signals = Streamed(samples, n_nonzero_coefs, n_components, session, positive)
        start, contents = "some samples", signals.contents
    session.require(samples=samples.shape, dtype=samples.dtype, start=start, contents=f"{contents:08x}")
    return signals


def codes_of(signals: Signals, rows: Array, dictionary: SparseProduct | Array) -> sp.csc_array:
    """The codes of all signals, ``rows``, in the units in which they were given."""
    if isinstance(signals, Held) and signals.codes is not None:
        return in_unit(signals.codes, signals.unit)
    rows = scaled(rows, signals.unit)
    codes = Coder(dictionary).code(rows.T, signals.n_nonzero_coefs, positive=signals.positive)
    return in_unit(codes, signals.unit)


def _drawn(count: int, wanted: int, seed: int) -> Array:
    """The sorted indices of a random sample."""
    from sklearn.utils.random import sample_without_replacement  # no permutation of a billion numbers

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
